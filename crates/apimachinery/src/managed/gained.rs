//! What a writer gains where nobody owned anything before, told in the `fieldsV1` form at once: with no owners to
//! compare with, no set of paths is needed in between.

use crate::value::Text;
use crate::{Map, Value};

use super::STRIPPED;
use super::place::{Place, Relation, Shape};
use super::set::{ITSELF, write_step};
use super::typed::{group, list_of, same};
use super::way::Way;

/// The fields of `new` that `old` lacks or has with another value, without those under `reset` and those nobody
/// owns: what [`super::compare::compare`] finds added or modified.
pub(super) fn gained(old: &Value, new: &Value, place: Place<'_>, reset: &[&[&str]]) -> Value {
    let mut walk = Walk { reset, name: String::new() };
    walk.value(Some(old), new, place, Some(&Way::ROOT)).unwrap_or_else(nothing)
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

struct Walk<'r> {
    reset: &'r [&'r [&'r str]],
    /// Room to write names in.
    name: String,
}

impl Walk<'_> {
    /// The paths that end at a value or below it, nothing where there are none.
    fn value(
        &mut self,
        old: Option<&Value>,
        new: &Value,
        place: Place<'_>,
        way: Option<&Way<'_>>,
    ) -> Option<Value> {
        if old.is_some_and(|old| same(old, new)) {
            return None;
        }
        let may_own = way.is_none_or(|way| !way.is_root() && !way.is_one_of(STRIPPED));
        let shape = place.shape(Some(new));
        let became = |old: &Value| {
            let before = place.shape(Some(old));
            !before.is_like(shape) && !has_parts(before, Some(old), None)
        };
        if !has_parts(shape, old, Some(new)) {
            return may_own.then(nothing);
        }
        let owned = may_own && old.is_none_or(became);
        let fields = match shape {
            Shape::List(relation) => {
                self.list(owned, list_of(old), list_of(Some(new)), (place, relation))
            }
            _ => self.map(owned, old.and_then(Value::as_object), new.as_object()?, place, way),
        };
        (owned || !fields.is_empty()).then_some(Value::Object(fields))
    }

    fn map(
        &mut self,
        owned: bool,
        old: Option<&Map>,
        new: &Map,
        place: Place<'_>,
        way: Option<&Way<'_>>,
    ) -> Map {
        let mut fields = Map::new();
        let mut left = new.len();
        // Both are in the order of their names.
        let mut before = old.into_iter().flatten().peekable();
        for (name, new) in new {
            while before.next_if(|(other, _)| *other < name).is_some() {}
            let old = before.next_if(|(other, _)| *other == name).map(|(_, value)| value);
            let further = way.map(|way| way.field(name));
            let is_reset = further.as_ref().is_some_and(|way| way.is_one_of(self.reset));
            if !is_reset
                && let Some(below) = self.value(old, new, place.field(name).0, further.as_ref())
            {
                if fields.is_empty() {
                    fields = Map::with_capacity(left + usize::from(owned));
                    if owned {
                        fields.insert(Text::new_static(ITSELF), nothing());
                    }
                }
                self.name.clear();
                self.name.push_str("f:");
                self.name.push_str(name);
                fields.insert(Text::new(&self.name), below);
            }
            left -= 1;
        }
        fields
    }

    fn list(
        &mut self,
        owned: bool,
        old: &[Value],
        new: &[Value],
        (place, relation): (Place<'_>, Relation<'_>),
    ) -> Map {
        let before = group(old, place, relation);
        let found = group(new, place, relation).into_iter().filter_map(|(step, new)| {
            let old = before.iter().find(|(other, _)| *other == step);
            let old = old.map_or(&[][..], |(_, old)| old.as_slice());
            let below = self.elements(old, &new, place)?;
            self.name.clear();
            write_step(&step, &mut self.name);
            Some((Text::new(&self.name), below))
        });
        let mut fields: Map = found.collect();
        if owned && !fields.is_empty() {
            fields.insert(Text::new_static(ITSELF), nothing());
        }
        fields
    }

    /// The same for elements that share an identity: one each, unless somebody broke the rules.
    fn elements(&mut self, old: &[&Value], new: &[&Value], place: Place<'_>) -> Option<Value> {
        match (old, new) {
            (_, []) => None,
            ([] | [_], [new]) => self.value(old.first().copied(), new, place.items(), None),
            (_, [new]) => self.value(None, new, place.items(), None),
            ([] | [_], _) => Some(nothing()),
            _ => {
                let all = || old.iter().zip(new).all(|(a, b)| same(a, b));
                (old.len() != new.len() || !all()).then(nothing)
            }
        }
    }
}

/// Whether values of this shape are taken apart: the shape allows it, and one of them has something inside.
fn has_parts(shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
    let has_fields = |value: &Value| value.as_object().is_some_and(|fields| !fields.is_empty());
    match shape {
        Shape::Scalar(_) | Shape::List(Relation::Atomic) | Shape::Map { atomic: true } => false,
        Shape::List(_) => !list_of(old).is_empty() || !list_of(new).is_empty(),
        Shape::Map { .. } => old.is_some_and(has_fields) || new.is_some_and(has_fields),
    }
}

//! What comparing and merging share: the fields of a value, the elements of a list by identity, and
//! equality.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::value::Text;
use crate::{Map, Value};

use super::place::{Place, Relation, Shape};
use super::set::{FieldSet, Node, Step};

/// All fields of a value.
pub(super) fn field_set(value: &Value, place: Place<'_>) -> FieldSet {
    collect(value, place).children
}

fn collect(value: &Value, place: Place<'_>) -> Node {
    let owned = Node { owned: true, ..Node::default() };
    match (place.shape(Some(value)), value) {
        (Shape::Scalar(_) | Shape::List(Relation::Atomic) | Shape::Map { atomic: true }, _) => {
            owned
        }
        (Shape::List(relation), Value::Array(items)) => {
            let mut children = FieldSet::default();
            let groups = group(items, place, relation);
            for (step, items) in groups {
                // Elements that share a key are owned as a whole.
                let inside = match items.as_slice() {
                    [item] => collect(item, place.items()).children,
                    _ => FieldSet::default(),
                };
                children.graft(step, Node { owned: true, children: inside });
            }
            Node { owned: false, children }
        }
        (Shape::Map { .. }, Value::Object(fields)) => {
            let mut children = FieldSet::default();
            for (name, value) in fields {
                let (at, declared) = place.field(name);
                let mut node = collect(value, at);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                node.owned |= is_empty || !declared;
                children.graft(Step::Field(name.to_string()), node);
            }
            Node { owned: false, children }
        }
        _ => Node::default(),
    }
}

/// Longer lists are searched by an index.
const SEARCHED: usize = 32;

/// Elements by identity, in order of first appearance; those without one are left out.
pub(super) fn group<'v>(
    items: &'v [Value],
    place: Place<'_>,
    relation: Relation<'_>,
) -> Vec<(Step, Vec<&'v Value>)> {
    let mut groups: Vec<(Step, Vec<&Value>)> = Vec::with_capacity(items.len());
    let mut index = (items.len() > SEARCHED).then(BTreeMap::new);
    for item in items {
        let Ok(step) = place.identify(item, relation) else { continue };
        let known = match &mut index {
            None => groups.iter().position(|(other, _)| *other == step),
            Some(index) => {
                let known = index.get(&step).copied();
                if known.is_none() {
                    index.insert(step.clone(), groups.len());
                }
                known
            }
        };
        match known.and_then(|known| groups.get_mut(known)) {
            Some((_, group)) => group.push(item),
            None => groups.push((step, vec![item])),
        }
    }
    groups
}

pub(super) fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], |list| list.as_slice())
}

pub(super) fn field_of<'v>(value: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    value?.as_object()?.get(name)
}

/// The names of the fields of either value.
pub(super) fn names_of<'v>(a: Option<&'v Value>, b: Option<&'v Value>) -> BTreeSet<&'v str> {
    pairs_of(a, b).map(|(name, _, _)| name).collect()
}

type Pair<'v> = (&'v str, Option<&'v Value>, Option<&'v Value>);

/// The fields of either value with what each of them holds, by name.
pub(super) fn pairs_of<'v>(
    a: Option<&'v Value>,
    b: Option<&'v Value>,
) -> impl Iterator<Item = Pair<'v>> {
    let fields = |value: Option<&'v Value>| {
        value.and_then(Value::as_object).into_iter().flatten().peekable()
    };
    let (mut a, mut b) = (fields(a), fields(b));
    // Maps are in the order of their keys.
    std::iter::from_fn(move || {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let left = if order.is_le() { a.next() } else { None };
        let right = if order.is_ge() { b.next() } else { None };
        let (name, _) = left.or(right)?;
        Some((name.as_str(), left.map(|(_, value)| value), right.map(|(_, value)| value)))
    })
}

/// Equality in which `1` and `1.0` are the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.is_same(b) || (a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_same =
                |((x, a), (y, b)): ((&Text, &Value), (&Text, &Value))| x == y && same(a, b);
            a.is_same(b) || (a.len() == b.len() && a.iter().zip(b).all(is_same))
        }
        (a, b) => a == b,
    }
}

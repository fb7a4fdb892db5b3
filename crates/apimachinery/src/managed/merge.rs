//! Laying one value on another, and taking fields out of one.

use std::collections::BTreeSet;

use crate::value::Text;
use crate::{Map, Value};

use super::place::{Place, Relation, Shape};
use super::set::{FieldSet, Step};
use super::typed::{field_of, list_of, names_of};

/// Lays `over` on `base`; nothing is removed.
pub(super) fn merge(base: &Value, over: &Value, place: Place<'_>) -> Value {
    merge_at(Some(base), Some(over), place).unwrap_or_default()
}

fn merge_at(base: Option<&Value>, over: Option<&Value>, place: Place<'_>) -> Option<Value> {
    let decisive = over.or(base);
    match place.shape(decisive) {
        Shape::List(relation) if !matches!(relation, Relation::Atomic) => {
            let (below, above) = (list_of(base), list_of(over));
            if !below.is_empty() || !above.is_empty() {
                return merge_lists(below, above, place, relation);
            }
        }
        Shape::Map { atomic: false } => {
            let names = names_of(base, over);
            if !names.is_empty() {
                let merged = names.into_iter().filter_map(|name| {
                    let (base, over) = (field_of(base, name), field_of(over, name));
                    Some((name.to_owned(), merge_at(base, over, place.field(name).0)?))
                });
                let merged: Map = merged.collect();
                return (!merged.is_empty()).then_some(Value::Object(merged));
            }
        }
        _ => {}
    }
    decisive.cloned()
}

/// Elements with their identities; stored ones that break the rules keep their place.
fn identified<'v>(
    items: &'v [Value],
    place: Place<'_>,
    relation: Relation<'_>,
) -> Vec<(Step, &'v Value)> {
    let identify = |(index, item): (usize, &'v Value)| {
        let step = place.identify(item, relation);
        (step.unwrap_or(Step::Index(index as u64)), item)
    };
    items.iter().enumerate().map(identify).collect()
}

/// Merges lists whose elements have identities: the order of `above` wins among shared elements,
/// the rest keeps its place relative to its neighbours.
fn merge_lists(
    below: &[Value],
    above: &[Value],
    place: Place<'_>,
    relation: Relation<'_>,
) -> Option<Value> {
    let (below, above) = (identified(below, place, relation), identified(above, place, relation));
    let in_base = |step: &Step| {
        let mut found = below.iter().filter(|(one, _)| one == step);
        let (_, first) = found.next()?;
        Some(if found.next().is_some() { &Value::Null } else { *first })
    };
    let in_above: BTreeSet<&Step> = above.iter().map(|(step, _)| step).collect();
    let in_below: BTreeSet<&Step> = below.iter().map(|(step, _)| step).collect();
    let mut shared = above.iter().map(|(step, _)| step).filter(|step| in_below.contains(step));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Step> = BTreeSet::new();
    let mut merged = Vec::with_capacity(below.len().max(above.len()));
    let (mut l, mut r) = (0, 0);
    while l < below.len() || r < above.len() {
        let (left, right) = (below.get(l), above.get(r));
        if let (Some((left, _)), Some((right, _))) = (left, right) {
            // An element that comes later in the wanted order waits for its turn there.
            let waits = in_above.contains(left) && next_shared.is_some_and(|next| next != left);
            if left != right && waits {
                l += 1;
                continue;
            }
        }
        match (left, right) {
            (Some((step, item)), _) if !in_above.contains(step) => {
                merged.extend(merge_at(Some(item), None, place.items()));
                l += 1;
                continue;
            }
            (Some((left, _)), Some((right, _))) if left == right => l += 1,
            (Some((left, _)), _) if done.contains(left) => l += 1,
            _ => {}
        }
        if let Some((step, item)) = right {
            merged.extend(merge_at(in_base(step), Some(item), place.items()));
            done.insert(step);
            r += 1;
            if next_shared == Some(step) {
                next_shared = shared.next();
            }
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged.into()))
}

/// Takes the fields of `set` out of a value; what becomes empty reads null.
pub(super) fn remove(value: &Value, set: &FieldSet, place: Place<'_>) -> Value {
    match (place.shape(Some(value)), value) {
        (Shape::Scalar(_), value) => value.clone(),
        (Shape::List(relation), Value::Array(items)) if !matches!(relation, Relation::Atomic) => {
            let keep = |item: &Value| {
                let Ok(step) = place.identify(item, relation) else { return Some(item.clone()) };
                if set.owns(&step) {
                    return None;
                }
                Some(match set.below(&step) {
                    Some(set) => remove(item, set, place.items()),
                    None => item.clone(),
                })
            };
            let kept: Vec<Value> = items.iter().filter_map(keep).collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept.into()) }
        }
        (Shape::Map { atomic: false }, Value::Object(fields)) => {
            let keep = |(name, value): (&Text, &Value)| {
                let step = Step::Field(name.to_string());
                if set.owns(&step) {
                    return None;
                }
                let value = match set.below(&step) {
                    Some(set) => remove(value, set, place.field(name).0),
                    None => value.clone(),
                };
                Some((name.clone(), value))
            };
            let kept: Map = fields.iter().filter_map(keep).collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

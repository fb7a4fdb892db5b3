//! Walks over values along their places: checking them, listing their fields, comparing, merging
//! and removing. All of it is pure; none of it knows who owns what.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::place::{Place, Relation, Scalar, Shape};
use super::set::{FieldSet, Node, Step};

/// Whether elements of a list may share a key: what is stored may, what is applied may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Says why a value does not fit its place, or nothing. The text is Kubernetes'.
pub(super) fn check(value: &Value, place: Place<'_>, duplicates: Duplicates) -> Option<String> {
    let mut errors = Vec::new();
    check_at(value, place, duplicates, "", &mut errors);
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

fn check_at(
    value: &Value,
    place: Place<'_>,
    duplicates: Duplicates,
    path: &str,
    errors: &mut Vec<String>,
) {
    let mut refuse = |message: String| {
        errors.push(if path.is_empty() { message } else { format!("{path}: {message}") });
    };
    match (place.shape(Some(value)), value) {
        (_, Value::Null) => {}
        (Shape::Scalar(scalar), value) => {
            if let Some(message) = check_scalar(value, scalar) {
                refuse(message);
            }
        }
        (Shape::List(relation), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let step = if matches!(relation, Relation::Atomic) {
                    Step::Index(index as u64)
                } else {
                    match place.identify(item, relation) {
                        Ok(step) => step,
                        Err(why) => {
                            let at = if path.is_empty() { "" } else { ": " };
                            errors.push(format!("{path}{at}element {index}: {why}"));
                            return;
                        }
                    }
                };
                if !seen.insert(step.clone()) && duplicates == Duplicates::Refused {
                    errors.push(format!("{path}: duplicate entries for key {step}"));
                }
                check_at(item, place.items(), duplicates, &format!("{path}{step}"), errors);
            }
        }
        (Shape::Map { .. }, Value::Object(fields)) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match place.field(name).0 {
                    Place::Unknown => {
                        errors.push(format!("{path}: field not declared in schema"));
                        return;
                    }
                    at => check_at(value, at, duplicates, &path, errors),
                }
            }
        }
        (Shape::List(_), value) => refuse(format!("expected list, got &{{{}}}", go_text(value))),
        (Shape::Map { .. }, value) => refuse(format!("expected map, got &{{{}}}", go_text(value))),
    }
}

fn check_scalar(value: &Value, scalar: Scalar) -> Option<String> {
    match (scalar, value) {
        (Scalar::Number, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Flag, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Number, other) => {
            let kind = match other {
                Value::Bool(_) => "bool",
                Value::String(_) => "string",
                Value::Array(_) => "[]interface {}",
                _ => "map[string]interface {}",
            };
            Some(format!("expected numeric (int or float), got {kind}"))
        }
        (Scalar::Text, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_text(other)
        )),
        (Scalar::Flag, other) => Some(format!("expected boolean, got &{{{}}}", go_text(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", go_text(other))),
    }
}

fn go_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

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
                children.graft(Step::Field(name.clone()), node);
            }
            Node { owned: false, children }
        }
        _ => Node::default(),
    }
}

/// Elements by identity, in order of first appearance; those without one are left out.
fn group<'v>(
    items: &'v [Value],
    place: Place<'_>,
    relation: Relation<'_>,
) -> Vec<(Step, Vec<&'v Value>)> {
    let mut groups: Vec<(Step, Vec<&Value>)> = Vec::new();
    let mut places: BTreeMap<Step, usize> = BTreeMap::new();
    for item in items {
        let Ok(step) = place.identify(item, relation) else { continue };
        match places.get(&step).and_then(|index| groups.get_mut(*index)) {
            Some((_, group)) => group.push(item),
            None => {
                places.insert(step.clone(), groups.len());
                groups.push((step, vec![item]));
            }
        }
    }
    groups
}

/// What changed between two values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn without(&self, fields: &FieldSet) -> Self {
        if fields.is_empty() {
            return self.clone();
        }
        Self {
            added: self.added.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            removed: self.removed.recursive_difference(fields),
        }
    }

    pub(super) fn changed(&self) -> FieldSet {
        self.modified.union(&self.added)
    }
}

pub(super) fn compare(old: &Value, new: &Value, place: Place<'_>) -> Comparison {
    let mut walk = CompareWalk { path: Vec::new(), found: Comparison::default() };
    walk.values(Some(old), Some(new), place);
    walk.found
}

struct CompareWalk {
    path: Vec<Step>,
    found: Comparison,
}

impl CompareWalk {
    fn values(&mut self, old: Option<&Value>, new: Option<&Value>, place: Place<'_>) {
        if let (Some(old), Some(new)) = (old, new)
            && same(old, new)
        {
            return;
        }
        let (old_shape, new_shape) = (place.shape(old), place.shape(new));
        let shape = if new.is_some() { new_shape } else { old_shape };
        if old.is_some() && new.is_some() && !old_shape.is_like(new_shape) {
            self.shaped(old, new, place, old_shape);
        }
        let is_leaf = self.shaped(old, new, place, shape);
        if !is_leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares as one shape; says whether the value was compared as a whole.
    fn shaped(
        &mut self,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
        shape: Shape<'_>,
    ) -> bool {
        match shape {
            Shape::List(relation) if !matches!(relation, Relation::Atomic) => {
                let (old, new) = (list_of(old), list_of(new));
                if !old.is_empty() || !new.is_empty() {
                    self.lists(old, new, place, relation);
                    return false;
                }
            }
            Shape::Map { atomic: false } => {
                let names = names_of(old, new);
                if !names.is_empty() {
                    for name in names {
                        self.path.push(Step::Field(name.to_owned()));
                        let (old, new) = (field_of(old, name), field_of(new, name));
                        self.values(old, new, place.field(name).0);
                        self.path.pop();
                    }
                    return false;
                }
            }
            _ => {}
        }
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if !same(old, new) => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn lists(&mut self, old: &[Value], new: &[Value], place: Place<'_>, relation: Relation<'_>) {
        let mut pairs: BTreeMap<Step, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for (step, items) in group(old, place, relation) {
            pairs.entry(step).or_default().0 = items;
        }
        for (step, items) in group(new, place, relation) {
            pairs.entry(step).or_default().1 = items;
        }
        for (step, (old, new)) in pairs {
            self.path.push(step);
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.values(old.first().copied(), new.first().copied(), place.items());
                }
                ([_, _, ..], [_, _, ..]) => {
                    if old.len() != new.len() || !old.iter().zip(&new).all(|(a, b)| same(a, b)) {
                        self.found.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], _) => {
                    if let Some(new) = new.first() {
                        self.values(None, Some(new), place.items());
                    }
                    self.found.removed.insert(&self.path);
                }
                (_, _) => {
                    if let Some(old) = old.first() {
                        self.values(Some(old), None, place.items());
                    }
                    self.found.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}

fn field_of<'v>(value: Option<&'v Value>, name: &str) -> Option<&'v Value> {
    value?.as_object()?.get(name)
}

/// The names of the fields of either value.
fn names_of<'v>(a: Option<&'v Value>, b: Option<&'v Value>) -> BTreeSet<&'v str> {
    let names = |value: Option<&'v Value>| {
        value.and_then(Value::as_object).into_iter().flat_map(|fields| fields.keys())
    };
    names(a).chain(names(b)).map(String::as_str).collect()
}

/// Equality in which `1` and `1.0` are the same number.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

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
                let merged: Map<String, Value> = merged.collect();
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
    (!merged.is_empty()).then_some(Value::Array(merged))
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
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Shape::Map { atomic: false }, Value::Object(fields)) => {
            let keep = |(name, value): (&String, &Value)| {
                let step = Step::Field(name.clone());
                if set.owns(&step) {
                    return None;
                }
                let value = match set.below(&step) {
                    Some(set) => remove(value, set, place.field(name).0),
                    None => value.clone(),
                };
                Some((name.clone(), value))
            };
            let kept: Map<String, Value> = fields.iter().filter_map(keep).collect();
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

//! What changed between two values, told by the fields their places make of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::place::{Place, Relation, Shape};
use super::set::{FieldSet, Step};
use super::typed::{field_of, group, list_of, names_of, same};

/// What changed between two values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn without(mut self, fields: &FieldSet) -> Self {
        for part in [&mut self.added, &mut self.modified, &mut self.removed] {
            part.take_away_below(fields);
        }
        self
    }

    /// What is new or has another value, and what is gone.
    pub(super) fn into_parts(self) -> (FieldSet, FieldSet) {
        let changed = match (self.modified.is_empty(), self.added.is_empty()) {
            (true, _) => self.added,
            (_, true) => self.modified,
            _ => self.modified.union(&self.added),
        };
        (changed, self.removed)
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

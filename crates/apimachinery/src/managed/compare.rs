//! What changed between two values, told by the fields their places make of them.

use std::collections::BTreeMap;

use crate::Value;

use super::place::{Place, Relation, Shape};
use super::set::{FieldSet, Node, Step};
use super::typed::{group, list_of, pairs_of, same};

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
    let found = values(Some(old), Some(new), place);
    Comparison {
        added: found.added.children,
        modified: found.modified.children,
        removed: found.removed.children,
    }
}

/// What changed at one place and below it.
#[derive(Default)]
struct Found {
    added: Node,
    modified: Node,
    removed: Node,
}

impl Found {
    /// Takes in what was found behind a step. Most steps lead to nothing, so they are made when needed.
    fn take_in(&mut self, below: Self, step: impl Fn() -> Step) {
        let mine = [&mut self.added, &mut self.modified, &mut self.removed];
        for (mine, below) in mine.into_iter().zip([below.added, below.modified, below.removed]) {
            if !below.is_empty() {
                mine.children.join(step(), below);
            }
        }
    }
}

fn values(old: Option<&Value>, new: Option<&Value>, place: Place<'_>) -> Found {
    let mut found = Found::default();
    if let (Some(old), Some(new)) = (old, new)
        && same(old, new)
    {
        return found;
    }
    let (old_shape, new_shape) = (place.shape(old), place.shape(new));
    let shape = if new.is_some() { new_shape } else { old_shape };
    if old.is_some() && new.is_some() && !old_shape.is_like(new_shape) {
        shaped(old, new, place, old_shape, &mut found);
    }
    let is_leaf = shaped(old, new, place, shape, &mut found);
    if !is_leaf {
        found.added.owned |= old.is_none();
        found.removed.owned |= old.is_some() && new.is_none();
    }
    found
}

/// Compares as one shape; says whether the value was compared as a whole.
fn shaped(
    old: Option<&Value>,
    new: Option<&Value>,
    place: Place<'_>,
    shape: Shape<'_>,
    found: &mut Found,
) -> bool {
    match shape {
        Shape::List(relation) if !matches!(relation, Relation::Atomic) => {
            let (old, new) = (list_of(old), list_of(new));
            if !old.is_empty() || !new.is_empty() {
                lists(old, new, place, relation, found);
                return false;
            }
        }
        Shape::Map { atomic: false } => {
            let mut has_fields = false;
            for (name, old, new) in pairs_of(old, new) {
                has_fields = true;
                let below = values(old, new, place.field(name).0);
                found.take_in(below, || Step::Field(name.to_owned()));
            }
            if has_fields {
                return false;
            }
        }
        _ => {}
    }
    match (old, new) {
        (None, _) => found.added.owned = true,
        (_, None) => found.removed.owned = true,
        (Some(old), Some(new)) => found.modified.owned |= !same(old, new),
    }
    true
}

fn lists(
    old: &[Value],
    new: &[Value],
    place: Place<'_>,
    relation: Relation<'_>,
    found: &mut Found,
) {
    let mut later: BTreeMap<_, _> = group(new, place, relation).into_iter().collect();
    for (step, old) in group(old, place, relation) {
        let new = later.remove(&step).unwrap_or_default();
        elements(&old, &new, place, step, found);
    }
    for (step, new) in later {
        elements(&[], &new, place, step, found);
    }
}

/// Compares the elements that share an identity: one each, unless somebody broke the rules.
fn elements(old: &[&Value], new: &[&Value], place: Place<'_>, step: Step, found: &mut Found) {
    let mut below = Found::default();
    match (old, new) {
        ([] | [_], [] | [_]) => {
            below = values(old.first().copied(), new.first().copied(), place.items());
        }
        ([_, _, ..], [_, _, ..]) => {
            below.modified.owned =
                old.len() != new.len() || !old.iter().zip(new).all(|(a, b)| same(a, b));
        }
        ([_, _, ..], _) => {
            if let Some(new) = new.first() {
                below = values(None, Some(new), place.items());
            }
            below.removed.owned = true;
        }
        (_, _) => {
            if let Some(old) = old.first() {
                below = values(Some(old), None, place.items());
            }
            below.added.owned = true;
        }
    }
    found.take_in(below, || step.clone());
}

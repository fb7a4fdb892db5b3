//! What changed between two values, told by the fields their places make of them.

use std::collections::BTreeMap;

use crate::Value;

use super::place::{Place, Relation, Shape};
use super::set::{FieldSet, Node, Step};
use super::typed::{group, list_of, pairs_of, same};
use super::way::Way;

/// What changed between two values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

impl Comparison {
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

/// Compares two objects, except for the fields `reset` and all below them.
pub(super) fn compare(old: &Value, new: &Value, place: Place<'_>, reset: &[&[&str]]) -> Comparison {
    let found = Compare { reset }.values(Some(old), Some(new), place, Some(&Way::ROOT));
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

struct Compare<'r> {
    reset: &'r [&'r [&'r str]],
}

impl Compare<'_> {
    fn values(
        &self,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
        way: Option<&Way<'_>>,
    ) -> Found {
        let mut found = Found::default();
        if let (Some(old), Some(new)) = (old, new)
            && same(old, new)
        {
            return found;
        }
        let (old_shape, new_shape) = (place.shape(old), place.shape(new));
        let shape = if new.is_some() { new_shape } else { old_shape };
        if old.is_some() && new.is_some() && !old_shape.is_like(new_shape) {
            self.shaped(old, new, place, old_shape, way, &mut found);
        }
        let is_leaf = self.shaped(old, new, place, shape, way, &mut found);
        if !is_leaf {
            found.added.owned |= old.is_none();
            found.removed.owned |= old.is_some() && new.is_none();
        }
        found
    }

    /// Compares as one shape; says whether the value was compared as a whole.
    fn shaped(
        &self,
        old: Option<&Value>,
        new: Option<&Value>,
        place: Place<'_>,
        shape: Shape<'_>,
        way: Option<&Way<'_>>,
        found: &mut Found,
    ) -> bool {
        match shape {
            Shape::List(relation) if !matches!(relation, Relation::Atomic) => {
                let (old, new) = (list_of(old), list_of(new));
                if !old.is_empty() || !new.is_empty() {
                    self.lists(old, new, place, relation, found);
                    return false;
                }
            }
            Shape::Map { atomic: false } => {
                let mut has_fields = false;
                for (name, old, new) in pairs_of(old, new) {
                    has_fields = true;
                    let further = way.map(|way| way.field(name));
                    if further.as_ref().is_some_and(|way| way.is_one_of(self.reset)) {
                        continue;
                    }
                    let below = self.values(old, new, place.field(name).0, further.as_ref());
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
        &self,
        old: &[Value],
        new: &[Value],
        place: Place<'_>,
        relation: Relation<'_>,
        found: &mut Found,
    ) {
        let mut later: BTreeMap<_, _> = group(new, place, relation).into_iter().collect();
        for (step, old) in group(old, place, relation) {
            let new = later.remove(&step).unwrap_or_default();
            self.elements(&old, &new, place, step, found);
        }
        for (step, new) in later {
            self.elements(&[], &new, place, step, found);
        }
    }

    /// Compares the elements that share an identity: one each, unless somebody broke the rules.
    fn elements(
        &self,
        old: &[&Value],
        new: &[&Value],
        place: Place<'_>,
        step: Step,
        found: &mut Found,
    ) {
        let mut below = Found::default();
        match (old, new) {
            ([] | [_], [] | [_]) => {
                below =
                    self.values(old.first().copied(), new.first().copied(), place.items(), None);
            }
            ([_, _, ..], [_, _, ..]) => {
                below.modified.owned =
                    old.len() != new.len() || !old.iter().zip(new).all(|(a, b)| same(a, b));
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    below = self.values(None, Some(new), place.items(), None);
                }
                below.removed.owned = true;
            }
            (_, _) => {
                if let Some(old) = old.first() {
                    below = self.values(Some(old), None, place.items(), None);
                }
                below.added.owned = true;
            }
        }
        found.take_in(below, || step.clone());
    }
}

//! The items of a JSON list, shared until somebody changes them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};

use ecow::EcoVec;

use super::Value;

/// A list of values. A copy is a new owner of the same items.
#[derive(Clone, Default, Eq)]
pub struct List(EcoVec<Value>);

impl List {
    pub const fn new() -> Self {
        Self(EcoVec::new())
    }

    pub fn with_capacity(capacity: usize) -> Self {
        Self(EcoVec::with_capacity(capacity))
    }

    pub fn as_slice(&self) -> &[Value] {
        self.0.as_slice()
    }

    pub fn as_mut_slice(&mut self) -> &mut [Value] {
        self.0.make_mut()
    }

    /// Whether both are the same items in memory, so that nothing can differ.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && std::ptr::eq(self.0.as_ptr(), other.0.as_ptr())
    }

    pub fn push(&mut self, value: Value) {
        self.0.push(value);
    }

    pub fn pop(&mut self) -> Option<Value> {
        self.0.pop()
    }

    /// Puts a value before the item at `place`, which is at most the length.
    pub fn insert(&mut self, place: usize, value: Value) {
        self.0.insert(place, value);
    }

    /// Takes out the item at `place`, which is less than the length.
    pub fn remove(&mut self, place: usize) -> Value {
        self.0.remove(place)
    }

    pub fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Keeps the items that `keep` says yes to; it is asked once for each.
    pub fn retain(&mut self, mut keep: impl FnMut(&Value) -> bool) {
        // A list that keeps everything stays shared.
        let Some(first) = self.0.iter().position(|value| !keep(value)) else { return };
        let mut place = 0;
        self.0.retain(|value| {
            place += 1;
            place <= first || (place > first + 1 && keep(value))
        });
    }

    pub fn retain_mut(&mut self, mut keep: impl FnMut(&mut Value) -> bool) {
        self.0.retain(|value| keep(value));
    }

    pub fn append(&mut self, others: &mut Self) {
        self.extend(std::mem::take(others));
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl Hash for List {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0
    }
}

impl DerefMut for List {
    fn deref_mut(&mut self) -> &mut [Value] {
        self.0.make_mut()
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl From<Vec<Value>> for List {
    fn from(values: Vec<Value>) -> Self {
        Self(values.into())
    }
}

impl From<EcoVec<Value>> for List {
    fn from(values: EcoVec<Value>) -> Self {
        Self(values)
    }
}

impl From<List> for Vec<Value> {
    fn from(list: List) -> Self {
        list.into_iter().collect()
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl Extend<Value> for List {
    fn extend<I: IntoIterator<Item = Value>>(&mut self, values: I) {
        self.0.extend(values);
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = ecow::vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'l> IntoIterator for &'l List {
    type Item = &'l Value;
    type IntoIter = std::slice::Iter<'l, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'l> IntoIterator for &'l mut List {
    type Item = &'l mut Value;
    type IntoIter = std::slice::IterMut<'l, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.make_mut().iter_mut()
    }
}

impl PartialEq<Vec<Value>> for List {
    fn eq(&self, other: &Vec<Value>) -> bool {
        **self == **other
    }
}

impl PartialEq<[Value]> for List {
    fn eq(&self, other: &[Value]) -> bool {
        **self == *other
    }
}

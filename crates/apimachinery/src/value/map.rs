//! The fields of a JSON object, sorted by name and shared until somebody changes them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops;

use ecow::EcoVec;

use super::{Text, Value};

/// Up to so many names are compared one by one: that is sooner done than halving.
const FEW: usize = 8;

/// Names with values, sorted by name. A copy is a new owner of the same fields.
#[derive(Clone, Default, Eq)]
pub struct Map(EcoVec<(Text, Value)>);

impl Map {
    pub const fn new() -> Self {
        Self(EcoVec::new())
    }

    pub fn with_capacity(capacity: usize) -> Self {
        Self(EcoVec::with_capacity(capacity))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether both are the same fields in memory, so that nothing can differ.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && std::ptr::eq(self.0.as_ptr(), other.0.as_ptr())
    }

    fn find(&self, name: &str) -> Option<usize> {
        if self.0.len() <= FEW {
            self.0.iter().position(|(other, _)| other.as_str() == name)
        } else {
            self.search(name).ok()
        }
    }

    /// Where the name is, or where it belongs.
    fn search(&self, name: &str) -> Result<usize, usize> {
        match self.0.last() {
            None => Err(0),
            // Most maps are made in the order of their names.
            Some((last, _)) if last.as_str() < name => Err(self.0.len()),
            _ => self.0.binary_search_by(|(other, _)| other.as_str().cmp(name)),
        }
    }

    pub fn get(&self, name: impl AsRef<str>) -> Option<&Value> {
        let place = self.find(name.as_ref())?;
        self.0.get(place).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, name: impl AsRef<str>) -> Option<&mut Value> {
        let place = self.find(name.as_ref())?;
        self.at_mut(place)
    }

    fn at_mut(&mut self, place: usize) -> Option<&mut Value> {
        self.0.make_mut().get_mut(place).map(|(_, value)| value)
    }

    pub fn get_key_value(&self, name: impl AsRef<str>) -> Option<(&Text, &Value)> {
        let place = self.find(name.as_ref())?;
        self.0.get(place).map(|(name, value)| (name, value))
    }

    pub fn contains_key(&self, name: impl AsRef<str>) -> bool {
        self.find(name.as_ref()).is_some()
    }

    /// Sets a field; the value it had is returned.
    pub fn insert(&mut self, name: impl Into<Text> + AsRef<str>, value: Value) -> Option<Value> {
        match self.search(name.as_ref()) {
            Ok(place) => self.at_mut(place).map(|held| std::mem::replace(held, value)),
            Err(place) => {
                self.put(place, name.into(), value);
                None
            }
        }
    }

    fn put(&mut self, place: usize, name: Text, value: Value) {
        if place == self.0.len() {
            self.0.push((name, value));
        } else {
            self.0.insert(place, (name, value));
        }
    }

    pub fn remove(&mut self, name: impl AsRef<str>) -> Option<Value> {
        self.remove_entry(name).map(|(_, value)| value)
    }

    pub fn remove_entry(&mut self, name: impl AsRef<str>) -> Option<(Text, Value)> {
        let place = self.find(name.as_ref())?;
        Some(self.0.remove(place))
    }

    pub fn entry(&mut self, name: impl Into<Text>) -> Entry<'_> {
        let name = name.into();
        let place = self.search(&name);
        Entry { map: self, name, place }
    }

    /// Keeps the fields that `keep` says yes to.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &mut Value) -> bool) {
        self.0.retain(|(name, value)| keep(name, value));
    }

    pub fn append(&mut self, others: &mut Self) {
        self.extend(std::mem::take(others));
    }

    pub fn first_key_value(&self) -> Option<(&Text, &Value)> {
        self.0.first().map(|(name, value)| (name, value))
    }

    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.iter())
    }

    pub fn iter_mut(&mut self) -> IterMut<'_> {
        IterMut(self.0.make_mut().iter_mut())
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Text> + ExactSizeIterator + Clone {
        self.0.iter().map(|(name, _)| name)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn values_mut(
        &mut self,
    ) -> impl DoubleEndedIterator<Item = &mut Value> + ExactSizeIterator {
        self.0.make_mut().iter_mut().map(|(_, value)| value)
    }

    pub fn into_values(self) -> impl Iterator<Item = Value> {
        self.0.into_iter().map(|(_, value)| value)
    }

    pub fn into_keys(self) -> impl Iterator<Item = Text> {
        self.0.into_iter().map(|(name, _)| name)
    }

    /// A map of fields in any order; of those with one name the last one counts.
    pub(super) fn from_fields(mut fields: EcoVec<(Text, Value)>) -> Self {
        if !fields.is_sorted_by(|(one, _), (next, _)| one < next) {
            fields.make_mut().sort_by(|(one, _), (other, _)| one.cmp(other));
            if fields.is_sorted_by(|(one, _), (next, _)| one < next) {
                return Self(fields);
            }
            let mut sorted = Self(EcoVec::with_capacity(fields.len()));
            for (name, value) in fields {
                sorted.insert(name, value);
            }
            return sorted;
        }
        Self(fields)
    }
}

type Pair = (Text, Value);

/// The fields in the order of their names.
#[derive(Clone)]
pub struct Iter<'m>(std::slice::Iter<'m, Pair>);

pub struct IterMut<'m>(std::slice::IterMut<'m, Pair>);

impl<'m> Iterator for Iter<'m> {
    type Item = (&'m Text, &'m Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(name, value)| (name, value))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'m> Iterator for IterMut<'m> {
    type Item = (&'m Text, &'m mut Value);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (&*name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for IterMut<'_> {}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl Hash for Map {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// A field that is there or could be.
pub struct Entry<'m> {
    map: &'m mut Map,
    name: Text,
    place: Result<usize, usize>,
}

impl<'m> Entry<'m> {
    pub fn key(&self) -> &Text {
        &self.name
    }

    pub fn is_vacant(&self) -> bool {
        self.place.is_err()
    }

    pub fn or_insert(self, value: Value) -> &'m mut Value {
        self.or_insert_with(|| value)
    }

    pub fn or_insert_with(self, value: impl FnOnce() -> Value) -> &'m mut Value {
        let place = match self.place {
            Ok(place) => place,
            Err(place) => {
                self.map.put(place, self.name, value());
                place
            }
        };
        self.map.at_mut(place).expect("it was found or put there")
    }

    pub fn or_default(self) -> &'m mut Value {
        self.or_insert(Value::Null)
    }

    pub fn and_modify(self, change: impl FnOnce(&mut Value)) -> Self {
        if let Some(value) = self.place.ok().and_then(|place| self.map.at_mut(place)) {
            change(value);
        }
        self
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<N: AsRef<str>> ops::Index<N> for Map {
    type Output = Value;

    fn index(&self, name: N) -> &Value {
        match self.get(name.as_ref()) {
            Some(value) => value,
            None => panic!("no field {:?}", name.as_ref()),
        }
    }
}

impl<K: Into<Text>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(fields: I) -> Self {
        Self::from_fields(
            fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        )
    }
}

impl<K: Into<Text>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, fields: I) {
        for (name, value) in fields {
            self.insert(name.into(), value.into());
        }
    }
}

impl<K: Into<Text>, V: Into<Value>, const N: usize> From<[(K, V); N]> for Map {
    fn from(fields: [(K, V); N]) -> Self {
        fields.into_iter().collect()
    }
}

impl IntoIterator for Map {
    type Item = (Text, Value);
    type IntoIter = ecow::vec::IntoIter<Pair>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'m> IntoIterator for &'m Map {
    type Item = (&'m Text, &'m Value);
    type IntoIter = Iter<'m>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'m> IntoIterator for &'m mut Map {
    type Item = (&'m Text, &'m mut Value);
    type IntoIter = IterMut<'m>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

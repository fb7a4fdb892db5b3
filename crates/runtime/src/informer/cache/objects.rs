//! Objects that are found by their names, each in a place of its own that indexes can point to.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::hash_table::{Entry, HashTable};
use karmada_client::Object;
use parking_lot::Mutex;

use crate::Hashed;

/// Where an object is, for as long as it is there.
pub(super) type Place = u32;

type Name<'a> = (&'a str, &'a str);

pub(super) fn name_of(object: &Object) -> Name<'_> {
    (object.namespace(), object.name())
}

#[derive(Default)]
pub(super) struct Objects {
    kept: Kept,
    /// The places by the names of what is there.
    by_name: HashTable<Place>,
    hashed: Hashed,
    free: Vec<Place>,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Kept(Vec<Option<Arc<Object>>>);

impl Kept {
    fn at(&self, place: Place) -> Option<&Arc<Object>> {
        self.0.get(place as usize)?.as_ref()
    }

    fn name_at(&self, place: Place) -> Name<'_> {
        self.at(place).map_or(("", ""), |object| name_of(object))
    }

    /// Puts the object there, and returns what was there before.
    fn put(&mut self, place: Place, object: Arc<Object>) -> Option<Arc<Object>> {
        match self.0.get_mut(place as usize) {
            Some(kept) => kept.replace(object),
            None => {
                self.0.push(Some(object));
                None
            }
        }
    }
}

/// The places in the order of the names, found when somebody asks.
#[derive(Default)]
struct Order {
    places: Vec<Place>,
    /// How many of them are in order; the others came later.
    sorted: usize,
    /// Whether one of them is no longer what it was.
    is_stale: bool,
}

impl Order {
    fn restore(&mut self, kept: &Kept) -> &[Place] {
        if self.is_stale {
            let all = (0..).zip(&kept.0).filter(|(_, object)| object.is_some());
            self.places = all.map(|(place, _)| place).collect();
            (self.sorted, self.is_stale) = (0, false);
        }
        if self.sorted < self.places.len() {
            // What is in order already is one run, which a stable sort makes use of.
            self.places.sort_by(|a, b| kept.name_at(*a).cmp(&kept.name_at(*b)));
            self.sorted = self.places.len();
        }
        &self.places
    }
}

fn hash(hashed: &Hashed, (namespace, name): Name<'_>) -> u64 {
    let mut hasher = hashed.build_hasher();
    hasher.write(namespace.as_bytes());
    // There is no slash in a namespace.
    hasher.write_u8(b'/');
    hasher.write(name.as_bytes());
    hasher.finish()
}

impl Objects {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn at(&self, place: Place) -> Option<&Arc<Object>> {
        self.kept.at(place)
    }

    /// All objects and their places, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &Arc<Object>)> {
        (0..).zip(&self.kept.0).filter_map(|(place, object)| Some((place, object.as_ref()?)))
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        let (hash, name) = (hash(&self.hashed, (namespace, name)), (namespace, name));
        let place = self.by_name.find(hash, |place| self.kept.name_at(*place) == name)?;
        self.at(*place)
    }

    /// Puts an object where the one of its name is; returns the place, and what was there before.
    pub(super) fn put(&mut self, object: Arc<Object>) -> (Place, Option<Arc<Object>>) {
        let Self { kept, by_name, hashed, free, order } = self;
        let name = name_of(&object);
        let is_same = |place: &Place| kept.name_at(*place) == name;
        let rehash = |place: &Place| hash(hashed, kept.name_at(*place));
        let place = match by_name.entry(hash(hashed, name), is_same, rehash) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                // Nobody has four thousand million objects in memory.
                let next = || Place::try_from(kept.0.len()).expect("objects can be numbered");
                let place = free.pop().unwrap_or_else(next);
                new.insert(place);
                order.get_mut().places.push(place);
                place
            }
        };
        (place, kept.put(place, object))
    }

    pub(super) fn take(&mut self, namespace: &str, name: &str) -> Option<(Place, Arc<Object>)> {
        let Self { kept, by_name, hashed, free, order } = self;
        let (hash, name) = (hash(hashed, (namespace, name)), (namespace, name));
        let found = by_name.find_entry(hash, |place| kept.name_at(*place) == name).ok()?;
        let (place, _) = found.remove();
        let object = kept.0.get_mut(place as usize)?.take()?;
        free.push(place);
        order.get_mut().is_stale = true;
        Some((place, object))
    }

    /// Lends all objects in the order of their names.
    pub(super) fn in_order<T>(&self, look: impl FnOnce(Ordered<'_>) -> T) -> T {
        let mut order = self.order.lock();
        look(Ordered { kept: &self.kept, places: order.restore(&self.kept).iter() })
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        let mut order = self.order.lock();
        let places = order.restore(&self.kept);
        let first = places.partition_point(|place| self.kept.name_at(*place).0 < namespace);
        let objects = places[first..].iter().filter_map(|place| self.kept.at(*place));
        objects.take_while(|object| object.namespace() == namespace).cloned().collect()
    }
}

/// Objects in the order of their names.
pub(super) struct Ordered<'a> {
    kept: &'a Kept,
    places: std::slice::Iter<'a, Place>,
}

impl<'a> Iterator for Ordered<'a> {
    type Item = &'a Arc<Object>;

    fn next(&mut self) -> Option<Self::Item> {
        self.places.by_ref().find_map(|place| self.kept.at(*place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

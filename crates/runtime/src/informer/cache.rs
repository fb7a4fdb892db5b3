//! The objects of an informer, by name and by every index asked for.

mod objects;

use std::collections::BTreeSet;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use karmada_client::Object;
use parking_lot::RwLock;

use self::objects::{Objects, Place};
use crate::{Hashed, ObjectKey};

type IndexFn = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// Objects by their keys. Reading shares them, nothing is copied; lists are in the order of the keys.
#[derive(Default)]
pub struct Cache {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    objects: Objects,
    indexes: Vec<(&'static str, Index)>,
}

struct Index {
    terms: IndexFn,
    /// Whether the terms are read from the spec alone, which is the same as long as the generation is.
    of_spec: bool,
    places: HashMap<String, Places, Hashed>,
}

/// Where the objects of a term are. Most terms have one.
enum Places {
    One(Place),
    Many(BTreeSet<Place>),
}

impl Places {
    fn insert(&mut self, place: Place) {
        match self {
            Self::One(other) if *other == place => {}
            Self::One(other) => *self = Self::Many([*other, place].into()),
            Self::Many(all) => drop(all.insert(place)),
        }
    }

    /// Returns whether any are left.
    fn remove(&mut self, place: Place) -> bool {
        match self {
            Self::One(other) => *other != place,
            Self::Many(all) => {
                all.remove(&place);
                !all.is_empty()
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = Place> {
        let (one, many) = match self {
            Self::One(place) => (Some(*place), None),
            Self::Many(all) => (None, Some(all)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }
}

impl Index {
    fn insert(&mut self, place: Place, terms: Vec<String>) {
        for term in terms {
            match self.places.entry(term) {
                Entry::Vacant(term) => drop(term.insert(Places::One(place))),
                Entry::Occupied(mut term) => term.get_mut().insert(place),
            }
        }
    }

    /// Most changes leave an object where it is.
    fn replace(&mut self, place: Place, old: &Object, new: &Object) {
        if self.of_spec && has_same_spec(old, new) {
            return;
        }
        let (before, after) = ((self.terms)(old), (self.terms)(new));
        if before != after {
            self.remove(place, before);
            self.insert(place, after);
        }
    }

    fn remove(&mut self, place: Place, terms: Vec<String>) {
        for term in terms {
            if self.places.get_mut(&term).is_some_and(|places| !places.remove(place)) {
                self.places.remove(&term);
            }
        }
    }
}

fn has_same_spec(old: &Object, new: &Object) -> bool {
    let (before, after) = (old.meta(), new.meta());
    // Kinds without a generation do not say what changed.
    after.generation != 0 && before.generation == after.generation && before.uid == after.uid
}

impl Cache {
    /// Adds an index, filled from what is cached already. A name stands for one function: adding
    /// it again changes nothing.
    pub fn add_index(
        &self,
        name: &'static str,
        terms: impl Fn(&Object) -> Vec<String> + Send + Sync + 'static,
    ) {
        self.add(name, false, Arc::new(terms));
    }

    /// The same for terms that are read from the spec alone. They are not asked for again when only the metadata or the
    /// status of an object change, which is most of the time.
    pub fn add_spec_index(
        &self,
        name: &'static str,
        terms: impl Fn(&Object) -> Vec<String> + Send + Sync + 'static,
    ) {
        self.add(name, true, Arc::new(terms));
    }

    fn add(&self, name: &'static str, of_spec: bool, terms: IndexFn) {
        let mut state = self.state.write();
        if state.indexes.iter().any(|(known, _)| *known == name) {
            return;
        }
        let mut index = Index { terms, of_spec, places: HashMap::default() };
        for (place, object) in state.objects.iter() {
            index.insert(place, (index.terms)(object));
        }
        state.indexes.push((name, index));
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.state.read().objects.get(&key.namespace, &key.name).cloned()
    }

    pub fn list(&self) -> Vec<Arc<Object>> {
        self.state.read().objects.in_order(|objects| objects.cloned().collect())
    }

    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        self.state.read().objects.in_namespace(namespace)
    }

    pub fn keys(&self) -> Vec<ObjectKey> {
        let state = self.state.read();
        state.objects.in_order(|objects| objects.map(|object| ObjectKey::of(object)).collect())
    }

    pub fn len(&self) -> usize {
        self.state.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects an index lists under a term, in the order of their keys.
    pub fn by_index(&self, name: &str, term: &str) -> Vec<Arc<Object>> {
        let state = self.state.read();
        let index = state.indexes.iter().find(|(known, _)| *known == name);
        let places = index.and_then(|(_, index)| index.places.get(term));
        let places = places.into_iter().flat_map(Places::iter);
        let mut found: Vec<_> =
            places.filter_map(|place| state.objects.at(place).cloned()).collect();
        drop(state);
        found.sort_unstable_by(|a, b| objects::name_of(a).cmp(&objects::name_of(b)));
        found
    }

    pub(super) fn apply(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        let mut state = self.state.write();
        let State { objects, indexes } = &mut *state;
        let (place, old) = objects.put(object.clone());
        for (_, index) in indexes {
            match &old {
                Some(old) => index.replace(place, old, &object),
                None => index.insert(place, (index.terms)(&object)),
            }
        }
        old
    }

    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let mut state = self.state.write();
        let State { objects, indexes } = &mut *state;
        let (place, old) = objects.take(&key.namespace, &key.name)?;
        for (_, index) in indexes {
            index.remove(place, (index.terms)(&old));
        }
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn object(namespace: &str, name: &str, app: &str) -> Arc<Object> {
        let value =
            json!({"metadata": {"namespace": namespace, "name": name, "labels": {"app": app}}});
        Arc::new(Object::from_value(&value).unwrap())
    }

    fn names(objects: &[Arc<Object>]) -> Vec<String> {
        objects.iter().map(|object| ObjectKey::of(object).to_string()).collect()
    }

    #[test]
    fn indexes_follow_changes_and_may_come_late() {
        let cache = Cache::default();
        cache.apply(object("x", "a", "web"));
        cache.add_index("app", |object| object.meta().labels.values().map(str::to_owned).collect());
        cache.apply(object("x", "b", "web"));
        cache.apply(object("y", "c", "db"));
        assert_eq!(names(&cache.by_index("app", "web")), ["x/a", "x/b"]);
        cache.apply(object("x", "a", "db"));
        cache.remove(&ObjectKey::new("x", "b"));
        assert!(cache.by_index("app", "web").is_empty());
        assert_eq!(names(&cache.by_index("app", "db")), ["x/a", "y/c"]);
        assert_eq!(names(&cache.list_namespace("x")), ["x/a"]);
        assert!(cache.by_index("unknown", "web").is_empty());
    }

    #[test]
    fn an_index_of_the_spec_asks_again_when_the_generation_changes() {
        let cache = Cache::default();
        cache.add_spec_index("node", |object| {
            let value = object.value();
            value
                .get("node")
                .and_then(|node| node.as_str())
                .map(str::to_owned)
                .into_iter()
                .collect()
        });
        let put = |uid: &str, generation: i64, node: &str| {
            let metadata = json!({"name": "a", "uid": uid, "generation": generation});
            let value = json!({"metadata": metadata, "node": node});
            cache.apply(Arc::new(Object::from_value(&value).unwrap()));
        };
        let at = |node: &str| cache.by_index("node", node).len();
        put("u", 1, "n1");
        // The same generation would not have another spec; if it had, nobody would look.
        put("u", 1, "n2");
        assert_eq!((at("n1"), at("n2")), (1, 0));
        put("u", 0, "n2");
        put("u", 0, "n1");
        assert_eq!((at("n1"), at("n2")), (1, 0));
        put("u", 2, "n2");
        assert_eq!((at("n1"), at("n2")), (0, 1));
        put("other", 2, "n1");
        assert_eq!((at("n1"), at("n2")), (1, 0));
    }

    #[test]
    fn lists_are_in_order_however_the_objects_came_and_went() {
        let cache = Cache::default();
        cache.add_index("app", |object| object.meta().labels.values().map(str::to_owned).collect());
        let mut expected = std::collections::BTreeSet::new();
        // Numbers that neither rise nor repeat in short runs.
        for n in 0..500_u32 {
            let number = n * 7919 % 211;
            let (namespace, name) = (["a", "a-b", "b", ""][n as usize % 4], number.to_string());
            let key = ObjectKey::new(namespace, &name);
            if n % 3 == 0 && expected.remove(&key) {
                assert_eq!(cache.remove(&key).unwrap().name(), name);
                assert!(cache.get(&key).is_none() && cache.remove(&key).is_none());
            } else {
                cache.apply(object(namespace, &name, "web"));
                assert_eq!(cache.get(&key).unwrap().name(), name);
                expected.insert(key);
            }
            if n % 5 == 0 {
                assert!(cache.keys().iter().eq(&expected), "after {n}");
                let listed = names(&cache.by_index("app", "web"));
                assert!(
                    listed.iter().eq(expected
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .iter())
                );
                for namespace in ["a", "a-b", "b", "", "c"] {
                    let own = expected.iter().filter(|key| key.namespace == namespace);
                    let own: Vec<_> = own.map(ToString::to_string).collect();
                    assert_eq!(names(&cache.list_namespace(namespace)), own);
                }
            }
        }
        assert_eq!(cache.len(), expected.len());
    }
}

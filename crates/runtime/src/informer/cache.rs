//! The objects of an informer, by name and by every index asked for.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use karmada_client::Object;
use parking_lot::RwLock;

use crate::ObjectKey;

type IndexFn = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// Objects in the order of their keys. Reading shares them, nothing is copied.
#[derive(Default)]
pub struct Cache {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    /// The keys are shared with the indexes.
    objects: BTreeMap<Arc<ObjectKey>, Arc<Object>>,
    indexes: HashMap<&'static str, Index>,
}

struct Index {
    terms: IndexFn,
    keys: HashMap<String, BTreeSet<Arc<ObjectKey>>>,
}

impl Index {
    fn insert(&mut self, key: &Arc<ObjectKey>, object: &Object) {
        self.insert_at(key, (self.terms)(object));
    }

    fn insert_at(&mut self, key: &Arc<ObjectKey>, terms: Vec<String>) {
        for term in terms {
            self.keys.entry(term).or_default().insert(key.clone());
        }
    }

    /// Most changes leave an object where it is.
    fn replace(&mut self, key: &Arc<ObjectKey>, old: &Object, new: &Object) {
        let (before, after) = ((self.terms)(old), (self.terms)(new));
        if before != after {
            self.remove_from(key, before);
            self.insert_at(key, after);
        }
    }

    fn remove(&mut self, key: &ObjectKey, object: &Object) {
        self.remove_from(key, (self.terms)(object));
    }

    fn remove_from(&mut self, key: &ObjectKey, terms: Vec<String>) {
        for term in terms {
            if let Some(keys) = self.keys.get_mut(&term) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&term);
                }
            }
        }
    }
}

impl Cache {
    /// Adds an index, filled from what is cached already. A name stands for one function: adding
    /// it again changes nothing.
    pub fn add_index(
        &self,
        name: &'static str,
        terms: impl Fn(&Object) -> Vec<String> + Send + Sync + 'static,
    ) {
        let mut state = self.state.write();
        if state.indexes.contains_key(name) {
            return;
        }
        let mut index = Index { terms: Arc::new(terms), keys: HashMap::new() };
        for (key, object) in &state.objects {
            index.insert(key, object);
        }
        state.indexes.insert(name, index);
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.state.read().objects.get(key).cloned()
    }

    pub fn list(&self) -> Vec<Arc<Object>> {
        self.state.read().objects.values().cloned().collect()
    }

    pub fn list_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        let state = self.state.read();
        let from = state.objects.range::<ObjectKey, _>(ObjectKey::new(namespace, "")..);
        let own = from.take_while(|(key, _)| key.namespace == namespace);
        own.map(|(_, object)| object.clone()).collect()
    }

    pub fn keys(&self) -> Vec<ObjectKey> {
        self.state.read().objects.keys().map(|key| ObjectKey::clone(key)).collect()
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
        let keys = state.indexes.get(name).and_then(|index| index.keys.get(term));
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| state.objects.get(&**key).cloned()).collect()
    }

    pub(super) fn apply(&self, object: Arc<Object>) -> Option<Arc<Object>> {
        let key = ObjectKey::of(&object);
        let mut state = self.state.write();
        let State { objects, indexes } = &mut *state;
        let (key, old) = match objects.entry(Arc::new(key)) {
            Entry::Vacant(place) => {
                let key = place.key().clone();
                place.insert(object.clone());
                (key, None)
            }
            Entry::Occupied(mut place) => {
                let old = place.insert(object.clone());
                (place.key().clone(), Some(old))
            }
        };
        for index in indexes.values_mut() {
            match &old {
                Some(old) => index.replace(&key, old, &object),
                None => index.insert(&key, &object),
            }
        }
        old
    }

    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let mut state = self.state.write();
        let old = state.objects.remove(key)?;
        for index in state.indexes.values_mut() {
            index.remove(key, &old);
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
        cache.add_index("app", |object| object.meta().labels.values().cloned().collect());
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
}

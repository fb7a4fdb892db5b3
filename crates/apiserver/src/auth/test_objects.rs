//! Stored objects as a plain list, for tests.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt;
use parking_lot::RwLock;

use super::Objects;

#[derive(Default)]
pub(crate) struct MapObjects(pub(crate) RwLock<Vec<Arc<Value>>>);

impl MapObjects {
    pub(crate) fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        Self(RwLock::new(objects.into_iter().map(Arc::new).collect()))
    }

    pub(crate) fn remove(&self, kind: &str, name: &str) {
        self.0.write().retain(|object| object.kind() != kind || object.name() != name);
    }
}

impl Objects for MapObjects {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let mut found = self.list(resource, Some(namespace));
        found.retain(|object| object.name() == name);
        found.pop()
    }

    fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let objects = self.0.read();
        let wanted = |object: &&Arc<Value>| {
            let plural = format!("{}s", object.kind().to_lowercase());
            object.gvk().group == resource.group
                && plural == resource.resource
                && namespace.is_none_or(|namespace| object.namespace() == namespace)
        };
        objects.iter().filter(wanted).cloned().collect()
    }
}

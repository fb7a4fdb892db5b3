//! Reading and writing well-known places of an object tree.

use crate::{Map, Value};

use crate::gvk::{GroupVersion, Gvk};

/// Accessors for Kubernetes objects kept as JSON trees. A missing or wrong-typed place reads as absent.
pub trait ObjectExt {
    fn at(&self, path: &[&str]) -> Option<&Value>;
    fn str_at(&self, path: &[&str]) -> Option<&str>;
    fn i64_at(&self, path: &[&str]) -> Option<i64>;
    fn bool_at(&self, path: &[&str]) -> Option<bool>;
    fn list_at(&self, path: &[&str]) -> &[Value];
    fn map_at(&self, path: &[&str]) -> Option<&Map>;

    fn name(&self) -> &str {
        self.str_at(&["metadata", "name"]).unwrap_or_default()
    }
    fn namespace(&self) -> &str {
        self.str_at(&["metadata", "namespace"]).unwrap_or_default()
    }
    fn uid(&self) -> &str {
        self.str_at(&["metadata", "uid"]).unwrap_or_default()
    }
    fn resource_version(&self) -> &str {
        self.str_at(&["metadata", "resourceVersion"]).unwrap_or_default()
    }
    fn api_version(&self) -> &str {
        self.str_at(&["apiVersion"]).unwrap_or_default()
    }
    fn kind(&self) -> &str {
        self.str_at(&["kind"]).unwrap_or_default()
    }
    fn gvk(&self) -> Gvk {
        GroupVersion::parse(self.api_version()).unwrap_or_default().with_kind(self.kind())
    }
    fn label(&self, key: &str) -> Option<&str> {
        self.str_at(&["metadata", "labels", key])
    }
    fn annotation(&self, key: &str) -> Option<&str> {
        self.str_at(&["metadata", "annotations", key])
    }
    fn is_being_deleted(&self) -> bool {
        self.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
    }
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.list_at(&["metadata", "finalizers"]).iter().any(|f| f == finalizer)
    }
}

impl ObjectExt for Value {
    fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, step| value.get(step))
    }
    fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }
    fn i64_at(&self, path: &[&str]) -> Option<i64> {
        self.at(path)?.as_i64()
    }
    fn bool_at(&self, path: &[&str]) -> Option<bool> {
        self.at(path)?.as_bool()
    }
    fn list_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_array).map_or(&[], |list| list.as_slice())
    }
    fn map_at(&self, path: &[&str]) -> Option<&Map> {
        self.at(path)?.as_object()
    }
}

/// Changes at well-known places; intermediate maps are made where they are missing.
pub trait ObjectMutExt {
    fn set(&mut self, path: &[&str], value: impl Into<Value>);
    /// Sets only where nothing (or null) stands yet.
    fn set_default(&mut self, path: &[&str], value: impl Into<Value>);
    fn remove_at(&mut self, path: &[&str]) -> Option<Value>;
    fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value>;
    /// The map at `path`, made empty where it is missing or not a map.
    fn map_at_mut(&mut self, path: &[&str]) -> &mut Map;
    fn list_at_mut(&mut self, path: &[&str]) -> &mut [Value];
}

impl ObjectMutExt for Value {
    fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        if let Some((last, parents)) = path.split_last() {
            self.map_at_mut(parents).insert(*last, value.into());
        }
    }
    fn set_default(&mut self, path: &[&str], value: impl Into<Value>) {
        if self.at(path).is_none_or(Value::is_null) {
            self.set(path, value);
        }
    }
    fn remove_at(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        self.at_mut(parents)?.as_object_mut()?.remove(*last)
    }
    fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |value, step| value.get_mut(step))
    }
    fn map_at_mut(&mut self, path: &[&str]) -> &mut Map {
        let mut value = self;
        for step in path {
            value = as_map(value).entry(*step).or_insert(Value::Null);
        }
        as_map(value)
    }
    fn list_at_mut(&mut self, path: &[&str]) -> &mut [Value] {
        self.at_mut(path).and_then(Value::as_array_mut).map_or(&mut [], |list| list.as_mut_slice())
    }
}

fn as_map(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("was just made a map")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn absent_and_wrong_typed_places_read_as_absent() {
        let object = json!({"metadata": {"name": 3, "labels": null}, "spec": []});
        assert_eq!(object.name(), "");
        assert_eq!(object.label("a"), None);
        assert!(object.list_at(&["spec", "x"]).is_empty());
    }

    #[test]
    fn setting_makes_missing_maps_and_defaults_keep_what_is_there() {
        let mut object = json!({"spec": {"replicas": 0, "paused": null}});
        object.set_default(&["spec", "replicas"], 1);
        object.set_default(&["spec", "paused"], false);
        object.set(&["metadata", "labels", "a"], "b");
        assert_eq!(
            object,
            json!({"spec": {"replicas": 0, "paused": false}, "metadata": {"labels": {"a": "b"}}})
        );
    }
}

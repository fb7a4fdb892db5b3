//! An object as it came from a server: its text, its metadata, and whatever type it was read as
//! last. The text is a twelfth of the size of a parsed tree, so trees are made when asked for.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::object::ObjectMutExt;
use karmada_apimachinery::readable::Readable;
use karmada_handover::{Shown, with_version};
use serde::Deserialize;

use crate::alike::{self, Labels, Owners};
use crate::slim;

/// Reference to an owner in `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: Option<bool>,
    pub block_owner_deletion: Option<bool>,
}

/// The metadata caches are indexed by.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    /// Shared with other objects that have the same.
    #[serde(deserialize_with = "read_labels")]
    pub labels: Arc<BTreeMap<String, String>>,
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Shared with other objects that have the same.
    #[serde(deserialize_with = "read_owners")]
    pub owner_references: Arc<[OwnerReference]>,
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
    pub creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            name: String::new(),
            namespace: String::new(),
            uid: String::new(),
            resource_version: String::new(),
            generation: 0,
            labels: alike::no_labels(),
            annotations: BTreeMap::new(),
            owner_references: alike::no_owners(),
            finalizers: Vec::new(),
            creation_timestamp: None,
            deletion_timestamp: None,
        }
    }
}

fn read_labels<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    or_default(deserializer).map(alike::labels)
}

fn read_owners<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Owners, D::Error> {
    or_default(deserializer).map(alike::owners)
}

/// Reads `null` as nothing.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An object of any kind. Hand it around as `Arc<Object>`.
pub struct Object {
    gvk: Arc<Gvk>,
    meta: Meta,
    bytes: Bytes,
    /// Where the version belongs in the text, if it is not there.
    version_at: Option<usize>,
    parsed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Head {
    api_version: String,
    kind: String,
    metadata: Meta,
}

impl Object {
    /// Reads an object; `gvk` is its kind where the text does not name one, as in lists.
    pub fn from_bytes(bytes: Bytes, gvk: &Gvk) -> serde_json::Result<Self> {
        let head: Head = serde_json::from_slice(&bytes)?;
        let gvk = match GroupVersion::parse(&head.api_version) {
            Some(version) if !head.kind.is_empty() && !head.api_version.is_empty() => {
                version.with_kind(head.kind)
            }
            _ => gvk.clone(),
        };
        let (gvk, meta) = (alike::kind(gvk), head.metadata);
        Ok(Self { gvk, meta, bytes, version_at: None, parsed: OnceLock::new() })
    }

    /// Reads an object of a server of the same process, once for all who ask for it. Its text is that of
    /// the server, not a copy.
    pub fn shared(shown: &Arc<dyn Shown>) -> serde_json::Result<Arc<Self>> {
        if let Some(known) = shown.made().get() {
            return Ok(known);
        }
        let mut object = Self::from_bytes(shown.text().clone(), &Gvk::default())?;
        object.meta.resource_version = shown.revision().to_string();
        object.version_at = Some(shown.version_at());
        let object = Arc::new(object);
        shown.made().set(&object);
        Ok(object)
    }

    pub fn from_value(value: &Value) -> serde_json::Result<Self> {
        Self::from_bytes(serde_json::to_vec(value)?.into(), &Gvk::default())
    }

    /// Keeps what ownership is read from and drops text, labels and annotations. For those who follow
    /// every object there is.
    pub fn into_bare(self: Arc<Self>) -> Arc<Self> {
        let (gvk, mut meta) = match Arc::try_unwrap(self) {
            Ok(own) => (own.gvk, own.meta),
            Err(shared) => (shared.gvk.clone(), shared.meta.clone()),
        };
        (meta.annotations, meta.creation_timestamp) = Default::default();
        meta.labels = alike::no_labels();
        let (bytes, version_at) = (Bytes::new(), None);
        Arc::new(Self { gvk, meta, bytes, version_at, parsed: OnceLock::new() })
    }

    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub fn name(&self) -> &str {
        &self.meta.name
    }

    pub fn namespace(&self) -> &str {
        &self.meta.namespace
    }

    pub fn uid(&self) -> &str {
        &self.meta.uid
    }

    pub fn resource_version(&self) -> &str {
        &self.meta.resource_version
    }

    pub fn is_being_deleted(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// The text of the object. The version may be missing in it; [`Object::read`] knows it.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Reads the object as a type of its own, without keeping the result.
    pub fn read<T: Readable>(&self) -> serde_json::Result<T> {
        match self.version_at {
            None => T::from_text(&self.bytes),
            Some(at) => {
                let text = with_version(&self.bytes, at, &self.meta.resource_version);
                T::from_text(&text)
            }
        }
    }

    /// Parses the whole object. The tree names its kind even if the text does not.
    pub fn value(&self) -> Value {
        let mut value: Value = self.read().unwrap_or_default();
        value.set_default(&["apiVersion"], self.gvk.api_version());
        value.set_default(&["kind"], self.gvk.kind.as_str());
        value
    }

    /// Parses the object without the record of who wrote which field.
    pub fn content(&self) -> Value {
        let mut value = slim::parse(&self.bytes).unwrap_or_default();
        if self.version_at.is_some() {
            value.set(&["metadata", "resourceVersion"], self.meta.resource_version.as_str());
        }
        value.set_default(&["apiVersion"], self.gvk.api_version());
        value.set_default(&["kind"], self.gvk.kind.as_str());
        value
    }

    /// Reads the object as a type of its own. The first type asked for is kept, so that asking
    /// again costs nothing; other types are read anew every time.
    pub fn typed<T: Readable>(&self) -> serde_json::Result<Arc<T>> {
        if let Some(kept) = self.parsed.get().and_then(|kept| kept.clone().downcast().ok()) {
            return Ok(kept);
        }
        let parsed = Arc::new(self.read::<T>()?);
        // Whoever was faster keeps its own.
        drop(self.parsed.set(parsed.clone()));
        Ok(parsed)
    }
}

/// Objects may hold secrets, so only their name is shown.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Meta { namespace, name, resource_version, .. } = &self.meta;
        write!(f, "{} {namespace}/{name}@{resource_version}", self.gvk.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn kind_comes_from_the_text_or_from_the_list() {
        let listed = Gvk::new("apps", "v1", "Deployment");
        let cases = [
            (json!({"metadata": {"name": "a"}}), listed.clone()),
            (json!({"apiVersion": "v1", "kind": "Pod"}), Gvk::new("", "v1", "Pod")),
        ];
        for (value, expected) in cases {
            let object = Object::from_bytes(value.to_string().into(), &listed).unwrap();
            assert_eq!(object.gvk(), &expected);
            assert_eq!(object.value()["kind"], expected.kind.as_str());
        }
    }

    #[test]
    fn nulls_in_metadata_read_as_nothing() {
        let value = json!({"metadata": {"name": "a", "labels": null, "finalizers": null,
            "deletionTimestamp": null, "ownerReferences": null}});
        let object = Object::from_value(&value).unwrap();
        assert!(!object.is_being_deleted() && object.meta().labels.is_empty());
    }
}

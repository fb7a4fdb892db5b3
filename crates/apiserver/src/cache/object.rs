//! One stored object: its encoded bytes, made once, and the small head that filters look at.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use karmada_apimachinery::Value;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a filter, a list and the garbage collector need to know without parsing the object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Head {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub labels: BTreeMap<String, String>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An object as the store holds it, with its version stamped into the bytes. The bytes are in the
/// storage version of the resource.
#[derive(Debug)]
pub struct StoredObject {
    /// The key below the prefix of its resource: `namespace/name` or `name`.
    pub key: Arc<str>,
    pub revision: i64,
    pub head: Head,
    /// `kind` and `apiVersion` come first, so that lists can leave them out.
    pub bytes: Bytes,
    /// Where in `bytes` the fields after `kind` and `apiVersion` begin.
    bare_from: usize,
    /// Values of the fields a selector may name beyond name and namespace.
    pub fields: Vec<(Arc<str>, String)>,
    value: OnceLock<Arc<Value>>,
}

/// The stored bytes cannot be read as an object.
#[derive(Debug, thiserror::Error)]
#[error("decode stored object {key}")]
pub struct Unreadable {
    key: String,
    source: serde_json::Error,
}

impl StoredObject {
    /// Reads an object from the store, stamping `revision` into it.
    pub fn read(key: Arc<str>, value: &[u8], revision: i64) -> Result<Self, Unreadable> {
        let unreadable = |source| Unreadable { key: key.to_string(), source };
        let fields: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_slice(value).map_err(unreadable)?;
        let metadata = fields.get("metadata").map_or("{}", |raw| raw.get());
        let head: Head = serde_json::from_str(metadata).map_err(unreadable)?;
        let (bytes, bare_from) = lay_out(&fields, metadata, revision, value.len());
        Ok(Self {
            key,
            revision,
            head,
            bytes,
            bare_from,
            fields: Vec::new(),
            value: OnceLock::new(),
        })
    }

    /// Wraps a tree; `revision` is stamped into it.
    pub fn from_value(key: Arc<str>, value: &Value, revision: i64) -> Result<Self, Unreadable> {
        Self::read(key, value.to_string().as_bytes(), revision)
    }

    /// What follows `{` when the object is written without kind and API version.
    pub fn bare(&self) -> Bytes {
        self.bytes.slice(self.bare_from..)
    }

    /// The same state under another version.
    pub fn restamped(&self, revision: i64) -> Self {
        let old = format!("\"resourceVersion\":\"{}\"", self.revision);
        let new = format!("\"resourceVersion\":\"{revision}\"");
        // The version is the first field of the metadata, which come first after kind and version.
        let at = self.bare_from + "\"metadata\":{".len();
        let mut bytes = Vec::with_capacity(self.bytes.len() + 4);
        bytes.extend_from_slice(&self.bytes[..at]);
        bytes.extend_from_slice(new.as_bytes());
        bytes.extend_from_slice(&self.bytes[at + old.len()..]);
        Self {
            key: self.key.clone(),
            revision,
            head: self.head.clone(),
            bytes: bytes.into(),
            bare_from: self.bare_from,
            fields: self.fields.clone(),
            value: OnceLock::new(),
        }
    }

    /// Parses the object anew; the tree is the caller's.
    pub fn to_value(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// The parsed object, kept for the lifetime of this version. For the few kinds every request asks for.
    pub fn shared_value(&self) -> Arc<Value> {
        self.value.get_or_init(|| Arc::new(self.to_value())).clone()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(&self.head.name),
            "metadata.namespace" => Some(&self.head.namespace),
            other => {
                self.fields.iter().find(|(field, _)| **field == *other).map(|(_, v)| v.as_str())
            }
        }
    }
}

/// Writes the object anew: kind, API version, then metadata with its version, then the rest.
fn lay_out(
    fields: &BTreeMap<Cow<'_, str>, &RawValue>,
    metadata: &str,
    revision: i64,
    length: usize,
) -> (Bytes, usize) {
    let mut out = Vec::with_capacity(length + 42);
    out.push(b'{');
    for name in ["kind", "apiVersion"] {
        if let Some(raw) = fields.get(name) {
            out.extend_from_slice(format!("\"{name}\":{},", raw.get()).as_bytes());
        }
    }
    let bare_from = out.len();
    let inner = metadata.trim().trim_start_matches('{');
    let comma = if inner.trim_start().starts_with('}') { "" } else { "," };
    out.extend_from_slice(
        format!("\"metadata\":{{\"resourceVersion\":\"{revision}\"{comma}{inner}").as_bytes(),
    );
    for (name, raw) in fields {
        if !matches!(name.as_ref(), "kind" | "apiVersion" | "metadata") {
            let name = serde_json::to_string(name).unwrap_or_default();
            out.extend_from_slice(format!(",{name}:{}", raw.get()).as_bytes());
        }
    }
    out.push(b'}');
    (out.into(), bare_from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn the_version_is_stamped_into_the_metadata_of_the_object_only() {
        let stored =
            json!({"data": {"x": {"metadata": {}}}, "metadata": {"name": "a", "labels": null}});
        let object = StoredObject::read("a".into(), stored.to_string().as_bytes(), 7).unwrap();
        assert_eq!(object.head.name, "a");
        let expected = json!({"data": {"x": {"metadata": {}}},
            "metadata": {"name": "a", "labels": null, "resourceVersion": "7"}});
        assert_eq!(object.to_value(), expected);
    }

    #[test]
    fn lists_leave_kind_and_version_out() {
        let stored = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "zeta": 1});
        let object = StoredObject::read("a".into(), stored.to_string().as_bytes(), 7).unwrap();
        let bare = format!("{{{}", String::from_utf8_lossy(&object.bare()));
        let expected = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "zeta": 1});
        assert_eq!(serde_json::from_str::<Value>(&bare).unwrap(), expected);
    }

    #[test]
    fn an_empty_metadata_map_stays_valid() {
        let object = StoredObject::read("a".into(), br#"{"metadata":{}}"#, 7).unwrap();
        assert_eq!(object.to_value(), json!({"metadata": {"resourceVersion": "7"}}));
    }
}

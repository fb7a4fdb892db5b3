//! The schemas of the built-in kinds, unpacked from the generated tables on first use.

use std::collections::HashMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use karmada_apimachinery::Value;
use karmada_apimachinery::decode::{Mismatch, normalise};
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::openapi::{ResourceDoc, SchemaDoc, SubresourceDoc};
use karmada_apimachinery::protobuf::{self, Descriptors};
use karmada_apimachinery::schema::{Cursor, Definitions};

static DEFINITIONS: LazyLock<Definitions> = LazyLock::new(|| {
    Definitions::parse(&unpack(include_bytes!("../data/definitions.json.gz")))
        .expect("the generated definitions are well formed")
});

static MESSAGES: LazyLock<Descriptors> =
    LazyLock::new(|| Descriptors::parse(&unpack(include_bytes!("../data/messages.json.gz"))));

/// A group, a version and a kind.
type Key<'a> = (&'a str, &'a str, &'a str);

/// Definition names by kind.
static BY_KIND: LazyLock<HashMap<Key<'static>, &'static str>> = LazyLock::new(|| {
    let mut by_kind = HashMap::new();
    for name in DEFINITIONS.names() {
        let kinds = DEFINITIONS.get(name).and_then(|schema| schema.extensions.kinds.as_deref());
        for kind in kinds.and_then(Value::as_array).into_iter().flatten() {
            let part = |key: &str| kind.get(key).and_then(Value::as_str).unwrap_or_default();
            by_kind.insert((part("group"), part("version"), part("kind")), name);
        }
    }
    by_kind
});

/// Every definition of the built-in API.
pub fn definitions() -> &'static Definitions {
    &DEFINITIONS
}

/// The name of the definition that describes a kind.
pub fn definition_of(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    BY_KIND.get(&(group, version, kind)).copied()
}

/// The schema of a kind.
pub fn of(group: &str, version: &str, kind: &str) -> Option<Cursor<'static>> {
    DEFINITIONS.cursor(definition_of(group, version, kind)?)
}

/// The name of the protobuf message of a kind; definitions and messages share their names.
pub fn message_of(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    definition_of(group, version, kind).filter(|name| MESSAGES.contains(name))
}

/// Every protobuf message of the built-in API.
pub fn messages() -> &'static Descriptors {
    &MESSAGES
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error(transparent)]
    Wire(#[from] protobuf::Error),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind { api_version: String, kind: String },
}

/// Decodes a body in the protobuf envelope into a normalised object of its kind.
pub fn decode_protobuf(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = protobuf::decode_envelope(body)?;
    let unknown = || ProtobufError::UnknownKind {
        api_version: envelope.api_version.clone(),
        kind: envelope.kind.clone(),
    };
    let gv = GroupVersion::parse(&envelope.api_version).ok_or_else(unknown)?;
    let name = message_of(&gv.group, &gv.version, &envelope.kind)
        // Options and other meta types are sent under the version they are used with.
        .or_else(|| message_of("", "v1", &envelope.kind))
        .ok_or_else(unknown)?;
    let cursor = DEFINITIONS.cursor(name).ok_or_else(unknown)?;
    let mut object = normalise(MESSAGES.decode(name, envelope.raw)?, cursor)?;
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion", envelope.api_version.into());
        fields.insert("kind", envelope.kind.into());
    }
    Ok(object)
}

/// Encodes an object of a built-in kind with its envelope; nothing for kinds without a message.
pub fn encode_protobuf(object: &Value) -> Option<Result<Vec<u8>, protobuf::Error>> {
    let gvk = object.gvk();
    let name = message_of(&gvk.group, &gvk.version, &gvk.kind)?;
    let encoded = MESSAGES.encode(&DEFINITIONS, name, object);
    Some(encoded.map(|raw| protobuf::encode_envelope(object.api_version(), object.kind(), &raw)))
}

/// Describes the built-in resources for the documents of OpenAPI.
pub fn docs() -> Vec<ResourceDoc<'static>> {
    crate::resources().iter().filter_map(doc_of).collect()
}

fn doc_of(resource: &'static crate::Resource) -> Option<ResourceDoc<'static>> {
    let definition = definition_of(resource.group, resource.version, resource.kind)?;
    let subresources = resource.subresources.iter().map(|subresource| {
        let own =
            |text: &'static str, parent: &'static str| if text.is_empty() { parent } else { text };
        let kind = subresource.kind(resource);
        // Kinds of other groups say so; `v1` alone is the core group only below core resources.
        let is_foreign = !subresource.version.is_empty();
        let group = if is_foreign { subresource.group } else { resource.group };
        let version = own(subresource.version, resource.version);
        SubresourceDoc {
            name: subresource.name,
            gvk: Gvk::new(group, version, kind),
            verbs: subresource.verbs.to_vec(),
            definition: definition_of(group, version, kind),
        }
    });
    Some(ResourceDoc {
        gvk: Gvk::new(resource.group, resource.version, resource.kind),
        plural: resource.plural,
        namespaced: resource.namespaced,
        verbs: resource.verbs.to_vec(),
        subresources: subresources.collect(),
        schema: SchemaDoc::Definition(definition),
    })
}

/// The schema of `metadata`, which all kinds share.
pub fn object_meta() -> Cursor<'static> {
    DEFINITIONS
        .cursor("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
        .expect("the generated definitions have ObjectMeta")
}

fn unpack(packed: &[u8]) -> Value {
    let mut text = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut text).expect("the generated table is intact");
    serde_json::from_slice(&text).expect("the generated table is JSON")
}

#[cfg(test)]
mod tests;

//! An object as it came from a server: its text, its metadata, and whatever type it was read as
//! last. The text is a twelfth of the size of a parsed tree, so trees are made when asked for.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock};

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupVersion, Gvk};
use karmada_apimachinery::object::ObjectMutExt;
use karmada_apimachinery::pairs::Pairs;
use karmada_apimachinery::readable::Readable;
use karmada_apimachinery::value::Text;
use karmada_handover::{Lately, Shown, Ticket};
use karmada_packing::Packed;
use serde::Deserialize;
use serde::de::{self, IgnoredAny};

use crate::alike::{self, Finalizers, Owners};
use crate::slim;

type Read = dyn Any + Send + Sync;

/// What objects were read as lately, for all of them.
static LATELY: LazyLock<Lately<Read>> = LazyLock::new(|| Lately::new(2048));

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
    pub name: Text,
    pub namespace: Text,
    pub uid: Text,
    pub resource_version: Text,
    pub generation: i64,
    /// Shared with other objects that have the same.
    #[serde(deserialize_with = "read_labels")]
    pub labels: Pairs,
    pub annotations: Pairs,
    /// Shared with other objects that have the same.
    #[serde(deserialize_with = "read_owners")]
    pub owner_references: Arc<[OwnerReference]>,
    /// Shared with other objects that have the same.
    #[serde(deserialize_with = "read_finalizers")]
    pub finalizers: Arc<[String]>,
    pub creation_timestamp: Option<Text>,
    pub deletion_timestamp: Option<Text>,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            name: Text::default(),
            namespace: Text::default(),
            uid: Text::default(),
            resource_version: Text::default(),
            generation: 0,
            labels: Pairs::default(),
            annotations: Pairs::default(),
            owner_references: alike::no_owners(),
            finalizers: alike::no_finalizers(),
            creation_timestamp: None,
            deletion_timestamp: None,
        }
    }
}

impl Meta {
    /// Whether nothing that is told here became different but the version. Then it was the status that did.
    pub fn is_left_alone(&self, later: &Self) -> bool {
        self.uid == later.uid
            && self.generation == later.generation
            && self.labels == later.labels
            && self.annotations == later.annotations
            && self.owner_references == later.owner_references
            && self.finalizers == later.finalizers
            && self.deletion_timestamp == later.deletion_timestamp
    }
}

fn read_labels<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
    Pairs::deserialize(deserializer).map(alike::labels)
}

fn read_finalizers<'de, D>(deserializer: D) -> Result<Finalizers, D::Error>
where
    D: serde::Deserializer<'de>,
{
    or_default(deserializer).map(alike::finalizers)
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
    text: Packed,
    /// Of an object that a server of the same process shows.
    places: Option<Places>,
    parsed: OnceLock<Arc<Read>>,
    lately: Ticket,
}

/// Where things are in a text that does not hold its version.
struct Places {
    /// Where the version belongs.
    version: usize,
    /// The record of who wrote which field; somewhere behind that.
    record: Range<usize>,
}

impl Places {
    /// Takes over what a server tells of a text, as far as it can be.
    fn of(shown: &dyn Shown) -> Option<Self> {
        let (version, end, record) = (shown.version_at(), shown.metadata_end(), shown.record());
        if version == 0 || version >= end || end > shown.text().len() {
            return None;
        }
        let is_inside = version <= record.start && record.start <= record.end && record.end < end;
        let record = if is_inside { record } else { version..version };
        Some(Self { version, record })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Head<M> {
    api_version: String,
    kind: String,
    metadata: M,
}

impl<M> Head<M> {
    /// The kind the text names, or `other` if it names none.
    fn gvk(&self, other: &Gvk) -> Gvk {
        match GroupVersion::parse(&self.api_version) {
            Some(version) if !self.kind.is_empty() && !self.api_version.is_empty() => {
                version.with_kind(self.kind.as_str())
            }
            _ => other.clone(),
        }
    }
}

thread_local! {
    /// Room to put texts together in before they are read.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The most room that is kept for the next text.
const KEPT_ROOM: usize = 64 << 10;

fn with_room<T>(use_it: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut room = ROOM.take();
    room.clear();
    let made = use_it(&mut room);
    room.shrink_to(KEPT_ROOM);
    ROOM.set(room);
    made
}

impl Object {
    /// Reads an object; `gvk` is its kind where the text does not name one, as in lists.
    pub fn from_text(text: &[u8], gvk: &Gvk) -> serde_json::Result<Self> {
        let head: Head<Meta> = serde_json::from_slice(text)?;
        let gvk = alike::kind(head.gvk(gvk));
        let text = alike::packed(&gvk, text);
        Ok(Self {
            gvk,
            meta: head.metadata,
            text,
            places: None,
            parsed: OnceLock::new(),
            lately: Ticket::default(),
        })
    }

    /// Reads an object of a server of the same process, once for all who ask for it. Its text is that of
    /// the server, not a copy, and is read no further than the metadata go, or not at all where there is a tree.
    pub fn shared(shown: &Arc<dyn Shown>) -> serde_json::Result<Arc<Self>> {
        if let Some(known) = shown.made().get() {
            return Ok(known);
        }
        let places = Places::of(&**shown).ok_or_else(|| de::Error::custom("no metadata"))?;
        let end = shown.metadata_end();
        let (gvk, mut meta) = match shown.tree().and_then(|tree| head_of(&tree)) {
            Some(head) => head,
            None => shown.text().with(|text| read_head(text, &places, end))?,
        };
        meta.resource_version = shown.revision().to_string().into();
        meta.labels = shown.labels().clone();
        let object = Arc::new(Self {
            gvk,
            meta,
            text: shown.text().clone(),
            places: Some(places),
            parsed: OnceLock::new(),
            lately: Ticket::default(),
        });
        shown.made().set(&object);
        Ok(object)
    }

    pub fn from_value(value: &Value) -> serde_json::Result<Self> {
        Self::from_text(&serde_json::to_vec(value)?, &Gvk::default())
    }

    /// Keeps what ownership is read from and drops text, labels and annotations. For those who follow
    /// every object there is. What a server of the same process shows is kept as it is: its text is there anyway, and whoever
    /// else follows it has the same object.
    pub fn into_bare(self: Arc<Self>) -> Arc<Self> {
        if self.places.is_some() {
            return self;
        }
        let (gvk, mut meta) = match Arc::try_unwrap(self) {
            Ok(own) => (own.gvk, own.meta),
            Err(shared) => (shared.gvk.clone(), shared.meta.clone()),
        };
        (meta.labels, meta.annotations, meta.creation_timestamp) = Default::default();
        let (text, places) = (Packed::default(), None);
        Arc::new(Self {
            gvk,
            meta,
            text,
            places,
            parsed: OnceLock::new(),
            lately: Ticket::default(),
        })
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
    pub fn text(&self) -> &Packed {
        &self.text
    }

    /// Reads the object as a type of its own, without keeping the result.
    pub fn read<T: Readable>(&self) -> serde_json::Result<T> {
        match &self.places {
            None => self.text.with(T::from_text),
            Some(places) => self.read_stamped(places, places.version..places.version),
        }
    }

    /// Reads the text with the version and without a part that is behind the version's place.
    fn read_stamped<T: Readable>(
        &self,
        places: &Places,
        left_out: Range<usize>,
    ) -> serde_json::Result<T> {
        self.text.with(|text| {
            let place = |range: Range<usize>| text.get(range).unwrap_or_default();
            let before = place(0..places.version);
            let between = place(places.version..left_out.start);
            let after = place(left_out.end..text.len());
            self.put_together(before, between, after)
        })
    }

    /// Reads the parts of a text with the version behind the first.
    fn put_together<T: Readable>(
        &self,
        before: &[u8],
        between: &[u8],
        after: &[u8],
    ) -> serde_json::Result<T> {
        with_room(|room| {
            for part in [before, b"\"resourceVersion\":\"", self.meta.resource_version.as_bytes()] {
                room.extend_from_slice(part);
            }
            let is_last = between.iter().chain(after).next() == Some(&b'}');
            room.extend_from_slice(if is_last { b"\"" } else { b"\"," });
            room.extend_from_slice(between);
            room.extend_from_slice(after);
            T::from_text(room)
        })
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
        let read = match &self.places {
            None => self.text.with(slim::parse),
            Some(places) => self.read_stamped(places, places.record.clone()),
        };
        let mut value = read.unwrap_or_default();
        value.set_default(&["apiVersion"], self.gvk.api_version());
        value.set_default(&["kind"], self.gvk.kind.as_str());
        value
    }

    /// Reads the object as a type of its own. The first type asked for is kept, so that asking
    /// again costs nothing; other types are read anew every time. The record of who wrote which field may
    /// be left out: writing the object without it leaves it as it is.
    pub fn typed<T: Readable>(&self) -> serde_json::Result<Arc<T>> {
        if let Some(kept) = self.parsed.get().and_then(|kept| kept.clone().downcast().ok()) {
            return Ok(kept);
        }
        let parsed: Arc<T> = Arc::new(self.read_without_record()?);
        // Whoever was faster keeps its own.
        drop(self.parsed.set(parsed.clone()));
        Ok(parsed)
    }

    /// The same for kinds of which there may be very many: the result is kept for a while only.
    pub fn typed_for_now<T: Readable>(&self) -> serde_json::Result<Arc<T>> {
        if let Some(kept) = LATELY.find(&self.lately).and_then(|kept| kept.downcast().ok()) {
            return Ok(kept);
        }
        let parsed: Arc<T> = Arc::new(self.read_without_record()?);
        LATELY.keep(&self.lately, parsed.clone());
        Ok(parsed)
    }

    /// Reads the object as a type of its own, without keeping the result. The record of who wrote which field may be left
    /// out.
    pub fn read_without_record<T: Readable>(&self) -> serde_json::Result<T> {
        match &self.places {
            None => self.read(),
            Some(places) => self.read_stamped(places, places.record.clone()),
        }
    }
}

/// Kind and metadata of a tree but for the labels; nothing if any of it is not as it should be, which the text tells
/// more about.
fn head_of(tree: &Value) -> Option<(Arc<Gvk>, Meta)> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    let mut meta = Meta::default();
    for (name, value) in tree.get("metadata")?.as_object()? {
        match name.as_str() {
            "name" => meta.name = text(value)?,
            "namespace" => meta.namespace = text(value)?,
            "uid" => meta.uid = text(value)?,
            "generation" => meta.generation = value.as_i64()?,
            "annotations" => {
                let pairs = value.as_object()?.iter();
                let pairs = pairs.map(|(name, value)| Some((name.as_str(), value.as_str()?)));
                meta.annotations = pairs.collect::<Option<_>>()?;
            }
            "ownerReferences" => {
                let owners: Option<Vec<_>> = value.as_array()?.iter().map(owner_of).collect();
                meta.owner_references = alike::owners(owners?);
            }
            "finalizers" => {
                let own = |finalizer: &Value| finalizer.as_str().map(str::to_owned);
                let finalizers: Option<Vec<_>> = value.as_array()?.iter().map(own).collect();
                meta.finalizers = alike::finalizers(finalizers?);
            }
            "creationTimestamp" => meta.creation_timestamp = Some(text(value)?),
            "deletionTimestamp" => meta.deletion_timestamp = Some(text(value)?),
            _ => {}
        }
    }
    let kind = alike::kind_named(tree.get("apiVersion")?.as_str()?, tree.get("kind")?.as_str()?)?;
    Some((kind, meta))
}

fn owner_of(reference: &Value) -> Option<OwnerReference> {
    let mut owner = OwnerReference::default();
    for (name, value) in reference.as_object()? {
        let text = || value.as_str().map(str::to_owned);
        match name.as_str() {
            "apiVersion" => owner.api_version = text()?,
            "kind" => owner.kind = text()?,
            "name" => owner.name = text()?,
            "uid" => owner.uid = text()?,
            "controller" => owner.controller = Some(value.as_bool()?),
            "blockOwnerDeletion" => owner.block_owner_deletion = Some(value.as_bool()?),
            _ => {}
        }
    }
    Some(owner)
}

/// Reads kind and metadata and leaves out the record, which is most of them.
fn read_head(
    text: &[u8],
    Places { version, record }: &Places,
    metadata_end: usize,
) -> serde_json::Result<(Arc<Gvk>, Meta)> {
    let gvk = alike::kind_of_beginning(&text[..*version], |beginning| {
        let whole = [beginning, b"}}"].concat();
        let head: Head<IgnoredAny> = serde_json::from_slice(&whole)?;
        Ok::<_, serde_json::Error>(head.gvk(&Gvk::default()))
    })?;
    let meta = with_room(|room| {
        room.extend_from_slice(&text[*version - 1..record.start]);
        room.extend_from_slice(&text[record.end..metadata_end]);
        serde_json::from_slice(room)
    })?;
    Ok((gvk, meta))
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
    use karmada_handover::Made;

    #[test]
    fn kind_comes_from_the_text_or_from_the_list() {
        let listed = Gvk::new("apps", "v1", "Deployment");
        let cases = [
            (json!({"metadata": {"name": "a"}}), listed.clone()),
            (json!({"apiVersion": "v1", "kind": "Pod"}), Gvk::new("", "v1", "Pod")),
        ];
        for (value, expected) in cases {
            let object = Object::from_text(value.to_string().as_bytes(), &listed).unwrap();
            assert_eq!(object.gvk(), &expected);
            assert_eq!(object.value()["kind"], expected.kind.as_str());
        }
    }

    /// An object as a server shows it, with its places told.
    struct Text(Packed, usize, Range<usize>, Made, Pairs);

    impl Text {
        fn shown(value: &Value) -> Arc<dyn Shown> {
            let text = value.to_string();
            let (_, rest) = text.split_once("\"metadata\":{").unwrap();
            let metadata = format!("{{{rest}");
            let mut documents = serde_json::Deserializer::from_str(&metadata).into_iter::<Value>();
            documents.next().unwrap().unwrap();
            let at = text.len() - rest.len();
            let end = at - 1 + documents.byte_offset();
            let record = text.find("\"managedFields\"").map_or(0..0, |from| {
                let length = text[from..].find("],").unwrap();
                from..from + length + 2
            });
            let labels = value["metadata"]["labels"].as_object().into_iter().flatten();
            let labels = labels.map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
            Arc::new(Self(text.into(), end, record, Made::default(), labels.collect()))
        }
    }

    impl Shown for Text {
        fn text(&self) -> &Packed {
            &self.0
        }

        fn version_at(&self) -> usize {
            let metadata = b"\"metadata\":{";
            let at = |text: &[u8]| text.windows(metadata.len()).position(|part| part == metadata);
            self.0.with(at).unwrap() + metadata.len()
        }

        fn metadata_end(&self) -> usize {
            self.1
        }

        fn record(&self) -> Range<usize> {
            self.2.clone()
        }

        fn revision(&self) -> i64 {
            7
        }

        fn labels(&self) -> &Pairs {
            &self.4
        }

        fn made(&self) -> &Made {
            &self.3
        }
    }

    #[test]
    fn objects_of_the_same_process_read_like_others() {
        let record = json!([{"manager": "m", "fieldsV1": {"f:metadata": {}}}]);
        let cases = [
            json!({"labels": {"a": "b"}, "managedFields": record, "name": "a", "uid": "u"}),
            json!({"managedFields": record, "name": "a"}),
            json!({"name": "a", "annotations": {"x": "{\"}\""}}),
            json!({}),
        ];
        for metadata in cases {
            let mut value = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": metadata, "spec": {"replicas": 1}});
            let shared = Object::shared(&Text::shown(&value)).unwrap();
            value["metadata"]["resourceVersion"] = "7".into();
            let other = Object::from_value(&value).unwrap();
            assert_eq!((shared.gvk(), shared.meta()), (other.gvk(), other.meta()));
            assert_eq!(shared.value(), value);
            assert_eq!(shared.read::<Value>().unwrap(), value);
            value["metadata"].as_object_mut().unwrap().remove("managedFields");
            assert_eq!((shared.content(), other.content()), (value.clone(), value));
        }
    }

    #[test]
    fn a_tree_tells_what_its_text_tells_or_nothing() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u",
            "controller": true, "blockOwnerDeletion": false});
        let plain = json!({"name": "a", "namespace": "b", "uid": "u", "generation": 3,
            "labels": {"a": "1", "b": ""}, "annotations": {"x": "{}"}, "finalizers": ["f", "g"],
            "ownerReferences": [owner], "creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-02T00:00:00Z", "managedFields": [{"manager": "m"}]});
        for metadata in [plain, json!({"name": "a"}), json!({})] {
            let value =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
            let read = Object::from_value(&value).unwrap();
            let (gvk, mut meta) = head_of(&value).expect("it is as it should be");
            meta.labels = read.meta().labels.clone();
            assert_eq!((&*gvk, &meta), (read.gvk(), read.meta()));
        }
        let odd = [
            json!({"name": null}),
            json!({"generation": "3"}),
            json!({"annotations": {"a": 1}}),
            json!({"finalizers": [1]}),
            json!({"ownerReferences": [{"name": 1}]}),
        ];
        for metadata in odd {
            let value =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata});
            assert!(head_of(&value).is_none(), "{value}");
        }
        assert!(head_of(&json!({"kind": "Pod", "metadata": {"name": "a"}})).is_none());
    }

    #[test]
    fn nulls_in_metadata_read_as_nothing() {
        let value = json!({"metadata": {"name": "a", "labels": null, "finalizers": null,
            "deletionTimestamp": null, "ownerReferences": null}});
        let object = Object::from_value(&value).unwrap();
        assert!(!object.is_being_deleted() && object.meta().labels.is_empty());
    }
}

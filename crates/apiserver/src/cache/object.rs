//! One stored object: its text, shared with the store, and the few words of it that filters look at.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::pairs::Pairs;
use karmada_apimachinery::{Map, Value};
use karmada_handover::{Lately, Made, Seen, Shown, Ticket, write_with_version};
use karmada_store::Packed;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::key::Key;
use super::texts::Texts;

/// The trees of what was written lately, for those who are told of it and may write the next state. They are many times
/// larger than texts, and old ones slow to drop.
static TREES: LazyLock<Lately<Value>> = LazyLock::new(|| Lately::new(128));

/// The part of the metadata that filters look at.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head<'a> {
    labels: Option<Pairs>,
    #[serde(borrow, rename = "managedFields")]
    record: Option<&'a RawValue>,
}

const RECORD: &str = "managedFields";

/// The labels of a tree; nothing if they are no texts.
fn labels_of(value: &Value) -> Option<Pairs> {
    match value.get("metadata")?.as_object()?.get("labels") {
        None | Some(Value::Null) => Some(Pairs::default()),
        Some(labels) => {
            let labels = labels.as_object()?.iter();
            labels.map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect()
        }
    }
}

/// Labels as others have them already: those of one template have the same.
fn shared(labels: Pairs) -> Pairs {
    static SEEN: LazyLock<Seen<str>> = LazyLock::new(Seen::default);
    labels.shared(|text| SEEN.share_text(text))
}

/// An object as the store holds it. Its text is that of the store, not a copy: the version, which is
/// the store's own, is written into it on the way out. The text is in the storage version of the
/// resource.
#[derive(Debug)]
pub struct StoredObject {
    pub key: Key,
    pub revision: i64,
    /// Shared with other objects that have the same.
    labels: Pairs,
    /// `kind` and `apiVersion` come first, so that lists can leave them out; then the metadata.
    text: Packed,
    places: Places,
    /// Whether the object reads differently from what is stored.
    pub completed: bool,
    /// Only where the resource has some.
    fields: Option<Box<Fields>>,
    value: OnceLock<Arc<Value>>,
    /// The tree without its version, which is kept for a while.
    tree: Ticket,
    /// What readers of the same process made of it.
    made: Made,
}

/// Values of the fields a selector may name beyond name and namespace.
#[derive(Debug, Clone)]
struct Fields {
    /// Shared with the other objects of the resource.
    names: Arc<[Arc<str>]>,
    values: Texts,
}

impl Shown for StoredObject {
    fn text(&self) -> &Packed {
        &self.text
    }

    fn version_at(&self) -> usize {
        self.places.version as usize
    }

    fn metadata_end(&self) -> usize {
        self.places.metadata_end as usize
    }

    fn record(&self) -> Range<usize> {
        self.places.record as usize..self.places.record_end as usize
    }

    fn revision(&self) -> i64 {
        self.revision
    }

    fn labels(&self) -> &Pairs {
        &self.labels
    }

    fn tree(&self) -> Option<Arc<Value>> {
        TREES.find(&self.tree)
    }

    fn made(&self) -> &Made {
        &self.made
    }
}

/// Who wrote a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This program: nobody else packs texts, and the store has checked that it is whole.
    Ours,
    Anybody,
}

impl Origin {
    pub fn of(stored: &Packed) -> Self {
        if stored.parts().1.is_some() { Self::Ours } else { Self::Anybody }
    }
}

/// Where things are in the text of an object.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// Where the fields after `kind` and `apiVersion` begin.
    bare: u32,
    /// Where the first field of the metadata would be.
    version: u32,
    /// Where the metadata end.
    metadata_end: u32,
    /// Where the record of who wrote which field begins and ends, a comma beside it included.
    record: u32,
    record_end: u32,
}

impl Places {
    /// Objects are far smaller than four gigabytes; of one that is not, nothing is known.
    fn new(bare: usize, version: usize, metadata_end: usize, record: Range<usize>) -> Option<Self> {
        let place = |at: usize| u32::try_from(at).ok();
        Some(Self {
            bare: place(bare)?,
            version: place(version)?,
            metadata_end: place(metadata_end)?,
            record: place(record.start)?,
            record_end: place(record.end)?,
        })
    }
}

/// The stored bytes cannot be read as an object.
#[derive(Debug, thiserror::Error)]
#[error("decode stored object {key}")]
pub struct Unreadable {
    key: String,
    source: serde_json::Error,
}

impl StoredObject {
    /// Reads an object from the store; `revision` is its version.
    pub fn read(
        key: Key,
        stored: &Packed,
        revision: i64,
        origin: Origin,
    ) -> Result<Self, Unreadable> {
        let read = stored.with(|text| match read_ours(text, origin) {
            Some((places, labels)) => Ok((None, places, labels)),
            None => read_any(text),
        });
        let (other, places, labels) =
            read.map_err(|source| Unreadable { key: (*key).to_owned(), source })?;
        let text = other.unwrap_or_else(|| stored.clone());
        Ok(Self::new((key, revision), text, places, labels))
    }

    fn new((key, revision): (Key, i64), text: Packed, places: Places, labels: Pairs) -> Self {
        Self {
            key,
            revision,
            labels: shared(labels),
            text,
            places,
            completed: false,
            fields: None,
            value: OnceLock::new(),
            tree: Ticket::default(),
            made: Made::default(),
        }
    }

    /// What a tree will be once its text is stored; key and version are not known yet. Nothing if it cannot be
    /// told without reading the text.
    pub(super) fn ahead(text: Packed, places: Option<Places>, value: &Value) -> Option<Self> {
        let own = Self::new((Key::default(), 0), text, places?, labels_of(value)?);
        TREES.keep(&own.tree, Arc::new(value.clone()));
        Some(own)
    }

    /// Notes the values of selectable fields. `known` are the names objects of the resource had so far.
    pub(super) fn set_fields(
        &mut self,
        fields: Vec<(Arc<str>, String)>,
        known: &OnceLock<Arc<[Arc<str>]>>,
    ) {
        let names = || fields.iter().map(|(name, _)| name.clone()).collect::<Arc<[_]>>();
        let mut shared = known.get_or_init(names).clone();
        if !shared.iter().eq(fields.iter().map(|(name, _)| name)) {
            shared = names();
        }
        let values = fields.iter().map(|(_, value)| value).collect();
        self.fields = Some(Box::new(Fields { names: shared, values }));
    }

    pub fn name(&self) -> &str {
        self.key.rsplit_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// Empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.key.rsplit_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name)
    }

    pub(super) fn size_of_text(&self) -> usize {
        self.text.len()
    }

    /// Roughly how long the text is.
    pub fn size(&self) -> usize {
        self.text.len() + 32
    }

    fn write(&self, out: &mut Vec<u8>, from: u32, to: usize) {
        let version = self.revision.to_string();
        let at = self.places.version - from;
        self.text.with(|text| {
            let part = text.get(from as usize..to).unwrap_or_default();
            write_with_version(out, part, at as usize, &version);
        });
    }

    /// Appends the object as text.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        self.write(out, 0, self.text.len());
    }

    /// Appends what follows `{` when the object is written without kind and API version.
    pub fn write_bare_to(&self, out: &mut Vec<u8>) {
        self.write(out, self.places.bare, self.text.len());
    }

    /// Appends the metadata as text: `"metadata":{…}`.
    pub fn write_metadata_to(&self, out: &mut Vec<u8>) {
        self.write(out, self.places.bare, self.places.metadata_end as usize);
    }

    /// The same state under another version.
    pub fn restamped(&self, revision: i64) -> Self {
        Self {
            key: self.key.clone(),
            revision,
            labels: self.labels.clone(),
            text: self.text.clone(),
            places: self.places,
            completed: self.completed,
            fields: self.fields.clone(),
            value: OnceLock::new(),
            tree: Ticket::default(),
            made: Made::default(),
        }
    }

    /// Whether these words are anywhere in the text.
    pub fn mentions(&self, words: &str) -> bool {
        self.text.with(|text| std::str::from_utf8(text).is_ok_and(|text| text.contains(words)))
    }

    /// The object as a tree, which is the caller's. It is parsed unless it was written a moment ago.
    pub fn to_value(&self) -> Value {
        let parse = || self.text.with(Value::from_text).unwrap_or(Value::Null);
        let mut value = match self.tree() {
            Some(tree) => {
                debug_assert_eq!(*tree, parse(), "what is written is read as it was");
                Arc::unwrap_or_clone(tree)
            }
            None => parse(),
        };
        if value.is_object() {
            value.set(&["metadata", "resourceVersion"], self.revision.to_string());
        }
        value
    }

    /// The parsed object, kept for the lifetime of this version. For the few kinds every request asks for.
    pub fn shared_value(&self) -> Arc<Value> {
        self.value.get_or_init(|| Arc::new(self.to_value())).clone()
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        match name {
            "metadata.name" => Some(self.name()),
            "metadata.namespace" => Some(self.namespace()),
            other => {
                let Fields { names, values } = self.fields.as_deref()?;
                names.iter().zip(values.iter()).find(|(name, _)| ***name == *other).map(|(_, v)| v)
            }
        }
    }
}

type Laid = (Option<Packed>, Places, Pairs);

/// Reads a text that somebody else has written; it is laid out anew where it has to be.
fn read_any(text: &[u8]) -> serde_json::Result<Laid> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(text)?;
    let metadata = fields.get("metadata").map_or("{}", |raw| raw.get());
    let head: Head<'_> = serde_json::from_str(metadata)?;
    let labels = head.labels.unwrap_or_default();
    let record = head.record.and_then(|record| find_record(metadata, record.get()));
    let (text, places) = match find_places(text, &fields, metadata, record) {
        Some(places) => (None, places),
        None => {
            let (text, places) = lay_out(&fields, metadata);
            (Some(text.into()), places)
        }
    };
    Ok((text, places, labels))
}

/// Reads a text that is laid out as everything is that this server has written, in one pass and without looking
/// at more of it than that it is well formed, which needs no look at what is ours. Nothing if it is anything else.
fn read_ours(text: &[u8], origin: Origin) -> Option<(Places, Pairs)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut rest = text.strip_prefix('{')?;
    for name in ["\"kind\":", "\"apiVersion\":"] {
        if let Some(value) = rest.strip_prefix(name) {
            rest = skip_plain(value)?.strip_prefix(',')?;
        }
    }
    let bare = text.len() - rest.len();
    rest = rest.strip_prefix("\"metadata\":")?;
    let version = text.len() - rest.len() + 1;
    if !rest.starts_with('{') || rest.as_bytes().get(1).is_some_and(u8::is_ascii_whitespace) {
        return None;
    }
    let (head, mut rest) = read_one::<Head<'_>>(rest)?;
    let metadata_end = text.len() - rest.len();
    if origin == Origin::Ours && rest.starts_with(',') {
        rest = rest.get(rest.len() - 1..)?;
    }
    while let Some(field) = rest.strip_prefix(',') {
        let value = skip_plain(field)?;
        let name = &field[..field.len() - value.len()];
        if ["\"kind\"", "\"apiVersion\"", "\"metadata\""].contains(&name) {
            return None;
        }
        rest = read_one::<IgnoredAny>(value.strip_prefix(':')?)?.1;
    }
    let metadata = &text[version - 1..metadata_end];
    let record = head.record.and_then(|record| find_record(metadata, record.get()));
    let record = record.map_or(0..0, |at| at.start + version - 1..at.end + version - 1);
    let places = Places::new(bare, version, metadata_end, record)?;
    (rest == "}").then(|| (places, head.labels.unwrap_or_default()))
}

/// What follows a text in quotes that has nothing in it to be decoded.
fn skip_plain(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('"')?;
    let end = inner.find(|c: char| matches!(c, '"' | '\\') || c < ' ')?;
    inner[end..].strip_prefix('"')
}

/// Reads one value, and returns what follows it.
fn read_one<'a, T: Deserialize<'a>>(text: &'a str) -> Option<(T, &'a str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    let rest = text.get(values.byte_offset()..)?;
    Some((value, rest))
}

/// How the texts of a kind begin that are encoded here.
pub fn beginning_of(kind: &str, api_version: &str) -> String {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",")
}

/// How the text begins up to the first field of the metadata, and where those begin.
fn beginning(fields: &BTreeMap<Cow<'_, str>, &RawValue>) -> (Vec<u8>, usize) {
    let mut out = vec![b'{'];
    for name in ["kind", "apiVersion"] {
        if let Some(raw) = fields.get(name) {
            out.extend_from_slice(format!("\"{name}\":{},", raw.get()).as_bytes());
        }
    }
    let bare = out.len();
    out.extend_from_slice(b"\"metadata\":{");
    (out, bare)
}

/// Finds the places in a text that is laid out as it should be, as everything is that this server
/// has written.
fn find_places(
    text: &[u8],
    fields: &BTreeMap<Cow<'_, str>, &RawValue>,
    metadata: &str,
    record: Option<Range<usize>>,
) -> Option<Places> {
    let (begins, bare) = beginning(fields);
    let version = begins.len();
    let metadata_end = version - 1 + metadata.len();
    let record = record.map_or(0..0, |at| at.start + version - 1..at.end + version - 1);
    let as_it_should = text.starts_with(&begins)
        && text.get(version - 1..metadata_end) == Some(metadata.as_bytes())
        && !text.get(version).is_some_and(u8::is_ascii_whitespace);
    Places::new(bare, version, metadata_end, record).filter(|_| as_it_should)
}

/// Finds what is to be cut out of the metadata to leave their record out.
fn find_record(metadata: &str, record: &str) -> Option<Range<usize>> {
    let start = (record.as_ptr() as usize).checked_sub(metadata.as_ptr() as usize)?;
    let (before, after) = (metadata.get(..start)?, metadata.get(start + record.len()..)?);
    let before = before.strip_suffix(':')?.strip_suffix('"')?;
    let before = before.strip_suffix(RECORD)?.strip_suffix('"')?;
    Some(with_comma(before.as_bytes(), after.as_bytes(), start + record.len()))
}

/// The part between two others of a map, with one of the commas that part it from them.
fn with_comma(before: &[u8], after: &[u8], end: usize) -> Range<usize> {
    match (before.last(), after.first()) {
        (Some(b','), _) => before.len() - 1..end,
        (_, Some(b',')) => before.len()..end + 1,
        _ => before.len()..end,
    }
}

/// Writes the object anew: kind, API version, then metadata, then the rest.
fn lay_out(fields: &BTreeMap<Cow<'_, str>, &RawValue>, metadata: &str) -> (Bytes, Places) {
    let (mut out, bare) = beginning(fields);
    let version = out.len();
    let inner = metadata.trim();
    let inner = inner.strip_prefix('{').unwrap_or(inner).trim_start();
    out.extend_from_slice(inner.as_bytes());
    let metadata_end = out.len();
    for (name, raw) in fields {
        if !matches!(name.as_ref(), "kind" | "apiVersion" | "metadata") {
            let name = serde_json::to_string(name).unwrap_or_default();
            for part in [",", &name, ":", raw.get()] {
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
    out.push(b'}');
    // Where the record is matters to readers in a hurry only, and this is read once.
    let places = Places::new(bare, version, metadata_end, 0..0).expect("no object is that large");
    (exact(&out), places)
}

thread_local! {
    /// Room to write texts in.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The most room that is kept for the next text.
const KEPT_ROOM: usize = 64 << 10;

/// The text an object is stored as, and where things are in it. The tree must not carry a version: that is
/// the store's own.
pub fn encode(value: &Value) -> (Bytes, Option<Places>) {
    let Some(fields) = value.as_object() else { return (Bytes::from(value.to_string()), None) };
    ROOM.with_borrow_mut(|room| {
        room.clear();
        let places = write_object(room, fields);
        let text = exact(room);
        room.shrink_to(KEPT_ROOM);
        (text, places)
    })
}

fn write_object(out: &mut Vec<u8>, fields: &Map) -> Option<Places> {
    let mut places = None;
    out.push(b'{');
    let first = ["kind", "apiVersion", "metadata"];
    let others = fields.iter().filter(|(name, _)| !first.contains(&name.as_str()));
    let first = first.iter().filter_map(|name| fields.get_key_value(*name));
    for (name, value) in first.chain(others) {
        if out.len() > 1 {
            out.push(b',');
        }
        let bare = out.len();
        // Writing JSON to memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, name);
        out.push(b':');
        let version = out.len() + 1;
        match value {
            Value::Object(metadata) if name == "metadata" => {
                let record = write_metadata(out, metadata);
                places = Places::new(bare, version, out.len(), record);
            }
            value => value.write_text(out),
        }
    }
    out.push(b'}');
    places
}

/// Writes the metadata; returns where their record is.
fn write_metadata(out: &mut Vec<u8>, metadata: &Map) -> Range<usize> {
    let (begin, mut record) = (out.len(), 0..0);
    out.push(b'{');
    for (name, value) in metadata {
        if out.len() > begin + 1 {
            out.push(b',');
        }
        let before = out.len();
        let _ = serde_json::to_writer(&mut *out, name);
        out.push(b':');
        value.write_text(out);
        if name == RECORD {
            record = before..out.len();
        }
    }
    out.push(b'}');
    if record.is_empty() {
        return record;
    }
    with_comma(&out[..record.start], &out[record.end..], record.end)
}

/// The text in as much memory as it takes: it stays for long, and what a vector has too much is not given
/// back where half of it is used.
fn exact(text: &[u8]) -> Bytes {
    Bytes::copy_from_slice(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn key() -> Key {
        Key::below("", &"a".into())
    }

    fn read(stored: &Value) -> StoredObject {
        StoredObject::read(key(), &stored.to_string().into(), 7, Origin::Anybody).unwrap()
    }

    #[test]
    fn the_version_is_written_into_the_metadata_of_the_object_only() {
        let stored =
            json!({"data": {"x": {"metadata": {}}}, "metadata": {"name": "a", "labels": null}});
        let expected = |version: &str| {
            json!({"data": {"x": {"metadata": {}}},
                "metadata": {"name": "a", "labels": null, "resourceVersion": version}})
        };
        let object = read(&stored);
        assert_eq!((object.namespace(), object.name()), ("", "a"));
        for (object, version) in [(&object, "7"), (&object.restamped(123), "123")] {
            assert_eq!(object.to_value(), expected(version));
            let mut out = Vec::new();
            object.write_to(&mut out);
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected(version));
            let metadata = json!({"metadata": expected(version)["metadata"]});
            let mut out = vec![b'{'];
            object.write_metadata_to(&mut out);
            out.push(b'}');
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), metadata);
        }
    }

    #[test]
    fn lists_leave_kind_and_version_out() {
        let stored = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "zeta": 1});
        let mut out = vec![b'{'];
        read(&stored).write_bare_to(&mut out);
        let expected = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "zeta": 1});
        assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected);
    }

    #[test]
    fn an_empty_metadata_map_stays_valid() {
        for stored in [r#"{"metadata":{}}"#, r#"{"metadata": { } }"#, "{}"] {
            let object = StoredObject::read(key(), &stored.into(), 7, Origin::Anybody).unwrap();
            let expected = json!({"metadata": {"resourceVersion": "7"}});
            assert_eq!(object.to_value(), expected);
            let mut out = Vec::new();
            object.write_to(&mut out);
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_encoded_here_is_kept_as_it_is() {
        let value = json!({"apiVersion": "v1", "data": {}, "kind": "X",
            "metadata": {"name": "a", "labels": {"app": "web", "b": ""}}});
        let (text, places) = encode(&value);
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), value);
        let text = Packed::from(text);
        let object = StoredObject::read(key(), &text, 7, Origin::Anybody).unwrap();
        assert_eq!(object.text.place(), text.place());
        let ahead = StoredObject::ahead(text, places, &value).unwrap();
        let told = |object: &StoredObject| format!("{:?} {:?}", object.places, object.labels);
        assert_eq!(told(&ahead), told(&object));
        assert_eq!((ahead.label("app"), ahead.label("x")), (Some("web"), None));
    }

    #[test]
    fn the_record_can_be_cut_out() {
        let record = json!([{"manager": "m", "fieldsV1": {"f:a": {"}": "\"]"}}}]);
        let cases = [
            json!({"managedFields": record, "name": "a"}),
            json!({"labels": {"a": "b"}, "managedFields": record, "name": "a"}),
            json!({"labels": {"a": "b"}, "managedFields": record}),
            json!({"managedFields": record}),
            json!({"managedFields": [], "name": "a"}),
            json!({"name": "a"}),
            json!({}),
        ];
        for metadata in cases {
            let mut value = json!({"kind": "X", "metadata": metadata, "spec": {"a": 1}});
            let (text, places) = encode(&value);
            let kept = Packed::from(text.clone());
            let ahead = StoredObject::ahead(kept.clone(), places, &value).unwrap();
            let read = StoredObject::read(key(), &kept, 7, Origin::Anybody).unwrap();
            value["metadata"].as_object_mut().unwrap().remove("managedFields");
            for object in [ahead, read] {
                let mut cut = text.to_vec();
                assert_eq!(cut[object.metadata_end() - 1], b'}');
                cut.drain(object.record());
                assert_eq!(serde_json::from_slice::<Value>(&cut).unwrap(), value);
            }
        }
    }

    #[test]
    fn reading_ours_in_one_pass_is_reading_it() {
        let ours = [
            r#"{"kind":"X","apiVersion":"v1","metadata":{"name":"a","labels":{"a":"b","c":""}},"data":{}}"#,
            r#"{"kind":"X","apiVersion":"v1","metadata":{}}"#,
            r#"{"kind":"X","metadata":{"labels":{},"managedFields":[{"a":"]"}],"name":"a"},"x":1}"#,
            r#"{"apiVersion":"v1","metadata":{"labels":null},"x":[1,"\u00fc\""],"":null}"#,
            r#"{"metadata":{"labels":{"b":"\n","a":"\u00fc","b":"2"},"x":[{}]}}"#,
        ];
        for text in ours {
            let (places, labels) = read_ours(text.as_bytes(), Origin::Anybody).expect(text);
            let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).unwrap();
            let metadata = fields["metadata"].get();
            let head: Head<'_> = serde_json::from_str(metadata).unwrap();
            let record = head.record.and_then(|record| find_record(metadata, record.get()));
            let found = find_places(text.as_bytes(), &fields, metadata, record).unwrap();
            let head: BTreeMap<String, Value> = serde_json::from_str(metadata).unwrap();
            let known = head.get("labels").and_then(Value::as_object).into_iter().flatten();
            let known: Pairs = known.map(|(n, v)| (n.as_str(), v.as_str().unwrap())).collect();
            assert_eq!(format!("{places:?}"), format!("{found:?}"), "{text}");
            assert_eq!(labels, known, "{text}");
            let (at_a_glance, labels) = read_ours(text.as_bytes(), Origin::Ours).expect(text);
            assert_eq!(format!("{at_a_glance:?}"), format!("{found:?}"), "{text}");
            assert_eq!(labels, known, "{text}");
        }
    }

    #[test]
    fn what_is_not_laid_out_as_ours_is_read_in_full() {
        let others = [
            "",
            "null",
            "[]",
            "{}",
            r#"{"kind":"X","apiVersion":"v1"}"#,
            r#"{"kind":"X","metadata":[]}"#,
            r#"{"kind":"X","metadata":{"labels":{"a":1}}}"#,
            r#"{"kind":"X","metadata":{}"#,
            r#"{"kind":"X","metadata":{}} "#,
            r#"{"kind":"X","metadata":{},}"#,
            r#"{"kind":"X","metadata":{},"x"}"#,
            r#"{"kind":"X","metadata":{},"x":}"#,
            r#"{"kind":"X","metadata":{},"x":{"y":[1,2}}"#,
            r#"{"kind":"X","metadata":{},"x":"y}"#,
            r#"{"kind":"X","metadata":{},"x":1}}"#,
            r#"{"kind":"X","metadata":{},"x":12 3}"#,
            r#"{"kind":"X","metadata":{},"metadata":{"labels":{}}}"#,
            r#"{"kind":"X","metadata":{},"meta\u0064ata":{}}"#,
            r#"{"kind":"X","metadata":{},"kind":"Y"}"#,
            r#"{"ki\u006ed":"X","metadata":{}}"#,
            r#"{"kind":"X", "metadata":{}}"#,
            r#"{"kind":"X","metadata":{ "name":"a"}}"#,
        ];
        for text in others {
            assert!(read_ours(text.as_bytes(), Origin::Anybody).is_none(), "{text}");
        }
        let no_text = b"{\"metadata\":{},\"x\":\"\xff\"}";
        assert!(read_ours(no_text, Origin::Anybody).is_none());
    }
}

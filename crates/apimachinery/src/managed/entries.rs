//! The entries of `metadata.managedFields`: reading, writing, order, and the limit on their number.

use std::borrow::Cow;

use crate::{Map, Value};

use super::set::FieldSet;
use crate::field::quote;
use crate::object::ObjectExt;

/// Update entries an object keeps; older ones are merged.
const MAX_UPDATE_ENTRIES: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// The fields of an entry. Those no write touches are never decoded: most entries, most of the time.
#[derive(Debug, Clone)]
pub(super) enum Fields {
    Encoded(Value),
    Decoded(FieldSet),
}

impl Fields {
    /// The fields as a set; what cannot be read is empty.
    pub(super) fn set(&self) -> Cow<'_, FieldSet> {
        match self {
            Self::Encoded(fields) => Cow::Owned(FieldSet::decode(fields).unwrap_or_default()),
            Self::Decoded(set) => Cow::Borrowed(set),
        }
    }

    fn into_set(self) -> FieldSet {
        match self {
            Self::Encoded(fields) => FieldSet::decode(&fields).unwrap_or_default(),
            Self::Decoded(set) => set,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Encoded(fields) => fields.as_object().is_none_or(Map::is_empty),
            Self::Decoded(set) => set.is_empty(),
        }
    }

    /// Whether a path of `set` is among the fields.
    pub(super) fn meet(&self, set: &FieldSet) -> bool {
        match self {
            Self::Encoded(fields) => set.meets(fields),
            Self::Decoded(fields) => !fields.intersection(set).is_empty(),
        }
    }

    pub(super) fn contain(&self, set: &FieldSet) -> bool {
        match self {
            Self::Encoded(fields) => set.is_within(fields),
            Self::Decoded(fields) => set.difference(fields).is_empty(),
        }
    }

    pub(super) fn take_away(&mut self, set: &FieldSet) {
        if self.meet(set) {
            let mut left = std::mem::replace(self, Self::Decoded(FieldSet::default())).into_set();
            left.take_away(set);
            *self = Self::Decoded(left);
        }
    }

    pub(super) fn add(&mut self, set: FieldSet) {
        if self.is_empty() {
            *self = Self::Decoded(set);
        } else if !self.contain(&set) {
            let mut union = std::mem::replace(self, Self::Decoded(FieldSet::default())).into_set();
            union.absorb(set);
            *self = Self::Decoded(union);
        }
    }

    fn encode(self) -> Value {
        match self {
            Self::Encoded(fields) => fields,
            Self::Decoded(set) => set.encode(),
        }
    }
}

/// The fields one manager owns.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Option<String>,
    pub(super) fields: Fields,
}

impl Entry {
    /// Whether both are the same manager. One that applies is the same in every version.
    pub(super) fn is_same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn decode(mut entry: Value, index: usize) -> Result<Self, String> {
        let fields = entry.as_object_mut().and_then(|entry| entry.remove("fieldsV1"));
        let text = |field: &str| entry.str_at(&[field]).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => {
                let other = quote(other);
                return Err(format!("invalid fieldsType {other} in managed fields entry {index}"));
            }
        }
        let fields = match fields {
            None | Some(Value::Null) => Fields::Decoded(FieldSet::default()),
            Some(fields) => Fields::Encoded(fields),
        };
        Ok(Self {
            manager: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
            time: entry.str_at(&["time"]).map(str::to_owned),
            fields,
        })
    }

    fn encode(self) -> Value {
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        // The fields may be large: they are moved, not written once more.
        let parts = [
            ("apiVersion", Some(self.api_version)),
            ("fieldsType", Some("FieldsV1".to_owned())),
            ("manager", Some(self.manager)),
            ("operation", Some(operation.to_owned())),
            ("subresource", Some(self.subresource).filter(|name| !name.is_empty())),
            ("time", self.time),
        ];
        let mut entry = Map::new();
        entry.insert("fieldsV1".to_owned(), self.fields.encode());
        for (name, text) in parts {
            if let Some(text) = text {
                entry.insert(name.to_owned(), Value::String(text.into()));
            }
        }
        Value::Object(entry)
    }

    /// The manager as a conflict names it.
    pub(super) fn describe(&self) -> String {
        let mut text = quote(&self.manager);
        if !self.subresource.is_empty() {
            text.push_str(&format!(" with subresource {}", quote(&self.subresource)));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

/// Reads entries; of several for one manager the last counts.
pub(super) fn decode(entries: &[Value]) -> Result<Vec<Entry>, String> {
    decode_owned(entries.iter().cloned())
}

pub(super) fn decode_owned(
    entries: impl ExactSizeIterator<Item = Value>,
) -> Result<Vec<Entry>, String> {
    let mut decoded: Vec<Entry> = Vec::with_capacity(entries.len());
    for (index, entry) in entries.enumerate() {
        let entry = Entry::decode(entry, index)?;
        decoded.retain(|one| !one.is_same_manager(&entry));
        decoded.push(entry);
    }
    Ok(decoded)
}

/// Says what is wrong with the fields of entries, which decoding leaves unread.
pub(super) fn check(entries: &[Entry]) -> Result<(), String> {
    for entry in entries {
        if let Fields::Encoded(fields) = &entry.fields {
            FieldSet::decode(fields).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Writes entries into an object's metadata; none at all leaves no field.
pub(super) fn store(object: &mut Value, mut entries: Vec<Entry>) {
    entries.sort_by(|a, b| order(a).cmp(&order(b)));
    let Some(metadata) = object
        .as_object_mut()
        .map(|object| object.entry("metadata").or_insert_with(|| Value::Object(Map::new())))
    else {
        return;
    };
    let Some(metadata) = metadata.as_object_mut() else { return };
    if entries.is_empty() {
        metadata.remove("managedFields");
    } else {
        let entries: Vec<Value> = entries.into_iter().map(Entry::encode).collect();
        metadata.insert("managedFields".to_owned(), entries.into());
    }
}

/// Entries lie by operation, then age.
fn order(entry: &Entry) -> (Operation, &str, &str, &str, &str) {
    (
        entry.operation,
        entry.time.as_deref().unwrap_or_default(),
        &entry.manager,
        &entry.api_version,
        &entry.subresource,
    )
}

/// Merges the oldest Update entries of a version into one until few enough are left.
pub(super) fn cap(entries: &mut Vec<Entry>) {
    let count = entries.iter().filter(|one| one.operation == Operation::Update).count();
    if count <= MAX_UPDATE_ENTRIES {
        return;
    }
    let mut updaters: Vec<Entry> =
        entries.iter().filter(|one| one.operation == Operation::Update).cloned().collect();
    let mut left = updaters.len();
    updaters.sort_by(|a, b| order(a).cmp(&order(b)));
    let mut firsts: Vec<Entry> = Vec::new();
    for entry in updaters {
        if left <= MAX_UPDATE_ENTRIES {
            return;
        }
        let Some(first) = firsts.iter().find(|one| one.api_version == entry.api_version) else {
            firsts.push(entry);
            continue;
        };
        let mut bucket = Entry {
            manager: ANCIENT.to_owned(),
            subresource: String::new(),
            time: entry.time.clone(),
            ..first.clone()
        };
        // The first of its version gives its fields to the bucket once; later ones only join.
        match entries.iter().position(|one| one.is_same_manager(&bucket)) {
            Some(index) => bucket.fields = entries.remove(index).fields,
            None => entries.retain(|one| !one.is_same_manager(first)),
        }
        bucket.fields.add(entry.fields.set().into_owned());
        entries.retain(|one| !one.is_same_manager(&entry));
        entries.push(bucket);
        left -= 1;
    }
}

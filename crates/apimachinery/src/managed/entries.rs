//! The entries of `metadata.managedFields`: reading, writing, order, and the limit on their number.

use std::borrow::Cow;

use crate::value::Text;
use crate::{Map, Value};

use super::set::FieldSet;
use crate::field::quote;
use crate::object::ObjectExt;

/// Update entries an object keeps; older ones are merged.
const MAX_UPDATE_ENTRIES: usize = 10;
const ANCIENT: &str = "ancient-changes";
const FIELDS_V1: &str = "FieldsV1";

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
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

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Encoded(fields) => fields.as_object().is_none_or(Map::is_empty),
            Self::Decoded(set) => set.is_empty(),
        }
    }

    /// Whether a path of `set` is among the fields.
    pub(super) fn meet(&self, set: &FieldSet) -> bool {
        match self {
            Self::Encoded(fields) => fields.as_object().is_some_and(|fields| set.meets(fields)),
            Self::Decoded(fields) => !fields.intersection(set).is_empty(),
        }
    }

    pub(super) fn contain(&self, set: &FieldSet) -> bool {
        match self {
            Self::Encoded(fields) => {
                fields.as_object().map_or(set.is_empty(), |fields| set.is_within(fields))
            }
            Self::Decoded(fields) => set.difference(fields).is_empty(),
        }
    }

    pub(super) fn take_away(&mut self, set: &FieldSet) {
        match self {
            Self::Encoded(Value::Object(fields)) => {
                if set.meets(fields) {
                    set.take_from(fields);
                }
            }
            Self::Encoded(_) => {}
            Self::Decoded(fields) => fields.take_away(set),
        }
    }

    pub(super) fn add(&mut self, set: FieldSet) {
        match self {
            Self::Encoded(Value::Object(fields)) if !fields.is_empty() => {
                if !set.is_within(fields) {
                    set.add_to(fields);
                }
            }
            Self::Encoded(_) => *self = Self::Decoded(set),
            Self::Decoded(fields) => fields.absorb(set),
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
    pub(super) manager: Text,
    pub(super) operation: Operation,
    pub(super) api_version: Text,
    pub(super) subresource: Text,
    pub(super) time: Option<Text>,
    pub(super) fields: Fields,
    /// The entry as it was read, which stands for it as long as nothing in it changes.
    pub(super) read: Option<Map>,
}

impl Entry {
    /// Whether both are the same manager. One that applies is the same in every version.
    pub(super) fn is_same_manager(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn decode(entry: &Value, index: usize) -> Result<Self, String> {
        let text = |field: &str| match entry.get(field) {
            Some(Value::String(text)) => text.clone(),
            _ => Text::default(),
        };
        let operation = match entry.str_at(&["operation"]) {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match entry.str_at(&["fieldsType"]).unwrap_or_default() {
            FIELDS_V1 => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => {
                let other = quote(other);
                return Err(format!("invalid fieldsType {other} in managed fields entry {index}"));
            }
        }
        let fields = match entry.get("fieldsV1") {
            None | Some(Value::Null) => Fields::Decoded(FieldSet::default()),
            Some(fields) => Fields::Encoded(fields.clone()),
        };
        Ok(Self {
            manager: text("manager"),
            operation,
            api_version,
            subresource: text("subresource"),
            time: entry.str_at(&["time"]).map(Text::from),
            fields,
            read: entry.as_object().cloned(),
        })
    }

    fn encode(self) -> Value {
        if let Some(read) = self.read.as_ref().filter(|read| self.is_told_by(read)) {
            return Value::Object(read.clone());
        }
        // In the order of the names.
        let parts = [
            ("apiVersion", Some(Value::String(self.api_version))),
            ("fieldsType", Some(FIELDS_V1.into())),
            ("fieldsV1", Some(self.fields.encode())),
            ("manager", Some(Value::String(self.manager))),
            ("operation", Some(self.operation.name().into())),
            (
                "subresource",
                Some(self.subresource).filter(|name| !name.is_empty()).map(Value::String),
            ),
            ("time", self.time.map(Value::String)),
        ];
        let mut entry = Map::with_capacity(parts.len());
        for (name, part) in parts {
            if let Some(part) = part {
                entry.insert(Text::new_static(name), part);
            }
        }
        Value::Object(entry)
    }

    /// Whether an entry that was read says what this one says.
    fn is_told_by(&self, read: &Map) -> bool {
        let Fields::Encoded(Value::Object(fields)) = &self.fields else { return false };
        let mut known = 4;
        let mut says = |name: &str, text: Option<&str>| {
            known += usize::from(text.is_some());
            read.get(name).and_then(Value::as_str) == text
        };
        says("subresource", Some(self.subresource.as_str()).filter(|name| !name.is_empty()))
            && says("time", self.time.as_deref())
            && says("manager", Some(&self.manager))
            && read
                .get("fieldsV1")
                .and_then(Value::as_object)
                .is_some_and(|read| read.is_same(fields))
            && read.get("apiVersion").is_some_and(|read| *read == self.api_version)
            && read.get("operation").is_some_and(|read| *read == self.operation.name())
            && read.len() == known
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
    let mut decoded: Vec<Entry> = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
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
        let entries: Value = entries.into_iter().map(Entry::encode).collect();
        metadata.insert("managedFields", entries);
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
            manager: Text::new_static(ANCIENT),
            subresource: Text::default(),
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

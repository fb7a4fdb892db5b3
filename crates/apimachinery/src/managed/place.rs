//! What apply knows about a place in an object: is it a scalar, a list, a map, and how do its parts
//! merge. The schema says so; where it is silent, the value does.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::{Map, Value, json};

use super::set::Step;
use crate::decode::normalise;
use crate::schema::{Additional, Cursor, ListType, MapType, Schema, Type};

/// Metadata as every object has it, for schemas that do not spell it out.
static OBJECT_META: LazyLock<Schema> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let number = || json!({"type": "integer"});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "name": text(), "generateName": text(), "namespace": text(), "selfLink": text(),
        "uid": text(), "resourceVersion": text(), "generation": number(),
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "deletionGracePeriodSeconds": number(),
        "labels": texts(), "annotations": texts(),
        "finalizers": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
                "apiVersion": text(), "kind": text(), "name": text(), "uid": text(),
                "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
            }},
        },
        "managedFields": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object"}},
    }});
    Schema::parse(&schema).expect("the schema of metadata is well formed")
});

static TEXT: LazyLock<Schema> =
    LazyLock::new(|| Schema { kind: Type::String, ..Schema::default() });

/// A place in an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    Declared {
        cursor: Cursor<'a>,
        /// Unknown fields are kept from here on down.
        preserve: bool,
        /// An object with metadata of its own.
        resource: bool,
    },
    /// Nothing is known: maps merge, lists are atomic.
    Deduced,
    /// Nothing is known and nothing merges.
    Untyped,
    /// The schema does not allow anything here.
    Unknown,
}

/// How a value at a place is treated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'a> {
    Scalar(Scalar),
    List(Relation<'a>),
    Map { atomic: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Any,
    Number,
    Text,
    Flag,
}

/// How elements of a list are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) enum Relation<'a> {
    Atomic,
    Set,
    Keys(&'a [String]),
    /// The merge key of a list that declares only a patch strategy.
    MergeKey(&'a str),
}

impl Shape<'_> {
    pub(super) fn is_like(self, other: Shape<'_>) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl<'a> Place<'a> {
    /// The root of an object.
    pub(super) fn root(schema: Option<Cursor<'a>>) -> Self {
        match schema {
            Some(cursor) => Self::declared(cursor, false).as_resource(),
            None => Self::Deduced,
        }
    }

    fn declared(cursor: Cursor<'a>, inherited: bool) -> Self {
        let extensions = &cursor.schema().extensions;
        // A named definition starts afresh; an inline schema belongs to its parent.
        let inherited = inherited && cursor.definition().is_none();
        match cursor.definition() {
            Some(name) if name.ends_with(".RawExtension") => Self::Untyped,
            _ => Self::Declared {
                cursor,
                preserve: inherited || extensions.preserve_unknown_fields,
                resource: extensions.embedded_resource,
            },
        }
    }

    fn as_resource(self) -> Self {
        match self {
            Self::Declared { cursor, preserve, .. } => {
                Self::Declared { cursor, preserve, resource: true }
            }
            other => other,
        }
    }

    /// How a value here is treated; `value` decides where the schema leaves a choice.
    pub(super) fn shape(self, value: Option<&Value>) -> Shape<'a> {
        let Self::Declared { cursor, .. } = self else {
            let atomic = !matches!(self, Self::Deduced);
            return by_value(value, Shape::List(Relation::Atomic), Shape::Map { atomic });
        };
        let list = || Shape::List(relation(cursor));
        let map = || Shape::Map { atomic: cursor.map_type() == MapType::Atomic };
        let node = cursor.schema();
        let is_quantity = cursor.definition().is_some_and(|name| name.ends_with(".Quantity"));
        match node.kind {
            _ if is_quantity => Shape::Scalar(Scalar::Any),
            Type::Any => by_value(value, list(), map()),
            Type::Object => map(),
            Type::Array => list(),
            Type::Integer | Type::Number => Shape::Scalar(Scalar::Number),
            Type::Boolean => Shape::Scalar(Scalar::Flag),
            Type::String => {
                let plain = matches!(node.format.as_deref(), None | Some("" | "byte"))
                    && !node.extensions.int_or_string;
                Shape::Scalar(if plain { Scalar::Text } else { Scalar::Any })
            }
            Type::Unknown => Shape::Scalar(Scalar::Any),
        }
    }

    /// The place of a field, and whether the schema names that field.
    pub(super) fn field(self, name: &str) -> (Self, bool) {
        let Self::Declared { cursor, preserve, resource } = self else {
            return (self, false);
        };
        let property = cursor.property(name);
        if resource {
            match (name, property) {
                ("metadata", found) if found.is_none_or(|at| at.schema().properties.is_empty()) => {
                    return (Self::declared(Cursor::alone(&OBJECT_META), false), true);
                }
                ("apiVersion" | "kind", None) => {
                    return (Self::declared(Cursor::alone(&TEXT), false), true);
                }
                _ => {}
            }
        }
        if let Some(property) = property {
            return (Self::declared(property, preserve), true);
        }
        let node = cursor.schema();
        let place = match &node.additional {
            Additional::Schema(_) => {
                cursor.values().map_or(Self::Unknown, |at| Self::declared(at, preserve))
            }
            Additional::Allowed => Self::Deduced,
            Additional::Unspecified if preserve || node.properties.is_empty() => Self::Deduced,
            Additional::Unspecified | Additional::Forbidden => Self::Unknown,
        };
        (place, false)
    }

    /// The place of a list's elements.
    pub(super) fn items(self) -> Self {
        let Self::Declared { cursor, preserve, .. } = self else { return Self::Untyped };
        cursor.items().map_or(Self::Untyped, |at| Self::declared(at, preserve))
    }

    /// As [`Self::field`], for a place whose value is not at hand.
    pub(super) fn static_field(self, name: &str) -> (Self, bool) {
        match self.shape(Some(&Value::Object(Map::new()))) {
            Shape::Map { .. } => self.field(name),
            _ => (Self::Unknown, false),
        }
    }

    pub(super) fn static_items(self) -> Self {
        match self.shape(Some(&Value::Array(Default::default()))) {
            Shape::List(_) => self.items(),
            _ => Self::Unknown,
        }
    }

    /// Whether the schema says that whatever is here is owned as a whole.
    pub(super) fn is_declared_atomic(self) -> bool {
        let Self::Declared { cursor, .. } = self else { return false };
        match cursor.schema().kind {
            Type::Object => cursor.map_type() == MapType::Atomic,
            Type::Array => matches!(relation(cursor), Relation::Atomic),
            _ => false,
        }
    }

    /// The step that leads to an element of a list here, or why there is none.
    pub(super) fn identify<'r>(self, item: &Value, relation: Relation<'r>) -> Result<Step, String> {
        let keys: Vec<&'r str> = match relation {
            Relation::Atomic => return Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => return identify_in_set(item),
            Relation::Keys(keys) => keys.iter().map(String::as_str).collect(),
            Relation::MergeKey(key) => vec![key],
        };
        let item = match item {
            Value::Object(item) => item,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => {
                return Err("associative list with keys may not have non-map elements".to_owned());
            }
        };
        let given = |key: &'r str| {
            let value = item.get(key).or_else(|| self.items().default_of(key))?;
            Some((key, value))
        };
        if let [key] = keys[..] {
            if let Some(found) = given(key) {
                return Ok(Step::key([found]));
            }
        } else {
            // Of a key that is listed twice, and of their order, nothing is seen.
            let found: BTreeMap<&str, &Value> = keys.iter().filter_map(|key| given(key)).collect();
            if !found.is_empty() {
                return Ok(Step::key(found));
            }
        }
        let keys: Vec<String> = keys.into_iter().map(crate::field::quote).collect();
        Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ))
    }

    fn default_of(self, field: &str) -> Option<&'a Value> {
        let Self::Declared { cursor, .. } = self else { return None };
        let node = cursor.property(field)?.site();
        node.default.as_deref().filter(|value| !value.is_null())
    }

    /// The object of this kind with nothing set, as a Go server sees it: structures that are no
    /// pointers are there even when empty. Custom resources have no such structures.
    pub(super) fn empty(self) -> Value {
        let nothing = || Value::Object(Map::new());
        match self {
            Self::Declared { cursor, .. } if cursor.definition().is_some() => {
                normalise(nothing(), cursor).unwrap_or_else(|_| nothing())
            }
            _ => nothing(),
        }
    }
}

fn by_value<'a>(value: Option<&Value>, list: Shape<'a>, map: Shape<'a>) -> Shape<'a> {
    match value {
        Some(Value::Array(_)) => list,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Shape::Scalar(Scalar::Any),
        _ => map,
    }
}

fn relation(cursor: Cursor<'_>) -> Relation<'_> {
    let written = |node: &Schema| node.extensions.list_type.is_some();
    if !written(cursor.site()) && !written(cursor.schema()) && cursor.patch_strategy().merge {
        return cursor.patch_merge_key().map_or(Relation::Set, Relation::MergeKey);
    }
    match cursor.list_type() {
        ListType::Atomic => Relation::Atomic,
        ListType::Set => Relation::Set,
        ListType::Map(keys) => Relation::Keys(keys),
    }
}

fn identify_in_set(item: &Value) -> Result<Step, String> {
    Err(match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(Step::value(scalar)),
    }
    .to_owned())
}

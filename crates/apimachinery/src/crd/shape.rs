//! What happens to a custom resource before validation: metadata is brought into shape, unknown fields are
//! pruned, nulls dropped and defaults filled in.

use std::fmt;

use crate::value::Text;
use crate::{Map, Value};

use super::number::settle;
use super::shaped::is_in_shape;
use crate::decode::{self, Problems};
use crate::field::{FieldError, Path, go_json};
use crate::schema::{Additional, Cursor, Schema};

/// Fields every resource has, whatever its schema says.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

const MANAGED_FIELDS: &str = "managedFields";

/// Removes fields the schema does not know and returns their paths, sorted. The value is a whole resource.
pub fn prune(value: &mut Value, schema: &Schema) -> Vec<String> {
    let mut pruned = Pruned { unknown: Vec::new(), at_root: true };
    pruned.prune(value, Some(schema), true, Trail::Root);
    pruned.unknown.sort();
    pruned.unknown
}

/// Prunes a part of a resource, such as a default.
pub(super) fn prune_part(value: &mut Value, schema: &Schema) {
    let mut pruned = Pruned { unknown: Vec::new(), at_root: false };
    pruned.prune(value, Some(schema), schema.extensions.embedded_resource, Trail::Root);
}

/// The way to a value. It becomes text only when there is something to say about the value.
#[derive(Clone, Copy)]
enum Trail<'a> {
    Root,
    Field(&'a Trail<'a>, &'a str),
    /// A value of a map.
    Key(&'a Trail<'a>, &'a str),
    Item(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    fn to_path(self) -> Path {
        match self {
            Self::Root => Path::root(),
            Self::Field(parent, name) => parent.to_path().child(name),
            Self::Key(parent, key) => parent.to_path().key(key),
            Self::Item(parent, index) => parent.to_path().index(index),
        }
    }
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, key) => f.write_str(key),
            Self::Field(parent, key) | Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

struct Pruned {
    unknown: Vec<String>,
    /// Meta fields directly under the root are never reported.
    at_root: bool,
}

impl Pruned {
    fn prune(
        &mut self,
        value: &mut Value,
        schema: Option<&Schema>,
        embedded: bool,
        path: Trail<'_>,
    ) {
        let preserve = schema.is_some_and(|schema| schema.extensions.preserve_unknown_fields);
        match value {
            Value::Object(fields) => {
                fields.retain(|key, value| {
                    if embedded && META_FIELDS.contains(&key.as_str()) {
                        return true;
                    }
                    let Some(field) = known_field(schema, key) else {
                        let is_meta = self.at_root
                            && matches!(path, Trail::Root)
                            && META_FIELDS.contains(&key.as_str());
                        if !preserve && !is_meta {
                            self.unknown.push(Trail::Field(&path, key).to_string());
                        }
                        return preserve;
                    };
                    // Under a preserving node, values of a map without schema are left alone.
                    if field.is_some() || !preserve {
                        let embedded = field.is_some_and(|f| f.extensions.embedded_resource);
                        self.prune(value, field, embedded, Trail::Field(&path, key));
                    }
                    true
                });
            }
            Value::Array(items) => {
                let element = schema.and_then(|schema| schema.items.as_deref());
                if preserve && element.is_none() {
                    return;
                }
                let embedded = element.is_some_and(|e| e.extensions.embedded_resource);
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune(item, element, embedded, Trail::Item(&path, index));
                }
            }
            _ => {}
        }
    }
}

/// The schema of a field; `Some(None)` when any value is allowed without one.
pub(super) fn known_field<'s>(schema: Option<&'s Schema>, key: &str) -> Option<Option<&'s Schema>> {
    let schema = schema?;
    if let Some(property) = schema.properties.get(key) {
        return Some(Some(property));
    }
    match &schema.additional {
        Additional::Unspecified => None,
        Additional::Allowed | Additional::Forbidden => Some(None),
        Additional::Schema(values) => Some(Some(values)),
    }
}

/// Drops nulls that are neither allowed nor replaced by a default; returns whether there were any.
pub fn drop_nulls(value: &mut Value, schema: &Schema) -> bool {
    let mut dropped = false;
    match value {
        Value::Object(fields) => fields.retain(|key, value| {
            let Some(Some(field)) = known_field(Some(schema), key) else { return true };
            if value.is_null() && !field.nullable && field.default.is_none() {
                dropped = true;
                return false;
            }
            dropped |= drop_nulls(value, field);
            true
        }),
        Value::Array(items) => {
            if let Some(element) = schema.items.as_deref() {
                items.iter_mut().for_each(|item| dropped |= drop_nulls(item, element));
            }
        }
        _ => {}
    }
    dropped
}

/// Fills in defaults; a null counts as absent where null is not allowed. Returns whether anything
/// was filled in.
pub fn default(value: &mut Value, schema: &Schema) -> bool {
    let mut filled = false;
    match value {
        Value::Object(fields) => {
            for (key, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                let stands = fields.get(&**key).is_some_and(|v| !v.is_null() || property.nullable);
                if !stands {
                    fields.insert(key.to_string(), (**default).clone());
                    filled = true;
                }
            }
            for (key, value) in fields.iter_mut() {
                if let Some(Some(field)) = known_field(Some(schema), key) {
                    filled |= default_in_place(value, field);
                }
            }
        }
        Value::Array(items) => {
            if let Some(element) = schema.items.as_deref() {
                items.iter_mut().for_each(|item| filled |= default_in_place(item, element));
            }
        }
        _ => {}
    }
    filled
}

fn default_in_place(value: &mut Value, schema: &Schema) -> bool {
    let mut filled = false;
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = (**default).clone();
        filled = true;
    }
    default(value, schema) || filled
}

/// Brings the metadata of the resource itself into the shape of `object_meta`, noting unknown fields. An
/// error is the text that refuses the body.
fn coerce_own_metadata(
    value: &mut Value,
    object_meta: Cursor<'_>,
    problems: &mut Problems,
) -> Result<(), String> {
    let Value::Object(fields) = value else { return Ok(()) };
    let mut coercion = Coercion { object_meta, unknown: Vec::new() };
    let result = coercion.coerce_resource(fields, Trail::Root);
    coercion.report(problems);
    // It is refused in the decoder's words, without a path.
    result.map_err(|error| match error.path.as_str() {
        "metadata" => error.detail,
        _ => error.to_string(),
    })
}

/// Does the same with the metadata of resources inside the resource.
fn coerce_embedded_metadata(
    value: &mut Value,
    schema: &Schema,
    object_meta: Cursor<'_>,
    problems: &mut Problems,
) -> Result<(), String> {
    let mut coercion = Coercion { object_meta, unknown: Vec::new() };
    let result = coercion.coerce(value, schema, false, Trail::Root);
    coercion.report(problems);
    result.map_err(|error| error.to_string())
}

/// Whether a value is a resource or holds one.
pub(super) fn holds_resource(value: &Value, schema: &Schema) -> bool {
    match value {
        Value::Object(fields) => {
            schema.extensions.embedded_resource
                || fields.iter().any(|(key, value)| {
                    matches!(value, Value::Object(_) | Value::Array(_))
                        && matches!(known_field(Some(schema), key), Some(Some(field)) if holds_resource(value, field))
                })
        }
        Value::Array(items) => schema
            .items
            .as_deref()
            .is_some_and(|element| items.iter().any(|item| holds_resource(item, element))),
        _ => false,
    }
}

struct Coercion<'a> {
    object_meta: Cursor<'a>,
    unknown: Vec<String>,
}

impl Coercion<'_> {
    fn report(mut self, problems: &mut Problems) {
        self.unknown.sort();
        self.unknown.iter().for_each(|path| problems.unknown(path));
    }

    fn coerce(
        &mut self,
        value: &mut Value,
        schema: &Schema,
        embedded: bool,
        path: Trail<'_>,
    ) -> Result<(), FieldError> {
        match value {
            Value::Object(fields) => {
                if embedded {
                    self.coerce_resource(fields, path)?;
                }
                // Looking costs less than making the fields one's own.
                let holds = |(key, value): (&Text, &Value)| matches!(known_field(Some(schema), key), Some(Some(field)) if holds_resource(value, field));
                if !fields.iter().any(holds) {
                    return Ok(());
                }
                for (key, value) in fields.iter_mut() {
                    let Some(Some(field)) = known_field(Some(schema), key) else { continue };
                    if holds_resource(value, field) {
                        let declared = schema.properties.contains_key(key.as_str());
                        let step = if declared { Trail::Field } else { Trail::Key };
                        let embedded = field.extensions.embedded_resource;
                        self.coerce(value, field, embedded, step(&path, key))?;
                    }
                }
                Ok(())
            }
            Value::Array(items) => {
                let Some(element) = schema.items.as_deref() else { return Ok(()) };
                let embedded = element.extensions.embedded_resource;
                for (index, item) in items.iter_mut().enumerate() {
                    self.coerce(item, element, embedded, Trail::Item(&path, index))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn coerce_resource(&mut self, fields: &mut Map, path: Trail<'_>) -> Result<(), FieldError> {
        for key in ["apiVersion", "kind"] {
            if let Some(value) = fields.get(key).filter(|value| !value.is_string()) {
                let path = path.to_path().child(key);
                return Err(FieldError::invalid(&path, value.clone(), "must be a string"));
            }
        }
        // Most metadata is as it should be, and stays shared.
        if fields.get("metadata").is_none_or(|found| decode::is_normal(found, self.object_meta)) {
            return Ok(());
        }
        let Some(metadata) = fields.get_mut("metadata") else { return Ok(()) };
        let path = || path.to_path().child("metadata");
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        let unknown = decode::unknown_fields(metadata, self.object_meta);
        for line in unknown.lines() {
            if let Some(field) = line.split('"').nth(1) {
                self.unknown.push(path().child(field).to_string());
            }
        }
        // Managed fields are most of it, and nobody has to read them in an error.
        let entries = metadata.as_object_mut().and_then(|fields| fields.remove(MANAGED_FIELDS));
        let before = metadata.clone();
        if let (Some(entries), Value::Object(fields)) = (entries, &mut *metadata) {
            fields.insert(MANAGED_FIELDS.to_owned(), entries);
        }
        decode::normalise_in_place(metadata, self.object_meta).map_err(|mismatch| {
            let shown = crate::field::Shown::Verbatim(go_json(&before));
            FieldError::invalid(&path(), shown, mismatch.to_string())
        })
    }
}

/// Everything a written resource goes through between text and admission. `problems` receives what
/// `fieldValidation` has to say; an error is the text that refuses the body. With the schema comes whether it
/// has resources inside.
pub fn shape_written(
    value: &mut Value,
    (schema, has_embedded): (&Schema, bool),
    object_meta: Cursor<'_>,
    problems: &mut Problems,
) -> Result<(), String> {
    settle(value);
    coerce_own_metadata(value, object_meta, problems)?;
    let is_in_shape = is_in_shape(value, schema);
    if !is_in_shape {
        prune(value, schema).iter().for_each(|path| problems.unknown(path));
        // Compat: metadata of a resource inside that is null is gone where the schema mentions it, and empty
        // where it does not.
        drop_nulls(value, schema);
    }
    if has_embedded {
        coerce_embedded_metadata(value, schema, object_meta, problems)?;
    }
    if !is_in_shape {
        default(value, schema);
    }
    Ok(())
}

/// What a resource from the store goes through under the schema of the storage version, which may have
/// changed since it was written. Returns whether it reads differently now.
pub fn shape_stored(value: &mut Value, schema: &Schema) -> bool {
    if is_in_shape(value, schema) {
        return false;
    }
    let pruned = !prune(value, schema).is_empty();
    let dropped = drop_nulls(value, schema);
    default(value, schema) || pruned || dropped
}

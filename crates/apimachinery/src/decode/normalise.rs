//! What reading an object of a built-in kind into Go structs and writing it again makes of it: unknown and
//! empty fields go, required ones appear, times and quantities take their canonical form.

use serde_json::{Map, Value};

use super::Mismatch;
use super::mismatch::Place;
use super::scalar::{self, Special};
use crate::schema::{Additional, Cursor, Presence, Type};

/// Deeper trees are refused; JSON text of such depth is refused already.
const MAX_DEPTH: usize = 200;

/// Brings an object into the shape the API server stores and answers.
pub fn normalise(value: Value, schema: Cursor<'_>) -> Result<Value, Mismatch> {
    shape(value, schema, &Place::root(), 0)
}

/// Where a request holds empty lists, as JSON pointers.
pub fn empty_lists(request: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if holds_empty_list(request) {
        collect_empty_lists(request, &mut String::new(), &mut found);
    }
    found
}

fn collect_empty_lists(value: &Value, path: &mut String, found: &mut Vec<String>) {
    let at = path.len();
    let mut descend = |step: &str, value: &Value| {
        path.push('/');
        path.push_str(&step.replace('~', "~0").replace('/', "~1"));
        collect_empty_lists(value, path, found);
        path.truncate(at);
    };
    match value {
        Value::Array(items) if items.is_empty() => found.push(path.clone()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| descend(&index.to_string(), item));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| descend(name, value)),
        _ => {}
    }
}

/// Puts empty lists back where the client wrote them and [`normalise`] made them null: until the object is
/// stored, whoever writes an empty list owns it.
pub fn carry_empty_lists(pointers: &[String], decoded: &mut Value) {
    for pointer in pointers {
        if let Some(value @ Value::Null) = decoded.pointer_mut(pointer) {
            *value = Value::Array(Vec::new());
        }
    }
}

/// Makes empty lists null where storage does not tell them from absent ones.
pub fn drop_empty_lists(object: &mut Value, schema: Cursor<'_>) {
    // Most objects have none, and looking is cheap without a schema.
    if holds_empty_list(object) {
        drop_within(object, schema);
    }
}

fn holds_empty_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() || items.iter().any(holds_empty_list),
        Value::Object(fields) => fields.values().any(holds_empty_list),
        _ => false,
    }
}

fn drop_within(value: &mut Value, cursor: Cursor<'_>) {
    if cursor.definition().and_then(Special::of).is_some() {
        return;
    }
    match value {
        Value::Object(fields) if is_map(cursor) => {
            let Some(values) = cursor.values() else { return };
            fields.values_mut().for_each(|value| drop_within(value, values));
        }
        Value::Object(fields) => {
            for (name, field) in cursor.properties() {
                match fields.get_mut(name) {
                    Some(value @ Value::Array(_))
                        if field.site().presence == Presence::Always
                            && is_empty_collection(value) =>
                    {
                        *value = Value::Null;
                    }
                    Some(value) => drop_within(value, field),
                    None => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(element) = cursor.items() else { return };
            items.iter_mut().for_each(|item| drop_within(item, element));
        }
        _ => {}
    }
}

fn shape(
    value: Value,
    cursor: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<Value, Mismatch> {
    if depth > MAX_DEPTH {
        return Err(Mismatch::custom("exceeded max depth"));
    }
    if let Some(special) = cursor.definition().and_then(Special::of) {
        return shape_special(value, special, cursor, place, depth);
    }
    let schema = cursor.schema();
    match (schema.kind, value) {
        (_, Value::Null) => zero(cursor, depth),
        (Type::Object | Type::Any, Value::Object(fields)) => {
            if is_map(cursor) {
                return shape_map(fields, cursor, place, depth);
            }
            shape_struct(fields, cursor, place, depth).map(Value::Object)
        }
        (Type::Array, Value::Array(items)) => {
            let Some(element) = cursor.items() else { return Ok(Value::Array(items)) };
            let items = items.into_iter().map(|item| shape(item, element, place, depth + 1));
            items.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Type::String, Value::String(text)) => match schema.format.as_deref() {
            Some("byte") => scalar::bytes(&text),
            _ => Ok(Value::String(text)),
        },
        (Type::Boolean, value @ Value::Bool(_)) | (Type::Number, value @ Value::Number(_)) => {
            Ok(value)
        }
        (Type::Integer, Value::Number(number)) if fits(&number, schema.format.as_deref()) => {
            Ok(Value::Number(number))
        }
        (_, value) => Err(Mismatch::new(&value, cursor, place)),
    }
}

fn fits(number: &serde_json::Number, format: Option<&str>) -> bool {
    match (number.as_i64(), format) {
        (Some(number), Some("int32")) => i32::try_from(number).is_ok(),
        (Some(_), _) => true,
        (None, _) => false,
    }
}

fn is_map(cursor: Cursor<'_>) -> bool {
    cursor.definition().is_none() && !matches!(cursor.schema().additional, Additional::Unspecified)
}

fn shape_special(
    value: Value,
    special: Special,
    cursor: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<Value, Mismatch> {
    match (special, value) {
        (Special::Raw, value) => Ok(value),
        (special, Value::Null) => Ok(special.zero()),
        (Special::Time, Value::String(text)) => scalar::time(&text, false),
        (Special::MicroTime, Value::String(text)) => scalar::time(&text, true),
        (Special::Quantity, value) => scalar::quantity(&value),
        (Special::IntOrString, value @ Value::String(_)) => Ok(value),
        (Special::IntOrString, Value::Number(number)) if fits(&number, Some("int32")) => {
            Ok(Value::Number(number))
        }
        (Special::SchemaOr, Value::Object(fields)) => {
            match cursor.definitions().cursor(&scalar::schema_props()) {
                Some(props) => shape_struct(fields, props, place, depth + 1).map(Value::Object),
                None => Ok(Value::Object(fields)),
            }
        }
        (Special::SchemaOr, Value::Array(items)) => {
            let shaped = items.into_iter().map(|item| match item {
                item @ (Value::Object(_) | Value::Array(_)) => {
                    shape_special(item, special, cursor, place, depth + 1)
                }
                item => Ok(item),
            });
            shaped.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (Special::SchemaOr, value @ Value::Bool(_)) => Ok(value),
        (_, value) => Err(Mismatch::new(&value, cursor, place)),
    }
}

fn shape_map(
    fields: Map<String, Value>,
    cursor: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<Value, Mismatch> {
    let Some(values) = cursor.values() else { return Ok(Value::Object(fields)) };
    let mut shaped = Map::new();
    for (key, value) in fields {
        shaped.insert(key, shape(value, values, place, depth + 1)?);
    }
    Ok(Value::Object(shaped))
}

fn shape_struct(
    mut fields: Map<String, Value>,
    cursor: Cursor<'_>,
    place: &Place<'_>,
    depth: usize,
) -> Result<Map<String, Value>, Mismatch> {
    let mut shaped = Map::new();
    for (name, field) in cursor.properties() {
        let given = fields.remove(name).filter(|value| !value.is_null());
        let presence = field.site().presence;
        let value = match (given, presence) {
            (None, Presence::Pointer | Presence::OmitZero) => continue,
            (None, Presence::Nullable) => Value::Null,
            (None, Presence::OmitEmpty) if !is_struct(field) => continue,
            (None, _) => zero(field, depth + 1)?,
            (Some(value), _) => {
                shape(value, field, &place.field(name, cursor.definition()), depth + 1)?
            }
        };
        match presence {
            Presence::OmitEmpty if !is_struct(field) && is_empty(&value) => {}
            Presence::OmitZero if value.is_null() => {}
            // Lists and maps that hold nothing do not survive storage.
            Presence::Always if is_empty_collection(&value) && !is_struct(field) => {
                shaped.insert(name.to_owned(), Value::Null);
            }
            _ => {
                shaped.insert(name.to_owned(), value);
            }
        }
    }
    Ok(shaped)
}

/// Whether Go holds the value in a struct, which is never empty.
fn is_struct(cursor: Cursor<'_>) -> bool {
    cursor.definition().is_some()
}

/// What Go writes for a value that was never set.
fn zero(cursor: Cursor<'_>, depth: usize) -> Result<Value, Mismatch> {
    if let Some(special) = cursor.definition().and_then(Special::of) {
        return Ok(special.zero());
    }
    match cursor.schema().kind {
        Type::Object | Type::Any if is_struct(cursor) => {
            shape_struct(Map::new(), cursor, &Place::root(), depth + 1).map(Value::Object)
        }
        Type::String if cursor.schema().format.as_deref() == Some("byte") => Ok(Value::Null),
        Type::String => Ok("".into()),
        Type::Integer | Type::Number => Ok(0.into()),
        Type::Boolean => Ok(false.into()),
        _ => Ok(Value::Null),
    }
}

fn is_empty_collection(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => is_empty_collection(value),
    }
}

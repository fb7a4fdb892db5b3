//! JSON to values by the schema it follows, and the names fields go by in expressions.

use base64::Engine as _;
use karmada_apimachinery::Value as Json;
use karmada_apimachinery::schema::{Additional, Schema, Type as Kind};
use karmada_apimachinery::time::parse_go_duration;

use super::Place;
use crate::value::{Key, Value};

/// The name a field goes by in expressions; nothing if it cannot be written as one.
pub fn escape(name: &str) -> Option<String> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || "_.-/".contains(c));
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c));
    if !starts || !plain {
        return None;
    }
    if crate::is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(escaped)
}

/// A value as rules see it.
pub(super) fn value(json: &Json, schema: &Schema, place: Place) -> Value {
    match json {
        Json::Object(fields) if schema.kind == Kind::Object && !schema.is_int_or_string() => {
            if let Additional::Schema(values) = &schema.additional {
                let entries = fields.iter().map(|(name, field)| {
                    (Key::String(name.as_str().into()), value(field, values, Place::Inside))
                });
                return Value::map(entries);
            }
            let whole = place == Place::Root || schema.extensions.embedded_resource;
            let entries = fields.iter().filter_map(|(name, field)| {
                let key = Key::String(escape(name)?.into());
                let shown = match schema.properties.get(name.as_str()) {
                    _ if whole && name == "metadata" => metadata(field),
                    Some(property) => value(field, property, Place::Inside),
                    None if whole && matches!(name.as_str(), "apiVersion" | "kind") => {
                        Value::from_json(field)
                    }
                    None => return None,
                };
                Some((key, shown))
            });
            Value::map(entries)
        }
        Json::Array(items) => match schema.items.as_deref() {
            Some(inner) => {
                Value::list(items.iter().map(|item| value(item, inner, Place::Inside)).collect())
            }
            None => Value::from_json(json),
        },
        Json::String(text) => string(text, schema),
        Json::Number(number) if schema.kind == Kind::Number => {
            Value::Double(number.as_f64().unwrap_or_default())
        }
        Json::Number(number) if schema.kind == Kind::Integer && !number.is_i64() => {
            Value::Int(number.as_f64().unwrap_or_default() as i64)
        }
        other => Value::from_json(other),
    }
}

/// Of an object's metadata rules see the names only.
fn metadata(json: &Json) -> Value {
    let entries = ["name", "generateName"]
        .into_iter()
        .filter_map(|name| Some((Key::String(name.into()), Value::from_json(json.get(name)?))));
    Value::map(entries)
}

fn string(text: &str, schema: &Schema) -> Value {
    let special = match schema.format.as_deref() {
        _ if schema.is_int_or_string() => None,
        Some("date-time") => text.parse().ok().map(Value::Timestamp),
        Some("date") => format!("{text}T00:00:00Z").parse().ok().map(Value::Timestamp),
        Some("duration") => parse_go_duration(text).ok().map(Value::Duration),
        Some("byte") => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok();
            bytes.map(|bytes| Value::Bytes(bytes.into()))
        }
        _ => None,
    };
    special.unwrap_or_else(|| text.into())
}

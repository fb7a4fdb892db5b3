//! JSON merge patch (RFC 7386): null removes, maps merge, everything else replaces.

use crate::{Map, Value};

use super::go_type;
use crate::status::Status;

/// Applies a merge patch, which must be a map.
pub fn apply(document: &Value, patch: &Value) -> Result<Value, Status> {
    match patch {
        Value::Object(patch) => {
            let mut document = document.clone();
            match &mut document {
                Value::Object(map) => merge(map, patch),
                other => *other = without_nulls(&Value::Object(patch.clone())),
            }
            Ok(document)
        }
        Value::Null => Err(Status::bad_request("Invalid JSON Patch")),
        other => Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_type(other)
        ))),
    }
}

fn merge(map: &mut Map, patch: &Map) {
    for (key, change) in patch {
        match (map.get_mut(key), change) {
            (_, Value::Null) => drop(map.remove(key)),
            (Some(Value::Object(current)), Value::Object(change)) => merge(current, change),
            // Compat: nulls inside lists are dropped too, except where a map gives way to a list.
            (Some(Value::Object(_)), change) => drop(map.insert(key.clone(), change.clone())),
            (_, change) => drop(map.insert(key.clone(), without_nulls(change))),
        }
    }
}

/// Drops null fields of maps at any depth; null elements of lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

/// The smallest merge patch that turns `from` into `to`, which must hold no nulls.
pub fn diff(from: &Map, to: &Map) -> Map {
    let mut patch = Map::new();
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, wanted) in to {
        match (from.get(key), wanted) {
            (Some(current), wanted) if current == wanted => {}
            (Some(Value::Object(current)), Value::Object(wanted)) => {
                patch.insert(key.clone(), Value::Object(diff(current, wanted)));
            }
            (_, wanted) => drop(patch.insert(key.clone(), wanted.clone())),
        }
    }
    patch
}

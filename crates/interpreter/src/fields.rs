//! Strict reading of object fields: absent and null mean "not there", a wrong type is an error with its path.

use jiff::Timestamp;
use karmada_apimachinery::time::parse_time;
use karmada_apimachinery::{Map, Value};
use serde::de::DeserializeOwned;

use crate::error::{Error, Result, type_name};

/// Follows a path through objects; stops at the first missing or null step.
pub(crate) fn walk<'a>(value: &'a Value, path: &[&str]) -> Result<Option<&'a Value>> {
    let mut here = value;
    for (depth, step) in path.iter().enumerate() {
        let map = match here {
            Value::Object(map) => map,
            other => return Err(Error::wrong_type(&path[..depth], "an object", other)),
        };
        match map.get(*step) {
            None | Some(Value::Null) => return Ok(None),
            Some(next) => here = next,
        }
    }
    Ok(Some(here))
}

pub(crate) fn int(value: &Value, path: &[&str]) -> Result<Option<i64>> {
    let Some(found) = walk(value, path)? else { return Ok(None) };
    match found.as_i64() {
        Some(number) => Ok(Some(number)),
        None => Err(Error::wrong_type(path, "an integer", found)),
    }
}

/// An integer, 0 where none stands.
pub(crate) fn count(value: &Value, path: &[&str]) -> Result<i64> {
    Ok(int(value, path)?.unwrap_or(0))
}

/// A 32-bit number of replicas, `default` where none stands.
pub(crate) fn replicas(value: &Value, path: &[&str], default: i32) -> Result<i32> {
    let Some(number) = int(value, path)? else { return Ok(default) };
    i32::try_from(number)
        .map_err(|_| Error::invalid(path, format!("{number} has more than 32 bits")))
}

/// Text, empty where none stands.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Result<&'a str> {
    match walk(value, path)? {
        None => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(Error::wrong_type(path, "a string", other)),
    }
}

pub(crate) fn flag(value: &Value, path: &[&str]) -> Result<Option<bool>> {
    match walk(value, path)? {
        None => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(Error::wrong_type(path, "a boolean", other)),
    }
}

/// A list, empty where none stands.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> Result<&'a [Value]> {
    match walk(value, path)? {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(Error::wrong_type(path, "a list", other)),
    }
}

/// A list of objects; an item that is none is named with its place.
pub(crate) fn objects<'a>(value: &'a Value, path: &[&str]) -> Result<&'a [Value]> {
    let items = list(value, path)?;
    match items.iter().position(|item| !item.is_object()) {
        None => Ok(items),
        Some(index) => Err(Error::FieldType {
            path: format!("{}[{index}]", path.join(".")),
            expected: "an object",
            found: type_name(&items[index]),
        }),
    }
}

pub(crate) fn map<'a>(value: &'a Value, path: &[&str]) -> Result<Option<&'a Map>> {
    match walk(value, path)? {
        None => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => Err(Error::wrong_type(path, "an object", other)),
    }
}

/// A map of strings, as labels are.
pub(crate) fn string_map<'a>(value: &'a Value, path: &[&str]) -> Result<Option<&'a Map>> {
    let Some(map) = map(value, path)? else { return Ok(None) };
    for (key, entry) in map {
        if !entry.is_string() {
            return Err(Error::wrong_type(&[path, &[key]].concat(), "a string", entry));
        }
    }
    Ok(Some(map))
}

pub(crate) fn time(value: &Value, path: &[&str]) -> Result<Option<Timestamp>> {
    let Some(found) = walk(value, path)? else { return Ok(None) };
    match found.as_str().and_then(parse_time) {
        Some(time) => Ok(Some(time)),
        None => Err(Error::invalid(path, "not an RFC 3339 time")),
    }
}

/// Decodes what stands at a path into a type.
pub(crate) fn decode<T: DeserializeOwned>(value: &Value, path: &[&str]) -> Result<Option<T>> {
    match walk(value, path)? {
        None => Ok(None),
        Some(found) => T::deserialize(found).map(Some).map_err(|e| Error::invalid(path, e)),
    }
}

/// The object at a path of a template that must be one; names the path if it is not.
pub(crate) fn make_map<'a>(value: &'a mut Value, path: &[&str]) -> Result<&'a mut Map> {
    let mut here = value;
    for (depth, step) in path.iter().enumerate() {
        let Value::Object(map) = here else {
            return Err(Error::wrong_type(&path[..depth], "an object", here));
        };
        let next = map.entry((*step).to_owned()).or_insert(Value::Null);
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        here = next;
    }
    match here {
        Value::Object(map) => Ok(map),
        other => Err(Error::wrong_type(path, "an object", other)),
    }
}

/// Sets a field, making missing objects on the way.
pub(crate) fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) -> Result<()> {
    if let Some((last, parents)) = path.split_last() {
        make_map(object, parents)?.insert((*last).to_owned(), value.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn wrong_types_are_named_with_their_path_and_null_reads_as_absent() {
        let object = json!({"spec": {"replicas": "3", "paused": null, "template": []}});
        let error = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(
            error(int(&object, &["spec", "replicas"]).map(drop)),
            "spec.replicas: expected an integer, found a string"
        );
        assert_eq!(
            error(text(&object, &["spec", "template", "spec"]).map(drop)),
            "spec.template: expected an object, found a list"
        );
        assert_eq!(flag(&object, &["spec", "paused"]).unwrap(), None);
        assert_eq!(count(&object, &["status", "replicas"]).unwrap(), 0);
    }
}

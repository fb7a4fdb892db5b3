//! JSON patch (RFC 6902) with the liberties Kubernetes takes: replacing a missing map key adds it,
//! negative list indexes count from the end, and what stands before the first slash is ignored.

use crate::{Map, Value};

use super::go_type;
use crate::object::ObjectExt;
use crate::status::{Details, Status};

/// Operations one patch may hold.
pub const MAX_OPERATIONS: usize = 10_000;

/// Applies a list of operations; either all of them take effect or none.
pub fn apply(document: &Value, patch: &Value) -> Result<Value, Status> {
    let wrong_type = |value: &Value, expected: &str| {
        Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type {expected}",
            go_type(value)
        ))
    };
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(wrong_type(other, "[]handlers.jsonPatchOp")),
    };
    if let Some(bad) = operations.iter().find(|one| !one.is_object() && !one.is_null()) {
        return Err(wrong_type(bad, "handlers.jsonPatchOp"));
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut document = document.clone();
    for operation in operations {
        perform(&mut document, operation).ok_or_else(rejected)?;
    }
    Ok(document)
}

/// Kubernetes says no more than this about an operation that cannot be performed.
fn rejected() -> Status {
    Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
        .with_details(Details::default())
}

fn perform(document: &mut Value, operation: &Value) -> Option<()> {
    let path = || operation.str_at(&["path"]);
    let from = || operation.str_at(&["from"]);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match operation.str_at(&["op"])? {
        "add" => add(document, path()?, value()),
        "remove" => remove(document, path()?).map(drop),
        "replace" => replace(document, path()?, value()),
        "move" => {
            let moved = remove(document, from()?)?;
            add(document, path()?, moved)
        }
        "copy" => {
            let (container, key) = find(document, from()?)?;
            let copied = container.get(&key)?;
            add(document, path()?, copied)
        }
        "test" => {
            let path = path()?;
            let found = if path.is_empty() {
                document.clone()
            } else {
                let (container, key) = find(document, path)?;
                container.get(&key)?
            };
            (found == value()).then_some(())
        }
        _ => None,
    }
}

/// A place values are added to and removed from.
enum Container<'a> {
    Map(&'a mut Map),
    List(&'a mut crate::value::List),
}

impl<'a> Container<'a> {
    fn of(value: &'a mut Value) -> Option<Self> {
        match value {
            Value::Object(map) => Some(Self::Map(map)),
            Value::Array(list) => Some(Self::List(list)),
            _ => None,
        }
    }

    /// A missing key of a map reads as null, a missing index of a list is an error.
    fn get(&self, key: &str) -> Option<Value> {
        match self {
            Self::Map(map) => Some(map.get(key).cloned().unwrap_or(Value::Null)),
            Self::List(list) => list.get(index(key, list.len())?).cloned(),
        }
    }
}

/// Finds the container of the last step; every step before it must exist.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(Container<'a>, String)> {
    let mut steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut key = steps.next()?;
    let mut value = document;
    for next in steps {
        value = match value {
            Value::Object(map) => map.get_mut(&key)?,
            Value::Array(list) => {
                let at = index(&key, list.len())?;
                list.get_mut(at)?
            }
            _ => return None,
        };
        key = next;
    }
    Some((Container::of(value)?, key))
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    match find(document, path)? {
        (Container::Map(map), key) => drop(map.insert(key, value)),
        (Container::List(list), key) if key == "-" => list.push(value),
        (Container::List(list), key) => {
            let at = index(&key, list.len() + 1)?;
            list.insert(at, value);
        }
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    match find(document, path)? {
        (Container::Map(map), key) => map.remove(&key),
        (Container::List(list), key) => {
            let at = index(&key, list.len())?;
            Some(list.remove(at))
        }
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *document = Some(value).filter(|value| value.is_object() || value.is_array())?;
        return Some(());
    }
    match find(document, path)? {
        (Container::Map(map), key) => drop(map.insert(key, value)),
        (Container::List(list), key) => {
            let at = index(&key, list.len())?;
            *list.get_mut(at)? = value;
        }
    }
    Some(())
}

/// The position an index stands for in a list with `length` places.
fn index(key: &str, length: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    let from_end = if index < 0 { i64::try_from(length).ok()? } else { 0 };
    usize::try_from(index + from_end).ok().filter(|index| *index < length)
}

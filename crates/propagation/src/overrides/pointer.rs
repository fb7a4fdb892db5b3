//! Edits at a JSON pointer (RFC 6901), in place.

use karmada_apimachinery::Value;

/// An edit that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    #[error("path {0:?} does not begin with a slash")]
    NotAPointer(String),
    #[error("path {0:?} does not exist")]
    Missing(String),
    #[error("path {0:?} leads through a value that is neither a map nor a list")]
    NotAContainer(String),
    #[error("path {path:?}: {token:?} is no index of a list of {length}")]
    BadIndex { path: String, token: String, length: usize },
    #[error("{0}")]
    Refused(String),
}

/// Sets the value: a map key is added or replaced, a list element is inserted, `-` appends.
pub fn add(root: &mut Value, path: &str, value: Value) -> Result<(), PointerError> {
    if path.is_empty() {
        *root = value;
        return Ok(());
    }
    let (parent, last) = parent_of(root, path)?;
    match parent {
        Value::Object(map) => {
            map.insert(last, value);
        }
        Value::Array(list) => {
            let index =
                if last == "-" { list.len() } else { index_of(path, &last, list.len() + 1)? };
            list.insert(index, value);
        }
        _ => return Err(PointerError::NotAContainer(path.to_owned())),
    }
    Ok(())
}

/// Replaces a value that exists.
pub fn replace(root: &mut Value, path: &str, value: Value) -> Result<(), PointerError> {
    *get_mut(root, path)? = value;
    Ok(())
}

/// Removes a value that exists.
pub fn remove(root: &mut Value, path: &str) -> Result<(), PointerError> {
    let (parent, last) = parent_of(root, path)?;
    match parent {
        Value::Object(map) => {
            map.remove(&last).ok_or_else(|| PointerError::Missing(path.to_owned()))?;
        }
        Value::Array(list) => {
            let index = index_of(path, &last, list.len())?;
            list.remove(index);
        }
        _ => return Err(PointerError::NotAContainer(path.to_owned())),
    }
    Ok(())
}

/// Returns the value at the path.
pub fn get_mut<'a>(root: &'a mut Value, path: &str) -> Result<&'a mut Value, PointerError> {
    let mut value = root;
    for token in tokens(path)? {
        value = step(value, &token, path)?;
    }
    Ok(value)
}

fn parent_of<'a>(root: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), PointerError> {
    let mut tokens = tokens(path)?;
    let last = tokens.pop().ok_or_else(|| PointerError::Missing(path.to_owned()))?;
    let mut value = root;
    for token in tokens {
        value = step(value, &token, path)?;
    }
    Ok((value, last))
}

fn tokens(path: &str) -> Result<Vec<String>, PointerError> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let rest = path.strip_prefix('/').ok_or_else(|| PointerError::NotAPointer(path.to_owned()))?;
    Ok(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn step<'a>(value: &'a mut Value, token: &str, path: &str) -> Result<&'a mut Value, PointerError> {
    let missing = || PointerError::Missing(path.to_owned());
    match value {
        Value::Object(map) => map.get_mut(token).ok_or_else(missing),
        Value::Array(list) => {
            let index = index_of(path, token, list.len())?;
            list.get_mut(index).ok_or_else(missing)
        }
        _ => Err(PointerError::NotAContainer(path.to_owned())),
    }
}

/// Reads an index below `end`; negative ones count from the end.
fn index_of(path: &str, token: &str, end: usize) -> Result<usize, PointerError> {
    let bad =
        || PointerError::BadIndex { path: path.to_owned(), token: token.to_owned(), length: end };
    let index: i64 = token.parse().map_err(|_| bad())?;
    let index = if index < 0 { index + end as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < end).ok_or_else(bad)
}

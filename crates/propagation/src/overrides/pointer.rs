//! Edits at a JSON pointer (RFC 6901), in place.

use std::num::IntErrorKind;

use karmada_apimachinery::Value;
use karmada_apimachinery::field::quote;

/// An edit that cannot be made.
///
/// Compat: these texts reach events, so they are those of the libraries the original edits with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PointerError(String);

impl PointerError {
    fn missing(operation: &str, part: &str, path: &str) -> Self {
        Self(format!(
            "{operation} operation does not apply: doc is missing {part}: {path}: missing value"
        ))
    }

    fn refused(operation: &str, path: &str, problem: &str) -> Self {
        Self(format!("error in {operation} for path: '{path}': {problem}"))
    }

    fn unreachable(problem: &str) -> Self {
        Self(format!("{problem}: JSON pointer error"))
    }
}

/// What paths lead through.
pub trait Tree: Sized {
    fn of(value: &Value) -> Self;
    fn shape(&mut self) -> Shape;
    fn field(&mut self, key: &str) -> Option<&mut Self>;
    fn item(&mut self, place: usize) -> Option<&mut Self>;
    fn set_field(&mut self, key: String, value: Self);
    /// Whether there was such a field.
    fn remove_field(&mut self, key: &str) -> bool;
    fn insert_item(&mut self, place: usize, value: Self);
    fn remove_item(&mut self, place: usize);
}

/// What a value is to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Map,
    /// With so many items.
    List(usize),
    Scalar,
}

impl Tree for Value {
    fn of(value: &Value) -> Self {
        value.clone()
    }

    fn shape(&mut self) -> Shape {
        match self {
            Self::Object(_) => Shape::Map,
            Self::Array(list) => Shape::List(list.len()),
            _ => Shape::Scalar,
        }
    }

    fn field(&mut self, key: &str) -> Option<&mut Self> {
        self.as_object_mut()?.get_mut(key)
    }

    fn item(&mut self, place: usize) -> Option<&mut Self> {
        self.as_array_mut()?.get_mut(place)
    }

    fn set_field(&mut self, key: String, value: Self) {
        if let Self::Object(map) = self {
            map.insert(key, value);
        }
    }

    fn remove_field(&mut self, key: &str) -> bool {
        self.as_object_mut().is_some_and(|map| map.remove(key).is_some())
    }

    fn insert_item(&mut self, place: usize, value: Self) {
        if let Self::Array(list) = self {
            list.insert(place, value);
        }
    }

    fn remove_item(&mut self, place: usize) {
        if let Self::Array(list) = self {
            list.remove(place);
        }
    }
}

/// Sets the value: a map key is added or replaced, a list element is inserted, `-` appends.
pub fn add<T: Tree>(root: &mut T, path: &str, value: T) -> Result<(), PointerError> {
    if path.is_empty() {
        *root = value;
        return Ok(());
    }
    let missing = || PointerError::missing("add", "path", &format!("\"{path}\""));
    let (parent, last) = parent_of(root, path).ok_or_else(missing)?;
    match parent.shape() {
        Shape::Map => parent.set_field(last, value),
        Shape::List(length) if last == "-" => parent.insert_item(length, value),
        Shape::List(length) => {
            let index = number(&last).map_err(|problem| {
                format!("value was not a proper array index: '{last}': {problem}")
            });
            let place = index.and_then(|index| place(index, length + 1));
            let refused = |problem: String| PointerError::refused("add", path, &problem);
            parent.insert_item(place.map_err(refused)?, value);
        }
        Shape::Scalar => return Err(missing()),
    }
    Ok(())
}

/// Replaces a value that exists.
pub fn replace<T: Tree>(root: &mut T, path: &str, value: T) -> Result<(), PointerError> {
    if path.is_empty() {
        *root = value;
        return Ok(());
    }
    let missing = |part: &str| PointerError::missing("replace", part, path);
    let (parent, last) = parent_of(root, path).ok_or_else(|| missing("path"))?;
    *child(parent, &last).ok_or_else(|| missing("key"))? = value;
    Ok(())
}

/// Removes a value that exists.
pub fn remove<T: Tree>(root: &mut T, path: &str) -> Result<(), PointerError> {
    let missing = || PointerError::missing("remove", "path", &format!("\"{path}\""));
    let refused = |problem: String| PointerError::refused("remove", path, &problem);
    let (parent, last) = parent_of(root, path).ok_or_else(missing)?;
    match parent.shape() {
        Shape::Map if parent.remove_field(&last) => {}
        Shape::Map => {
            return Err(refused(format!(
                "unable to remove nonexistent key: {last}: missing value"
            )));
        }
        Shape::List(length) => {
            let place = number(&last).and_then(|index| place(index, length));
            parent.remove_item(place.map_err(refused)?);
        }
        Shape::Scalar => return Err(missing()),
    }
    Ok(())
}

/// Returns the value at the path.
pub fn get_mut<'a>(root: &'a mut Value, path: &str) -> Result<&'a mut Value, PointerError> {
    if !path.is_empty() && !path.starts_with('/') {
        return Err(PointerError::unreachable("JSON pointer must be empty or start with a \"/"));
    }
    tokens(path).try_fold(root, |value, token| look(value, &token))
}

fn look<'a>(value: &'a mut Value, token: &str) -> Result<&'a mut Value, PointerError> {
    match value {
        Value::Object(map) => map.get_mut(token).ok_or_else(|| {
            PointerError::unreachable(&format!("object has no key {}", quote(token)))
        }),
        Value::Array(list) => {
            let (index, length) = (number(token).map_err(PointerError)?, list.len() as i64);
            let item = usize::try_from(index).ok().and_then(|index| list.get_mut(index));
            item.ok_or_else(|| {
                let bounds = length - 1;
                PointerError::unreachable(&format!(
                    "index out of bounds array[0,{bounds}] index '{index}'"
                ))
            })
        }
        _ => {
            let problem = format!("invalid token reference {}", quote(token));
            Err(PointerError::unreachable(&problem))
        }
    }
}

/// The map or list that holds what the path names, and the name.
fn parent_of<'a, T: Tree>(root: &'a mut T, path: &str) -> Option<(&'a mut T, String)> {
    let (above, _) = path.rsplit_once('/')?;
    let last = tokens(&path[above.len()..]).next()?;
    let parent = tokens(above).try_fold(root, |value, token| child(value, &token))?;
    (parent.shape() != Shape::Scalar).then_some((parent, last))
}

/// The names a path leads by.
fn tokens(path: &str) -> impl Iterator<Item = String> {
    path.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
}

pub(super) fn child<'a, T: Tree>(value: &'a mut T, token: &str) -> Option<&'a mut T> {
    match value.shape() {
        Shape::Map => value.field(token),
        Shape::List(length) => {
            value.item(number(token).and_then(|index| place(index, length)).ok()?)
        }
        Shape::Scalar => None,
    }
}

fn number(token: &str) -> Result<i64, String> {
    token.parse().map_err(|error: std::num::ParseIntError| {
        let problem = match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {problem}", quote(token))
    })
}

/// The place of an index below `end`; negative ones count from the end.
fn place(index: i64, end: usize) -> Result<usize, String> {
    let counted = if index < 0 { index + end as i64 } else { index };
    usize::try_from(counted)
        .ok()
        .filter(|place| *place < end)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

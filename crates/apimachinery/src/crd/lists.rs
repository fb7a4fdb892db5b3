//! Uniqueness in lists that the schema declares to be sets or maps.

use crate::{Map, Value};

use crate::field::{FieldError, Path};
use crate::schema::{Additional, Schema};

/// Reports elements that appear, or whose keys appear, more than once.
pub fn validate_lists(value: &Value, schema: &Schema, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(value, schema, &Trail::Start(path), &mut errors);
    errors
}

/// Whether a list in which nothing may stand twice may be anywhere below a node. Where there is none,
/// [`validate_lists`] has nothing to say.
pub(super) fn has_unique_lists(schema: &Schema) -> bool {
    let values = match &schema.additional {
        Additional::Schema(values) => Some(&**values),
        _ => None,
    };
    matches!(schema.extensions.list_type.as_deref(), Some("set" | "map"))
        || schema.properties.values().any(has_unique_lists)
        || schema.items.as_deref().is_some_and(has_unique_lists)
        || values.is_some_and(has_unique_lists)
}

/// The way to a value. It becomes a path only where there is a list to look at.
enum Trail<'a> {
    Start(&'a Path),
    Field(&'a Trail<'a>, &'a str),
    Key(&'a Trail<'a>, &'a str),
    Item(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    fn path(&self) -> Path {
        match self {
            Self::Start(path) => (*path).clone(),
            Self::Field(parent, name) => parent.path().child(name),
            Self::Key(parent, key) => parent.path().key(key),
            Self::Item(parent, index) => parent.path().index(*index),
        }
    }
}

fn walk(value: &Value, schema: &Schema, trail: &Trail<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            if let Additional::Schema(values) = &schema.additional {
                for (key, value) in fields {
                    walk(value, values, &Trail::Key(trail, key), errors);
                }
            }
            for (key, value) in fields {
                if let Some(property) = schema.properties.get(key.as_str()) {
                    walk(value, property, &Trail::Field(trail, key), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.extensions.list_type.as_deref() {
                // Most lists are in order, and of them nobody asks where they are.
                Some("set") if !has_twins(items, |a, b| a == b) => {}
                Some("set") => check_unique(items, &trail.path(), errors),
                Some("map") if are_told_apart(items, &schema.extensions.list_map_keys) => {}
                Some("map") => {
                    check_keys(items, &schema.extensions.list_map_keys, &trail.path(), errors);
                }
                _ => {}
            }
            if let Some(element) = schema.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    walk(item, element, &Trail::Item(trail, index), errors);
                }
            }
        }
        _ => {}
    }
}

/// Longer lists are searched by what is written of them.
const FEW: usize = 16;

/// Whether two values may be the same.
fn has_twins(items: &[Value], same: impl Fn(&Value, &Value) -> bool) -> bool {
    items.len() > FEW
        || items
            .iter()
            .enumerate()
            .any(|(index, item)| items[..index].iter().any(|other| same(item, other)))
}

/// Whether all are objects that differ in their keys.
fn are_told_apart(items: &[Value], keys: &[String]) -> bool {
    let same = |a: &Value, b: &Value| keys.iter().all(|key| a.get(key) == b.get(key));
    items.iter().all(Value::is_object) && !has_twins(items, same)
}

fn check_keys(items: &[Value], keys: &[String], path: &Path, errors: &mut Vec<FieldError>) {
    let is_wrong = |item: &Value| !item.is_object() && !item.is_null();
    if let Some((index, item)) = items.iter().enumerate().find(|(_, item)| is_wrong(item)) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path.index(index), item.clone(), detail));
        return;
    }
    let identities: Vec<Value> = items
        .iter()
        .map(|item| {
            let pairs = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
            Value::Object(pairs.collect::<Map>())
        })
        .collect();
    check_unique(&identities, path, errors);
}

/// Each value that occurs again is reported once, at its second place.
fn check_unique(items: &[Value], path: &Path, errors: &mut Vec<FieldError>) {
    let mut times: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let seen = times.entry(item.to_string()).or_default();
        *seen += 1;
        if *seen == 2 {
            errors.push(FieldError::duplicate(&path.index(index), item.clone()));
        }
    }
}

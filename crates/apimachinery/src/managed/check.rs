//! Whether a value fits its place, in Kubernetes' words.

use std::collections::BTreeSet;

use crate::Value;

use super::place::{Place, Relation, Scalar, Shape};
use super::set::Step;

/// Whether elements of a list may share a key: what is stored may, what is applied may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

/// Says why a value does not fit its place, or nothing. The text is Kubernetes'.
pub(super) fn check(value: &Value, place: Place<'_>, duplicates: Duplicates) -> Option<String> {
    let mut errors = Vec::new();
    check_at(value, place, duplicates, "", &mut errors);
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("errors:\n  {}", errors.join("\n  "))),
    }
}

fn check_at(
    value: &Value,
    place: Place<'_>,
    duplicates: Duplicates,
    path: &str,
    errors: &mut Vec<String>,
) {
    let mut refuse = |message: String| {
        errors.push(if path.is_empty() { message } else { format!("{path}: {message}") });
    };
    match (place.shape(Some(value)), value) {
        (_, Value::Null) => {}
        (Shape::Scalar(scalar), value) => {
            if let Some(message) = check_scalar(value, scalar) {
                refuse(message);
            }
        }
        (Shape::List(relation), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let step = if matches!(relation, Relation::Atomic) {
                    Step::Index(index as u64)
                } else {
                    match place.identify(item, relation) {
                        Ok(step) => step,
                        Err(why) => {
                            let at = if path.is_empty() { "" } else { ": " };
                            errors.push(format!("{path}{at}element {index}: {why}"));
                            return;
                        }
                    }
                };
                if !seen.insert(step.clone()) && duplicates == Duplicates::Refused {
                    errors.push(format!("{path}: duplicate entries for key {step}"));
                }
                check_at(item, place.items(), duplicates, &format!("{path}{step}"), errors);
            }
        }
        (Shape::Map { .. }, Value::Object(fields)) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match place.field(name).0 {
                    Place::Unknown => {
                        errors.push(format!("{path}: field not declared in schema"));
                        return;
                    }
                    at => check_at(value, at, duplicates, &path, errors),
                }
            }
        }
        (Shape::List(_), value) => refuse(format!("expected list, got &{{{}}}", go_text(value))),
        (Shape::Map { .. }, value) => refuse(format!("expected map, got &{{{}}}", go_text(value))),
    }
}

fn check_scalar(value: &Value, scalar: Scalar) -> Option<String> {
    match (scalar, value) {
        (Scalar::Number, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Flag, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Number, other) => {
            let kind = match other {
                Value::Bool(_) => "bool",
                Value::String(_) => "string",
                Value::Array(_) => "[]interface {}",
                _ => "map[string]interface {}",
            };
            Some(format!("expected numeric (int or float), got {kind}"))
        }
        (Scalar::Text, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_text(other)
        )),
        (Scalar::Flag, other) => Some(format!("expected boolean, got &{{{}}}", go_text(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", go_text(other))),
    }
}

fn go_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => other.to_string(),
    }
}

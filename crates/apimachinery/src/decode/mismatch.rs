//! A value of the wrong type, in the words of Go's JSON decoder.

use std::fmt;

use crate::Value;

use crate::schema::{Cursor, Type};

/// A value that does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch(String);

impl Mismatch {
    /// The error a type's own parser gives.
    pub(super) fn custom(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
    pub(super) fn new(value: &Value, cursor: Cursor<'_>, place: &Place<'_>) -> Self {
        let is_number_field = matches!(cursor.schema().kind, Type::Integer | Type::Number);
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if is_number_field => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let wanted = go_type(cursor);
        Self(match place.owner() {
            Some(owner) => {
                let path = place.path();
                format!(
                    "json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}"
                )
            }
            None => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
        })
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mismatch {}

/// The way from the root to a value; list positions and map keys are not part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    field: &'a str,
    /// The definition that declares the field.
    owner: Option<&'a str>,
}

impl<'a> Place<'a> {
    pub(super) fn root() -> Self {
        Self { parent: None, field: "", owner: None }
    }

    pub(super) fn field(&'a self, field: &'a str, owner: Option<&'a str>) -> Self {
        Self { parent: Some(self), field, owner: owner.or(self.owner) }
    }

    fn owner(&self) -> Option<&'a str> {
        self.owner.map(|name| name.rsplit('.').next().unwrap_or(name))
    }

    fn path(&self) -> String {
        let mut fields = vec![self.field];
        let mut place = self;
        while let Some(parent) = place.parent {
            if !parent.field.is_empty() {
                fields.push(parent.field);
            }
            place = parent;
        }
        fields.reverse();
        fields.join(".")
    }
}

fn go_type(cursor: Cursor<'_>) -> String {
    if let Some(name) = cursor.definition() {
        let mut parts = name.rsplit('.');
        let kind = parts.next().unwrap_or_default();
        let package = parts.next().unwrap_or_default();
        return format!("{package}.{kind}");
    }
    let schema = cursor.schema();
    match schema.kind {
        Type::Array if schema.format.as_deref() == Some("byte") => "[]uint8".into(),
        Type::Array => format!("[]{}", cursor.items().map_or_else(String::new, go_type)),
        Type::Object => format!("map[string]{}", cursor.values().map_or_else(String::new, go_type)),
        Type::Integer => schema.format.as_deref().unwrap_or("int64").to_owned(),
        Type::Number => "float64".into(),
        Type::Boolean => "bool".into(),
        Type::String if schema.format.as_deref() == Some("byte") => "[]uint8".into(),
        _ => "string".into(),
    }
}

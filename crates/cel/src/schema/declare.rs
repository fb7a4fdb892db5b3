//! Types of values from their schema, with the largest sizes a request leaves room for.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_apimachinery::schema::{Additional, Schema, Type as Kind};

use super::Place;
use super::convert::escape;
use crate::types::{ObjectType, Type};

/// The largest request there can be.
const REQUEST: u64 = 3 * 1024 * 1024;

/// The type of values of a schema.
pub(super) fn type_of(schema: &Schema, place: Place) -> Type {
    named(schema, place, "object")
}

fn named(schema: &Schema, place: Place, name: &str) -> Type {
    if schema.is_int_or_string() {
        return Type::Dyn;
    }
    let limits = schema.limits();
    match schema.kind {
        Kind::Object => object(schema, place, name),
        Kind::Array => {
            let Some(items) = schema.items.as_deref() else { return Type::Dyn };
            let least = smallest(items, Place::Inside);
            let most = limits.max_items.unwrap_or((REQUEST - 2) / (least + 1));
            let inner = named(items, Place::Inside, &format!("{name}.@idx"));
            Type::List(Arc::new(inner), most)
        }
        Kind::String => match schema.format.as_deref() {
            Some("date-time" | "date") => Type::Timestamp,
            Some("duration") => Type::Duration,
            Some("byte") => Type::Bytes(limits.max_length.unwrap_or(REQUEST - 2)),
            _ => Type::String(longest(schema)),
        },
        Kind::Integer => Type::Int,
        Kind::Number => Type::Double,
        Kind::Boolean => Type::Bool,
        Kind::Any | Kind::Unknown => Type::Dyn,
    }
}

fn longest(schema: &Schema) -> u64 {
    let limits = schema.limits();
    if let Some(values) = &limits.enumeration {
        let lengths = values.iter().filter_map(|v| v.as_str()).map(|text| text.len() as u64);
        return lengths.max().unwrap_or_default();
    }
    // A character can take four bytes.
    limits.max_length.map_or(REQUEST - 2, |most| most.saturating_mul(4))
}

fn object(schema: &Schema, place: Place, name: &str) -> Type {
    if let Additional::Schema(values) = &schema.additional {
        let least = smallest(values, Place::Inside) + 6;
        let most = schema.limits().max_properties.unwrap_or((REQUEST - 2) / least);
        let inner = named(values, Place::Inside, &format!("{name}.@elem"));
        // Compat: Kubernetes estimates keys as if they were empty; definitions rely on it.
        return Type::Map(Arc::new(Type::String(0)), Arc::new(inner), most);
    }
    let mut fields = BTreeMap::new();
    for (field, property) in &schema.properties {
        if let Some(escaped) = escape(field) {
            fields.insert(escaped, named(property, Place::Inside, &format!("{name}.{field}")));
        }
    }
    if place == Place::Root || schema.extensions.embedded_resource {
        let text = || Type::String(REQUEST - 2);
        let metadata = [("name", text()), ("generateName", text())];
        fields.insert("apiVersion".into(), text());
        fields.insert("kind".into(), text());
        fields.insert("metadata".into(), Type::object(&format!("{name}.metadata"), metadata));
    }
    Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
}

/// The shortest text a value of a schema can be written as.
fn smallest(schema: &Schema, place: Place) -> u64 {
    if schema.is_int_or_string() {
        return 1;
    }
    match schema.kind {
        Kind::Array | Kind::String => 2,
        Kind::Boolean => 4,
        Kind::Object => {
            let required = schema.required.iter().filter_map(|name| {
                let property = schema.properties.get(name)?;
                let open = property.default.is_none();
                open.then(|| name.len() as u64 + 4 + smallest(property, Place::Inside))
            });
            let metadata = if place == Place::Root { 30 } else { 0 };
            2 + required.sum::<u64>() + metadata
        }
        _ => 1,
    }
}

/// How many values of a schema a request has room for, where nothing bounds them.
pub(super) fn cardinality(schema: &Schema, place: Place) -> u64 {
    REQUEST / (smallest(schema, place) + 1)
}

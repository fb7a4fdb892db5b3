//! Reads schema nodes from OpenAPI JSON. Keywords nobody here acts on are skipped; what is wrong with a
//! schema as such is for the validation of definitions to say.

use crate::{Map, Value};

use super::{Additional, Definitions, Extensions, Limits, Presence, Reference, Schema, Type};

/// Deeper schemas are refused; a request body cannot be nested deeper either.
const MAX_DEPTH: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("schema is not an object")]
    NotAnObject,
    #[error("schema is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

impl Definitions {
    /// Reads a map from names to schemas.
    pub fn parse(definitions: &Value) -> Result<Self, ParseError> {
        let map = definitions.as_object().ok_or(ParseError::NotAnObject)?;
        let mut parsed = Self::default();
        for (name, schema) in map {
            parsed.insert(name, Schema::parse(schema)?);
        }
        Ok(parsed)
    }
}

impl Schema {
    pub fn parse(schema: &Value) -> Result<Self, ParseError> {
        node(schema, 0)
    }
}

fn node(value: &Value, depth: usize) -> Result<Schema, ParseError> {
    if depth > MAX_DEPTH {
        return Err(ParseError::TooDeep);
    }
    let map = value.as_object().ok_or(ParseError::NotAnObject)?;
    let mut properties = std::collections::BTreeMap::new();
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        properties.insert(name.as_str().into(), node(property, depth + 1)?);
    }
    let additional = match map.get("additionalProperties") {
        Some(Value::Bool(true)) => Additional::Allowed,
        Some(Value::Bool(false)) => Additional::Forbidden,
        Some(schema @ Value::Object(_)) => Additional::Schema(Box::new(node(schema, depth + 1)?)),
        _ => Additional::Unspecified,
    };
    // The published documents never use the list form of `items`.
    let items = match map.get("items") {
        Some(schema @ Value::Object(_)) => Some(Box::new(node(schema, depth + 1)?)),
        _ => None,
    };
    let limits = limits(map, depth)?;
    Ok(Schema {
        reference: text(map, "$ref").map(|name| Reference::from(strip_pointer(name))),
        kind: type_of(map),
        nullable: flag(map, "nullable"),
        format: boxed(map, "format"),
        properties,
        additional,
        items,
        required: strings(map, "required").map(Into::into).collect(),
        default: map.get("default").filter(|value| !value.is_null()).cloned().map(Box::new),
        presence: presence(map),
        extensions: extensions(map),
        limits: (limits != Limits::default()).then(|| Box::new(limits)),
        description: boxed(map, "description"),
    })
}

fn type_of(map: &Map) -> Type {
    match text(map, "type").unwrap_or_default() {
        "" => Type::Any,
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Unknown,
    }
}

/// `x-presence` is a keyword of our own tables.
fn presence(map: &Map) -> Presence {
    match text(map, "x-presence").unwrap_or_default() {
        "pointer" => Presence::Pointer,
        "always" => Presence::Always,
        "nullable" => Presence::Nullable,
        "omitzero" => Presence::OmitZero,
        _ => Presence::OmitEmpty,
    }
}

fn extensions(map: &Map) -> Extensions {
    Extensions {
        preserve_unknown_fields: flag(map, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(map, "x-kubernetes-embedded-resource"),
        int_or_string: flag(map, "x-kubernetes-int-or-string"),
        list_type: boxed(map, "x-kubernetes-list-type"),
        list_map_keys: strings(map, "x-kubernetes-list-map-keys").map(str::to_owned).collect(),
        map_type: boxed(map, "x-kubernetes-map-type"),
        patch_strategy: boxed(map, "x-kubernetes-patch-strategy"),
        patch_merge_key: boxed(map, "x-kubernetes-patch-merge-key"),
        kinds: map.get("x-kubernetes-group-version-kind").cloned().map(Box::new),
        rules: map.get("x-kubernetes-validations").cloned().map(Box::new),
        unions: map.get("x-kubernetes-unions").cloned().map(Box::new),
    }
}

fn limits(map: &Map, depth: usize) -> Result<Limits, ParseError> {
    let list = |keyword: &str| -> Result<Vec<Schema>, ParseError> {
        let nodes = map.get(keyword).and_then(Value::as_array).into_iter().flatten();
        nodes.map(|schema| node(schema, depth + 1)).collect()
    };
    let not = match map.get("not") {
        Some(schema @ Value::Object(_)) => Some(Box::new(node(schema, depth + 1)?)),
        _ => None,
    };
    Ok(Limits {
        maximum: map.get("maximum").and_then(Value::as_f64),
        minimum: map.get("minimum").and_then(Value::as_f64),
        exclusive_maximum: flag(map, "exclusiveMaximum"),
        exclusive_minimum: flag(map, "exclusiveMinimum"),
        multiple_of: map.get("multipleOf").and_then(Value::as_f64),
        max_length: map.get("maxLength").and_then(Value::as_u64),
        min_length: map.get("minLength").and_then(Value::as_u64),
        pattern: boxed(map, "pattern"),
        max_items: map.get("maxItems").and_then(Value::as_u64),
        min_items: map.get("minItems").and_then(Value::as_u64),
        unique_items: flag(map, "uniqueItems"),
        max_properties: map.get("maxProperties").and_then(Value::as_u64),
        min_properties: map.get("minProperties").and_then(Value::as_u64),
        enumeration: map.get("enum").and_then(Value::as_array).cloned(),
        all_of: list("allOf")?,
        any_of: list("anyOf")?,
        one_of: list("oneOf")?,
        not,
        title: boxed(map, "title"),
        external_docs: map.get("externalDocs").cloned().map(Box::new),
        example: map.get("example").cloned().map(Box::new),
    })
}

fn strip_pointer(reference: &str) -> &str {
    reference
        .strip_prefix("#/definitions/")
        .or_else(|| reference.strip_prefix("#/components/schemas/"))
        .unwrap_or(reference)
}

fn text<'a>(map: &'a Map, keyword: &str) -> Option<&'a str> {
    map.get(keyword)?.as_str()
}

fn boxed(map: &Map, keyword: &str) -> Option<Box<str>> {
    text(map, keyword).filter(|text| !text.is_empty()).map(Into::into)
}

fn flag(map: &Map, keyword: &str) -> bool {
    map.get(keyword).and_then(Value::as_bool).unwrap_or_default()
}

fn strings<'a>(map: &'a Map, keyword: &str) -> impl Iterator<Item = &'a str> {
    map.get(keyword).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

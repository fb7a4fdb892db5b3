//! A v2 document in the protobuf form that older kubectl and Argo CD ask for. Only what our own documents
//! contain is written; extensions and defaults travel as JSON text, which is YAML.

use crate::value::Text;
use crate::{Map, Value};

use crate::protobuf::wire::{put_bytes, put_int};

/// Encodes a v2 document.
pub fn encode_v2(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, 1, document.get("swagger"));
    if let Some(info) = document.get("info") {
        put_message(&mut out, 2, |out| {
            put_text(out, 1, info.get("title"));
            put_text(out, 2, info.get("version"));
        });
    }
    put_message(&mut out, 8, |out| {
        for (path, item) in fields(document.get("paths")) {
            put_named(out, 2, path, |out| put_path_item(out, item));
        }
    });
    put_message(&mut out, 9, |out| {
        for (name, schema) in fields(document.get("definitions")) {
            put_named(out, 1, name, |out| put_schema(out, schema));
        }
    });
    for requirement in items(document.get("security")) {
        put_message(&mut out, 12, |out| {
            for (name, scopes) in fields(Some(requirement)) {
                put_named(out, 1, name, |out| put_texts(out, 1, Some(scopes)));
            }
        });
    }
    put_message(&mut out, 13, |out| {
        for (name, definition) in fields(document.get("securityDefinitions")) {
            put_named(out, 1, name, |out| {
                put_message(out, 2, |out| {
                    for (number, key) in [(1, "type"), (2, "name"), (3, "in"), (4, "description")] {
                        put_text(out, number, definition.get(key));
                    }
                });
            });
        }
    });
    out
}

fn put_path_item(out: &mut Vec<u8>, item: &Value) {
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(operation) = item.get(method) {
            put_message(out, number, |out| put_operation(out, operation));
        }
    }
    items(item.get("parameters")).for_each(|parameter| put_parameter(out, 9, parameter));
}

fn put_operation(out: &mut Vec<u8>, operation: &Value) {
    put_texts(out, 1, operation.get("tags"));
    put_text(out, 3, operation.get("description"));
    put_text(out, 5, operation.get("operationId"));
    put_texts(out, 6, operation.get("produces"));
    put_texts(out, 7, operation.get("consumes"));
    items(operation.get("parameters")).for_each(|parameter| put_parameter(out, 8, parameter));
    put_message(out, 9, |out| {
        for (code, response) in fields(operation.get("responses")) {
            put_named(out, 1, code, |out| {
                put_message(out, 1, |out| {
                    put_text(out, 1, response.get("description"));
                    if let Some(schema) = response.get("schema") {
                        put_message(out, 2, |out| {
                            put_message(out, 1, |out| put_schema(out, schema))
                        });
                    }
                });
            });
        }
    });
    put_texts(out, 10, operation.get("schemes"));
    put_extensions(out, 13, operation);
}

fn put_parameter(out: &mut Vec<u8>, number: u32, parameter: &Value) {
    let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    put_message(out, number, |out| {
        put_message(out, 1, |out| match place {
            "body" => put_message(out, 1, |out| {
                put_text(out, 1, parameter.get("description"));
                put_text(out, 2, parameter.get("name"));
                put_text(out, 3, parameter.get("in"));
                put_flag(out, 4, parameter.get("required"));
                if let Some(schema) = parameter.get("schema") {
                    put_message(out, 5, |out| put_schema(out, schema));
                }
            }),
            _ => put_message(out, 2, |out| {
                // Query and path parameters have the same fields, from the fifth on one apart.
                let (form, shift) = if place == "path" { (4, 0) } else { (3, 1) };
                put_message(out, form, |out| {
                    put_flag(out, 1, parameter.get("required"));
                    put_text(out, 2, parameter.get("in"));
                    put_text(out, 3, parameter.get("description"));
                    put_text(out, 4, parameter.get("name"));
                    put_text(out, 5 + shift, parameter.get("type"));
                    put_flag(out, 19 + shift, parameter.get("uniqueItems"));
                });
            }),
        });
    });
}

fn put_schema(out: &mut Vec<u8>, schema: &Value) {
    for (number, keyword) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        put_text(out, number, schema.get(keyword));
    }
    if let Some(default) = schema.get("default") {
        put_message(out, 5, |out| put_any(out, default));
    }
    for (number, keyword) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        if let Some(bound) = schema.get(keyword).and_then(Value::as_f64) {
            put_double(out, number, bound);
        }
    }
    put_flag(out, 8, schema.get("exclusiveMaximum"));
    put_flag(out, 10, schema.get("exclusiveMinimum"));
    for (number, keyword) in
        [(11, "maxLength"), (12, "minLength"), (14, "maxItems"), (15, "minItems")]
    {
        put_count(out, number, schema.get(keyword));
    }
    put_text(out, 13, schema.get("pattern"));
    put_flag(out, 16, schema.get("uniqueItems"));
    put_count(out, 17, schema.get("maxProperties"));
    put_count(out, 18, schema.get("minProperties"));
    put_texts(out, 19, schema.get("required"));
    for value in items(schema.get("enum")) {
        put_message(out, 20, |out| put_any(out, value));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            put_message(out, 21, |out| put_int(out, 2, i64::from(*allowed)))
        }
        Some(values) => {
            put_message(out, 21, |out| put_message(out, 1, |out| put_schema(out, values)))
        }
        None => {}
    }
    if let Some(kind) = schema.get("type") {
        put_message(out, 22, |out| put_text(out, 1, Some(kind)));
    }
    if let Some(element) = schema.get("items") {
        put_message(out, 23, |out| put_message(out, 1, |out| put_schema(out, element)));
    }
    if schema.get("properties").is_some() {
        put_message(out, 25, |out| {
            for (name, property) in fields(schema.get("properties")) {
                put_named(out, 1, name, |out| put_schema(out, property));
            }
        });
    }
    put_extensions(out, 31, schema);
}

fn put_extensions(out: &mut Vec<u8>, number: u32, node: &Value) {
    for (name, value) in fields(Some(node)).filter(|(name, _)| name.starts_with("x-")) {
        put_named(out, number, name, |out| put_any(out, value));
    }
}

fn put_any(out: &mut Vec<u8>, value: &Value) {
    put_bytes(out, 2, format!("{value}\n").as_bytes());
}

/// A map entry: its name and its value.
fn put_named(out: &mut Vec<u8>, number: u32, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    put_message(out, number, |out| {
        put_bytes(out, 1, name.as_bytes());
        put_message(out, 2, value);
    });
}

fn put_message(out: &mut Vec<u8>, number: u32, content: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    content(&mut inner);
    put_bytes(out, number, &inner);
}

fn put_text(out: &mut Vec<u8>, number: u32, value: Option<&Value>) {
    if let Some(text) = value.and_then(Value::as_str).filter(|text| !text.is_empty()) {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_texts(out: &mut Vec<u8>, number: u32, value: Option<&Value>) {
    items(value).for_each(|item| put_text(out, number, Some(item)));
}

fn put_flag(out: &mut Vec<u8>, number: u32, value: Option<&Value>) {
    if value.and_then(Value::as_bool) == Some(true) {
        put_int(out, number, 1);
    }
}

fn put_count(out: &mut Vec<u8>, number: u32, value: Option<&Value>) {
    if let Some(count) = value.and_then(Value::as_i64) {
        put_int(out, number, count);
    }
}

fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    crate::protobuf::wire::put_tag(out, number, crate::protobuf::wire::FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

fn fields(value: Option<&Value>) -> impl Iterator<Item = (&Text, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

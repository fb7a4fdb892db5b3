//! Joins the published schemas, the protobuf messages and the Go types into the two tables.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::go_types::{Presence, Structs};

/// The definitions, each property with `x-presence` where Go does more than leave out empty values.
pub(crate) fn definitions(schema: &Value, structs: &Structs) -> Result<Value> {
    let mut definitions = source_definitions(schema)?.clone();
    for (name, definition) in &mut definitions {
        let presence = flat_presence(name, structs, 0);
        for (field, node) in
            definition.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten()
        {
            let code = presence.get(field.as_str()).copied().and_then(Presence::code);
            if let (Some(code), Some(node)) = (code, node.as_object_mut()) {
                node.insert("x-presence".into(), code.into());
            }
        }
    }
    Ok(definitions.into())
}

/// Messages under the names of their definitions: `[number, JSON name, type]` per field, in order of
/// numbers. An empty name means that the fields of the message appear in its parent's JSON.
pub(crate) fn messages(schema: &Value, protobuf: &Value, structs: &Structs) -> Result<Value> {
    let definitions = source_definitions(schema)?;
    let packages: BTreeSet<&str> =
        definitions.keys().filter_map(|name| Some(name.rsplit_once('.')?.0)).collect();
    let source = protobuf["messages"].as_object().context("no messages")?;
    let mut messages = Map::new();
    for (message, fields) in source {
        let name = definition_name(message);
        let Some((package, _)) = name.rsplit_once('.') else { continue };
        if !packages.contains(package) {
            continue;
        }
        let declared = structs.get(&name);
        let mut rows = Vec::new();
        for field in fields.as_array().into_iter().flatten() {
            let number = field[0].as_u64().context("a field without number")?;
            let wire_name = field[1].as_str().unwrap_or_default();
            let declared = declared.and_then(|d| d.iter().find(|f| f.number == Some(number)));
            let json_name = declared.map_or(wire_name, |field| field.json.as_str());
            let wire_type = field[2].as_str().unwrap_or_default();
            rows.push((number, json!([number, json_name, field_type(wire_type, package)])));
        }
        rows.sort_by_key(|(number, _)| *number);
        messages.insert(name, rows.into_iter().map(|(_, row)| row).collect());
    }
    Ok(messages.into())
}

fn source_definitions(schema: &Value) -> Result<&Map<String, Value>> {
    schema["definitions"].as_object().context("no definitions")
}

fn flat_presence<'a>(
    name: &str,
    structs: &'a Structs,
    depth: usize,
) -> BTreeMap<&'a str, Presence> {
    let mut flat = BTreeMap::new();
    for field in structs.get(name).into_iter().flatten() {
        match &field.inlined {
            Some(inlined) if depth < 8 => flat.extend(flat_presence(inlined, structs, depth + 1)),
            Some(_) => {}
            None => {
                flat.insert(field.json.as_str(), field.presence);
            }
        }
    }
    flat
}

fn definition_name(message: &str) -> String {
    let message = message.trim_start_matches('.');
    let renamed = message.strip_prefix("k8s.io.").unwrap_or(message);
    let renamed = renamed
        .replace("apiextensions_apiserver", "apiextensions-apiserver")
        .replace("kube_aggregator", "kube-aggregator");
    format!("io.k8s.{renamed}")
}

/// Spells `repeated X` as `[]X` and `map<string, X>` as `{}X`, with X a scalar or a definition.
fn field_type(wire_type: &str, package: &str) -> String {
    if let Some(element) = wire_type.strip_prefix("repeated ") {
        return format!("[]{}", field_type(element, package));
    }
    if let Some(value) = wire_type.strip_prefix("map<string, ").and_then(|t| t.strip_suffix('>')) {
        return format!("{{}}{}", field_type(value, package));
    }
    match wire_type {
        "string" | "bytes" | "bool" | "int32" | "int64" | "double" | "uint32" | "uint64" => {
            wire_type.to_owned()
        }
        absolute if absolute.contains('.') => definition_name(absolute),
        relative => format!("{package}.{relative}"),
    }
}

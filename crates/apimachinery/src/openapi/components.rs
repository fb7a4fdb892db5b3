//! The schemas of a document: those of its resources and everything they refer to.

use crate::{Map, Value, json};

use super::{Edition, META, ResourceDoc, SchemaDoc, custom_definition_name, metadata};
use crate::schema::{Additional, Definitions, Schema};

/// Definitions every document refers to.
const SHARED: &[&str] = &["APIResourceList", "DeleteOptions", "Patch", "Status"];

pub(super) fn schemas(
    resources: &[ResourceDoc<'_>],
    definitions: &Definitions,
    edition: Edition,
) -> Map {
    let mut found = Map::new();
    let mut wanted: Vec<String> = SHARED.iter().map(|name| format!("{META}{name}")).collect();
    for resource in resources {
        match resource.schema {
            SchemaDoc::Definition(name) => wanted.extend([name.to_owned(), format!("{name}List")]),
            SchemaDoc::Custom(schema) => {
                let name = custom_definition_name(&resource.gvk);
                found.insert(format!("{name}List"), custom_list(resource, &name, edition));
                found.insert(name, custom_object(resource, schema, edition));
                wanted.extend(["ObjectMeta", "ListMeta"].map(|name| format!("{META}{name}")));
            }
        }
        let of_subresources = resource.subresources.iter().filter_map(|sub| sub.definition);
        wanted.extend(of_subresources.map(str::to_owned));
    }
    while let Some(name) = wanted.pop() {
        if found.contains_key(&name) {
            continue;
        }
        let Some(schema) = definitions.get(&name) else { continue };
        collect_references(schema, &mut wanted);
        let mut rendered = render(schema, edition);
        if name.strip_prefix(META) == Some("ObjectMeta") {
            metadata::describe(&mut rendered, edition);
        }
        found.insert(name, rendered);
    }
    found
}

fn collect_references(schema: &Schema, wanted: &mut Vec<String>) {
    wanted.extend(schema.reference.as_deref().map(str::to_owned));
    schema.properties.values().for_each(|property| collect_references(property, wanted));
    if let Some(items) = schema.items.as_deref() {
        collect_references(items, wanted);
    }
    if let Additional::Schema(values) = &schema.additional {
        collect_references(values, wanted);
    }
}

fn render(schema: &Schema, edition: Edition) -> Value {
    match edition {
        Edition::V3 => schema.to_openapi(edition.prefix()),
        Edition::V2 => {
            let mut rendered = schema.to_openapi(edition.prefix());
            restrict_to_v2(&mut rendered);
            // Compat: a definition that takes any field is published as a plain object in v2.
            if let Some(fields) = rendered.as_object_mut() {
                fields.remove("x-kubernetes-preserve-unknown-fields");
            }
            rendered
        }
    }
}

/// Drops what OpenAPI v2 cannot say; clients of v2 would refuse the document.
fn restrict_to_v2(node: &mut Value) {
    let Value::Object(map) = node else { return };
    // A reference beside other keywords was written as a single `allOf`.
    let reference = map.get("allOf").and_then(|all| all.get(0)?.get("$ref")).cloned();
    if let Some(reference) = reference {
        map.insert("$ref", reference);
        map.remove("default");
    }
    for keyword in ["allOf", "anyOf", "oneOf", "not", "nullable"] {
        map.remove(keyword);
    }
    if map.get("format").is_some_and(|format| format == "int-or-string") {
        map.insert("type", "string".into());
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        for keyword in ["properties", "required", "items", "additionalProperties"] {
            map.remove(keyword);
        }
    }
    for keyword in ["properties"] {
        if let Some(Value::Object(children)) = map.get_mut(keyword) {
            children.values_mut().for_each(restrict_to_v2);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = map.get_mut(keyword) {
            restrict_to_v2(child);
        }
    }
}

fn custom_object(resource: &ResourceDoc<'_>, schema: &Schema, edition: Edition) -> Value {
    let mut whole = schema.with_object_fields();
    whole.extensions.kinds = Some(Box::new(kinds(resource, &resource.gvk.kind)));
    render(&whole, edition)
}

fn custom_list(resource: &ResourceDoc<'_>, name: &str, edition: Edition) -> Value {
    let kind = format!("{}List", resource.gvk.kind);
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": edition.reference(&format!("{META}ListMeta")),
            "items": {"type": "array", "items": edition.reference(name)},
        },
        "x-kubernetes-group-version-kind": kinds(resource, &kind),
    })
}

fn kinds(resource: &ResourceDoc<'_>, kind: &str) -> Value {
    json!([{"group": resource.gvk.group, "version": resource.gvk.version, "kind": kind}])
}

//! Objects as JSON, YAML and names, laid out as kubectl does.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, yaml};
use serde::Serialize as _;

/// Four blanks per level, and the characters that Go escapes.
pub(crate) fn json_text(value: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).expect("a tree is always JSON");
    let text = String::from_utf8_lossy(&bytes);
    let mut escaped = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => escaped.push(other),
        }
    }
    escaped.push('\n');
    escaped
}

pub(crate) fn yaml_text(value: &Value) -> String {
    yaml::to_string(value)
}

/// YAML in flow style: braces and quotes leave nothing to indentation or guessing.
pub(crate) fn kyaml_text(value: &Value) -> String {
    let mut text = "---\n".to_owned();
    write_flow(&mut text, value, 0);
    text.push('\n');
    text
}

fn write_flow(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth + 1);
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push_str("{\n");
            for (key, value) in map {
                text.push_str(&format!("{indent}{}: ", flow_key(key)));
                write_flow(text, value, depth + 1);
                text.push_str(",\n");
            }
            text.push_str(&format!("{}}}", "  ".repeat(depth)));
        }
        Value::Array(list) if !list.is_empty() => {
            let of_maps = list.iter().all(Value::is_object);
            text.push('[');
            for (place, item) in list.iter().enumerate() {
                if of_maps {
                    text.push_str(if place > 0 { ", " } else { "" });
                    write_flow(text, item, depth);
                } else {
                    text.push_str(&format!("\n{indent}"));
                    write_flow(text, item, depth + 1);
                    text.push(',');
                }
            }
            if !of_maps {
                text.push_str(&format!("\n{}", "  ".repeat(depth)));
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

fn flow_key(key: &str) -> String {
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !key.is_empty();
    if plain { key.to_owned() } else { Value::from(key).to_string() }
}

/// The objects of a list, or the one object.
pub(crate) fn items(all: &Value) -> Vec<&Value> {
    match all.get("items").and_then(Value::as_array) {
        Some(items) if all.kind().ends_with("List") => items.iter().collect(),
        _ => vec![all],
    }
}

/// `kind.group/name`, one per line.
pub(crate) fn names(all: &Value) -> String {
    let name = |object: &&Value| {
        let gvk = object.gvk();
        let group = if gvk.group.is_empty() { String::new() } else { format!(".{}", gvk.group) };
        format!("{}{group}/{}\n", gvk.kind.to_lowercase(), object.name())
    };
    items(all).iter().map(name).collect()
}

pub(crate) fn without_managed_fields(all: &Value) -> Value {
    let mut shown = all.clone();
    shown.remove_at(&["metadata", "managedFields"]);
    for item in shown.list_at_mut(&["items"]) {
        item.remove_at(&["metadata", "managedFields"]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn json_is_indented_and_escaped_as_go_does() {
        let text = json_text(&json!({"a": ["<b>"], "c": {}}));
        assert_eq!(
            text,
            "{\n    \"a\": [\n        \"\\u003cb\\u003e\"\n    ],\n    \"c\": {}\n}\n"
        );
    }

    #[test]
    fn kyaml_leaves_nothing_to_indentation() {
        let text = kyaml_text(&json!({"a": 1, "b/c": [{"x": "y"}], "d": ["e"]}));
        let expected =
            "---\n{\n  a: 1,\n  \"b/c\": [{\n    x: \"y\",\n  }],\n  d: [\n    \"e\",\n  ],\n}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn names_carry_kind_and_group() {
        let deployment =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}});
        let list = json!({"kind": "List", "items": [deployment, pod]});
        assert_eq!(names(&list), "deployment.apps/a\npod/b\n");
        assert_eq!(names(&pod), "pod/b\n");
    }
}

//! What a custom resource schema may say beyond being structural: known types, no quadratic checks, list and
//! map types that fit, rules that are written out.

use crate::{Map, Value};

use super::structural::{UNSUPPORTED, present};
use crate::field::{FieldError, Path};
use crate::object::ObjectExt;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What the way to a node says about it.
#[derive(Clone, Copy, Default)]
struct Context<'a> {
    is_root: bool,
    inside_meta: bool,
    /// Why there must be no default.
    no_default: Option<&'a str>,
}

/// The errors of a schema, outer nodes first.
pub(super) fn validate(schema: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(map) = schema.as_object() {
        check(map, path, Context { is_root: true, ..Context::default() }, &mut errors);
    }
    errors
}

fn check(map: &Map, path: &Path, context: Context<'_>, errors: &mut Vec<FieldError>) {
    check_keywords(map, path, context, errors);
    let inner = Context { is_root: false, ..context };
    if map.get("additionalProperties").is_some_and(|value| !value.is_null()) {
        let place = path.child("additionalProperties");
        let allows_all = map.get("additionalProperties") == Some(&Value::Bool(true));
        if node(map, "properties").is_some_and(|p| !p.is_empty()) && !allows_all {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&place, detail));
        }
        if let Some(values) = node(map, "additionalProperties") {
            let reason = "inside additionalProperties applying to object metadata";
            let no_default = if context.inside_meta { Some(reason) } else { context.no_default };
            check(values, &place, Context { no_default, ..inner }, errors);
        }
    }
    for (name, property) in node(map, "properties").into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        let mut inner = inner;
        let reason = format!("in top-level {name}");
        let is_resource = context.is_root || flag(map, "x-kubernetes-embedded-resource");
        if is_resource && META_FIELDS.contains(&name.as_str()) {
            inner.inside_meta = true;
            if context.is_root {
                inner.no_default = Some(&reason);
            }
        }
        check(property, &path.child("properties").key(name), inner, errors);
    }
    check_nested(map, path, inner, errors);
    check_extensions(map, path, errors);
    check_list_map(map, path, errors);
    check_rules(map, path, errors);
}

fn check_nested(map: &Map, path: &Path, inner: Context<'_>, errors: &mut Vec<FieldError>) {
    if let Some(not) = node(map, "not") {
        check(not, &path.child("not"), inner, errors);
    }
    for keyword in ["allOf", "oneOf", "anyOf"] {
        let nodes = map.get(keyword).and_then(Value::as_array).into_iter().flatten();
        for (index, node) in nodes.enumerate() {
            if let Some(node) = node.as_object() {
                check(node, &path.child(keyword).index(index), inner, errors);
            }
        }
    }
    for keyword in ["definitions", "dependencies"] {
        for (name, child) in node(map, keyword).into_iter().flatten() {
            if let Some(child) = child.as_object() {
                check(child, &path.child(keyword).key(name), inner, errors);
            }
        }
    }
    match map.get("items") {
        Some(Value::Object(items)) => check(items, &path.child("items"), inner, errors),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(item) = item.as_object() {
                    check(item, &path.child("items").index(index), inner, errors);
                }
            }
        }
        _ => {}
    }
}

fn check_keywords(map: &Map, path: &Path, context: Context<'_>, errors: &mut Vec<FieldError>) {
    let kind = text(map, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(&path.child("type"), kind, &TYPES));
    }
    if let Some(reason) = context.no_default.filter(|_| present(map, "default")) {
        let detail = format!("must not be set {reason}");
        errors.push(FieldError::forbidden(&path.child("default"), detail));
    }
    for (keyword, detail) in UNSUPPORTED {
        if present(map, keyword) || (*keyword == "$ref" && map.contains_key("$ref")) {
            errors.push(FieldError::forbidden(&path.child(keyword), *detail));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(&path.child("type"), detail));
    }
    if map.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(&path.child("items"), detail));
    }
    if context.inside_meta && flag(map, "x-kubernetes-embedded-resource") {
        let place = path.child("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(&place, "must not be used inside of resource meta"));
    }
    if flag(map, "uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
    }
}

fn check_extensions(map: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    let keyword = "x-kubernetes-preserve-unknown-fields";
    if map.get(keyword) == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(&path.child(keyword), false, "must be true or undefined"));
    }
    let kind = text(map, "type");
    let wrong_type = |wanted: &str, keyword: &str| {
        let detail = format!("must be {wanted} if {keyword} is specified");
        match kind {
            "" => FieldError::required(&path.child("type"), detail),
            kind => FieldError::invalid(&path.child("type"), kind, detail),
        }
    };
    if let Some(map_type) = map.get("x-kubernetes-map-type").and_then(Value::as_str) {
        if kind != "object" {
            errors.push(wrong_type("object", "x-kubernetes-map-type"));
        }
        if !matches!(map_type, "atomic" | "granular") {
            let place = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(&place, map_type, &["atomic", "granular"]));
        }
    }
    let list_type = map.get("x-kubernetes-list-type").and_then(Value::as_str);
    if let Some(list_type) = list_type {
        if kind != "array" {
            errors.push(wrong_type("array", "x-kubernetes-list-type"));
        } else if list_type == "set" {
            errors.extend(check_set_items(map, path));
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            let place = path.child("x-kubernetes-list-type");
            errors.push(FieldError::not_supported(&place, list_type, &["atomic", "set", "map"]));
        }
    }
    if present(map, "x-kubernetes-list-map-keys") && list_type != Some("map") {
        let place = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(&place, detail),
            Some(other) => FieldError::invalid(&place, other, detail),
        });
    }
}

/// Elements of a set are compared as wholes, so they must be atomic themselves.
fn check_set_items(map: &Map, path: &Path) -> Option<FieldError> {
    let items = node(map, "items")?;
    let list_type = items.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
    let keyword = match text(items, "type") {
        "array" if list_type.as_str().is_some_and(|kind| kind != "atomic") => {
            "x-kubernetes-list-type"
        }
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => "x-kubernetes-map-type",
        _ => return None,
    };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    // Compat: the list type is shown in both cases.
    Some(FieldError::invalid(&path.child("items").child(keyword), list_type, detail))
}

fn check_list_map(map: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    let list_type = text(map, "x-kubernetes-list-type");
    let keys: Vec<&str> = map
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let items_path = path.child("items");
    if list_type == "map" {
        let keys_path = path.child("x-kubernetes-list-map-keys");
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&keys_path, detail));
        }
        match map.get("items") {
            None | Some(Value::Null) => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(FieldError::required(&items_path, detail));
            }
            Some(Value::Object(items)) if text(items, "type") == "object" => {
                check_map_keys(items, &keys, path, errors);
            }
            Some(Value::Object(items)) => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                let kind = text(items, "type");
                errors.push(FieldError::invalid(&items_path.child("type"), kind, detail));
            }
            Some(other) => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&items_path, other.clone(), detail));
            }
        }
    }
    let Some(items) = node(map, "items").filter(|_| matches!(list_type, "set" | "map")) else {
        return;
    };
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_path.child("nullable"), detail));
    }
    if list_type == "map" {
        check_key_presence(items, &keys, &items_path, errors);
    }
}

fn check_map_keys(items: &Map, keys: &[&str], path: &Path, errors: &mut Vec<FieldError>) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    for (index, key) in keys.iter().enumerate() {
        match node(items, "properties").and_then(|p| p.get(*key)?.as_object()) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let place = path.child("items").child("properties").key(key).child("type");
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&place, text(items, "type"), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, Value::from(keys.to_vec()), detail));
            }
        }
        if keys[..index].contains(key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&keys_path, Value::from(keys.to_vec()), detail));
        }
    }
}

/// A key must always be there, or elements could not be told apart.
fn check_key_presence(items: &Map, keys: &[&str], items_path: &Path, errors: &mut Vec<FieldError>) {
    let required = items.get("required").and_then(Value::as_array);
    for key in keys {
        let Some(property) = node(items, "properties").and_then(|p| p.get(*key)?.as_object())
        else {
            continue;
        };
        let place = items_path.child("properties").key(key);
        let is_required = required.is_some_and(|names| names.iter().any(|name| name == key));
        if !is_required && !present(property, "default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                          required property";
            errors.push(FieldError::required(&place.child("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&place.child("nullable"), detail));
        }
    }
}

/// The outside of rules: that they are there, worded on one line, and point somewhere.
fn check_rules(map: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    let rules = map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    let has_break = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in rules.enumerate() {
        let place = path.child("x-kubernetes-validations").index(index);
        let field = |key: &str| rule.str_at(&[key]).unwrap_or_default();
        let (expression, message) = (field("rule").trim(), field("message"));
        if expression.is_empty() {
            errors.push(FieldError::required(&place.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(&place.child("message"), message, detail));
        } else if has_break(message.trim()) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(&place.child("message"), message, detail));
        } else if has_break(expression) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&place.child("message"), detail));
        }
        if !field("messageExpression").is_empty() && field("messageExpression").trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(&place.child("messageExpression"), detail));
        }
        if let Some(reason) = rule.str_at(&["reason"]).filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(&place.child("reason"), reason, &REASONS));
        }
        check_field_path(map, field("fieldPath"), &place.child("fieldPath"), errors);
    }
}

fn check_field_path(map: &Map, field_path: &str, place: &Path, errors: &mut Vec<FieldError>) {
    if field_path.is_empty() {
        return;
    }
    if field_path.trim().is_empty() {
        errors.push(FieldError::invalid(place, field_path, "must be non-empty if specified"));
    }
    if field_path.contains(['\n', '\r']) {
        errors.push(FieldError::invalid(place, field_path, "must not contain line breaks"));
    }
    if find_field(map, field_path, Brackets::Allowed).is_err() {
        errors.push(FieldError::invalid(place, field_path, "must be a valid path"));
    }
}

/// Whether a path may use brackets: `.map['key']`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Brackets {
    Allowed,
    Refused,
}

/// Follows a path such as `.spec.a` through a schema.
pub(super) fn find_field<'m>(
    map: &'m Map,
    path: &str,
    brackets: Brackets,
) -> Result<&'m Map, String> {
    let ended = || "unexpected end of JSON path".to_owned();
    let mut found = map;
    let mut rest = path;
    while !rest.is_empty() {
        let name = if let Some(dotted) = rest.strip_prefix('.') {
            let (name, remaining) = next_token(dotted);
            rest = remaining;
            Some(name).filter(|name| !name.is_empty()).ok_or_else(ended)?.to_owned()
        } else if let Some(bracket) = rest.strip_prefix('[') {
            if brackets == Brackets::Refused {
                return Err("array notation is not allowed".into());
            }
            let (quoted, remaining) = next_token(bracket);
            let name = quoted.strip_prefix('\'').and_then(|q| q.strip_suffix('\''));
            let name = match name {
                _ if quoted.is_empty() => return Err(ended()),
                None => return Err(format!("expected single quoted string but got {quoted}")),
                Some(name) => name.replace("\\'", "'"),
            };
            rest = remaining.strip_prefix(']').ok_or_else(ended)?;
            name
        } else {
            return Err(format!("expected [ or . but got: {}", next_token(rest).0));
        };
        let properties = node(found, "properties").filter(|properties| !properties.is_empty());
        let next = match properties {
            Some(properties) => properties.get(&name).and_then(Value::as_object),
            None => node(found, "additionalProperties"),
        };
        found = next.ok_or("does not refer to a valid field")?;
    }
    Ok(found)
}

/// The text up to the next delimiter, or a quoted string, or a delimiter itself.
fn next_token(text: &str) -> (&str, &str) {
    if let Some(quoted) = text.strip_prefix('\'') {
        let ends = quoted.match_indices('\'').map(|(index, _)| index);
        let end = ends.into_iter().find(|index| !quoted[..*index].ends_with('\\'));
        return text.split_at(end.map_or(text.len(), |end| end + 2));
    }
    let end = text.find(['.', '[', ']']).unwrap_or(text.len());
    text.split_at(if end == 0 { text.len().min(1) } else { end })
}

fn text<'a>(map: &'a Map, keyword: &str) -> &'a str {
    map.get(keyword).and_then(Value::as_str).unwrap_or_default()
}

fn flag(map: &Map, keyword: &str) -> bool {
    map.get(keyword).and_then(Value::as_bool).unwrap_or_default()
}

fn node<'a>(map: &'a Map, keyword: &str) -> Option<&'a Map> {
    map.get(keyword).and_then(Value::as_object)
}

//! The rules that make a schema structural: a type everywhere, logical junctors that only narrow, and
//! nothing said about metadata.

use crate::{Map, Value};

use super::pattern;
use crate::field::{FieldError, Path};

/// Keywords no custom resource schema may use, with the words that refuse them.
pub(super) const UNSUPPORTED: &[(&str, &str)] = &[
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
];

/// Keywords that only the structural part of a schema may use.
const FORBIDDEN_BELOW: &[(&str, &str)] = &[
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Whether the schema can be read as structural at all; if not, other rules name the reason.
pub(super) fn is_readable(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return false };
    let is_unreadable = UNSUPPORTED.iter().any(|(keyword, _)| present(map, keyword))
        || map.get("items").is_some_and(Value::is_array)
        || map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false));
    if is_unreadable {
        return false;
    }
    children(map).all(|(_, child)| is_readable(child))
}

/// What keeps the schema from being structural, sorted by text.
pub(super) fn validate(schema: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(map) = schema.as_object() {
        invariants(map, Level::Root, path, &mut errors);
        completeness(map, map, path, path, &mut errors);
    }
    errors.sort_by_key(ToString::to_string);
    errors
}

/// All schemas below a node, with the keyword that leads there.
fn children(map: &Map) -> impl Iterator<Item = (&str, &Value)> {
    let named = ["properties"].into_iter().flat_map(|keyword| {
        let fields = map.get(keyword).and_then(Value::as_object).into_iter().flatten();
        fields.map(move |(_, child)| (keyword, child))
    });
    let single = ["items", "additionalProperties", "not"].into_iter().filter_map(|keyword| {
        map.get(keyword).filter(|child| child.is_object()).map(|child| (keyword, child))
    });
    let listed = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|keyword| {
        let nodes = map.get(keyword).and_then(Value::as_array).into_iter().flatten();
        nodes.map(move |child| (keyword, child))
    });
    named.chain(single).chain(listed)
}

/// Whether a keyword says anything: Go cannot tell an empty value from none.
pub(super) fn present(map: &Map, keyword: &str) -> bool {
    match map.get(keyword) {
        None | Some(Value::Null | Value::Bool(false)) => {
            // `default: false` is a default; the flags are off.
            keyword == "default" && map.get(keyword).is_some_and(|value| !value.is_null())
        }
        Some(_) if keyword == "default" => true,
        Some(Value::String(text)) => !text.is_empty() || keyword.starts_with("x-kubernetes"),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(fields)) => {
            !fields.is_empty() || matches!(keyword, "additionalProperties" | "not" | "dependencies")
        }
        Some(_) => true,
    }
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

fn invariants(map: &Map, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let kind = text(map, "type");
    if kind == "array" && node(map, "items").is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = node(map, "items") {
        invariants(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in node(map, "properties").into_iter().flatten() {
        if let Some(property) = property.as_object() {
            invariants(property, Level::Field, &path.child("properties").key(name), errors);
        }
    }
    let embedded = flag(map, "x-kubernetes-embedded-resource");
    let additional = path.child("additionalProperties");
    if map.get("additionalProperties").is_some_and(|value| !value.is_null()) {
        if level == Level::Root {
            errors.push(FieldError::forbidden(&additional, "must not be used at the root"));
        }
        if embedded {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(&additional, detail));
        }
    }
    if let Some(values) = node(map, "additionalProperties") {
        invariants(values, Level::Field, &additional, errors);
    }
    extensions(map, path, errors);
    value_rules(map, is_int_or_string_pair(map.get("anyOf")), path, errors);
    types(map, level, path, errors);
    metadata(map, level, path, errors);
}

fn extensions(map: &Map, path: &Path, errors: &mut Vec<FieldError>) {
    if !flag(map, "x-kubernetes-int-or-string") {
        return;
    }
    for keyword in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(map, keyword) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(keyword), true, detail));
        }
    }
}

fn types(map: &Map, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let kind = text(map, "type");
    let place = path.child("type");
    let embedded = flag(map, "x-kubernetes-embedded-resource");
    let preserve = flag(map, "x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(&place, detail),
            other => FieldError::invalid(&place, other, detail),
        });
    } else if kind.is_empty() && !flag(map, "x-kubernetes-int-or-string") && !preserve {
        errors.push(FieldError::required(
            &place,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&place, kind, "must be object at the root"));
    }
    let has_properties = node(map, "properties").is_some_and(|properties| !properties.is_empty());
    if embedded && !preserve && !has_properties {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), detail));
    }
}

/// The root of a resource has metadata by itself; a schema may only narrow the name.
fn metadata(map: &Map, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || flag(map, "x-kubernetes-embedded-resource");
    let property = |name: &str| node(map, "properties").and_then(|p| p.get(name)?.as_object());
    let properties = path.child("properties");
    if is_resource {
        for name in ["kind", "apiVersion"] {
            if let Some(kind) =
                property(name).map(|node| text(node, "type")).filter(|k| *k != "string")
            {
                let place = properties.key(name).child("type");
                errors.push(FieldError::invalid(&place, kind, "must be string"));
            }
        }
    }
    let Some(metadata) = property("metadata") else { return };
    let place = properties.key("metadata");
    if is_resource && text(metadata, "type") != "object" {
        let kind = text(metadata, "type");
        errors.push(FieldError::invalid(&place.child("type"), kind, "must be object"));
    }
    let names_only = node(metadata, "properties").is_none_or(|properties| {
        properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
    });
    let says_more = metadata
        .keys()
        .filter(|keyword| present(metadata, keyword))
        .any(|keyword| !matches!(keyword.as_str(), "type" | "default" | "properties"));
    if level == Level::Root && (!names_only || says_more) {
        let detail = "must not specify anything other than name and generateName, but metadata is \
                      implicitly specified";
        errors.push(FieldError::forbidden(&place, detail));
    }
}

/// `anyOf` with the two types is the idiom for integers or strings.
fn is_int_or_string_pair(any_of: Option<&Value>) -> bool {
    let Some([Value::Object(first), Value::Object(second)]) =
        any_of.and_then(Value::as_array).map(|list| list.as_slice())
    else {
        return false;
    };
    let only_type = |map: &Map, kind| map.len() == 1 && text(map, "type") == kind;
    only_type(first, "integer") && only_type(second, "string")
}

fn value_rules(map: &Map, skip_any_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    for keyword in ["anyOf", "allOf", "oneOf"] {
        if keyword == "anyOf" && skip_any_of {
            continue;
        }
        let alternatives = map.get(keyword).and_then(Value::as_array).into_iter().flatten();
        for (index, alternative) in alternatives.enumerate() {
            let Some(alternative) = alternative.as_object() else { continue };
            // The idiom may also stand in the first part of an `allOf`.
            let skip =
                keyword == "allOf" && index == 0 && is_int_or_string_pair(alternative.get("anyOf"));
            below(alternative, skip, &path.child(keyword).index(index), errors);
        }
    }
    if let Some(not) = node(map, "not") {
        below(not, false, &path.child("not"), errors);
    }
    let wanted = text(map, "pattern");
    if !wanted.is_empty()
        && let Err(reason) = pattern::compile(wanted)
    {
        let detail = format!("must be a valid regular expression, but isn't: {reason}");
        errors.push(FieldError::invalid(&path.child("pattern"), wanted, detail));
    }
}

fn below(map: &Map, skip_any_of: bool, path: &Path, errors: &mut Vec<FieldError>) {
    value_rules(map, skip_any_of, path, errors);
    if let Some(items) = node(map, "items") {
        below(items, false, &path.child("items"), errors);
    }
    for (name, property) in node(map, "properties").into_iter().flatten() {
        let place = path.child("properties").key(name);
        if let Some(property) = property.as_object() {
            below(property, false, &place, errors);
        }
        if name == "metadata" {
            errors.push(FieldError::forbidden(&place, "must not be specified in a nested context"));
        }
    }
    for (keyword, detail) in FORBIDDEN_BELOW {
        if present(map, keyword) {
            errors.push(FieldError::forbidden(&path.child(keyword), *detail));
        }
    }
}

/// Whatever a junctor speaks of must be declared in the structural part.
fn completeness(
    rules: &Map,
    structural: &Map,
    structural_path: &Path,
    rules_path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let mut nested: Vec<(&Map, Path)> = Vec::new();
    nested.extend(node(rules, "not").map(|not| (not, rules_path.child("not"))));
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let alternatives = rules.get(keyword).and_then(Value::as_array).into_iter().flatten();
        for (index, alternative) in alternatives.enumerate() {
            nested.extend(
                alternative.as_object().map(|a| (a, rules_path.child(keyword).index(index))),
            );
        }
    }
    for (rules, rules_path) in nested {
        declared(rules, Some(structural), structural_path, &rules_path, errors);
    }
}

fn declared(
    rules: &Map,
    structural: Option<&Map>,
    structural_path: &Path,
    rules_path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let Some(structural) = structural else {
        let detail = format!("because it is defined in {rules_path}");
        errors.push(FieldError::required(structural_path, detail));
        return;
    };
    completeness(rules, structural, structural_path, rules_path, errors);
    if let Some(items) = node(rules, "items") {
        let (structural_path, rules_path) =
            (structural_path.child("items"), rules_path.child("items"));
        declared(items, node(structural, "items"), &structural_path, &rules_path, errors);
    }
    for (name, property) in node(rules, "properties").into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        let structural_path = structural_path.child("properties").key(name);
        let rules_path = rules_path.child("properties").key(name);
        let known = node(structural, "properties").and_then(|p| p.get(name)?.as_object());
        declared(property, known, &structural_path, &rules_path, errors);
    }
}

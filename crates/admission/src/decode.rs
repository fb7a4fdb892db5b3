//! Reading objects into types and writing them back, with the errors and the side effects the original's
//! decoder has: a field of the wrong type is named with its Go type, a list that was not given comes back as
//! null.

use karmada_api::meta::Kind;
use karmada_api::wire::{GO_TYPE, schema_of};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use crate::request::Denial;

const MAX_DEPTH: usize = 64;

/// Reads an object of kind `K`.
pub(crate) fn decode<K: Kind>(object: &Value) -> Result<K, Denial> {
    let gvk = object.gvk();
    if gvk.kind != K::KIND || object.api_version() != K::api_version() {
        return Err(Denial::unreadable(format!("unable to decode {gvk} into *{}", K::go_type())));
    }
    // Looked for first: the type itself would take a list for a struct.
    let mut mismatch = Mismatch { structure: String::new(), path: Vec::new() };
    if let Some(message) = mismatch.find(schema_of::<K>(), object, MAX_DEPTH) {
        return Err(Denial::unreadable(message));
    }
    K::from_value(object.clone()).map_err(|error| Denial::unreadable(error.to_string()))
}

/// Writes `kind` back as the original's encoder would have done after reading `original`.
pub(crate) fn encode<K: Kind>(kind: &K, original: &Value) -> Result<Value, Denial> {
    let mut object = kind.to_value().map_err(|error| Denial::internal(error.to_string()))?;
    restore_absence(schema_of::<K>(), Some(original), &mut object, MAX_DEPTH);
    Ok(object)
}

/// Lists and maps that were not given become null again; values of any type that are null vanish.
fn restore_absence(schema: &Value, original: Option<&Value>, encoded: &mut Value, depth: usize) {
    if depth == 0 {
        return;
    }
    let original = original.filter(|value| !value.is_null());
    match encoded {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = schema.get("properties") {
                fields.retain(|name, value| {
                    let node = properties.get(name);
                    !(value.is_null() && node.is_some_and(|node| node.get("type").is_none()))
                });
                for (name, value) in fields.iter_mut() {
                    let Some(node) = properties.get(name) else { continue };
                    let given = original.and_then(|original| original.get(name));
                    if is_collection(node)
                        && is_empty(value)
                        && given.is_none_or(serde_json::Value::is_null)
                    {
                        *value = Value::Null;
                    } else {
                        restore_absence(node, given, value, depth - 1);
                    }
                }
            }
        }
        Value::Array(items) => {
            let Some(node) = schema.get("items") else { return };
            for (index, item) in items.iter_mut().enumerate() {
                let given = original.and_then(|original| original.get(index));
                restore_absence(node, given, item, depth - 1);
            }
        }
        _ => {}
    }
}

fn is_collection(node: &Value) -> bool {
    node.get("type").is_some_and(|kind| kind == "array")
        || node.get("additionalProperties").is_some()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Where in the object the walk is: the innermost struct and the path of field names.
struct Mismatch<'a> {
    structure: String,
    path: Vec<&'a str>,
}

impl<'a> Mismatch<'a> {
    /// The first field (in the order of names) whose JSON type its Go type cannot take.
    fn find(&mut self, schema: &Value, value: &'a Value, depth: usize) -> Option<String> {
        if depth == 0 || value.is_null() || schema.get("x-kubernetes-int-or-string").is_some() {
            return None;
        }
        let expected = schema.get("type").and_then(Value::as_str)?;
        match (expected, value) {
            ("object", Value::Object(fields)) => self.find_in_fields(schema, fields, depth),
            ("array", Value::Array(items)) => {
                let node = schema.get("items")?;
                items.iter().find_map(|item| self.find(node, item, depth - 1))
            }
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => None,
            ("integer", Value::Number(number)) if number.is_i64() || number.is_u64() => {
                let fits = schema.get("format").is_none_or(|format| format != "int32")
                    || number.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
                (!fits).then(|| self.message(schema, &format!("number {number}")))
            }
            ("integer", Value::Number(number)) => {
                Some(self.message(schema, &format!("number {number}")))
            }
            // Preserved objects take anything; a wrong type is the schema's business.
            ("object", _) if schema.get("x-kubernetes-preserve-unknown-fields").is_some() => None,
            (_, value) => Some(self.message(schema, json_type(value))),
        }
    }

    fn find_in_fields(
        &mut self,
        schema: &Value,
        fields: &'a serde_json::Map<String, Value>,
        depth: usize,
    ) -> Option<String> {
        if let Some(values) = schema.get("additionalProperties") {
            return fields.values().find_map(|value| self.find(values, value, depth - 1));
        }
        let Some(Value::Object(properties)) = schema.get("properties") else { return None };
        let name = schema.get(GO_TYPE).and_then(Value::as_str).unwrap_or_default();
        let outer = std::mem::replace(
            &mut self.structure,
            name.rsplit('.').next().unwrap_or_default().to_owned(),
        );
        for (field, value) in fields {
            let Some(node) = properties.get(field) else { continue };
            self.path.push(field);
            let found = self.find(node, value, depth - 1);
            if found.is_some() {
                return found;
            }
            self.path.pop();
        }
        self.structure = outer;
        None
    }

    fn message(&self, schema: &Value, json: &str) -> String {
        format!(
            "json: cannot unmarshal {json} into Go struct field {}.{} of type {}",
            self.structure,
            self.path.join("."),
            go_type(schema)
        )
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn go_type(schema: &Value) -> String {
    if let Some(name) = schema.get(GO_TYPE).and_then(Value::as_str) {
        return name.to_owned();
    }
    let nested = |key: &str| schema.get(key).map(go_type).unwrap_or_default();
    match schema.get("type").and_then(Value::as_str).unwrap_or_default() {
        "boolean" => "bool".to_owned(),
        "integer" => schema.get("format").and_then(Value::as_str).unwrap_or("int").to_owned(),
        "array" => format!("[]{}", nested("items")),
        "object" => format!("map[string]{}", nested("additionalProperties")),
        _ => "string".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::policy::{ClusterOverridePolicy, PropagationPolicy};
    use serde_json::json;

    fn policy(spec: Value) -> Value {
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "spec": spec})
    }

    #[test]
    fn wrong_types_are_named_as_the_original_names_them() {
        let cases = [
            (
                json!({"priority": "high"}),
                "string into Go struct field PropagationSpec.spec.priority of type int32",
            ),
            (
                json!({"priority": 1.5}),
                "number 1.5 into Go struct field PropagationSpec.spec.priority of type int32",
            ),
            (
                json!({"resourceSelectors": [{"kind": 3}]}),
                "number into Go struct field ResourceSelector.spec.resourceSelectors.kind of type string",
            ),
            (
                json!({"resourceSelectors": {}}),
                "object into Go struct field PropagationSpec.spec.resourceSelectors of type []v1alpha1.ResourceSelector",
            ),
            (
                json!({"placement": []}),
                "array into Go struct field PropagationSpec.spec.placement of type v1alpha1.Placement",
            ),
            (
                json!({"conflictResolution": true}),
                "bool into Go struct field PropagationSpec.spec.conflictResolution of type v1alpha1.ConflictResolution",
            ),
        ];
        for (spec, expected) in cases {
            let denial = decode::<PropagationPolicy>(&policy(spec)).unwrap_err();
            assert_eq!(denial.message, format!("json: cannot unmarshal {expected}"));
            assert_eq!((denial.code, denial.reason), (400, ""));
        }
    }

    #[test]
    fn other_kinds_and_versions_are_refused() {
        let denial = decode::<ClusterOverridePolicy>(&policy(json!({}))).unwrap_err();
        assert_eq!(
            denial.message,
            "unable to decode policy.karmada.io/v1alpha1, Kind=PropagationPolicy into *v1alpha1.ClusterOverridePolicy"
        );
    }

    #[test]
    fn lists_not_given_come_back_as_null_and_given_ones_stay_empty() {
        for (spec, expected) in [
            (json!({}), json!({"resourceSelectors": null, "placement": {}})),
            (json!({"resourceSelectors": []}), json!({"resourceSelectors": [], "placement": {}})),
        ] {
            let object = policy(spec);
            let typed: PropagationPolicy = decode(&object).unwrap();
            assert_eq!(encode(&typed, &object).unwrap()["spec"], expected);
        }
    }
}

//! Reading objects into types and writing them back, with the errors and the side effects the original's
//! decoder has: a field of the wrong type is named with its Go type, a list that was not given comes back as
//! null.

use karmada_api::meta::Kind;
use karmada_api::wire::{GO_TYPE, schema_of};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::value::Text;
use karmada_apimachinery::{Map, Value};

use crate::request::Denial;

const MAX_DEPTH: usize = 64;

/// Reads an object of kind `K`.
pub(crate) fn decode<K: Kind>(object: &Value) -> Result<K, Denial> {
    check::<K>(object)?;
    K::from_value(object).map_err(|error| Denial::unreadable(error.to_string()))
}

/// Refuses an object whose fields are not of the types of kind `K`.
pub(crate) fn check<K: Kind>(object: &Value) -> Result<(), Denial> {
    if !is_of::<K>(object) {
        let gvk = object.gvk();
        return Err(Denial::unreadable(format!("unable to decode {gvk} into *{}", K::go_type())));
    }
    if K::written().is_written(object, STATUS, None) {
        return Ok(());
    }
    // Looked for first: the type itself would take a list for a struct.
    let mut mismatch = Mismatch { structure: String::new(), path: Vec::new() };
    match mismatch.find(schema_of::<K>(), object, MAX_DEPTH) {
        Some(message) => Err(Denial::unreadable(message)),
        None => Ok(()),
    }
}

fn is_of<K: Kind>(object: &Value) -> bool {
    object.kind() == K::KIND && object.api_version().split_once('/') == Some((K::GROUP, K::VERSION))
}

/// The part that the kinds always write and that new objects do not have.
const STATUS: &str = "status";

/// The object as [`encode`] would write it after [`decode`], if that can be told without them. Nobody looks
/// into the list at `aside`, if it has items.
pub(crate) fn written<K: Kind>(object: &Value, aside: &[&str]) -> Option<Value> {
    let list = object.at(aside);
    if !is_of::<K>(object) || !K::written().is_written(object, STATUS, list) {
        return None;
    }
    let mut object = object.clone();
    object.as_object_mut()?.entry(STATUS).or_insert_with(|| Value::Object(Map::new()));
    Some(object)
}

/// The record of who wrote which field. It is as long as the rest of many an object.
pub(crate) const RECORD: &[&str] = &["metadata", "managedFields"];

/// Lists that were set aside, with their places.
pub(crate) type Aside = Vec<(&'static [&'static str], karmada_apimachinery::value::List)>;

/// A copy of the object in which these lists are empty, and the lists. They hold values of any type, which
/// are the same after reading and writing, so that only the rest has to take that way.
pub(crate) fn set_aside(object: &Value, paths: &[&'static [&'static str]]) -> (Value, Aside) {
    let mut aside = Aside::new();
    let rest =
        copy_around(object, &paths.iter().map(|path| (*path, 0)).collect::<Vec<_>>(), &mut aside);
    (rest, aside)
}

/// Copies a value; `paths` lead on from here, each from the given step.
fn copy_around(
    value: &Value,
    paths: &[(&'static [&'static str], usize)],
    aside: &mut Aside,
) -> Value {
    let Some(fields) = value.as_object().filter(|_| !paths.is_empty()) else {
        return value.clone();
    };
    let copy = |(name, value): (&Text, &Value)| {
        let next = paths.iter().filter(|(path, step)| path[*step] == name);
        let next: Vec<_> = next.map(|(path, step)| (*path, step + 1)).collect();
        let ends = next.iter().find(|(path, step)| path.len() == *step);
        let copied = match (ends, value) {
            (Some((path, _)), Value::Array(items)) if !items.is_empty() => {
                aside.push((*path, items.clone()));
                Value::Array(Default::default())
            }
            (Some(_), value) => value.clone(),
            (None, value) => copy_around(value, &next, aside),
        };
        (name.clone(), copied)
    };
    Value::Object(fields.iter().map(copy).collect())
}

/// Puts lists back to where they were.
pub(crate) fn put_back(object: &mut Value, aside: Aside) {
    for (path, items) in aside {
        object.set(path, items);
    }
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
                        && given.is_none_or(karmada_apimachinery::Value::is_null)
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

    fn find_in_fields(&mut self, schema: &Value, fields: &'a Map, depth: usize) -> Option<String> {
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
    use karmada_api::meta::ObjectMeta;
    use karmada_api::policy::{ClusterOverridePolicy, PropagationPolicy};
    use karmada_api::work::{ResourceBinding, Work};
    use karmada_apimachinery::json;

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
    fn what_our_own_types_wrote_need_not_be_read() {
        let mut work = Work::with_metadata(ObjectMeta {
            name: "w".to_owned(),
            labels: [("a".to_owned(), "b".to_owned())].into(),
            ..ObjectMeta::default()
        });
        work.spec.workload.manifests = vec![json!({"kind": "ConfigMap", "weight": 0.5})];
        let mut object = work.to_value().unwrap();
        let manifests = &["spec", "workload", "manifests"];
        assert_eq!(written::<Work>(&object, manifests), Some(object.clone()));
        let whole = object.clone();
        object.remove_at(&["status"]);
        assert_eq!(written::<Work>(&object, manifests), Some(whole));
        // A fraction may come back as another one.
        assert_eq!(written::<Work>(&object, &[]), None);
        assert_eq!(written::<ResourceBinding>(&object, manifests), None);
    }

    #[test]
    fn lists_that_are_set_aside_come_back() {
        let paths: &[&'static [&'static str]] = &[RECORD, &["spec", "list"], &["spec", "none"]];
        let object = json!({
            "metadata": {"name": "n", "managedFields": [{"manager": "m"}]},
            "spec": {"list": [1, {"a": null}], "other": [2], "none": []},
            "status": {"managedFields": [3]},
        });
        let (mut rest, aside) = set_aside(&object, paths);
        assert_eq!(
            rest,
            json!({
                "metadata": {"name": "n", "managedFields": []},
                "spec": {"list": [], "other": [2], "none": []},
                "status": {"managedFields": [3]},
            })
        );
        put_back(&mut rest, aside);
        assert_eq!(rest, object);
        for odd in [json!(null), json!([]), json!({"metadata": 3, "spec": {"list": {}}})] {
            let (rest, aside) = set_aside(&odd, paths);
            assert_eq!((rest, aside), (odd, Vec::new()));
        }
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

//! Rules for an object's `metadata`: what a new object must look like and what an update may not
//! change. Clearing and stamping fields is not done here.

use crate::Value;

use super::{NameRule, is_label_value, is_qualified_name, label_name, label_value, qualified_name};
use crate::field::{FieldError, Path, Shown, quote};
use crate::object::ObjectExt;

/// Bytes all annotation keys and values of an object may take together.
pub const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;
pub const IMMUTABLE: &str = "field is immutable";

const MANAGER_MAX_BYTES: usize = 128;
const SUBRESOURCE_MAX_BYTES: usize = 256;

/// Checks a map of labels.
pub fn validate_labels(labels: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        if !is_qualified_name(key) {
            errors.extend(refuse(path, key, qualified_name(key)));
        }
        let value = value.as_str().unwrap_or_default();
        if !is_label_value(value) {
            errors.extend(refuse(path, value, label_value(value)));
        }
    }
    errors
}

/// Checks a map of annotations: keys as of labels (in any case), values bounded only in sum.
pub fn validate_annotations(annotations: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut bytes = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        // A key that is fine is so in lower case as well.
        if !is_qualified_name(key) {
            errors.extend(refuse(path, key, qualified_name(&key.to_lowercase())));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_MAX_BYTES {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX_BYTES));
    }
    errors
}

/// Checks `metadata` of a new object.
pub fn validate_object_meta(
    meta: &Value,
    namespaced: bool,
    rule: NameRule,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = text(meta, "generateName");
    if !prefix.is_empty() {
        errors.extend(refuse(&path.child("generateName"), prefix, rule(prefix, true)));
    }
    let name = text(meta, "name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name or generateName is required"));
    } else {
        errors.extend(refuse(&path.child("name"), name, rule(name, false)));
    }
    errors.extend(validate_namespace(text(meta, "namespace"), namespaced, path));
    if let Some(generation) = meta.i64_at(&["generation"]).filter(|generation| *generation < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
    errors.extend(validate_labels(meta.get("labels"), &path.child("labels")));
    errors.extend(validate_annotations(meta.get("annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(
        meta.list_at(&["ownerReferences"]),
        &path.child("ownerReferences"),
    ));
    errors.extend(validate_finalizers(meta.list_at(&["finalizers"]), &path.child("finalizers")));
    errors.extend(validate_managed_fields(
        meta.list_at(&["managedFields"]),
        &path.child("managedFields"),
    ));
    errors
}

fn validate_namespace(namespace: &str, namespaced: bool, path: &Path) -> Vec<FieldError> {
    let path = path.child("namespace");
    match (namespaced, namespace) {
        (true, "") => vec![FieldError::required(&path, "")],
        (true, namespace) => refuse(&path, namespace, label_name(namespace, false)),
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(&path, "not allowed on this type")],
    }
}

/// Checks `metadata` of an update against what is stored.
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if present(old, "deletionTimestamp").is_some() {
        errors.extend(refuse_new_finalizers(new, old, &path.child("finalizers")));
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(FieldError::invalid(&path.child("resourceVersion"), "", detail));
    }
    let generation = |meta: &Value| meta.i64_at(&["generation"]).unwrap_or(0);
    if generation(new) < generation(old) {
        let detail = "must not be decremented";
        errors.push(FieldError::invalid(&path.child("generation"), generation(new), detail));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            errors.push(FieldError::invalid(&path.child(field), text(new, field), IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        errors.extend(validate_immutable(
            present(new, field),
            present(old, field),
            &path.child(field),
        ));
    }
    errors.extend(validate_labels(new.get("labels"), &path.child("labels")));
    errors.extend(validate_annotations(new.get("annotations"), &path.child("annotations")));
    errors.extend(validate_owner_references(
        new.list_at(&["ownerReferences"]),
        &path.child("ownerReferences"),
    ));
    errors.extend(validate_managed_fields(
        new.list_at(&["managedFields"]),
        &path.child("managedFields"),
    ));
    errors
}

/// Refuses a changed value of a field that is fixed at creation.
pub fn validate_immutable(
    new: Option<&Value>,
    old: Option<&Value>,
    path: &Path,
) -> Option<FieldError> {
    (new != old).then(|| FieldError::invalid(path, new.cloned().unwrap_or(Value::Null), IMMUTABLE))
}

fn refuse_new_finalizers(new: &Value, old: &Value, path: &Path) -> Option<FieldError> {
    let stored = old.list_at(&["finalizers"]);
    let mut added: Vec<&str> = new
        .list_at(&["finalizers"])
        .iter()
        .filter(|finalizer| !stored.contains(finalizer))
        .filter_map(Value::as_str)
        .collect();
    added.sort_unstable();
    added.dedup();
    if added.is_empty() {
        return None;
    }
    let quoted: Vec<String> = added.into_iter().map(quote).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    Some(FieldError::forbidden(path, detail))
}

pub fn validate_finalizers(finalizers: &[Value], path: &Path) -> Vec<FieldError> {
    let names = || finalizers.iter().filter_map(Value::as_str);
    let wrong = names().filter(|name| !is_qualified_name(name));
    let mut errors: Vec<FieldError> =
        wrong.flat_map(|name| refuse(path, name, qualified_name(name))).collect();
    if names().any(|name| name == "orphan") && names().any(|name| name == "foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, finalizers.to_vec(), detail));
    }
    errors
}

pub fn validate_owner_references(references: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut first_controller: Option<&Value> = None;
    let shown = |reference: &Value| format!("{}/{}", reference.kind(), text(reference, "name"));
    for reference in references {
        errors.extend(validate_owner_reference(reference, path));
        if reference.bool_at(&["controller"]) != Some(true) {
            continue;
        }
        match first_controller {
            None => first_controller = Some(reference),
            Some(first) => {
                let all: Vec<String> = references.iter().map(show_reference).collect();
                errors.push(FieldError::invalid(
                    path,
                    Shown::Verbatim(format!("[{}]", all.join(","))),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                        shown(first),
                        shown(reference)
                    ),
                ));
            }
        }
    }
    errors
}

fn validate_owner_reference(reference: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let api_version = reference.api_version();
    let version = match api_version.split_once('/') {
        None => api_version,
        Some((_, version)) if !version.contains('/') => version,
        Some(_) => "",
    };
    if version.is_empty() {
        let path = path.child("apiVersion");
        errors.push(FieldError::invalid(&path, api_version, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if text(reference, field).is_empty() {
            errors.push(FieldError::invalid(&path.child(field), "", "must not be empty"));
        }
    }
    if api_version == "v1" && reference.kind() == "Event" {
        errors.push(FieldError::invalid(
            path,
            Shown::Verbatim(show_reference(reference)),
            "/v1, Kind=Event is disallowed from being an owner",
        ));
    }
    errors
}

/// Prints a reference with its fields in the order Kubernetes declares them.
fn show_reference(reference: &Value) -> String {
    let required = ["apiVersion", "kind", "name", "uid"]
        .map(|field| format!("\"{field}\":{}", Value::from(text(reference, field))));
    let optional = ["controller", "blockOwnerDeletion"]
        .into_iter()
        .filter_map(|field| Some(format!("\"{field}\":{}", present(reference, field)?)));
    let fields: Vec<String> = required.into_iter().chain(optional).collect();
    format!("{{{}}}", fields.join(","))
}

/// Checks the entries of `managedFields` apart from the field sets themselves.
pub fn validate_managed_fields(entries: &[Value], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if is_plain_entry(entry) {
            continue;
        }
        let path = path.index(index);
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let path = path.child("operation");
            errors.push(FieldError::invalid(&path, operation, "must be `Apply` or `Update`"));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let path = path.child("fieldsType");
            errors.push(FieldError::invalid(&path, fields_type, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text(entry, "manager"), &path.child("manager")));
        if text(entry, "subresource").len() > SUBRESOURCE_MAX_BYTES {
            errors.push(FieldError::too_long(&path.child("subresource"), SUBRESOURCE_MAX_BYTES));
        }
    }
    errors
}

/// Whether nothing is wrong with an entry, as nearly always. A no may be wrong, a yes is not.
fn is_plain_entry(entry: &Value) -> bool {
    let manager = text(entry, "manager");
    matches!(text(entry, "operation"), "Apply" | "Update")
        && matches!(text(entry, "fieldsType"), "" | "FieldsV1")
        && manager.len() <= MANAGER_MAX_BYTES
        && manager.bytes().all(|c| c == b' ' || c.is_ascii_graphic())
        && text(entry, "subresource").len() <= SUBRESOURCE_MAX_BYTES
}

/// Checks the name of a field manager.
pub fn validate_field_manager(manager: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MANAGER_MAX_BYTES {
        errors.push(FieldError::too_long(path, MANAGER_MAX_BYTES));
    }
    for (position, c) in manager.char_indices() {
        if c.is_control() || (c.is_whitespace() && c != ' ') {
            let detail =
                format!("invalid character U+{:04X} (at position {position})", u32::from(c));
            errors.push(FieldError::invalid(path, manager, detail));
        }
    }
    errors
}

fn refuse(path: &Path, value: &str, messages: Vec<String>) -> Vec<FieldError> {
    messages.into_iter().map(|message| FieldError::invalid(path, value, message)).collect()
}

fn text<'a>(meta: &'a Value, field: &str) -> &'a str {
    meta.str_at(&[field]).unwrap_or_default()
}

fn present<'a>(meta: &'a Value, field: &str) -> Option<&'a Value> {
    meta.get(field).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::names::subdomain_name;

    fn shown(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn new_objects_need_a_name_and_the_namespace_their_scope_asks_for() {
        let path = Path::new("metadata");
        let check = |meta: Value, namespaced| {
            shown(&validate_object_meta(&meta, namespaced, subdomain_name, &path))
        };
        assert_eq!(check(json!({"name": "a", "namespace": "n"}), true), Vec::<String>::new());
        assert_eq!(
            check(json!({}), true),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value"
            ]
        );
        assert_eq!(
            check(json!({"name": "a", "namespace": "n"}), false),
            ["metadata.namespace: Forbidden: not allowed on this type"]
        );
        assert_eq!(
            check(json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}), false),
            [
                r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#
            ]
        );
    }

    #[test]
    fn only_one_owner_controls_and_events_own_nothing() {
        let path = Path::new("metadata").child("ownerReferences");
        let owner = |kind: &str, uid: &str| json!({"apiVersion": "v1", "kind": kind, "name": "o", "uid": uid, "controller": true});
        let errors = validate_owner_references(&[owner("A", "1"), owner("B", "2")], &path);
        assert_eq!(
            shown(&errors),
            [
                r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"A","name":"o","uid":"1","controller":true},{"apiVersion":"v1","kind":"B","name":"o","uid":"2","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for A/o and B/o"#
            ]
        );
        let errors = validate_owner_references(&[owner("Event", "1")], &path);
        assert_eq!(errors[0].detail, "/v1, Kind=Event is disallowed from being an owner");
        let errors =
            validate_owner_references(&[json!({"kind": "A", "name": "o", "uid": "1"})], &path);
        assert_eq!(
            shown(&errors),
            [
                r#"metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty"#
            ]
        );
    }

    #[test]
    fn updates_keep_identity_and_gain_no_finalizers_while_being_deleted() {
        let path = Path::new("metadata");
        let old = json!({"name": "a", "uid": "1", "resourceVersion": "1", "deletionTimestamp": "2001-01-01T00:00:00Z", "finalizers": ["x/a"]});
        let mut new = old.clone();
        assert_eq!(validate_object_meta_update(&new, &old, &path), []);
        new["finalizers"] = json!(["x/b", "x/a"]);
        new["uid"] = json!("2");
        assert_eq!(
            shown(&validate_object_meta_update(&new, &old, &path)),
            [
                r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x/b"}"#,
                r#"metadata.uid: Invalid value: "2": field is immutable"#
            ]
        );
    }

    #[test]
    fn annotations_are_bounded_in_sum() {
        let path = Path::new("metadata").child("annotations");
        let big = json!({"a": "x".repeat(ANNOTATIONS_MAX_BYTES)});
        assert_eq!(
            shown(&validate_annotations(Some(&big), &path)),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
        assert!(validate_annotations(Some(&json!({"Example.COM/a": "x"})), &path).is_empty());
    }
}

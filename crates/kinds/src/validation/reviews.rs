//! Requests that are answered rather than stored: access reviews, token requests and reviews,
//! bindings of pods.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};

use super::place::{At, Errors};
use super::storage::check_token_age;

fn check_access(object: &At<'_>, errs: &mut Errors) {
    let spec = object.field("spec");
    let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
    if resource.is_set() && other.is_set() {
        errs.invalid_value(&other, "cannot be specified in combination with resourceAttributes");
    }
    if !resource.is_set() && !other.is_set() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errs.invalid(&resource, Value::Null, detail);
    }
}

fn check_selectors(object: &At<'_>, errs: &mut Errors) {
    for kind in ["fieldSelector", "labelSelector"] {
        let selector = object.at(&["spec", "resourceAttributes", kind]);
        if !selector.is_set() {
            continue;
        }
        let (raw, requirements) = (selector.field("rawSelector"), selector.field("requirements"));
        if !raw.is_empty() && !requirements.is_empty() {
            errs.invalid_text(&raw, "may not specified at the same time as requirements");
        }
        if raw.is_empty() && requirements.is_empty() {
            let detail = format!(
                "when {} is specified, requirements or rawSelector is required",
                selector.path
            );
            errs.required(&requirements, detail);
        }
        for requirement in requirements.items() {
            check_requirement(&requirement, kind == "labelSelector", errs);
        }
    }
}

fn check_requirement(requirement: &At<'_>, of_labels: bool, errs: &mut Errors) {
    let (key, values) = (requirement.field("key"), requirement.field("values"));
    if !of_labels && key.is_empty() {
        errs.required(&key, "must be specified");
    }
    match requirement.field("operator").text() {
        "In" | "NotIn" if values.is_empty() => {
            errs.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errs.forbidden(&values, detail);
        }
        _ => {}
    }
    if of_labels {
        use karmada_apimachinery::names;
        errs.messages(&key, &names::qualified_name(key.text()));
        for value in values.items() {
            errs.messages(&value, &names::label_value(value.text()));
        }
    }
}

fn check_blank_meta(object: &At<'_>, allowed: &[&str], detail: &str, errs: &mut Errors) {
    let meta = object.field("metadata");
    let filled = meta.entries().any(|(field, value)| {
        !allowed.contains(&field) && field != "managedFields" && value.is_set()
    });
    if filled {
        errs.invalid_value(&meta, detail);
    }
}

fn check_user(object: &At<'_>, errs: &mut Errors) {
    let spec = object.field("spec");
    if spec.field("user").is_empty() && spec.field("groups").is_empty() {
        let detail = "at least one of user or group must be specified";
        errs.invalid_text(&spec.field("user"), detail);
    }
}

pub(crate) fn subject_access(object: &At<'_>, errs: &mut Errors) {
    check_access(object, errs);
    check_user(object, errs);
    check_selectors(object, errs);
    check_blank_meta(object, &["creationTimestamp"], "must be empty", errs);
}

pub(crate) fn self_subject_access(object: &At<'_>, errs: &mut Errors) {
    check_access(object, errs);
    check_selectors(object, errs);
    check_blank_meta(object, &["creationTimestamp"], "must be empty", errs);
}

pub(crate) fn local_subject_access(object: &At<'_>, errs: &mut Errors) {
    check_access(object, errs);
    check_user(object, errs);
    check_selectors(object, errs);
    let allowed = ["creationTimestamp", "namespace"];
    check_blank_meta(object, &allowed, "must be empty except for namespace", errs);
    let spec = object.field("spec");
    let namespace = spec.at(&["resourceAttributes", "namespace"]);
    let own = object.at(&["metadata", "namespace"]);
    if spec.field("resourceAttributes").is_set() && namespace.text() != own.text() {
        errs.invalid_text(&namespace, "must match metadata.namespace");
    }
    let other = spec.field("nonResourceAttributes");
    if other.is_set() {
        errs.invalid_value(&other, "disallowed on this kind of request");
    }
}

pub(crate) fn token_request(object: &At<'_>, errs: &mut Errors) {
    check_token_age(&object.at(&["spec", "expirationSeconds"]), errs);
}

pub(crate) fn binding(object: &At<'_>, errs: &mut Errors) {
    let kind = object.at(&["target", "kind"]);
    if !kind.is_empty() && kind.text() != "Node" {
        errs.unsupported(&kind, &["Node", "<empty>"]);
    }
    errs.required_text(&object.at(&["target", "name"]));
}

/// Checks a pod's binding; the server answers these errors without a reason.
pub fn validate_binding(object: &Value) -> Vec<FieldError> {
    let mut errs = Errors::default();
    binding(&At::root(object), &mut errs);
    errs.0
}

/// Checks that a token request names the account it is sent to, if any.
pub fn validate_token_request_name(object: &Value, account: &str) -> Option<FieldError> {
    let name = At::root(object).at(&["metadata", "name"]);
    let differs = !name.is_empty() && name.text() != account;
    differs.then(|| {
        let path = Path::new("metadata").child("name");
        FieldError::invalid(&path, name.text(), "must match the service account name if specified")
    })
}

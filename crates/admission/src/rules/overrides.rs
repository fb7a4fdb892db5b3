//! OverridePolicy and ClusterOverridePolicy.

use karmada_api::policy::{
    FieldOverrider, OverridePolicy, OverrideSpec, OverriderOperator, Overriders, RuleWithCluster,
};
use karmada_api::scopes::OverridingPolicy;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names::{validate_annotations, validate_labels};
use karmada_apimachinery::object::ObjectExt;

use super::placement::check_affinity;
use super::propagation::{check_selector_namespaces, default_selector_namespaces};
use crate::decode::{decode, encode};
use crate::request::{Denial, Environment, Request, Verdict, refuse_any};
use crate::show::shown;

pub(crate) fn mutate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let mut policy: OverridePolicy = decode(&request.object)?;
    default_selector_namespaces(&mut policy.spec.resource_selectors, &request.namespace);
    Ok(Verdict { object: Some(encode(&policy, &request.object)?), ..Verdict::default() })
}

pub(crate) fn validate<P: OverridingPolicy>(
    request: &Request,
    _: &dyn Environment,
) -> Result<Verdict, Denial> {
    let policy: P = decode(&request.object)?;
    // Compat: a list that is there but empty counts as given.
    let has_rules = request
        .object
        .at(&["spec", "overrideRules"])
        .is_some_and(karmada_apimachinery::Value::is_array);
    let namespace = if P::NAMESPACED { &*request.namespace } else { "" };
    refuse_any(&check_spec(policy.spec(), has_rules, namespace))?;
    Ok(Verdict::default())
}

fn check_spec(spec: &OverrideSpec, has_rules: bool, namespace: &str) -> Vec<FieldError> {
    let path = Path::new("spec");
    let target_path = path.child("targetCluster");
    let mut errors = Vec::new();
    errors.extend(check_affinity(spec.target_cluster.as_ref(), &target_path));
    if let Some(target) = spec.target_cluster.as_ref().filter(|_| has_rules) {
        errors.push(FieldError::invalid(
            &target_path,
            shown(target),
            "overrideRules and targetCluster can't co-exist",
        ));
    }
    if has_rules && has_outdated_overriders(&spec.overriders) {
        errors.push(FieldError::invalid(
            &path.child("overriders"),
            shown(&spec.overriders),
            "overrideRules and overriders can't co-exist",
        ));
    }
    for (index, rule) in spec.override_rules.iter().enumerate() {
        errors.extend(check_rule(rule, &path.child("overrideRules").index(index)));
    }
    let selectors_path = path.child("resourceSelectors");
    errors.extend(check_selector_namespaces(&spec.resource_selectors, namespace, &selectors_path));
    errors
}

// Compat: fieldOverrider is younger than this rule and was left out of it.
fn has_outdated_overriders(overriders: &Overriders) -> bool {
    let without_fields = Overriders { field_overrider: Vec::new(), ..overriders.clone() };
    without_fields != Overriders::default()
}

fn check_rule(rule: &RuleWithCluster, path: &Path) -> Vec<FieldError> {
    let overriders = &rule.overriders;
    let at = |field: &str, index: usize| path.child("overriders").child(field).index(index);
    let as_value = |labels| karmada_apimachinery::to_value(labels).unwrap_or_default();
    let mut errors = Vec::new();
    for (index, edit) in overriders.annotations_overrider.iter().enumerate() {
        let path = at("annotationsOverrider", index).child("value");
        errors.extend(validate_annotations(Some(&as_value(&edit.value)), &path));
    }
    for (index, edit) in overriders.labels_overrider.iter().enumerate() {
        let path = at("labelsOverrider", index).child("value");
        errors.extend(validate_labels(Some(&as_value(&edit.value)), &path));
    }
    for (index, edit) in overriders.image_overrider.iter().enumerate() {
        if let Some(predicate) = &edit.predicate {
            let path = at("imageOverrider", index).child("predicate").child("path");
            errors.extend(check_pointer(&predicate.path, &path));
        }
    }
    for (index, edit) in overriders.field_overrider.iter().enumerate() {
        errors.extend(check_field_overrider(edit, &at("fieldOverrider", index)));
    }
    errors.extend(check_affinity(rule.target_cluster.as_ref(), &path.child("targetCluster")));
    errors
}

fn check_field_overrider(edit: &FieldOverrider, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (edit.json.is_empty(), edit.yaml.is_empty()) {
        (false, false) => errors.push(FieldError::invalid(
            path,
            shown(edit),
            "FieldOverrider has both YAML and JSON set. Only one is allowed",
        )),
        (true, true) => errors
            .push(FieldError::required(path, "FieldOverrider must have either JSON or YAML set")),
        _ => {}
    }
    errors.extend(check_pointer(&edit.field_path, &path.child("fieldPath")));
    for (index, op) in edit.json.iter().enumerate() {
        let path = path.child("json").index(index);
        errors.extend(check_patch(&op.sub_path, &op.operator, &op.value, &path));
    }
    for (index, op) in edit.yaml.iter().enumerate() {
        let path = path.child("yaml").index(index);
        errors.extend(check_patch(&op.sub_path, &op.operator, &op.value, &path));
    }
    errors
}

fn check_patch(
    sub_path: &str,
    operator: &OverriderOperator,
    value: &Value,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(check_pointer(sub_path, &path.child("subPath")));
    let message = match operator {
        OverriderOperator::Add | OverriderOperator::Replace if value.is_null() => {
            "value is required for add or replace operation"
        }
        OverriderOperator::Remove if !value.is_null() => {
            "value is not allowed for remove operation"
        }
        _ => return errors,
    };
    errors.push(FieldError::invalid(&path.child("value"), shown(value), message));
    errors
}

fn check_pointer(pointer: &str, path: &Path) -> Option<FieldError> {
    let is_pointer = pointer.is_empty() || pointer.starts_with('/');
    (!is_pointer).then(|| {
        FieldError::invalid(
            path,
            pointer,
            // Compat: two errors of the original's parser, one per line.
            "JSON pointer must be empty or start with a \"/\"\nJSON pointer error",
        )
    })
}

//! Group `admissionregistration.k8s.io`: policies written in CEL and their bindings.

use std::collections::BTreeSet;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;
use karmada_cel::{Declarations, Type};

use crate::expressions::{self, Available, Gives};

use super::meta::{self, Scope};
use super::place::{At, Errors, same};
use super::selectors;
use super::webhooks::{
    FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, check_expression,
    check_match_conditions, check_rule_with_operations,
};

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

pub(crate) fn validating_create(object: &At<'_>, errs: &mut Errors) {
    check_validating(object, None, errs);
}

pub(crate) fn validating_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    if subresource == "status" {
        return check_status(&new.field("status"), errs);
    }
    check_validating(new, Some(old), errs);
}

fn check_status(status: &At<'_>, errs: &mut Errors) {
    for warning in status.at(&["typeChecking", "expressionWarnings"]).items() {
        errs.required_text(&warning.field("warning"));
        if warning.field("fieldRef").text().trim().is_empty() {
            errs.required(&warning.field("fieldRef"), "");
        }
    }
    meta::conditions(&status.field("conditions"), errs);
}

/// What both kinds of policy have in common; returns the variables its expressions know.
fn check_common(
    spec: &At<'_>,
    old: Option<&At<'_>>,
    mutating: bool,
    errs: &mut Errors,
) -> Declarations {
    let available = Available { params: spec.field("paramKind").is_set(), namespace: true };
    let policy = spec.field("failurePolicy");
    if policy.is_set() {
        errs.one_of(&policy, &FAILURE_POLICIES);
    } else {
        errs.required(&policy, "");
    }
    if spec.field("paramKind").is_set() {
        check_param_kind(&spec.field("paramKind"), errs);
    }
    let constraints = spec.field("matchConstraints");
    if constraints.is_set() {
        check_match_resources(&constraints, errs);
        if constraints.field("resourceRules").is_empty() {
            errs.required(&constraints.field("resourceRules"), "");
        }
        if mutating {
            check_mutating_operations(&constraints, errs);
        }
    } else {
        errs.required(&constraints, "");
    }
    let kept = old.is_some_and(|old| {
        ["paramKind", "matchConditions"]
            .iter()
            .all(|field| same(spec.field(field).value, old.at(&["spec", field]).value))
    });
    if !kept {
        check_match_conditions(&spec.field("matchConditions"), available, errs);
    }
    let mut computed: Vec<(String, Type)> = Vec::new();
    for variable in spec.field("variables").items() {
        let (name, expression) = (variable.field("name"), variable.field("expression"));
        if name.text().trim().is_empty() {
            errs.required(&name, "name is not specified");
        } else if !names::c_identifier(name.text()).is_empty()
            || karmada_cel::is_reserved(name.text())
        {
            errs.invalid_text(&name, "must be a valid CEL identifier");
        }
        if expression.text().trim().is_empty() {
            errs.required(&expression, "expression is not specified");
        } else {
            let known = expressions::declarations(available, Some(&computed));
            let found = check_expression(&expression, &known, Gives::Anything, errs);
            computed.push((name.text().to_owned(), found.unwrap_or(Type::Dyn)));
        }
    }
    // Compat: a policy that only judges has no such word before it has variables.
    let has_variables = mutating || !spec.field("variables").is_empty();
    expressions::declarations(available, has_variables.then_some(computed.as_slice()))
}

fn check_validating(object: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    meta::check_plain(object, Scope::Cluster, names::subdomain_name, errs);
    let spec = object.field("spec");
    let known = check_common(&spec, old, false, errs);
    let (validations, annotations) = (spec.field("validations"), spec.field("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errs.required(&validations, detail);
        return errs.required(&annotations, detail);
    }
    for validation in validations.items() {
        check_validation(&validation, &known, errs);
    }
    if annotations.len() > 20 {
        errs.invalid_value(&annotations, "must not have more than 20 auditAnnotations");
    }
    let mut keys = BTreeSet::new();
    for annotation in annotations.items() {
        let (key, value) = (annotation.field("key"), annotation.field("valueExpression"));
        let name = object.at(&["metadata", "name"]);
        if name.is_empty() {
            errs.invalid_text(&key, "requires metadata.name be non-empty");
        } else {
            let full = format!("{}/{}", name.text(), key.text());
            errs.messages_for(&key, &full, &names::qualified_name(&full));
        }
        let expression = value.text().trim();
        if expression.is_empty() {
            errs.required(&value, "valueExpression is not specified");
        } else if expression.len() > 5 * 1024 {
            errs.required(&value, "must not exceed 5120 bytes in length");
        } else {
            check_expression(&value, &known, Gives::TextOrNull, errs);
        }
        if !keys.insert(key.text()) {
            errs.push(FieldError::duplicate(&key.path, key.text()));
        }
    }
}

fn check_validation(validation: &At<'_>, known: &Declarations, errs: &mut Errors) {
    let expression = validation.field("expression");
    if expression.text().trim().is_empty() {
        errs.required(&expression, "expression is not specified");
    } else {
        check_expression(&expression, known, Gives::Bool, errs);
    }
    let message_expression = validation.field("messageExpression");
    if !message_expression.is_empty() && message_expression.text().trim().is_empty() {
        errs.invalid_text(&message_expression, "must be non-empty if specified");
    } else if !message_expression.is_empty() {
        check_expression(&message_expression, known, Gives::Text, errs);
    }
    let message = validation.field("message");
    let trimmed = message.text().trim();
    if !message.is_empty() && trimmed.is_empty() {
        errs.invalid_text(&message, "must be non-empty if specified");
    } else if trimmed.contains(['\n', '\r']) {
        errs.invalid_text(&message, "must not contain line breaks");
    }
    errs.one_of(&validation.field("reason"), &REASONS);
}

fn check_param_kind(kind: &At<'_>, errs: &mut Errors) {
    let (version, name) = (kind.field("apiVersion"), kind.field("kind"));
    if errs.required_text(&version) {
        match version.text().matches('/').count() {
            0 | 1 => {
                let (group, number) =
                    version.text().split_once('/').unwrap_or(("", version.text()));
                let messages = names::dns1123_subdomain(group);
                if !group.is_empty() && !messages.is_empty() {
                    errs.invalid(&version, group, messages.join(","));
                }
                let messages = names::dns1035_label(number);
                if number.is_empty() {
                    errs.invalid_text(&version, "version must be specified");
                } else if !messages.is_empty() {
                    errs.invalid(&version, number, messages.join(","));
                }
            }
            _ => {
                let detail = format!("unexpected GroupVersion string: {}", version.text());
                errs.invalid_text(&version, detail);
            }
        }
    }
    if errs.required_text(&name) {
        let messages = names::dns1035_label(&name.text().to_lowercase());
        if !messages.is_empty() {
            let detail = messages.join(",");
            let detail = format!("may have mixed case, but should otherwise match: {detail}");
            errs.invalid_text(&name, detail);
        }
    }
}

fn check_match_resources(constraints: &At<'_>, errs: &mut Errors) {
    if !constraints.is_set() {
        return;
    }
    let policy = constraints.field("matchPolicy");
    if policy.is_set() {
        errs.one_of(&policy, &MATCH_POLICIES);
    } else {
        errs.required(&policy, "");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let selector = constraints.field(field);
        if selector.is_set() {
            selectors::check(&selector, errs);
        } else {
            errs.required(&selector, "");
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for rule in constraints.field(field).items() {
            let mut seen = BTreeSet::new();
            for name in rule.field("resourceNames").items() {
                errs.messages(&name, &names::path_segment(name.text()));
                if !seen.insert(name.text()) {
                    errs.duplicate(&name);
                }
            }
            check_rule_with_operations(&rule, errs);
        }
    }
}

fn check_mutating_operations(constraints: &At<'_>, errs: &mut Errors) {
    let rules = constraints.field("resourceRules");
    for operation in rules.items().flat_map(|rule| rule.field("operations").items()) {
        if !MUTATING_OPERATIONS.contains(&operation.text()) {
            let at = operation.reported_at(rules.path.child("operations"));
            errs.unsupported(&at, &MUTATING_OPERATIONS);
        }
    }
}

pub(crate) fn mutating_create(object: &At<'_>, errs: &mut Errors) {
    check_mutating(object, None, errs);
}

pub(crate) fn mutating_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    check_mutating(new, Some(old), errs);
}

fn check_mutating(object: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    meta::check_plain(object, Scope::Cluster, names::subdomain_name, errs);
    let spec = object.field("spec");
    let known = check_common(&spec, old, true, errs);
    let mutations = spec.field("mutations");
    if mutations.is_empty() {
        errs.required(&mutations, "mutations must contain at least one item");
    }
    for mutation in mutations.items() {
        check_mutation(&mutation, &known, errs);
    }
    errs.required_one_of(&spec.field("reinvocationPolicy"), &REINVOCATION_POLICIES);
}

fn check_mutation(mutation: &At<'_>, known: &Declarations, errs: &mut Errors) {
    let kind = mutation.field("patchType");
    let (own, other) = match kind.text() {
        "" => return errs.required(&kind, ""),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        _ => return errs.unsupported(&kind, &["ApplyConfiguration", "JSONPatch"]),
    };
    let at = mutation.field(own);
    if !at.is_set() {
        errs.required(&at, format!("must be specified when patchType is {}", kind.text()));
    } else if at.field("expression").text().trim().is_empty() {
        errs.required(&at.field("expression"), "");
    } else {
        check_expression(&at.field("expression"), known, Gives::Anything, errs);
    }
    if mutation.field(other).is_set() {
        let detail = format!("must not be specified when patchType is {}", kind.text());
        errs.invalid(&mutation.field(other), format!("{{{other}}}"), detail);
    }
}

fn check_binding(object: &At<'_>, errs: &mut Errors) {
    meta::check_plain(object, Scope::Cluster, names::subdomain_name, errs);
    let spec = object.field("spec");
    let name = spec.field("policyName");
    if errs.required_text(&name) {
        errs.messages(&name, &names::dns1123_subdomain(name.text()));
    }
    check_param_ref(&spec.field("paramRef"), errs);
    check_match_resources(&spec.field("matchResources"), errs);
}

fn check_param_ref(reference: &At<'_>, errs: &mut Errors) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    if !reference.is_set() {
        return;
    }
    let (name, selector) = (reference.field("name"), reference.field("selector"));
    if !name.is_empty() {
        errs.messages(&name, &names::path_segment(name.text()));
        if selector.is_set() {
            errs.forbidden(&name, EXCLUSIVE);
        }
    }
    if selector.is_set() {
        selectors::check(&selector, errs);
        if !name.is_empty() {
            errs.forbidden(&selector, EXCLUSIVE);
        }
    }
    if name.is_empty() && !selector.is_set() {
        errs.required(reference, "one of name or selector must be specified");
    }
    errs.required_one_of(&reference.field("parameterNotFoundAction"), &["Deny", "Allow"]);
}

pub(crate) fn validating_binding_create(object: &At<'_>, errs: &mut Errors) {
    check_binding(object, errs);
    let actions = object.at(&["spec", "validationActions"]);
    let mut seen = BTreeSet::new();
    for action in actions.items() {
        if !ACTIONS.contains(&action.text()) {
            errs.unsupported(&action, &ACTIONS);
        }
        if !seen.insert(action.text()) {
            errs.duplicate(&action);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        errs.invalid_value(&actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
    if actions.is_empty() {
        errs.required(&actions, "at least one validation action is required");
    }
}

pub(crate) fn mutating_binding_create(object: &At<'_>, errs: &mut Errors) {
    check_binding(object, errs);
    check_mutating_operations(&object.at(&["spec", "matchResources"]), errs);
}

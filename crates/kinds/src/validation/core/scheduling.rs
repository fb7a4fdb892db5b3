//! Where a pod may run: node selectors, affinity, taints and tolerations, spreading.

use std::collections::BTreeSet;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;

use crate::validation::place::{At, Errors};
use crate::validation::selectors;

pub(crate) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(crate) fn check_affinity(affinity: &At<'_>, errs: &mut Errors) {
    let node = affinity.field("nodeAffinity");
    if node.field(REQUIRED).is_set() {
        check_node_selector(&node.field(REQUIRED), errs);
    }
    for term in node.field(PREFERRED).items() {
        check_weight(&term, errs);
        check_node_term(&term.field("preference"), false, errs);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field(REQUIRED).items() {
            check_pod_term(&term, errs);
        }
        for weighted in pods.field(PREFERRED).items() {
            check_weight(&weighted, errs);
            check_pod_term(&weighted.field("podAffinityTerm"), errs);
        }
    }
}

fn check_weight(term: &At<'_>, errs: &mut Errors) {
    if !(1..=100).contains(&term.field("weight").int()) {
        errs.invalid_int(&term.field("weight"), "must be in the range 1-100");
    }
}

/// A node selector, which needs at least one term.
pub(crate) fn check_node_selector(selector: &At<'_>, errs: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        errs.required(&terms, "must have at least one node selector term");
    }
    for term in terms.items() {
        check_node_term(&term, true, errs);
    }
}

fn check_node_term(term: &At<'_>, check_values: bool, errs: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        check_node_requirement(&requirement, check_values, errs);
    }
    for requirement in term.field("matchFields").items() {
        check_node_field(&requirement, errs);
    }
}

fn check_node_requirement(requirement: &At<'_>, check_values: bool, errs: &mut Errors) {
    let values = requirement.field("values");
    match requirement.field("operator").text() {
        "In" | "NotIn" if values.is_empty() => {
            errs.required(&values, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errs.forbidden(&values, detail);
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errs.required(&values, detail);
            }
        }
        _ => errs.invalid_text(&requirement.field("operator"), "not a valid selector operator"),
    }
    let key = requirement.field("key");
    errs.messages(&key, &names::qualified_name(key.text()));
    if check_values {
        for value in values.items() {
            errs.messages(&value, &names::label_value(value.text()));
        }
    }
}

fn check_node_field(requirement: &At<'_>, errs: &mut Errors) {
    let values = requirement.field("values");
    match requirement.field("operator").text() {
        "In" | "NotIn" => {
            if values.len() != 1 {
                errs.required(&values, "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
            }
        }
        _ => errs.invalid_text(&requirement.field("operator"), "not a valid selector operator"),
    }
    let key = requirement.field("key");
    if key.text() != "metadata.name" {
        return errs.invalid_text(&key, "not a valid field selector key");
    }
    for value in values.items() {
        errs.messages(&value, &names::dns1123_subdomain(value.text()));
    }
}

fn check_pod_term(term: &At<'_>, errs: &mut Errors) {
    selectors::check(&term.field("labelSelector"), errs);
    selectors::check(&term.field("namespaceSelector"), errs);
    for namespace in term.field("namespaces").texts() {
        let reported = term.renamed("namespaces", "namespace");
        errs.messages_for(&reported, namespace, &names::dns1123_label(namespace));
    }
    check_label_keys(term, errs);
    let key = term.field("topologyKey");
    if key.is_empty() {
        errs.required(&key, "can not be empty");
    }
    errs.messages(&key, &names::qualified_name(key.text()));
}

/// `matchLabelKeys` and `mismatchLabelKeys` extend the selector, so they need one and may not
/// contradict it or each other.
fn check_label_keys(term: &At<'_>, errs: &mut Errors) {
    let selector = term.field("labelSelector");
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.field(field);
        if keys.is_empty() {
            continue;
        }
        if !selector.is_set() {
            errs.forbidden(&keys, "must not be specified when labelSelector is not set");
            continue;
        }
        for key in keys.items() {
            errs.messages(&key, &names::qualified_name(key.text()));
        }
    }
    let matched = term.field("matchLabelKeys");
    let mut selected: BTreeSet<&str> =
        selector.field("matchLabels").entries().map(|(key, _)| key).collect();
    for expression in selector.field("matchExpressions").items() {
        let key = expression.field("key").text();
        let position = matched.texts().position(|candidate| candidate == key);
        if let Some(index) = position.filter(|_| selected.contains(key)) {
            errs.invalid(
                &term.index(index),
                key,
                "exists in both matchLabelKeys and labelSelector",
            );
        }
        selected.insert(key);
    }
    for key in matched.items() {
        if term.field("mismatchLabelKeys").has_text(key.text()) {
            errs.invalid_text(&key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}

pub(crate) fn check_spread(constraints: &At<'_>, errs: &mut Errors) {
    const ACTIONS: [&str; 2] = ["DoNotSchedule", "ScheduleAnyway"];
    let all: Vec<At<'_>> = constraints.items().collect();
    for (i, constraint) in all.iter().enumerate() {
        errs.positive(&constraint.field("maxSkew"));
        let key = constraint.field("topologyKey");
        if key.is_empty() {
            errs.required(&key, "can not be empty");
        }
        let action = constraint.field("whenUnsatisfiable");
        if !ACTIONS.contains(&action.text()) {
            errs.unsupported(&action, &ACTIONS);
        }
        let repeated = all.iter().skip(i + 1).any(|other| {
            other.field("topologyKey").text() == key.text()
                && other.field("whenUnsatisfiable").text() == action.text()
        });
        if repeated {
            errs.push(FieldError::duplicate(
                &constraint.path.child("{topologyKey, whenUnsatisfiable}"),
                format!("{{{}, {}}}", key.text(), action.text()),
            ));
        }
        let domains = constraint.field("minDomains");
        if domains.is_set() {
            errs.positive(&domains);
            if action.text() != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.text()
                );
                errs.invalid_value(&domains, detail);
            }
        }
        errs.one_of(&constraint.field("nodeAffinityPolicy"), &["Honor", "Ignore"]);
        errs.one_of(&constraint.field("nodeTaintsPolicy"), &["Honor", "Ignore"]);
        check_label_keys(constraint, errs);
        selectors::check(&constraint.field("labelSelector"), errs);
    }
}

pub(crate) fn check_tolerations(tolerations: &At<'_>, errs: &mut Errors) {
    for toleration in tolerations.items() {
        let key = toleration.field("key");
        let operator = toleration.field("operator");
        let value = toleration.field("value");
        let effect = toleration.field("effect");
        if !key.is_empty() {
            errs.messages(&key, &names::qualified_name(key.text()));
        }
        if key.is_empty() && operator.text() != "Exists" {
            errs.invalid_text(&operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
        }
        if toleration.field("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errs.invalid_text(&effect, detail);
        }
        match operator.text() {
            "Equal" | "" => {
                let messages = names::label_value(value.text());
                if !messages.is_empty() {
                    errs.invalid(&operator, value.text(), messages.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errs.invalid(&operator, value.text(), detail);
                }
            }
            "Lt" | "Gt" => errs.unsupported(&operator, &["Equal", "Exists", "Lt", "Gt"]),
            _ => errs.unsupported(&operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errs.one_of(&effect, &TAINT_EFFECTS);
        }
    }
}

pub(crate) fn check_readiness_gates(gates: &At<'_>, errs: &mut Errors) {
    for gate in gates.items() {
        let condition = gate.field("conditionType");
        errs.messages(&condition, &names::qualified_name(condition.text()));
    }
}

pub(crate) fn check_scheduling_gates(gates: &At<'_>, errs: &mut Errors) {
    let mut seen = BTreeSet::new();
    for gate in gates.items() {
        let name = gate.field("name").text();
        errs.messages_for(&gate, name, &names::qualified_name(name));
        if !seen.insert(name) {
            errs.push(FieldError::duplicate(&gate.path, name));
        }
    }
}

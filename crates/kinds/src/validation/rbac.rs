//! Group `rbac.authorization.k8s.io`: roles and their bindings.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;

use super::meta::{self, Scope};
use super::place::{At, Errors};
use super::selectors;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) fn role_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, rbac_name, errs);
    check_rules(object, Scope::Namespaced, errs);
}

/// Compat: a prefix is held to the rule of a whole name.
fn rbac_name(name: &str, _: bool) -> Vec<String> {
    names::path_segment(name)
}

pub(crate) fn role_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    role_create(new, errs);
    meta::update(new, old, errs);
}

pub(crate) fn cluster_role_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, rbac_name, errs);
    check_rules(object, Scope::Cluster, errs);
    let rule = object.field("aggregationRule");
    if !rule.is_set() {
        return;
    }
    let choices = rule.field("clusterRoleSelectors");
    if choices.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errs.required(&choices, detail);
    }
    for selector in choices.items() {
        selectors::check(&selector, errs);
        if selectors::parse(&selector).is_none() {
            // Compat: what is shown is the selector that could not be made.
            errs.invalid(&selector, Value::Null, "invalid label selector.");
        }
    }
}

pub(crate) fn cluster_role_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    cluster_role_create(new, errs);
    meta::update(new, old, errs);
}

fn check_rules(role: &At<'_>, scope: Scope, errs: &mut Errors) {
    for rule in role.field("rules").items() {
        if rule.field("verbs").is_empty() {
            errs.required(&rule.field("verbs"), "verbs must contain at least one value");
        }
        let urls = rule.field("nonResourceURLs");
        if !urls.is_empty() {
            if scope == Scope::Namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errs.invalid_value(&urls, detail);
            }
            let resources = ["apiGroups", "resources", "resourceNames"];
            if resources.iter().any(|field| !rule.field(field).is_empty()) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errs.invalid_value(&urls, detail);
            }
            continue;
        }
        if rule.field("apiGroups").is_empty() {
            let detail = "resource rules must supply at least one api group";
            errs.required(&rule.field("apiGroups"), detail);
        }
        if rule.field("resources").is_empty() {
            let detail = "resource rules must supply at least one resource";
            errs.required(&rule.field("resources"), detail);
        }
    }
}

pub(crate) fn role_binding_create(object: &At<'_>, errs: &mut Errors) {
    check_binding(object, Scope::Namespaced, &["Role", "ClusterRole"], errs);
}

pub(crate) fn role_binding_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    role_binding_create(new, errs);
    check_binding_change(new, old, errs);
}

pub(crate) fn cluster_role_binding_create(object: &At<'_>, errs: &mut Errors) {
    check_binding(object, Scope::Cluster, &["ClusterRole"], errs);
}

pub(crate) fn cluster_role_binding_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    cluster_role_binding_create(new, errs);
    check_binding_change(new, old, errs);
}

fn check_binding_change(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if new.field("roleRef").value != old.field("roleRef").value {
        errs.invalid_value(&new.field("roleRef"), "cannot change roleRef");
    }
}

fn check_group(at: &At<'_>, group: &str, errs: &mut Errors) {
    if at.text() != group {
        errs.push(FieldError::not_supported(&at.path, at.text(), &[group]));
    }
}

fn check_binding(binding: &At<'_>, scope: Scope, kinds: &[&str], errs: &mut Errors) {
    meta::check(binding, scope, rbac_name, errs);
    let role = binding.field("roleRef");
    check_group(&role.field("apiGroup"), GROUP, errs);
    if !kinds.contains(&role.field("kind").text()) {
        errs.unsupported(&role.field("kind"), kinds);
    }
    let name = role.field("name");
    if errs.required_text(&name) {
        errs.messages(&name, &names::path_segment(name.text()));
    }
    for subject in binding.field("subjects").items() {
        check_subject(&subject, scope, errs);
    }
}

fn check_subject(subject: &At<'_>, scope: Scope, errs: &mut Errors) {
    let (name, group) = (subject.field("name"), subject.field("apiGroup"));
    errs.required_text(&name);
    match subject.field("kind").text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                errs.messages(&name, &names::dns1123_subdomain(name.text()));
            }
            check_group(&group, "", errs);
            if scope == Scope::Cluster {
                errs.required_text(&subject.field("namespace"));
            }
        }
        "User" | "Group" => check_group(&group, GROUP, errs),
        _ => errs.unsupported(&subject.field("kind"), &["ServiceAccount", "User", "Group"]),
    }
}

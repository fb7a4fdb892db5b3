//! Group `admissionregistration.k8s.io`: webhook configurations, and the match rules that
//! policies share with them.

use std::collections::BTreeSet;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;
use karmada_cel::{Declarations, Type};

use super::meta::{self, Scope};
use super::place::{At, Errors, same};
use super::selectors;
use crate::expressions::{self, Available, Gives};

pub(crate) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(crate) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
pub(crate) const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const ALL_SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// What an update need not fulfil because the stored object does not either.
#[derive(Clone, Copy)]
struct Leniency {
    side_effects: bool,
    review_versions: bool,
    duplicate_names: bool,
    match_conditions: bool,
}

const STRICT: Leniency = Leniency {
    side_effects: false,
    review_versions: false,
    duplicate_names: false,
    match_conditions: false,
};

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    check(object, STRICT, errs);
}

pub(crate) fn update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let hooks: Vec<At<'_>> = old.field("webhooks").items().collect();
    let names: BTreeSet<&str> = hooks.iter().map(|hook| hook.field("name").text()).collect();
    let accepted = |hook: &At<'_>| {
        let versions = hook.field("admissionReviewVersions");
        versions.is_empty() || versions.texts().any(|version| REVIEW_VERSIONS.contains(&version))
    };
    let conditions_kept = new.field("webhooks").len() == hooks.len()
        && new.field("webhooks").items().zip(&hooks).all(|(new, old)| {
            same(new.field("matchConditions").value, old.field("matchConditions").value)
        });
    let leniency = Leniency {
        side_effects: !hooks.iter().all(|h| SIDE_EFFECTS.contains(&h.field("sideEffects").text())),
        review_versions: !hooks.iter().all(accepted),
        duplicate_names: names.len() != hooks.len(),
        match_conditions: conditions_kept,
    };
    check(new, leniency, errs);
}

fn check(object: &At<'_>, leniency: Leniency, errs: &mut Errors) {
    meta::check_plain(object, Scope::Cluster, names::subdomain_name, errs);
    let mut seen = BTreeSet::new();
    for hook in object.field("webhooks").items() {
        check_hook(&hook, leniency, errs);
        check_versions(&hook.field("admissionReviewVersions"), leniency.review_versions, errs);
        let name = hook.field("name");
        if !leniency.duplicate_names && !name.is_empty() && !seen.insert(name.text()) {
            errs.duplicate(&name);
        }
    }
}

fn check_hook(hook: &At<'_>, leniency: Leniency, errs: &mut Errors) {
    check_qualified_domain(&hook.field("name"), errs);
    for rule in hook.field("rules").items() {
        check_rule_with_operations(&rule, errs);
    }
    errs.one_of(&hook.field("failurePolicy"), &FAILURE_POLICIES);
    errs.one_of(&hook.field("matchPolicy"), &MATCH_POLICIES);
    let allowed: &[&str] = if leniency.side_effects { &ALL_SIDE_EFFECTS } else { &SIDE_EFFECTS };
    let effects = hook.field("sideEffects");
    if effects.is_set() {
        errs.one_of(&effects, allowed);
    } else {
        errs.required(&effects, format!("must specify one of {}", allowed.join(", ")));
    }
    let timeout = hook.field("timeoutSeconds");
    if timeout.number().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        errs.invalid_int(&timeout, "the timeout value must be between 1 and 30 seconds");
    }
    selectors::check(&hook.field("namespaceSelector"), errs);
    selectors::check(&hook.field("objectSelector"), errs);
    errs.one_of(&hook.field("reinvocationPolicy"), &REINVOCATION_POLICIES);
    check_client(&hook.field("clientConfig"), errs);
    if !leniency.match_conditions {
        check_match_conditions(&hook.field("matchConditions"), Available::default(), errs);
    }
}

/// A name of at least three labels.
fn check_qualified_domain(name: &At<'_>, errs: &mut Errors) {
    if !errs.required_text(name) {
        return;
    }
    let messages = names::dns1123_subdomain(name.text());
    if !messages.is_empty() {
        errs.invalid_text(name, messages.join(","));
    } else if name.text().split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errs.invalid_text(name, detail);
    }
}

fn check_versions(versions: &At<'_>, lenient: bool, errs: &mut Errors) {
    if versions.is_empty() {
        return errs.required(versions, "must specify one of v1, v1beta1");
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            errs.invalid_text(&version, "duplicate version");
            continue;
        }
        errs.messages(&version, &names::dns1035_label(version.text()));
    }
    if !lenient && !REVIEW_VERSIONS.iter().any(|version| seen.contains(version)) {
        errs.invalid_value(versions, "must include at least one of v1, v1beta1");
    }
}

fn check_client(client: &At<'_>, errs: &mut Errors) {
    let (url, service) = (client.field("url"), client.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => check_url(&url, errs),
        (false, true) => check_service(&service, errs),
        _ => errs.required(client, "exactly one of url or service is required"),
    }
}

/// The URL of a webhook: https, with a host, and nothing but a path after it.
fn check_url(url: &At<'_>, errs: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.text().split_once('#').unwrap_or((url.text(), ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.split_once(':') {
        Some((scheme, after)) if !scheme.contains('/') => (scheme, after),
        _ => ("", rest),
    };
    if url.text().chars().any(|c| c.is_ascii_control()) {
        return errs.required(url, format!("url must be a valid URL: parse {}: net/url: invalid control character in URL{FORM}", karmada_apimachinery::field::quote(url.text())));
    }
    let authority = rest
        .strip_prefix("//")
        .map(|rest| rest.split_once('/').map_or(rest, |(authority, _)| authority))
        .unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme != "https" {
        errs.invalid(url, scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if host.is_empty() {
        errs.invalid(url, host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        errs.invalid(url, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        errs.invalid(url, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        errs.invalid(url, query, "query parameters are not permitted in the URL");
    }
}

fn check_service(service: &At<'_>, errs: &mut Errors) {
    // Compat: Kubernetes mixes the two up, so a missing name is reported as a missing namespace.
    for (field, reported) in [("namespace", "name"), ("name", "namespace")] {
        if service.field(field).is_empty() {
            errs.required(&service.renamed(field, reported), "");
        }
    }
    let port = service.field("port");
    if !(1..=65535).contains(&port.int()) {
        errs.invalid_int(&port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    let path = service.field("path");
    match path.text() {
        "" | "/" => return,
        "//" => return errs.invalid_text(&path, "segment[0] may not be empty"),
        _ => {}
    }
    if !path.text().starts_with('/') {
        errs.invalid_text(&path, "must start with a '/'");
    }
    let mut rest = path.text().chars();
    rest.next();
    let rest = rest.as_str();
    for (i, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            errs.invalid_text(&path, format!("segment[{i}] may not be empty"));
            continue;
        }
        for message in names::dns1123_subdomain(step) {
            errs.invalid_text(&path, format!("segment[{i}]: {message}"));
        }
    }
}

/// Operations and resources a webhook or policy is asked about.
pub(crate) fn check_rule_with_operations(rule: &At<'_>, errs: &mut Errors) {
    let operations = rule.field("operations");
    if operations.is_empty() {
        errs.required(&operations, "");
    }
    if operations.len() > 1 && operations.has_text("*") {
        errs.invalid_value(&operations, "if '*' is present, must not specify other operations");
    }
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.text()) {
            errs.unsupported(&operation, &OPERATIONS);
        }
    }
    for (field, words) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = rule.field(field);
        if list.is_empty() {
            errs.required(&list, "");
        }
        if list.len() > 1 && list.has_text("*") {
            let detail = format!("if '*' is present, must not specify other {words}");
            errs.invalid_value(&list, detail);
        }
    }
    for version in rule.field("apiVersions").items() {
        errs.required_text(&version);
    }
    check_resources(&rule.field("resources"), errs);
    errs.one_of(&rule.field("scope"), &SCOPES);
}

fn check_resources(resources: &At<'_>, errs: &mut Errors) {
    if resources.is_empty() {
        errs.required(resources, "");
    }
    let mut wild_subresources = BTreeSet::new();
    let mut wild_resources = BTreeSet::new();
    let mut plain = false;
    for entry in resources.items() {
        if !errs.required_text(&entry) {
            continue;
        }
        let Some((resource, sub)) = entry.text().split_once('/') else {
            // Compat: only the last entry without subresource counts.
            plain = entry.text() != "*";
            continue;
        };
        if wild_subresources.contains(resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {}", entry.text());
            errs.invalid_text(&entry, detail);
        }
        if wild_resources.contains(sub) {
            let detail = format!("if '*/{sub}' is present, must not specify {}", entry.text());
            errs.invalid_text(&entry, detail);
        }
        if sub == "*" {
            wild_subresources.insert(resource);
        }
        if resource == "*" {
            wild_resources.insert(sub);
        }
    }
    if resources.len() > 1 && resources.has_text("*/*") {
        errs.invalid_value(resources, "if '*/*' is present, must not specify other resources");
    }
    if plain && resources.has_text("*") {
        errs.invalid_value(
            resources,
            "if '*' is present, must not specify other resources without subresources",
        );
    }
}

/// Conditions under which a webhook or policy is asked.
pub(crate) fn check_match_conditions(conditions: &At<'_>, available: Available, errs: &mut Errors) {
    let known = expressions::declarations(available, None);
    if conditions.len() > 64 {
        errs.too_many(conditions, 64);
    }
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let (expression, name) = (condition.field("expression"), condition.field("name"));
        if expression.text().trim().is_empty() {
            errs.required(&expression, "");
        } else {
            check_expression(&expression, &known, Gives::Bool, errs);
        }
        if errs.required_text(&name) {
            errs.messages(&name, &names::qualified_name(name.text()));
            if !seen.insert(name.text()) {
                errs.push(FieldError::duplicate(&name.path, name.text()));
            }
        }
    }
}

/// Compiles an expression and reports what is wrong with it; returns its type.
pub(crate) fn check_expression(
    at: &At<'_>,
    known: &Declarations,
    gives: Gives,
    errs: &mut Errors,
) -> Option<Type> {
    match expressions::compile_as(at.text(), known, gives) {
        Ok(program) => Some(program.result),
        Err(why) => {
            errs.invalid_text(at, why);
            None
        }
    }
}

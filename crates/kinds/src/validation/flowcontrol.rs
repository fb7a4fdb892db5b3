//! Group `flowcontrol.apiserver.k8s.io`: FlowSchema and PriorityLevelConfiguration.

use std::collections::BTreeSet;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::{Value, json, names};

use super::meta::{self, Scope};
use super::place::{At, Errors, same};

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
const MAX_QUEUES: i64 = 10_000_000;
const MAX_HASH_BITS: f64 = 60.0;

/// Schemas and levels that exist in every server and may not differ from this.
fn fixed_spec(kind: &str, name: &str) -> Option<Value> {
    let subjects = |groups: &[&str]| -> Value {
        groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect()
    };
    let rules = |groups: &[&str]| {
        json!([{
            "subjects": subjects(groups),
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "clusterScope": true, "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    match (kind, name) {
        ("FlowSchema", "exempt") => Some(json!({
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1,
            "rules": rules(&["system:masters"]),
        })),
        ("FlowSchema", "catch-all") => Some(json!({
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": 10000,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": rules(&["system:unauthenticated", "system:authenticated"]),
        })),
        ("PriorityLevelConfiguration", "catch-all") => Some(json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "lendablePercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        })),
        ("PriorityLevelConfiguration", "exempt") => Some(json!({"type": "Exempt"})),
        _ => None,
    }
}

pub(crate) fn schema_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let spec = object.field("spec");
    let name = object.at(&["metadata", "name"]).text();
    let precedence = spec.field("matchingPrecedence");
    if precedence.int() <= 0 {
        errs.invalid_int(&precedence, "must be a positive value");
    }
    if precedence.int() > 10_000 {
        errs.invalid_int(&precedence, "must not be greater than 10000");
    }
    if precedence.int() == 1 && name != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errs.invalid_int(&precedence, detail);
    }
    let method = spec.field("distinguisherMethod");
    if method.is_set() && !["ByNamespace", "ByUser"].contains(&method.field("type").text()) {
        let path = method.path.child("type");
        let supported = ["ByNamespace", "ByUser"];
        errs.push(FieldError::not_supported(&path, method.shown(), &supported));
    }
    let level = spec.at(&["priorityLevelConfiguration", "name"]);
    if level.is_empty() {
        errs.required(&level, "must reference a priority level");
    } else {
        errs.messages(&level, &names::dns1123_subdomain(level.text()));
    }
    for rule in spec.field("rules").items() {
        check_rule(&rule, errs);
    }
    if fixed_spec("FlowSchema", name).is_some_and(|fixed| !same(&fixed, spec.value)) {
        errs.invalid_value(&spec, format!("spec of '{name}' must equal the fixed value"));
    }
    check_conditions(object, errs);
}

pub(crate) fn schema_update(subresource: &str, new: &At<'_>, _: &At<'_>, errs: &mut Errors) {
    if subresource == "status" { check_conditions(new, errs) } else { schema_create(new, errs) }
}

fn check_conditions(object: &At<'_>, errs: &mut Errors) {
    let mut seen = BTreeSet::new();
    for condition in object.at(&["status", "conditions"]).items() {
        let kind = condition.field("type");
        if !seen.insert(kind.text()) {
            errs.push(FieldError::duplicate(&kind.path, kind.text()));
        }
        errs.required_text(&kind);
    }
}

fn check_rule(rule: &At<'_>, errs: &mut Errors) {
    let subjects = rule.field("subjects");
    for subject in subjects.items() {
        check_subject(&subject, errs);
    }
    if subjects.is_empty() {
        errs.required(&subjects, "subjects must contain at least one value");
    }
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errs.required(rule, detail);
    }
    for rule in resources.items() {
        check_resource_rule(&rule, errs);
    }
    for rule in others.items() {
        check_url_rule(&rule, errs);
    }
}

fn check_subject(subject: &At<'_>, errs: &mut Errors) {
    const KINDS: [(&str, &str); 3] =
        [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.field("kind");
    let Some((_, own)) = KINDS.iter().find(|(name, _)| *name == kind.text()) else {
        return errs.unsupported(&kind, &["Group", "ServiceAccount", "User"]);
    };
    let at = subject.field(own);
    if !at.is_set() {
        errs.required(&at, format!("{own} is required when subject kind is '{}'", kind.text()));
    } else {
        let name = at.field("name");
        let named = errs.required_text(&name);
        if *own == "serviceAccount" {
            if named && name.text() != "*" {
                errs.messages(&name, &names::dns1123_subdomain(name.text()));
            }
            let namespace = at.field("namespace");
            if namespace.is_empty() {
                errs.required(&namespace, "must specify namespace for service account");
            } else {
                errs.messages(&namespace, &names::dns1123_label(namespace.text()));
            }
        }
    }
    for (name, field) in KINDS.iter().filter(|(_, field)| field != own) {
        if subject.field(field).is_set() {
            let detail = format!("{field} is forbidden when subject kind is not '{name}'");
            errs.forbidden(&subject.field(field), detail);
        }
    }
}

fn check_verbs(verbs: &At<'_>, errs: &mut Errors) {
    if verbs.is_empty() {
        errs.required(verbs, "verbs must contain at least one value");
    } else if verbs.has_text("*") {
        if verbs.len() > 1 {
            errs.invalid_value(verbs, "if '*' is present, must not specify other verbs");
        }
    } else if !verbs.texts().all(|verb| VERBS.contains(&verb)) {
        errs.push(FieldError::not_supported(&verbs.path, verbs.shown(), &VERBS));
    }
}

fn check_resource_rule(rule: &At<'_>, errs: &mut Errors) {
    check_verbs(&rule.field("verbs"), errs);
    for (field, one, many) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let list = rule.field(field);
        if list.is_empty() {
            errs.required(&list, format!("resource rules must supply at least one {one}"));
        } else if list.len() > 1 && list.has_text("*") {
            let detail = format!("if '*' is present, must not specify other {many}");
            errs.invalid_value(&list, detail);
        }
    }
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.field("clusterScope").is_true() {
        let detail =
            "resource rules that are not cluster scoped must supply at least one namespace";
        errs.required(&namespaces, detail);
    } else if namespaces.has_text("*") {
        if namespaces.len() > 1 {
            let detail = "if '*' is present, must not specify other namespaces";
            errs.invalid_value(&namespaces, detail);
        }
    } else {
        for namespace in namespaces.items() {
            for message in names::dns1123_label(namespace.text()) {
                errs.invalid_text(
                    &namespace,
                    format!("each member of this list must be '*' or a DNS-1123 label; {message}"),
                );
            }
        }
    }
}

fn check_url_rule(rule: &At<'_>, errs: &mut Errors) {
    check_verbs(&rule.field("verbs"), errs);
    let urls = rule.field("nonResourceURLs");
    if urls.is_empty() {
        errs.required(&urls, "nonResourceURLs must contain at least one value");
    } else if urls.has_text("*") {
        if urls.len() > 1 {
            let detail = "if '*' is present, must not specify other non-resource URLs";
            errs.invalid_value(&urls, detail);
        }
    } else {
        for url in urls.items() {
            if let Some(detail) = url_problem(url.text()) {
                errs.invalid_text(&url, detail);
            }
        }
    }
}

fn url_problem(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        Some("must not be empty")
    } else if path == "/" {
        None
    } else if !path.starts_with('/') {
        Some("must start with slash")
    } else if path.contains(' ') {
        Some("must not contain white-space")
    } else if path.contains("//") {
        Some("must not contain double slash")
    } else {
        let wildcards = path.matches('*').count();
        let suffix = wildcards == 1 && path.ends_with("/*");
        (wildcards > 0 && !suffix).then_some("wildcard can only do suffix matching")
    }
}

pub(crate) fn level_create(object: &At<'_>, errs: &mut Errors) {
    const ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    if meta::annotation(object.value, ZERO_SHARES).is_some() {
        let annotations = object.at(&["metadata", "annotations"]);
        errs.forbidden(&annotations, format!("annotation '{ZERO_SHARES}' is forbidden"));
    }
    let spec = object.field("spec");
    let name = object.at(&["metadata", "name"]).text();
    check_level(&spec, name, errs);
    if let Some(fixed) = fixed_spec("PriorityLevelConfiguration", name) {
        let mut compared = spec.value.clone();
        if let Some(map) = compared.as_object_mut().filter(|_| name == "exempt") {
            map.remove("exempt");
        }
        if !same(&fixed, &compared) {
            let except = if name == "exempt" { " except the 'spec.exempt' field" } else { "" };
            errs.invalid_value(
                &spec,
                format!("spec of '{name}'{except} must equal the fixed value"),
            );
        }
    }
    check_conditions(object, errs);
}

pub(crate) fn level_update(subresource: &str, new: &At<'_>, _: &At<'_>, errs: &mut Errors) {
    if subresource == "status" { check_conditions(new, errs) } else { level_create(new, errs) }
}

fn check_level(spec: &At<'_>, name: &str, errs: &mut Errors) {
    let kind = spec.field("type");
    let (limited, exempt) = (spec.field("limited"), spec.field("exempt"));
    if (name == "exempt") != (kind.text() == "Exempt") {
        errs.invalid_text(&kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind.text() {
        "Exempt" => {
            if limited.is_set() {
                errs.forbidden(&limited, "must be nil if the type is not Limited");
            }
            check_shares(&exempt, errs);
            check_lendable(&exempt, errs);
        }
        "Limited" => {
            if exempt.is_set() {
                errs.forbidden(&exempt, "must be nil if the type is Limited");
            }
            if limited.is_set() {
                check_limited(&limited, errs);
            } else {
                errs.required(&limited, "must not be empty when type is Limited");
            }
        }
        "" => errs.required(&kind, ""),
        _ => errs.unsupported(&kind, &["Exempt", "Limited"]),
    }
}

fn check_shares(level: &At<'_>, errs: &mut Errors) {
    let shares = level.field("nominalConcurrencyShares");
    if shares.int() < 0 {
        errs.invalid_int(&shares, "must be a non-negative integer");
    }
}

fn check_lendable(level: &At<'_>, errs: &mut Errors) {
    let percent = level.field("lendablePercent");
    if percent.is_set() {
        errs.in_range(&percent, 0, 100);
    }
}

fn check_limited(limited: &At<'_>, errs: &mut Errors) {
    check_shares(limited, errs);
    let response = limited.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.text() {
        "Reject" => {
            if queuing.is_set() {
                let detail = "must be nil if limited.limitResponse.type is not Limited";
                errs.forbidden(&queuing, detail);
            }
        }
        "Queue" if !queuing.is_set() => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errs.required(&queuing, detail);
        }
        "Queue" => check_queuing(&queuing, errs),
        "" => errs.required(&kind, ""),
        _ => errs.unsupported(&kind, &["Queue", "Reject"]),
    }
    check_lendable(limited, errs);
    let borrowing = limited.field("borrowingLimitPercent");
    if borrowing.int() < 0 {
        errs.invalid_int(&borrowing, "if specified, must be a non-negative integer");
    }
}

fn check_queuing(queuing: &At<'_>, errs: &mut Errors) {
    let positive = |at: &At<'_>, errs: &mut Errors| {
        if at.int() <= 0 {
            errs.invalid_int(at, "must be positive");
        }
        at.int() > 0
    };
    positive(&queuing.field("queueLengthLimit"), errs);
    let (queues, hand) = (queuing.field("queues"), queuing.field("handSize"));
    if positive(&queues, errs) && queues.int() > MAX_QUEUES {
        errs.invalid_int(&queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    if !positive(&hand, errs) {
        return;
    }
    let (deck, size) = (queues.int(), hand.int());
    if size > deck {
        errs.invalid_int(&hand, format!("should not be greater than queues ({deck})"));
    } else {
        // Dealing a hand uses up the logarithm of the number of its permutations.
        let bits: f64 = (0..size.min(64)).map(|i| ((deck - i) as f64).log2()).sum();
        if bits.ceil() > MAX_HASH_BITS {
            errs.invalid_int(&hand, format!("required entropy bits of deckSize {deck} and handSize {size} should not be greater than 60"));
        }
    }
}

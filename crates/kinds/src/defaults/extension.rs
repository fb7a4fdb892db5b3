//! Defaults of the kinds that extend the API: webhooks, admission policies, definitions, services.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Map, Value, json};

use super::{is_empty_list, items, made, present, text};

pub(super) fn validating_webhooks(object: &mut Value) {
    for webhook in items(object, "webhooks") {
        webhook_defaults(webhook);
    }
}

pub(super) fn mutating_webhooks(object: &mut Value) {
    for webhook in items(object, "webhooks") {
        webhook_defaults(webhook);
        webhook.set_default(&["reinvocationPolicy"], "Never");
    }
}

fn webhook_defaults(webhook: &mut Value) {
    webhook.set_default(&["failurePolicy"], "Fail");
    webhook.set_default(&["timeoutSeconds"], 10);
    match_scope(webhook);
    for rule in items(webhook, "rules") {
        rule.set_default(&["scope"], "*");
    }
    service_port(webhook, &["clientConfig", "service"]);
}

/// What webhooks and policies share: which objects of which namespaces they look at.
fn match_scope(matcher: &mut Value) {
    matcher.set_default(&["matchPolicy"], "Equivalent");
    matcher.set_default(&["namespaceSelector"], Map::new());
    matcher.set_default(&["objectSelector"], Map::new());
}

pub(super) fn admission_policy(object: &mut Value) {
    let spec = made(object, "spec");
    spec.set_default(&["failurePolicy"], "Fail");
    if let Some(constraints) = present(spec, "matchConstraints") {
        match_resources(constraints);
    }
}

pub(super) fn policy_binding(object: &mut Value) {
    if let Some(matched) = present(made(object, "spec"), "matchResources") {
        match_resources(matched);
    }
}

fn match_resources(matched: &mut Value) {
    match_scope(matched);
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in items(matched, list) {
            rule.set_default(&["scope"], "*");
        }
    }
}

fn service_port(holder: &mut Value, place: &[&str]) {
    if let Some(service) = holder.at_mut(place).filter(|service| service.is_object()) {
        service.set_default(&["port"], 443);
    }
}

pub(super) fn api_service(object: &mut Value) {
    service_port(object, &["spec", "service"]);
}

pub(super) fn custom_resource_definition(object: &mut Value) {
    let spec = made(object, "spec");
    let names = made(spec, "names");
    let kind = names.str_at(&["kind"]).unwrap_or_default().to_owned();
    if !kind.is_empty() {
        text(names, "singular", &kind.to_lowercase());
        text(names, "listKind", &format!("{kind}List"));
    }
    spec.set_default(&["conversion"], json!({"strategy": "None"}));
    service_port(spec, &["conversion", "webhook", "clientConfig", "service"]);
    let stored = items(spec, "versions")
        .iter()
        .find(|version| version.bool_at(&["storage"]) == Some(true))
        .and_then(|version| version.str_at(&["name"]))
        .map(str::to_owned);
    let status = made(object, "status");
    if let Some(stored) = stored.filter(|_| is_empty_list(status, "storedVersions")) {
        status.set(&["storedVersions"], json!([stored]));
    }
}

//! Defaults of the kinds that state rules: access, network, scheduling, flow, devices.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};

use super::{is_empty_list, items, made, nonzero, present, text};

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn role_binding(object: &mut Value) {
    text(made(object, "roleRef"), "apiGroup", RBAC);
    for subject in items(object, "subjects") {
        if matches!(subject.str_at(&["kind"]), Some("User" | "Group")) {
            text(subject, "apiGroup", RBAC);
        }
    }
}

pub(super) fn token_request(object: &mut Value) {
    made(object, "spec").set_default(&["expirationSeconds"], 3600);
}

pub(super) fn endpoint_slice(object: &mut Value) {
    for port in items(object, "ports") {
        port.set_default(&["name"], "");
        port.set_default(&["protocol"], "TCP");
    }
}

pub(super) fn flow_schema(object: &mut Value) {
    nonzero(made(object, "spec"), "matchingPrecedence", 1000);
}

pub(super) fn priority_level(object: &mut Value) {
    let spec = made(object, "spec");
    if let Some(exempt) = present(spec, "exempt") {
        exempt.set_default(&["nominalConcurrencyShares"], 0);
        exempt.set_default(&["lendablePercent"], 0);
    }
    let Some(limited) = present(spec, "limited") else { return };
    limited.set_default(&["nominalConcurrencyShares"], 30);
    limited.set_default(&["lendablePercent"], 0);
    let response = present(limited, "limitResponse");
    if let Some(queuing) = response.and_then(|response| present(response, "queuing")) {
        nonzero(queuing, "handSize", 8);
        nonzero(queuing, "queues", 64);
        nonzero(queuing, "queueLengthLimit", 50);
    }
}

pub(super) fn ingress_class(object: &mut Value) {
    if let Some(parameters) = present(made(object, "spec"), "parameters") {
        parameters.set_default(&["scope"], "Cluster");
    }
}

pub(super) fn network_policy(object: &mut Value) {
    let spec = made(object, "spec");
    if is_empty_list(spec, "policyTypes") {
        let types = if is_empty_list(spec, "egress") {
            json!(["Ingress"])
        } else {
            json!(["Ingress", "Egress"])
        };
        spec.set(&["policyTypes"], types);
    }
    for direction in ["ingress", "egress"] {
        for rule in items(spec, direction) {
            for port in items(rule, "ports") {
                port.set_default(&["protocol"], "TCP");
            }
        }
    }
}

pub(super) fn priority_class(object: &mut Value) {
    object.set_default(&["preemptionPolicy"], "PreemptLowerPriority");
}

pub(super) fn resource_claim(object: &mut Value) {
    claim_spec(made(object, "spec"));
}

pub(super) fn resource_claim_template(object: &mut Value) {
    claim_spec(made(made(object, "spec"), "spec"));
}

fn claim_spec(spec: &mut Value) {
    let Some(devices) = present(spec, "devices") else { return };
    for request in items(devices, "requests") {
        if let Some(exactly) = present(request, "exactly") {
            device_count(exactly);
        }
        for alternative in items(request, "firstAvailable") {
            device_count(alternative);
        }
    }
}

fn device_count(request: &mut Value) {
    text(request, "allocationMode", "ExactCount");
    if request.str_at(&["allocationMode"]) == Some("ExactCount") {
        nonzero(request, "count", 1);
    }
    for toleration in items(request, "tolerations") {
        text(toleration, "operator", "Equal");
    }
}

pub(super) fn resource_slice(object: &mut Value) {
    for device in items(made(object, "spec"), "devices") {
        let Some(mappings) = device.at_mut(&["nodeAllocatableResourceMappings"]) else { continue };
        for mapping in mappings.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
            mapping.set_default(&["allocationMultiplier"], "1");
        }
    }
}

//! Defaults of the core kinds around pods.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};

use super::amount::round_list;
use super::{agree, fill, items, made, present, text};

pub(super) fn endpoints(object: &mut Value) {
    for subset in items(object, "subsets") {
        for port in items(subset, "ports") {
            text(port, "protocol", "TCP");
        }
    }
}

/// A limit range for containers derives its defaults from its bounds.
pub(super) fn limit_range(object: &mut Value) {
    for item in items(made(object, "spec"), "limits") {
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            if let Some(list) = present(item, list) {
                round_list(list);
            }
        }
        if item.str_at(&["type"]) != Some("Container") {
            continue;
        }
        let bound = |field: &str| item.map_at(&[field]).cloned().unwrap_or_default();
        let (max, min) = (bound("max"), bound("min"));
        let (mut default, mut request) = (bound("default"), bound("defaultRequest"));
        fill(&mut default, &max);
        fill(&mut request, &default);
        fill(&mut request, &min);
        for (field, list) in [("default", default), ("defaultRequest", request)] {
            if !list.is_empty() {
                item.set(&[field], list);
            }
        }
    }
}

pub(super) fn namespace(object: &mut Value) {
    let name = object.name().to_owned();
    if !name.is_empty() {
        object.set(&["metadata", "labels", "kubernetes.io/metadata.name"], name);
    }
    text(made(object, "status"), "phase", "Active");
}

pub(super) fn node(object: &mut Value) {
    agree(object, &["spec", "podCIDR"], &["spec", "podCIDRs"], None);
    let status = made(object, "status");
    for list in ["capacity", "allocatable"] {
        if let Some(list) = present(status, list) {
            round_list(list);
        }
    }
    if let Some(capacity) = status.map_at(&["capacity"]).cloned() {
        status.set_default(&["allocatable"], capacity);
    }
}

pub(super) fn resource_quota(object: &mut Value) {
    for place in [&["spec", "hard"][..], &["status", "hard"], &["status", "used"]] {
        if let Some(list) = object.at_mut(place) {
            round_list(list);
        }
    }
}

/// The plain-text form of secret data is write-only: it is encoded into `data` and dropped.
pub(super) fn secret(object: &mut Value) {
    text(object, "type", "Opaque");
    let Some(Value::Object(plain)) = object.remove_at(&["stringData"]) else { return };
    for (key, value) in plain {
        if let Some(value) = value.as_str() {
            object.set(&["data", &key], STANDARD.encode(value));
        }
    }
}

pub(super) fn service(object: &mut Value) {
    let spec = made(object, "spec");
    text(spec, "sessionAffinity", "None");
    text(spec, "type", "ClusterIP");
    session_affinity(spec);
    for port in items(spec, "ports") {
        text(port, "protocol", "TCP");
        if is_unset(port.get("targetPort")) {
            let number = port.i64_at(&["port"]).unwrap_or_default();
            port.set(&["targetPort"], number);
        }
    }
    let kind = spec.str_at(&["type"]).unwrap_or_default().to_owned();
    let has_external_ips = !spec.list_at(&["externalIPs"]).is_empty();
    let is_external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && has_external_ips);
    if is_external {
        text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        spec.set_default(&["internalTrafficPolicy"], "Cluster");
    }
    if kind == "LoadBalancer" {
        spec.set_default(&["allocateLoadBalancerNodePorts"], true);
        let ingress = present(object, "status").and_then(|status| present(status, "loadBalancer"));
        for entry in ingress.map_or(&mut [][..], |balancer| items(balancer, "ingress")) {
            if !entry.str_at(&["ip"]).unwrap_or_default().is_empty() {
                entry.set_default(&["ipMode"], "VIP");
            }
        }
    }
}

/// Whether a port given as number or name says nothing: zero and the empty name do not.
fn is_unset(port: Option<&Value>) -> bool {
    match port {
        None | Some(Value::Null) => true,
        Some(Value::String(name)) => name.is_empty(),
        Some(number) => number.as_i64() == Some(0),
    }
}

fn session_affinity(spec: &mut Value) {
    const TIMEOUT: &[&str] = &["sessionAffinityConfig", "clientIP", "timeoutSeconds"];
    match spec.str_at(&["sessionAffinity"]) {
        Some("None") => {
            spec.remove_at(&["sessionAffinityConfig"]);
        }
        Some("ClientIP") if spec.i64_at(TIMEOUT).is_none() => spec.set(TIMEOUT, 10800),
        _ => {}
    }
}

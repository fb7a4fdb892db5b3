//! What objects use of a ResourceQuota, and whom a quota is for.

use std::collections::BTreeMap;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::{Format, Quantity};
use karmada_apimachinery::{Value, json};

use crate::limits::pod_amounts;

/// Amounts by the name a quota gives them.
pub type Usage = BTreeMap<String, Quantity>;

/// Core resources that are counted under their plain name too.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

/// What an object of a resource uses.
pub fn usage(group: &str, resource: &str, object: &Value) -> Usage {
    let mut used = Usage::new();
    let counted =
        if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    used.insert(format!("count/{counted}"), one());
    if !group.is_empty() {
        return used;
    }
    if resource == "pods" && is_over(object) {
        // Pods that have run to their end use nothing but their place among the objects.
        return used;
    }
    if COUNTED.contains(&resource) {
        used.insert(resource.to_owned(), one());
    }
    match resource {
        "pods" => pod_usage(object, &mut used),
        "services" => service_usage(object, &mut used),
        "persistentvolumeclaims" => {
            let asked = object.at(&["spec", "resources", "requests", "storage"]);
            if let Some(storage) = asked.and_then(|value| Quantity::from_value(value).ok()) {
                if let Some(class) = object.str_at(&["spec", "storageClassName"]) {
                    let prefix = format!("{class}.storageclass.storage.k8s.io");
                    used.insert(format!("{prefix}/requests.storage"), storage.clone());
                    used.insert(format!("{prefix}/persistentvolumeclaims"), one());
                }
                used.insert("requests.storage".into(), storage);
            }
        }
        _ => {}
    }
    used
}

fn is_over(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
}

fn pod_usage(pod: &Value, used: &mut Usage) {
    for (name, amount) in pod_amounts(pod, "requests") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(name.clone(), amount.clone());
        }
        used.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in pod_amounts(pod, "limits") {
        used.insert(format!("limits.{name}"), amount);
    }
}

fn service_usage(service: &Value, used: &mut Usage) {
    let kind = service.str_at(&["spec", "type"]).unwrap_or_default();
    let ports = i64::try_from(service.list_at(&["spec", "ports"]).len()).unwrap_or(i64::MAX);
    if kind == "LoadBalancer" {
        used.insert("services.loadbalancers".into(), one());
    }
    if matches!(kind, "NodePort" | "LoadBalancer") {
        used.insert("services.nodeports".into(), Quantity::new(ports, Format::DecimalSi));
    }
}

/// Whether a quota is for an object, by its scopes.
pub fn covers(quota: &Value, resource: &str, object: &Value) -> bool {
    let scopes = quota.list_at(&["spec", "scopes"]).iter().filter_map(Value::as_str);
    let plain = scopes.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let selector = quota.list_at(&["spec", "scopeSelector", "matchExpressions"]).iter().cloned();
    plain.chain(selector).all(|term| in_scope(&term, resource, object))
}

fn in_scope(term: &Value, resource: &str, object: &Value) -> bool {
    if resource != "pods" {
        return false;
    }
    let terminating = object.i64_at(&["spec", "activeDeadlineSeconds"]).is_some();
    match term.str_at(&["scopeName"]).unwrap_or_default() {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => is_best_effort(object),
        "NotBestEffort" => !is_best_effort(object),
        "PriorityClass" => {
            let class = object.str_at(&["spec", "priorityClassName"]).unwrap_or_default();
            let listed = term.list_at(&["values"]).iter().any(|value| value == class);
            match term.str_at(&["operator"]).unwrap_or_default() {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    ["requests", "limits"].iter().all(|place| {
        let amounts = pod_amounts(pod, place);
        ["cpu", "memory"].iter().all(|name| amounts.get(*name).is_none_or(Quantity::is_zero))
    })
}

/// The part of a usage that a quota limits.
pub fn limited(usage: &Usage, hard: &Usage) -> Usage {
    let kept = usage.iter().filter(|(name, _)| hard.contains_key(*name));
    kept.map(|(name, amount)| (name.clone(), amount.clone())).collect()
}

/// Reads amounts by name.
pub fn read(value: Option<&Value>) -> Usage {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.to_string(), Quantity::from_value(amount).ok()?)))
        .collect()
}

/// Amounts as they are stored.
pub fn write(usage: &Usage) -> Value {
    usage.iter().map(|(name, amount)| (name.clone(), Value::from(amount.canonical()))).collect()
}

/// Amounts as errors print them.
pub fn shown(usage: &Usage, names: &[&String]) -> String {
    let zero = Quantity::new(0, Format::DecimalSi);
    let part = |name: &&String| format!("{name}={}", usage.get(*name).unwrap_or(&zero).canonical());
    names.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Computing resources a quota limits but a pod does not ask for, which is refused.
pub fn missing(resource: &str, object: &Value, hard: &Usage) -> Vec<String> {
    if resource != "pods" {
        return Vec::new();
    }
    let mut missing = Vec::new();
    for name in hard.keys() {
        let (place, plain) = match name.as_str() {
            "cpu" | "memory" => ("requests", name.as_str()),
            other => match other.split_once('.') {
                Some((place @ ("requests" | "limits"), plain @ ("cpu" | "memory"))) => {
                    (place, plain)
                }
                _ => continue,
            },
        };
        let containers = ["containers", "initContainers"];
        let asked = containers
            .iter()
            .flat_map(|field| object.list_at(&["spec", field]))
            .all(|container| container.at(&["resources", place, plain]).is_some());
        if !asked {
            missing.push(name.clone());
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows: RQ-1
    #[test]
    fn pods_use_places_and_what_they_ask_for() {
        let pod = json!({"spec": {"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "200m"}}},
        ]}});
        let used = usage("", "pods", &pod);
        assert_eq!(
            write(&used),
            json!({
                "count/pods": "1", "pods": "1", "cpu": "300m", "requests.cpu": "300m",
                "limits.memory": "1Gi",
            })
        );
        let best_effort = json!({"spec": {"scopes": ["BestEffort"]}});
        assert!(!covers(&best_effort, "pods", &pod));
        assert!(covers(&json!({"spec": {}}), "configmaps", &pod));
        let hard = read(Some(&json!({"limits.memory": "2Gi", "pods": "1"})));
        assert_eq!(missing("pods", &pod, &hard), ["limits.memory"]);
    }
}

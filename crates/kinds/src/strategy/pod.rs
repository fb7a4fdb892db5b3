//! Pods on the way into the store: quality of service, scheduling gates, selectors completed from
//! the pod's own labels, and what each subresource of a pod may change.

use std::collections::BTreeMap;

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Map, Value, json};

use super::copy;

pub(super) fn prepare_create(pod: &mut Value) {
    let status = json!({"phase": "Pending", "qosClass": qos_class(pod)});
    pod.set(&["status"], status);
    if !pod.list_at(&["spec", "schedulingGates"]).is_empty() {
        let gated = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null,
            "lastTransitionTime": pod.at(&["metadata", "creationTimestamp"]),
        });
        pod.set(&["status", "conditions"], json!([gated]));
    }
    complete_selectors(pod);
}

/// Whether the pod has run to its end.
pub fn is_pod_terminal(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
}

/// Amounts of the resources that decide the class, summed over containers.
type Amounts = BTreeMap<String, Quantity>;

/// Returns how the pod ranks when a node runs short: by whether it asks for, and is held to, cpu
/// and memory.
pub fn qos_class(pod: &Value) -> &'static str {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut limited = true;
    if let Some(whole) = pod.at(&["spec", "resources"]).filter(|whole| whole.is_object()) {
        sum(&mut requests, whole, "requests");
        let has_limits = whole.map_at(&["limits"]).is_some_and(|limits| !limits.is_empty());
        limited = sum(&mut limits, whole, "limits") == 2 || !has_limits;
    } else {
        for list in ["containers", "initContainers"] {
            for container in pod.list_at(&["spec", list]) {
                let resources = container.get("resources").unwrap_or(&Value::Null);
                sum(&mut requests, resources, "requests");
                limited &= sum(&mut limits, resources, "limits") == 2;
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if limited && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds the positive amounts of cpu and memory; returns how many of the two there were.
fn sum(sums: &mut Amounts, resources: &Value, list: &str) -> usize {
    let mut found = 0;
    for name in ["cpu", "memory"] {
        let amount = resources.at(&[list, name]).map(Quantity::from_value);
        if let Some(Ok(amount)) = amount
            && amount.signum() > 0
        {
            found += 1;
            match sums.get_mut(name) {
                Some(sum) => *sum += &amount,
                None => {
                    sums.insert(name.to_owned(), amount);
                }
            }
        }
    }
    found
}

/// `matchLabelKeys` stand for the values the pod itself carries: they become selector terms.
fn complete_selectors(pod: &mut Value) {
    let Some(labels) = pod.map_at(&["metadata", "labels"]).cloned() else { return };
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    for affinity in ["podAffinity", "podAntiAffinity"] {
        for term in pod.list_at_mut(&["spec", "affinity", affinity, REQUIRED]) {
            complete_term(term, &labels);
        }
        for weighted in pod.list_at_mut(&["spec", "affinity", affinity, PREFERRED]) {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                complete_term(term, &labels);
            }
        }
    }
    for constraint in pod.list_at_mut(&["spec", "topologySpreadConstraints"]) {
        complete_term(constraint, &labels);
    }
}

fn complete_term(term: &mut Value, labels: &Map) {
    if !term.get("labelSelector").is_some_and(Value::is_object) {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.list_at(&[field]).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if !added.is_empty() {
        let place = &["labelSelector", "matchExpressions"];
        let mut expressions = term.list_at(place).to_vec();
        expressions.extend(added);
        term.set(place, expressions);
    }
}

/// A status write keeps what older writers do not know to send.
pub(super) fn prepare_status(new: &mut Value, old: &Value) {
    copy(new, old, &["metadata", "deletionTimestamp"]);
    if new.str_at(&["status", "qosClass"]).unwrap_or_default().is_empty() {
        copy(new, old, &["status", "qosClass"]);
    }
    if new.i64_at(&["status", "observedGeneration"]).unwrap_or_default() == 0 {
        copy(new, old, &["status", "observedGeneration"]);
    }
    let mut before: Vec<Value> = old.list_at(&["status", "conditions"]).to_vec();
    for condition in new.list_at_mut(&["status", "conditions"]) {
        let at = before.iter().position(|old| old.get("type") == condition.get("type"));
        let seen = at.map(|at| before.remove(at));
        let seen = seen.and_then(|old| old.i64_at(&["observedGeneration"])).unwrap_or_default();
        if seen != 0 && condition.i64_at(&["observedGeneration"]).unwrap_or_default() == 0 {
            condition.set(&["observedGeneration"], seen);
        }
    }
}

/// Metadata that subresources of a pod leave alone.
const KEPT: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Through `ephemeralcontainers` nothing but these containers changes.
pub(super) fn keep_ephemeral_containers(new: &mut Value, old: &Value) {
    let containers = new.at(&["spec", "ephemeralContainers"]).cloned();
    restore(new, old);
    match containers.filter(|list| !list.is_null()) {
        Some(list) => new.set(&["spec", "ephemeralContainers"], list),
        None => {
            new.remove_at(&["spec", "ephemeralContainers"]);
        }
    }
}

/// Through `resize` only resources and resize policies change; anything that would move a container
/// is left in place for validation to refuse.
pub(super) fn keep_resize(new: &mut Value, old: &Value) {
    const LISTS: [&str; 2] = ["containers", "initContainers"];
    let same_count = LISTS
        .iter()
        .all(|list| new.list_at(&["spec", list]).len() == old.list_at(&["spec", list]).len());
    if !same_count {
        return;
    }
    let resized =
        LISTS.map(|list| resize(new.list_at(&["spec", list]), old.list_at(&["spec", list])));
    let resources = new.at(&["spec", "resources"]).cloned();
    restore(new, old);
    for (list, containers) in LISTS.iter().zip(resized) {
        if !containers.is_empty() {
            new.set(&["spec", list], containers);
        }
    }
    if let Some(resources) = resources {
        new.set(&["spec", "resources"], resources);
    }
}

fn resize(new: &[Value], old: &[Value]) -> Vec<Value> {
    if new.iter().zip(old).any(|(new, old)| new.get("name") != old.get("name")) {
        return new.to_vec();
    }
    let merged = new.iter().zip(old).map(|(new, old)| {
        let mut container = old.clone();
        copy(&mut container, new, &["resources"]);
        copy(&mut container, new, &["resizePolicy"]);
        container
    });
    merged.collect()
}

fn restore(new: &mut Value, old: &Value) {
    copy(new, old, &["spec"]);
    copy(new, old, &["status"]);
    for field in KEPT {
        copy(new, old, &["metadata", field]);
    }
}

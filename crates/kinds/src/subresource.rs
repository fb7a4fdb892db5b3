//! Semantics of the subresources that are more than a view of their object: scale, binding and
//! eviction. They take the stored objects and answer with the changed one or a refusal.

use jiff::Timestamp;
use karmada_apimachinery::field::{FieldError, Path, join_errors, quote};
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::status::{Cause, Status};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};

/// Shows a workload as a Scale.
pub fn scale_of(object: &Value) -> Value {
    let mut scale = json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {},
        "spec": {},
        "status": {"replicas": object.i64_at(&["status", "replicas"]).unwrap_or_default()},
    });
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", field]) {
            scale.set(&["metadata", field], value.clone());
        }
    }
    let replicas = object.i64_at(&["spec", "replicas"]).unwrap_or_default();
    if replicas != 0 {
        scale.set(&["spec", "replicas"], replicas);
    }
    let selector = selector_text(object);
    if !selector.is_empty() {
        scale.set(&["status", "selector"], selector);
    }
    scale
}

/// Writes the replicas a Scale asks for into the workload; none means zero.
pub fn apply_scale(object: &mut Value, scale: &Value) {
    let replicas = scale.i64_at(&["spec", "replicas"]).unwrap_or_default();
    object.set(&["spec", "replicas"], replicas);
}

/// The oldest workload selects by plain labels, the others by a structured selector.
fn selector_text(object: &Value) -> String {
    let selector = object.at(&["spec", "selector"]);
    if object.kind() == "ReplicationController" {
        let labels = selector.and_then(Value::as_object).cloned().unwrap_or_default();
        return LabelSelector::from_set(&labels).to_string();
    }
    LabelSelector::from_object(selector).map(|selector| selector.to_string()).unwrap_or_default()
}

/// Assigns the pod to the node a Binding names.
pub fn bind(pod: &mut Value, binding: &Value, now: Timestamp) -> Result<(), Status> {
    let name = pod.name().to_owned();
    let refuse =
        |why: String| Err(Status::conflict(&GroupResource::new("", "pods/binding"), &name, why));
    if pod.is_being_deleted() {
        return refuse(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if let Some(node) = pod.str_at(&["spec", "nodeName"]).filter(|node| !node.is_empty()) {
        return refuse(format!("pod {name} is already assigned to node {}", quote(node)));
    }
    if !pod.list_at(&["spec", "schedulingGates"]).is_empty() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    pod.set(&["spec", "nodeName"], binding.str_at(&["target", "name"]).unwrap_or_default());
    pod.remove_at(&["status", "nominatedNodeName"]);
    for field in ["annotations", "labels"] {
        for (key, value) in binding.map_at(&["metadata", field]).into_iter().flatten() {
            pod.set(&["metadata", field, key], value.clone());
        }
    }
    set_condition(pod, json!({"type": "PodScheduled", "status": "True"}), now);
    Ok(())
}

/// Checks a binding by itself. Compat: what is wrong with it is reported without a reason.
pub fn check_binding(binding: &Value) -> Result<(), Status> {
    let target = Path::new("target");
    let mut errors = Vec::new();
    let kind = binding.str_at(&["target", "kind"]).unwrap_or_default();
    if !matches!(kind, "" | "Node") {
        let supported = &["Node", "<empty>"];
        errors.push(FieldError::not_supported(&target.child("kind"), kind, supported));
    }
    if binding.str_at(&["target", "name"]).unwrap_or_default().is_empty() {
        errors.push(FieldError::required(&target.child("name"), ""));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::unexplained(join_errors(&errors))) }
}

/// Adds or replaces a condition of a pod; its time moves only with its status.
fn set_condition(pod: &mut Value, mut condition: Value, now: Timestamp) {
    const PLACE: &[&str] = &["status", "conditions"];
    condition.set_default(&["lastProbeTime"], Value::Null);
    condition.set(&["lastTransitionTime"], format_time(now));
    let mut conditions = pod.list_at(PLACE).to_vec();
    match conditions.iter_mut().find(|old| old.get("type") == condition.get("type")) {
        Some(old) => {
            if old.get("status") == condition.get("status")
                && let Some(since) = old.get("lastTransitionTime")
            {
                condition.set(&["lastTransitionTime"], since.clone());
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
    pod.set(PLACE, conditions);
}

/// Marks a pod as about to be disrupted; written before the deletion an eviction leads to.
pub fn mark_evicted(pod: &mut Value, now: Timestamp) {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    set_condition(pod, condition, now);
}

/// What an eviction may do.
#[derive(Debug, Clone, PartialEq)]
pub enum Eviction {
    /// Delete the pod; `guarded` means only if it has not changed since it was read.
    Allowed { guarded: bool },
    /// Write this budget's status first, then delete the pod.
    Counted { budget: Value },
}

/// Decides whether a pod may be evicted, given the budgets of its namespace.
pub fn evict(pod: &Value, budgets: &[Value], now: Timestamp) -> Result<Eviction, Status> {
    let phase = pod.str_at(&["status", "phase"]).unwrap_or_default();
    if matches!(phase, "Succeeded" | "Failed") || pod.is_being_deleted() {
        return Ok(Eviction::Allowed { guarded: false });
    }
    if phase == "Pending" {
        return Ok(Eviction::Allowed { guarded: true });
    }
    let selects = |budget: &&Value| {
        LabelSelector::from_object(budget.at(&["spec", "selector"]))
            .is_ok_and(|selector| selector.matches_object(pod))
    };
    let mut matching = budgets.iter().filter(selects);
    let Some(budget) = matching.next() else { return Ok(Eviction::Allowed { guarded: false }) };
    if matching.next().is_some() {
        return Err(Status::unexplained(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        ));
    }
    let count = |field: &str| budget.i64_at(&["status", field]).unwrap_or_default();
    if !is_ready(pod) {
        let always = budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow");
        let desired = count("desiredHealthy");
        if always || (desired > 0 && count("currentHealthy") >= desired) {
            return Ok(Eviction::Allowed { guarded: true });
        }
    }
    check_budget(budget)?;
    Ok(Eviction::Counted { budget: count_disruption(budget, pod.name(), now) })
}

fn is_ready(pod: &Value) -> bool {
    pod.list_at(&["status", "conditions"])
        .iter()
        .any(|c| c.str_at(&["type"]) == Some("Ready") && c.str_at(&["status"]) == Some("True"))
}

fn blocked(retry_after_seconds: u32, why: String) -> Status {
    let mut status = Status::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_after_seconds,
    );
    let cause = Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() };
    if let Some(details) = &mut status.details {
        details.causes.push(cause);
    }
    status
}

fn check_budget(budget: &Value) -> Result<(), Status> {
    const MAX_UNCONFIRMED: usize = 2000;
    let name = budget.name();
    let count = |field: &str| budget.i64_at(&["status", field]).unwrap_or_default();
    let generation = budget.i64_at(&["metadata", "generation"]).unwrap_or_default();
    if count("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(blocked(10, why));
    }
    let resource = GroupResource::new("policy", "poddisruptionbudget");
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return Err(Status::forbidden(&resource, name, "pdb disruptions allowed is negative"));
    }
    let unconfirmed = budget.map_at(&["status", "disruptedPods"]).map_or(0, |pods| pods.len());
    if unconfirmed > MAX_UNCONFIRMED {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(&resource, name, why));
    }
    if allowed > 0 {
        return Ok(());
    }
    let condition = budget
        .list_at(&["status", "conditions"])
        .iter()
        .find(|c| c.str_at(&["type"]) == Some("DisruptionAllowed"))
        .filter(|c| c.str_at(&["status"]) == Some("False"));
    let text = |field: &str| condition.and_then(|c| c.str_at(&[field])).unwrap_or_default();
    let (reason, message) = (text("reason"), text("message"));
    let (desired, healthy) = (count("desiredHealthy"), count("currentHealthy"));
    let why = if reason == "SyncFailed" && !message.is_empty() {
        format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        )
    } else if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else if !message.is_empty() {
        format!(
            "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    };
    Err(blocked(0, why))
}

/// Takes one disruption off the budget and remembers the pod until its deletion is seen.
fn count_disruption(budget: &Value, pod: &str, now: Timestamp) -> Value {
    let mut budget = budget.clone();
    let left = budget.i64_at(&["status", "disruptionsAllowed"]).unwrap_or_default() - 1;
    budget.set(&["status", "disruptionsAllowed"], left);
    budget.set(&["status", "disruptedPods", pod], format_time(now));
    if left == 0 {
        let generation = budget.at(&["status", "observedGeneration"]).cloned();
        let mut condition = json!({
            "type": "DisruptionAllowed",
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "lastTransitionTime": format_time(now),
        });
        if let Some(generation) = generation {
            condition.set(&["observedGeneration"], generation);
        }
        let mut conditions = budget.list_at(&["status", "conditions"]).to_vec();
        conditions.retain(|c| c.str_at(&["type"]) != Some("DisruptionAllowed"));
        conditions.push(condition);
        budget.set(&["status", "conditions"], conditions);
    }
    budget
}

#[cfg(test)]
mod tests;

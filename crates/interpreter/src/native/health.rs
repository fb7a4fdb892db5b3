//! When an object of a built-in kind is healthy.

use karmada_apimachinery::Value;

use crate::error::Result;
use crate::fields::{count, int, objects, text};

/// Whether the member has looked at the latest specification.
fn is_observed(object: &Value) -> Result<bool> {
    let generation = count(object, &["metadata", "generation"])?;
    Ok(count(object, &["status", "observedGeneration"])? == generation)
}

/// Observed, and every pair of counters in order: the first at least as large as the second.
pub(crate) fn converged(object: &Value, pairs: &[(&str, &str)]) -> Result<bool> {
    for (larger, smaller) in pairs {
        if count(object, &["status", larger])? < count(object, &["status", smaller])? {
            return Ok(false);
        }
    }
    is_observed(object)
}

/// As [`converged`], and the counter has reached the replicas asked for.
pub(crate) fn replicas_converged(
    object: &Value,
    counter: &str,
    pairs: &[(&str, &str)],
) -> Result<bool> {
    let reached = match int(object, &["spec", "replicas"])? {
        Some(wanted) => count(object, &["status", counter])? >= wanted,
        None => true,
    };
    Ok(reached && converged(object, pairs)?)
}

pub(super) fn replicated(object: &Value) -> Result<bool> {
    replicas_converged(object, "updatedReplicas", &[("availableReplicas", "updatedReplicas")])
}

pub(super) fn replica_set(object: &Value) -> Result<bool> {
    replicas_converged(object, "availableReplicas", &[])
}

pub(super) fn daemon_set(object: &Value) -> Result<bool> {
    converged(
        object,
        &[
            ("updatedNumberScheduled", "desiredNumberScheduled"),
            ("numberAvailable", "updatedNumberScheduled"),
        ],
    )
}

pub(super) fn service(object: &Value) -> Result<bool> {
    Ok(text(object, &["spec", "type"])? != "LoadBalancer" || has_address(object)?)
}

pub(super) fn ingress(object: &Value) -> Result<bool> {
    has_address(object)
}

fn has_address(object: &Value) -> Result<bool> {
    for entry in objects(object, &["status", "loadBalancer", "ingress"])? {
        if !text(entry, &["hostname"])?.is_empty() || !text(entry, &["ip"])?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn persistent_volume_claim(object: &Value) -> Result<bool> {
    Ok(text(object, &["status", "phase"])? == "Bound")
}

pub(super) fn pod(object: &Value) -> Result<bool> {
    match text(object, &["status", "phase"])? {
        "Succeeded" => Ok(true),
        "Running" => {
            for condition in objects(object, &["status", "conditions"])? {
                if text(condition, &["type"])? == "Ready" {
                    return Ok(text(condition, &["status"])? == "True");
                }
            }
            Ok(false)
        }
        _ => Ok(false),
    }
}

pub(super) fn pod_disruption_budget(object: &Value) -> Result<bool> {
    let current = count(object, &["status", "currentHealthy"])?;
    Ok(current >= count(object, &["status", "desiredHealthy"])?)
}

//! Which part of an object's status travels up from a member, as tables of counters.

use karmada_api::annotations;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Map, Value, json};

use crate::error::{Error, Result};
use crate::fields::{count, map, text, walk};

/// A number in a status: whether it is left out at zero depends on how Kubernetes declares it.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    pub(super) name: &'static str,
    pub(super) always: bool,
}

const fn optional(name: &'static str) -> Counter {
    Counter { name, always: false }
}

const fn always(name: &'static str) -> Counter {
    Counter { name, always: true }
}

pub(super) const DEPLOYMENT: &[Counter] = &[
    optional("replicas"),
    optional("updatedReplicas"),
    optional("readyReplicas"),
    optional("availableReplicas"),
    optional("unavailableReplicas"),
];

pub(super) const REPLICA_SET: &[Counter] =
    &[always("replicas"), optional("readyReplicas"), optional("availableReplicas")];

pub(super) const STATEFUL_SET: &[Counter] = &[
    always("availableReplicas"),
    optional("currentReplicas"),
    optional("readyReplicas"),
    always("replicas"),
    optional("updatedReplicas"),
];

pub(super) const DAEMON_SET: &[Counter] = &[
    always("currentNumberScheduled"),
    always("desiredNumberScheduled"),
    optional("numberAvailable"),
    always("numberMisscheduled"),
    always("numberReady"),
    optional("updatedNumberScheduled"),
    optional("numberUnavailable"),
];

pub(super) const DISRUPTION_BUDGET: &[Counter] = &[
    always("disruptionsAllowed"),
    always("expectedPods"),
    always("desiredHealthy"),
    always("currentHealthy"),
];

pub(super) const AUTOSCALER: &[Counter] = &[optional("currentReplicas"), always("desiredReplicas")];

pub(super) const JOB: &[Counter] = &[optional("active"), optional("succeeded"), optional("failed")];

const OBSERVED_GENERATION: Counter = optional("observedGeneration");

pub(super) fn deployment(object: &Value) -> Result<Option<Value>> {
    let reflected = federated(object, &[DEPLOYMENT, &[OBSERVED_GENERATION]])?;
    // Nothing but zeros means that the member has not looked at it yet.
    Ok(reflected.filter(|status| !status.is_empty()).map(Value::Object))
}

pub(super) fn replica_set(object: &Value) -> Result<Option<Value>> {
    Ok(federated(object, &[REPLICA_SET, &[OBSERVED_GENERATION]])?.map(Value::Object))
}

/// Compat: the observed generation is not reported for this kind.
pub(super) fn stateful_set(object: &Value) -> Result<Option<Value>> {
    Ok(federated(object, &[STATEFUL_SET])?.map(Value::Object))
}

pub(super) fn daemon_set(object: &Value) -> Result<Option<Value>> {
    Ok(federated(object, &[DAEMON_SET, &[OBSERVED_GENERATION]])?.map(Value::Object))
}

/// Counters, the generation in the member, and the generation of the template it was made from.
fn federated(object: &Value, counters: &[&[Counter]]) -> Result<Option<Map>> {
    let Some(status) = status(object)? else { return Ok(None) };
    let generation = count(object, &["metadata", "generation"])?;
    let mut reflected = Map::new();
    write(&mut reflected, optional("generation"), generation);
    write(&mut reflected, optional("resourceTemplateGeneration"), template_generation(object)?);
    for counter in counters.iter().copied().flatten() {
        write(&mut reflected, *counter, read(status, counter)?);
    }
    Ok(Some(reflected))
}

fn template_generation(object: &Value) -> Result<i64> {
    let path = &["metadata", "annotations", annotations::TEMPLATE_GENERATION];
    let text = text(object, path)?;
    text.parse().map_err(|_| Error::invalid(path, format!("{text:?} is not a number")))
}

pub(super) fn service(object: &Value) -> Result<Option<Value>> {
    if object.str_at(&["spec", "type"]) != Some("LoadBalancer") {
        return Ok(None);
    }
    let Some(status) = status(object)? else { return Ok(None) };
    let addresses = map(status, &["loadBalancer"]).map_err(|e| e.under("status"))?;
    Ok(Some(json!({ "loadBalancer": addresses.cloned().unwrap_or_default() })))
}

pub(super) fn job(object: &Value) -> Result<Option<Value>> {
    let Some(status) = status(object)? else { return Ok(None) };
    let mut reflected = counted(status, JOB)?;
    copy_present(&mut reflected, status, &["conditions", "startTime", "completionTime"]);
    Ok(Some(Value::Object(reflected)))
}

pub(super) fn pod_disruption_budget(object: &Value) -> Result<Option<Value>> {
    let Some(status) = status(object)? else { return Ok(None) };
    let mut reflected = counted(status, DISRUPTION_BUDGET)?;
    copy_present(&mut reflected, status, &["disruptedPods"]);
    Ok(Some(Value::Object(reflected)))
}

pub(super) fn horizontal_pod_autoscaler(object: &Value) -> Result<Option<Value>> {
    let Some(status) = status(object)? else { return Ok(None) };
    let mut reflected = counted(status, AUTOSCALER)?;
    // Compat: a list that Kubernetes never leaves out.
    reflected.insert("currentMetrics".to_owned(), Value::Null);
    Ok(Some(Value::Object(reflected)))
}

/// The complete status, if there is one.
pub(crate) fn whole(object: &Value) -> Result<Option<Value>> {
    Ok(map(object, &["status"])?.map(|status| Value::Object(status.clone())))
}

fn status(object: &Value) -> Result<Option<&Value>> {
    map(object, &["status"])?;
    walk(object, &["status"])
}

fn counted(status: &Value, counters: &[Counter]) -> Result<Map> {
    let mut reflected = Map::new();
    for counter in counters {
        write(&mut reflected, *counter, read(status, counter)?);
    }
    Ok(reflected)
}

fn read(status: &Value, counter: &Counter) -> Result<i64> {
    count(status, &[counter.name]).map_err(|e| e.under("status"))
}

pub(super) fn write(status: &mut Map, counter: Counter, value: i64) {
    if value != 0 || counter.always {
        status.insert(counter.name.to_owned(), value.into());
    } else {
        status.remove(counter.name);
    }
}

/// Copies fields that say something.
fn copy_present(reflected: &mut Map, status: &Value, fields: &[&str]) {
    for field in fields {
        match status.get(*field) {
            None | Some(Value::Null) => {}
            Some(Value::Array(items)) if items.is_empty() => {}
            Some(Value::Object(entries)) if entries.is_empty() => {}
            Some(value) => {
                reflected.insert((*field).to_owned(), value.clone());
            }
        }
    }
}

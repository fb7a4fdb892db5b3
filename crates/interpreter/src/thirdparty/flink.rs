//! Flink: streaming applications, with a job manager and task managers.

use karmada_api::core::ResourceList;
use karmada_api::work::{Component, NodeClaim, ReplicaRequirements};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Map, Value};

use super::blocks::{component, current_status, loose_replicas, number, put_status};
use crate::Gates;
use crate::error::{Error, Result};
use crate::fields::{decode, text, walk};
use crate::rules::{Members, Replicas};

pub(super) const FIELDS: &[&str] = &[
    "clusterInfo",
    "error",
    "jobManagerDeploymentStatus",
    "jobStatus",
    "lifecycleState",
    "observedGeneration",
    "reconciliationStatus",
    "taskManager",
];

const ROLES: [(&str, &str); 2] = [("jobmanager", "jobManager"), ("taskmanager", "taskManager")];

pub(super) fn components(object: &Value, _: Gates) -> Result<Vec<Component>> {
    let mut components = Vec::new();
    for ((name, role), replicas) in ROLES.into_iter().zip(replica_counts(object)?) {
        let mut request = ResourceList::new();
        if let Some(cpu) = quantity(object, role, "cpu")? {
            request.insert("cpu".to_owned(), cpu);
        }
        if let Some(memory) = quantity(object, role, "memory")? {
            // Compat: the amount is passed on as a plain number.
            let bytes = memory.as_f64();
            let plain = if bytes.fract() == 0.0 { Value::from(bytes as i64) } else { bytes.into() };
            let plain = Quantity::from_value(&plain).unwrap_or(memory);
            request.insert("memory".to_owned(), plain);
        }
        components.push(component(name, replicas, Some(shared_needs(object, request)?)));
    }
    Ok(components)
}

/// Job managers and task managers; the number of the latter follows from the parallelism.
fn replica_counts(object: &Value) -> Result<[i32; 2]> {
    let managers = loose_replicas(object, &["spec", "jobManager", "replicas"], 1)?;
    if number(object, &["spec", "taskManager", "replicas"])?.is_some() {
        return Ok([managers, loose_replicas(object, &["spec", "taskManager", "replicas"], 1)?]);
    }
    let slots = &["spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots"];
    let parallelism = number(object, &["spec", "job", "parallelism"])?;
    let workers = match (parallelism, number(object, slots)?) {
        (Some(parallelism), Some(slots)) if slots != 0.0 => (parallelism / slots).ceil() as i32,
        _ => 1,
    };
    Ok([managers, workers])
}

fn quantity(object: &Value, role: &str, resource: &str) -> Result<Option<Quantity>> {
    let path = &["spec", role, "resource", resource];
    let Some(amount) = walk(object, path)? else { return Ok(None) };
    Quantity::from_value(amount).map(Some).map_err(|e| Error::invalid(path, e))
}

/// What the common pod template says about every role.
fn shared_needs(object: &Value, resource_request: ResourceList) -> Result<ReplicaRequirements> {
    const POD: [&str; 3] = ["spec", "podTemplate", "spec"];
    let at = |field: &'static str| [&POD[..], &[field]].concat();
    let claim = NodeClaim {
        hard_node_affinity: None,
        node_selector: decode(object, &at("nodeSelector"))?.unwrap_or_default(),
        tolerations: decode(object, &at("tolerations"))?.unwrap_or_default(),
    };
    Ok(ReplicaRequirements {
        node_claim: (claim != NodeClaim::default()).then_some(claim),
        resource_request,
        namespace: String::new(),
        priority_class_name: text(object, &at("priorityClassName"))?.to_owned(),
    })
}

/// Both roles as one: enough for the larger of the two.
pub(super) fn replicas(object: &Value, _: Gates) -> Result<Replicas> {
    let mut request = ResourceList::new();
    for resource in ["cpu", "memory"] {
        let mut most: Option<Quantity> = None;
        for (_, role) in ROLES {
            most = most.max(quantity(object, role, resource)?);
        }
        if let Some(most) = most {
            request.insert(resource.to_owned(), most);
        }
    }
    let mut requirements = shared_needs(object, request)?;
    requirements.namespace = object.namespace().to_owned();
    let [managers, workers] = replica_counts(object)?;
    Ok(Replicas { replicas: managers.saturating_add(workers), requirements: Some(requirements) })
}

/// A job that waits is healthy only if what it waits for is the user's to fix.
pub(super) fn health(object: &Value) -> Result<bool> {
    const OWN_FAULTS: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"];
    let at = |field: &str| text(object, &["status", field]);
    if walk(object, &["status", "jobStatus", "state"])?.is_none() {
        return Ok(
            at("jobManagerDeploymentStatus")? == "READY" && at("lifecycleState")? == "STABLE"
        );
    }
    Ok(match text(object, &["status", "jobStatus", "state"])? {
        "RUNNING" | "FINISHED" | "FAILED" | "CANCELED" | "SUSPENDED" | "CANCELLING" | "FAILING"
        | "RESTARTING" => true,
        "CREATED" | "INITIALIZING" | "RECONCILING" => {
            let error = at("error")?;
            OWN_FAULTS.iter().any(|fault| error.contains(fault))
        }
        _ => false,
    })
}

/// An application runs in one cluster: the last one that reports is it.
pub(super) fn aggregate(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 {
        return Ok(());
    }
    let last = members.reported().last().and_then(|(_, status)| status.as_object());
    let mut status: Map = current_status(object)?;
    for field in FIELDS {
        let silent = match *field {
            "error" | "jobManagerDeploymentStatus" | "lifecycleState" => Value::from(""),
            "observedGeneration" => Value::from(0),
            _ => Value::Null,
        };
        let value = last.map_or(silent, |last| last.get(*field).cloned().unwrap_or(Value::Null));
        status.insert((*field).to_owned(), value);
    }
    put_status(object, status)
}

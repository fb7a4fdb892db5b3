//! Ray: clusters with a head and groups of workers, jobs and services on them.

use karmada_api::config::DependentObjectReference;
use karmada_api::work::Component;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Map, Value};

use super::blocks::{
    all_conditions, component, current_status, first, is_true, latest, number, pass_single,
    put_status, sum,
};
use crate::Gates;
use crate::error::{Error, Result};
use crate::fields::{count, int, list, make_map, map, replicas, text, walk};
use crate::pod::{References, template_requirements};
use crate::rules::{Members, Replicas};

/// Where the description of the cluster stands.
pub(super) const CLUSTER: &[&str] = &["spec"];
pub(super) const JOB_CLUSTER: &[&str] = &["spec", "rayClusterSpec"];
pub(super) const SERVICE_CLUSTER: &[&str] = &["spec", "rayClusterConfig"];

const WORKERS: &str = "workerGroupSpecs";
const HEAD_TEMPLATE: [&str; 2] = ["headGroupSpec", "template"];

pub(super) fn components(object: &Value, at: &[&str], gates: Gates) -> Result<Vec<Component>> {
    let Some(cluster) = walk(object, at)? else { return Ok(Vec::new()) };
    components_of(cluster, gates).map_err(|e| e.under(&at.join(".")))
}

fn components_of(cluster: &Value, gates: Gates) -> Result<Vec<Component>> {
    let mut components = Vec::new();
    if walk(cluster, &HEAD_TEMPLATE)?.is_some() {
        let requirements = template_requirements(cluster, &HEAD_TEMPLATE, gates)?;
        components.push(component("ray-head", 1, requirements));
    }
    for (index, group) in list(cluster, &[WORKERS])?.iter().enumerate() {
        let under = |e: Error| e.under(&format!("{WORKERS}[{index}]"));
        let name = match text(group, &["groupName"]).map_err(under)? {
            "" => format!("worker-{}", index + 1),
            name => name.to_owned(),
        };
        let requirements = template_requirements(group, &["template"], gates).map_err(under)?;
        let replicas = replicas(group, &["replicas"], 0).map_err(under)?;
        components.push(component(&name, replicas, requirements));
    }
    Ok(components)
}

/// Objects that the pods of a cluster refer to.
pub(super) fn dependencies(
    object: &Value,
    at: &[&str],
    more: &[&str],
) -> Result<Vec<DependentObjectReference>> {
    let mut references = References::default();
    if let Some(cluster) = walk(object, at)? {
        if let Some(spec) = walk(cluster, &["headGroupSpec", "template", "spec"])? {
            references.add_pod(spec)?;
        }
        for group in list(cluster, &[WORKERS])? {
            if let Some(spec) = walk(group, &["template", "spec"])? {
                references.add_pod(spec)?;
            }
        }
    }
    if !more.is_empty()
        && let Some(spec) = walk(object, more)?
    {
        references.add_pod(spec)?;
    }
    Ok(references.into_list(object.namespace()))
}

pub(super) fn cluster_health(object: &Value) -> Result<bool> {
    let Some(status) = walk(object, &["status"])? else { return Ok(false) };
    let holds = |kind: &str| is_true(status, kind).map_err(|e| e.under("status"));
    Ok(holds("HeadPodReady")?
        && holds("RayClusterProvisioned")?
        && !holds("RayClusterReplicaFailure")?)
}

pub(super) fn job_health(object: &Value) -> Result<bool> {
    Ok(match text(object, &["status", "jobDeploymentStatus"])? {
        "Running" => true,
        "Complete" => text(object, &["status", "jobStatus"])? == "SUCCEEDED",
        _ => false,
    })
}

pub(super) fn service_health(object: &Value) -> Result<bool> {
    match walk(object, &["status"])? {
        Some(status) => is_true(status, "Ready").map_err(|e| e.under("status")),
        None => Ok(false),
    }
}

/// With one member its status is taken as it is; the specification is not needed any further.
fn begin(object: &mut Value, members: &Members<'_>) -> Result<Option<Map>> {
    if members.len() == 0 {
        return Ok(None);
    }
    make_map(object, &[])?.remove("spec");
    if pass_single(object, members)? {
        return Ok(None);
    }
    current_status(object).map(Some)
}

pub(super) fn aggregate_cluster(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let Some(mut status) = begin(object, members)? else { return Ok(()) };
    status.insert("conditions".to_owned(), all_conditions(members)?.into());
    for counter in [
        "readyWorkerReplicas",
        "availableWorkerReplicas",
        "maxWorkerReplicas",
        "minWorkerReplicas",
        "desiredWorkerReplicas",
    ] {
        status.insert(counter.to_owned(), sum(members, counter)?.into());
    }
    for resource in ["desiredCPU", "desiredMemory"] {
        let mut sum = Quantity::ZERO;
        members.each(|_, reported| {
            let amount = walk(reported, &[resource])?.filter(|amount| amount.as_str() != Some(""));
            if let Some(amount) = amount {
                let invalid = |e| Error::invalid(&[resource], e);
                sum += &Quantity::from_value(amount).map_err(invalid)?;
            }
            Ok(())
        })?;
        status.insert(resource.to_owned(), sum.canonical().into());
    }
    for device in ["desiredGPU", "desiredTPU"] {
        let mut sum = 0.0;
        members.each(|_, reported| {
            sum += number(reported, &[device])?.unwrap_or(0.0);
            Ok(())
        })?;
        status.insert(device.to_owned(), sum.to_string().into());
    }
    let lead = members.reported().find(|(_, s)| s.get("state").is_some_and(|s| !s.is_null()));
    for field in ["state", "stateTransitionTimes"] {
        let value = lead.and_then(|(_, status)| status.get(field)).cloned();
        status.insert(field.to_owned(), value.unwrap_or(Value::Null));
    }
    for field in ["endpoints", "head"] {
        status.insert(field.to_owned(), first(members, field).unwrap_or(Value::Null));
    }
    let updated = latest(members, "lastUpdateTime").unwrap_or(Value::Null);
    status.insert("lastUpdateTime".to_owned(), updated);
    put_status(object, status)
}

fn deployment_severity(status: &str) -> u8 {
    match status {
        "Initializing" => 1,
        "Waiting" => 2,
        "Suspending" | "Suspended" => 3,
        "Retrying" => 4,
        "Running" => 5,
        "Complete" => 6,
        "ValidationFailed" => 7,
        "Failed" => 8,
        _ => 0,
    }
}

fn job_severity(status: &str) -> u8 {
    match status {
        "PENDING" => 1,
        "RUNNING" => 2,
        "SUCCEEDED" => 3,
        "STOPPED" => 4,
        "FAILED" => 5,
        _ => 0,
    }
}

fn application_severity(status: &str) -> u8 {
    match status {
        "NOT_STARTED" => 1,
        "DEPLOYING" => 2,
        "DELETING" => 3,
        "UNHEALTHY" => 4,
        "DEPLOY_FAILED" => 5,
        _ => 0,
    }
}

/// The status whose field is worst; the first of equals.
fn worst<'a>(
    members: &'a Members<'_>,
    field: &str,
    severity: fn(&str) -> u8,
) -> Result<Option<&'a Value>> {
    let mut worst: Option<(u8, &Value)> = None;
    for (cluster, status) in members.reported() {
        let under =
            |source| Error::Member { cluster: cluster.to_owned(), source: Box::new(source) };
        if walk(status, &[field]).map_err(under)?.is_some() {
            let rank = severity(text(status, &[field]).map_err(under)?);
            if worst.is_none_or(|(known, _)| rank > known) {
                worst = Some((rank, status));
            }
        }
    }
    Ok(worst.map(|(_, status)| status))
}

pub(super) fn aggregate_job(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let Some(mut status) = begin(object, members)? else { return Ok(()) };
    let deployment = worst(members, "jobDeploymentStatus", deployment_severity)?;
    for field in ["jobDeploymentStatus", "reason", "message"] {
        let value = deployment.and_then(|status| status.get(field)).cloned();
        status.insert(field.to_owned(), value.unwrap_or(Value::Null));
    }
    let job = worst(members, "jobStatus", job_severity)?.and_then(|s| s.get("jobStatus"));
    let job = job.filter(|status| status.as_str() != Some("")).cloned();
    status.insert("jobStatus".to_owned(), job.unwrap_or(Value::Null));
    put_status(object, status)
}

pub(super) fn aggregate_service(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let Some(mut status) = begin(object, members)? else { return Ok(()) };
    let mut observed = 0;
    let mut is_running = true;
    let mut applications: Map = Map::new();
    members.each(|_, reported| {
        observed = observed.max(count(reported, &["observedGeneration"])?);
        let service = walk(reported, &["serviceStatus"])?.and_then(Value::as_str);
        is_running &= service != Some("");
        let reported = map(reported, &["activeServiceStatus", "applicationStatuses"])?;
        for (name, application) in reported.into_iter().flatten() {
            let rank = application_severity(text(application, &["status"])?);
            let known = applications.get(name).and_then(|known| known.str_at(&["status"]));
            if !applications.contains_key(name)
                || rank > application_severity(known.unwrap_or_default())
            {
                applications.insert(name.clone(), application.clone());
            }
        }
        Ok(())
    })?;
    status.insert("conditions".to_owned(), all_conditions(members)?.into());
    status.insert("numServeEndpoints".to_owned(), sum(members, "numServeEndpoints")?.into());
    status.insert("observedGeneration".to_owned(), observed.into());
    let service = if is_running { "Running" } else { "" };
    status.insert("serviceStatus".to_owned(), service.into());
    let updated = latest(members, "lastUpdateTime").unwrap_or(Value::Null);
    status.insert("lastUpdateTime".to_owned(), updated);
    if let Some(mut active) = first(members, "activeServiceStatus") {
        active.set(&["applicationStatuses"], applications);
        status.insert("activeServiceStatus".to_owned(), active);
    }
    if let Some(pending) = first(members, "pendingServiceStatus") {
        status.insert("pendingServiceStatus".to_owned(), pending);
    }
    put_status(object, status)
}

/// Head and workers as one: enough for the largest of them.
pub(super) fn service_replicas(object: &Value, gates: Gates) -> Result<Replicas> {
    let none = Replicas::default();
    let Some(cluster) = walk(object, SERVICE_CLUSTER)? else { return Ok(none) };
    if walk(cluster, &HEAD_TEMPLATE)?.is_none() {
        return Ok(none);
    }
    let mut total = 1i32;
    let mut requirements = template_requirements(cluster, &HEAD_TEMPLATE, gates)?;
    for group in list(cluster, &[WORKERS])? {
        total = total.saturating_add(replicas(group, &["replicas"], 0)?);
        let worker = template_requirements(group, &["template"], gates)?;
        let (Some(needs), Some(worker)) = (&mut requirements, worker) else { continue };
        for resource in ["cpu", "memory"] {
            let amount = worker.resource_request.get(resource);
            let known = needs.resource_request.get(resource);
            if let Some(amount) = amount.filter(|amount| known < Some(*amount)) {
                needs.resource_request.insert(resource.to_owned(), amount.clone());
            }
        }
    }
    Ok(Replicas { replicas: total, requirements })
}

/// The head stays; the rest is divided over the groups as they are now, the last one takes what is left.
pub(super) fn revise_service(object: &mut Value, replicas: i64) -> Result<()> {
    let path = [SERVICE_CLUSTER, &[WORKERS]].concat();
    let mut current = Vec::new();
    for group in list(object, &path)? {
        current.push(int(group, &["replicas"])?.unwrap_or(0).clamp(0, i64::from(i32::MAX)));
    }
    let shares = divide(replicas.saturating_sub(1).max(0), &current);
    for (group, share) in object.list_at_mut(&path).iter_mut().zip(shares) {
        group.set(&["replicas"], share);
    }
    Ok(())
}

/// Shares of the groups: in proportion, rounded half up; evenly if there is nothing to go by.
fn divide(workers: i64, current: &[i64]) -> Vec<i64> {
    let groups = current.len() as i64;
    let total: i64 = current.iter().sum();
    let mut left = workers;
    let mut shares = Vec::with_capacity(current.len());
    for (index, group) in (0i64..).zip(current) {
        let share = if index == groups - 1 {
            left
        } else if total == 0 {
            workers / groups + i64::from(index < workers % groups)
        } else {
            (workers as f64 * (*group as f64 / total as f64) + 0.5).floor() as i64
        };
        left -= share;
        shares.push(share);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::divide;

    #[test]
    fn workers_are_divided_in_proportion_and_add_up() {
        let cases: [(i64, &[i64], &[i64]); 5] = [
            (7, &[2, 1], &[5, 2]),
            (5, &[0, 0, 0], &[2, 2, 1]),
            (4, &[9], &[4]),
            (0, &[3, 4], &[0, 0]),
            (3, &[], &[]),
        ];
        for (workers, current, expected) in cases {
            assert_eq!(divide(workers, current), expected);
        }
    }
}

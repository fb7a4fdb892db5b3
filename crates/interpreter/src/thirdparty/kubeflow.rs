//! Kubeflow: notebooks and distributed training.

use karmada_api::config::DependentObjectReference;
use karmada_api::work::Component;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Map, Value, json};

use super::blocks::{
    component, condition_now, current_status, earliest, is_true, latest, loose_replicas,
    pass_single, pick, put_by_type, put_status, replicas_at, sum, without_zeros,
};
use crate::Gates;
use crate::error::Result;
use crate::fields::{count, list, map, text, walk};
use crate::pod::{References, template_requirements};
use crate::rules::{Members, Replicas};

/// The roles of a training job: where they are described and what they are called.
pub(super) struct Training {
    pub(super) specs: &'static str,
    pub(super) roles: &'static [&'static str],
}

pub(super) const PYTORCH: Training =
    Training { specs: "pytorchReplicaSpecs", roles: &["Master", "Worker"] };
pub(super) const TENSORFLOW: Training =
    Training { specs: "tfReplicaSpecs", roles: &["PS", "Worker", "Chief", "Master", "Evaluator"] };

pub(super) fn training_components(
    object: &Value,
    training: &Training,
    gates: Gates,
) -> Result<Vec<Component>> {
    let mut components = Vec::new();
    for role in training.roles {
        let path = &["spec", training.specs, role];
        if let Some(spec) = walk(object, path)? {
            let under = |e: crate::Error| e.under(&path.join("."));
            let replicas = loose_replicas(spec, &["replicas"], 1).map_err(under)?;
            let requirements = template_requirements(spec, &["template"], gates).map_err(under)?;
            components.push(component(&role.to_ascii_lowercase(), replicas, requirements));
        }
    }
    Ok(components)
}

pub(super) fn training_dependencies(
    object: &Value,
    training: &Training,
) -> Result<Vec<DependentObjectReference>> {
    let mut references = References::default();
    for role in training.roles {
        let path = &["spec", training.specs, role, "template", "spec"];
        if let Some(spec) = walk(object, path)? {
            references.add_pod(spec).map_err(|e| e.under(&path.join(".")))?;
        }
    }
    Ok(references.into_list(object.namespace()))
}

/// Healthy once it says anything, unless it says that it failed.
pub(super) fn training_health(object: &Value) -> Result<bool> {
    let Some(status) = walk(object, &["status"])? else { return Ok(false) };
    let speaks = walk(object, &["status", "conditions"])?.is_some();
    Ok(speaks && !is_true(status, "Failed").map_err(|e| e.under("status"))?)
}

pub(super) fn mpi_health(object: &Value) -> Result<bool> {
    Ok(!list(object, &["status", "conditions"])?.is_empty() && training_health(object)?)
}

/// Where the members have got to.
struct Progress {
    failed_in: Vec<String>,
    succeeded: usize,
}

fn progress(members: &Members<'_>) -> Result<Progress> {
    let mut progress = Progress { failed_in: Vec::new(), succeeded: 0 };
    members.each(|cluster, status| {
        if is_true(status, "Failed")? {
            progress.failed_in.push(cluster.to_owned());
        } else if is_true(status, "Succeeded")? {
            progress.succeeded += 1;
        }
        Ok(())
    })?;
    Ok(progress)
}

/// Pods by role and state, for these roles.
fn role_counts(members: &Members<'_>, roles: &[String]) -> Result<Value> {
    let mut counts = Map::new();
    for role in roles {
        let mut sums = Map::new();
        for state in ["active", "succeeded", "failed"] {
            let mut sum = 0i64;
            members.each(|_, status| {
                let path = &["replicaStatuses", role.as_str(), state];
                sum = sum.saturating_add(count(status, path)?);
                Ok(())
            })?;
            sums.insert(state.to_owned(), sum.into());
        }
        counts.insert(role.clone(), sums.into());
    }
    Ok(Value::Object(counts))
}

/// What PyTorch and TensorFlow jobs have in common.
fn aggregate_training(
    object: &mut Value,
    members: &Members<'_>,
    training: &Training,
    conditions: impl FnOnce(&Progress) -> Result<Vec<Value>>,
) -> Result<()> {
    let mut status = current_status(object)?;
    if members.len() == 0 {
        for field in ["startTime", "completionTime", "replicaStatuses", "conditions"] {
            status.remove(field);
        }
        return put_status(object, status);
    }
    let progress = progress(members)?;
    let roles: Vec<_> = training.roles.iter().map(|role| (*role).to_owned()).collect();
    if progress.succeeded == members.len() {
        let completed = latest(members, "completionTime").unwrap_or(Value::Null);
        status.insert("completionTime".to_owned(), completed);
    }
    let started = earliest(members, "startTime").unwrap_or(Value::Null);
    status.insert("startTime".to_owned(), started);
    let reconciled = latest(members, "lastReconcileTime").unwrap_or(Value::Null);
    status.insert("lastReconcileTime".to_owned(), reconciled);
    status.insert("replicaStatuses".to_owned(), role_counts(members, &roles)?);
    status.insert("conditions".to_owned(), conditions(&progress)?.into());
    put_status(object, without_zeros(status))
}

/// Conditions in the order a job goes through them; listings show the last one.
pub(super) fn aggregate_pytorch(object: &mut Value, members: &Members<'_>) -> Result<()> {
    aggregate_training(object, members, &PYTORCH, |progress| {
        let started = earliest(members, "startTime").unwrap_or(Value::Null);
        let ended = latest(members, "completionTime").unwrap_or(Value::Null);
        let condition = |kind: &str,
                         status: &str,
                         updated: &Value,
                         moved: &Value,
                         message: &str| {
            json!({"type": kind, "status": status, "lastUpdateTime": updated, "lastTransitionTime": moved,
                   "reason": format!("PyTorchJob{kind}"), "message": message})
        };
        let (mut is_created, mut running) = (false, None);
        members.each(|_, status| {
            is_created |= is_true(status, "Created")?;
            for condition in list(status, &["conditions"])? {
                if text(condition, &["type"])? == "Running" {
                    running = Some(condition.clone());
                }
            }
            Ok(())
        })?;
        let has_failed = !progress.failed_in.is_empty();
        let has_succeeded = progress.succeeded == members.len();
        let mut conditions = Vec::new();
        if is_created {
            let message = "PyTorchJob is created.";
            conditions.push(condition("Created", "True", &started, &started, message));
        }
        if let Some(running) = running {
            let status = if has_failed || has_succeeded { "False" } else { "True" };
            let (updated, moved) = (&running["lastUpdateTime"], &running["lastTransitionTime"]);
            conditions.push(condition("Running", status, updated, moved, "PyTorchJob is running."));
        }
        if has_failed {
            let clusters = progress.failed_in.join(", ");
            let message = format!("PyTorchJob executed failed in member clusters: {clusters}");
            conditions.push(condition("Failed", "True", &ended, &ended, &message));
        } else if has_succeeded {
            let message = "PyTorchJob is successfully completed.";
            conditions.push(condition("Succeeded", "True", &ended, &ended, message));
        }
        Ok(conditions)
    })
}

pub(super) fn aggregate_tensorflow(object: &mut Value, members: &Members<'_>) -> Result<()> {
    aggregate_training(object, members, &TENSORFLOW, |progress| {
        let mut conditions = Vec::new();
        if !progress.failed_in.is_empty() {
            let clusters = progress.failed_in.join(", ");
            let message = format!("TFJob executed failed in member clusters: {clusters}");
            conditions.push(condition_now(members, "Failed", "TFJobFailed", &message));
        }
        if progress.succeeded == members.len() {
            let message = "TFJob completed successfully";
            conditions.push(condition_now(members, "Succeeded", "Completed", message));
        }
        Ok(conditions)
    })
}

/// Roles are free to choose, so every one with a pod template counts.
pub(super) fn mpi_components(object: &Value, gates: Gates) -> Result<Vec<Component>> {
    let mut components = Vec::new();
    for (role, spec) in map(object, &["spec", "mpiReplicaSpecs"])?.into_iter().flatten() {
        let under = |e: crate::Error| e.under(&format!("spec.mpiReplicaSpecs.{role}"));
        if walk(spec, &["template"]).map_err(under)?.is_some() {
            let default = if role.eq_ignore_ascii_case("worker") { 0 } else { 1 };
            let replicas = loose_replicas(spec, &["replicas"], default).map_err(under)?;
            let requirements = template_requirements(spec, &["template"], gates).map_err(under)?;
            components.push(component(role, replicas, requirements));
        }
    }
    Ok(components)
}

pub(super) fn reflect_mpi(object: &Value) -> Result<Option<Value>> {
    const FIELDS: &[&str] =
        &["replicaStatuses", "conditions", "startTime", "completionTime", "lastReconcileTime"];
    let mut status = pick(object, FIELDS)?;
    if let Some(Value::Object(roles)) = status.get_mut("replicaStatuses") {
        for role in roles.values_mut().filter_map(Value::as_object_mut) {
            role.retain(|key, _| {
                matches!(key.as_str(), "active" | "succeeded" | "failed" | "selector")
            });
        }
    }
    Ok(Some(Value::Object(status)))
}

/// When a condition last changed.
fn time_of(condition: &Value) -> Result<&str> {
    match text(condition, &["lastUpdateTime"])? {
        "" => text(condition, &["lastTransitionTime"]),
        updated => Ok(updated),
    }
}

pub(super) fn aggregate_mpi(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 || pass_single(object, members)? {
        return Ok(());
    }
    let mut roles = Vec::new();
    let mut newest: Vec<Value> = Vec::new();
    members.each(|_, status| {
        for (role, _) in map(status, &["replicaStatuses"])?.into_iter().flatten() {
            roles.push(role.to_string());
        }
        for condition in list(status, &["conditions"])? {
            let (kind, time) = (text(condition, &["type"])?, time_of(condition)?);
            let known = newest.iter().find(|known| known.get("type") == Some(&kind.into()));
            let is_newer = match known {
                Some(known) => time > time_of(known)?,
                None => !time.is_empty(),
            };
            if is_newer {
                put_by_type(&mut newest, condition);
            }
        }
        Ok(())
    })?;
    let times = [
        ("startTime", earliest(members, "startTime")),
        ("completionTime", latest(members, "completionTime")),
        ("lastReconcileTime", latest(members, "lastReconcileTime")),
    ];
    let mut status = Map::new();
    status.insert("replicaStatuses".to_owned(), role_counts(members, &roles)?);
    status.insert("conditions".to_owned(), newest.into());
    for (field, time) in times {
        status.insert(field.to_owned(), time.unwrap_or(Value::Null));
    }
    put_status(object, status)
}

pub(super) const NOTEBOOK_FIELDS: &[&str] = &["readyReplicas", "containerState", "conditions"];

pub(super) fn reflect_notebook(object: &Value) -> Result<Option<Value>> {
    let mut status = pick(object, NOTEBOOK_FIELDS)?;
    if map(object, &["status"])?.is_some() {
        status.entry("readyReplicas").or_insert(0.into());
    }
    Ok(Some(Value::Object(status)))
}

pub(super) fn notebook_replicas(object: &Value, gates: Gates) -> Result<Replicas> {
    Ok(Replicas { replicas: 1, ..replicas_at(object, &["spec", "none"], 1, gates)? })
}

pub(super) fn notebook_health(object: &Value) -> Result<bool> {
    let Some(state) = walk(object, &["status", "containerState"])? else { return Ok(false) };
    if walk(state, &["running"])?.is_some() {
        return Ok(true);
    }
    if walk(state, &["waiting"])?.is_some() {
        return Ok(text(state, &["waiting", "reason"])? == "ContainerCreating");
    }
    if walk(state, &["terminated"])?.is_some() {
        let reason = text(state, &["terminated", "reason"])?;
        let is_bad = matches!(reason, "Error" | "OOMKilled" | "ContainerCannotRun");
        return Ok(!is_bad && count(state, &["terminated", "exitCode"])? == 0);
    }
    Ok(false)
}

/// A container that does not run is a failure; its state is the one to show.
pub(super) fn aggregate_notebook(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 || pass_single(object, members)? {
        return Ok(());
    }
    let mut failed_in = Vec::new();
    let mut running = 0;
    let mut shown: Option<Value> = None;
    members.each(|cluster, status| {
        let state = map(status, &["containerState"])?.filter(|state| !state.is_empty());
        let is_down =
            state.is_none_or(|s| s.contains_key("terminated") || s.contains_key("waiting"));
        if is_down {
            failed_in.push(cluster.to_owned());
            shown = Some(match state {
                Some(state) => Value::Object(state.clone()),
                None => json!({"waiting": {"reason": "Unschedulable"}}),
            });
        } else if failed_in.is_empty() && walk(status, &["containerState", "running"])?.is_some() {
            running += 1;
            let started = text(status, &["containerState", "running", "startedAt"])?;
            let known = shown.as_ref().and_then(|s| s.str_at(&["running", "startedAt"]));
            if shown.is_none() || known.is_none_or(|known| started > known) {
                shown = Some(json!({"running": {"startedAt": started}}));
            }
        }
        Ok(())
    })?;
    let mut conditions = Vec::new();
    if !failed_in.is_empty() {
        let clusters = failed_in.join(", ");
        let message = format!("Notebook executed failed in member clusters: {clusters}");
        conditions.push(condition_now(members, "Failed", "NotebookFailed", &message));
    }
    if running == members.len() {
        let message = "All notebooks are ready";
        conditions.push(condition_now(members, "Ready", "Ready", message));
    }
    let mut status = Map::new();
    status.insert("readyReplicas".to_owned(), sum(members, "readyReplicas")?.into());
    status.insert("containerState".to_owned(), shown.unwrap_or(Value::Null));
    status.insert("conditions".to_owned(), conditions.into());
    put_status(object, status)
}

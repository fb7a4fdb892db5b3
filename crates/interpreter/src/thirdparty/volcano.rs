//! Volcano: batch jobs made of tasks.

use std::collections::BTreeMap;

use karmada_api::work::Component;
use karmada_apimachinery::time::{format_time, parse_go_duration};
use karmada_apimachinery::{Map, Value, json};

use super::blocks::{component, loose_replicas, pass_single, put_status, sum, without_zeros};
use crate::Gates;
use crate::error::Result;
use crate::fields::{count, list, map, text};
use crate::pod::template_requirements;
use crate::rules::Members;

const COUNTERS: [&str; 8] = [
    "minAvailable",
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
    "retryCount",
];

pub(super) const FIELDS: &[&str] = &[
    "minAvailable",
    "pending",
    "running",
    "succeeded",
    "failed",
    "terminating",
    "unknown",
    "version",
    "retryCount",
    "runningDuration",
    "taskStatusCount",
    "controlledResources",
    "state",
    "conditions",
];

pub(super) fn components(object: &Value, gates: Gates) -> Result<Vec<Component>> {
    let mut components = Vec::new();
    for (index, task) in list(object, &["spec", "tasks"])?.iter().enumerate() {
        let under = |e: crate::Error| e.under(&format!("spec.tasks[{index}]"));
        let name = match text(task, &["name"]).map_err(under)? {
            "" => format!("task-{index}"),
            name => name.to_owned(),
        };
        let replicas = loose_replicas(task, &["minAvailable"], 1).map_err(under)?;
        let requirements = template_requirements(task, &["template"], gates).map_err(under)?;
        components.push(component(&name, replicas, requirements));
    }
    Ok(components)
}

pub(super) fn health(object: &Value) -> Result<bool> {
    const WELL: [&str; 9] = [
        "Running",
        "Completed",
        "Pending",
        "Aborting",
        "Aborted",
        "Restarting",
        "Completing",
        "Terminating",
        "Terminated",
    ];
    Ok(WELL.contains(&text(object, &["status", "state", "phase"])?))
}

pub(super) fn aggregate(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 || pass_single(object, members)? {
        return Ok(());
    }
    let mut status = Map::new();
    for counter in COUNTERS {
        status.insert(counter.to_owned(), sum(members, counter)?.into());
    }
    let mut version = 0;
    let mut running: (Option<jiff::SignedDuration>, &str) = (None, "0s");
    let mut controlled = Map::new();
    for (_, reported) in members.reported() {
        let duration = reported.get("runningDuration").and_then(Value::as_str).unwrap_or_default();
        let parsed = parse_go_duration(duration).ok();
        if parsed > running.0 {
            running = (parsed, duration);
        }
    }
    members.each(|_, reported| {
        version = version.max(count(reported, &["version"])?);
        let resources = map(reported, &["controlledResources"])?.cloned();
        controlled.extend(resources.unwrap_or_default());
        Ok(())
    })?;
    status.insert("version".to_owned(), version.into());
    status.insert("runningDuration".to_owned(), running.1.into());
    status.insert("controlledResources".to_owned(), controlled.into());
    status.insert("taskStatusCount".to_owned(), task_counts(members)?.into());
    status.insert("conditions".to_owned(), conditions(members)?.into());
    status.insert("state".to_owned(), state(members)?);
    put_status(object, without_zeros(status))
}

/// Pods by task and phase.
fn task_counts(members: &Members<'_>) -> Result<Map> {
    let mut counts: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    members.each(|_, reported| {
        for (task, detail) in map(reported, &["taskStatusCount"])?.into_iter().flatten() {
            let phases = counts.entry(task.to_string()).or_default();
            for phase in map(detail, &["phase"])?.into_iter().flatten().map(|(phase, _)| phase) {
                let sum = phases.entry(phase.to_string()).or_default();
                *sum = sum.saturating_add(count(detail, &["phase", phase])?);
            }
        }
        Ok(())
    })?;
    Ok(counts.into_iter().map(|(task, phases)| (task, json!({ "phase": phases }))).collect())
}

/// The history of the first member that came to grief, else the latest entry of each phase.
fn conditions(members: &Members<'_>) -> Result<Vec<Value>> {
    const GRIEF: [&str; 5] = ["Failed", "Aborted", "Aborting", "Terminated", "Terminating"];
    let mut first_failed = None;
    let mut latest: BTreeMap<String, Value> = BTreeMap::new();
    members.each(|_, reported| {
        let entries = list(reported, &["conditions"])?;
        for entry in entries {
            let phase = text(entry, &["status"])?;
            if GRIEF.contains(&phase) {
                first_failed.get_or_insert_with(|| entries.to_vec());
                break;
            }
            let time = text(entry, &["lastTransitionTime"])?;
            let known = latest.get(phase).map(|known| text(known, &["lastTransitionTime"]));
            if known.transpose()?.is_none_or(|known| time > known) {
                latest.insert(phase.to_owned(), entry.clone());
            }
        }
        Ok(())
    })?;
    Ok(first_failed.unwrap_or_else(|| latest.into_values().collect()))
}

fn state(members: &Members<'_>) -> Result<Value> {
    let mut failed_in = Vec::new();
    let mut completed = 0;
    members.each(|cluster, reported| {
        match text(reported, &["state", "phase"])? {
            "Completed" => completed += 1,
            "Failed" | "Aborted" => failed_in.push(cluster.to_owned()),
            _ => {}
        }
        Ok(())
    })?;
    let state = |phase: &str, reason: &str, message: String| {
        let now = format_time(members.now);
        json!({"phase": phase, "reason": reason, "message": message, "lastTransitionTime": now})
    };
    if completed == members.len() {
        return Ok(state("Completed", "Completed", "Job completed successfully".to_owned()));
    }
    if failed_in.is_empty() {
        return Ok(json!({}));
    }
    let message = format!("Job failed in clusters: {}", failed_in.join(","));
    Ok(state("Failed", "VolcanoJobFailed", message))
}

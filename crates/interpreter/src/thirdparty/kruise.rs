//! OpenKruise: workloads beyond those of Kubernetes.

use karmada_api::config::DependentObjectReference;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

use super::blocks::{
    Conditions, Merge, Otherwise, current_status, is_true, keep_field, last, pick, put_status,
    report, sum,
};
use crate::error::Result;
use crate::fields::{count, list, map, set};
use crate::pod::{References, template_references};
use crate::rules::Members;

pub(super) const CLONE_SET: Merge = Merge {
    sums: &[
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReadyReplicas",
        "expectedUpdatedReplicas",
    ],
    last: &[
        ("updateRevision", Otherwise::BlankAmongMembers),
        ("currentRevision", Otherwise::BlankAmongMembers),
        ("labelSelector", Otherwise::BlankAmongMembers),
    ],
    conditions: Conditions::Untouched,
};

pub(super) const STATEFUL_SET: Merge = Merge {
    sums: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "updatedReadyReplicas",
    ],
    last: &[("updateRevision", Otherwise::Blank), ("currentRevision", Otherwise::Blank)],
    conditions: Conditions::Untouched,
};

pub(super) const DAEMON_SET: Merge = Merge {
    sums: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    ],
    last: &[("daemonSetHash", Otherwise::Zero)],
    conditions: Conditions::Untouched,
};

pub(super) const UNITED_DEPLOYMENT: Merge = Merge {
    sums: &[
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ],
    last: &[],
    conditions: Conditions::LastPerType,
};

/// Reports the fields that are merged.
pub(super) fn report_merged(object: &Value, rules: &Merge) -> Result<Option<Value>> {
    let last = rules.last.iter().map(|(field, _)| *field);
    let mut fields: Vec<_> = rules.sums.iter().copied().chain(last).collect();
    fields.push("observedGeneration");
    if rules.conditions != Conditions::Untouched {
        fields.push("conditions");
    }
    report(object, &fields)
}

pub(super) fn pod_dependencies(object: &Value) -> Result<Vec<DependentObjectReference>> {
    Ok(template_references(object, &["spec", "template"])?.into_list(object.namespace()))
}

pub(super) fn cron_job_dependencies(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let templates = ["broadcastJobTemplate", "jobTemplate"];
    for template in templates {
        if map(object, &["spec", "template", template])?.is_some() {
            let path = &["spec", "template", template, "spec", "template"];
            return Ok(template_references(object, path)?.into_list(object.namespace()));
        }
    }
    Ok(Vec::new())
}

pub(super) fn aggregate_cron_job(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 {
        return Ok(());
    }
    let mut active = Vec::new();
    members.each(|_, status| {
        active.extend(list(status, &["active"])?.iter().cloned());
        Ok(())
    })?;
    let mut status = current_status(object)?;
    status.insert("active".to_owned(), active.into());
    status.insert("type".to_owned(), last(members, "type").unwrap_or_else(|| "".into()));
    let scheduled = last(members, "lastScheduleTime").unwrap_or(Value::Null);
    status.insert("lastScheduleTime".to_owned(), scheduled);
    put_status(object, status)
}

const BROADCAST_JOB_COUNTERS: [&str; 4] = ["active", "succeeded", "failed", "desired"];

pub(super) fn broadcast_job_health(object: &Value) -> Result<bool> {
    let counter = |name: &str| count(object, &["status", name]);
    let is_stuck = counter("succeeded")? == 0 && counter("active")? == 0;
    Ok(counter("desired")? != 0 && counter("failed")? == 0 && !is_stuck)
}

/// Each member is judged by its own conditions.
pub(super) fn aggregate_broadcast_job(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if members.len() == 0 {
        return Ok(());
    }
    let mut failed_in = Vec::new();
    let mut complete = 0;
    members.each(|cluster, status| {
        if is_true(status, "Complete")? {
            complete += 1;
        } else if is_true(status, "Failed")? {
            failed_in.push(cluster.to_owned());
        }
        Ok(())
    })?;
    let condition = |kind: &str, reason: &str, message: String| json!({"type": kind, "status": "True", "reason": reason, "message": message});
    let mut conditions = Vec::new();
    if !failed_in.is_empty() {
        let message = format!("Job executed failed in member clusters: {}", failed_in.join(", "));
        conditions.push(condition("Failed", "JobFailed", message));
    }
    if complete == members.len() {
        conditions.push(condition("Completed", "Completed", "Job completed".to_owned()));
    }
    let mut status = current_status(object)?;
    for counter in BROADCAST_JOB_COUNTERS {
        status.insert(counter.to_owned(), sum(members, counter)?.into());
    }
    status.insert("phase".to_owned(), last(members, "phase").unwrap_or_else(|| "".into()));
    status.insert("conditions".to_owned(), conditions.into());
    put_status(object, status)
}

pub(super) fn retain_broadcast_job(desired: &mut Value, observed: &Value) -> Result<()> {
    keep_field(desired, observed, &["spec", "template", "metadata", "labels"])
}

const SIDECAR_SET_COUNTERS: [&str; 3] = ["matchedPods", "updatedPods", "readyPods"];

pub(super) fn reflect_sidecar_set(object: &Value) -> Result<Option<Value>> {
    let mut status = pick(object, &SIDECAR_SET_COUNTERS)?;
    if map(object, &["status"])?.is_some() {
        for counter in SIDECAR_SET_COUNTERS {
            status.entry(counter).or_insert(0.into());
        }
    }
    Ok(Some(Value::Object(status)))
}

pub(super) fn aggregate_sidecar_set(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let mut status = karmada_apimachinery::Map::new();
    for counter in SIDECAR_SET_COUNTERS {
        status.insert(counter.to_owned(), sum(members, counter)?.into());
    }
    set(object, &["status"], status)
}

pub(super) fn sidecar_set_health(object: &Value) -> Result<bool> {
    if map(object, &["status"])?.is_none() {
        return Ok(false);
    }
    let matched = count(object, &["status", "matchedPods"])?;
    Ok(matched == 0 || count(object, &["status", "updatedPods"])? == matched)
}

/// The specification is much like that of a pod.
pub(super) fn sidecar_set_dependencies(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let mut references = References::default();
    for container in list(object, &["spec", "containers"])? {
        references.add_container(container)?;
    }
    for volume in list(object, &["spec", "volumes"])? {
        references.add("ConfigMap", volume, &["configMap", "name"])?;
        references.add("Secret", volume, &["secret", "secretName"])?;
        for source in list(volume, &["projected", "sources"])? {
            references.add("ConfigMap", source, &["configMap", "name"])?;
            references.add("Secret", source, &["secret", "name"])?;
        }
    }
    Ok(references.into_list(object.namespace()))
}

//! Defaults of the kinds that make pods from a template, and of the autoscaler.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};

use super::pod::template_of;
use super::{is_empty_list, items, made, pod, present, storage, text};

pub(super) fn deployment(object: &mut Value) {
    template_of(object);
    let spec = made(object, "spec");
    spec.set_default(&["replicas"], 1);
    spec.set_default(&["revisionHistoryLimit"], 10);
    spec.set_default(&["progressDeadlineSeconds"], 600);
    rolling(made(spec, "strategy"), json!("25%"), json!("25%"));
}

pub(super) fn daemon_set(object: &mut Value) {
    template_of(object);
    // Compat: the count of template changes is always there, so its writer owns it from the start.
    object.set_default(&["metadata", "annotations", crate::strategy::TEMPLATE_GENERATION], "0");
    let spec = made(object, "spec");
    spec.set_default(&["revisionHistoryLimit"], 10);
    rolling(made(spec, "updateStrategy"), json!(1), json!(0));
}

fn rolling(strategy: &mut Value, max_unavailable: Value, max_surge: Value) {
    text(strategy, "type", "RollingUpdate");
    if strategy.str_at(&["type"]) == Some("RollingUpdate") {
        let update = made(strategy, "rollingUpdate");
        update.set_default(&["maxUnavailable"], max_unavailable);
        update.set_default(&["maxSurge"], max_surge);
    }
}

pub(super) fn stateful_set(object: &mut Value) {
    template_of(object);
    let spec = made(object, "spec");
    text(spec, "podManagementPolicy", "OrderedReady");
    spec.set_default(&["replicas"], 1);
    spec.set_default(&["revisionHistoryLimit"], 10);
    let retention = made(spec, "persistentVolumeClaimRetentionPolicy");
    text(retention, "whenDeleted", "Retain");
    text(retention, "whenScaled", "Retain");
    let strategy = made(spec, "updateStrategy");
    // An explicit type without parameters gets none; only the implied type brings them along.
    if strategy.str_at(&["type"]).unwrap_or_default().is_empty() {
        strategy.set(&["type"], "RollingUpdate");
        made(strategy, "rollingUpdate");
    }
    if strategy.str_at(&["type"]) == Some("RollingUpdate")
        && let Some(update) = present(strategy, "rollingUpdate")
    {
        update.set_default(&["partition"], 0);
    }
    for claim in items(spec, "volumeClaimTemplates") {
        claim.set_default(&["apiVersion"], "v1");
        claim.set_default(&["kind"], "PersistentVolumeClaim");
        storage::claim(claim);
    }
}

pub(super) fn replica_set(object: &mut Value) {
    template_of(object);
    made(object, "spec").set_default(&["replicas"], 1);
}

/// The oldest of the workloads takes selector and labels from its template.
pub(super) fn replication_controller(object: &mut Value) {
    if let Some(labels) = object.map_at(&["spec", "template", "metadata", "labels"]).cloned() {
        for place in [&["spec", "selector"], &["metadata", "labels"]] {
            if object.map_at(place).is_none_or(|map| map.is_empty()) {
                object.set(place, labels.clone());
            }
        }
    }
    let spec = made(object, "spec");
    spec.set_default(&["replicas"], 1);
    if present(spec, "template").is_some() {
        pod::pod_template(spec);
    }
}

pub(super) fn job(object: &mut Value) {
    if let Some(labels) = object.map_at(&["spec", "template", "metadata", "labels"]).cloned()
        && object.map_at(&["metadata", "labels"]).is_none_or(|map| map.is_empty())
    {
        object.set(&["metadata", "labels"], labels);
    }
    job_spec(made(object, "spec"));
    template_of(object);
}

fn job_spec(spec: &mut Value) {
    let is_set = |field: &str| spec.at(&[field]).is_some_and(|value| !value.is_null());
    if !is_set("completions") && !is_set("parallelism") {
        spec.set(&["completions"], 1);
    }
    spec.set_default(&["parallelism"], 1);
    let counts_per_index = spec.i64_at(&["backoffLimitPerIndex"]).is_some();
    spec.set_default(&["backoffLimit"], if counts_per_index { i32::MAX } else { 6 });
    spec.set_default(&["completionMode"], "NonIndexed");
    spec.set_default(&["suspend"], false);
    spec.set_default(&["manualSelector"], false);
    let replaced =
        if present(spec, "podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
    spec.set_default(&["podReplacementPolicy"], replaced);
    failure_policy(spec);
}

fn failure_policy(spec: &mut Value) {
    let Some(policy) = present(spec, "podFailurePolicy") else { return };
    for rule in items(policy, "rules") {
        for pattern in items(rule, "onPodConditions") {
            text(pattern, "status", "True");
        }
    }
}

/// The job template of a cron job gets the defaults of the pods and patterns in it, not the job's own.
pub(super) fn cron_job(object: &mut Value) {
    let spec = made(object, "spec");
    text(spec, "concurrencyPolicy", "Allow");
    spec.set_default(&["suspend"], false);
    spec.set_default(&["successfulJobsHistoryLimit"], 3);
    spec.set_default(&["failedJobsHistoryLimit"], 1);
    let template = made(spec, "jobTemplate");
    failure_policy(made(template, "spec"));
    template_of(template);
}

pub(super) fn autoscaler_v1(object: &mut Value) {
    made(object, "spec").set_default(&["minReplicas"], 1);
}

pub(super) fn autoscaler(object: &mut Value) {
    let spec = made(object, "spec");
    spec.set_default(&["minReplicas"], 1);
    if is_empty_list(spec, "metrics") {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.set(&["metrics"], json!([metric]));
    }
    let Some(behavior) = present(spec, "behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = made(behavior, "scaleUp");
    up.set_default(&["stabilizationWindowSeconds"], 0);
    up.set_default(&["policies"], json!([pods, percent]));
    up.set_default(&["selectPolicy"], "Max");
    let down = made(behavior, "scaleDown");
    down.set_default(&["policies"], json!([percent]));
    down.set_default(&["selectPolicy"], "Max");
}

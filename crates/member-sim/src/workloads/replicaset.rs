//! Keeps as many pods of a template alive as a ReplicaSet asks for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey};

use super::bursts::Bursts;
use super::pods::{Pod, Pods, from_template, rank_for_deletion, selector_of};

/// How many pods are created or deleted before the ReplicaSet is looked at again.
const BURST: usize = 500;

/// Everything a status may say beside the number of replicas.
const STATUS: [&str; 5] = [
    "availableReplicas",
    "conditions",
    "fullyLabeledReplicas",
    "readyReplicas",
    "terminatingReplicas",
];

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("claim the pods of {owner}")]
    Claim { owner: ObjectKey, source: karmada_client::Error },
    #[error("change the number of pods of {owner}")]
    Manage { owner: ObjectKey, source: karmada_client::Error },
    #[error("write the status of {owner}")]
    Status { owner: ObjectKey, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    clock: Clock,
    gvr: Gvr,
    sets: Arc<Informer>,
    pods: Pods,
}

pub(crate) fn start(manager: &Manager) {
    run(manager, Gvr::new("apps", "v1", "replicasets"), "ReplicaSet", "replicaset-controller");
}

/// ReplicationControllers are ReplicaSets of an older shape.
pub(crate) fn start_replication_controller(manager: &Manager) {
    let gvr = Gvr::new("", "v1", "replicationcontrollers");
    run(manager, gvr, "ReplicationController", "replication-controller");
}

fn run(manager: &Manager, gvr: Gvr, kind: &'static str, component: &'static str) {
    let sets = manager.informers.all(&gvr);
    let pods = Pods::new(manager, component);
    let controller = Controller::new(component, &manager.metrics).workers(2);
    let bursts: Arc<Bursts> = Arc::default();
    let (own, queue) = (bursts.clone(), controller.queue().clone());
    manager.keep(sets.subscribe(move |change| own.changed(change, &queue)));
    let queue = controller.queue().clone();
    pods.tell_owners(manager, &sets, (kind, controller.queue()), move |owner| {
        bursts.wake(owner, &queue);
    });
    let inputs = vec![sets.clone(), pods.informer.clone()];
    let (client, clock) = (manager.client.clone(), manager.clock.clone());
    let ctx = Arc::new(Ctx { client, clock, gvr, sets, pods });
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.sets.cache().get(&key) else { return Ok(Action::AwaitChange) };
    if !ctx.pods.expectations.met(&key) {
        return Ok(Action::AwaitChange);
    }
    let set = object.content();
    let selector = selector_of(&set);
    let claimed = ctx.pods.claim(&object, &ctx.gvr, &selector, None).await;
    let claimed = claimed.map_err(|source| Error::Claim { owner: key.clone(), source })?;
    let now = ctx.clock.now();
    let active: Vec<Pod> = claimed.iter().filter(|pod| pod.is_active()).cloned().collect();
    let managed = if object.is_being_deleted() {
        Ok(())
    } else {
        ctx.manage(&object, &set, &active, now).await
    };
    let failure = managed.as_ref().err().map(|(reason, error)| (*reason, error.to_string()));
    let tally = tally(&set, &claimed, now);
    let status = status_of(&set, &tally, failure, now);
    if set.at(&["status"]) != Some(&status) {
        ctx.write_status(&key, &object, status).await?;
    }
    managed.map_err(|(_, source)| Error::Manage { owner: key, source })?;
    Ok(tally.again.map_or(Action::AwaitChange, Action::Requeue))
}

impl Ctx {
    /// Creates what is missing or deletes what is too much; an error comes with its condition's reason.
    async fn manage(
        &self,
        object: &Arc<Object>,
        set: &Value,
        active: &[Pod],
        now: Timestamp,
    ) -> Result<(), (&'static str, karmada_client::Error)> {
        let wanted = set.i64_at(&["spec", "replicas"]).unwrap_or(1);
        let wanted = usize::try_from(wanted).unwrap_or_default();
        if active.len() < wanted {
            let template = set.at(&["spec", "template"]).cloned().unwrap_or_default();
            let pod = from_template(&template, object);
            let missing = vec![pod; (wanted - active.len()).min(BURST)];
            let (_, created) = self.pods.create_many(object, missing).await;
            return match created {
                // Nothing more is made in a namespace that goes.
                Err(error) if error.is_namespace_terminating() => Ok(()),
                other => other.map_err(|error| ("FailedCreate", error)),
            };
        }
        let surplus = (active.len() - wanted).min(BURST);
        if surplus > 0 {
            let mut ranked = active.to_vec();
            rank_for_deletion(&mut ranked, &per_node(active), now);
            let deleted = self.pods.delete_many(object, &ranked[..surplus]).await;
            return deleted.map_err(|error| ("FailedDelete", error));
        }
        Ok(())
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        object: &Object,
        mut status: Value,
    ) -> Result<(), Error> {
        // What is not in the new status has to be taken away by name.
        for field in STATUS {
            if status.get(field).is_none() {
                status[field] = Value::Null;
            }
        }
        let mut patch = json!({"metadata": {"uid": object.uid()}});
        patch["status"] = status;
        let api = self.client.api(&self.gvr).namespaced(&key.namespace);
        match api.merge_patch_status(&key.name, patch).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(source) => Err(Error::Status { owner: key.clone(), source }),
        }
    }
}

fn per_node(pods: &[Pod]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts.entry(pod.spec().node_name.clone()).or_default() += 1;
    }
    counts
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    replicas: i64,
    fully_labelled: i64,
    ready: i64,
    available: i64,
    terminating: i64,
    /// When the next pod becomes available by age.
    again: Option<Duration>,
}

fn tally(set: &Value, pods: &[Pod], now: Timestamp) -> Tally {
    let min_ready = set.i64_at(&["spec", "minReadySeconds"]).unwrap_or_default();
    let template = set.map_at(&["spec", "template", "metadata", "labels"]);
    let is_labelled = |pod: &Pod| {
        template.into_iter().flatten().all(|(key, value)| pod.label(key) == value.as_str())
    };
    let mut tally = Tally::default();
    for pod in pods {
        if pod.is_finished() {
            continue;
        }
        if pod.is_terminating() {
            tally.terminating += 1;
            continue;
        }
        tally.replicas += 1;
        tally.fully_labelled += i64::from(is_labelled(pod));
        tally.ready += i64::from(pod.is_ready());
        match pod.until_available(min_ready, now) {
            Some(Duration::ZERO) => tally.available += 1,
            Some(left) => tally.again = Some(tally.again.map_or(left, |again| again.min(left))),
            None => {}
        }
    }
    tally
}

/// The status as it is stored: numbers that are zero are left out, except that of the replicas.
fn status_of(
    set: &Value,
    tally: &Tally,
    failure: Option<(&'static str, String)>,
    now: Timestamp,
) -> Value {
    let mut status = json!({"replicas": tally.replicas});
    let generation = set.i64_at(&["metadata", "generation"]).unwrap_or_default();
    let mut fields = vec![
        ("fullyLabeledReplicas", tally.fully_labelled),
        ("readyReplicas", tally.ready),
        ("availableReplicas", tally.available),
        ("observedGeneration", generation),
    ];
    if set.kind() != "ReplicationController" {
        status["terminatingReplicas"] = tally.terminating.into();
    }
    fields.retain(|(_, number)| *number != 0);
    for (field, number) in fields {
        status[field] = number.into();
    }
    let conditions = conditions(set, failure, now);
    if !conditions.is_empty() {
        status["conditions"] = conditions.into();
    }
    status
}

fn conditions(set: &Value, failure: Option<(&'static str, String)>, now: Timestamp) -> Vec<Value> {
    let known = set.list_at(&["status", "conditions"]);
    let is_failure = |condition: &&Value| condition["type"] == "ReplicaFailure";
    let mut list: Vec<Value> = known.iter().filter(|c| !is_failure(c)).cloned().collect();
    if let Some((reason, message)) = failure {
        let same = known.iter().find(|c| is_failure(c) && c["reason"] == reason);
        list.push(same.cloned().unwrap_or_else(|| {
            json!({
                "type": "ReplicaFailure", "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": format_time(now),
            })
        }));
    }
    list
}

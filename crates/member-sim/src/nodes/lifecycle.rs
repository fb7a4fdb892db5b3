//! What the control plane of a cluster concludes about its nodes: one that has been silent is
//! unknown, and taints say what a pod has to tolerate to be there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Patch, PatchOptions};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey, Recorder};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::faults::Faults;
use crate::workloads::pods::Pod;

/// How long a node may be silent.
const GRACE: Duration = Duration::from_secs(40);
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taints that are set by the state of the node alone.
const OURS: [(&str, &str); 5] = [
    (NOT_READY, "NoSchedule"),
    (NOT_READY, "NoExecute"),
    (UNREACHABLE, "NoSchedule"),
    (UNREACHABLE, "NoExecute"),
    (UNSCHEDULABLE, "NoSchedule"),
];

#[derive(Debug, thiserror::Error)]
#[error("{attempt} {node}")]
struct Error {
    attempt: &'static str,
    node: String,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    clock: Clock,
    nodes: Arc<Informer>,
    pods: Arc<Informer>,
    faults: Faults,
    /// Since when nodes have been down.
    silent: Arc<Mutex<HashMap<String, Instant>>>,
    recorder: Recorder,
}

pub(super) fn start(manager: &Manager, faults: &Faults) {
    let nodes = manager.informers.all(&super::gvr());
    let pods = manager.informers.all(&crate::pods::gvr());
    super::index_by_node(pods.cache());
    let controller = Controller::new("node-lifecycle-controller", &manager.metrics);
    manager.keep(nodes.feed(controller.queue()));
    let silent: Arc<Mutex<HashMap<String, Instant>>> = Arc::default();
    let (mut trouble, since, queue) = (faults.follow(), silent.clone(), controller.queue().clone());
    manager.shutdown.spawn_until(async move {
        let mut before = BTreeSet::new();
        loop {
            let down = trouble.get().nodes_down.clone();
            since.lock().retain(|node, _| down.contains(node));
            for node in &down {
                since.lock().entry(node.clone()).or_insert_with(Instant::now);
            }
            for node in down.symmetric_difference(&before) {
                queue.add(ObjectKey::cluster(node.as_str()));
            }
            before = down;
            trouble.moved().await;
        }
    });
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        nodes: nodes.clone(),
        pods: pods.clone(),
        faults: faults.clone(),
        silent,
        recorder: manager.recorder("node-controller"),
    });
    manager.start(controller, vec![nodes, pods], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.nodes.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let mut node = object.value();
    let now = ctx.clock.now();
    let mut action = Action::AwaitChange;
    if ctx.faults.current().nodes_down.contains(key.name.as_str()) {
        let since = ctx.silent.lock().get(key.name.as_str()).copied();
        let left = since.map_or(GRACE, |since| GRACE.saturating_sub(since.elapsed()));
        if !left.is_zero() {
            action = Action::Requeue(left);
        } else if ready_status(&node) != "Unknown" {
            node = ctx.give_up(&key, &node, now).await?;
            ctx.recorder.normal(
                &*object,
                "NodeNotReady",
                format!("Node {} status is now: NodeNotReady", key.name),
            );
        }
        if left.is_zero() {
            ctx.mark_pods(&key.name, now).await?;
        }
    }
    let taints = taints_of(&node, now);
    if taints != node.list_at(&["spec", "taints"]) {
        let api = ctx.client.api(&super::gvr());
        let patch = json!({
            "metadata": {"resourceVersion": node.resource_version()},
            "spec": {"taints": taints},
        });
        match api.merge_patch(&key.name, patch).await {
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(source) => return Err(Error { attempt: "taint", node: key.name.into(), source }),
            Ok(_) => {}
        }
    }
    Ok(action)
}

fn ready_status(node: &Value) -> &str {
    let conditions = node.list_at(&["status", "conditions"]);
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready.str_at(&["status"])).unwrap_or_default()
}

/// The taints a node should have: those of others, and ours by its state.
fn taints_of(node: &Value, now: Timestamp) -> Vec<Value> {
    let present = node.list_at(&["spec", "taints"]);
    let mut due: Vec<(&str, &str)> = Vec::new();
    match ready_status(node) {
        "True" => {}
        "Unknown" => due.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        // A node that never reported is kept free, but nothing is thrown off it.
        "" => due.push((NOT_READY, "NoSchedule")),
        _ => due.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
    }
    if node.bool_at(&["spec", "unschedulable"]) == Some(true) {
        due.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let names = |taint: &Value, (key, effect): (&str, &str)| {
        taint["key"] == key && taint["effect"] == effect
    };
    let is_kept = |taint: &&Value| {
        let ours = OURS.iter().any(|row| names(taint, *row));
        !ours || due.iter().any(|row| names(taint, *row))
    };
    let mut taints: Vec<Value> = present.iter().filter(is_kept).cloned().collect();
    for row in due {
        if !taints.iter().any(|taint| names(taint, row)) {
            taints.push(json!({"key": row.0, "effect": row.1, "timeAdded": format_time(now)}));
        }
    }
    taints
}

impl Ctx {
    /// Nobody knows any more how the node is.
    async fn give_up(&self, key: &ObjectKey, node: &Value, now: Timestamp) -> Result<Value, Error> {
        let mut conditions = node.list_at(&["status", "conditions"]).to_vec();
        for condition in &mut conditions {
            if condition["type"] == "NetworkUnavailable" {
                continue;
            }
            condition["status"] = "Unknown".into();
            condition["reason"] = "NodeStatusUnknown".into();
            condition["message"] = "Kubelet stopped posting node status.".into();
            condition["lastTransitionTime"] = format_time(now).into();
        }
        let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
        let api = self.client.api(&super::gvr());
        let options = PatchOptions::default();
        let patched = api.patch_subresource(&key.name, "status", &patch, &options).await;
        patched.map_err(|source| Error { attempt: "give up", node: key.name.to_string(), source })
    }

    /// Pods nobody hears of are not ready.
    async fn mark_pods(&self, node: &str, now: Timestamp) -> Result<(), Error> {
        for object in super::pods_on(self.pods.cache(), node) {
            let pod = Pod::of(&object);
            if !pod.is_ready() || pod.is_finished() {
                continue;
            }
            let condition = json!({
                "type": "Ready", "status": "False", "lastTransitionTime": format_time(now),
            });
            let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
            let api = self.client.api(&crate::pods::gvr()).namespaced(object.namespace());
            let options = PatchOptions::default();
            match api.patch_subresource(pod.name(), "status", &patch, &options).await {
                Ok(_) => self.recorder.warning(&*object, "NodeNotReady", "Node is not ready"),
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(source) => {
                    let node = node.to_owned();
                    return Err(Error { attempt: "mark the pods of", node, source });
                }
            }
        }
        Ok(())
    }
}

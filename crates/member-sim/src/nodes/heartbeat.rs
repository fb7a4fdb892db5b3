//! Nodes show that they live: their lease at every beat, their status now and then. A node that is
//! down does neither.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::{format_micro_time, parse_time};
use karmada_client::{Client, Patch, PatchOptions};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey};

use super::describe;
use crate::config::Config;
use crate::faults::Faults;

const NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: i64 = 40;
/// How old the status of a node may become.
const STATUS_EVERY: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
#[error("heartbeat of node {node}")]
struct Error {
    node: String,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    clock: Clock,
    nodes: Arc<Informer>,
    faults: Faults,
    config: Arc<Config>,
}

pub(super) fn start(manager: &Manager, faults: Faults, config: Arc<Config>) {
    let nodes = manager.informers.all(&super::gvr());
    let controller = Controller::new("node-heartbeat", &manager.metrics);
    let queue = controller.queue().clone();
    manager.keep(nodes.subscribe({
        let queue = queue.clone();
        move |change| {
            if super::is_simulated(change.object()) {
                queue.add(ObjectKey::of(change.object()));
            }
        }
    }));
    let (mut trouble, known) = (faults.follow(), nodes.clone());
    manager.shutdown.spawn_until(async move {
        // A node that comes back reports at once.
        loop {
            trouble.moved().await;
            known.cache().keys().into_iter().for_each(|key| queue.add(key));
        }
    });
    let client = manager.client.clone().with_user_agent("kubelet");
    let clock = manager.clock.clone();
    let ctx = Arc::new(Ctx { client, clock, nodes: nodes.clone(), faults, config });
    manager.start(controller, vec![nodes], move |key| beat(key, ctx.clone()));
}

async fn beat(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(node) = ctx.nodes.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let down = ctx.faults.current().nodes_down.contains(key.name.as_str());
    if down || node.is_being_deleted() || !super::is_simulated(&node) {
        return Ok(Action::AwaitChange);
    }
    let failed = |source| Error { node: key.name.to_string(), source };
    let now = ctx.clock.now();
    let value = node.value();
    if is_status_due(&value, now) {
        let mut reported = value.clone();
        describe::complete(&mut reported, address_of(&key.name), now);
        let patch = Patch::Merge(json!({"status": reported["status"]}));
        let api = ctx.client.api(&super::gvr());
        let options = PatchOptions::default();
        let patched = api.patch_subresource(&key.name, "status", &patch, &options);
        match patched.await {
            Err(error) if !error.is_not_found() => return Err(failed(error)),
            _ => {}
        }
    }
    let every = ctx.config.heartbeat;
    if every.is_zero() {
        return Ok(Action::AwaitChange);
    }
    renew(&ctx.client, &key.name, now).await.map_err(failed)?;
    Ok(Action::Requeue(spread(every, &key.name, now)))
}

/// A few per cent more or less, so that the beats of many nodes do not fall together.
fn spread(every: Duration, node: &str, now: Timestamp) -> Duration {
    let mut hasher = DefaultHasher::new();
    (node, now.as_millisecond()).hash(&mut hasher);
    let permille = 960 + u32::try_from(hasher.finish() % 81).unwrap_or_default();
    every * permille / 1000
}

fn is_status_due(node: &karmada_apimachinery::Value, now: Timestamp) -> bool {
    let conditions = node.list_at(&["status", "conditions"]);
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    let Some(ready) = ready.filter(|ready| ready["status"] == "True") else { return true };
    let reported = ready.str_at(&["lastHeartbeatTime"]).and_then(parse_time);
    reported.is_none_or(|reported| {
        Duration::try_from(now.duration_since(reported)).unwrap_or_default() >= STATUS_EVERY
    })
}

/// An address for a node that brought none.
fn address_of(name: &str) -> String {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let [_, _, _, _, _, a, b, c] = hasher.finish().to_be_bytes();
    format!("198.{}.{b}.{c}", 18 + a % 2)
}

/// Writes the lease of a node.
pub(super) async fn renew(
    client: &Client,
    node: &str,
    now: Timestamp,
) -> karmada_client::Result<()> {
    let api = client.api(&Gvr::new("coordination.k8s.io", "v1", "leases")).namespaced(NAMESPACE);
    let renewed = json!({"spec": {"renewTime": format_micro_time(now)}});
    match api.merge_patch(node, renewed).await {
        Err(error) if error.is_not_found() => {}
        other => return other.map(drop),
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(now),
        },
    });
    match api.create(&lease).await {
        Err(error) if error.is_already_exists() => Ok(()),
        other => other.map(drop),
    }
}

//! The machines of a member: what they have, and that they are alive.

mod describe;
mod eviction;
mod heartbeat;
mod lifecycle;

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Object;
use karmada_runtime::{Cache, Manager};

use crate::config::Config;
use crate::faults::Faults;
use crate::sim::Error;

/// Nodes with this annotation are played by us; others are left alone.
// Compat: the annotation kwok knows its nodes by, so that manifests written for it work here.
pub(crate) const SIMULATED: &str = "kwok.x-k8s.io/node";

pub(crate) fn gvr() -> Gvr {
    Gvr::new("", "v1", "nodes")
}

pub(crate) fn is_simulated(node: &Object) -> bool {
    node.meta().annotations.contains_key(SIMULATED)
}

/// Creates the nodes a member starts with, Ready, unless they are there already.
pub(crate) async fn register(manager: &Manager, config: &Config) -> Result<(), Error> {
    let api = manager.client.api(&gvr());
    for index in 1..=config.nodes.count {
        let node = describe::node(config, index, manager.clock.now());
        let failed = |source| Error::Register { node: node.name().to_owned(), source };
        match api.create(&node).await {
            Err(error) if error.is_already_exists() => {}
            other => {
                other.map_err(failed)?;
                // It is Ready from the first moment: what keeps new nodes free has no cause.
                let patch = json!({"spec": {"taints": Value::Null}});
                api.merge_patch(node.name(), patch).await.map_err(failed)?;
            }
        }
        if !config.heartbeat.is_zero() {
            heartbeat::renew(&manager.client, node.name(), manager.clock.now())
                .await
                .map_err(failed)?;
        }
    }
    Ok(())
}

pub(crate) fn start(manager: &Manager, faults: &Faults, config: &Config) {
    heartbeat::start(manager, faults.clone(), Arc::new(config.clone()));
    lifecycle::start(manager, faults);
    eviction::start(manager);
}

const BY_NODE: &str = "node";

/// Lets pods be found by their node. May be called more than once.
fn index_by_node(pods: &Cache) {
    pods.add_index(BY_NODE, |object| {
        let pod: NodeOf = serde_json::from_slice(object.bytes()).unwrap_or_default();
        Some(pod.spec.node_name).filter(|node| !node.is_empty()).into_iter().collect()
    });
}

pub(crate) fn pods_on(pods: &Cache, node: &str) -> Vec<Arc<Object>> {
    pods.by_index(BY_NODE, node)
}

/// The part of a pod that names its node.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct NodeOf {
    spec: NodeName,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeName {
    node_name: String,
}

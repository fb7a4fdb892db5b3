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
use serde::Deserialize;

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
    pods.add_index(BY_NODE, |object| crate::workloads::pods::node_of(object).into_iter().collect());
}

pub(crate) fn pods_on(pods: &Cache, node: &str) -> Vec<Arc<Object>> {
    pods.by_index(BY_NODE, node)
}

/// What is asked of a node for every pod on it. Kept beside the cached text.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct View {
    spec: ViewSpec,
    status: ViewStatus,
}

karmada_apimachinery::readable!(View);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ViewSpec {
    taints: Option<Vec<Value>>,
    #[serde(rename = "podCIDR")]
    pod_cidr: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ViewStatus {
    addresses: Option<Vec<Address>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    r#type: String,
    address: String,
}

impl View {
    /// Reads a node; one that cannot be read counts as one that says nothing.
    pub(crate) fn of(node: &Object) -> Arc<Self> {
        node.typed().unwrap_or_default()
    }

    pub(crate) fn taints(&self) -> &[Value] {
        self.spec.taints.as_deref().unwrap_or_default()
    }

    /// The range that pods on the node have their addresses of.
    pub(crate) fn pod_cidr(&self) -> Option<&str> {
        self.spec.pod_cidr.as_deref()
    }

    /// The address inside of the cluster; empty if there is none.
    pub(crate) fn internal_address(&self) -> &str {
        let mut addresses = self.status.addresses.iter().flatten();
        let internal = addresses.find(|address| address.r#type == "InternalIP");
        internal.map_or("", |found| &found.address)
    }
}

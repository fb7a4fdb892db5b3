//! How a node presents itself to the API.

use jiff::Timestamp;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};

use super::SIMULATED;
use crate::config::Config;

/// What a simulated kubelet says of itself.
const VERSION: &str = "v1.36.2";

/// The conditions of a node that is well: type, status, reason, message.
const HEALTHY: [(&str, &str, &str, &str); 5] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
];

/// The object of the node with this number, counted from one.
pub(super) fn node(config: &Config, index: usize, now: Timestamp) -> Value {
    let name = format!("{}-node-{index}", config.name);
    let pool = &config.nodes;
    let resources = json!({
        "cpu": pool.cpu,
        "memory": pool.memory,
        "pods": pool.pods,
        "ephemeral-storage": pool.ephemeral_storage,
    });
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {SIMULATED: "fake"},
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
            },
        },
        "spec": {"podCIDR": pod_cidr(index), "podCIDRs": [pod_cidr(index)]},
        "status": {"capacity": resources, "allocatable": resources},
    });
    for (label, value) in [
        ("topology.kubernetes.io/region", &pool.region),
        ("topology.kubernetes.io/zone", &pool.zone),
    ] {
        if !value.is_empty() {
            node.set(&["metadata", "labels", label], value.as_str());
        }
    }
    for (label, value) in &pool.labels {
        node.set(&["metadata", "labels", label], value.as_str());
    }
    complete(&mut node, address(index), now);
    node
}

/// Fills in what a kubelet reports, keeping what is there already.
pub(super) fn complete(node: &mut Value, address: String, now: Timestamp) {
    let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let resources = json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"});
    node.set_default(&["status", "capacity"], resources);
    let capacity = node["status"]["capacity"].clone();
    node.set_default(&["status", "allocatable"], capacity);
    node.set_default(
        &["status", "addresses"],
        json!([
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ]),
    );
    node.set_default(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"], 10250);
    node.set_default(
        &["status", "nodeInfo"],
        json!({
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": "simulated://1.0",
            "kernelVersion": "6.0.0",
            "kubeProxyVersion": VERSION,
            "kubeletVersion": VERSION,
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": "Simulated Linux",
            "systemUUID": "",
        }),
    );
    node.set(&["status", "conditions"], conditions(node.get("status"), now));
}

/// The conditions of a healthy node; those that were so before keep the time since when.
pub(super) fn conditions(status: Option<&Value>, now: Timestamp) -> Value {
    let known = status.and_then(|status| status["conditions"].as_array());
    let now = format_time(now);
    let all = HEALTHY.map(|(kind, status, reason, message)| {
        let same = known
            .and_then(|known| known.iter().find(|c| c["type"] == kind && c["status"] == status));
        let since = same.and_then(|same| same["lastTransitionTime"].as_str());
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": since.unwrap_or(&now),
        })
    });
    Value::Array(all.to_vec().into())
}

/// Pods of a node have addresses of its own range.
fn pod_cidr(index: usize) -> String {
    let index = index - 1;
    format!("10.{}.{}.0/24", 128 + (index >> 8) % 128, index & 255)
}

/// Addresses of the benchmarking range reach nothing by accident.
fn address(index: usize) -> String {
    format!("198.{}.{}.{}", 18 + (index >> 16) % 2, (index >> 8) & 255, index & 255)
}

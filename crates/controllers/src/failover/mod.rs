//! Takes workloads off clusters that they must leave, without a moment in which no copy runs.
//!
//! | module | what it keeps true |
//! |---|---|
//! | [`cluster_taint_policy`] | clusters have the taints that their conditions ask for |
//! | [`application`] | nothing stays where it is unhealthy for longer than its policy tolerates |
//! | [`taint_eviction`] | nothing stays on a cluster with a NoExecute taint for longer than it tolerates |
//! | [`graceful_eviction`] | the old copy goes once its replacement is healthy, or its time is over |

pub(crate) mod application;
pub(crate) mod cluster_taint_policy;
pub(crate) mod graceful_eviction;
mod metrics;
mod state;
pub(crate) mod taint_eviction;

use karmada_api::event_reason;
use karmada_api::work::ResourceBindingSpec;
use karmada_api::{Binding, Kind};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_runtime::{ObjectReference, Recorder};

fn gvr<K: Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

/// Writes where a workload is and what it has to leave.
async fn write_evictions<B: Binding>(
    client: &Client,
    object: &Object,
    spec: &ResourceBindingSpec,
) -> Result<(), karmada_client::Error> {
    let clusters = if spec.clusters.is_empty() { Value::Null } else { json!(spec.clusters) };
    // The version makes sure that no decision of the scheduler is undone.
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version()},
        "spec": {"clusters": clusters, "gracefulEvictionTasks": spec.graceful_eviction_tasks},
    });
    let api = client.api(&gvr::<B>()).namespaced(object.namespace());
    api.merge_patch(object.name(), patch).await.map(drop)
}

/// The binding and its template: what is said about one is said about both.
fn subjects<B: Binding>(object: &Object, binding: &B) -> [ObjectReference; 2] {
    let resource = &binding.spec().resource;
    let template = ObjectReference {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        uid: resource.uid.clone(),
        resource_version: resource.resource_version.clone(),
    };
    [object.into(), template]
}

fn tell_evicted<B: Binding>(events: &Recorder, object: &Object, binding: &B, cluster: &str) {
    for about in subjects(object, binding) {
        let note = format!("Evict from cluster {cluster} succeed.");
        events.normal(about, event_reason::EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, note);
    }
}

fn tell_not_evicted<B: Binding>(events: &Recorder, object: &Object, binding: &B, why: &str) {
    for about in subjects(object, binding) {
        events.warning(about, event_reason::EVICT_WORKLOAD_FROM_CLUSTER_FAILED, why);
    }
}

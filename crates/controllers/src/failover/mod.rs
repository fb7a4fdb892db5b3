//! Takes workloads off clusters that they must leave, without a moment in which no copy runs.
//!
//! | module | what it keeps true |
//! |---|---|
//! | [`cluster_taint_policy`] | clusters have the taints that their conditions ask for |
//! | [`taint_eviction`] | nothing stays on a cluster with a NoExecute taint for longer than it tolerates |
//! | [`graceful_eviction`] | the old copy goes once its replacement is healthy, or its time is over |

pub(crate) mod cluster_taint_policy;
pub(crate) mod graceful_eviction;
mod metrics;
mod state;
pub(crate) mod taint_eviction;

use karmada_api::Binding;
use karmada_api::event_reason;
use karmada_client::Object;
use karmada_runtime::{ObjectReference, Recorder};

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

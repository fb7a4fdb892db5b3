//! Clears away pods nobody else would: those of nodes that are gone, those that wait for their end
//! without a node, and the oldest finished ones when there are too many.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::time::format_time;
use karmada_client::{Client, DeleteOptions, Result as ClientResult};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey};
use parking_lot::Mutex;

use super::pods::Pod;
use super::status::{Error, settle};

const PERIOD: Duration = Duration::from_secs(20);
/// A node must have been away so long before its pods are.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// Finished pods that may stay.
const FINISHED_LIMIT: usize = 12_500;

struct Ctx {
    client: Client,
    clock: Clock,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    /// Nodes pods name that do not exist, and since when that is known.
    missing: Mutex<std::collections::BTreeMap<String, Timestamp>>,
}

pub(crate) fn start(manager: &Manager) {
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        pods: manager.informers.all(&Gvr::new("", "v1", "pods")),
        nodes: manager.informers.all(&Gvr::new("", "v1", "nodes")),
        missing: Mutex::default(),
    });
    let controller = Controller::new("pod_gc", &manager.metrics);
    controller.queue().add(ObjectKey::cluster("all"));
    let inputs = vec![ctx.pods.clone(), ctx.nodes.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let pods: Vec<_> = ctx.pods.cache().list().iter().map(Pod::of).collect();
    let nodes = ctx.nodes.cache().keys().into_iter().map(|key| key.name.into()).collect();
    let plan = {
        let mut missing = ctx.missing.lock();
        plan(&pods, &nodes, &mut missing, ctx.clock.now(), FINISHED_LIMIT)
    };
    for pod in plan.orphaned {
        ctx.orphaned(&pod).await.map_err(|source| Error::new("pods", &key, source))?;
    }
    for pod in plan.surplus {
        ctx.delete(&pod).await.map_err(|source| Error::new("pods", &key, source))?;
    }
    Ok(Action::Requeue(PERIOD))
}

impl Ctx {
    /// Says that the pod failed before it goes, as nobody on its node will.
    async fn orphaned(&self, pod: &Pod) -> ClientResult<()> {
        if !pod.is_finished() {
            let condition = json!({"type": "DisruptionTarget", "status": "True",
                "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
                "lastTransitionTime": format_time(self.clock.now())});
            let patch = json!({"status": {"phase": "Failed", "conditions": [condition]}});
            let api = self.client.api(&Gvr::new("", "v1", "pods"));
            let api = api.namespaced(pod.object.namespace());
            let patch = karmada_client::Patch::Strategic(patch);
            let options = karmada_client::PatchOptions::default();
            settle(api.patch_subresource(pod.name(), "status", &patch, &options).await)?;
        }
        self.delete(pod).await
    }

    async fn delete(&self, pod: &Pod) -> ClientResult<()> {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: Some(pod.uid().to_owned()),
            ..DeleteOptions::default()
        };
        let api = self.client.api(&Gvr::new("", "v1", "pods"));
        settle(api.namespaced(pod.object.namespace()).delete(pod.name(), &options).await).map(drop)
    }
}

#[derive(Debug, Default)]
struct Plan {
    orphaned: Vec<Pod>,
    surplus: Vec<Pod>,
}

fn plan(
    pods: &[Pod],
    nodes: &BTreeSet<String>,
    missing: &mut std::collections::BTreeMap<String, Timestamp>,
    now: Timestamp,
    limit: usize,
) -> Plan {
    let mut plan = Plan::default();
    let node = |pod: &Pod| pod.spec().node_name.clone();
    let absent: BTreeSet<_> =
        pods.iter().map(node).filter(|name| !name.is_empty() && !nodes.contains(name)).collect();
    missing.retain(|name, _| absent.contains(name));
    for name in absent {
        missing.entry(name).or_insert(now);
    }
    let is_gone = |name: &String| {
        missing.get(name).is_some_and(|since| now.duration_since(*since) >= QUARANTINE)
    };
    for pod in pods {
        let unbound = pod.spec().node_name.is_empty() && pod.is_terminating();
        if is_gone(&pod.spec().node_name) {
            plan.orphaned.push(pod.clone());
        } else if unbound {
            plan.surplus.push(pod.clone());
        }
    }
    let mut finished: Vec<_> = pods.iter().filter(|pod| pod.is_finished()).collect();
    finished.sort_by_key(|pod| (pod.created(), pod.key()));
    let over = finished.len().saturating_sub(limit);
    plan.surplus.extend(finished[..over].iter().map(|pod| (*pod).clone()));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn pod(name: &str, node: &str, phase: &str, deleted: bool) -> Pod {
        let mut pod = json!({"metadata": {"name": name, "uid": name},
            "spec": {"nodeName": node}, "status": {"phase": phase}});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Pod::from_value(&pod)
    }

    #[test]
    fn a_node_must_be_gone_for_a_while() {
        let pods = [
            pod("a", "here", "Running", false),
            pod("b", "gone", "Running", false),
            pod("c", "", "Pending", true),
            pod("d", "", "Pending", false),
        ];
        let (nodes, mut missing) = (BTreeSet::from(["here".to_owned()]), BTreeMap::new());
        let start = Timestamp::UNIX_EPOCH;
        let names = |pods: &[Pod]| pods.iter().map(|p| p.name().to_owned()).collect::<Vec<_>>();
        let first = plan(&pods, &nodes, &mut missing, start, 10);
        assert!(first.orphaned.is_empty());
        assert_eq!(names(&first.surplus), ["c"]);
        let later = plan(&pods, &nodes, &mut missing, start + QUARANTINE, 10);
        assert_eq!(names(&later.orphaned), ["b"]);
        let back = BTreeSet::from(["here".to_owned(), "gone".to_owned()]);
        assert!(plan(&pods, &back, &mut missing, start + QUARANTINE, 10).orphaned.is_empty());
        assert!(missing.is_empty());
    }

    #[test]
    fn the_oldest_finished_pods_go_first() {
        let pods = [
            pod("a", "n", "Succeeded", false),
            pod("b", "n", "Failed", false),
            pod("c", "n", "Running", false),
        ];
        let nodes = BTreeSet::from(["n".to_owned()]);
        let plan = plan(&pods, &nodes, &mut BTreeMap::new(), Timestamp::UNIX_EPOCH, 1);
        assert_eq!(plan.surplus[0].name(), "a");
        assert_eq!(plan.surplus.len(), 1);
    }
}

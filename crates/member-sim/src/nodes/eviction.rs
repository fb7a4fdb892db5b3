//! Takes pods off nodes whose taints they do not tolerate, or tolerate only for a while.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::parse_time;
use karmada_client::{Client, DeleteOptions, Object};
use karmada_runtime::{Action, Change, Clock, Controller, Informer, Manager, ObjectKey, Recorder};

use super::View;
use crate::scheduler::tolerates;
use crate::workloads::pods::Pod;

#[derive(Debug, thiserror::Error)]
#[error("evict pod {pod}")]
struct Error {
    pod: ObjectKey,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    clock: Clock,
    nodes: Arc<Informer>,
    pods: Arc<Informer>,
    recorder: Recorder,
}

pub(super) fn start(manager: &Manager) {
    let nodes = manager.informers.all(&super::gvr());
    let pods = manager.informers.all(&crate::pods::gvr());
    super::index_by_node(pods.cache());
    let controller = Controller::new("taint-eviction-controller", &manager.metrics);
    manager.keep(nodes.feed(controller.queue()));
    let (queue, known) = (controller.queue().clone(), nodes.clone());
    manager.keep(pods.subscribe(move |change| {
        if let Change::Applied { new, .. } = change {
            let node = ObjectKey::cluster(Pod::of(new).spec().node_name.as_str());
            let tainted = |node: Arc<Object>| View::of(&node).taints().iter().any(evicts);
            if !node.name.is_empty() && known.cache().get(&node).is_some_and(tainted) {
                queue.add(node);
            }
        }
    }));
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        nodes: nodes.clone(),
        pods: pods.clone(),
        recorder: manager.recorder("taint-eviction-controller"),
    });
    manager.start(controller, vec![nodes, pods], move |key| reconcile(key, ctx.clone()));
}

fn evicts(taint: &Value) -> bool {
    taint["effect"] == "NoExecute"
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(node) = ctx.nodes.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let view = View::of(&node);
    let taints: Vec<Value> = view.taints().iter().filter(|taint| evicts(taint)).cloned().collect();
    if taints.is_empty() {
        return Ok(Action::AwaitChange);
    }
    let now = ctx.clock.now();
    let mut again: Option<Duration> = None;
    for object in super::pods_on(ctx.pods.cache(), &key.name) {
        if object.is_being_deleted() || Pod::of(&object).is_finished() {
            continue;
        }
        match time_left(&object.value(), &taints, now) {
            None => {}
            Some(Duration::ZERO) => ctx.evict(&object).await?,
            Some(left) => again = Some(again.map_or(left, |again| again.min(left))),
        }
    }
    Ok(again.map_or(Action::AwaitChange, Action::Requeue))
}

/// Returns how long a pod may stay; nothing if for ever.
fn time_left(pod: &Value, taints: &[Value], now: Timestamp) -> Option<Duration> {
    let tolerations = pod.list_at(&["spec", "tolerations"]);
    let mut least: Option<Duration> = None;
    for taint in taints {
        let matching = tolerations.iter().filter(|toleration| tolerates(toleration, taint));
        let matching: Vec<_> = matching.collect();
        if matching.is_empty() {
            return Some(Duration::ZERO);
        }
        let seconds = matching.iter().filter_map(|t| t.i64_at(&["tolerationSeconds"])).min();
        let Some(seconds) = seconds else { continue };
        let added = taint.str_at(&["timeAdded"]).and_then(parse_time).unwrap_or(now);
        let gone = Duration::try_from(now.duration_since(added)).unwrap_or_default();
        let left = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let left = left.saturating_sub(gone);
        least = Some(least.map_or(left, |least| least.min(left)));
    }
    least
}

impl Ctx {
    async fn evict(&self, pod: &Object) -> Result<(), Error> {
        let message = format!("Marking for deletion Pod {}", ObjectKey::of(pod));
        self.recorder.normal(pod, "TaintManagerEviction", message);
        let options = DeleteOptions { uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
        let api = self.client.api(&crate::pods::gvr()).namespaced(pod.namespace());
        match api.delete(pod.name(), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                Err(Error { pod: ObjectKey::of(pod), source: error })
            }
            _ => Ok(()),
        }
    }
}

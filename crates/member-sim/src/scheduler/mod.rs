//! A small scheduler: puts each pod on the node that fits and has most room, or says why none does.
//! What did not fit is tried again when something changes that could make it fit.

mod affinity;
mod fit;
mod ledger;
mod preemption;
mod verdict;

use std::collections::BTreeSet;
use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object, Patch, PatchOptions};
use karmada_runtime::{
    Action, Change, Clock, Controller, Informer, Manager, ObjectKey, Queue, Recorder,
};
use parking_lot::Mutex;

use crate::faults::Faults;
use crate::{nodes, pods};
pub(crate) use affinity::tolerates;
use ledger::{Ledger, Refused};
use preemption::{Preemption, Victim};

const NAME: &str = "default-scheduler";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("bind pod {pod} to {node}")]
    Bind { pod: ObjectKey, node: String, source: karmada_client::Error },
    #[error("make room for pod {pod}")]
    Preempt { pod: ObjectKey, source: karmada_client::Error },
    #[error("report that pod {pod} does not fit")]
    Report { pod: ObjectKey, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    clock: Clock,
    pods: Arc<Informer>,
    claims: Arc<Informer>,
    ledger: Arc<Mutex<Ledger>>,
    waiting: Arc<Waiting>,
    faults: Faults,
    recorder: Recorder,
}

/// Pods that fit nowhere, until something changes.
struct Waiting {
    keys: Mutex<BTreeSet<ObjectKey>>,
    queue: Queue<ObjectKey>,
}

impl Waiting {
    fn wake(&self) {
        for key in std::mem::take(&mut *self.keys.lock()) {
            self.queue.add(key);
        }
    }
}

pub(crate) fn start(manager: &Manager, faults: &Faults) {
    let (pods, nodes) = (manager.informers.all(&pods::gvr()), manager.informers.all(&nodes::gvr()));
    let claims = manager.informers.all(&Gvr::new("", "v1", "persistentvolumeclaims"));
    let controller = Controller::new(NAME, &manager.metrics);
    let waiting = Arc::new(Waiting { keys: Mutex::default(), queue: controller.queue().clone() });
    let ledger: Arc<Mutex<Ledger>> = Arc::default();
    let ctx = Arc::new(Ctx {
        client: manager.client.clone().with_user_agent("kube-scheduler"),
        clock: manager.clock.clone(),
        pods: pods.clone(),
        claims: claims.clone(),
        ledger: ledger.clone(),
        waiting: waiting.clone(),
        faults: faults.clone(),
        recorder: manager.recorder(NAME),
    });
    let (own, woken) = (ledger.clone(), waiting.clone());
    manager.keep(nodes.subscribe(move |change| {
        let matters = match change {
            Change::Applied { new, .. } => own.lock().apply_node(new),
            Change::Deleted(node) => own.lock().remove_node(node.name()),
        };
        if matters {
            woken.wake();
        }
    }));
    let woken = waiting.clone();
    manager.keep(pods.subscribe(move |change| match change {
        Change::Applied { new, .. } => {
            let taken = ledger.lock().apply_pod(new);
            match taken {
                ledger::Taken::Unplaced => woken.queue.add(ObjectKey::of(new)),
                ledger::Taken::Freed => woken.wake(),
                ledger::Taken::Placed => {}
            }
        }
        Change::Deleted(pod) => {
            woken.keys.lock().remove(&ObjectKey::of(pod));
            let mut ledger = ledger.lock();
            if ledger.remove_pod(pod.uid()) | ledger.forget(pod.uid()) {
                woken.wake();
            }
        }
    }));
    let woken = waiting.clone();
    manager.keep(claims.subscribe(move |_| woken.wake()));
    let mut trouble = faults.follow();
    manager.shutdown.spawn_until(async move {
        loop {
            trouble.moved().await;
            waiting.wake();
        }
    });
    manager.start(controller, vec![pods, nodes, claims], move |key| schedule(key, ctx.clone()));
}

async fn schedule(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.pods.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let pod = object.content();
    if !is_ours(&pod) {
        return Ok(Action::AwaitChange);
    }
    let full = ctx.faults.current().full;
    let verdict = match ctx.missing_claim(&pod) {
        Some(why) => Err(ctx.ledger.lock().refuse_everywhere(&why)),
        None => ctx.ledger.lock().place(&object, &pod, full),
    };
    match verdict {
        Ok(node) => ctx.bind(&key, &object, &node).await,
        Err(refused) => {
            let action = ctx.refuse(&key, &object, &pod, &refused).await?;
            if let Some(preemption) = &refused.preemption {
                ctx.preempt(&key, &object, preemption).await?;
            }
            Ok(action)
        }
    }
}

/// Whether a pod waits for this scheduler.
fn is_ours(pod: &Value) -> bool {
    let text = |path: &[&str]| pod.str_at(path).unwrap_or_default().to_owned();
    text(&["spec", "nodeName"]).is_empty()
        && matches!(text(&["spec", "schedulerName"]).as_str(), "" | NAME)
        && !pod.is_being_deleted()
        && !matches!(text(&["status", "phase"]).as_str(), "Succeeded" | "Failed")
        && pod.list_at(&["spec", "schedulingGates"]).is_empty()
}

impl Ctx {
    /// Why the claims a pod mounts keep it from every node, if they do. Nobody makes claims for
    /// ephemeral volumes here, so those are not waited for.
    fn missing_claim(&self, pod: &Value) -> Option<String> {
        let volumes = pod.list_at(&["spec", "volumes"]).iter();
        let mut names =
            volumes.filter_map(|volume| volume.str_at(&["persistentVolumeClaim", "claimName"]));
        names.find_map(|name| {
            let claim = self.claims.cache().get(&ObjectKey::new(pod.namespace(), name));
            let Some(claim) = claim else {
                return Some(format!("persistentvolumeclaim \"{name}\" not found"));
            };
            let is_bound = claim.value().str_at(&["status", "phase"]) == Some("Bound");
            (!is_bound).then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
        })
    }

    async fn bind(&self, key: &ObjectKey, pod: &Object, node: &str) -> Result<Action, Error> {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.uid()},
            "target": {"kind": "Node", "name": node},
        });
        let api = self.client.api(&pods::gvr()).namespaced(&key.namespace);
        match api.create_subresource(&key.name, "binding", &binding).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() || error.is_conflict() => {
                self.ledger.lock().remove_pod(pod.uid());
                return Ok(Action::AwaitChange);
            }
            Err(source) => {
                self.ledger.lock().remove_pod(pod.uid());
                return Err(Error::Bind { pod: key.clone(), node: node.to_owned(), source });
            }
        }
        let message = format!("Successfully assigned {key} to {node}");
        self.recorder.normal(pod, "Scheduled", message);
        Ok(Action::AwaitChange)
    }

    /// Notes why a pod fits nowhere, once for each reason.
    async fn refuse(
        &self,
        key: &ObjectKey,
        object: &Object,
        pod: &Value,
        Refused { why, preemption }: &Refused,
    ) -> Result<Action, Error> {
        self.waiting.keys.lock().insert(key.clone());
        let conditions = pod.list_at(&["status", "conditions"]);
        let old = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
        let is_noted = |old: &Value| {
            old["status"] == "False"
                && old["reason"] == "Unschedulable"
                && old["message"] == why.as_str()
        };
        if old.is_some_and(is_noted) && preemption.is_none() {
            return Ok(Action::AwaitChange);
        }
        let since = old.filter(|old| old["status"] == "False");
        let since = since.and_then(|old| old.str_at(&["lastTransitionTime"]));
        let now = format_time(self.clock.now());
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
            "lastProbeTime": null, "lastTransitionTime": since.unwrap_or(&now),
            "observedGeneration": pod.i64_at(&["metadata", "generation"]),
        });
        let mut patch =
            json!({"metadata": {"uid": object.uid()}, "status": {"conditions": [condition]}});
        if let Some(Preemption { node, .. }) = preemption {
            patch["status"]["nominatedNodeName"] = node.as_str().into();
        }
        let api = self.client.api(&pods::gvr()).namespaced(&key.namespace);
        let (patch, options) = (Patch::Strategic(patch), PatchOptions::default());
        match api.patch_subresource(&key.name, "status", &patch, &options).await {
            Ok(_) => self.recorder.warning(object, "FailedScheduling", why.as_str()),
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(source) => return Err(Error::Report { pod: key.clone(), source }),
        }
        Ok(Action::AwaitChange)
    }

    /// Asks the pods in the way to leave.
    async fn preempt(
        &self,
        key: &ObjectKey,
        object: &Object,
        Preemption { node, victims }: &Preemption,
    ) -> Result<(), Error> {
        let failed = |source| Error::Preempt { pod: key.clone(), source };
        for Victim { key, uid } in victims {
            let Some(victim) = self.pods.cache().get(key).filter(|pod| pod.uid() == uid) else {
                continue;
            };
            if victim.is_being_deleted() {
                continue;
            }
            let api = self.client.api(&pods::gvr()).namespaced(&key.namespace);
            let generation = victim.value().i64_at(&["metadata", "generation"]);
            let condition = preemption::disruption(&format_time(self.clock.now()), generation);
            let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
            let (patch, options) = (Patch::Strategic(patch), PatchOptions::default());
            match api.patch_subresource(&key.name, "status", &patch, &options).await {
                Err(error) if error.is_not_found() || error.is_conflict() => continue,
                other => other.map(drop).map_err(failed)?,
            }
            let options = DeleteOptions { uid: Some(uid.clone()), ..DeleteOptions::default() };
            match api.delete(&key.name, &options).await {
                Err(error) if error.is_not_found() || error.is_conflict() => continue,
                other => other.map(drop).map_err(failed)?,
            }
            let why = format!("Preempted by pod {} on node {node}", object.uid());
            self.recorder.normal(&*victim, "Preempted", why);
        }
        Ok(())
    }
}

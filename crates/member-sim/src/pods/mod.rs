//! The life of pods on their nodes: what kubelets do, without containers.
//!
//! A pod starts at once and runs for ever, unless something says otherwise. Annotations of a pod
//! (that is, of its template) that script its life, durations as in `1m30s`:
//!
//! | `sim.karmada.io/…` | effect |
//! |---|---|
//! | `start-delay: 5s` | its containers are being created for so long |
//! | `ready-delay: 2s` | it runs for so long before it is ready |
//! | `run-for: 10s` | its containers exit after so long |
//! | `exit-code: "1"` | what they exit with, at once unless `run-for` is given |
//! | `exit-reason: OOMKilled` | why, if not `Error` or `Completed` |
//! | `crash-loop: "true"` | its containers crash after a second, again and again |
//! | `image-pull: never` | its images cannot be pulled |
//! | `stop-delay: 3s` | it takes so long to stop, within its grace period |
//! | `hold: "true"` | it stays bound and Pending |
//!
//! A duration may be a range, `1s-5s`: each pod draws its own. [`Timeline`] says the same for all
//! pods of a member that do not say otherwise themselves, [`Timeline::general`] is one that takes
//! its time. kwok's `pod-ready.stage.kwok.x-k8s.io/delay`, `pod-complete…` and `pod-delete…` are
//! understood as `start-delay`, `run-for` and `stop-delay`.
//!
//! Pods of a Job succeed after a second, unless they run the pause image or sleep for 100 seconds or
//! more. Faults of the member act on top ([`crate::Faults`]).

mod addresses;
mod events;
mod life;
mod script;
mod status;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object};
use karmada_runtime::{Action, Change, Clock, Controller, Informer, Manager, ObjectKey};
use parking_lot::Mutex;

use crate::faults::{Faults, Trouble};
use crate::nodes;
use crate::workloads::pods::Pod;
use addresses::Addresses;
use events::Notes;
use life::{Machine, Plan, Step};
use script::Script;
pub use script::{ParseTimeline, Timeline};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("report the status of pod {pod}")]
    Report { pod: ObjectKey, source: karmada_client::Error },
    #[error("remove the stopped pod {pod}")]
    Remove { pod: ObjectKey, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    clock: Clock,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    faults: Faults,
    timeline: Timeline,
    addresses: Addresses,
    notes: Notes,
    /// What came of reports: it holds nothing new.
    reported: Mutex<HashMap<ObjectKey, Reported>>,
}

/// A pod as it was reported.
struct Reported {
    version: String,
    /// The faults known then.
    trouble: Arc<Trouble>,
    /// When there will be more to report.
    due: Option<Timestamp>,
}

impl Reported {
    /// What is left to do while the pod and everything around it are as they were: to wait for the
    /// time of the next report. Once that has come, the pod is to be looked at.
    fn rest(&self, version: &str, trouble: &Arc<Trouble>, now: Timestamp) -> Option<Action> {
        if self.version != version || !Arc::ptr_eq(&self.trouble, trouble) {
            return None;
        }
        let Some(due) = self.due else { return Some(Action::AwaitChange) };
        let left = Duration::try_from(due.duration_since(now)).ok()?;
        (!left.is_zero()).then_some(Action::Requeue(left))
    }
}

pub(crate) fn gvr() -> Gvr {
    Gvr::new("", "v1", "pods")
}

/// Starts the kubelets of all simulated nodes.
pub(crate) fn start(manager: &Manager, faults: &Faults, timeline: &Timeline) {
    let (pods, nodes) = (manager.informers.all(&gvr()), manager.informers.all(&nodes::gvr()));
    let controller = Controller::new("kubelet", &manager.metrics).workers(4);
    let queue = controller.queue().clone();
    let client = manager.client.clone().with_user_agent("kubelet");
    let ctx = Arc::new(Ctx {
        client: client.clone(),
        clock: manager.clock.clone(),
        pods: pods.clone(),
        nodes: nodes.clone(),
        faults: faults.clone(),
        timeline: timeline.clone(),
        addresses: Addresses::default(),
        notes: Notes::new(manager),
        reported: Mutex::default(),
    });
    let own = ctx.clone();
    let bound = queue.clone();
    manager.keep(pods.subscribe(move |change| match change {
        Change::Applied { new, .. } => {
            if !Pod::of(new).spec().node_name.is_empty() {
                bound.add(ObjectKey::of(new));
            }
        }
        Change::Deleted(pod) => {
            own.reported.lock().remove(&ObjectKey::of(pod));
            own.addresses.release(pod.uid());
        }
    }));
    let (mut trouble, known) = (faults.follow(), pods.clone());
    manager.shutdown.spawn_until(async move {
        loop {
            trouble.moved().await;
            known.cache().keys().into_iter().for_each(|key| queue.add(key));
        }
    });
    manager.start(controller, vec![pods, nodes], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.pods.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let trouble = ctx.faults.current();
    let now = ctx.clock.now();
    let last = ctx.reported.lock().remove(&key);
    let rest = last.and_then(|last| last.rest(object.resource_version(), &trouble, now));
    if let Some(rest) = rest {
        return Ok(rest);
    }
    let pod = object.content();
    let Some(node) = ctx.machine_of(&pod) else { return Ok(Action::AwaitChange) };
    let plan = ctx.plan(&object, &pod, &node, (now, &trouble));
    match plan.step {
        Step::Rest => {}
        Step::Remove => return ctx.remove(&key, &object).await,
        Step::Report(status) => {
            let due = plan.again.and_then(|again| now.checked_add(again).ok());
            if !ctx.report(&key, &object, status, (trouble, due)).await? {
                return Ok(Action::AwaitChange);
            }
            ctx.notes.tell(&object, &pod, plan.notes, now);
        }
    }
    Ok(plan.again.map_or(Action::AwaitChange, Action::Requeue))
}

impl Ctx {
    fn plan(
        &self,
        object: &Object,
        pod: &Value,
        (node, host): &(Arc<Object>, String),
        (now, trouble): (Timestamp, &Trouble),
    ) -> Plan {
        let script = Script::of(pod, &self.timeline, trouble);
        let address = || self.addresses.lend(object, node, host, pod);
        let machine = Machine { host: host.clone(), address: &address };
        life::advance(pod, &script, now, &machine)
    }

    /// Returns the node of a pod and its address, if its kubelet is one of ours and alive.
    fn machine_of(&self, pod: &Value) -> Option<(Arc<Object>, String)> {
        let name = pod.str_at(&["spec", "nodeName"]).filter(|name| !name.is_empty())?;
        if self.faults.current().nodes_down.contains(name) {
            return None;
        }
        let node = self.nodes.cache().get(&ObjectKey::cluster(name))?;
        if !nodes::is_simulated(&node) {
            return None;
        }
        let address = nodes::View::of(&node).internal_address().to_owned();
        Some((node, address))
    }

    /// Writes the status; whether it still was the pod that was looked at.
    async fn report(
        &self,
        key: &ObjectKey,
        object: &Object,
        status: Value,
        (trouble, due): (Arc<Trouble>, Option<Timestamp>),
    ) -> Result<bool, Error> {
        let mut patch = json!({
            "metadata": {"resourceVersion": object.resource_version(), "uid": object.uid()},
        });
        patch["status"] = status;
        let api = self.client.api(&gvr()).namespaced(&key.namespace);
        match api.merge_patch_status(&key.name, patch).await {
            Ok(reported) => {
                let version = reported.resource_version().to_owned();
                self.reported.lock().insert(key.clone(), Reported { version, trouble, due });
                Ok(true)
            }
            // The newer pod is on its way to the cache.
            Err(error) if error.is_conflict() || error.is_not_found() => Ok(false),
            Err(source) => Err(Error::Report { pod: key.clone(), source }),
        }
    }

    async fn remove(&self, key: &ObjectKey, object: &Object) -> Result<Action, Error> {
        let options = DeleteOptions {
            uid: Some(object.uid().to_owned()),
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        let api = self.client.api(&gvr()).namespaced(&key.namespace);
        match api.delete(&key.name, &options).await {
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(source) => return Err(Error::Remove { pod: key.clone(), source }),
            Ok(_) => {}
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_was_reported_rests_until_its_next_step_is_due() {
        let now = Timestamp::UNIX_EPOCH;
        let (trouble, later) = (Arc::new(Trouble::default()), now + Duration::from_secs(2));
        let reported = |due| Reported { version: "7".to_owned(), trouble: trouble.clone(), due };
        let forever = reported(None);
        assert!(matches!(forever.rest("7", &trouble, now), Some(Action::AwaitChange)));
        assert!(forever.rest("8", &trouble, now).is_none(), "somebody else wrote");
        assert!(forever.rest("7", &Arc::default(), now).is_none(), "faults changed");
        let waiting = reported(Some(later));
        let two = Duration::from_secs(2);
        assert!(
            matches!(waiting.rest("7", &trouble, now), Some(Action::Requeue(left)) if left == two)
        );
        assert!(
            waiting.rest("7", &trouble, later).is_none(),
            "a look that came with the news counts"
        );
    }
}

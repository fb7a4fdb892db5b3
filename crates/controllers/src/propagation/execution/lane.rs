//! The lane of one cluster: takes Works one by one, delivers those that changed, and writes down
//! once what came of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::conditions::work as condition;
use karmada_api::event_reason;
use karmada_api::meta::{Condition, find_condition, set_condition};
use karmada_api::work::WorkStatus;
use karmada_apimachinery::json;
use karmada_client::{Api, Object};
use karmada_runtime::{
    Action, Controller, Hashed, ObjectKey, Priority, Queue, RateLimit, Shutdown,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::member::{Delivered, Refusal, Site};
use super::{Running, ready};
use crate::members::Member;
use crate::propagation::templates;
use crate::propagation::works::{self, HeadName, Load, WorkView};
use crate::status::work::{self as report, Reflection};

/// Works of one member that are in delivery at the same time.
const WORKERS: usize = 48;

/// The state of one Work is not written more often than this.
const REPORT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("understand the work")]
    Decode(#[from] serde_json::Error),
    #[error("{0}")]
    Apply(String),
    #[error("write the status")]
    Status(#[source] karmada_client::Error),
    #[error("let {object} go")]
    Farewell { object: String, source: Refusal },
    #[error("remove the finalizer")]
    Release(#[source] karmada_client::Error),
    #[error("reflect the status of {0}")]
    Reflect(String),
    #[error("follow what was delivered")]
    Follow(#[from] templates::Error),
}

pub(super) struct Lane {
    pub(super) cluster: String,
    pub(super) running: Arc<Running>,
    queue: Queue<ObjectKey>,
    shutdown: Shutdown,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The member while it can be reached.
    site: Option<Arc<Site>>,
    /// Works that are to be delivered, not only looked at.
    due: HashSet<ObjectKey, Hashed>,
    /// Works that wait for the cluster.
    waiting: BTreeSet<ObjectKey>,
    /// Which states were written lately.
    written: HashMap<ObjectKey, Written, Hashed>,
    /// How many of those are looked through for what is no longer needed.
    many: usize,
}

struct Written {
    /// What was written, until the cache has it.
    status: Option<Box<WorkStatus>>,
    version: u64,
    at: Instant,
}

/// Fewer states that were written are not worth looking through.
const FEW: usize = 64;

impl State {
    fn note_written(&mut self, work: ObjectKey, status: WorkStatus, version: u64) {
        if self.written.len() >= self.many.max(FEW) {
            let is_needed = |written: &Written| {
                written.status.is_some() || written.at.elapsed() <= REPORT_PAUSE
            };
            self.written.retain(|_, written| is_needed(written));
            self.many = self.written.len() * 2;
            self.written.shrink_to(self.many);
        }
        let written = Written { status: Some(Box::new(status)), version, at: Instant::now() };
        self.written.insert(work, written);
    }
}

impl Lane {
    pub(super) fn open(running: &Arc<Running>, cluster: &str) -> Arc<Self> {
        let context = &running.context;
        // Members fail alone: what one of them retries takes nothing from the others.
        let told = &context.options.rate_limit;
        let limit = RateLimit {
            base: told.base,
            max: told.max.min(Duration::from_secs(60)),
            per_second: told.per_second.max(1000.0),
            burst: told.burst.max(1000.0),
        };
        let workers = WORKERS.max(context.options.workers);
        let controller = Controller::with_limit("execution-controller", &context.metrics, limit)
            .workers(workers);
        let shutdown = context.shutdown.child();
        let lane = Arc::new(Self {
            cluster: cluster.to_owned(),
            running: running.clone(),
            queue: controller.queue().clone(),
            shutdown: shutdown.clone(),
            state: Mutex::default(),
        });
        let (own, inputs) = (lane.clone(), [running.works.clone(), running.clusters.clone()]);
        let (begin, interpretation) = (shutdown.clone(), context.interpretation.clone());
        shutdown.spawn_until(async move {
            interpretation.known().await;
            for input in inputs {
                input.wait_synced().await;
            }
            controller.start(&begin, move |key| own.clone().pass(key));
            begin.triggered().await;
        });
        lane
    }

    pub(super) fn close(&self) {
        self.shutdown.trigger();
        self.state.lock().site = None;
    }

    /// Takes up a member; everything is compared with it anew.
    pub(super) fn attach(self: &Arc<Self>, member: Arc<Member>) {
        let before = self.state.lock().site.replace(Arc::new(Site::new(member)));
        drop(before);
        self.deliver_all();
    }

    /// Compares everything with the member anew.
    pub(super) fn deliver_all(&self) {
        let namespace = karmada_api::names::execution_space(&self.cluster);
        for work in self.running.works.cache().list_namespace(&namespace) {
            self.deliver(ObjectKey::of(&work), Priority::Low);
        }
    }

    pub(super) fn detach(&self, member: &Arc<Member>) {
        let mut state = self.state.lock();
        let is_current = |site: &Arc<Site>| Arc::ptr_eq(&site.member, member);
        let left = state.site.take_if(|site| is_current(site));
        drop(state);
        drop(left);
    }

    pub(super) fn deliver(&self, work: ObjectKey, priority: Priority) {
        self.state.lock().due.insert(work.clone());
        self.queue.add_with_priority(work, priority);
    }

    pub(super) fn deliver_after(&self, work: ObjectKey, delay: Duration) {
        self.state.lock().due.insert(work.clone());
        self.queue.add_after(work, delay);
    }

    /// Looks at the state of what a Work delivered; a storm of changes is looked at once.
    pub(super) fn look(&self, work: ObjectKey) {
        let last = self.state.lock().written.get(&work).map(|written| written.at.elapsed());
        let pause = last.map_or(Duration::ZERO, |ago| REPORT_PAUSE.saturating_sub(ago));
        self.queue.add_after(work, pause);
    }

    /// Takes in that the cache has this state of a Work: what was written until then need not be kept.
    pub(super) fn note_cached(&self, key: &ObjectKey, work: &Object) {
        if let Some(written) = self.state.lock().written.get_mut(key)
            && work.resource_version().parse().is_ok_and(|version: u64| version >= written.version)
        {
            written.status = None;
        }
    }

    /// Goes on with what waited for the cluster.
    pub(super) fn wake(&self) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        for work in waiting {
            self.deliver(work, Priority::Normal);
        }
    }

    /// A Work for this cluster.
    pub(super) fn work(&self, name: &str) -> ObjectKey {
        ObjectKey::new(karmada_api::names::execution_space(&self.cluster), name)
    }

    pub(super) fn site(&self) -> Option<Arc<Site>> {
        self.state.lock().site.clone()
    }

    /// Comes back when the cluster is reachable again.
    pub(super) fn wait(&self, work: &ObjectKey) -> Action {
        let mut state = self.state.lock();
        state.due.insert(work.clone());
        state.waiting.insert(work.clone());
        drop(state);
        // The cluster may have come back before this was noted.
        let is_ready = self.running.cluster(&self.cluster).is_some_and(|cluster| ready(&cluster));
        if is_ready && self.site().is_some() {
            self.wake();
        }
        Action::AwaitChange
    }

    pub(super) fn forget(&self, work: &ObjectKey) {
        let mut state = self.state.lock();
        state.due.remove(work);
        state.waiting.remove(work);
        state.written.remove(work);
    }

    async fn pass(self: Arc<Self>, key: ObjectKey) -> Result<Action, Error> {
        let Some(work) = self.running.works.cache().get(&key) else {
            self.forget(&key);
            return Ok(Action::AwaitChange);
        };
        let is_due = self.state.lock().due.remove(&key);
        let Some(cluster) = self.running.cluster(&self.cluster) else {
            self.state.lock().waiting.insert(key);
            return Ok(Action::AwaitChange);
        };
        let lanes = &self.running.context.lanes;
        let result = if work.is_being_deleted() {
            if !lanes.deliver() {
                return Ok(Action::AwaitChange);
            }
            self.farewell(&work, &*works::view(&work)?, &cluster).await
        } else if is_due && lanes.deliver() {
            // Delivering leads to another state of the Work, so nobody will read this one again.
            let load: Load = work.read_without_record()?;
            self.execute(&work, &load, ready(&cluster)).await
        } else if is_due && !ready(&cluster) {
            return Ok(self.wait(&key));
        } else if lanes.report() {
            self.look_at(&work, &*works::view(&work)?).await
        } else {
            Ok(Action::AwaitChange)
        };
        if result.is_err() && (is_due || work.is_being_deleted()) {
            self.state.lock().due.insert(key);
        }
        result
    }

    /// Brings the objects of a Work to the member, and what became of them into its status.
    async fn execute(
        self: &Arc<Self>,
        work: &Object,
        load: &Load,
        is_ready: bool,
    ) -> Result<Action, Error> {
        let (key, view) = (ObjectKey::of(work), &load.view);
        let before = self.status_of(work, view);
        let mut status = before.clone();
        let suspended = view.spec.suspend_dispatching == Some(true);
        let dispatching = self.note_dispatching(&mut status, suspended);
        let site = self.site().filter(|_| is_ready);
        let Some(site) = site.as_ref().filter(|_| !suspended) else {
            let is_applied = find_condition(&before.conditions, condition::APPLIED)
                .is_some_and(|applied| applied.is_true());
            self.write(work, &before, status).await?;
            self.tell_dispatching(work, dispatching);
            return match site {
                None => Ok(self.wait(&key)),
                // What was delivered goes on to report.
                Some(_) if is_applied && self.running.context.lanes.report() => {
                    self.look_at(work, view).await
                }
                Some(_) => Ok(Action::AwaitChange),
            };
        };
        let began = Instant::now();
        let Some(delivery) = site.deliver(self, &key, load).await else {
            // The cache of this kind is being filled; it brings the Work back.
            self.state.lock().due.insert(key);
            return Ok(Action::AwaitChange);
        };
        let told = self.tell_delivery(work, view, delivery, &before, status, dispatching).await;
        self.running.durations.took(began, told.is_ok());
        told.map(|()| Action::AwaitChange)
    }

    /// Writes down what became of the objects of a Work; an error if not all is well.
    async fn tell_delivery(
        &self,
        work: &Object,
        view: &WorkView,
        delivery: Vec<Delivered>,
        before: &WorkStatus,
        mut status: WorkStatus,
        dispatching: Option<&'static str>,
    ) -> Result<(), Error> {
        let failures: Vec<&str> = delivery.iter().filter_map(|d| d.failure()).collect();
        let applied = applied_condition(delivery.len(), &failures);
        let known = find_condition(&before.conditions, condition::APPLIED);
        let news = known.is_none_or(|known| known.message != applied.message)
            || delivery.iter().any(Delivered::wrote);
        let failed = applied.is_false().then(|| aggregate(&failures));
        set_condition(&mut status.conditions, applied, self.now());
        let reflection = self.reflect(work, view, &delivery, &mut status);
        self.write(work, before, status).await?;
        self.tell_dispatching(work, dispatching);
        if news {
            self.tell_applied(work, view, &delivery, failed.as_deref());
        }
        reflection.tell(&self.running.status_events, work);
        match (failed, reflection.failed) {
            (Some(failed), _) => Err(Error::Apply(failed)),
            (None, Some(object)) => Err(Error::Reflect(object)),
            (None, None) => Ok(()),
        }
    }

    /// Looks at the objects without sending anything, unless one is not as it was left.
    async fn look_at(self: &Arc<Self>, work: &Object, view: &WorkView) -> Result<Action, Error> {
        let Some(site) = self.site() else { return Ok(Action::AwaitChange) };
        if !site.attend(self, &ObjectKey::of(work), view).await? {
            return Ok(Action::AwaitChange);
        }
        let (seen, drifted) = site.look(&self.running.kinds, view);
        let before = self.status_of(work, view);
        let mut status = before.clone();
        let reflection = self.reflect(work, view, &seen, &mut status);
        self.write(work, &before, status).await?;
        reflection.tell(&self.running.status_events, work);
        let is_held =
            view.spec.suspend_dispatching == Some(true) || !self.running.context.lanes.deliver();
        if drifted && !is_held {
            self.deliver(ObjectKey::of(work), Priority::Normal);
        }
        match reflection.failed {
            Some(object) => Err(Error::Reflect(object)),
            None => Ok(Action::AwaitChange),
        }
    }

    fn now(&self) -> karmada_api::wire::Time {
        self.running.context.clock.now().into()
    }

    fn reflect(
        &self,
        work: &Object,
        view: &WorkView,
        delivery: &[Delivered],
        status: &mut WorkStatus,
    ) -> Reflection {
        if !self.running.context.lanes.report() {
            return Reflection::default();
        }
        let objects: Vec<_> = delivery.iter().map(Delivered::object).collect();
        let interpreter = &self.running.context.interpreter;
        report::reflect(
            interpreter,
            &ObjectKey::of(work),
            &view.spec.workload.manifests,
            &objects,
            status,
        )
    }

    /// The status as it stands, our last write included.
    fn status_of(&self, work: &Object, view: &WorkView) -> WorkStatus {
        let mut state = self.state.lock();
        let version: u64 = work.resource_version().parse().unwrap_or(u64::MAX);
        match state.written.get(&ObjectKey::of(work)) {
            Some(Written { version: newer, status, .. }) if *newer > version => match status {
                Some(status) => WorkStatus::clone(status),
                None => {
                    // The cache has it by now.
                    drop(state);
                    let cached = self.running.works.cache().get(&ObjectKey::of(work));
                    let cached = cached.and_then(|cached| works::view(&cached).ok());
                    cached.map_or_else(|| view.status.clone(), |cached| cached.status.clone())
                }
            },
            Some(written) => {
                // It is kept only to know when it was.
                if written.at.elapsed() > REPORT_PAUSE {
                    state.written.remove(&ObjectKey::of(work));
                }
                view.status.clone()
            }
            None => view.status.clone(),
        }
    }

    pub(super) fn api(&self, work: &Object) -> Api {
        self.running.context.client.api(&works::gvr()).namespaced(work.namespace())
    }

    async fn write(
        &self,
        work: &Object,
        before: &WorkStatus,
        status: WorkStatus,
    ) -> Result<(), Error> {
        if *before == status {
            return Ok(());
        }
        // One lane writes the status of a Work, so nobody's change can be lost. A merge patch would
        // drop the nulls that members have in theirs.
        let operations = json!([
            {"op": "test", "path": "/metadata/uid", "value": work.uid()},
            {"op": "add", "path": "/status", "value": status},
        ]);
        match self.api(work).json_patch_status(work.name(), operations).await {
            Ok(answer) => {
                use karmada_apimachinery::object::ObjectExt;
                let version = answer.resource_version().parse().unwrap_or_default();
                let key = ObjectKey::of(work);
                self.state.lock().note_written(key.clone(), status, version);
                // The cache may have been faster than the answer, and does not tell a second time.
                if let Some(cached) = self.running.works.cache().get(&key) {
                    self.note_cached(&key, &cached);
                }
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(Error::Status(error)),
        }
    }

    /// Sets the `Dispatching` condition; returns the message to tell if that is news.
    fn note_dispatching(&self, status: &mut WorkStatus, suspended: bool) -> Option<&'static str> {
        let (truth, reason, message) = if suspended {
            let reason = condition::reason::SUSPEND_DISPATCHING;
            ("False", reason, "Work dispatching is in a suspended state.")
        } else {
            let reason = condition::reason::DISPATCHING;
            ("True", reason, "Work is being dispatched to member clusters.")
        };
        let known = find_condition(&status.conditions, condition::DISPATCHING);
        if known.is_some_and(|known| known.status == truth) {
            return None;
        }
        let new = condition_of(condition::DISPATCHING, truth, reason, message);
        set_condition(&mut status.conditions, new, self.now());
        Some(message)
    }

    fn tell_dispatching(&self, work: &Object, message: Option<&'static str>) {
        if let Some(message) = message {
            self.running.events.normal(work, event_reason::WORK_DISPATCHING, message);
        }
    }

    fn tell_applied(
        &self,
        work: &Object,
        view: &WorkView,
        delivery: &[Delivered],
        failed: Option<&str>,
    ) {
        let (events, cluster, key) =
            (&self.running.events, self.cluster.as_str(), ObjectKey::of(work));
        for (head, delivered) in view.spec.workload.manifests.iter().zip(delivery) {
            let Some(template) = delivered.template(head) else { continue };
            let HeadName { namespace, name } = &head.metadata;
            match delivered.failure() {
                None => events.normal(
                    template,
                    event_reason::SYNC_SUCCEED,
                    format_args!(
                        "Successfully applied resource({namespace}/{name}) to cluster {cluster}"
                    ),
                ),
                Some(failure) => events.warning(
                    template,
                    event_reason::SYNC_FAILED,
                    format_args!(
                        "Failed to create or update resource({namespace}/{name}) in member cluster({cluster}): {failure}"
                    ),
                ),
            }
        }
        match failed {
            None => events.normal(
                work,
                event_reason::SYNC_SUCCEED,
                format_args!("Sync work({key}) to cluster({cluster}) successful."),
            ),
            Some(failed) => events.warning(
                work,
                event_reason::SYNC_FAILED,
                format_args!("Failed to sync work({key}) to cluster({cluster}), err: {failed}"),
            ),
        }
    }
}

fn condition_of(kind: &str, status: &str, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        r#type: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        ..Condition::default()
    }
}

fn applied_condition(total: usize, failures: &[&str]) -> Condition {
    if failures.is_empty() {
        let message = "Manifest has been successfully applied";
        let reason = condition::reason::APPLIED_SUCCESSFUL;
        return condition_of(condition::APPLIED, "True", reason, message);
    }
    let (applied, failures) = (total - failures.len(), aggregate(failures));
    let message = format!("Failed to apply all manifests ({applied}/{total}): {failures}");
    condition_of(condition::APPLIED, "False", condition::reason::APPLIED_FAILED, message)
}

/// Several errors in one line, as Go's aggregate prints them.
fn aggregate(failures: &[&str]) -> String {
    match failures {
        [only] => (*only).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

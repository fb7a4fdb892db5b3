//! Keeps the Works of every binding as policies and overrides want them: one per chosen cluster,
//! none elsewhere. Serves both binding scopes; delivering the Works is the execution controller's.

mod explain;
mod overrides;
mod plan;

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, HashMap};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use karmada_api::cluster::Cluster;
use karmada_api::features::Gate;
use karmada_api::work::{ClusterResourceBinding, ResourceBinding, Work};
use karmada_api::{Binding, Kind, event_reason, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions, Object};
use karmada_interpreter::Interpreter;
use karmada_propagation::work::{Change as WorkChange, kept_clusters, targets, waits_for_purge};
use karmada_runtime::{
    Action, Change, Hashed, Informer, ObjectKey, Priority, Queue, Recorder, chain,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::context::Context;
use crate::failures::Failures;
use crate::propagation::metrics::Durations;
use crate::propagation::templates::{self, Kinds};
use crate::propagation::works;
use overrides::Policies;
use plan::{Failure, Outcome, Target};

/// Works written at the same time for one binding.
const PARALLEL_WRITES: usize = 32;

/// How long a binding waits for the cache to show what was written for it.
const CACHE_PATIENCE: Duration = Duration::from_secs(2);

/// Index of bindings by the clusters they want.
const BY_CLUSTER: &str = "target-cluster";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the binding")]
    Decode(#[from] serde_json::Error),
    #[error(transparent)]
    Template(#[from] templates::Error),
    #[error("delete work {work}")]
    DeleteWork { work: ObjectKey, source: karmada_client::Error },
    #[error("remove the finalizer")]
    Release(#[source] karmada_client::Error),
    #[error("sync works: {0}")]
    Sync(String),
}

struct Ctx {
    client: Client,
    bindings: Arc<Informer>,
    bindings_gvr: Gvr,
    works: Arc<Informer>,
    clusters: Arc<Informer>,
    kinds: Arc<Kinds>,
    policies: Arc<Policies>,
    interpreter: Arc<Interpreter>,
    inject_state: bool,
    events: Recorder,
    override_events: Recorder,
    durations: Durations,
    failures: Failures,
    memory: Mutex<Memory>,
}

/// What cannot be read from the caches.
#[derive(Default)]
struct Memory {
    /// Bindings made while we run, whose first pass is told in an event, and whether they led to
    /// no cluster when they were made.
    fresh: BTreeMap<ObjectKey, bool>,
    /// Works that were made but have not reached the cache yet, by binding.
    unseen: BTreeMap<String, BTreeSet<ObjectKey>>,
    /// The bindings by those Works: there may be very many, and every change of a Work is looked up.
    unseen_of: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Works that were changed or deleted, until the cache shows that.
    ahead: HashMap<ObjectKey, Ahead, Hashed>,
    /// Bindings that go on when a Work is gone, or is shown as it was left.
    waiting: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// A version of our own making.
struct Ahead {
    version: u64,
    since: Instant,
}

pub(crate) fn start(context: &Context) {
    let durations = Durations::of_bindings(&context.metrics);
    start_scope::<ResourceBinding>(context, "binding-controller", &durations);
    start_scope::<ClusterResourceBinding>(
        context,
        "cluster-resource-binding-controller",
        &durations,
    );
}

fn start_scope<B: Binding>(context: &Context, name: &'static str, durations: &Durations) {
    let workers = context.options.workers_that_finish();
    let controller = context.controller(name).workers(workers);
    let bindings_gvr = Gvr::new(B::GROUP, B::VERSION, B::PLURAL);
    let bindings = context.informers.all(&bindings_gvr);
    bindings.cache().add_spec_index(BY_CLUSTER, |object| {
        let binding = object.typed_for_now::<B>().ok();
        let clusters = binding.iter().flat_map(|binding| targets(binding.spec()));
        clusters.map(|target| target.name.clone()).collect()
    });
    let works = works::informer(context);
    let clusters =
        context.informers.all(&Gvr::new(Cluster::GROUP, Cluster::VERSION, Cluster::PLURAL));
    let kinds = Kinds::new(context);
    let (policies, mut inputs) =
        overrides::follow::<B>(context, &kinds, &bindings, controller.queue());
    inputs.extend([bindings.clone(), works.clone(), clusters.clone()]);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        bindings: bindings.clone(),
        bindings_gvr,
        works: works.clone(),
        clusters: clusters.clone(),
        kinds,
        policies,
        interpreter: context.interpreter.clone(),
        inject_state: context.gates.is_on(Gate::StatefulFailoverInjection),
        events: context.recorder(name),
        override_events: context.recorder("override-manager"),
        durations: durations.clone(),
        failures: Failures::default(),
        memory: Mutex::default(),
    });
    let told = explain::Told::<B> { ctx: ctx.clone(), scope: PhantomData };
    context.explainers.add(Arc::new(told));
    follow::<B>(context, &ctx, controller.queue());
    context.start_interpreting(controller, inputs, move |key| reconcile::<B>(key, ctx.clone()));
}

/// Queues bindings when they change, when a cluster they want appears, and when a Work they wait
/// for is gone.
fn follow<B: Binding>(context: &Context, ctx: &Arc<Ctx>, queue: &Queue<ObjectKey>) {
    let (own, feed) = (ctx.clone(), queue.clone());
    context.keep(ctx.bindings.subscribe(move |change| {
        let key = ObjectKey::of(change.object());
        match change {
            Change::Applied { old: None, .. } if !own.bindings.is_synced() => {
                feed.add_with_priority(key, Priority::Low);
            }
            Change::Applied { old: None, new } => {
                let leads_nowhere = new.typed_for_now::<B>().is_ok_and(|binding| {
                    let spec = binding.spec();
                    // Compat: one that is made with its placement is told of as if that came later.
                    let is_placed_later = spec.clusters.is_empty() || binding.has_owner();
                    is_placed_later && spec.required_by.is_empty()
                });
                own.memory.lock().fresh.insert(key.clone(), leads_nowhere);
                feed.add(key);
            }
            Change::Applied { old: Some(old), new } => {
                if old.meta().generation != new.meta().generation {
                    feed.add(key);
                }
            }
            Change::Deleted(_) => {
                own.memory.lock().fresh.remove(&key);
            }
        }
    }));
    let (own, feed) = (ctx.clone(), queue.clone());
    context.keep(ctx.clusters.subscribe(move |change| {
        let Change::Applied { old: None, new } = change else { return };
        for binding in own.bindings.cache().by_index(BY_CLUSTER, new.name()) {
            feed.add_with_priority(ObjectKey::of(&binding), Priority::Low);
        }
    }));
    let (own, feed) = (ctx.clone(), queue.clone());
    context.keep(ctx.works.subscribe(move |change| {
        let work = ObjectKey::of(change.object());
        let mut memory = own.memory.lock();
        memory.seen(&work);
        let is_gone = matches!(change, Change::Deleted(_));
        if memory.catch_up(&work, is_gone, change.object()) || is_gone {
            let waiting = memory.waiting.remove(&work).into_iter().flatten();
            waiting.for_each(|binding| feed.add(binding));
        }
    }));
}

impl Memory {
    fn expect(&mut self, permanent_id: &str, work: &ObjectKey) {
        self.unseen.entry(permanent_id.to_owned()).or_default().insert(work.clone());
        self.unseen_of.entry(work.clone()).or_default().insert(permanent_id.to_owned());
    }

    fn seen(&mut self, work: &ObjectKey) {
        for id in self.unseen_of.remove(work).into_iter().flatten() {
            if let Entry::Occupied(mut works) = self.unseen.entry(id) {
                works.get_mut().remove(work);
                if works.get().is_empty() {
                    works.remove();
                }
            }
        }
    }

    /// Takes in what the cache shows of a Work; returns whether that is our own last write, at last.
    fn catch_up(&mut self, work: &ObjectKey, is_gone: bool, shown: &Object) -> bool {
        let Some(ahead) = self.ahead.get(work) else { return false };
        let shown = shown.resource_version().parse::<u64>();
        let is_there = is_gone || shown.is_ok_and(|shown| shown >= ahead.version);
        is_there && self.ahead.remove(work).is_some()
    }

    /// Whether the cache is still to show our own last write to a Work. A server that lost it never
    /// will, so that is not believed for ever.
    fn is_ahead(&self, work: &ObjectKey) -> bool {
        self.ahead.get(work).is_some_and(|ahead| ahead.since.elapsed() < CACHE_PATIENCE)
    }
}

impl plan::Lookup for Ctx {
    fn work(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        self.works.cache().get(key)
    }

    fn cluster(&self, name: &str) -> Option<Arc<Cluster>> {
        self.clusters.cache().get(&ObjectKey::cluster(name))?.typed().ok()
    }
}

async fn reconcile<B: Binding>(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.bindings.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let binding = object.typed_for_now::<B>()?;
    if binding.permanent_id().is_empty() {
        // Admission gives every binding an id; without one its Works could not be told apart.
        tracing::warn!("the binding has no permanent id");
        return Ok(Action::AwaitChange);
    }
    if object.is_being_deleted() {
        return ctx.finish::<B>(&object, &binding).await;
    }
    if ctx.is_behind(&key, &*binding) {
        return Ok(Action::Requeue(CACHE_PATIENCE));
    }
    let removed = ctx.remove_orphans(&object, &*binding).await?;
    if ctx.waits_for_purge(&key, &*binding) {
        return Ok(Action::AwaitChange);
    }
    let Some(template) = templates::find(&ctx.kinds, &binding.spec().resource).await? else {
        return Ok(Action::AwaitChange);
    };
    let began = Instant::now();
    let value = template.content();
    let overrides = ctx.policies.find(&value);
    let targets =
        plan::plan(&*binding, &value, &overrides, &ctx.interpreter, ctx.inject_state, &*ctx);
    drop(value);
    let report = ctx.write_all(&key, binding.permanent_id(), &template, targets).await;
    ctx.durations.took(began, report.failures.is_empty());
    ctx.tell::<B>(&object, &template, report, removed)
}

/// What came of one pass.
#[derive(Default)]
struct Report {
    written: usize,
    failures: Vec<String>,
    /// A Work that was in the way is gone already.
    again: bool,
}

impl Ctx {
    fn works_api(&self, namespace: &str) -> Api {
        self.client.api(&works::gvr()).namespaced(namespace)
    }

    /// The Works of a binding, those included that the cache does not show yet.
    fn works_of(&self, permanent_id: &str) -> Vec<(ObjectKey, Option<Arc<Object>>)> {
        let cached = works::of_binding(&self.works, permanent_id);
        let mut works: Vec<_> =
            cached.into_iter().map(|work| (ObjectKey::of(&work), Some(work))).collect();
        let unseen = self.memory.lock().unseen.get(permanent_id).cloned().unwrap_or_default();
        works.extend(unseen.into_iter().map(|key| (key, None)));
        works
    }

    async fn delete_work(&self, key: &ObjectKey, work: Option<&Object>) -> Result<(), Error> {
        if work.is_some_and(Object::is_being_deleted) {
            return Ok(());
        }
        let uid = work.map(|work| work.uid().to_owned());
        let options = DeleteOptions { uid, ..DeleteOptions::default() };
        match self.works_api(&key.namespace).delete(&key.name, &options).await {
            Err(source) if !source.is_not_found() => {
                Err(Error::DeleteWork { work: key.clone(), source })
            }
            deleted => {
                self.memory.lock().seen(key);
                // What is not on its way out is gone; no version of it will tell.
                let is_leaving = |answer: &Value| answer.is_being_deleted();
                let version = deleted.ok().filter(is_leaving).map_or(u64::MAX, |a| version_of(&a));
                self.note_written(key, version);
                Ok(())
            }
        }
    }

    /// Remembers a write until the cache shows as much.
    fn note_written(&self, key: &ObjectKey, version: u64) {
        let mut memory = self.memory.lock();
        memory.ahead.insert(key.clone(), Ahead { version, since: Instant::now() });
        // The cache may have been faster than the answer, and does not tell a second time.
        match self.works.cache().get(key) {
            Some(cached) => memory.catch_up(key, false, &cached),
            None => memory.ahead.remove(key).is_some(),
        };
    }

    /// Whether the cache shows a Work of the binding as it was before our own last write. Compared with
    /// that, what takes the write back would look like no change. The cache brings the binding back.
    fn is_behind<B: Binding>(&self, key: &ObjectKey, binding: &B) -> bool {
        if self.memory.lock().ahead.is_empty() {
            return false;
        }
        let (spec, resource) = (binding.spec(), &binding.spec().resource);
        let name = names::work(&resource.kind, &resource.name, &resource.namespace);
        let wanted = targets(spec).into_iter();
        let wanted = wanted
            .map(|target| ObjectKey::new(names::execution_space(&target.name), name.as_str()));
        let there = works::of_binding(&self.works, binding.permanent_id()).into_iter();
        let works: Vec<_> = wanted.chain(there.map(|work| ObjectKey::of(&work))).collect();
        let mut memory = self.memory.lock();
        let mut is_behind = false;
        for work in works {
            if memory.is_ahead(&work) {
                is_behind = true;
                memory.waiting.entry(work).or_default().insert(key.clone());
            }
        }
        is_behind
    }

    /// Deletes all Works, then lets the binding go. Their own finalizer makes them clean up.
    async fn finish<B: Binding>(&self, object: &Object, binding: &B) -> Result<Action, Error> {
        let works = self.works_of(binding.permanent_id());
        for (key, work) in works {
            self.delete_work(&key, work.as_deref()).await?;
        }
        let finalizers = &object.meta().finalizers;
        if !finalizers.iter().any(|finalizer| finalizer == B::FINALIZER) {
            return Ok(Action::AwaitChange);
        }
        let kept: Vec<_> = finalizers.iter().filter(|kept| *kept != B::FINALIZER).collect();
        // The version makes sure that no finalizer added meanwhile is lost.
        let patch = json!({"metadata": {
            "resourceVersion": object.resource_version(), "finalizers": kept}});
        let api = self.client.api(&self.bindings_gvr).namespaced(object.namespace());
        match api.merge_patch(object.name(), patch).await {
            // Somebody wrote between; the cache will show what.
            Err(error) if error.is_conflict() => Ok(Action::Requeue(Duration::from_millis(20))),
            Err(error) if !error.is_not_found() => Err(Error::Release(error)),
            _ => Ok(Action::AwaitChange),
        }
    }

    /// Removes Works from clusters that are no longer wanted; returns how many.
    async fn remove_orphans<B: Binding>(
        &self,
        object: &Object,
        binding: &B,
    ) -> Result<usize, Error> {
        let kept = kept_clusters(binding.spec());
        let mut removed = 0;
        for (key, work) in self.works_of(binding.permanent_id()) {
            let cluster = karmada_api::names::cluster_of_execution_space(&key.namespace);
            let is_orphan = cluster.is_some_and(|cluster| !kept.contains(cluster));
            if !is_orphan || work.as_deref().is_some_and(Object::is_being_deleted) {
                continue;
            }
            if let Err(error) = self.delete_work(&key, work.as_deref()).await {
                let reason = event_reason::CLEANUP_WORK_FAILED;
                self.failures.warn(&self.events, object, reason, &chain(&error));
                return Err(error);
            }
            removed += 1;
        }
        self.failures.recovered(object, event_reason::CLEANUP_WORK_FAILED);
        Ok(removed)
    }

    /// Whether a copy has to be gone first; if so, its end brings the binding back.
    fn waits_for_purge<B: Binding>(&self, key: &ObjectKey, binding: &B) -> bool {
        if binding.spec().graceful_eviction_tasks.is_empty() {
            return false;
        }
        let works = self.works_of(binding.permanent_id());
        let cluster = |(work, _): &(ObjectKey, _)| {
            work.namespace.strip_prefix("karmada-es-").map(str::to_owned)
        };
        let clusters: Vec<String> = works.iter().filter_map(cluster).collect();
        if !waits_for_purge(binding.spec(), clusters.iter().map(String::as_str)) {
            return false;
        }
        works.into_iter().for_each(|(work, _)| self.wait_for(key, work));
        // A Work that went between the look and the note would never be told of.
        let left = self.works_of(binding.permanent_id());
        let clusters: Vec<String> = left.iter().filter_map(cluster).collect();
        waits_for_purge(binding.spec(), clusters.iter().map(String::as_str))
    }

    fn wait_for(&self, binding: &ObjectKey, work: ObjectKey) {
        self.memory.lock().waiting.entry(work).or_default().insert(binding.clone());
    }

    async fn write_all(
        &self,
        key: &ObjectKey,
        permanent_id: &str,
        template: &Object,
        targets: Vec<Target>,
    ) -> Report {
        let mut report = Report::default();
        let mut writes = Vec::new();
        let failed = event_reason::APPLY_OVERRIDE_POLICY_FAILED;
        for target in targets {
            if target.outcome.is_ok() {
                self.failures.is_over((failed, template.uid(), &target.cluster));
            }
            match target.outcome {
                Ok(Outcome { change: WorkChange::Nothing, .. }) => {}
                Ok(Outcome { change: WorkChange::BeingDeleted, .. }) => {
                    self.wait_for(key, target.work.clone());
                    // If it went before this was noted, nobody will tell.
                    report.again |= self.works.cache().get(&target.work).is_none();
                }
                Ok(outcome) => writes.push((target.cluster, target.work, outcome)),
                Err(Failure { message, policy, applied }) => {
                    if let Some(policy) = policy {
                        let note =
                            format!("Apply {policy} for cluster({}) failed.", target.cluster);
                        let subject = (failed, template.uid(), &target.cluster);
                        if self.failures.is_news(subject, &message) {
                            self.tell_applied(template, &target.cluster, applied);
                            self.override_events.warning(template, failed, note);
                        }
                    }
                    report.failures.push(message);
                }
            }
        }
        let writes = writes.into_iter().map(|(cluster, work, mut outcome)| async move {
            let policies = std::mem::take(&mut outcome.policies);
            let written = self.write(permanent_id, &work, outcome).await;
            (cluster, policies, written)
        });
        let mut writes = futures::stream::iter(writes).buffer_unordered(PARALLEL_WRITES);
        while let Some((cluster, policies, written)) = writes.next().await {
            if let Err(error) = written {
                report.failures.push(error.to_string());
                continue;
            }
            report.written += 1;
            self.tell_applied(template, &cluster, policies);
        }
        report
    }

    fn tell_applied(&self, template: &Object, cluster: &str, policies: Vec<String>) {
        for policy in policies {
            let note = format!("Apply {policy} for cluster({cluster}) succeed.");
            let reason = event_reason::APPLY_OVERRIDE_POLICY_SUCCEED;
            self.override_events.normal(template, reason, note);
        }
    }

    async fn write(
        &self,
        permanent_id: &str,
        key: &ObjectKey,
        outcome: Outcome,
    ) -> karmada_client::Result<()> {
        let api = self.works_api(&key.namespace);
        match (outcome.change, outcome.existing) {
            (WorkChange::Create(work), _) => {
                // Noted before the request: its answer may be lost, the Work is not.
                self.memory.lock().expect(permanent_id, key);
                let created = api.create_owned(works::into_value(*work)).await;
                let is_there = match &created {
                    Ok(_) => self.works.cache().get(key).is_some(),
                    Err(error) => error.api().is_some(),
                };
                if is_there {
                    self.memory.lock().seen(key);
                }
                created.map(drop)
            }
            (WorkChange::Update(work), Some(existing)) => {
                // Only what differs is sent, so that a status written meanwhile is no conflict.
                let (from, to) = (to_value(&existing), to_value(&work));
                let (Some(from), Some(to)) = (from.as_object(), to.as_object()) else {
                    return Ok(());
                };
                let mut patch = Value::Object(merge::diff(from, to));
                patch["metadata"]["uid"] = existing.metadata.uid.as_str().into();
                let answer = api.merge_patch(&key.name, patch).await?;
                self.note_written(key, version_of(&answer));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Tells what came of the pass, if it is news.
    fn tell<B: Binding>(
        &self,
        object: &Object,
        template: &Object,
        report: Report,
        removed: usize,
    ) -> Result<Action, Error> {
        let key = ObjectKey::of(object);
        let about = [object, template];
        let fresh = self.memory.lock().fresh.remove(&key);
        let failed = event_reason::SYNC_WORK_FAILED;
        let succeed = || {
            let (kind, reason) = (B::KIND, event_reason::SYNC_WORK_SUCCEED);
            for about in about {
                let message = format_args!("Sync work of {kind}({key}) successful.");
                self.events.normal(about, reason, message);
            }
        };
        if !report.failures.is_empty() {
            if fresh == Some(true) {
                // Nothing could fail before it was scheduled, however soon that was.
                succeed();
            }
            let message = aggregate(&report.failures);
            for about in about {
                self.failures.warn(&self.events, about, failed, &message);
            }
            return Err(Error::Sync(message));
        }
        let recovered = about.map(|about| self.failures.recovered(about, failed)).contains(&true);
        if fresh.is_some() || recovered || report.written + removed > 0 {
            succeed();
        }
        let again = Action::Requeue(Duration::from_millis(5));
        Ok(if report.again { again } else { Action::AwaitChange })
    }
}

/// The version of a Work; one that cannot be compared with others is nothing to wait for.
fn version_of(work: &Value) -> u64 {
    work.resource_version().parse().unwrap_or_default()
}

fn to_value(work: &Work) -> Value {
    work.to_value().unwrap_or_default()
}

/// Several errors in one line, as Go's aggregate prints them: each message once.
fn aggregate(failures: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&str> =
        failures.iter().map(String::as_str).filter(|message| seen.insert(*message)).collect();
    match distinct.as_slice() {
        [only] => (*only).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(version: &str) -> Object {
        let metadata =
            json!({"name": "w", "namespace": "karmada-es-m1", "resourceVersion": version});
        Object::from_value(&json!({"metadata": metadata})).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_work_is_believed_once_it_is_shown_as_it_was_left() {
        let (work, mut memory) = (ObjectKey::of(&shown("1")), Memory::default());
        let write = |memory: &mut Memory, version| {
            memory.ahead.insert(work.clone(), Ahead { version, since: Instant::now() })
        };
        assert!(!memory.catch_up(&work, false, &shown("5")), "nobody waits for it");
        write(&mut memory, 7);
        assert!(!memory.catch_up(&work, false, &shown("6")) && memory.is_ahead(&work));
        assert!(memory.catch_up(&work, false, &shown("7")) && !memory.is_ahead(&work));
        // What is gone is shown as it was before.
        write(&mut memory, u64::MAX);
        assert!(!memory.catch_up(&work, false, &shown("9")) && memory.is_ahead(&work));
        assert!(memory.catch_up(&work, true, &shown("9")) && !memory.is_ahead(&work));
        // A server that was restored from a backup may never show it.
        write(&mut memory, 100);
        tokio::time::advance(CACHE_PATIENCE).await;
        assert!(!memory.is_ahead(&work));
    }
}

//! Gathers what the Works of a binding report into its status, and makes the status of the template
//! from it. Serves both binding scopes. One write follows many reports.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::conditions::{binding as condition, work as work_condition};
use karmada_api::meta::{find_condition, set_condition};
use karmada_api::placing::{Placer, Subject};
use karmada_api::work::{ClusterResourceBinding, ResourceBinding, ResourceBindingStatus};
use karmada_api::{Binding, event_reason, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Client, Object};
use karmada_interpreter::{Interpreter, Operation};
use karmada_propagation::status::{Aggregation, Report, WrongWork, is_fully_applied};
use karmada_propagation::work::kept_clusters;
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Priority, Queue, Recorder};
use parking_lot::Mutex;

use crate::context::Context;
use crate::propagation::templates::{self, Kinds};
use crate::propagation::works;

/// How long the first reports wait for those of the other clusters, so that they are written once.
const GATHER: Duration = Duration::from_millis(200);

/// How long later changes are gathered.
const COALESCE: Duration = Duration::from_millis(20);

/// Many writers share one flush of the store, so more of them are better than upstream's five.
const WORKERS_PER_WORKER: usize = 6;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the binding or its works")]
    Decode(#[from] serde_json::Error),
    #[error(transparent)]
    Wrong(#[from] WrongWork),
    #[error("write the status of the binding")]
    Write(#[source] karmada_client::Error),
    #[error(transparent)]
    Template(#[from] templates::Error),
    #[error("aggregate the status of the template: {0}")]
    Aggregate(String),
    #[error("write the status of the template")]
    WriteTemplate(#[source] karmada_client::Error),
}

struct Ctx {
    client: Client,
    clock: Clock,
    gvr: Gvr,
    bindings: Arc<Informer>,
    works: Arc<Informer>,
    kinds: Arc<Kinds>,
    interpreter: Arc<Interpreter>,
    events: Recorder,
    placer: Option<Arc<dyn Placer>>,
    /// Bindings whose template changed: they are spoken about even if no Work has reported.
    asked: Mutex<HashSet<ObjectKey>>,
    memory: Mutex<Memory>,
}

/// Tells the echo of an own write from news.
#[derive(Default)]
struct Memory {
    /// Bindings about which something was heard since they were last looked at.
    news: HashSet<ObjectKey>,
    /// The versions our writes led to, until they come back.
    written: HashMap<ObjectKey, String>,
}

impl Memory {
    /// Whether the cache does not show our last write yet.
    fn is_ahead_of(&self, key: &ObjectKey, version: &str) -> bool {
        let number = |version: &str| version.parse::<u64>().ok();
        self.written.get(key).is_some_and(|written| number(version) < number(written))
    }

    /// Whether nothing but an own write brings the binding back.
    fn is_echo(&mut self, key: &ObjectKey, version: &str) -> bool {
        let is_news = self.news.remove(key);
        let is_own = self.written.get(key).is_some_and(|written| written == version);
        if is_own {
            self.written.remove(key);
        }
        is_own && !is_news
    }

    fn forget(&mut self, key: &ObjectKey) {
        self.news.remove(key);
        self.written.remove(key);
    }
}

pub(crate) fn start(context: &Context) {
    start_scope::<ResourceBinding>(context, "resource-binding-status-controller");
    start_scope::<ClusterResourceBinding>(context, "cluster-resource-binding-status-controller");
}

fn start_scope<B: Binding>(context: &Context, name: &'static str) {
    let workers = context.options.workers.max(1) * WORKERS_PER_WORKER;
    let controller = context.controller(name).workers(workers);
    let gvr = Gvr::new(B::GROUP, B::VERSION, B::PLURAL);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        clock: context.clock.clone(),
        bindings: context.informers.all(&gvr),
        gvr,
        works: works::informer(context),
        kinds: Kinds::new(context),
        interpreter: context.interpreter.clone(),
        events: context.recorder(name),
        placer: context.placer.clone(),
        asked: Mutex::default(),
        memory: Mutex::default(),
    });
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.bindings.subscribe(move |change| own.on_binding::<B>(change, &queue)));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.works.subscribe(move |change| own.on_work::<B>(change, &queue)));
    let inputs = vec![ctx.bindings.clone(), ctx.works.clone()];
    context.start_interpreting(controller, inputs, move |key| reconcile::<B>(key, ctx.clone()));
}

async fn reconcile<B: Binding>(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.bindings.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let version = object.resource_version();
    if ctx.memory.lock().is_ahead_of(&key, version) {
        return Ok(Action::Requeue(COALESCE));
    }
    if object.is_being_deleted() || ctx.memory.lock().is_echo(&key, version) {
        return Ok(Action::AwaitChange);
    }
    let binding = object.typed_for_now::<B>()?;
    let is_asked = ctx.asked.lock().remove(&key);
    let Some(aggregation) = ctx.gather(&*binding, is_asked)? else {
        return Ok(Action::AwaitChange);
    };
    // What the scheduler has to say about a new binding is said with the same write.
    let scheduled = ctx.placer.as_ref().and_then(|placer| placer.report(Subject::of(&*binding)));
    let speaks_for = ctx.placer.as_ref().filter(|_| scheduled.is_some());
    let mut status = scheduled.unwrap_or_else(|| binding.status().clone());
    status.aggregated_status = aggregation.items();
    let fully_applied = aggregation.condition(binding.spec());
    set_condition(&mut status.conditions, fully_applied, ctx.clock.now().into());
    let mut version = None;
    if status != *binding.status() {
        version = match ctx.write::<B>(&object, &status).await {
            // Somebody wrote between; the cache will show what.
            Err(Error::Write(error)) if error.is_conflict() => {
                ctx.asked.lock().extend(is_asked.then_some(key));
                return Ok(Action::Requeue(COALESCE));
            }
            written => written?,
        };
        if let Some(placer) = speaks_for {
            placer.reported(Subject::of(&*binding));
        }
    }
    ctx.update_template(&object, &*binding, &status).await?;
    if let Some(version) = version {
        ctx.memory.lock().written.insert(key, version);
    }
    Ok(Action::AwaitChange)
}

impl Ctx {
    fn on_binding<B: Binding>(&self, change: &Change, queue: &Queue<ObjectKey>) {
        let Change::Applied { old, new } = change else {
            let key = ObjectKey::of(change.object());
            self.asked.lock().remove(&key);
            return self.memory.lock().forget(&key);
        };
        let Ok(binding) = new.typed_for_now::<B>() else { return };
        if binding.status().last_scheduled_time.is_none() {
            return;
        }
        let key = ObjectKey::of(new);
        let Some(old) = old else { return queue.add_with_priority(key, Priority::Low) };
        let Ok(before) = old.typed_for_now::<B>() else { return };
        let version = |binding: &B| binding.spec().resource.resource_version.clone();
        if version(&before) != version(&binding) {
            // What the Works say is looked at before they are changed or taken away for it.
            self.asked.lock().insert(key.clone());
            self.memory.lock().news.insert(key.clone());
            return queue.add(key);
        }
        // Whoever writes the conditions may have dropped ours.
        let ours = |status: &ResourceBindingStatus| {
            find_condition(&status.conditions, condition::FULLY_APPLIED).cloned()
        };
        let known = ours(binding.status());
        // A Work that never was reports nothing, not even its end when it is no longer wanted.
        let is_outdated = known.as_ref().is_some_and(|known| !known.is_true())
            && is_fully_applied(binding.status().aggregated_status.iter(), binding.spec());
        if is_outdated
            || ours(before.status()) != known
            || before.status().aggregated_status != binding.status().aggregated_status
        {
            queue.add_after(key, COALESCE);
        }
    }

    fn on_work<B: Binding>(&self, change: &Change, queue: &Queue<ObjectKey>) {
        let work = change.object();
        let Some((key, namespaced)) = works::binding_of(work) else { return };
        if namespaced != B::NAMESPACED {
            return;
        }
        match change {
            Change::Applied { old: Some(old), new } => {
                // What a Work reported stands until it is gone: so long there is a copy in the member.
                let is_same_status = || match (works::view(old), works::view(new)) {
                    (Ok(old), Ok(new)) => old.status == new.status,
                    (old, new) => old.is_err() && new.is_err(),
                };
                // Where nothing else changed, the status did.
                if !old.meta().is_left_alone(new.meta()) && is_same_status() {
                    return;
                }
            }
            // A new Work has nothing to report yet, and a restart looks at the bindings.
            Change::Applied { old: None, .. } => return,
            Change::Deleted(_) => {}
        }
        self.memory.lock().news.insert(key.clone());
        queue.add_after(key.clone(), self.patience::<B>(&key));
    }

    /// Reports that will soon be joined by others wait for them.
    fn patience<B: Binding>(&self, key: &ObjectKey) -> Duration {
        let binding =
            self.bindings.cache().get(key).and_then(|object| object.typed_for_now::<B>().ok());
        let Some(binding) = binding else { return COALESCE };
        if !binding.status().aggregated_status.is_empty() {
            return COALESCE;
        }
        let expected = kept_clusters(binding.spec()).len();
        let reported = works::of_binding(&self.works, binding.permanent_id());
        let is_applied = |work: &&Arc<Object>| {
            works::view(work).is_ok_and(|view| {
                find_condition(&view.status.conditions, work_condition::APPLIED).is_some()
            })
        };
        if reported.iter().filter(is_applied).count() < expected { GATHER } else { Duration::ZERO }
    }

    /// What the Works report; nothing if there never were any.
    fn gather<B: Binding>(
        &self,
        binding: &B,
        is_asked: bool,
    ) -> Result<Option<Aggregation>, Error> {
        let works = works::of_binding(&self.works, binding.permanent_id());
        let known = find_condition(&binding.status().conditions, condition::FULLY_APPLIED);
        if works.is_empty() && known.is_none() && binding.status().aggregated_status.is_empty() {
            return Ok(None);
        }
        let resource = &binding.spec().resource;
        let mut aggregation = Aggregation::default();
        let mut heard = 0;
        for work in &works {
            let view = works::view(work)?;
            let Some(cluster) = names::cluster_of_execution_space(work.namespace()) else {
                continue;
            };
            heard += usize::from(!view.status.conditions.is_empty());
            let report = Report {
                cluster,
                work: work.name(),
                is_being_deleted: work.is_being_deleted(),
                holds: view.spec.workload.manifests.iter().any(|head| head.is(resource)),
                status: &view.status,
            };
            aggregation.take(&report, resource)?;
        }
        // Nothing is said about Works that nobody has looked at, unless their template changed.
        Ok((heard > 0 || known.is_some() || is_asked).then_some(aggregation))
    }

    async fn write<B: Binding>(
        &self,
        object: &Object,
        status: &ResourceBindingStatus,
    ) -> Result<Option<String>, Error> {
        // The scheduler writes conditions too: the version makes sure that none of them is lost.
        // A merge patch would drop the nulls that members have in their states.
        let operations = json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": object.resource_version()},
            {"op": "add", "path": "/status", "value": status},
        ]);
        let api = self.client.api(&self.gvr).namespaced(object.namespace());
        let kind = B::KIND;
        match api.json_patch_status(object.name(), operations).await {
            Ok(written) => {
                let key = ObjectKey::of(object);
                self.events.normal(
                    object,
                    event_reason::AGGREGATE_STATUS_SUCCEED,
                    format_args!("Update {kind}({key}) with AggregatedStatus successfully."),
                );
                Ok(Some(written.resource_version().to_owned()))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => {
                if !error.is_conflict() {
                    let reason = event_reason::AGGREGATE_STATUS_FAILED;
                    self.events.warning(object, reason, error.to_string());
                }
                Err(Error::Write(error))
            }
        }
    }

    async fn update_template<B: Binding>(
        &self,
        object: &Object,
        binding: &B,
        status: &ResourceBindingStatus,
    ) -> Result<(), Error> {
        let resource = &binding.spec().resource;
        let gvk = templates::gvk_of(resource);
        if !self.interpreter.hook_enabled(&gvk, Operation::AggregateStatus) {
            return Ok(());
        }
        let served = self.kinds.resource_of(&gvk).await?;
        if !served.subresources.iter().any(|subresource| subresource == "status") {
            return Ok(());
        }
        let Some(template) = templates::find(&self.kinds, resource).await? else { return Ok(()) };
        let whole = template.content();
        let before = whole.get("status").cloned();
        let aggregated = self.interpreter.aggregate_status(whole, &status.aggregated_status);
        let after = match aggregated {
            Ok(after) => after,
            Err(error) => {
                let (reason, text) = (event_reason::AGGREGATE_STATUS_FAILED, error.to_string());
                self.events.warning(object, reason, text.as_str());
                self.events.warning(&*template, reason, text.as_str());
                return Err(Error::Aggregate(text));
            }
        };
        if before.as_ref() == after.get("status") {
            return Ok(());
        }
        let operations = json!([
            {"op": "test", "path": "/metadata/uid", "value": template.uid()},
            {"op": "add", "path": "/status", "value": after.get("status")},
        ]);
        let api = self.client.api(&served.gvr).namespaced(template.namespace());
        match api.json_patch_status(template.name(), operations).await {
            Ok(_) => {
                let note = "Update Resource with AggregatedStatus successfully.";
                self.events.normal(&*template, event_reason::AGGREGATE_STATUS_SUCCEED, note);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                let reason = event_reason::AGGREGATE_STATUS_FAILED;
                self.events.warning(&*template, reason, error.to_string());
                Err(Error::WriteTemplate(error))
            }
        }
    }
}

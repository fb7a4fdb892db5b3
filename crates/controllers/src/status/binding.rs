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
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_interpreter::{Interpreter, Operation};
use karmada_propagation::status::{Aggregation, Report, WrongWork, is_fully_applied};
use karmada_propagation::work::kept_clusters;
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Priority, Queue, Recorder};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::context::Context;
use crate::failures::Failures;
use crate::propagation::templates::{self, Kinds};
use crate::propagation::works;

/// How long the first reports wait for those of the other clusters, so that they are written once.
const GATHER: Duration = Duration::from_millis(200);

/// How long later changes are gathered.
const COALESCE: Duration = Duration::from_millis(20);

/// How often the status of a template is made anew because others write it at the same time.
const ATTEMPTS: usize = 5;

/// Fewer writes than this are not worth looking through for those that no longer need to be known.
const FEW: usize = 64;

/// For how long it is known at least what was written: caches are behind by much less.
const REMEMBERED: Duration = Duration::from_secs(60);

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
    failures: Failures,
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
    templates: Templates,
}

/// The versions that our writes of the template's status led to, by binding.
#[derive(Default)]
struct Templates {
    written: HashMap<ObjectKey, (u64, Instant)>,
    /// How many of them are looked through for what is no longer needed.
    many: usize,
}

impl Templates {
    fn note(&mut self, binding: &ObjectKey, version: &str) {
        let Ok(version) = version.parse() else { return };
        if self.written.len() >= self.many.max(FEW) {
            self.written.retain(|_, (_, at)| at.elapsed() <= REMEMBERED);
            self.many = self.written.len() * 2;
            self.written.shrink_to(self.many);
        }
        self.written.insert(binding.clone(), (version, Instant::now()));
    }

    /// Whether this is the template as it was before our last write.
    fn is_behind(&mut self, binding: &ObjectKey, template: &Object) -> bool {
        let Some((written, _)) = self.written.get(binding) else { return false };
        let is_behind = template.resource_version().parse().is_ok_and(|read: u64| read < *written);
        if !is_behind {
            self.written.remove(binding);
        }
        is_behind
    }
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
        self.templates.written.remove(key);
    }
}

pub(crate) fn start(context: &Context) {
    start_scope::<ResourceBinding>(context, "resource-binding-status-controller");
    start_scope::<ClusterResourceBinding>(context, "cluster-resource-binding-status-controller");
}

fn start_scope<B: Binding>(context: &Context, name: &'static str) {
    let workers = context.options.workers_that_finish();
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
        failures: Failures::default(),
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
    ctx.update_template(&key, &*binding, &status).await?;
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
                    self.failures.warn(&self.events, object, reason, &error.to_string());
                }
                Err(Error::Write(error))
            }
        }
    }

    async fn update_template<B: Binding>(
        &self,
        key: &ObjectKey,
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
        let api = self.client.api(&served.gvr).namespaced(&resource.namespace);
        let mut template = templates::find(&self.kinds, resource).await?;
        let is_behind =
            |template: &Arc<Object>| self.memory.lock().templates.is_behind(key, template);
        if template.as_ref().is_some_and(is_behind) {
            template = templates::find_live(&self.kinds, resource).await?;
            if let Some(live) = &template {
                self.memory.lock().templates.note(key, live.resource_version());
            }
        }
        let mut attempts = 1;
        while let Some(read) = template {
            let Some(after) = self.aggregate(&read, status)? else { break };
            // Others write conditions there too: the version makes sure that none of them is lost.
            let operations = json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": read.resource_version()},
                {"op": "add", "path": "/status", "value": after.get("status")},
            ]);
            match api.json_patch_status(read.name(), operations).await {
                Ok(written) => {
                    self.memory.lock().templates.note(key, written.resource_version());
                    self.failures.recovered(&read, event_reason::AGGREGATE_STATUS_FAILED);
                    let note = "Update Resource with AggregatedStatus successfully.";
                    self.events.normal(&*read, event_reason::AGGREGATE_STATUS_SUCCEED, note);
                    break;
                }
                Err(error) if error.is_not_found() => break,
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {
                    attempts += 1;
                    template = templates::find_live(&self.kinds, resource).await?;
                }
                Err(error) => {
                    let reason = event_reason::AGGREGATE_STATUS_FAILED;
                    self.failures.warn(&self.events, &read, reason, &error.to_string());
                    return Err(Error::WriteTemplate(error));
                }
            }
        }
        Ok(())
    }

    /// The template with the status it should have; nothing if it has that already.
    fn aggregate(
        &self,
        template: &Object,
        status: &ResourceBindingStatus,
    ) -> Result<Option<Value>, Error> {
        let whole = template.content();
        let before = whole.get("status").cloned();
        let failed = event_reason::AGGREGATE_STATUS_FAILED;
        match self.interpreter.aggregate_status(whole, &status.aggregated_status) {
            Ok(after) if before.as_ref() == after.get("status") => {
                self.failures.recovered(template, failed);
                Ok(None)
            }
            Ok(after) => Ok(Some(after)),
            Err(error) => {
                let text = error.to_string();
                self.failures.warn(&self.events, template, failed, &text);
                Err(Error::Aggregate(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_does_not_show_our_last_write_is_noticed() {
        let template = |version: &str| {
            let object = json!({"metadata": {"name": "web", "resourceVersion": version}});
            Object::from_value(&object).unwrap()
        };
        let (binding, other) = (ObjectKey::new("ns", "web"), ObjectKey::new("ns", "other"));
        let mut templates = Templates::default();
        assert!(!templates.is_behind(&binding, &template("4")), "nothing was written");
        templates.note(&binding, "5");
        assert!(templates.is_behind(&binding, &template("4")));
        assert!(!templates.is_behind(&other, &template("4")));
        assert!(!templates.is_behind(&binding, &template("5")));
        assert!(templates.written.is_empty(), "what a cache shows need not be remembered");
        for number in 0..FEW {
            templates.note(&ObjectKey::new("ns", number.to_string()), "5");
        }
        tokio::time::advance(REMEMBERED * 2).await;
        templates.note(&binding, "6");
        assert_eq!(templates.written.len(), 1);
    }
}

//! Sends what a workload needs (ConfigMaps, Secrets, service accounts …) wherever the workload goes.
//! Each dependency gets a binding of its own that names the bindings that require it; the binding
//! controller does the rest.

mod attach;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::config::DependentObjectReference;
use karmada_api::features::Gate;
use karmada_api::work::{ObjectReference, ResourceBinding};
use karmada_api::{Kind as _, annotations, event_reason, finalizers, labels};
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_apimachinery::json;
use karmada_client::{Api, Client, Object};
use karmada_interpreter::{Interpreter, Operation};
use karmada_propagation::binding::ForeignOwner;
use karmada_propagation::{claim, dependencies};
use karmada_runtime::{
    Action, Change, Informer, Informers, ObjectKey, Priority, Queue, Recorder, Subscription,
};
use parking_lot::Mutex;

use super::templates::{self, Kinds};
use crate::context::Context;
use crate::failures::Failures;
use crate::interpretation;

/// Index of bindings by the objects they depend on, as their annotation names them.
const BY_DEPENDENCY: &str = "dependency";

/// Index of attached bindings by the label of the binding that requires them.
const BY_REQUIRER: &str = "required-by";

/// Attempts at a write that others get in the way of.
const RETRIES: usize = 5;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand a binding")]
    Decode(#[from] serde_json::Error),
    #[error(transparent)]
    Template(#[from] templates::Error),
    #[error("{0}")]
    Interpret(karmada_interpreter::Error),
    #[error("record the dependencies")]
    Record(#[source] karmada_client::Error),
    #[error("remove the finalizer")]
    Release(#[source] karmada_client::Error),
    #[error("read the dependencies")]
    List(#[source] karmada_client::Error),
    #[error("write the binding of a dependency")]
    Attach(#[source] karmada_client::Error),
    #[error(transparent)]
    Foreign(#[from] ForeignOwner),
    #[error("binding {0} requires the dependency too, but is not there")]
    RequirerMissing(ObjectKey),
    #[error("others write the binding of a dependency")]
    Busy,
    #[error("{0}")]
    Several(String),
}

struct Ctx {
    client: Client,
    informers: Informers,
    bindings: Arc<Informer>,
    kinds: Arc<Kinds>,
    interpreter: Arc<Interpreter>,
    events: Recorder,
    failures: Failures,
    queue: Queue<ObjectKey>,
    /// The kinds that anything has depended on so far.
    followed: Mutex<BTreeMap<Gvk, Subscription>>,
    /// Dependencies that read differently than when their bindings were written.
    changed: Mutex<BTreeSet<String>>,
    /// Bindings made with their dependencies while we run, which is news, and their first generation.
    fresh: Mutex<BTreeMap<ObjectKey, i64>>,
}

pub(crate) fn start(context: &Context) {
    if !context.gates.is_on(Gate::PropagateDeps) {
        return;
    }
    let controller = context
        .controller("dependencies-distributor")
        .workers(context.options.workers_that_finish());
    let bindings = context.informers.all(&gvr());
    bindings.cache().add_index(BY_DEPENDENCY, |binding| {
        let text = binding.meta().annotations.get(annotations::DEPENDENCIES);
        let named = text.map(dependencies::from_annotation).unwrap_or_default();
        named.iter().map(|dependency| term(dependency, &dependency.name)).collect()
    });
    bindings.cache().add_index(BY_REQUIRER, |binding| {
        let marks = binding.meta().labels.keys();
        let marks = marks.filter(|mark| mark.starts_with(labels::DEPENDED_BY_PREFIX));
        marks.map(str::to_owned).collect()
    });
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        informers: context.informers.clone(),
        bindings: bindings.clone(),
        kinds: Kinds::new(context),
        interpreter: context.interpreter.clone(),
        events: context.recorder("dependencies-distributor"),
        failures: Failures::default(),
        queue: controller.queue().clone(),
        followed: Mutex::default(),
        changed: Mutex::default(),
        fresh: Mutex::default(),
    });
    let own = ctx.clone();
    context.keep(bindings.subscribe(move |change| own.binding_changed(change)));
    context.start_interpreting(controller, vec![bindings], move |key| reconcile(key, ctx.clone()));
}

fn gvr() -> Gvr {
    Gvr::new(ResourceBinding::GROUP, ResourceBinding::VERSION, ResourceBinding::PLURAL)
}

/// What the index lists a dependency under; those picked by labels have no name.
fn term(dependency: &DependentObjectReference, name: &str) -> String {
    let DependentObjectReference { api_version, kind, namespace, .. } = dependency;
    format!("{api_version} {kind} {namespace}/{name}")
}

impl Ctx {
    fn api(&self, namespace: &str) -> Api {
        self.client.api(&gvr()).namespaced(namespace)
    }

    fn binding_changed(&self, change: &Change) {
        let Change::Applied { old, new } = change else { return };
        let Ok(binding) = new.typed_for_now::<ResourceBinding>() else { return };
        let distributes = |binding: &Object| {
            binding.typed_for_now::<ResourceBinding>().is_ok_and(|b| b.spec.propagate_deps)
        };
        // It has dependencies, or a look that should have taken them back was not finished.
        let is_marked =
            new.meta().finalizers.iter().any(|it| it == finalizers::DEPENDENCIES_DISTRIBUTOR);
        let is_due = match old {
            // Before it is scheduled there is nowhere to send dependencies to.
            None => is_marked || (binding.spec.propagate_deps && !binding.spec.clusters.is_empty()),
            Some(old) => {
                old.meta().generation != new.meta().generation
                    && (binding.spec.propagate_deps || distributes(old) || is_marked)
            }
        };
        if is_due {
            let synced = self.bindings.is_synced();
            if synced && old.is_none() {
                self.fresh.lock().insert(ObjectKey::of(new), new.meta().generation);
            }
            let priority = if synced { Priority::Normal } else { Priority::Low };
            self.queue.add_with_priority(ObjectKey::of(new), priority);
        }
    }

    /// Queues the bindings that depend on an object when it comes, goes or changes.
    fn dependency_changed(&self, gvk: &Gvk, change: &Change) {
        let object = change.object();
        if let Change::Applied { old: Some(old), new } = change
            && old.meta().labels == new.meta().labels
            && !claim::update_matters(&old.value(), &new.value())
        {
            return;
        }
        let place = format!("{} {} {}/", gvk.api_version(), gvk.kind, object.namespace());
        let whole = format!("{place}{}", object.name());
        let cache = self.bindings.cache();
        let by_name = cache.by_index(BY_DEPENDENCY, &whole);
        let by_labels = cache.by_index(BY_DEPENDENCY, &place);
        let old = match change {
            Change::Applied { old, .. } => old.as_deref(),
            Change::Deleted(_) => None,
        };
        let picked = by_labels.into_iter().filter(|binding| {
            let text = binding.meta().annotations.get(annotations::DEPENDENCIES);
            let named = text.map(dependencies::from_annotation).unwrap_or_default();
            [old, Some(&**object)].into_iter().flatten().any(|object| {
                let value = object.value();
                named.iter().any(|dependency| dependencies::names_object(dependency, &value))
            })
        });
        for binding in by_name.into_iter().chain(picked) {
            if let Change::Applied { old: Some(_), .. } = change {
                self.changed.lock().insert(whole.clone());
            }
            if !binding.is_being_deleted() {
                self.queue.add(ObjectKey::of(&binding));
            }
        }
    }

    /// The informer of a kind that something depends on; its changes are told from now on.
    async fn follow(self: &Arc<Self>, gvk: &Gvk) -> Result<Arc<Informer>, Error> {
        let gvr = self.kinds.gvr_of(gvk).await?;
        let informer = self.informers.all(&gvr);
        if !self.followed.lock().contains_key(gvk) {
            let (own, kind) = (self.clone(), gvk.clone());
            let subscription =
                informer.subscribe(move |change| own.dependency_changed(&kind, change));
            self.followed.lock().entry(gvk.clone()).or_insert(subscription);
        }
        informer.wait_synced().await;
        Ok(informer)
    }
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.bindings.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let binding = object.typed_for_now::<ResourceBinding>()?;
    if !binding.spec.propagate_deps || object.is_being_deleted() {
        for attached in ctx.attached_to(&binding) {
            ctx.detach(&attached, &binding).await?;
        }
        ctx.release(&object).await?;
        return Ok(Action::AwaitChange);
    }
    let Some(template) = templates::find(&ctx.kinds, &binding.spec.resource).await? else {
        return Ok(Action::AwaitChange);
    };
    let born = ctx.fresh.lock().remove(&key);
    let is_fresh = born.is_some();
    // Whoever made it with its dependencies has just asked for them; whoever changes it since may need others.
    let is_as_born = born == Some(object.meta().generation);
    let recorded = object.meta().annotations.get(annotations::DEPENDENCIES).filter(|_| is_as_born);
    let needed = match recorded {
        Some(text) => dependencies::from_annotation(text),
        None => match ctx.dependencies_of(&template).await? {
            Some(needed) => needed,
            None => return Ok(Action::AwaitChange),
        },
    };
    let recorded = ctx.record(&object, &needed).await? || is_fresh;
    if recorded {
        let note = format!("Get dependencies({}) succeed.", describe(&needed));
        ctx.events.normal(&*template, event_reason::GET_DEPENDENCIES_SUCCEED, note);
    }
    let failed = event_reason::SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_FAILED;
    match ctx.distribute(&binding, &needed).await {
        Ok(written) => {
            let recovered = ctx.failures.recovered(&object, failed);
            if written || recorded || recovered {
                let note = "Sync schedule results to dependencies succeed.";
                let reason = event_reason::SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED;
                ctx.events.normal(&*object, reason, note);
            }
            Ok(Action::AwaitChange)
        }
        // A lost race is retried at once and no news for anybody.
        Err(Error::Busy) => Err(Error::Busy),
        Err(error) => {
            ctx.failures.warn(&ctx.events, &object, failed, &error.to_string());
            Err(error)
        }
    }
}

impl Ctx {
    /// What the template depends on; nothing if nobody can tell for its kind.
    async fn dependencies_of(
        &self,
        template: &Object,
    ) -> Result<Option<Vec<DependentObjectReference>>, Error> {
        let operation = Operation::InterpretDependency;
        if !self.interpreter.hook_enabled(template.gvk(), operation) {
            return Ok(None);
        }
        let value = template.content();
        let found =
            interpretation::ask(&self.interpreter, operation, &value, |interpreter, template| {
                interpreter.interpret_dependency(template)
            });
        let failed = event_reason::GET_DEPENDENCIES_FAILED;
        match found.await {
            Ok(found) => {
                self.failures.recovered(template, failed);
                Ok(Some(dependencies::normalise(found)))
            }
            Err(error) => {
                self.failures.warn(&self.events, template, failed, &error.to_string());
                Err(Error::Interpret(error))
            }
        }
    }

    /// Writes down what the binding depends on, and that we have to be asked before it goes.
    /// Returns whether that was news.
    async fn record(
        &self,
        binding: &Object,
        needed: &[DependentObjectReference],
    ) -> Result<bool, Error> {
        let text = dependencies::to_annotation(needed);
        let ours = finalizers::DEPENDENCIES_DISTRIBUTOR;
        let api = self.api(binding.namespace());
        let mut meta = binding.meta().clone();
        for _ in 0..RETRIES {
            let is_recorded = meta.annotations.get(annotations::DEPENDENCIES) == Some(&*text);
            let is_held = meta.finalizers.iter().any(|finalizer| finalizer == ours);
            if is_recorded && is_held {
                return Ok(false);
            }
            let mut patch = json!({"metadata": {"annotations": {annotations::DEPENDENCIES: text}}});
            if !is_held {
                let all: Vec<_> =
                    meta.finalizers.iter().map(String::as_str).chain([ours]).collect();
                patch["metadata"]["finalizers"] = json!(all);
                // The version makes sure that no finalizer added meanwhile is lost.
                patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
            }
            match api.merge_patch(binding.name(), patch).await {
                Ok(_) => return Ok(!is_recorded),
                Err(error) if error.is_conflict() => {
                    let found = api.get(binding.name()).await.map_err(Error::Record)?;
                    meta = Object::from_value(&found)?.meta().clone();
                }
                Err(error) => return Err(Error::Record(error)),
            }
        }
        Err(Error::Busy)
    }

    async fn release(&self, binding: &Object) -> Result<(), Error> {
        let ours = finalizers::DEPENDENCIES_DISTRIBUTOR;
        let all = &binding.meta().finalizers;
        if !all.iter().any(|finalizer| finalizer == ours) {
            return Ok(());
        }
        let kept: Vec<_> = all.iter().filter(|finalizer| *finalizer != ours).collect();
        let patch = json!({"metadata": {
            "resourceVersion": binding.resource_version(), "finalizers": kept}});
        match self.api(binding.namespace()).merge_patch(binding.name(), patch).await {
            Err(error) if !error.is_not_found() => Err(Error::Release(error)),
            _ => Ok(()),
        }
    }
}

fn gvk_of(dependency: &DependentObjectReference) -> Gvk {
    let version = GroupVersion::parse(&dependency.api_version).unwrap_or_default();
    version.with_kind(dependency.kind.as_str())
}

fn reference_of(binding: &ResourceBinding) -> &ObjectReference {
    &binding.spec.resource
}

/// Dependencies as the original prints them; people search events for these words.
fn describe(needed: &[DependentObjectReference]) -> String {
    let one = |dependency: &DependentObjectReference| {
        let selector = match &dependency.label_selector {
            None => "nil".to_owned(),
            Some(selector) => {
                let labels: String =
                    selector.match_labels.iter().map(|(k, v)| format!("{k}: {v},")).collect();
                let expressions: String = selector
                    .match_expressions
                    .iter()
                    .map(|e| {
                        format!(
                            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                            e.key,
                            e.operator.as_str(),
                            e.values.join(" ")
                        )
                    })
                    .collect();
                format!(
                    "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
                     MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
                )
            }
        };
        let DependentObjectReference { api_version, kind, namespace, name, .. } = dependency;
        format!(
            "{{APIVersion:{api_version} Kind:{kind} Namespace:{namespace} Name:{name} LabelSelector:{selector}}}"
        )
    };
    format!("[{}]", needed.iter().map(one).collect::<Vec<_>>().join(" "))
}

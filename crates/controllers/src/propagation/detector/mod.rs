//! Watches everything that can be propagated, lets policies claim it, and writes the bindings.
//!
//! Templates, policies and bindings are read from shared caches alone. Policies are indexed by what
//! they select, templates by the policy that claims them: nothing is searched for.

mod birth;
mod explain;
mod kinds;
mod metrics;
mod policy;
mod skip;
mod template;
mod triggers;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Weak};

use karmada_api::features::{Gate, Gates};
use karmada_api::placing::Placer;
use karmada_api::policy::{
    ActivationPreference, ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy,
    PropagationPolicy,
};
use karmada_api::work::{ClusterResourceBinding, ResourceBinding};
use karmada_api::{Binding, Kind, Policy};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_client::{Api, Client, Object};
use karmada_interpreter::{Interpreter, Operation};
use karmada_propagation::binding::ForeignOwner;
use karmada_propagation::claim::{self, Holder};
use karmada_propagation::policies::{PolicyIndex, PolicyKey};
use karmada_propagation::selector::Head;
use karmada_runtime::{Change, Informer, ObjectKey, Priority, Queue, Recorder};
use parking_lot::{Mutex, RwLock};

use self::kinds::Kinds;
use self::metrics::Numbers;
pub use self::skip::{NotAnApi, SkippedApis, SkippedNamespaces};
use self::triggers::{TemplateId, Trigger, Triggers};
use crate::context::Context;
use crate::failures::Failures;
use crate::interpretation;

/// Attempts at a write that others get in the way of.
const RETRIES: usize = 5;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0} is not served")]
    NotServed(String),
    #[error("some kinds have not been read yet")]
    NotRead,
    #[error("others write the same object")]
    Busy,
    #[error("read the template")]
    ReadTemplate(#[source] karmada_client::Error),
    #[error("claim the template")]
    Claim(#[source] karmada_client::Error),
    #[error("release the claim")]
    Release(#[source] karmada_client::Error),
    #[error("let the policy go")]
    LetGo(#[source] karmada_client::Error),
    #[error("read the binding")]
    ReadBinding(#[source] karmada_client::Error),
    #[error("write the binding")]
    WriteBinding(#[source] karmada_client::Error),
    #[error("read an object")]
    Decode(#[source] serde_json::Error),
    #[error(transparent)]
    Foreign(#[from] ForeignOwner),
    #[error("{0}")]
    Interpret(karmada_interpreter::Error),
    #[error("PriorityClass.scheduling.k8s.io \"{0}\" not found")]
    PriorityClass(String),
    #[error("priority classes of the source {0} are not supported")]
    PrioritySource(String),
    #[error("waiting for dependent overrides: {0}")]
    WaitingForOverride(String),
}

impl Error {
    /// What events say: the reason itself, without what was attempted.
    fn told(&self) -> String {
        match self {
            Self::ReadTemplate(error)
            | Self::Claim(error)
            | Self::Release(error)
            | Self::LetGo(error)
            | Self::ReadBinding(error)
            | Self::WriteBinding(error) => error.to_string(),
            other => other.to_string(),
        }
    }
}

/// A policy as events name it.
struct PolicyName(String);

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Policies by what they select; those being deleted select nothing any more.
#[derive(Default)]
pub(crate) struct Policies {
    pub(crate) namespaced: RwLock<PolicyIndex>,
    pub(crate) cluster_scoped: RwLock<PolicyIndex>,
}

impl Policies {
    fn of<P: Policy>(&self) -> &RwLock<PolicyIndex> {
        if P::NAMESPACED { &self.namespaced } else { &self.cluster_scoped }
    }

    fn select(&self, head: &Head<'_>) -> bool {
        let namespaced = !head.namespace.is_empty()
            && self.namespaced.read().best(head.namespace, head).is_some();
        namespaced || self.cluster_scoped.read().best("", head).is_some()
    }
}

/// The informers the detector decides by.
struct Inputs {
    policies: Arc<Informer>,
    cluster_policies: Arc<Informer>,
    bindings: Arc<Informer>,
    cluster_bindings: Arc<Informer>,
    overrides: Arc<Informer>,
    cluster_overrides: Arc<Informer>,
}

pub(crate) struct Detector {
    client: Client,
    gates: Gates,
    interpreter: Arc<Interpreter>,
    events: Recorder,
    failures: Failures,
    numbers: Numbers,
    skipped: SkippedNamespaces,
    kinds: Kinds,
    policies: Arc<Policies>,
    inputs: Inputs,
    priority_classes: Arc<Informer>,
    queue: Queue<TemplateId>,
    policy_queue: Queue<ObjectKey>,
    cluster_policy_queue: Queue<ObjectKey>,
    triggers: Triggers,
    placer: Option<Arc<dyn Placer>>,
    /// Templates that wait for an override policy to appear.
    held_back: Mutex<BTreeSet<TemplateId>>,
}

pub(crate) fn gvr_of<K: Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

/// What selectors look at, from what the cache knows.
fn head(object: &Object) -> Head<'_> {
    Head {
        api_version: Cow::Owned(object.gvk().api_version()),
        kind: &object.gvk().kind,
        namespace: object.namespace(),
        name: object.name(),
        labels: &object.meta().labels,
    }
}

fn holder(object: &Object) -> Option<Holder> {
    let meta = object.meta();
    claim::find_holder(|key| meta.labels.get(key), |key| meta.annotations.get(key))
}

/// Starts the detector.
pub fn start(context: &Context) {
    let skipped_apis = context.options.skipped_propagating_apis.clone();
    let skipped = context.options.skipped_propagating_namespaces.clone();
    let informer = |gvr: Gvr| context.informers.all(&gvr);
    let inputs = Inputs {
        policies: informer(gvr_of::<PropagationPolicy>()),
        cluster_policies: informer(gvr_of::<ClusterPropagationPolicy>()),
        bindings: informer(gvr_of::<ResourceBinding>()),
        cluster_bindings: informer(gvr_of::<ClusterResourceBinding>()),
        overrides: informer(gvr_of::<OverridePolicy>()),
        cluster_overrides: informer(gvr_of::<ClusterOverridePolicy>()),
    };
    let priority_classes = informer(Gvr::new("scheduling.k8s.io", "v1", "priorityclasses"));
    let workers = context.options.workers_that_begin();
    let templates = context.controller("resource-detector").workers(workers);
    let policies = context.controller("propagation-policy-detector");
    let cluster_policies = context.controller("cluster-propagation-policy-detector");
    let waits_for = vec![
        inputs.policies.clone(),
        inputs.cluster_policies.clone(),
        inputs.bindings.clone(),
        inputs.cluster_bindings.clone(),
        inputs.overrides.clone(),
        inputs.cluster_overrides.clone(),
        priority_classes.clone(),
    ];
    let detector = Arc::new_cyclic(|own: &Weak<Detector>| Detector {
        client: context.client.clone(),
        gates: context.gates.clone(),
        interpreter: context.interpreter.clone(),
        events: context.recorder("resource-detector"),
        failures: Failures::default(),
        numbers: Numbers::new(&context.metrics),
        skipped,
        kinds: {
            let own = own.clone();
            Kinds::new(context, skipped_apis, move |gvk, change| {
                if let Some(own) = own.upgrade() {
                    own.template_changed(gvk, change);
                }
            })
        },
        policies: Arc::default(),
        inputs,
        priority_classes,
        queue: templates.queue().clone(),
        policy_queue: policies.queue().clone(),
        cluster_policy_queue: cluster_policies.queue().clone(),
        triggers: Triggers::default(),
        // Quotas are charged when a binding is placed, and one that exceeds them is made nevertheless.
        placer: context
            .placer
            .clone()
            .filter(|_| !context.gates.is_on(Gate::FederatedQuotaEnforcement)),
        held_back: Mutex::default(),
    });
    detector.subscribe(context);
    detector.kinds.start(context);
    context.explainers.add(detector.clone());
    let own = detector.clone();
    context.start_interpreting(templates, waits_for.clone(), move |id| {
        let own = own.clone();
        async move { own.look_at_template(id).await }
    });
    let own = detector.clone();
    context.start_interpreting(policies, waits_for.clone(), move |key| {
        let own = own.clone();
        async move { own.look_at_policy::<PropagationPolicy>(key).await }
    });
    context.start_interpreting(cluster_policies, waits_for, move |key| {
        let own = detector.clone();
        async move { own.look_at_policy::<ClusterPropagationPolicy>(key).await }
    });
}

impl Detector {
    fn subscribe(self: &Arc<Self>, context: &Context) {
        let own = self.clone();
        context.keep(self.inputs.policies.subscribe(move |change| {
            own.policy_changed::<PropagationPolicy>(change);
        }));
        let own = self.clone();
        context.keep(self.inputs.cluster_policies.subscribe(move |change| {
            own.policy_changed::<ClusterPropagationPolicy>(change);
        }));
        for overrides in [&self.inputs.overrides, &self.inputs.cluster_overrides] {
            let own = self.clone();
            context.keep(overrides.subscribe(move |change| {
                if let Change::Applied { old: None, .. } = change {
                    let waiting = std::mem::take(&mut *own.held_back.lock());
                    waiting.into_iter().for_each(|id| own.queue.add(id));
                }
            }));
        }
    }

    /// Whether the object stays at home whatever policies say.
    fn is_skipped(&self, object: &Object) -> bool {
        // What leads to the API server of the control plane would take the place of what leads to a member's.
        let is_servers_own = matches!(
            (object.namespace(), object.name(), object.gvk().kind.as_str()),
            ("kube-system", "extension-apiserver-authentication", "ConfigMap")
                | ("default", "kubernetes", "Service" | "Endpoints" | "EndpointSlice")
                | ("", "kubernetes", "ServiceCIDR")
        );
        is_servers_own || self.skipped.skips(object.namespace())
    }

    fn template_changed(&self, gvk: &Gvk, change: &Change) {
        let new = change.object();
        let id = TemplateId { gvk: gvk.clone(), key: ObjectKey::of(new) };
        let Change::Applied { old, new } = change else {
            self.triggers.forget(&id);
            return;
        };
        if self.is_skipped(new) {
            return;
        }
        let holder = holder(new);
        // What nobody wants yet is found by the policy that will.
        let is_wanted = match &holder {
            None => self.policies.select(&head(new)),
            Some(Holder::Foreign(_)) => false,
            Some(_) => true,
        };
        let Some(old) = old else {
            if is_wanted {
                self.triggers.add(&id, Trigger { by_user: true, changed: false });
                let synced = self.kinds.get(gvk).is_some_and(|kind| kind.informer.is_synced());
                let priority = if synced { Priority::Normal } else { Priority::Low };
                self.queue.add_with_priority(id, priority);
            }
            return;
        };
        if !is_wanted || !matters(old, new) {
            return;
        }
        let by_user =
            !self.is_lazy(holder.as_ref()) || !claim::is_own_update(&old.value(), &new.value());
        let trigger = Trigger { by_user, changed: true };
        if self.triggers.observe(&id, new.resource_version(), trigger) {
            self.queue.add(id);
        }
    }

    fn is_lazy(&self, holder: Option<&Holder>) -> bool {
        let lazy = |preference: &ActivationPreference| *preference == ActivationPreference::Lazy;
        match holder {
            Some(Holder::Policy { namespace, name, .. }) => self
                .policy::<PropagationPolicy>(&ObjectKey::new(namespace, name))
                .ok()
                .flatten()
                .is_some_and(|policy| lazy(&policy.spec.activation_preference)),
            Some(Holder::ClusterPolicy { name, .. }) => self
                .policy::<ClusterPropagationPolicy>(&ObjectKey::cluster(name))
                .ok()
                .flatten()
                .is_some_and(|policy| lazy(&policy.spec.activation_preference)),
            _ => false,
        }
    }

    fn policy_changed<P: Policy>(&self, change: &Change) {
        let object = change.object();
        let Ok(policy) = object.typed_for_now::<P>() else { return };
        let key = ObjectKey::of(object);
        let index = self.policies.of::<P>();
        match change {
            Change::Applied { new, .. } if !new.is_being_deleted() => {
                index.write().insert(&*policy);
            }
            _ => index.write().remove(&PolicyKey::of(&*policy)),
        }
        match change {
            Change::Applied { old: None, .. } => {
                let synced = self.policy_informer::<P>().is_synced();
                let priority = if synced { Priority::Normal } else { Priority::Low };
                self.policy_queue::<P>().add_with_priority(key, priority);
            }
            Change::Applied { old: Some(old), new } => {
                if old.meta().generation != new.meta().generation {
                    if let Ok(old) = old.typed_for_now::<P>() {
                        self.wake_contenders(&*old, &*policy);
                    }
                    self.policy_queue::<P>().add(key);
                }
            }
            // A policy that went without a word leaves claims behind; whoever carries one is freed.
            Change::Deleted(_) => {
                for (gvk, object) in self.kinds.claimed_by(policy.permanent_id()) {
                    self.queue.add(TemplateId { gvk, key: ObjectKey::of(&object) });
                }
            }
        }
    }

    fn policy<P: Policy>(&self, key: &ObjectKey) -> Result<Option<Arc<P>>, Error> {
        let cached = self.policy_informer::<P>().cache().get(key);
        cached.map(|policy| policy.typed_for_now::<P>()).transpose().map_err(Error::Decode)
    }

    fn policy_informer<P: Policy>(&self) -> &Arc<Informer> {
        if P::NAMESPACED { &self.inputs.policies } else { &self.inputs.cluster_policies }
    }

    fn policy_queue<P: Policy>(&self) -> &Queue<ObjectKey> {
        if P::NAMESPACED { &self.policy_queue } else { &self.cluster_policy_queue }
    }

    fn binding_informer<B: Binding>(&self) -> &Arc<Informer> {
        if B::NAMESPACED { &self.inputs.bindings } else { &self.inputs.cluster_bindings }
    }

    fn bindings<B: Binding>(&self, namespace: &str) -> Api {
        self.client.api(&gvr_of::<B>()).namespaced(namespace)
    }

    fn api_of(&self, gvk: &Gvk, namespace: &str) -> Result<Api, Error> {
        let kind = self.kinds.get(gvk).ok_or_else(|| Error::NotServed(gvk.kind.clone()))?;
        Ok(self.client.api(&kind.resource.gvr).namespaced(namespace))
    }

    /// Asks the interpreter; a webhook is asked aside, because its answer may take long.
    async fn ask<T: Send + 'static>(
        &self,
        operation: Operation,
        template: &Value,
        question: impl FnOnce(&Interpreter, &Value) -> karmada_interpreter::Result<T> + Send + 'static,
    ) -> karmada_interpreter::Result<T> {
        interpretation::ask(&self.interpreter, operation, template, question).await
    }

    /// Holds the template back while an override policy that the policy depends on is missing.
    fn check_overrides<P: Policy>(&self, id: &TemplateId, policy: &P) -> Result<(), Error> {
        let informer =
            if P::NAMESPACED { &self.inputs.overrides } else { &self.inputs.cluster_overrides };
        for name in &policy.spec().dependent_overrides {
            let key = ObjectKey::new(policy.namespace(), name.as_str());
            if informer.cache().get(&key).is_none() {
                self.held_back.lock().insert(id.clone());
                return Err(Error::WaitingForOverride(name.clone()));
            }
        }
        Ok(())
    }
}

/// Whether an update is more than a status. The generation tells most of it; kinds without one are
/// compared as a whole.
pub(crate) fn matters(old: &Object, new: &Object) -> bool {
    let (before, after) = (old.meta(), new.meta());
    if before.labels != after.labels
        || before.annotations != after.annotations
        || before.finalizers != after.finalizers
        || before.owner_references != after.owner_references
        || before.deletion_timestamp != after.deletion_timestamp
        || before.generation != after.generation
    {
        return true;
    }
    (after.generation == 0 || keeps_its_generation(new.gvk()))
        && claim::update_matters(&old.value(), &new.value())
}

/// Kinds that have a generation which does not tell of changes.
fn keeps_its_generation(gvk: &Gvk) -> bool {
    gvk.group == "scheduling.k8s.io" && gvk.kind == "PriorityClass"
}

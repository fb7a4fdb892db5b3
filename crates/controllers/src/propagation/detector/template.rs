//! Looks at one template: finds the policy that claims it, writes the claim, and brings the binding
//! in line with template and policy.

use std::borrow::Cow;
use std::sync::Arc;

use karmada_api::features::Gate;
use karmada_api::policy::{
    ActivationPreference, ClusterPropagationPolicy, PriorityClassSource, PropagationPolicy,
    ResourceSelector,
};
use karmada_api::work::{ClusterResourceBinding, ResourceBinding};
use karmada_api::{Binding, Policy, event_reason, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_client::Object;
use karmada_interpreter::Operation;
use karmada_propagation::binding::{self, Draft, Interpretation};
use karmada_propagation::claim::{self, Holder};
use karmada_propagation::selector::{best_pick, picks};
use karmada_runtime::{Action, ObjectKey};
use tokio::time::Instant;

use super::triggers::{TemplateId, Trigger};
use super::{Detector, Error, PolicyName, RETRIES, head, holder};
use crate::propagation::templates::leaves_orphans;

impl Detector {
    pub(super) async fn look_at_template(&self, id: TemplateId) -> Result<Action, Error> {
        let trigger = self.triggers.take(&id);
        let result = self.place(&id, trigger).await;
        if result.is_err() {
            self.triggers.add(&id, trigger);
        }
        result.map(|()| Action::AwaitChange)
    }

    async fn place(&self, id: &TemplateId, trigger: Trigger) -> Result<(), Error> {
        // The binding of a template that is gone goes with it, by its owner reference.
        let Some(object) = self.kinds.find(&id.gvk, &id.key) else { return Ok(()) };
        match holder(&object) {
            Some(Holder::Foreign(_)) => Ok(()),
            Some(Holder::Policy { namespace, name, permanent_id }) => {
                let key = ObjectKey::new(namespace, name);
                self.follow::<PropagationPolicy>(id, &object, &key, &permanent_id, trigger).await
            }
            Some(Holder::ClusterPolicy { name, permanent_id }) => {
                let key = ObjectKey::cluster(name);
                self.follow::<ClusterPropagationPolicy>(id, &object, &key, &permanent_id, trigger)
                    .await
            }
            None => self.choose(id, &object, trigger).await,
        }
    }

    /// Lets the best policy claim a template that nobody holds.
    async fn choose(
        &self,
        id: &TemplateId,
        object: &Arc<Object>,
        trigger: Trigger,
    ) -> Result<(), Error> {
        let began = Instant::now();
        let head = head(object);
        let namespaced = (!object.namespace().is_empty())
            .then(|| self.policies.namespaced.read().best(object.namespace(), &head))
            .flatten();
        if let Some(claim) = namespaced {
            let key = ObjectKey::new(claim.policy.namespace, claim.policy.name);
            self.numbers.matched(began);
            if let Some(policy) = self.policy::<PropagationPolicy>(&key)? {
                return self.apply(id, object, &*policy, trigger).await;
            }
        }
        let claim = self.policies.cluster_scoped.read().best("", &head);
        self.numbers.matched(began);
        if let Some(claim) = claim
            && let Some(policy) =
                self.policy::<ClusterPropagationPolicy>(&ObjectKey::cluster(claim.policy.name))?
        {
            return self.apply(id, object, &*policy, trigger).await;
        }
        Ok(())
    }

    /// Applies the policy that holds a template. A claim stands until the policy lets go of it.
    async fn follow<P: Policy>(
        &self,
        id: &TemplateId,
        object: &Arc<Object>,
        key: &ObjectKey,
        permanent_id: &str,
        trigger: Trigger,
    ) -> Result<(), Error> {
        let policy = self.policy::<P>(key)?;
        let stands = |policy: &Arc<P>| policy.metadata().deletion_timestamp.is_none();
        let Some(policy) = policy.filter(stands) else {
            // One that is leaving may have looked for its claims before this one could be seen.
            return self.release(&id.gvk, object, permanent_id).await;
        };
        if best_pick(&policy.spec().resource_selectors, &head(object)).is_none() {
            // An edit of the policy releases what it no longer selects, unless nobody was there to see it. An object
            // that is served by two groups, of which the policy names the other one, stays.
            if selects_by_another_group(&policy.spec().resource_selectors, object) {
                return Ok(());
            }
            return self.release(&id.gvk, object, permanent_id).await;
        }
        self.apply(id, object, &*policy, trigger).await
    }

    async fn apply<P: Policy>(
        &self,
        id: &TemplateId,
        object: &Arc<Object>,
        policy: &P,
        trigger: Trigger,
    ) -> Result<(), Error> {
        if leaves_orphans(object) {
            return Ok(());
        }
        self.check_overrides(id, policy)?;
        let began = Instant::now();
        let applied = if object.namespace().is_empty() {
            self.bind::<P, ClusterResourceBinding>(id, object, policy, trigger).await
        } else {
            self.bind::<P, ResourceBinding>(id, object, policy, trigger).await
        };
        self.numbers.applied(began, applied.is_ok());
        let policy = PolicyName::of(policy);
        match applied {
            Ok(written) => {
                let recovered = self.failures.recovered(object, event_reason::APPLY_POLICY_FAILED);
                if written || recovered {
                    let reason = event_reason::APPLY_POLICY_SUCCEED;
                    self.events.normal(&**object, reason, format_args!("Apply {policy} succeed"));
                }
                Ok(())
            }
            // A lost race is retried at once and no news for anybody.
            Err(Error::Busy) => Err(Error::Busy),
            Err(error) => {
                let note = format!("Apply {policy} failed: {}", error.told());
                let reason = event_reason::APPLY_POLICY_FAILED;
                self.failures.warn(&self.events, object, reason, &note);
                Err(error)
            }
        }
    }

    /// Claims the template and writes its binding; returns whether the binding changed.
    async fn bind<P: Policy, B: Binding + Default + PartialEq>(
        &self,
        id: &TemplateId,
        object: &Arc<Object>,
        policy: &P,
        trigger: Trigger,
    ) -> Result<bool, Error> {
        let template = self.claim(id, object, policy).await?;
        let is_lazy = policy.spec().activation_preference == ActivationPreference::Lazy;
        if is_lazy && !trigger.by_user {
            return Ok(false);
        }
        let (interpretation, asked) = self.interpret(object, &template).await?;
        let told = |_: &Error| self.tell_replicas(object, asked);
        // Compat: bindings of cluster-scoped objects have no priority, whatever the policy says.
        let schedule_priority = match B::NAMESPACED {
            true => self.schedule_priority(policy).inspect_err(told)?,
            false => None,
        };
        let draft = Draft {
            template: &template,
            policy,
            interpretation,
            schedule_priority,
            workload_affinity: self.gates.is_on(Gate::WorkloadAffinity),
        };
        let desired: B = draft.build();
        let written =
            self.write_binding(&desired, policy, &template, trigger).await.inspect_err(told)?;
        if written {
            self.tell_replicas(object, asked);
        }
        Ok(written)
    }

    fn tell_replicas(&self, object: &Object, asked: Option<Operation>) {
        match asked {
            Some(Operation::InterpretComponent) => self.events.normal(
                object,
                event_reason::GET_COMPONENTS_SUCCEED,
                "Get components of resource template successfully.",
            ),
            Some(_) => self.events.normal(
                object,
                event_reason::GET_REPLICAS_SUCCEED,
                "Get replicas of resource template successfully.",
            ),
            None => {}
        }
    }

    /// Writes the claim and returns the template as it then is.
    async fn claim<P: Policy>(
        &self,
        id: &TemplateId,
        object: &Object,
        policy: &P,
    ) -> Result<Value, Error> {
        let wanted = Holder::new(policy);
        let mut template = object.content();
        for _ in 0..RETRIES {
            let Some(patch) = claim::claim_patch(&template, &wanted) else { return Ok(template) };
            let api = self.api_of(&id.gvk, object.namespace())?;
            self.triggers.begin_write(id);
            let written = api.merge_patch(object.name(), patch).await;
            let version = written.as_ref().ok().map(|claimed| claimed.resource_version());
            if self.triggers.end_write(id, version) {
                self.queue.add(id.clone());
            }
            match written {
                Ok(claimed) => {
                    if !self.stands(policy) {
                        // It did not see this claim when it took back all others.
                        self.triggers.expect_nothing(id);
                        self.queue.add(id.clone());
                    }
                    return Ok(claimed);
                }
                Err(error) if error.is_conflict() => {
                    template = api.get(object.name()).await.map_err(Error::ReadTemplate)?;
                    template.set_default(&["apiVersion"], id.gvk.api_version());
                    template.set_default(&["kind"], id.gvk.kind.as_str());
                    // Somebody else may have claimed it meanwhile; our own claim may be news to the cache.
                    let now = claim::holder_of(&template);
                    if now != holder(object) && now.as_ref() != Some(&wanted) {
                        return Err(Error::Busy);
                    }
                }
                Err(error) => return Err(Error::Claim(error)),
            }
        }
        Err(Error::Busy)
    }

    /// Whether the policy is there to stay, as far as it is known.
    fn stands<P: Policy>(&self, policy: &P) -> bool {
        let key = ObjectKey::new(policy.namespace(), policy.name());
        let known = self.policy_informer::<P>().cache().get(&key);
        known.is_some_and(|known| !known.is_being_deleted())
    }

    /// Asks what the template needs; also tells which question was asked.
    async fn interpret(
        &self,
        object: &Object,
        template: &Value,
    ) -> Result<(Interpretation, Option<Operation>), Error> {
        let gvk = object.gvk();
        let mut answer = Interpretation::default();
        if self.gates.is_on(Gate::MultiplePodTemplatesScheduling)
            && self.interpreter.hook_enabled(gvk, Operation::InterpretComponent)
        {
            let operation = Operation::InterpretComponent;
            let components = self
                .ask(operation, template, |interpreter, template| {
                    interpreter.interpret_component(template)
                })
                .await;
            answer.components =
                self.answered(object, event_reason::GET_COMPONENTS_FAILED, components)?;
            return Ok((answer, Some(operation)));
        }
        let operation = Operation::InterpretReplica;
        if !self.interpreter.hook_enabled(gvk, operation) {
            return Ok((answer, None));
        }
        let replicas = self
            .ask(operation, template, |interpreter, template| {
                interpreter.interpret_replica(template)
            })
            .await;
        let replicas = self.answered(object, event_reason::GET_REPLICAS_FAILED, replicas)?;
        (answer.replicas, answer.requirements) = (replicas.replicas, replicas.requirements);
        if self.gates.is_on(Gate::ResourceQuotaEstimate)
            && let Some(requirements) = &mut answer.requirements
            && requirements.namespace.is_empty()
        {
            requirements.namespace = template.namespace().to_owned();
        }
        Ok((answer, Some(operation)))
    }

    /// Tells of an interpreter that could not answer.
    fn answered<T>(
        &self,
        object: &Object,
        failed: &str,
        answer: Result<T, karmada_interpreter::Error>,
    ) -> Result<T, Error> {
        match answer {
            Ok(answer) => {
                self.failures.recovered(object, failed);
                Ok(answer)
            }
            Err(error) => {
                self.failures.warn(&self.events, object, failed, &error.to_string());
                Err(Error::Interpret(error))
            }
        }
    }

    fn schedule_priority<P: Policy>(&self, policy: &P) -> Result<Option<i32>, Error> {
        let Some(wanted) = &policy.spec().schedule_priority else { return Ok(None) };
        if !self.gates.is_on(Gate::PriorityBasedScheduling) {
            return Ok(None);
        }
        if wanted.priority_class_source != PriorityClassSource::KubePriorityClass {
            return Err(Error::PrioritySource(wanted.priority_class_source.as_str().to_owned()));
        }
        let key = ObjectKey::cluster(wanted.priority_class_name.as_str());
        let Some(class) = self.priority_classes.cache().get(&key) else {
            return Err(Error::PriorityClass(key.name.into()));
        };
        let value = class.value().i64_at(&["value"]).unwrap_or_default();
        Ok(Some(i32::try_from(value).unwrap_or(i32::MAX)))
    }

    /// Creates the binding, complete if it can be, else as the policy wants it.
    async fn create<B: Binding>(
        &self,
        api: &karmada_client::Api,
        desired: &B,
        template: &Value,
    ) -> Result<karmada_client::Result<Value>, Error> {
        if let Some(born) = self.complete(desired, template).await {
            match api.create_owned(to_value(&born)?).await {
                // Whatever is wrong with its placement is found out in its turn.
                Err(error) if error.api().is_some() && !error.is_already_exists() => {}
                created => return Ok(created),
            }
        }
        Ok(api.create_owned(to_value(desired)?).await)
    }

    /// Creates the binding or brings it up to date; returns whether anything was written.
    async fn write_binding<P: Policy, B: Binding + PartialEq>(
        &self,
        desired: &B,
        policy: &P,
        template: &Value,
        trigger: Trigger,
    ) -> Result<bool, Error> {
        let api = self.bindings::<B>(desired.namespace());
        let key = ObjectKey::new(desired.namespace(), desired.name());
        let cached = self.binding_informer::<B>().cache().get(&key);
        let mut existing: Option<B> = match cached {
            Some(cached) => Some((*cached.typed_for_now::<B>().map_err(Error::Decode)?).clone()),
            None => None,
        };
        for _ in 0..RETRIES {
            let written = match &existing {
                None => self.create(&api, desired, template).await?,
                Some(existing) => {
                    let updated = binding::update(existing, desired, policy)?;
                    let Some(updated) = updated.filter(|updated| {
                        trigger.changed || differs_beyond_version(updated, existing)
                    }) else {
                        return Ok(false);
                    };
                    api.update(&to_value(&updated)?).await
                }
            };
            match written {
                Ok(_) => return Ok(true),
                Err(error)
                    if error.is_already_exists() || error.is_conflict() || error.is_not_found() =>
                {
                    let found = api.find(desired.name()).await.map_err(Error::ReadBinding)?;
                    if found.is_none() && existing.is_none() {
                        // The namespace is not there (any more).
                        return Err(Error::WriteBinding(error));
                    }
                    let typed = found.as_ref().map(B::from_value).transpose();
                    existing = typed.map_err(Error::Decode)?;
                }
                Err(error) => return Err(Error::WriteBinding(error)),
            }
        }
        Err(Error::Busy)
    }

    /// Takes the claim of a policy off a template and its binding. The binding stays as it is
    /// otherwise, and so does what runs in the members.
    pub(super) async fn release(
        &self,
        gvk: &karmada_apimachinery::gvk::Gvk,
        object: &Object,
        permanent_id: &str,
    ) -> Result<(), Error> {
        let name = names::binding(&gvk.kind, object.name());
        let key = ObjectKey::new(object.namespace(), name.as_str());
        let (api, informer) = if object.namespace().is_empty() {
            (
                self.bindings::<ClusterResourceBinding>(""),
                self.binding_informer::<ClusterResourceBinding>(),
            )
        } else {
            (
                self.bindings::<ResourceBinding>(object.namespace()),
                self.binding_informer::<ResourceBinding>(),
            )
        };
        // The binding first: the scheduler stops touching what no policy holds.
        let binding = match informer.cache().get(&key) {
            Some(binding) => Some(binding.value()),
            None => api.find(&name).await.map_err(Error::ReadBinding)?,
        };
        if let Some(binding) = binding {
            self.release_one(&api, &name, binding, permanent_id).await?;
        }
        let api = self.api_of(gvk, object.namespace())?;
        self.release_one(&api, object.name(), object.value(), permanent_id).await
    }

    async fn release_one(
        &self,
        api: &karmada_client::Api,
        name: &str,
        mut known: Value,
        permanent_id: &str,
    ) -> Result<(), Error> {
        for _ in 0..RETRIES {
            let Some(patch) = claim::release_patch(&known, permanent_id) else { return Ok(()) };
            match api.merge_patch(name, patch).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) if error.is_conflict() => {
                    match api.find(name).await.map_err(Error::ReadTemplate)? {
                        Some(found) => known = found,
                        None => return Ok(()),
                    }
                }
                Err(error) => return Err(Error::Release(error)),
            }
        }
        Err(Error::Busy)
    }
}

/// Whether a policy names the object by another group or version of its kind.
fn selects_by_another_group(selectors: &[ResourceSelector], object: &Object) -> bool {
    selectors.iter().any(|selector| {
        let mut head = head(object);
        head.api_version = Cow::Borrowed(selector.api_version.as_str());
        picks(selector, &head).is_some()
    })
}

/// Whether a binding would say more than that its template has a newer version. Versions also move
/// with the status, and whoever renders the template reads it as it is now.
fn differs_beyond_version<B: Binding + PartialEq>(updated: &B, existing: &B) -> bool {
    let mut updated = updated.clone();
    let version = &existing.spec().resource.resource_version;
    updated.spec_mut().resource.resource_version.clone_from(version);
    updated != *existing
}

pub(crate) fn to_value<K: karmada_api::Kind>(object: &K) -> Result<Value, Error> {
    let mut value = object.to_value().map_err(Error::Decode)?;
    value.set(&["apiVersion"], K::api_version());
    value.set(&["kind"], K::KIND);
    Ok(value)
}

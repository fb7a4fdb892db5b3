//! Looks at one policy: lets go of what it no longer selects, wakes what it selects now, takes over
//! what it may preempt, and takes all its claims back when it is deleted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::features::Gate;
use karmada_api::policy::{
    ActivationPreference, ClusterPropagationPolicy, PreemptionBehavior, PropagationPolicy,
    ResourceSelector,
};
use karmada_api::{Policy, event_reason};
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_apimachinery::json;
use karmada_client::Object;
use karmada_propagation::claim::{self, Holder};
use karmada_propagation::selector::{best_pick, picks};
use karmada_runtime::{Action, ObjectKey, Priority};

use super::triggers::{TemplateId, Trigger};
use super::{Detector, Error, PolicyName, RETRIES, head, holder};

/// When a policy is looked at again while kinds that it selects are still being read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Detector {
    pub(super) async fn look_at_policy<P: Policy>(&self, key: ObjectKey) -> Result<Action, Error> {
        let Some(policy) = self.policy::<P>(&key)? else { return Ok(Action::AwaitChange) };
        if policy.metadata().deletion_timestamp.is_some() {
            self.let_all_go(&*policy).await?;
            return Ok(Action::AwaitChange);
        }
        let lazy = policy.spec().activation_preference == ActivationPreference::Lazy;
        let trigger = Trigger { by_user: !lazy, changed: false };
        for (gvk, object) in self.kinds.claimed_by(policy.permanent_id()) {
            if best_pick(&policy.spec().resource_selectors, &head(&object)).is_none() {
                self.release(&gvk, &object, policy.permanent_id()).await?;
            } else {
                self.wake(gvk, &object, trigger);
            }
        }
        for (gvk, object) in self.selected(&*policy) {
            if holder(&object).is_none() {
                // Kinds are watched one by one: what was written after the policy may be seen
                // before it, and a lazy policy has to act on it all the same.
                let version = &policy.metadata().resource_version;
                let by_user = !lazy || is_later(object.resource_version(), version);
                self.wake(gvk, &object, Trigger { by_user, ..trigger });
            }
        }
        if policy.spec().preemption == PreemptionBehavior::Always {
            if self.gates.is_on(Gate::PropagationPolicyPreemption) {
                self.preempt(&*policy).await?;
                if !self.kinds.are_synced(&Self::kinds_of(&*policy)) {
                    // What it could take over is not known yet.
                    return Ok(Action::Requeue(LOOK_AGAIN));
                }
            } else {
                tracing::debug!("preemption is asked for, but its gate is off");
            }
        }
        Ok(Action::AwaitChange)
    }

    /// The kinds the policy selects.
    fn kinds_of<P: Policy>(policy: &P) -> BTreeSet<Gvk> {
        let kinds = policy.spec().resource_selectors.iter().filter_map(|selector| {
            let version = GroupVersion::parse(&selector.api_version)?;
            Some(version.with_kind(selector.kind.as_str()))
        });
        kinds.collect()
    }

    fn wake(&self, gvk: Gvk, object: &Object, trigger: Trigger) {
        if self.is_skipped(object) {
            return;
        }
        let id = TemplateId { gvk, key: ObjectKey::of(object) };
        self.triggers.add(&id, trigger);
        self.queue.add_with_priority(id, Priority::Low);
    }

    /// The objects the policy selects, whoever holds them.
    fn selected<P: Policy>(&self, policy: &P) -> Vec<(Gvk, Arc<Object>)> {
        let mut selected = Vec::new();
        for selector in &policy.spec().resource_selectors {
            let Some(version) = GroupVersion::parse(&selector.api_version) else { continue };
            let gvk = version.with_kind(selector.kind.as_str());
            let objects = self.candidates(policy.namespace(), selector, &gvk);
            let picked = objects.into_iter().filter(|object| {
                picks(selector, &head(object)).is_some()
                    && (!P::NAMESPACED || object.namespace() == policy.namespace())
            });
            selected.extend(picked.map(|object| (gvk.clone(), object)));
        }
        selected
    }

    fn candidates(&self, scope: &str, selector: &ResourceSelector, gvk: &Gvk) -> Vec<Arc<Object>> {
        let Some(kind) = self.kinds.get(gvk) else { return Vec::new() };
        let cache = kind.informer.cache();
        let namespace = if scope.is_empty() { selector.namespace.as_str() } else { scope };
        let by_key = !kind.resource.namespaced || !namespace.is_empty();
        if !selector.name.is_empty() && by_key {
            let namespace = if kind.resource.namespaced { namespace } else { "" };
            return cache.get(&ObjectKey::new(namespace, &*selector.name)).into_iter().collect();
        }
        if namespace.is_empty() { cache.list() } else { cache.list_namespace(namespace) }
    }

    /// Takes over the templates of weaker policies.
    async fn preempt<P: Policy>(&self, policy: &P) -> Result<(), Error> {
        let contender = Holder::new(policy);
        let priority = policy.spec().priority.unwrap_or(0);
        for (gvk, object) in self.selected(policy) {
            if object.is_being_deleted() || self.is_skipped(&object) {
                continue;
            }
            let Some(held) = holder(&object) else { continue };
            let held_priority = self.priority_of(&held)?;
            let behavior = &policy.spec().preemption;
            if same_policy(&contender, &held)
                || !claim::may_preempt(&contender, behavior, priority, &held, held_priority)
            {
                continue;
            }
            let taken = self.take_over(&gvk, &object, &contender, &held).await;
            self.numbers.preempted(taken.is_ok());
            let (winner, loser) = (describe(&contender), describe(&held));
            let winner = capitalise(&winner);
            match &taken {
                Ok(()) => {
                    self.failures.recovered(&object, event_reason::PREEMPT_POLICY_FAILED);
                    let note = format!("{winner} preempted {loser} successfully");
                    self.events.normal(&*object, event_reason::PREEMPT_POLICY_SUCCEED, note);
                }
                Err(error) => {
                    let note = format!("{winner} failed to preempt {loser}: {}", error.told());
                    let reason = event_reason::PREEMPT_POLICY_FAILED;
                    self.failures.warn(&self.events, &object, reason, &note);
                }
            }
            taken?;
        }
        Ok(())
    }

    /// Rewrites the claim; the change wakes the template, and the new policy is applied then.
    async fn take_over(
        &self,
        gvk: &Gvk,
        object: &Object,
        contender: &Holder,
        held: &Holder,
    ) -> Result<(), Error> {
        let api = self.api_of(gvk, object.namespace())?;
        let mut template = object.value();
        for _ in 0..RETRIES {
            let Some(patch) = claim::claim_patch(&template, contender) else { return Ok(()) };
            match api.merge_patch(object.name(), patch).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_conflict() => {
                    template = api.get(object.name()).await.map_err(Error::ReadTemplate)?;
                    if claim::holder_of(&template).as_ref() != Some(held) {
                        return Err(Error::Busy);
                    }
                }
                Err(error) => return Err(Error::Claim(error)),
            }
        }
        Err(Error::Busy)
    }

    fn priority_of(&self, holder: &Holder) -> Result<Option<i32>, Error> {
        Ok(match holder {
            Holder::Policy { namespace, name, .. } => self
                .policy::<PropagationPolicy>(&ObjectKey::new(namespace, name))?
                .map(|policy| policy.spec.priority.unwrap_or(0)),
            Holder::ClusterPolicy { name, .. } => self
                .policy::<ClusterPropagationPolicy>(&ObjectKey::cluster(name))?
                .map(|policy| policy.spec.priority.unwrap_or(0)),
            Holder::Foreign(_) => None,
        })
    }

    /// Takes back all claims of a policy that is being deleted, then lets it go. What it placed
    /// stays where it is until another policy claims it.
    async fn let_all_go<P: Policy>(&self, policy: &P) -> Result<(), Error> {
        if !self.kinds.are_synced(&Self::kinds_of(policy)) {
            // What is claimed must be there to be let go. Claims of other kinds go when these are read.
            return Err(Error::NotRead);
        }
        for (gvk, object) in self.kinds.claimed_by(policy.permanent_id()) {
            self.release(&gvk, &object, policy.permanent_id()).await?;
        }
        let metadata = policy.metadata();
        if !metadata.finalizers.iter().any(|finalizer| finalizer == P::FINALIZER) {
            return Ok(());
        }
        let kept: Vec<_> =
            metadata.finalizers.iter().filter(|finalizer| *finalizer != P::FINALIZER).collect();
        let patch = json!({"metadata": {
            "resourceVersion": metadata.resource_version,
            "finalizers": kept,
        }});
        let gvr = Gvr::new(P::GROUP, P::VERSION, P::PLURAL);
        let api = self.client.api(&gvr).namespaced(policy.namespace());
        match api.merge_patch(policy.name(), patch).await {
            Err(error) if !error.is_not_found() => Err(Error::LetGo(error)),
            _ => Ok(()),
        }
    }

    /// When a policy steps back, those that preempt and now outrank it get their chance, the
    /// highest first.
    pub(super) fn wake_contenders<P: Policy>(&self, old: &P, new: &P) {
        if !self.gates.is_on(Gate::PropagationPolicyPreemption) {
            return;
        }
        let (before, after) = (old.spec().priority.unwrap_or(0), new.spec().priority.unwrap_or(0));
        if after >= before {
            return;
        }
        let all = self.policy_informer::<P>().cache().list_namespace(new.namespace());
        let mut contenders: Vec<_> = all
            .iter()
            .filter_map(|policy| policy.typed_for_now::<P>().ok())
            .filter(|policy| {
                let priority = policy.spec().priority.unwrap_or(0);
                policy.spec().preemption == PreemptionBehavior::Always
                    && after < priority
                    && priority < before
            })
            .collect();
        contenders.sort_by_key(|policy| std::cmp::Reverse(policy.spec().priority.unwrap_or(0)));
        for policy in contenders {
            self.policy_queue::<P>().add(ObjectKey::new(policy.namespace(), policy.name()));
        }
    }
}

/// Whether a version was written after another one of the same server.
fn is_later(version: &str, than: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(version).zip(number(than)).is_some_and(|(version, than)| version > than)
}

fn same_policy(one: &Holder, other: &Holder) -> bool {
    describe(one) == describe(other)
}

fn describe(holder: &Holder) -> String {
    match holder {
        Holder::Policy { namespace, name, .. } => format!("propagation policy({namespace}/{name})"),
        Holder::ClusterPolicy { name, .. } => format!("cluster propagation policy({name})"),
        Holder::Foreign(owner) => owner.clone(),
    }
}

fn capitalise(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

impl PolicyName {
    pub(super) fn of<P: Policy>(policy: &P) -> Self {
        Self(match policy.namespace() {
            "" => format!("cluster policy({})", policy.name()),
            namespace => format!("policy({namespace}/{})", policy.name()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::is_later;

    #[test]
    fn versions_are_compared_as_the_numbers_they_are() {
        assert!(is_later("10", "9"));
        assert!(!is_later("9", "9") && !is_later("9", "10"));
        assert!(!is_later("", "9") && !is_later("x", ""), "what is no version is not later");
    }
}

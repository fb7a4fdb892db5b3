//! Writes a decision down: the clusters and the placement they were chosen by in one patch, what
//! came of it in the status by another, and events about what is new. Nothing that stands there
//! already is written again.

use std::sync::Arc;

use karmada_api::meta::{Condition, set_condition};
use karmada_api::policy::Placement;
use karmada_api::scopes::Binding;
use karmada_api::wire::Time;
use karmada_api::work::{ObjectReference as TemplateReference, TargetCluster};
use karmada_api::{ObjectMeta, annotations, conditions, event_reason};
use karmada_apimachinery::readable::Readable as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Error;
use karmada_runtime::{ObjectKey, ObjectReference};
use karmada_scheduler_core::reason::Failure;
use karmada_scheduler_core::trigger::Trigger;
use karmada_scheduler_core::{Outcome, show_targets};

use crate::Scheduler;
use crate::cycle::{fetch, parse};
use crate::lane::Lane;
use crate::queue::Verdict;

/// How often somebody else may write the status at the same time.
const CONFLICTS: usize = 5;

/// What the status is to say about an attempt.
pub(crate) struct Report {
    reason: &'static str,
    message: String,
    /// The affinity group that was chosen.
    affinity_name: Option<String>,
    /// Set on success.
    success: Option<Success>,
}

struct Success {
    /// The generation that was decided on, with the result in it.
    generation: i64,
    /// Whether the time of the decision is worth writing even if nothing else changed.
    anew: bool,
}

impl Report {
    pub(crate) fn of(outcome: &Outcome, generation: i64, anew: bool) -> Self {
        let (reason, success) = match &outcome.result {
            Ok(_) => (conditions::binding::reason::SUCCESS, Some(Success { generation, anew })),
            Err(failure) => (failure.condition_reason(), None),
        };
        let affinity_name = affinity_name_of(outcome);
        Self { reason, message: outcome.message(), affinity_name, success }
    }
}

impl Scheduler {
    pub(crate) async fn write<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
        binding: &Arc<B>,
        trigger: Trigger,
        outcome: Outcome,
        passing: Option<Outcome>,
    ) -> Result<Verdict, Error> {
        let patch = new_targets(&outcome).and_then(|targets| object_patch(&**binding, targets));
        let rewritten = patch.is_some();
        let mut current = binding.clone();
        if let Some(patch) = patch {
            match self.patch_object(lane, key, patch).await {
                Ok(written) => current = written,
                Err(error) => return self.refused(lane, key, binding, &outcome, error).await,
            }
        }
        let anew = rewritten || trigger == Trigger::Requested;
        let report = Report::of(&outcome, current.metadata().generation, anew);
        let news = self.report(lane, key, current.clone(), &report).await?;
        // Whoever asked for a decision is told of it, even if it changes nothing.
        let answers = trigger == Trigger::Requested && outcome.result.is_ok();
        if rewritten || news || answers {
            // Compat: the original writes the passing result too and tells both.
            let differs = |passing: &Outcome| targets_of(passing) != targets_of(&outcome);
            if let Some(passing) = passing.filter(differs) {
                self.tell_outcome(&*current, &passing);
            }
            self.tell_outcome(&*current, &outcome);
        }
        Ok(match outcome.result {
            Ok(_) | Err(Failure::NoClusterFits { .. }) => Verdict::Done,
            Err(Failure::Unschedulable(_)) => Verdict::NoRoom,
            Err(Failure::Other(_)) => Verdict::Failed,
        })
    }

    async fn patch_object<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
        patch: Value,
    ) -> Result<Arc<B>, Error> {
        let written: Arc<B> = parse(lane.api(key).merge_patch(&key.name, patch).await?)?;
        lane.wrote(key, written.clone());
        self.assumptions.accepted(key);
        Ok(written)
    }

    /// The server does not take the result: says so in the status, unless it is about timing.
    async fn refused<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
        binding: &Arc<B>,
        outcome: &Outcome,
        error: Error,
    ) -> Result<Verdict, Error> {
        self.assumptions.refused(key);
        let Some(api) = error.api() else { return Err(error) };
        if error.is_conflict() || crate::cycle::is_over(&error) || api.code >= 500 {
            return Err(error);
        }
        let message = api.to_string();
        let reason = match (&outcome.result, api.reason.as_str()) {
            (Err(_), _) => conditions::binding::reason::NO_CLUSTER_FIT,
            (Ok(_), conditions::QUOTA_EXCEEDED) => conditions::binding::reason::QUOTA_EXCEEDED,
            (Ok(_), _) => conditions::binding::reason::SCHEDULER_ERROR,
        };
        // Compat: the group that was chosen counts as the one in use all the same.
        let affinity_name = affinity_name_of(outcome);
        let report = Report { reason, message: message.clone(), affinity_name, success: None };
        if self.report(lane, key, binding.clone(), &report).await? {
            self.tell_passed_over::<B>(binding.metadata(), &binding.spec().resource, outcome);
            let reason = event_reason::SCHEDULE_BINDING_FAILED;
            self.tell::<B>(binding.metadata(), &binding.spec().resource, message, reason);
        }
        Ok(Verdict::Failed)
    }

    /// Brings the status up to date; returns whether the condition says something new. A rebalance that was asked
    /// for after the decision is not answered by it.
    pub(crate) async fn report<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
        mut current: Arc<B>,
        report: &Report,
    ) -> Result<bool, Error> {
        let asked = current.spec().reschedule_triggered_at;
        for _ in 0..CONFLICTS {
            if current.spec().reschedule_triggered_at != asked {
                break;
            }
            // Who asks may be ahead of this clock, and is served all the same.
            let now = Time::from(self.clock.now());
            let now = asked.map_or(now, |asked| asked.max(now));
            let (patch, news) = status_patch(&*current, report, now);
            let Some(patch) = patch else { return Ok(false) };
            match lane.api(key).merge_patch_status(&key.name, patch).await {
                Ok(_) => return Ok(news),
                // Only others' parts of the status differ; the decision stands.
                Err(error) if error.is_conflict() => current = fetch(lane, key).await?,
                Err(error) => return Err(error),
            }
        }
        Err(Error::Api(Box::new(karmada_client::ApiError {
            code: 409,
            reason: "Conflict".to_owned(),
            ..Default::default()
        })))
    }

    /// Nothing is to be decided; the status follows the generation.
    pub(crate) async fn observe_generation<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
        binding: &Arc<B>,
    ) -> Result<(), Error> {
        let generation = binding.metadata().generation;
        let patch = json!({"status": {"schedulerObservedGeneration": generation}});
        lane.api(key).merge_patch_status(&key.name, patch).await?;
        Ok(())
    }

    pub(crate) fn tell_outcome<B: Binding>(&self, binding: &B, outcome: &Outcome) {
        self.tell_outcome_of::<B>(binding.metadata(), &binding.spec().resource, outcome);
    }

    /// Records the events about a decision, for the binding and for its template.
    pub(crate) fn tell_outcome_of<B: Binding>(
        &self,
        metadata: &ObjectMeta,
        template: &TemplateReference,
        outcome: &Outcome,
    ) {
        self.tell_passed_over::<B>(metadata, template, outcome);
        match &outcome.result {
            Ok(placed) => {
                // Compat: the text about cluster-scoped bindings lacks the colon.
                let colon = if B::NAMESPACED { ":" } else { "" };
                let targets = show_targets(&placed.clusters);
                let message = format!("{} Result{colon} {targets}", outcome.message());
                let reason = event_reason::SCHEDULE_BINDING_SUCCEED;
                self.tell::<B>(metadata, template, message, reason);
            }
            // Compat: of groups that all fail nothing more is said, unless the placement is given up.
            Err(failure) if !outcome.passed_over.is_empty() && !failure.clears_placement() => {}
            Err(failure) => {
                let (message, reason) =
                    (failure.to_string(), event_reason::SCHEDULE_BINDING_FAILED);
                self.tell::<B>(metadata, template, message, reason);
            }
        }
    }

    /// Records the failure of each affinity group that was tried in vain.
    fn tell_passed_over<B: Binding>(
        &self,
        metadata: &ObjectMeta,
        template: &TemplateReference,
        outcome: &Outcome,
    ) {
        for passed in &outcome.passed_over {
            let key = ObjectKey::new(metadata.namespace.as_str(), metadata.name.as_str());
            let message = format!(
                "failed to schedule {}({key}) with clusterAffiliates index({}): {}",
                B::KIND,
                passed.index,
                passed.failure
            );
            let reason = event_reason::SCHEDULE_BINDING_FAILED;
            self.tell::<B>(metadata, template, message, reason);
        }
    }

    /// Records that a binding is not looked at any more because it is going away.
    pub(crate) fn tell_skipped<B: Binding>(&self, binding: &B) {
        let metadata = binding.metadata();
        let key = ObjectKey::new(metadata.namespace.as_str(), metadata.name.as_str());
        let kind = if B::NAMESPACED { "resourceBinding" } else { "clusterResourceBinding" };
        let message = format!("skip schedule deleting {kind}: {key}");
        let reason = event_reason::SCHEDULE_BINDING_FAILED;
        self.tell::<B>(metadata, &binding.spec().resource, message, reason);
    }

    /// Records an event about the binding and about its template.
    fn tell<B: Binding>(
        &self,
        metadata: &ObjectMeta,
        template: &TemplateReference,
        message: String,
        reason: &str,
    ) {
        let about = [
            ObjectReference {
                api_version: B::api_version(),
                kind: B::KIND.to_owned(),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
                uid: metadata.uid.clone(),
                resource_version: metadata.resource_version.clone(),
            },
            ObjectReference {
                api_version: template.api_version.clone(),
                kind: template.kind.clone(),
                namespace: template.namespace.clone(),
                name: template.name.clone(),
                uid: template.uid.clone(),
                resource_version: template.resource_version.clone(),
            },
        ];
        for about in about {
            match reason {
                event_reason::SCHEDULE_BINDING_SUCCEED => {
                    self.events.normal(about, reason, &*message);
                }
                _ => self.events.warning(about, reason, &*message),
            }
        }
    }
}

fn affinity_name_of(outcome: &Outcome) -> Option<String> {
    outcome.result.as_ref().ok()?.affinity_name.clone()
}

/// What the binding is to name; nothing if that stays as it is.
pub(crate) fn new_targets(outcome: &Outcome) -> Option<&[TargetCluster]> {
    match &outcome.result {
        Ok(placed) => Some(&placed.clusters[..]),
        Err(failure) => failure.clears_placement().then_some(&[][..]),
    }
}

fn targets_of(outcome: &Outcome) -> Option<&[TargetCluster]> {
    outcome.result.as_ref().ok().map(|placed| &placed.clusters[..])
}

/// The change that puts the result into the binding, if it is not there yet.
fn object_patch<B: Binding>(binding: &B, targets: &[TargetCluster]) -> Option<Value> {
    let (metadata, spec) = (binding.metadata(), binding.spec());
    let placement = spec.placement.as_ref()?;
    let applied = metadata.annotations.get(annotations::APPLIED_PLACEMENT);
    let same = |text: &String| {
        Placement::from_text(text.as_bytes()).is_ok_and(|applied| applied == *placement)
    };
    // The version makes sure that an eviction in the meantime is not undone.
    let mut patch = json!({"metadata": {"resourceVersion": metadata.resource_version}});
    let (mut changed, annotated) = (false, applied.is_some_and(same));
    if !annotated {
        let text = serde_json::to_string(placement).ok()?;
        patch["metadata"]["annotations"] = json!({annotations::APPLIED_PLACEMENT: text});
        changed = true;
    }
    if spec.clusters != targets {
        let targets = if targets.is_empty() { Value::Null } else { json!(targets) };
        patch["spec"] = json!({"clusters": targets});
        changed = true;
    }
    changed.then_some(patch)
}

/// The change that brings the status up to date, if any, and whether the condition is a new one.
fn status_patch<B: Binding>(binding: &B, report: &Report, now: Time) -> (Option<Value>, bool) {
    let status = binding.status();
    let mut conditions = status.conditions.clone();
    let condition = Condition {
        r#type: conditions::binding::SCHEDULED.to_owned(),
        status: if report.success.is_some() { "True" } else { "False" }.to_owned(),
        reason: report.reason.to_owned(),
        message: report.message.clone(),
        ..Condition::default()
    };
    let news = set_condition(&mut conditions, condition, now);
    let mut changes = json!({});
    if news {
        changes["conditions"] = json!(conditions);
    }
    let name = report.affinity_name.as_ref();
    if let Some(name) = name.filter(|name| **name != status.scheduler_observed_affinity_name) {
        changes["schedulerObservingAffinityName"] = name.as_str().into();
    }
    if let Some(success) = &report.success {
        if status.scheduler_observed_generation != success.generation {
            changes["schedulerObservedGeneration"] = success.generation.into();
        }
        let changed = changes.as_object().is_some_and(|changes| !changes.is_empty());
        if success.anew || changed {
            changes["lastScheduledTime"] = json!(now);
        }
    }
    if changes.as_object().is_none_or(|changes| changes.is_empty()) {
        return (None, false);
    }
    let metadata = json!({"resourceVersion": binding.metadata().resource_version});
    (Some(json!({"metadata": metadata, "status": changes})), news)
}

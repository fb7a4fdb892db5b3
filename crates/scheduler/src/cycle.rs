//! One turn of one binding: look whether a decision is due, decide, write the result down.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::explain::Scheduling;
use karmada_api::meta::find_condition;
use karmada_api::scopes::Binding;
use karmada_api::wire::Time;
use karmada_api::work::ResourceBindingSpec;
use karmada_api::{annotations, conditions};
use karmada_client::Error;
use karmada_runtime::ObjectKey;
use karmada_scheduler_core::snapshot::Snapshot;
use karmada_scheduler_core::trigger::{self, Decision, Trigger};
use karmada_scheduler_core::{
    Estimates, Outcome, Peer, Peers, Subject, explain, explain_anew, hold_against,
    schedule_observed,
};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::Scheduler;
use crate::birth::{PATIENCE, is_reported};
use crate::lane::{Decided, Lane};
use crate::queue::{Causes, Turn, Verdict};
use crate::write::new_targets;

/// How often somebody else may be faster before the attempt counts as failed.
const CONFLICTS: usize = 5;

/// Names of the indexes of bindings by the groups they keep to.
pub(crate) const AFFINITY_GROUP: &str = "workload-affinity-group";
pub(crate) const ANTI_AFFINITY_GROUP: &str = "workload-anti-affinity-group";

impl Scheduler {
    pub(crate) async fn take_turn(&self, turn: &Turn) -> Verdict {
        match turn.key.namespace.as_str() {
            "" => self.turn_of(&self.global, turn).await,
            _ => self.turn_of(&self.namespaced, turn).await,
        }
    }

    async fn turn_of<B: Binding>(&self, lane: &Lane<B>, turn: &Turn) -> Verdict {
        let is_birth = turn.causes == Causes::BORN;
        if is_birth && self.births.may_wait(&turn.key) {
            return Verdict::Later(PATIENCE);
        }
        let Some(mut binding) = lane.latest(&turn.key) else { return Verdict::Done };
        if is_birth && !self.births.knows(&turn.key) && is_reported(&*binding) {
            // That was done with something else.
            return Verdict::Done;
        }
        let observed = binding.status().scheduler_observed_generation;
        let known = lane.is_own(&binding) || observed == binding.metadata().generation;
        if turn.causes == Causes::UPDATED && known {
            // It was our own write that woke us.
            return Verdict::Done;
        }
        for _ in 0..CONFLICTS {
            let looked = match self.births.knows(&turn.key) {
                true => self.look_at_new(lane, turn, binding).await,
                false => self.look_at(lane, turn, binding).await,
            };
            match looked {
                Ok(verdict) => return verdict,
                Err(error) if error.is_conflict() => {}
                Err(error) if is_over(&error) => return Verdict::Done,
                Err(error) => {
                    warn!(binding = %turn.key, %error, "the result could not be written");
                    return Verdict::Failed;
                }
            }
            // The cache may take a while; whoever was faster is on the server already.
            binding = match fetch(lane, &turn.key).await {
                Ok(binding) => binding,
                Err(error) if is_over(&error) => return Verdict::Done,
                Err(error) => {
                    warn!(binding = %turn.key, %error, "the binding could not be read");
                    return Verdict::Failed;
                }
            };
        }
        debug!(binding = %turn.key, "others change the binding all the time");
        Verdict::Failed
    }

    /// Looks at a binding that was made with its placement.
    async fn look_at_new<B: Binding>(
        &self,
        lane: &Lane<B>,
        turn: &Turn,
        binding: Arc<B>,
    ) -> Result<Verdict, Error> {
        let is_done = self.report_birth(lane, &turn.key, &binding).await?;
        if is_done && turn.causes == Causes::BORN {
            return Ok(Verdict::Done);
        }
        self.look_at(lane, turn, fetch(lane, &turn.key).await?).await
    }

    async fn look_at<B: Binding>(
        &self,
        lane: &Lane<B>,
        turn: &Turn,
        binding: Arc<B>,
    ) -> Result<Verdict, Error> {
        let key = &turn.key;
        // It may have been suspended or handed over since it was queued. Compat: clusters are followed
        // by what was left without its policy too.
        let is_ours = match turn.causes.has_clusters() {
            true => self.schedules(binding.spec()),
            false => self.accepts(&*binding),
        };
        if !is_ours {
            return Ok(Verdict::Done);
        }
        let snapshot = self.snapshot();
        let peers = self.peers(&*binding);
        let subject = subject(&*binding, &peers, self.clock.now().into());
        match trigger::decide(&subject, &snapshot, &self.config) {
            Decision::SkipDeleting => {
                if turn.causes.has_update() {
                    self.tell_skipped(&*binding);
                }
                Ok(Verdict::Done)
            }
            // Nothing to place, and a change of that comes as an event.
            Decision::NoPlacement => Ok(Verdict::Done),
            Decision::Nothing { .. } if is_unreported(lane, &*binding) => {
                self.schedule(lane, key, binding, Trigger::PlacementChanged).await
            }
            Decision::Nothing { observe_generation: false } => Ok(Verdict::Done),
            Decision::Nothing { observe_generation: true } => {
                self.observe_generation(lane, key, &binding).await?;
                Ok(Verdict::Done)
            }
            Decision::Schedule(trigger) => self.schedule(lane, key, binding, trigger).await,
        }
    }

    async fn schedule<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
        binding: Arc<B>,
        trigger: Trigger,
    ) -> Result<Verdict, Error> {
        let (began, snapshot) = (Instant::now(), self.snapshot());
        let decided = self.decide(&binding, &snapshot).await;
        let Some((outcome, passing)) = decided else { return Ok(Verdict::Done) };
        let snapshot = Arc::downgrade(&snapshot);
        lane.remember(key, Decided { binding: Some(binding.clone()), trigger, snapshot });
        let succeeded = outcome.result.is_ok();
        let written = self.write(lane, key, &binding, trigger, outcome, passing).await;
        // From here on what was written speaks for itself.
        self.placed.lock().remove(key);
        let succeeded = succeeded && matches!(written, Ok(Verdict::Done));
        self.metrics.attempted(trigger.metric_type(), succeeded, began.elapsed());
        written
    }

    /// Decides; where decisions depend on each other, each one counts for the next before it is written.
    /// The second outcome is the one that the first one replaces at once.
    async fn decide<B: Binding>(
        &self,
        binding: &Arc<B>,
        snapshot: &Snapshot,
    ) -> Option<(Outcome, Option<Outcome>)> {
        let accurate = match &self.options.estimator {
            Some(estimator) if binding.spec().is_workload() => {
                estimator.estimate(binding.spec(), snapshot).await
            }
            _ => BTreeMap::new(),
        };
        let _one_at_a_time = self.depends_on_others().then(|| self.deciding.lock());
        let estimates = Estimates { accurate, assumed: self.assumed() };
        let peers = self.peers(&**binding);
        let subject = subject(&**binding, &peers, self.clock.now().into());
        let (watch, config) = (self.metrics.stopwatch(), &self.config);
        let mut outcome = schedule_observed(&subject, snapshot, &estimates, config, &watch)?;
        let mut passing = None;
        if let Some(again) = as_next_time(&subject, &outcome) {
            let subject = Subject { spec: &again, ..subject };
            let next = schedule_observed(&subject, snapshot, &estimates, config, &watch);
            if let Some(next) = next.filter(|next| next.result.is_ok()) {
                passing = Some(std::mem::replace(&mut outcome, next));
            }
        }
        if let (true, true, Some(targets)) = (self.protects, B::NAMESPACED, new_targets(&outcome)) {
            let mut spec = binding.spec().clone();
            if spec.clusters != targets {
                spec.clusters = targets.to_vec();
                let key = ObjectKey::new(binding.namespace(), binding.name());
                self.assumptions.place(&key, &spec);
            }
        }
        if let (true, Ok(placed)) = (self.config.workload_affinity, &outcome.result) {
            let clusters = placed.clusters.iter().map(|target| target.name.clone()).collect();
            let key = ObjectKey::new(binding.namespace(), binding.name());
            self.placed.lock().insert(key, clusters);
        }
        Some((outcome, passing))
    }

    pub(crate) fn depends_on_others(&self) -> bool {
        self.protects || self.config.workload_affinity
    }

    fn assumed(&self) -> BTreeMap<String, Vec<Vec<karmada_scheduler_core::resources::Part>>> {
        if self.protects { self.assumptions.by_cluster() } else { BTreeMap::new() }
    }

    /// The present snapshot; the last few are kept for whoever asks why.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        const KEPT: usize = 8;
        let snapshot = self.clusters.snapshot();
        let mut recent = self.recent.lock();
        if !recent.back().is_some_and(|last| Arc::ptr_eq(last, &snapshot)) {
            recent.push_back(snapshot.clone());
            if recent.len() > KEPT {
                recent.pop_front();
            }
        }
        snapshot
    }

    /// The other bindings of the same groups, where the gate `WorkloadAffinity` is on.
    fn peers<B: Binding>(&self, binding: &B) -> Peers {
        let groups = binding.spec().workload_affinity_groups.as_ref();
        let Some(groups) = groups.filter(|_| self.config.workload_affinity && B::NAMESPACED) else {
            return Peers::default();
        };
        Peers {
            affinity: self.group(binding, AFFINITY_GROUP, &groups.affinity_group),
            anti_affinity: self.group(binding, ANTI_AFFINITY_GROUP, &groups.anti_affinity_group),
        }
    }

    fn group<B: Binding>(&self, own: &B, index: &str, group: &str) -> Vec<Peer> {
        if group.is_empty() {
            return Vec::new();
        }
        let term = format!("{}/{group}", own.namespace());
        let others = self.namespaced.informer.cache().by_index(index, &term);
        let others = others.iter().filter(|other| other.name() != own.name());
        let placed = self.placed.lock();
        let clusters = |key: ObjectKey| match placed.get(&key) {
            // Decided a moment ago, whether or not it is written yet.
            Some(clusters) => Some(clusters.clone()),
            None => {
                let other = self.namespaced.latest(&key)?;
                Some(other.spec.clusters.iter().map(|target| target.name.clone()).collect())
            }
        };
        others
            .filter_map(|other| clusters(ObjectKey::of(other)))
            .filter(|clusters: &Vec<String>| !clusters.is_empty())
            .map(|clusters| Peer { clusters })
            .collect()
    }

    /// Says why the binding is where it is: from what the last decision was made from, as far as
    /// that is still known, else from what is known now, and says so.
    pub(crate) fn explain<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
    ) -> Option<Scheduling> {
        let standing = lane.latest(key)?;
        let peers = self.peers(&*standing);
        let (now, current) = (self.clock.now().into(), self.clusters.snapshot());
        let estimates = Estimates { accurate: BTreeMap::new(), assumed: self.assumed() };
        let Some(decided) = lane.decided(key) else {
            let subject = subject(&*standing, &peers, now);
            return explain_anew(&subject, &current, &estimates, &self.config);
        };
        let (snapshot, is_gone) = match decided.snapshot.upgrade() {
            Some(snapshot) => (snapshot, false),
            None => (current, true),
        };
        let before = decided.binding.unwrap_or_else(|| {
            let mut unplaced = (*standing).clone();
            unplaced.spec_mut().clusters.clear();
            Arc::new(unplaced)
        });
        let subject = subject(&*before, &peers, now);
        let ask = |subject: &Subject<'_>| {
            explain(subject, &snapshot, &estimates, &self.config, Some(decided.trigger))
        };
        let mut told = ask(&subject)?;
        if let Some(again) = as_next_time(&subject, &told.0) {
            let next = ask(&Subject { spec: &again, ..subject });
            told = next.filter(|(outcome, _)| outcome.result.is_ok()).unwrap_or(told);
        }
        let (outcome, mut scheduling) = told;
        scheduling.anew = is_gone;
        // A failure leaves what stands as it was, which contradicts nothing.
        match outcome.result.is_err() && !is_gone {
            true => Some(scheduling),
            false => Some(hold_against(scheduling, &outcome, &standing.spec().clusters)),
        }
    }
}

/// Whether a result was written and the status does not say so, as after a crash between the two.
fn is_unreported<B: Binding>(lane: &Lane<B>, binding: &B) -> bool {
    let scheduled = find_condition(&binding.status().conditions, conditions::binding::SCHEDULED);
    scheduled.is_none_or(|condition| {
        let contradicts = condition.reason == conditions::binding::reason::NO_CLUSTER_FIT
            && !binding.spec().clusters.is_empty();
        !condition.is_true() && (contradicts || lane.is_own(binding))
    })
}

/// The binding with a result in it that may come out differently when it is looked at next: present
/// targets are ranked before new ones, by what they have too, and then all of them are present and have
/// the same. Deciding on it at once saves the write that would follow.
fn as_next_time(subject: &Subject<'_>, outcome: &Outcome) -> Option<ResourceBindingSpec> {
    let (spec, placed) = (subject.spec, outcome.result.as_ref().ok()?);
    let placement = spec.placement.as_ref()?;
    if !trigger::follows_clusters(spec, placement) || spec.clusters == placed.clusters {
        return None;
    }
    let keeps_some = placed.clusters.iter().any(|target| spec.target_contains(&target.name));
    (keeps_some || trigger::ranks_groups(placement))
        .then(|| ResourceBindingSpec { clusters: placed.clusters.clone(), ..spec.clone() })
}

fn subject<'a, B: Binding>(binding: &'a B, peers: &'a Peers, now: Time) -> Subject<'a> {
    let metadata = binding.metadata();
    Subject {
        spec: binding.spec(),
        status: binding.status(),
        generation: metadata.generation,
        deleting: metadata.deletion_timestamp.is_some(),
        applied_placement: metadata
            .annotations
            .get(annotations::APPLIED_PLACEMENT)
            .map(String::as_str),
        peers,
        now,
    }
}

/// Reads the binding from the server.
pub(crate) async fn fetch<B: Binding>(lane: &Lane<B>, key: &ObjectKey) -> Result<Arc<B>, Error> {
    parse(lane.api(key).get(&key.name).await?)
}

pub(crate) fn parse<B: Binding>(value: karmada_apimachinery::Value) -> Result<Arc<B>, Error> {
    let attempt = format!("read a {}", B::KIND);
    B::from_value(&value).map(Arc::new).map_err(|source| Error::Decode { attempt, source })
}

/// Whether there is nothing left to schedule.
pub(crate) fn is_over(error: &Error) -> bool {
    error.is_not_found() || error.is_namespace_terminating()
}

//! Bindings that are made with their placement: decided on while whoever makes them waits, reported
//! together with the first thing that is said about them. Only plain successes take this way;
//! everything else has its turn as ever.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use karmada_api::conditions::binding as condition;
use karmada_api::meta::{Condition, find_condition, set_condition};
use karmada_api::placing::{Placed, Placer, Subject};
use karmada_api::policy::Placement;
use karmada_api::scopes::{Binding, has_owner};
use karmada_api::work::{
    ClusterResourceBinding, ResourceBinding, ResourceBindingStatus, TargetCluster,
};
use karmada_client::Error;
use karmada_runtime::ObjectKey;
use karmada_scheduler_core::snapshot::Snapshot;
use karmada_scheduler_core::trigger::{self, Trigger};
use karmada_scheduler_core::{Estimates, Outcome, Peers, schedule_observed};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;

use crate::lane::{Decided, Lane};
use crate::write::Report;
use crate::{Scheduler, SchedulerHandle};

/// How long the report of a binding waits for company. Members answer sooner unless they are away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// How long it waits at most while others find company: then whoever could answer is just busy.
const LONG_PATIENCE: Duration = Duration::from_secs(30);

/// What a binding is placed for when it is made.
const TRIGGER: Trigger = Trigger::PlacementChanged;

/// Bindings that were placed and never came are not remembered for ever.
const REMEMBERED: usize = 1 << 16;

/// The bindings that were made with their placement and are not reported yet.
#[derive(Default)]
pub(crate) struct Births {
    known: Mutex<HashMap<ObjectKey, Birth>>,
    /// When one of them was last reported in company.
    accompanied: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Birth {
    since: Instant,
    /// How long the decision took.
    took: Duration,
    /// How often clusters had changed so that bindings are looked at again.
    epoch: u64,
    outcome: Outcome,
    /// The clusters as they were.
    snapshot: Weak<Snapshot>,
}

impl Births {
    fn note(&self, key: ObjectKey, birth: Birth) {
        let mut births = self.known.lock();
        if births.len() >= REMEMBERED {
            debug!("births are forgotten");
            births.clear();
        }
        births.insert(key, birth);
    }

    /// Whether the report of a binding may still find company.
    pub(crate) fn may_wait(&self, key: &ObjectKey) -> bool {
        let is_young =
            self.known.lock().get(key).is_some_and(|birth| birth.since.elapsed() < LONG_PATIENCE);
        is_young && self.accompanied.lock().is_some_and(|last| last.elapsed() < PATIENCE)
    }

    /// The epoch in which a binding was made with its placement.
    pub(crate) fn epoch_of(&self, key: &ObjectKey) -> Option<u64> {
        self.known.lock().get(key).map(|birth| birth.epoch)
    }

    pub(crate) fn knows(&self, key: &ObjectKey) -> bool {
        self.known.lock().contains_key(key)
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.take(key);
    }

    /// Whoever gets it is the one to tell of it, if its status says that it was scheduled.
    fn take(&self, key: &ObjectKey) -> Option<Birth> {
        self.known.lock().remove(key)
    }

    /// What was decided, if the binding is as it was made.
    fn of(&self, binding: &Subject<'_>) -> Option<Birth> {
        let births = self.known.lock();
        let birth = births.get(&key_of(binding))?;
        let is_same = binding.metadata.generation == 1
            && clusters_of(&birth.outcome) == Some(&binding.spec.clusters[..]);
        is_same.then(|| birth.clone())
    }
}

fn key_of(binding: &Subject<'_>) -> ObjectKey {
    ObjectKey::new(binding.metadata.namespace.as_str(), binding.metadata.name.as_str())
}

fn clusters_of(outcome: &Outcome) -> Option<&[TargetCluster]> {
    outcome.result.as_ref().ok().map(|placed| &placed.clusters[..])
}

impl Scheduler {
    /// Whether decisions take nothing but the binding and the clusters.
    fn decides_at_once(&self) -> bool {
        self.options.estimator.is_none() && !self.depends_on_others()
    }

    fn place(&self, binding: &Subject<'_>) -> Option<Placed> {
        let spec = binding.spec;
        let is_due = self.decides_at_once()
            && self.is_ready()
            && has_owner(&binding.metadata.labels)
            && self.schedules(spec)
            && spec.clusters.is_empty();
        let placement: &Placement = spec.placement.as_ref().filter(|_| is_due)?;
        if trigger::follows_clusters(spec, placement) && trigger::ranks_groups(placement) {
            // It may come out differently when it is looked at again.
            return None;
        }
        let peers = Peers::default();
        let subject = karmada_scheduler_core::Subject {
            spec,
            status: binding.status,
            generation: 1,
            deleting: false,
            applied_placement: None,
            peers: &peers,
            now: self.clock.now().into(),
        };
        let epoch = self.epoch.load(Ordering::Acquire);
        let (snapshot, estimates) = (self.snapshot(), Estimates::default());
        let (began, watch) = (Instant::now(), self.metrics.stopwatch());
        let outcome = schedule_observed(&subject, &snapshot, &estimates, &self.config, &watch)?;
        let clusters = clusters_of(&outcome)?.to_vec();
        if clusters.is_empty() || !outcome.passed_over.is_empty() {
            return None;
        }
        let placement = serde_json::to_string(placement).ok()?;
        let snapshot = Arc::downgrade(&snapshot);
        let since = Instant::now();
        let birth = Birth { since, took: since - began, epoch, outcome, snapshot };
        self.births.note(key_of(binding), birth);
        Some(Placed { clusters, placement })
    }

    fn report_of(&self, binding: &Subject<'_>) -> Option<ResourceBindingStatus> {
        if find_condition(&binding.status.conditions, condition::SCHEDULED).is_some() {
            return None;
        }
        let outcome = self.births.of(binding)?.outcome;
        let (mut status, now) = (binding.status.clone(), self.clock.now());
        let scheduled = Condition {
            r#type: condition::SCHEDULED.to_owned(),
            status: "True".to_owned(),
            reason: condition::reason::SUCCESS.to_owned(),
            message: outcome.message(),
            ..Condition::default()
        };
        set_condition(&mut status.conditions, scheduled, now.into());
        status.scheduler_observed_generation = binding.metadata.generation;
        if let Some(name) = outcome.result.ok().and_then(|placed| placed.affinity_name) {
            status.scheduler_observed_affinity_name = name;
        }
        status.last_scheduled_time = Some(now.into());
        Some(status)
    }

    /// Reports a binding that was made with its placement, if it is as it was made and nobody has
    /// reported it meanwhile. Returns whether that was so.
    pub(crate) async fn report_birth<B: Binding>(
        &self,
        lane: &Lane<B>,
        key: &ObjectKey,
        binding: &Arc<B>,
    ) -> Result<bool, Error> {
        let birth = self.births.of(&Subject::of(&**binding));
        let is_done = birth.is_some();
        if let Some(Birth { outcome, snapshot, .. }) = birth {
            remember(lane, key, snapshot);
            let report = Report::of(&outcome, binding.metadata().generation, false);
            self.report(lane, key, binding.clone(), &report).await?;
        }
        // The status may have come to say so by somebody else's write, which is not told of yet.
        if let Some(birth) = self.births.take(key)
            && (is_done || is_reported(&**binding))
        {
            self.metrics.attempted(TRIGGER.metric_type(), true, birth.took);
            self.tell_outcome(&**binding, &birth.outcome);
        }
        Ok(is_done)
    }

    fn reported(&self, binding: &Subject<'_>) {
        let key = key_of(binding);
        let Some(Birth { outcome, snapshot, took, .. }) = self.births.take(&key) else { return };
        self.metrics.attempted(TRIGGER.metric_type(), true, took);
        *self.births.accompanied.lock() = Some(Instant::now());
        match binding.is_namespaced {
            true => remember(&self.namespaced, &key, snapshot),
            false => remember(&self.global, &key, snapshot),
        }
        let (metadata, template) = (binding.metadata, &binding.spec.resource);
        match binding.is_namespaced {
            true => self.tell_outcome_of::<ResourceBinding>(metadata, template, &outcome),
            false => self.tell_outcome_of::<ClusterResourceBinding>(metadata, template, &outcome),
        }
    }
}

/// Whether the status says what came of scheduling.
pub(crate) fn is_reported<B: Binding>(binding: &B) -> bool {
    find_condition(&binding.status().conditions, condition::SCHEDULED).is_some()
}

/// Keeps what the binding was decided from, for whoever asks why.
fn remember<B: Binding>(lane: &Lane<B>, key: &ObjectKey, snapshot: Weak<Snapshot>) {
    lane.remember(key, Decided { binding: None, trigger: TRIGGER, snapshot });
}

impl Placer for SchedulerHandle {
    fn place(&self, binding: Subject<'_>) -> Option<Placed> {
        self.scheduler.place(&binding)
    }

    fn report(&self, binding: Subject<'_>) -> Option<ResourceBindingStatus> {
        self.scheduler.report_of(&binding)
    }

    fn reported(&self, binding: Subject<'_>) {
        self.scheduler.reported(&binding);
    }
}

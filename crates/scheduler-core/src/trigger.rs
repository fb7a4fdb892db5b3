//! Whether a binding is due for a scheduling decision, and why.

use std::fmt;

use karmada_api::policy::{Placement, ReplicaSchedulingType, SpreadFieldValue};
use karmada_api::work::ResourceBindingSpec;
use karmada_apimachinery::readable::Readable as _;

use crate::snapshot::Snapshot;
use crate::{Config, Subject};

/// Why a decision is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    PlacementChanged,
    ReplicasChanged,
    /// A rebalance was asked for: history does not count.
    Requested,
    /// Duplicated workloads and plain resources follow every change of the clusters.
    AlwaysFollows,
    TargetDeleting,
}

impl Trigger {
    /// The `schedule_type` label of metrics.
    pub fn metric_type(self) -> &'static str {
        match self {
            Self::ReplicasChanged => "ScaleSchedule",
            _ => "ReconcileSchedule",
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PlacementChanged => "the placement changed",
            Self::ReplicasChanged => "the number of replicas changed",
            Self::Requested => "a rebalance was requested",
            Self::AlwaysFollows => "it follows every change of the clusters",
            Self::TargetDeleting => "a target cluster is being removed",
        })
    }
}

/// What to do with a binding that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Schedule(Trigger),
    /// The binding is going away.
    SkipDeleting,
    /// Nothing to schedule by: the binding has no placement.
    NoPlacement,
    /// Nothing changed; the observed generation is brought up to date where it lags.
    Nothing {
        observe_generation: bool,
    },
}

/// Decides whether the binding is scheduled; the first reason in order of [`Trigger`] wins.
pub fn decide(subject: &Subject<'_>, snapshot: &Snapshot, config: &Config) -> Decision {
    let spec = subject.spec;
    if subject.deleting {
        return Decision::SkipDeleting;
    }
    let Some(placement) = &spec.placement else { return Decision::NoPlacement };
    let observed = subject.status.scheduler_observed_affinity_name.as_str();
    let is_deleting = |name: &str| snapshot.get(name).is_some_and(|cluster| cluster.deleting);
    let trigger = if placement_changed(placement, subject.applied_placement, observed) {
        Trigger::PlacementChanged
    } else if replicas_changed(spec, placement, config) {
        Trigger::ReplicasChanged
    } else if is_requested(subject) {
        Trigger::Requested
    } else if follows_clusters(spec, placement) {
        Trigger::AlwaysFollows
    } else if spec.clusters.iter().any(|target| is_deleting(&target.name)) {
        Trigger::TargetDeleting
    } else {
        let lags = subject.generation != subject.status.scheduler_observed_generation;
        return Decision::Nothing { observe_generation: lags };
    };
    Decision::Schedule(trigger)
}

/// Whether every look at the binding leads to a decision.
pub fn follows_clusters(spec: &ResourceBindingSpec, placement: &Placement) -> bool {
    !spec.is_workload() || is_duplicated(placement)
}

/// Whether groups of clusters are chosen by what their clusters have and can take.
pub fn ranks_groups(placement: &Placement) -> bool {
    let mut constraints = placement.spread_constraints.iter();
    constraints.any(|constraint| constraint.spread_by_field != SpreadFieldValue::Cluster)
}

/// Whether a rebalance was asked for after the last decision.
pub(crate) fn is_requested(subject: &Subject<'_>) -> bool {
    match (subject.spec.reschedule_triggered_at, subject.status.last_scheduled_time) {
        (Some(asked), Some(last)) => asked > last,
        _ => false,
    }
}

pub(crate) fn is_duplicated(placement: &Placement) -> bool {
    placement.replica_scheduling.as_ref().is_none_or(|strategy| {
        strategy.replica_scheduling_type == ReplicaSchedulingType::Duplicated
    })
}

/// Compares with the placement of the last decision, kept as JSON in an annotation.
///
/// Compat: a term that was not in use may change without a decision, and an annotation that
/// cannot be read counts as unchanged.
fn placement_changed(placement: &Placement, applied: Option<&str>, observed: &str) -> bool {
    let Some(applied) = applied.filter(|json| !json.is_empty()) else { return true };
    let Ok(applied) = Placement::from_text(applied.as_bytes()) else { return false };
    if applied == *placement {
        return false;
    }
    let same_but_for_groups = applied.cluster_affinity == placement.cluster_affinity
        && applied.cluster_tolerations == placement.cluster_tolerations
        && applied.spread_constraints == placement.spread_constraints
        && applied.replica_scheduling == placement.replica_scheduling;
    if !same_but_for_groups || observed.is_empty() {
        return true;
    }
    let term = |placement: &Placement| {
        placement.cluster_affinities.iter().find(|term| term.affinity_name == observed).cloned()
    };
    match (term(placement), term(&applied)) {
        (Some(now), Some(before)) => now != before,
        _ => true,
    }
}

fn replicas_changed(spec: &ResourceBindingSpec, placement: &Placement, config: &Config) -> bool {
    if placement.replica_scheduling.is_none() {
        return false;
    }
    if config.multiple_pod_templates && !spec.components.is_empty() && spec.clusters.is_empty() {
        return true;
    }
    if is_duplicated(placement) {
        return spec.clusters.iter().any(|target| target.replicas != spec.replicas);
    }
    let assigned: i64 = spec.clusters.iter().map(|target| i64::from(target.replicas)).sum();
    assigned != i64::from(spec.replicas)
}

//! Filter, score, select and assign over a snapshot of clusters; returns placement and diagnosis.
//!
//! [`trigger::decide`] says whether a binding is due, [`schedule`] where it goes. Both are
//! functions of their arguments: estimates, gates and history are passed in.

mod assign;
pub mod combination;
pub mod division;
mod estimate;
pub mod observer;
pub mod quota;
pub mod reason;
pub mod resources;
mod rules;
mod select;
pub mod snapshot;
#[cfg(test)]
mod tests;
pub mod trigger;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use karmada_api::explain::{AffinityAttempt, ClusterVerdict, Refusal, Scheduling};
use karmada_api::policy::{Placement, SpreadFieldValue};
use karmada_api::wire::Time;
use karmada_api::work::{ResourceBindingSpec, ResourceBindingStatus, TargetCluster};

pub use estimate::Estimates;
pub use rules::EnabledRules;

use assign::Assignment;
use estimate::Demand;
use observer::{Observer, Point, Silent, Step};
use reason::{Failure, Rejection};
use select::Need;
use snapshot::{ClusterInfo, Snapshot};
use trigger::Trigger;

/// What the scheduler reads of a binding.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub spec: &'a ResourceBindingSpec,
    pub status: &'a ResourceBindingStatus,
    pub generation: i64,
    pub deleting: bool,
    /// The placement of the last decision, from its annotation.
    pub applied_placement: Option<&'a str>,
    pub peers: &'a Peers,
    /// What is tolerated for a time depends on it.
    pub now: Time,
}

/// Other bindings of the same namespace in the same groups, this one left out.
#[derive(Debug, Clone, Default)]
pub struct Peers {
    pub affinity: Vec<Peer>,
    pub anti_affinity: Vec<Peer>,
}

/// A binding in the same group and where it runs.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    pub clusters: Vec<String>,
}

/// Feature gates and flags.
#[derive(Debug, Clone)]
pub struct Config {
    pub rules: EnabledRules,
    /// Gate `CustomizedClusterResourceModeling`.
    pub resource_models: bool,
    /// Gate `MultiplePodTemplatesScheduling`.
    pub multiple_pod_templates: bool,
    /// Gate `WorkloadAffinity`.
    pub workload_affinity: bool,
    /// Flag `--enable-empty-workload-propagation`.
    pub propagate_empty_workloads: bool,
    /// Gate `SpreadByZoneAndProvider`: spreads over zones and providers too, not only over regions and
    /// clusters. Off by default: the original only checks that clusters have these properties.
    pub spread_by_zone_and_provider: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rules: EnabledRules::default(),
            resource_models: true,
            multiple_pod_templates: false,
            workload_affinity: false,
            propagate_empty_workloads: false,
            spread_by_zone_and_provider: false,
        }
    }
}

/// Where a workload goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// The affinity group that was used, where the placement has any.
    pub affinity_name: Option<String>,
    pub clusters: Vec<TargetCluster>,
}

/// A failed attempt of a group before the one that decided.
#[derive(Debug, Clone, PartialEq)]
pub struct PassedOver {
    pub index: usize,
    pub failure: Failure,
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub result: Result<Placed, Failure>,
    /// Affinity groups that failed, each worth an event.
    pub passed_over: Vec<PassedOver>,
}

impl Outcome {
    /// The message of the `Scheduled` condition.
    pub fn message(&self) -> String {
        match &self.result {
            Ok(_) => "Binding has been scheduled successfully.".to_owned(),
            Err(failure) => failure.to_string(),
        }
    }
}

/// Decides where the workload goes. `None` is returned for bindings without a placement.
pub fn schedule(
    subject: &Subject<'_>,
    snapshot: &Snapshot,
    estimates: &Estimates,
    config: &Config,
) -> Option<Outcome> {
    schedule_observed(subject, snapshot, estimates, config, &Silent)
}

/// Decides as [`schedule`] does and tells an observer of every step.
pub fn schedule_observed(
    subject: &Subject<'_>,
    snapshot: &Snapshot,
    estimates: &Estimates,
    config: &Config,
    observer: &dyn Observer,
) -> Option<Outcome> {
    let placement = subject.spec.placement.as_ref()?;
    let fresh = trigger::is_requested(subject);
    let cycle = Cycle { subject, placement, snapshot, estimates, config, fresh, observer };
    Some(cycle.run(&mut None))
}

/// Decides as [`schedule`] does and says why, for whoever asks. The trigger is that of the decision, if there was one.
pub fn explain(
    subject: &Subject<'_>,
    snapshot: &Snapshot,
    estimates: &Estimates,
    config: &Config,
    trigger: Option<Trigger>,
) -> Option<(Outcome, Scheduling)> {
    let placement = subject.spec.placement.as_ref()?;
    let (fresh, observer) = (trigger::is_requested(subject), &Silent);
    let cycle = Cycle { subject, placement, snapshot, estimates, config, fresh, observer };
    Some(cycle.explain(trigger))
}

/// Says why a placement that stands came out as it did, where the decision is no longer known: replicas are divided
/// as if there had been no history, so that the arithmetic is there to see, and the result is compared with what stands.
pub fn explain_anew(
    subject: &Subject<'_>,
    snapshot: &Snapshot,
    estimates: &Estimates,
    config: &Config,
) -> Option<Scheduling> {
    let placement = subject.spec.placement.as_ref()?;
    let (fresh, observer) = (true, &Silent);
    let cycle = Cycle { subject, placement, snapshot, estimates, config, fresh, observer };
    let (outcome, scheduling) = cycle.explain(None);
    let scheduling = Scheduling { anew: true, ..scheduling };
    Some(hold_against(scheduling, &outcome, &subject.spec.clusters))
}

/// Says what stands where something else comes out.
pub fn hold_against(
    scheduling: Scheduling,
    outcome: &Outcome,
    standing: &[TargetCluster],
) -> Scheduling {
    let by_name = |targets: &[TargetCluster]| -> BTreeMap<String, i32> {
        targets.iter().map(|target| (target.name.clone(), target.replicas)).collect()
    };
    let today = match &outcome.result {
        Ok(placed) if by_name(&placed.clusters) == by_name(standing) => return scheduling,
        Ok(placed) => format!("would give {}", show_targets(&placed.clusters)),
        Err(failure) => format!("would fail: {failure}"),
    };
    let stands = match standing {
        [] => "Nothing is decided yet".to_owned(),
        targets => format!("What stands is {}", show_targets(targets)),
    };
    Scheduling {
        anew: true,
        succeeded: outcome.result.is_ok() || !standing.is_empty(),
        outcome: format!("{stands}; a decision made today {today}"),
        ..scheduling
    }
}

/// Targets as events show them: `{m1:2, m2:1}`.
pub fn show_targets(targets: &[TargetCluster]) -> String {
    let shown: Vec<String> =
        targets.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    format!("{{{}}}", shown.join(", "))
}

/// A cluster that passed all rules.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    cluster: &'a ClusterInfo,
    /// Its place among all clusters, which is the order of names.
    place: usize,
    tier: usize,
    score: i64,
    /// Room on top of what it has.
    allocatable: i64,
    /// Room including what it has.
    available: i64,
}

impl<'a> Candidate<'a> {
    fn new(cluster: &'a ClusterInfo, place: usize) -> Self {
        Self { cluster, place, tier: 0, score: 0, allocatable: 0, available: 0 }
    }

    /// Served first: lower tier, higher score, more room, smaller name.
    fn order(&self, other: &Self) -> Ordering {
        self.tier
            .cmp(&other.tier)
            .then_with(|| other.score.cmp(&self.score))
            .then_with(|| other.available.cmp(&self.available))
            .then_with(|| self.place.cmp(&other.place))
    }
}

type Trace = Option<Vec<AffinityAttempt>>;

struct Cycle<'a> {
    subject: &'a Subject<'a>,
    placement: &'a Placement,
    snapshot: &'a Snapshot,
    estimates: &'a Estimates,
    config: &'a Config,
    observer: &'a dyn Observer,
    /// Replicas are divided as if there were none yet.
    fresh: bool,
}

impl Cycle<'_> {
    fn explain(&self, trigger: Option<Trigger>) -> (Outcome, Scheduling) {
        let mut attempts = Some(Vec::new());
        let outcome = self.run(&mut attempts);
        let mut message = outcome.message();
        if let Ok(placed) = &outcome.result {
            message = format!("{message} Result: {}", show_targets(&placed.clusters));
        }
        let scheduling = Scheduling {
            trigger: trigger.map(|trigger| trigger.to_string()).unwrap_or_default(),
            anew: false,
            attempts: attempts.unwrap_or_default(),
            succeeded: outcome.result.is_ok(),
            outcome: message,
        };
        (outcome, scheduling)
    }

    /// Tries the affinity groups in order, beginning with the one in use.
    fn run(&self, trace: &mut Trace) -> Outcome {
        let terms = &self.placement.cluster_affinities;
        let mut passed_over = Vec::new();
        if self.placement.cluster_affinity.is_some() || terms.is_empty() {
            let result =
                self.attempt(None, trace).map(|clusters| Placed { affinity_name: None, clusters });
            return Outcome { result, passed_over };
        }
        let observed = &self.subject.status.scheduler_observed_affinity_name;
        let start = if trigger::is_requested(self.subject) {
            0
        } else {
            terms.iter().position(|term| term.affinity_name == *observed).unwrap_or(0)
        };
        for (index, term) in terms.iter().enumerate().skip(start) {
            match self.attempt(Some(&term.affinity_name), trace) {
                Ok(clusters) => {
                    let affinity_name = Some(term.affinity_name.clone());
                    return Outcome { result: Ok(Placed { affinity_name, clusters }), passed_over };
                }
                Err(failure) => passed_over.push(PassedOver { index, failure }),
            }
        }
        // Compat: of all groups' failures the first one counts.
        let first = passed_over.first().map(|passed| passed.failure.clone());
        let failure = first.unwrap_or_else(|| Failure::Other("no affinity group".to_owned()));
        Outcome { result: Err(failure), passed_over }
    }

    fn attempt(
        &self,
        affinity: Option<&str>,
        trace: &mut Trace,
    ) -> Result<Vec<TargetCluster>, Failure> {
        let mut recorded = trace.as_ref().map(|_| AffinityAttempt {
            affinity: affinity.map(str::to_owned),
            ..AffinityAttempt::default()
        });
        let result = self.place(affinity, recorded.as_mut());
        if let (Some(trace), Some(mut attempt)) = (trace, recorded) {
            match &result {
                Ok(targets) => mark_targets(&mut attempt.clusters, targets),
                Err(failure) => attempt.error = Some(failure.to_string()),
            }
            trace.push(attempt);
        }
        result
    }

    fn place(
        &self,
        affinity: Option<&str>,
        mut trace: Option<&mut AffinityAttempt>,
    ) -> Result<Vec<TargetCluster>, Failure> {
        let spec = self.subject.spec;
        let attempt = rules::Attempt::new(self.subject, self.placement, affinity, self.config);
        let counts_sets = self.counts_sets();
        let demand = Demand::of(spec, counts_sets);
        let mut candidates = self.passing(&attempt, trace.as_deref_mut())?;
        self.rank(&attempt, &mut candidates);
        self.measure(&attempt, &demand, &mut candidates);
        if let Some(trace) = trace.as_deref_mut() {
            let described = candidates.iter().map(|candidate| describe(candidate, &demand));
            trace.clusters.extend(described);
            trace.clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        }
        let replicas = i64::from(spec.replicas);
        let need = match (trigger::is_duplicated(self.placement), counts_sets) {
            (true, _) => Need::Anything,
            (false, true) => Need::Room(1),
            (false, false) => Need::Room(replicas),
        };
        let selected = select::select(
            candidates,
            self.placement,
            replicas,
            need,
            self.config,
            trace.as_deref_mut(),
        );
        self.observer.ended(Step::Select);
        let selected =
            selected.map_err(|failure| failure.prefixed("failed to select clusters: "))?;
        if let Some(trace) = trace.as_deref_mut() {
            mark_selected(&mut trace.clusters, &selected);
        }
        let overflows = attempt.tiers.as_ref().is_some_and(|tiers| tiers.len() > 1);
        let (placement, fresh) = (self.placement, self.fresh);
        let assignment = Assignment { spec, placement, fresh, overflows, counts_sets };
        let assigned = assignment.assign(&selected, self.config, trace);
        self.observer.ended(Step::AssignReplicas);
        assigned.map_err(|failure| failure.prefixed("failed to assign replicas: "))
    }

    /// Component workloads are counted in whole sets where they must stay on one cluster.
    fn counts_sets(&self) -> bool {
        self.config.multiple_pod_templates
            && !self.subject.spec.components.is_empty()
            && self.placement.spread_constraints.iter().any(|constraint| {
                constraint.spread_by_field == SpreadFieldValue::Cluster
                    && constraint.min_groups.0 == 1
                    && constraint.max_groups.0 == 1
            })
    }

    /// The clusters that no rule refuses.
    fn passing(
        &self,
        attempt: &rules::Attempt<'_>,
        mut trace: Option<&mut AffinityAttempt>,
    ) -> Result<Vec<Candidate<'_>>, Failure> {
        let mut candidates = Vec::with_capacity(self.snapshot.clusters().len());
        let mut refused = Vec::new();
        self.observer.began();
        // Clusters on their way out take no part and give no reason.
        let all = self.snapshot.clusters().iter().enumerate();
        for (place, cluster) in all.filter(|(_, cluster)| !cluster.deleting) {
            match self.refusal(attempt, cluster) {
                Some(rejection) => {
                    if let Some(trace) = trace.as_deref_mut() {
                        trace.clusters.push(self.all_refusals(attempt, cluster));
                    }
                    refused.push(rejection);
                }
                None => candidates.push(Candidate::new(cluster, place)),
            }
        }
        let passed = !candidates.is_empty();
        self.observer.ended(Step::Filter { passed });
        if passed {
            return Ok(candidates);
        }
        let clusters = self.snapshot.clusters().len();
        Err(Failure::NoClusterFits { clusters, reasons: refused })
    }

    fn refusal(&self, attempt: &rules::Attempt<'_>, cluster: &ClusterInfo) -> Option<Rejection> {
        let sees_rules = self.observer.sees_rules();
        attempt.filters.iter().find_map(|(name, filter)| {
            let refusal = filter(attempt, cluster).err();
            if sees_rules {
                self.observer.asked(name, Point::Filter, refusal.is_none());
            }
            refusal
        })
    }

    fn rank(&self, attempt: &rules::Attempt<'_>, candidates: &mut [Candidate<'_>]) {
        let sees_rules = self.observer.sees_rules();
        for candidate in candidates {
            for (name, score) in &attempt.scores {
                candidate.score += score(attempt, candidate.cluster);
                if sees_rules {
                    self.observer.asked(name, Point::Score, true);
                }
            }
        }
        self.observer.ended(Step::Score);
    }

    /// Finds out how much room candidates have.
    fn measure(
        &self,
        attempt: &rules::Attempt<'_>,
        demand: &Demand,
        candidates: &mut [Candidate<'_>],
    ) {
        let targets = &self.subject.spec.clusters;
        for candidate in candidates {
            let cluster = candidate.cluster;
            let assigned = if attempt.is_target(cluster) {
                targets.iter().find(|target| target.name == cluster.name).map_or(0, |t| t.replicas)
            } else {
                0
            };
            candidate.tier = attempt.tier_of(cluster);
            candidate.allocatable = demand.allocatable(cluster, self.estimates, self.config);
            candidate.available = candidate.allocatable.saturating_add(i64::from(assigned));
        }
    }

    fn all_refusals(&self, attempt: &rules::Attempt<'_>, cluster: &ClusterInfo) -> ClusterVerdict {
        let refusals = self.config.rules.rules(self.config).filter_map(|rule| {
            let rejection = (rule.filter?)(attempt, cluster).err()?;
            Some(Refusal { rule: rule.name.to_owned(), reason: rejection.to_string() })
        });
        ClusterVerdict {
            cluster: cluster.name.clone(),
            rejected_by: refusals.collect(),
            ..ClusterVerdict::default()
        }
    }
}

fn describe(candidate: &Candidate<'_>, demand: &Demand) -> ClusterVerdict {
    ClusterVerdict {
        cluster: candidate.cluster.name.clone(),
        tier: candidate.tier,
        score: candidate.score,
        allocatable: (!matches!(demand, Demand::Nothing)).then_some(candidate.allocatable),
        ..ClusterVerdict::default()
    }
}

fn mark_selected(verdicts: &mut [ClusterVerdict], selected: &[Candidate<'_>]) {
    let selected: HashSet<&str> =
        selected.iter().map(|candidate| candidate.cluster.name.as_str()).collect();
    for verdict in verdicts {
        verdict.selected = selected.contains(verdict.cluster.as_str());
    }
}

fn mark_targets(verdicts: &mut [ClusterVerdict], targets: &[TargetCluster]) {
    let replicas: HashMap<&str, i32> =
        targets.iter().map(|target| (target.name.as_str(), target.replicas)).collect();
    for verdict in verdicts {
        verdict.replicas = replicas.get(verdict.cluster.as_str()).copied();
    }
}

//! Gives the selected clusters their replicas.

use karmada_api::explain::{AffinityAttempt, Division, Share};
use karmada_api::policy::{ClusterPreferences, Placement, ReplicaDivisionPreference};
use karmada_api::work::{ResourceBindingSpec, TargetCluster};

use crate::division::{Party, TieOrder, divide};
use crate::reason::Failure;
use crate::trigger::is_duplicated;
use crate::{Candidate, Config};

/// How replicas are shared out.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Strategy<'a> {
    Duplicated,
    Static(Option<&'a ClusterPreferences>),
    /// By capacity, over all clusters.
    Dynamic,
    /// By capacity, over as few clusters as possible.
    Aggregated,
}

impl<'a> Strategy<'a> {
    fn of(placement: &'a Placement) -> Result<Self, Failure> {
        if is_duplicated(placement) {
            return Ok(Self::Duplicated);
        }
        let Some(strategy) = &placement.replica_scheduling else { return Ok(Self::Duplicated) };
        match (&strategy.replica_division_preference, &strategy.weight_preference) {
            (ReplicaDivisionPreference::Aggregated, _) => Ok(Self::Aggregated),
            (ReplicaDivisionPreference::Weighted, Some(weights))
                if !weights.dynamic_weight.is_unset() =>
            {
                Ok(Self::Dynamic)
            }
            (ReplicaDivisionPreference::Weighted, weights) => Ok(Self::Static(weights.as_ref())),
            (other, _) => Err(Failure::Other(format!(
                "unsupported replica scheduling strategy, replicaSchedulingType: {}, replicaDivisionPreference: {other}",
                strategy.replica_scheduling_type
            ))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Duplicated => "duplicated",
            Self::Static(_) => "static weights",
            Self::Dynamic => "dynamic weights",
            Self::Aggregated => "aggregated",
        }
    }
}

/// One assignment of replicas.
pub(crate) struct Assignment<'a> {
    pub(crate) spec: &'a ResourceBindingSpec,
    pub(crate) placement: &'a Placement,
    /// History does not count.
    pub(crate) fresh: bool,
    /// Lower tiers are filled before higher ones.
    pub(crate) overflows: bool,
    pub(crate) counts_sets: bool,
}

impl Assignment<'_> {
    /// Returns the targets; clusters that get nothing are left out.
    pub(crate) fn assign(
        &self,
        selected: &[Candidate<'_>],
        config: &Config,
        trace: Option<&mut AffinityAttempt>,
    ) -> Result<Vec<TargetCluster>, Failure> {
        if selected.is_empty() {
            return Err(Failure::Other("no clusters available to schedule".to_owned()));
        }
        let spec = self.spec;
        let has_replicas = spec.replicas > 0 || spec.replica_requirements.is_some();
        if !has_replicas || spec.components.len() > 1 {
            return Ok(selected.iter().map(|candidate| self.whole(candidate)).collect());
        }
        let strategy = Strategy::of(self.placement)?;
        let replicas = i64::from(spec.replicas);
        let mut targets = if self.overflows {
            self.by_tier(strategy, replicas, selected, trace)?
        } else {
            self.divide(strategy, replicas, selected, trace)?
        };
        targets.retain(|(_, replicas)| *replicas > 0);
        if config.propagate_empty_workloads {
            for candidate in selected {
                if !targets.iter().any(|(name, _)| *name == candidate.cluster.name) {
                    targets.push((&candidate.cluster.name, 0));
                }
            }
        }
        let target = |(name, replicas): (&str, i64)| TargetCluster {
            name: name.to_owned(),
            replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
            ..TargetCluster::default()
        };
        Ok(targets.into_iter().map(target).collect())
    }

    /// A target without a share of replicas: a plain resource, or one that runs as a whole.
    fn whole(&self, candidate: &Candidate<'_>) -> TargetCluster {
        let mut target =
            TargetCluster { name: candidate.cluster.name.clone(), ..TargetCluster::default() };
        if self.counts_sets && self.spec.components.len() > 1 {
            target.components = self
                .spec
                .components
                .iter()
                .map(|component| karmada_api::work::TargetComponent {
                    name: component.name.clone(),
                    replicas: component.replicas,
                })
                .collect();
        }
        target
    }

    fn by_tier<'c>(
        &self,
        strategy: Strategy<'_>,
        replicas: i64,
        selected: &[Candidate<'c>],
        mut trace: Option<&mut AffinityAttempt>,
    ) -> Result<Vec<(&'c str, i64)>, Failure> {
        let mut left = replicas;
        let mut targets = Vec::new();
        // Spreading may have mixed the tiers; within one the order of selection stays.
        let mut by_tier = selected.to_vec();
        by_tier.sort_by_key(|candidate| candidate.tier);
        for tier in by_tier.chunk_by(|a, b| a.tier == b.tier) {
            if left == 0 {
                break;
            }
            let room =
                tier.iter().map(|candidate| candidate.available).fold(0, i64::saturating_add);
            let take = left.min(room.max(0));
            if take > 0 {
                targets.extend(self.divide(strategy, take, tier, trace.as_deref_mut())?);
            }
            left -= take;
        }
        if left > 0 {
            return Err(Failure::Unschedulable(
                "Clusters available replicas are not enough to schedule.".to_owned(),
            ));
        }
        Ok(targets)
    }

    fn divide<'c>(
        &self,
        strategy: Strategy<'_>,
        replicas: i64,
        selected: &[Candidate<'c>],
        trace: Option<&mut AffinityAttempt>,
    ) -> Result<Vec<(&'c str, i64)>, Failure> {
        let mut shares = match strategy {
            Strategy::Duplicated => selected
                .iter()
                .map(|candidate| Held {
                    name: &candidate.cluster.name,
                    weight: 1,
                    kept: 0,
                    total: replicas,
                })
                .collect(),
            Strategy::Static(weights) => self.by_static_weight(weights, replicas, selected),
            Strategy::Dynamic | Strategy::Aggregated => {
                self.by_capacity(strategy, replicas, selected)?
            }
        };
        if let Some(trace) = trace {
            trace.divisions.push(describe(strategy, replicas, &shares));
        }
        Ok(shares.drain(..).map(|share| (share.name, share.total)).collect())
    }

    fn by_static_weight<'c>(
        &self,
        weights: Option<&ClusterPreferences>,
        replicas: i64,
        selected: &[Candidate<'c>],
    ) -> Vec<Held<'c>> {
        let weight_of = |candidate: &Candidate<'_>| match weights {
            None => 1,
            Some(weights) => weights
                .static_weight_list
                .iter()
                .filter(|rule| rule.target_cluster.matches(candidate.cluster))
                .map(|rule| rule.weight)
                .max()
                .unwrap_or(0),
        };
        let mut weighted: Vec<Weighted<'_, 'c>> =
            selected.iter().map(|candidate| (candidate, weight_of(candidate))).collect();
        if weighted.iter().all(|(_, weight)| *weight == 0) {
            weighted.iter_mut().for_each(|(_, weight)| *weight = 1);
        }
        weighted.retain(|(_, weight)| *weight > 0);
        self.by_weight(replicas, weighted)
    }

    /// Divides by weight from scratch, in order of names.
    fn by_weight<'c>(&self, replicas: i64, mut weighted: Vec<Weighted<'_, 'c>>) -> Vec<Held<'c>> {
        weighted.sort_unstable_by_key(|(candidate, _)| candidate.place);
        let parties: Vec<Party<'_>> = weighted
            .iter()
            .map(|&(candidate, votes)| Party { name: &candidate.cluster.name, votes, seats: 0 })
            .collect();
        let ties = TieOrder::of_uid(&self.spec.resource.uid);
        let totals = divide(replicas, &parties, ties);
        weighted
            .into_iter()
            .zip(totals)
            .map(|((candidate, weight), total)| Held {
                name: &candidate.cluster.name,
                weight,
                kept: 0,
                total,
            })
            .collect()
    }

    fn by_capacity<'c>(
        &self,
        strategy: Strategy<'_>,
        replicas: i64,
        selected: &[Candidate<'c>],
    ) -> Result<Vec<Held<'c>>, Failure> {
        let kept = self.still_selected(selected);
        let assigned: i64 = kept.iter().map(|(_, replicas)| replicas).sum();
        let allocatable = || selected.iter().map(|candidate| (candidate, candidate.allocatable));
        let (prefix, target, weights, kept) = if self.fresh {
            let weights: Vec<Weighted<'_, 'c>> = allocatable()
                .map(|(candidate, room)| {
                    (candidate, room.saturating_add(replicas_of(&kept, candidate)))
                })
                .collect();
            ("failed to do fresh scale: ", replicas, weights, Vec::new())
        } else if assigned > replicas {
            ("failed to scale down: ", replicas, kept, Vec::new())
        } else if assigned < replicas {
            ("failed to scale up: ", replicas - assigned, allocatable().collect(), kept)
        } else {
            return Ok(kept.into_iter().map(unchanged).collect());
        };
        let weights = enough_room(strategy, target, weights, &kept)
            .map_err(|failure| failure.prefixed(prefix))?;
        let mut shares = self.by_weight(target, weights);
        for (candidate, replicas) in kept {
            match shares.iter_mut().find(|share| share.name == candidate.cluster.name) {
                Some(share) => {
                    share.kept = replicas;
                    share.total += replicas;
                }
                None => shares.push(unchanged((candidate, replicas))),
            }
        }
        Ok(shares)
    }

    /// Present targets that are selected again, in their present order.
    fn still_selected<'s, 'c>(&self, selected: &'s [Candidate<'c>]) -> Vec<Weighted<'s, 'c>> {
        self.spec
            .clusters
            .iter()
            .filter_map(|target| {
                let again =
                    selected.iter().find(|candidate| candidate.cluster.name == target.name)?;
                Some((again, i64::from(target.replicas)))
            })
            .collect()
    }
}

/// A candidate with a number: its room, its weight or the replicas it has.
type Weighted<'s, 'c> = (&'s Candidate<'c>, i64);

/// A cluster that keeps what it has.
fn unchanged<'c>((candidate, replicas): Weighted<'_, 'c>) -> Held<'c> {
    Held { name: &candidate.cluster.name, weight: 0, kept: replicas, total: replicas }
}

fn replicas_of(assigned: &[Weighted<'_, '_>], candidate: &Candidate<'_>) -> i64 {
    let same = |(other, _): &&Weighted<'_, '_>| other.place == candidate.place;
    assigned.iter().find(same).map_or(0, |(_, replicas)| *replicas)
}

/// Weights in order of room, cut to the fewest clusters where replicas are aggregated.
fn enough_room<'s, 'c>(
    strategy: Strategy<'_>,
    target: i64,
    mut weights: Vec<Weighted<'s, 'c>>,
    kept: &[Weighted<'_, '_>],
) -> Result<Vec<Weighted<'s, 'c>>, Failure> {
    weights.sort_by_key(|(_, room)| std::cmp::Reverse(*room));
    let room = weights.iter().map(|(_, room)| *room).fold(0, i64::saturating_add);
    if room < target {
        return Err(Failure::Unschedulable(format!(
            "Clusters available replicas {room} are not enough to schedule."
        )));
    }
    if strategy == Strategy::Aggregated {
        // Clusters in use come first: growing there moves nothing.
        weights.sort_by_key(|(candidate, _)| replicas_of(kept, candidate) == 0);
        let mut covered = 0i64;
        let needed = weights.iter().take_while(|(_, room)| {
            let short = covered < target;
            covered = room.saturating_add(covered);
            short
        });
        let count = needed.count();
        weights.truncate(count);
    }
    Ok(weights)
}

/// What a cluster has after a division.
struct Held<'a> {
    name: &'a str,
    weight: i64,
    kept: i64,
    total: i64,
}

fn describe(strategy: Strategy<'_>, replicas: i64, shares: &[Held<'_>]) -> Division {
    let share = |held: &Held<'_>| Share {
        cluster: held.name.to_owned(),
        weight: held.weight,
        kept: held.kept,
        total: held.total,
    };
    Division {
        strategy: strategy.name().to_owned(),
        replicas,
        shares: shares.iter().map(share).collect(),
    }
}

//! A cluster must match the placement's affinity, or one of the groups of the attempted term.

use karmada_api::policy::{ClusterAffinity, Placement};
use karmada_api::work::ResourceBindingSpec;

use super::Attempt;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

/// The tier of a cluster that matches no group; it comes after all others.
pub(super) const NO_TIER: usize = 1000;

/// The affinities in force, the inline one first, then the overflow groups in their order.
pub(super) fn tiers<'a>(
    spec: &ResourceBindingSpec,
    placement: &'a Placement,
    affinity_name: Option<&str>,
) -> Option<Vec<&'a ClusterAffinity>> {
    if let Some(affinity) = &placement.cluster_affinity {
        return Some(vec![affinity]);
    }
    let name = affinity_name?;
    let term = placement.cluster_affinities.iter().find(|term| term.affinity_name == name)?;
    let mut tiers = vec![&term.cluster_affinity];
    if spec.is_workload() {
        tiers.extend(term.overflow_affinities.iter().map(|overflow| &overflow.cluster_affinity));
    }
    Some(tiers)
}

pub(super) fn filter(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> Result<(), Rejection> {
    match &attempt.tiers {
        Some(tiers) if !tiers.iter().any(|affinity| affinity.matches(cluster)) => {
            Err(Rejection::Affinity)
        }
        _ => Ok(()),
    }
}

//! Workloads of one affinity group go where their peers are; those of one anti-affinity group
//! stay away from each other. Both leave running workloads where they are.

use std::collections::BTreeSet;

use super::Attempt;
use crate::Peer;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

/// The clusters all placed peers share.
pub(super) fn required(peers: &[Peer]) -> Option<BTreeSet<&str>> {
    peers
        .iter()
        .filter(|peer| !peer.clusters.is_empty())
        .map(|peer| peer.clusters.iter().map(String::as_str).collect::<BTreeSet<&str>>())
        .reduce(|shared, clusters| shared.intersection(&clusters).copied().collect())
}

/// The clusters any peer is on.
pub(super) fn forbidden(peers: &[Peer]) -> BTreeSet<&str> {
    peers.iter().flat_map(|peer| &peer.clusters).map(String::as_str).collect()
}

pub(super) fn filter_affinity(
    attempt: &Attempt<'_>,
    cluster: &ClusterInfo,
) -> Result<(), Rejection> {
    match &attempt.required {
        Some(required) if !attempt.is_target(cluster) && !required.contains(&*cluster.name) => {
            Err(Rejection::WorkloadAffinity)
        }
        _ => Ok(()),
    }
}

pub(super) fn filter_anti_affinity(
    attempt: &Attempt<'_>,
    cluster: &ClusterInfo,
) -> Result<(), Rejection> {
    if !attempt.is_target(cluster) && attempt.forbidden.contains(&*cluster.name) {
        return Err(Rejection::WorkloadAntiAffinity);
    }
    Ok(())
}

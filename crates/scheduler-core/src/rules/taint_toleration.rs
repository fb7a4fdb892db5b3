//! Every taint of a cluster must be tolerated, unless the workload runs there already: taints
//! keep workloads out, evicting is another controller's work.

use super::Attempt;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

pub(super) fn filter(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> Result<(), Rejection> {
    if cluster.taints.is_empty() || attempt.is_target(cluster) {
        return Ok(());
    }
    let tolerations = &attempt.placement.cluster_tolerations;
    let offending = cluster
        .taints
        .iter()
        .find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)));
    offending.map_or(Ok(()), |taint| Err(Rejection::Taint(taint.clone())))
}

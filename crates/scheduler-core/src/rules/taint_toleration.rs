//! Every taint of a cluster must be tolerated, unless the workload runs there already: taints
//! keep workloads out, evicting is another controller's work. A taint that evicts is tolerated only
//! while the time that was given for it lasts: whoever came later would be evicted at once.

use std::time::Duration;

use karmada_api::core::{Taint, TaintEffect};

use super::Attempt;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

pub(super) fn filter(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> Result<(), Rejection> {
    if cluster.taints.is_empty() || attempt.is_target(cluster) {
        return Ok(());
    }
    let tolerations = &attempt.placement.cluster_tolerations;
    let is_tolerated = |taint: &&Taint| match taint.effect {
        TaintEffect::NoExecute => {
            taint.tolerated_for(tolerations, attempt.now) != Some(Duration::ZERO)
        }
        _ => tolerations.iter().any(|toleration| toleration.tolerates(taint)),
    };
    let offending = cluster.taints.iter().find(|taint| !is_tolerated(taint));
    offending.map_or(Ok(()), |taint| Err(Rejection::Taint(taint.clone())))
}

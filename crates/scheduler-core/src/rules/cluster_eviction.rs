//! A cluster the workload is being evicted from is no candidate.

use super::Attempt;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

pub(super) fn filter(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> Result<(), Rejection> {
    if attempt.evicting.contains(cluster.name.as_str()) { Err(Rejection::Evicting) } else { Ok(()) }
}

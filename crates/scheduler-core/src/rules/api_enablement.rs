//! A cluster must serve the kind of the template, unless the workload runs there already.

use super::Attempt;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

pub(super) fn filter(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> Result<(), Rejection> {
    if cluster.serves(&attempt.kind) || attempt.is_target(cluster) {
        return Ok(());
    }
    Err(Rejection::NoApi)
}

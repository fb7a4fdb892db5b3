//! A cluster must serve the kind of the template, unless the workload runs there already.

use super::Attempt;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

pub(super) fn filter(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> Result<(), Rejection> {
    let resource = &attempt.spec.resource;
    if attempt.is_target(cluster) || cluster.serves(&resource.api_version, &resource.kind) {
        return Ok(());
    }
    Err(Rejection::NoApi)
}

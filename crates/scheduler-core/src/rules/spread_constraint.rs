//! A cluster must have the property that the workload is spread by.

use karmada_api::policy::SpreadFieldValue;

use super::Attempt;
use crate::reason::Rejection;
use crate::snapshot::ClusterInfo;

pub(super) fn filter(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> Result<(), Rejection> {
    for constraint in &attempt.placement.spread_constraints {
        let missing = match constraint.spread_by_field {
            SpreadFieldValue::Provider if cluster.provider.is_empty() => "provider",
            SpreadFieldValue::Region if cluster.region.is_empty() => "region",
            SpreadFieldValue::Zone if cluster.zones.is_empty() => "zones",
            _ => continue,
        };
        return Err(Rejection::NoProperty(missing));
    }
    Ok(())
}

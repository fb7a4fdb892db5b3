//! Clusters the workload runs on already rank above all others.

use super::{Attempt, MAX_SCORE};
use crate::snapshot::ClusterInfo;

pub(super) fn score(attempt: &Attempt<'_>, cluster: &ClusterInfo) -> i64 {
    if attempt.is_target(cluster) { MAX_SCORE } else { 0 }
}

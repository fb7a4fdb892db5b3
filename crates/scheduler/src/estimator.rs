//! Where better numbers about free capacity come from than the status of a cluster.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use karmada_api::work::ResourceBindingSpec;
use karmada_scheduler_core::snapshot::Snapshot;

/// Answers how many replicas (or sets of components) of a workload each cluster can still take.
/// A cluster that is missing from the answer has no opinion and falls back to its status, so one
/// silent estimator does not spoil the numbers of the others.
pub trait Estimator: Send + Sync + 'static {
    fn estimate<'a>(
        &'a self,
        spec: &'a ResourceBindingSpec,
        clusters: &'a Snapshot,
    ) -> BoxFuture<'a, BTreeMap<String, i64>>;
}

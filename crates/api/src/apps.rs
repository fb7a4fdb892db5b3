//! `apps.karmada.io/v1alpha1`: asking for workloads to be placed anew.

use crate::meta::kinds;
use crate::wire::{Time, go_package, text, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "apps.karmada.io";

kinds! {
    /// Asks once for workloads to be scheduled from scratch.
    pub struct WorkloadRebalancer in "apps.karmada.io" / "v1alpha1" as "workloadrebalancers", Cluster {
        /// Which workloads.
        spec: WorkloadRebalancerSpec,
        /// What became of it.
        status+: WorkloadRebalancerStatus,
    }
}

wire! {
    /// Workloads to schedule from scratch.
    pub struct WorkloadRebalancerSpec {
        /// The workloads.
        workloads: Vec<ObjectReference> = {"minItems": 1},
        /// Seconds after which the finished request deletes itself; kept for ever if unset.
        ttl_seconds_after_finished?: Option<i32>,
    }

    /// A workload.
    pub struct ObjectReference {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// Namespace, empty for cluster scope.
        namespace?: String,
    }

    /// What became of the request.
    pub struct WorkloadRebalancerStatus {
        /// Result for each workload.
        observed_workloads?: Vec<ObservedWorkload>,
        /// Generation that was handled.
        observed_generation?: i64,
        /// When all workloads were handled.
        finish_time?: Option<Time>,
    }

    /// Result for one workload.
    pub struct ObservedWorkload {
        /// The workload.
        workload: ObjectReference,
        /// Successful or Failed.
        result?: RebalanceResult,
        /// Why it failed.
        reason?: String,
    }
}

text! {
    /// Result of a request for one workload.
    pub enum RebalanceResult { Successful, Failed }
}

/// The workload has no binding.
pub const REASON_REFERENCED_BINDING_NOT_FOUND: &str = "ReferencedBindingNotFound";

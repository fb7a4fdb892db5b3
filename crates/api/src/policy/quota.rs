//! FederatedResourceQuota: limits of a namespace over all clusters.

use crate::core::ResourceList;
use crate::meta::kinds;
use crate::wire::{go_package, wire};

go_package!("v1alpha1");

kinds! {
    /// Limits what a namespace may use in all clusters together.
    pub struct FederatedResourceQuota in "policy.karmada.io" / "v1alpha1" as "federatedresourcequotas", Namespaced {
        /// Wanted limits.
        spec: FederatedResourceQuotaSpec,
        /// Limits in force and current use.
        status+: FederatedResourceQuotaStatus,
    }
}

wire! {
    /// Wanted limits.
    pub struct FederatedResourceQuotaSpec {
        /// Limits over all clusters.
        overall: ResourceList,
        /// Limits of single clusters; a ResourceQuota is created there.
        static_assignments?: Vec<StaticClusterAssignment>,
    }

    /// Limits of one cluster.
    pub struct StaticClusterAssignment {
        /// Name of the cluster.
        cluster_name: String,
        /// Limits placed in the cluster.
        hard: ResourceList,
    }

    /// Limits in force and current use.
    pub struct FederatedResourceQuotaStatus {
        /// Limits in force over all clusters.
        overall?: ResourceList,
        /// Use over all clusters.
        overall_used?: ResourceList,
        /// Limits and use by cluster.
        aggregated_status?: Vec<ClusterQuotaStatus>,
    }

    /// Limits and use in one cluster.
    pub struct ClusterQuotaStatus {
        /// Name of the cluster.
        cluster_name: String,
        /// Limits in force in the cluster.
        hard?: ResourceList,
        /// Use in the cluster.
        used?: ResourceList,
    }
}

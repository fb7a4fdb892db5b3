//! Condition types and reasons by kind, and the words of eviction tasks.

pub mod cluster {
    pub const READY: &str = "Ready";
    pub const COMPLETE_API_ENABLEMENTS: &str = "CompleteAPIEnablements";
    pub const SERVICE_DOMAIN_NAME_RESOLUTION_READY: &str = "ServiceDomainNameResolutionReady";

    pub mod reason {
        pub const CLUSTER_READY: &str = "ClusterReady";
        pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
        pub const CLUSTER_NOT_REACHABLE: &str = "ClusterNotReachable";
        pub const STATUS_COLLECTION_FAILED: &str = "StatusCollectionFailed";
        pub const CLUSTER_STATUS_NEVER_UPDATED: &str = "ClusterStatusNeverUpdated";
        pub const CLUSTER_STATUS_UNKNOWN: &str = "ClusterStatusUnknown";
        pub const API_ENABLEMENTS_COMPLETE: &str = "Complete";
        pub const API_ENABLEMENTS_PARTIAL: &str = "Partial";
        pub const API_ENABLEMENTS_EMPTY: &str = "Empty";
        pub const SERVICE_DOMAIN_NAME_RESOLUTION_READY: &str = "ServiceDomainNameResolutionReady";
        pub const SERVICE_DOMAIN_NAME_RESOLUTION_FAILED: &str = "ServiceDomainNameResolutionFailed";
    }
}

pub mod work {
    pub const APPLIED: &str = "Applied";
    pub const DISPATCHING: &str = "Dispatching";
    pub const PROGRESSING: &str = "Progressing";
    pub const AVAILABLE: &str = "Available";
    pub const DEGRADED: &str = "Degraded";

    pub mod reason {
        pub const APPLIED_SUCCESSFUL: &str = "AppliedSuccessful";
        pub const APPLIED_FAILED: &str = "AppliedFailed";
        pub const DISPATCHING: &str = "Dispatching";
        pub const SUSPEND_DISPATCHING: &str = "SuspendDispatching";
    }
}

pub mod binding {
    pub const SCHEDULED: &str = "Scheduled";
    pub const FULLY_APPLIED: &str = "FullyApplied";

    pub mod reason {
        pub const SUCCESS: &str = "Success";
        pub const SCHEDULER_ERROR: &str = "SchedulerError";
        pub const NO_CLUSTER_FIT: &str = "NoClusterFit";
        pub const UNSCHEDULABLE: &str = "Unschedulable";
        pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
        pub const FULLY_APPLIED_SUCCESS: &str = "FullyAppliedSuccess";
        pub const FULLY_APPLIED_FAILED: &str = "FullyAppliedFailed";
    }
}

pub mod multi_cluster_service {
    pub const SERVICE_APPLIED: &str = "ServiceApplied";
    pub const ENDPOINT_SLICE_DISPATCHED: &str = "EndpointSliceDispatched";

    pub mod reason {
        pub const SERVICE_APPLIED_SUCCEED: &str = "ServiceAppliedSucceed";
        pub const SERVICE_APPLIED_FAILED: &str = "ServiceAppliedFailed";
        pub const ENDPOINT_SLICE_DISPATCHED_SUCCEED: &str = "EndpointSliceDispatchedSucceed";
        pub const ENDPOINT_SLICE_DISPATCHED_FAILED: &str = "EndpointSliceDispatchedFailed";
    }
}

pub mod federated_hpa {
    pub const ABLE_TO_SCALE: &str = "AbleToScale";
    pub const SCALING_ACTIVE: &str = "ScalingActive";
    pub const SCALING_LIMITED: &str = "ScalingLimited";

    pub mod reason {
        pub const SUCCEEDED_GET_SCALE: &str = "SucceededGetScale";
        pub const SUCCEEDED_RESCALE: &str = "SucceededRescale";
        pub const READY_FOR_NEW_SCALE: &str = "ReadyForNewScale";
        pub const SCALE_UP_STABILIZED: &str = "ScaleUpStabilized";
        pub const SCALE_DOWN_STABILIZED: &str = "ScaleDownStabilized";
        pub const FAILED_GET_SCALE: &str = "FailedGetScale";
        pub const FAILED_GET_SCALE_TARGET_REF: &str = "FailedGetScaleTargetRef";
        pub const FAILED_GET_BINDING: &str = "FailedGetBinding";
        pub const FAILED_GET_TARGET_CLUSTERS: &str = "FailedGetTargetClusters";
        pub const FAILED_UPDATE_SCALE: &str = "FailedUpdateScale";
        pub const VALID_METRIC_FOUND: &str = "ValidMetricFound";
        pub const SCALING_DISABLED: &str = "ScalingDisabled";
        pub const INVALID_SELECTOR: &str = "InvalidSelector";
        pub const AMBIGUOUS_SELECTOR: &str = "AmbiguousSelector";
        pub const INVALID_METRIC_SOURCE_TYPE: &str = "InvalidMetricSourceType";
        pub const FAILED_GET_OBJECT_METRIC: &str = "FailedGetObjectMetric";
        pub const FAILED_GET_PODS_METRIC: &str = "FailedGetPodsMetric";
        pub const FAILED_GET_RESOURCE_METRIC: &str = "FailedGetResourceMetric";
        pub const FAILED_GET_CONTAINER_RESOURCE_METRIC: &str = "FailedGetContainerResourceMetric";
        pub const DESIRED_WITHIN_RANGE: &str = "DesiredWithinRange";
        pub const SCALE_UP_LIMIT: &str = "ScaleUpLimit";
        pub const SCALE_DOWN_LIMIT: &str = "ScaleDownLimit";
        pub const TOO_MANY_REPLICAS: &str = "TooManyReplicas";
        pub const TOO_FEW_REPLICAS: &str = "TooFewReplicas";
    }
}

pub mod eviction {
    pub const REASON_TAINT_UNTOLERATED: &str = "TaintUntolerated";
    pub const REASON_APPLICATION_FAILURE: &str = "ApplicationFailure";
    pub const PRODUCER_TAINT_MANAGER: &str = "TaintManager";
    pub const PRODUCER_RESOURCE_BINDING_FAILOVER: &str =
        "resource-binding-application-failover-controller";
    pub const PRODUCER_CLUSTER_RESOURCE_BINDING_FAILOVER: &str =
        "cluster-resource-binding-application-failover-controller";
}

/// Reason of the Status that refuses a binding over its quota.
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

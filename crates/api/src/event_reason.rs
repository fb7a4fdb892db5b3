//! Reasons of events, spelled as Karmada spells them.

// Cluster.
pub const CREATE_EXECUTION_SPACE_FAILED: &str = "CreateExecutionSpaceFailed";
pub const CREATE_EXECUTION_SPACE_SUCCEED: &str = "CreateExecutionSpaceSucceed";
pub const REMOVE_EXECUTION_SPACE_FAILED: &str = "RemoveExecutionSpaceFailed";
pub const REMOVE_EXECUTION_SPACE_SUCCEED: &str = "RemoveExecutionSpaceSucceed";
pub const TAINT_CLUSTER_FAILED: &str = "TaintClusterFailed";
pub const TAINT_CLUSTER_SUCCEED: &str = "TaintClusterSucceed";
pub const SYNC_IMPERSONATION_CONFIG_SUCCEED: &str = "SyncImpersonationConfigSucceed";
pub const SYNC_IMPERSONATION_CONFIG_FAILED: &str = "SyncImpersonationConfigFailed";

// Work.
pub const REFLECT_STATUS_SUCCEED: &str = "ReflectStatusSucceed";
pub const REFLECT_STATUS_FAILED: &str = "ReflectStatusFailed";
pub const INTERPRET_HEALTH_SUCCEED: &str = "InterpretHealthSucceed";
pub const INTERPRET_HEALTH_FAILED: &str = "InterpretHealthFailed";
pub const SYNC_FAILED: &str = "SyncFailed";
pub const SYNC_SUCCEED: &str = "SyncSucceed";
pub const WORK_DISPATCHING: &str = "WorkDispatching";

// Bindings, templates and FederatedResourceQuota.
pub const CLEANUP_WORK_FAILED: &str = "CleanupWorkFailed";
pub const SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED: &str =
    "SyncScheduleResultToDependenciesSucceed";
pub const SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_FAILED: &str =
    "SyncScheduleResultToDependenciesFailed";
pub const DEPENDENCY_POLICY_CONFLICT: &str = "DependencyPolicyConflict";
pub const SYNC_WORK_FAILED: &str = "SyncWorkFailed";
pub const SYNC_WORK_SUCCEED: &str = "SyncWorkSucceed";
pub const AGGREGATE_STATUS_FAILED: &str = "AggregateStatusFailed";
pub const AGGREGATE_STATUS_SUCCEED: &str = "AggregateStatusSucceed";
pub const SCHEDULE_BINDING_FAILED: &str = "ScheduleBindingFailed";
pub const SCHEDULE_BINDING_SUCCEED: &str = "ScheduleBindingSucceed";
pub const DESCHEDULE_BINDING_FAILED: &str = "DescheduleBindingFailed";
pub const DESCHEDULE_BINDING_SUCCEED: &str = "DescheduleBindingSucceed";
pub const EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED: &str = "EvictWorkloadFromClusterSucceed";
pub const EVICT_WORKLOAD_FROM_CLUSTER_FAILED: &str = "EvictWorkloadFromClusterFailed";

// FederatedResourceQuota.
pub const COLLECT_OVERALL_STATUS_FAILED: &str = "CollectOverallStatusFailed";
pub const COLLECT_OVERALL_STATUS_SUCCEED: &str = "CollectOverallStatusSucceed";

// Templates.
pub const APPLY_POLICY_FAILED: &str = "ApplyPolicyFailed";
pub const APPLY_POLICY_SUCCEED: &str = "ApplyPolicySucceed";
pub const APPLY_OVERRIDE_POLICY_FAILED: &str = "ApplyOverridePolicyFailed";
pub const APPLY_OVERRIDE_POLICY_SUCCEED: &str = "ApplyOverridePolicySucceed";
pub const GET_DEPENDENCIES_SUCCEED: &str = "GetDependenciesSucceed";
pub const GET_DEPENDENCIES_FAILED: &str = "GetDependenciesFailed";
pub const GET_COMPONENTS_SUCCEED: &str = "GetComponentsSucceed";
pub const GET_COMPONENTS_FAILED: &str = "GetComponentsFailed";
pub const GET_REPLICAS_SUCCEED: &str = "GetReplicasSucceed";
pub const GET_REPLICAS_FAILED: &str = "GetReplicasFailed";
pub const PREEMPT_POLICY_SUCCEED: &str = "PreemptPolicySucceed";
pub const PREEMPT_POLICY_FAILED: &str = "PreemptPolicyFailed";

// ServiceImport.
pub const SYNC_DERIVED_SERVICE_SUCCEED: &str = "SyncDerivedServiceSucceed";
pub const SYNC_DERIVED_SERVICE_FAILED: &str = "SyncDerivedServiceFailed";

// MultiClusterService.
pub const SYNC_SERVICE_FAILED: &str = "SyncServiceFailed";
pub const SYNC_SERVICE_SUCCEED: &str = "SyncServiceSucceed";
pub const DISPATCH_ENDPOINT_SLICE_FAILED: &str = "DispatchEndpointSliceFailed";
pub const DISPATCH_ENDPOINT_SLICE_SUCCEED: &str = "DispatchEndpointSliceSucceed";
pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
pub const API_INCOMPATIBLE: &str = "APIIncompatible";

// CronFederatedHPA.
pub const SCALE_FAILED: &str = "ScaleFailed";
pub const UPDATE_STATUS_FAILED: &str = "UpdateStatusFailed";
pub const START_RULE_FAILED: &str = "StartRuleFailed";
pub const UPDATE_CRON_FEDERATED_HPA_FAILED: &str = "UpdateCronFederatedHPAFailed";

// FederatedHPA.
pub const SUCCESSFUL_RESCALE: &str = "SuccessfulRescale";
pub const FAILED_RESCALE: &str = "FailedRescale";
pub const FAILED_GET_SCALE: &str = "FailedGetScale";
pub const FAILED_GET_SCALE_TARGET_REF: &str = "FailedGetScaleTargetRef";
pub const FAILED_GET_BINDINGS: &str = "FailedGetBindings";
pub const FAILED_GET_TARGET_CLUSTERS: &str = "FailedGetTargetClusters";
pub const FAILED_COMPUTE_METRICS_REPLICAS: &str = "FailedComputeMetricsReplicas";
pub const SELECTOR_REQUIRED: &str = "SelectorRequired";
pub const INVALID_SELECTOR: &str = "InvalidSelector";
pub const AMBIGUOUS_SELECTOR: &str = "AmbiguousSelector";
pub const FAILED_UPDATE_STATUS: &str = "FailedUpdateStatus";

// DNS detector.
pub const LOAD_COREDNS_CONDITION_FAILED: &str = "LoadCorednsConditionFailed";
pub const STORE_COREDNS_CONDITION_FAILED: &str = "StoreCorednsConditionFailed";

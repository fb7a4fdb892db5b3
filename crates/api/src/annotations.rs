//! Annotation keys and their fixed values, spelled as Karmada spells them.

pub const PROPAGATION_POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
pub const PROPAGATION_POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
pub const CLUSTER_PROPAGATION_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";

/// Placement a binding was last scheduled with, as JSON.
pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";

pub const RESOURCE_BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
pub const RESOURCE_BINDING_NAME: &str = "resourcebinding.karmada.io/name";
pub const CLUSTER_RESOURCE_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
/// Objects a binding's template needs, as a JSON list of DependentObjectReference.
pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";

pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
pub const WORK_NAME: &str = "work.karmada.io/name";
pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
pub const CONFLICT_RESOLUTION_OVERWRITE: &str = "overwrite";
pub const CONFLICT_RESOLUTION_ABORT: &str = "abort";

pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";

pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
pub const PROVISION_CLUSTER: &str = "endpointslice.karmada.io/provision-cluster";

/// Ours: the object of a Cluster API that a Cluster was joined for: id of the management cluster, namespace, uid.
pub const CLUSTER_API_ORIGIN: &str = "clusterapi.karmada.io/origin";

pub const CACHED_FROM_CLUSTER: &str = "resource.karmada.io/cached-from-cluster";
pub const QUERY_FROM_CLUSTER: &str = "resource.karmada.io/query-from-cluster";

/// Annotations taken off a member object that outlives its Work.
pub const REMOVED_ON_RELEASE: &[&str] = &[
    MANAGED_ANNOTATIONS,
    MANAGED_LABELS,
    RESOURCE_BINDING_NAMESPACE,
    RESOURCE_BINDING_NAME,
    TEMPLATE_UID,
    TEMPLATE_GENERATION,
    WORK_NAME,
    WORK_NAMESPACE,
];

//! Label keys and their fixed values, spelled as Karmada spells them.

pub const PROPAGATION_POLICY_PERMANENT_ID: &str = "propagationpolicy.karmada.io/permanent-id";
pub const CLUSTER_PROPAGATION_POLICY_PERMANENT_ID: &str =
    "clusterpropagationpolicy.karmada.io/permanent-id";
pub const RESOURCE_BINDING_PERMANENT_ID: &str = "resourcebinding.karmada.io/permanent-id";
pub const CLUSTER_RESOURCE_BINDING_PERMANENT_ID: &str =
    "clusterresourcebinding.karmada.io/permanent-id";
pub const WORK_PERMANENT_ID: &str = "work.karmada.io/permanent-id";
pub const MULTI_CLUSTER_SERVICE_PERMANENT_ID: &str = "multiclusterservice.karmada.io/permanent-id";

/// Prefix of the key that ties a dependency's binding to the binding that needs it.
pub const DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";

pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
/// Value of [`BINDING_MANAGED_BY`] and [`CLAIMED_BY`] for objects of a MultiClusterService.
pub const MULTI_CLUSTER_SERVICE: &str = "MultiClusterService";
pub const SERVICE_EXPORT: &str = "ServiceExport";

pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
/// Value of [`DELETION_PROTECTED`] that refuses deletion.
pub const DELETION_PROTECTED_ALWAYS: &str = "Always";
pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";

pub const MANAGED: &str = "karmada.io/managed";
pub const SYSTEM: &str = "karmada.io/system";
/// Value of [`MANAGED`], [`SYSTEM`] and [`RETAIN_REPLICAS`].
pub const TRUE: &str = "true";

pub const ENDPOINT_SLICE_NAMESPACE: &str = "endpointslice.karmada.io/namespace";
pub const ENDPOINT_SLICE_NAME: &str = "endpointslice.karmada.io/name";
pub const ENDPOINT_SLICE_WORK_MANAGED_BY: &str = "endpointslice.karmada.io/managed-by";
pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
pub const FEDERATED_RESOURCE_QUOTA_NAMESPACE: &str = "federatedresourcequota.karmada.io/namespace";
pub const FEDERATED_RESOURCE_QUOTA_NAME: &str = "federatedresourcequota.karmada.io/name";

pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub const SLICE_MANAGED_BY_IMPORT: &str = "endpointslice-controller.karmada.io";
pub const SLICE_MANAGED_BY_DISPATCH: &str = "endpointslice-dispatch-controller.karmada.io";
pub const SLICE_SERVICE_NAME: &str = "kubernetes.io/service-name";

pub const BOOTSTRAPPING: &str = "karmada.io/bootstrapping";
pub const ETCD_NODE: &str = "karmada.io/etcd";

/// Labels taken off a member object that outlives its Work.
pub const REMOVED_ON_RELEASE: &[&str] =
    &[RESOURCE_BINDING_PERMANENT_ID, WORK_PERMANENT_ID, MANAGED];

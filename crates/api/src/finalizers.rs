//! Finalizers, spelled as Karmada spells them.

pub const CLUSTER: &str = "karmada.io/cluster-controller";
pub const EXECUTION: &str = "karmada.io/execution-controller";
pub const BINDING: &str = "karmada.io/binding-controller";
pub const CLUSTER_RESOURCE_BINDING: &str = "karmada.io/cluster-resource-binding-controller";
pub const DEPENDENCIES_DISTRIBUTOR: &str = "karmada.io/binding-dependencies-distributor";
pub const PROPAGATION_POLICY: &str = "karmada.io/propagation-policy-controller";
pub const CLUSTER_PROPAGATION_POLICY: &str = "karmada.io/cluster-propagation-policy-controller";
pub const ENDPOINT_SLICE: &str = "karmada.io/endpointslice-controller";
pub const MULTI_CLUSTER_SERVICE: &str = "karmada.io/multiclusterservice-controller";
pub const ENDPOINT_SLICE_DISPATCH: &str = "karmada.io/mcs-endpointslice-dispatch-controller";
pub const ENDPOINT_SLICE_COLLECT: &str = "karmada.io/mcs-endpointslice-collect-controller";
pub const OPERATOR: &str = "operator.karmada.io/finalizer";

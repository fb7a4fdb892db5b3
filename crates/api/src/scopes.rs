//! What the namespaced and the cluster-scoped twin of a kind have in common, so that controllers are
//! written once for both.

use crate::annotations;
use crate::finalizers;
use crate::labels;
use crate::meta::{Kind, Labels};
use crate::policy::{
    ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, OverrideSpec,
    PropagationPolicy, PropagationSpec,
};
use crate::work::{
    ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus,
};

/// ResourceBinding or ClusterResourceBinding.
pub trait Binding: Kind {
    /// Label that carries the binding's permanent id.
    const PERMANENT_ID: &'static str;
    /// Annotation of Works and manifests that names the binding.
    const NAME_ANNOTATION: &'static str;
    const FINALIZER: &'static str;

    fn spec(&self) -> &ResourceBindingSpec;
    fn spec_mut(&mut self) -> &mut ResourceBindingSpec;
    fn status(&self) -> &ResourceBindingStatus;
    fn status_mut(&mut self) -> &mut ResourceBindingStatus;

    fn permanent_id(&self) -> &str {
        self.metadata().labels.get(Self::PERMANENT_ID).map_or("", String::as_str)
    }

    /// Whether a policy or another API stands behind the binding, so that a scheduler places it.
    /// Those that follow other bindings go where these go.
    fn has_owner(&self) -> bool {
        has_owner(&self.metadata().labels)
    }
}

/// Whether the labels of a binding name who stands behind it.
pub fn has_owner(labels: &Labels) -> bool {
    BINDING_OWNERS.iter().any(|key| labels.get(*key).is_some_and(|id| !id.is_empty()))
}

const BINDING_OWNERS: [&str; 3] = [
    labels::PROPAGATION_POLICY_PERMANENT_ID,
    labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    labels::BINDING_MANAGED_BY,
];

/// PropagationPolicy or ClusterPropagationPolicy.
pub trait Policy: Kind {
    /// Label that carries the policy's permanent id, on the policy and on what it claimed.
    const PERMANENT_ID: &'static str;
    /// Annotation of claimed templates and bindings that names the policy.
    const NAME_ANNOTATION: &'static str;
    const FINALIZER: &'static str;

    fn spec(&self) -> &PropagationSpec;
    fn spec_mut(&mut self) -> &mut PropagationSpec;

    fn permanent_id(&self) -> &str {
        self.metadata().labels.get(Self::PERMANENT_ID).map_or("", String::as_str)
    }
}

/// OverridePolicy or ClusterOverridePolicy.
pub trait OverridingPolicy: Kind {
    /// Annotation of Works that lists the applied overrides.
    const APPLIED_ANNOTATION: &'static str;

    fn spec(&self) -> &OverrideSpec;
    fn spec_mut(&mut self) -> &mut OverrideSpec;
}

macro_rules! spec_access {
    ($spec:ty) => {
        fn spec(&self) -> &$spec {
            &self.spec
        }
        fn spec_mut(&mut self) -> &mut $spec {
            &mut self.spec
        }
    };
}

macro_rules! binding {
    ($kind:ty, $id:expr, $name:expr, $finalizer:expr) => {
        impl Binding for $kind {
            const PERMANENT_ID: &'static str = $id;
            const NAME_ANNOTATION: &'static str = $name;
            const FINALIZER: &'static str = $finalizer;

            spec_access!(ResourceBindingSpec);
            fn status(&self) -> &ResourceBindingStatus {
                &self.status
            }
            fn status_mut(&mut self) -> &mut ResourceBindingStatus {
                &mut self.status
            }
        }
    };
}

binding!(
    ResourceBinding,
    labels::RESOURCE_BINDING_PERMANENT_ID,
    annotations::RESOURCE_BINDING_NAME,
    finalizers::BINDING
);
binding!(
    ClusterResourceBinding,
    labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
    annotations::CLUSTER_RESOURCE_BINDING_NAME,
    finalizers::CLUSTER_RESOURCE_BINDING
);

macro_rules! policy {
    ($kind:ty, $id:expr, $name:expr, $finalizer:expr) => {
        impl Policy for $kind {
            const PERMANENT_ID: &'static str = $id;
            const NAME_ANNOTATION: &'static str = $name;
            const FINALIZER: &'static str = $finalizer;

            spec_access!(PropagationSpec);
        }
    };
}

policy!(
    PropagationPolicy,
    labels::PROPAGATION_POLICY_PERMANENT_ID,
    annotations::PROPAGATION_POLICY_NAME,
    finalizers::PROPAGATION_POLICY
);
policy!(
    ClusterPropagationPolicy,
    labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    annotations::CLUSTER_PROPAGATION_POLICY_NAME,
    finalizers::CLUSTER_PROPAGATION_POLICY
);

macro_rules! overriding_policy {
    ($kind:ty, $applied:expr) => {
        impl OverridingPolicy for $kind {
            const APPLIED_ANNOTATION: &'static str = $applied;

            spec_access!(OverrideSpec);
        }
    };
}

overriding_policy!(OverridePolicy, annotations::APPLIED_OVERRIDES);
overriding_policy!(ClusterOverridePolicy, annotations::APPLIED_CLUSTER_OVERRIDES);

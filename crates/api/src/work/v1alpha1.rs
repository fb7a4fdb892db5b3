//! The served, not stored, v1alpha1 form of the bindings and its conversion to and from v1alpha2.
//! The old form has fewer fields: converting to it and back loses the rest.

use karmada_apimachinery::Value;

use super::binding as v2;
use crate::core::ResourceList;
use crate::meta::{Condition, kinds};
use crate::wire::{go_package, wire};

go_package!("v1alpha1");

kinds! {
    /// Says where one namespaced template goes, in the old form.
    pub struct ResourceBinding in "work.karmada.io" / "v1alpha1" as "resourcebindings", Namespaced {
        /// Template and the clusters chosen.
        spec: ResourceBindingSpec,
        /// What became of it.
        status+: ResourceBindingStatus,
    }

    /// Says where one cluster-scoped template goes, in the old form.
    pub struct ClusterResourceBinding in "work.karmada.io" / "v1alpha1" as "clusterresourcebindings", Cluster {
        /// Template and the clusters chosen.
        spec: ResourceBindingSpec,
        /// What became of it.
        status+: ResourceBindingStatus,
    }
}

wire! {
    /// Template and the clusters chosen.
    pub struct ResourceBindingSpec {
        /// Template the binding is for.
        resource: ObjectReference,
        /// Clusters the scheduler chose.
        clusters?: Vec<TargetCluster>,
    }

    /// A template.
    pub struct ObjectReference {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
        /// Namespace, empty for cluster scope.
        namespace?: String,
        /// Name.
        name: String,
        /// Version of the template that was last looked at.
        resource_version?: String,
        /// Resources one replica requests.
        replica_resource_requirements as "resourcePerReplicas"?: ResourceList,
        /// Replicas the template asks for.
        replicas?: i32,
    }

    /// A chosen cluster.
    pub struct TargetCluster {
        /// Name of the cluster.
        name: String,
        /// Replicas assigned to it.
        replicas?: i32,
    }

    /// What became of a binding.
    pub struct ResourceBindingStatus {
        /// Observed aspects of the binding.
        conditions?: Vec<Condition>,
        /// State in each cluster.
        aggregated_status?: Vec<AggregatedStatusItem>,
    }

    /// State of the object in one cluster.
    pub struct AggregatedStatusItem {
        /// Name of the cluster.
        cluster_name: String,
        /// Status of the object as the member reports it.
        status?: Option<Value> = {"type": "object"},
        /// Whether the object was applied.
        applied?: bool,
        /// Why it was not.
        applied_message?: String,
    }
}

impl From<&v2::ResourceBindingSpec> for ResourceBindingSpec {
    fn from(spec: &v2::ResourceBindingSpec) -> Self {
        let resource = &spec.resource;
        Self {
            resource: ObjectReference {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
                namespace: resource.namespace.clone(),
                name: resource.name.clone(),
                resource_version: resource.resource_version.clone(),
                replica_resource_requirements: spec
                    .replica_requirements
                    .as_ref()
                    .map(|needs| needs.resource_request.clone())
                    .unwrap_or_default(),
                replicas: spec.replicas,
            },
            clusters: spec
                .clusters
                .iter()
                .map(|target| TargetCluster {
                    name: target.name.clone(),
                    replicas: target.replicas,
                })
                .collect(),
        }
    }
}

impl From<&ResourceBindingSpec> for v2::ResourceBindingSpec {
    fn from(spec: &ResourceBindingSpec) -> Self {
        let resource = &spec.resource;
        let request = &resource.replica_resource_requirements;
        Self {
            resource: v2::ObjectReference {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
                namespace: resource.namespace.clone(),
                name: resource.name.clone(),
                uid: String::new(),
                resource_version: resource.resource_version.clone(),
            },
            replicas: resource.replicas,
            replica_requirements: (!request.is_empty()).then(|| v2::ReplicaRequirements {
                resource_request: request.clone(),
                ..Default::default()
            }),
            clusters: spec
                .clusters
                .iter()
                .map(|target| v2::TargetCluster {
                    name: target.name.clone(),
                    replicas: target.replicas,
                    components: Vec::new(),
                })
                .collect(),
            ..Default::default()
        }
    }
}

impl From<&v2::ResourceBindingStatus> for ResourceBindingStatus {
    fn from(status: &v2::ResourceBindingStatus) -> Self {
        Self {
            conditions: status.conditions.clone(),
            aggregated_status: status
                .aggregated_status
                .iter()
                .map(|item| AggregatedStatusItem {
                    cluster_name: item.cluster_name.clone(),
                    status: item.status.clone(),
                    applied: item.applied,
                    applied_message: item.applied_message.clone(),
                })
                .collect(),
        }
    }
}

impl From<&ResourceBindingStatus> for v2::ResourceBindingStatus {
    fn from(status: &ResourceBindingStatus) -> Self {
        Self {
            conditions: status.conditions.clone(),
            aggregated_status: status
                .aggregated_status
                .iter()
                .map(|item| v2::AggregatedStatusItem {
                    cluster_name: item.cluster_name.clone(),
                    status: item.status.clone(),
                    applied: item.applied,
                    applied_message: item.applied_message.clone(),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }
    }
}

macro_rules! convert_kind {
    ($($kind:ident),*) => {$(
        impl From<&v2::$kind> for $kind {
            fn from(binding: &v2::$kind) -> Self {
                Self {
                    spec: (&binding.spec).into(),
                    status: (&binding.status).into(),
                    ..Self::with_metadata(binding.metadata.clone())
                }
            }
        }

        impl From<&$kind> for v2::$kind {
            fn from(binding: &$kind) -> Self {
                Self {
                    spec: (&binding.spec).into(),
                    status: (&binding.status).into(),
                    ..Self::with_metadata(binding.metadata.clone())
                }
            }
        }
    )*};
}

convert_kind!(ResourceBinding, ClusterResourceBinding);

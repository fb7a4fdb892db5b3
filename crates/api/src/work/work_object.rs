//! Work: objects on their way to one member cluster.

use karmada_apimachinery::Value;

use super::ResourceHealth;
use crate::meta::{Condition, kinds};
use crate::wire::{Int, go_package, wire};

go_package!("v1alpha1");

kinds! {
    /// Objects for one member cluster; lives in the execution namespace of that cluster.
    pub struct Work in "work.karmada.io" / "v1alpha1" as "works", Namespaced {
        /// What the member is sent.
        spec: WorkSpec,
        /// What became of it.
        status+: WorkStatus,
    }
}

wire! {
    /// What the member is sent.
    pub struct WorkSpec {
        /// Objects to send.
        workload+: WorkloadTemplate,
        /// True holds back delivery; the status is still collected.
        suspend_dispatching?: Option<bool>,
        /// Keeps the object in the member when the Work is deleted.
        preserve_resources_on_deletion?: Option<bool>,
    }

    /// Objects to send.
    pub struct WorkloadTemplate {
        /// Whole objects as they are applied in the member.
        manifests?: Vec<Value> = {"items": {"type": "object", "description": "An object as it is applied in the member."}},
    }

    /// What became of the objects.
    pub struct WorkStatus {
        /// Observed aspects of the delivery: Applied, Dispatching.
        conditions?: Vec<Condition>,
        /// State of each object in the member.
        manifest_statuses?: Vec<ManifestStatus>,
    }

    /// State of one object in the member.
    pub struct ManifestStatus {
        /// Which object it is.
        identifier: ResourceIdentifier,
        /// Status of the object as the member reports it.
        status?: Option<Value> = {"type": "object"},
        /// Health of the object as the interpreter judges it.
        health?: ResourceHealth = {"enum": ["Healthy", "Unhealthy", "Unknown"]},
    }

    /// Identity of an object of a Work.
    pub struct ResourceIdentifier {
        /// Position among the manifests.
        ordinal: Int,
        /// API group.
        group?: String,
        /// API version.
        version: String,
        /// Kind.
        kind: String,
        /// Plural name of the resource.
        resource: String,
        /// Namespace, empty for cluster scope.
        namespace?: String,
        /// Name.
        name: String,
    }
}

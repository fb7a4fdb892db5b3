//! ResourceBinding and ClusterResourceBinding (v1alpha2, the stored version): where one template goes.

use karmada_apimachinery::Value;

use crate::core::{NodeSelector, ResourceList, Toleration};
use crate::meta::{Condition, Labels, kinds};
use crate::policy::{self, ConflictResolution, FailoverBehavior, Placement, PurgeMode};
use crate::wire::{Time, go_package, text, wire};

go_package!("v1alpha2");

kinds! {
    /// Says where one namespaced template goes; lives in the namespace of the template.
    pub struct ResourceBinding in "work.karmada.io" / "v1alpha2" as "resourcebindings", Namespaced {
        /// Template, wishes and the clusters chosen.
        spec: ResourceBindingSpec,
        /// What became of it.
        status+: ResourceBindingStatus,
    }

    /// Says where one cluster-scoped template goes.
    pub struct ClusterResourceBinding in "work.karmada.io" / "v1alpha2" as "clusterresourcebindings", Cluster {
        /// Template, wishes and the clusters chosen.
        spec: ResourceBindingSpec,
        /// What became of it.
        status+: ResourceBindingStatus,
    }
}

wire! {
    /// Template, wishes and the clusters chosen.
    pub struct ResourceBindingSpec {
        /// Template the binding is for.
        resource: ObjectReference,
        /// Also sends the objects the template refers to; copied from the policy.
        propagate_deps?: bool,
        /// What one replica needs.
        replica_requirements?: Option<ReplicaRequirements>,
        /// Replicas the template asks for.
        replicas?: i32,
        /// Needs of each pod template of the workload; replaces replicas and replicaRequirements. Needs the feature gate MultiplePodTemplatesScheduling.
        components?: Vec<Component>,
        /// Clusters the scheduler chose.
        clusters?: Vec<TargetCluster>,
        /// Placement of the policy; unset on bindings that only follow others.
        placement?: Option<Placement>,
        /// Clusters that are being vacated.
        graceful_eviction_tasks?: Vec<GracefulEvictionTask>,
        /// Bindings that need this object and where they go.
        required_by?: Vec<BindingSnapshot>,
        /// Scheduler that places the template.
        scheduler_name?: String,
        /// Reactions to failure; copied from the policy.
        failover?: Option<FailoverBehavior>,
        /// What to do when the object already exists in a member; copied from the policy.
        conflict_resolution?: ConflictResolution = {"default": "Abort", "enum": ["Abort", "Overwrite"]},
        /// Asks for scheduling from scratch if later than status.lastScheduledTime.
        reschedule_triggered_at?: Option<Time>,
        /// Holds back delivery or scheduling.
        suspension?: Option<Suspension>,
        /// Keeps the copies in the members when the template is deleted; copied from the policy.
        preserve_resources_on_deletion?: Option<bool>,
        /// Priority in the queue of the scheduler.
        schedule_priority?: Option<SchedulePriority>,
        /// Groups of workloads this one stays with or away from.
        workload_affinity_groups?: Option<WorkloadAffinityGroups>,
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
        /// UID.
        uid?: String,
        /// Version of the template that was last looked at.
        resource_version?: String,
    }

    /// What one replica needs.
    pub struct ReplicaRequirements {
        /// Nodes a replica can run on.
        node_claim?: Option<NodeClaim>,
        /// Resources a replica requests.
        resource_request?: ResourceList,
        /// Namespace of the workload, for estimates under a quota.
        namespace?: String,
        /// Priority class of the pods, for estimates under a quota.
        priority_class_name?: String,
    }

    /// One pod template of a workload.
    pub struct Component {
        /// Name of the pod template, unique within the workload.
        name: String = {"maxLength": 32},
        /// Replicas of the pod template.
        replicas: i32,
        /// What one replica needs.
        replica_requirements?: Option<ComponentReplicaRequirements>,
    }

    /// What one replica of a component needs.
    pub struct ComponentReplicaRequirements {
        /// Nodes a replica can run on.
        node_claim?: Option<NodeClaim>,
        /// Resources a replica requests.
        resource_request?: ResourceList,
        /// Priority class of the pods.
        priority_class_name?: String,
    }

    /// Nodes a replica can run on.
    pub struct NodeClaim {
        /// Node affinity that must hold.
        hard_node_affinity?: Option<NodeSelector>,
        /// Labels the node must have.
        node_selector?: Labels,
        /// Node taints that are tolerated.
        tolerations?: Vec<Toleration>,
    }

    /// A chosen cluster.
    pub struct TargetCluster {
        /// Name of the cluster.
        name: String,
        /// Replicas assigned to it.
        replicas?: i32,
        /// Replicas of each component assigned to it.
        components?: Vec<TargetComponent>,
    }

    /// Replicas of one component in a cluster.
    pub struct TargetComponent {
        /// Name of the component.
        name: String,
        /// Replicas of the component here.
        replicas: i32,
    }

    /// A cluster that is being vacated.
    pub struct GracefulEvictionTask {
        /// Cluster to vacate.
        from_cluster: String,
        /// What happens to the copy there.
        purge_mode?: PurgeMode = {"enum": ["Directly", "Gracefully", "Never"]},
        /// Replicas that were assigned to the cluster.
        replicas?: Option<i32>,
        /// Machine-readable word for why the cluster is vacated.
        reason: String = {"maxLength": 32, "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
        /// Explanation for people.
        message?: String = {"maxLength": 1024},
        /// Component that asked for it.
        producer: String,
        /// Longest wait in seconds for a healthy replacement; the controller's own limit if unset.
        grace_period_seconds?: Option<i32>,
        /// True keeps the copy until a person removes this setting; cannot be combined with gracePeriodSeconds.
        suppress_deletion?: Option<bool>,
        /// Labels that carry state to the new cluster.
        preserved_label_state?: Labels,
        /// When the task was accepted; set by the system.
        creation_timestamp?: Option<Time>,
        /// Clusters that ran the workload before it was moved.
        clusters_before_failover?: Vec<String>,
    }

    /// Another binding and where it goes.
    pub struct BindingSnapshot {
        /// Namespace of the binding; empty means a ClusterResourceBinding.
        namespace?: String,
        /// Name of the binding.
        name: String,
        /// Clusters chosen for it.
        clusters?: Vec<TargetCluster>,
    }

    /// What is held back.
    pub struct Suspension {
        flatten dispatch: policy::Suspension,
        /// True makes the scheduler leave the binding alone.
        scheduling?: Option<bool>,
    }

    /// Priority of a binding.
    pub struct SchedulePriority {
        /// Value of the priority class; larger goes first.
        priority?: i32 = {"default": 0},
    }

    /// Groups of a workload, each spelled `key=value`.
    pub struct WorkloadAffinityGroups {
        /// Group the workload stays with.
        affinity_group?: String,
        /// Group the workload keeps apart from.
        anti_affinity_group?: String,
    }

    /// What became of a binding.
    pub struct ResourceBindingStatus {
        /// Generation of the binding the scheduler has handled.
        scheduler_observed_generation?: i64,
        /// Name of the affinity group in use.
        scheduler_observed_affinity_name as "schedulerObservingAffinityName"?: String,
        /// When scheduling last succeeded.
        last_scheduled_time?: Option<Time>,
        /// Observed aspects: Scheduled, FullyApplied.
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
        /// Health of the object as the interpreter judges it.
        health?: ResourceHealth = {"enum": ["Healthy", "Unhealthy", "Unknown"]},
    }
}

text! {
    /// Health of an object in a member.
    pub enum ResourceHealth { Healthy, Unhealthy, Unknown }
}

impl ResourceBindingSpec {
    /// Whether the template runs pods, as far as the binding tells.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.replica_requirements.is_some() || !self.components.is_empty()
    }

    /// Whether the cluster is a target.
    pub fn target_contains(&self, cluster: &str) -> bool {
        self.clusters.iter().any(|target| target.name == cluster)
    }

    /// Replicas assigned to the cluster, 0 if it was not chosen.
    pub fn assigned_replicas(&self, cluster: &str) -> i32 {
        self.clusters
            .iter()
            .find(|target| target.name == cluster)
            .map_or(0, |target| target.replicas)
    }

    pub fn is_evicting(&self, cluster: &str) -> bool {
        self.graceful_eviction_tasks.iter().any(|task| task.from_cluster == cluster)
    }

    /// Takes a cluster out of the schedule result and records the eviction, once per cluster.
    /// The number of replicas is filled in; returns whether anything changed.
    pub fn gracefully_evict(&mut self, mut task: GracefulEvictionTask) -> bool {
        let Some(index) = self.clusters.iter().position(|target| target.name == task.from_cluster)
        else {
            return false;
        };
        let target = self.clusters.remove(index);
        if !self.is_evicting(&task.from_cluster) {
            task.replicas = (target.replicas > 0).then_some(target.replicas);
            self.graceful_eviction_tasks.push(task);
        }
        true
    }

    pub fn is_scheduling_suspended(&self) -> bool {
        self.suspension.as_ref().and_then(|s| s.scheduling).unwrap_or(false)
    }

    /// Whether delivery to the cluster is held back.
    pub fn is_dispatching_suspended(&self, cluster: &str) -> bool {
        let Some(suspension) = &self.suspension else { return false };
        suspension.dispatch.dispatching.unwrap_or(false)
            || suspension
                .dispatch
                .dispatching_on_clusters
                .as_ref()
                .is_some_and(|on| on.cluster_names.iter().any(|name| name == cluster))
    }

    pub fn schedule_priority(&self) -> i32 {
        self.schedule_priority.as_ref().map_or(0, |p| p.priority)
    }
}

//! PropagationPolicy and ClusterPropagationPolicy: which templates go to which clusters.

use crate::core::{NodeSelectorRequirement, Toleration};
use crate::meta::{LabelSelector, kinds};
use crate::wire::{Int, go_package, text, wire};

go_package!("v1alpha1");

kinds! {
    /// Sends the templates it selects in its own namespace to member clusters.
    pub struct PropagationPolicy in "policy.karmada.io" / "v1alpha1" as "propagationpolicies", Namespaced {
        /// What is sent where.
        spec: PropagationSpec,
    }

    /// Sends the templates it selects, cluster-scoped ones and those of any namespace that is not reserved, to member clusters.
    pub struct ClusterPropagationPolicy in "policy.karmada.io" / "v1alpha1" as "clusterpropagationpolicies", Cluster {
        /// What is sent where.
        spec: PropagationSpec,
    }
}

wire! {
    /// What a propagation policy asks for.
    pub struct PropagationSpec {
        /// Templates this policy claims; one selector that fits is enough.
        resource_selectors: Vec<ResourceSelector> = {"minItems": 1},
        /// Without effect; use propagateDeps.
        association?: bool,
        /// Also sends the objects the template refers to, such as ConfigMaps and Secrets.
        propagate_deps?: bool,
        /// Rules for choosing clusters and dividing replicas.
        placement+: Placement,
        /// Larger values win when several policies fit a template; ties are settled by the precision of the selector, then by name.
        priority?: Option<i32> = {"default": 0},
        /// Whether the policy may take over templates that another policy has claimed; Always needs the feature gate PropagationPolicyPreemption.
        preemption?: PreemptionBehavior = {"default": "Never", "enum": ["Always", "Never"]},
        /// Override policies that must exist before the policy acts.
        dependent_overrides?: Vec<String>,
        /// Scheduler that places the templates; cannot be changed later.
        scheduler_name?: String = {"default": "default-scheduler"},
        /// What happens when an application or a cluster fails; nothing is moved if unset.
        failover?: Option<FailoverBehavior>,
        /// What to do when the object already exists in a member and was not put there by Karmada.
        conflict_resolution?: ConflictResolution = {"default": "Abort", "enum": ["Abort", "Overwrite"]},
        /// Lazy lets changes of the policy wait until the template itself changes.
        activation_preference?: ActivationPreference = {"enum": ["Lazy"]},
        /// Holds back delivery to all or some clusters.
        suspension?: Option<Suspension>,
        /// Keeps the copies in the members when the template is deleted.
        preserve_resources_on_deletion?: Option<bool>,
        /// Where the scheduling priority comes from; the default priority applies if unset.
        schedule_priority?: Option<SchedulePriority>,
    }

    /// Picks templates by type, name or labels.
    pub struct ResourceSelector {
        /// Group and version of the templates.
        api_version: String,
        /// Kind of the templates.
        kind: String,
        /// Namespace of the templates; empty takes the scope of the policy.
        namespace?: String,
        /// Name of one template; empty selects all.
        name?: String,
        /// Labels of the templates; ignored when a name is given.
        label_selector?: Option<LabelSelector>,
    }

    /// Requirements on fields of a cluster, all of which must hold.
    pub struct FieldSelector {
        /// Requirements on provider, region or zone, with operator In or NotIn.
        match_expressions?: Vec<NodeSelectorRequirement>,
    }

    /// Delivery that is held back.
    pub struct Suspension {
        /// True holds back delivery to every cluster.
        dispatching?: Option<bool>,
        /// Clusters to which delivery is held back; cannot be combined with dispatching.
        dispatching_on_clusters?: Option<SuspendClusters>,
    }

    /// Clusters to which delivery is held back.
    pub struct SuspendClusters {
        /// Names of the clusters.
        cluster_names?: Vec<String>,
    }

    /// Reactions to failure.
    pub struct FailoverBehavior {
        /// What happens when the application is unhealthy; needs propagateDeps. Nothing is moved if unset.
        application?: Option<ApplicationFailoverBehavior>,
        /// What happens when the cluster fails; the controller's own settings apply if unset.
        cluster?: Option<ClusterFailoverBehavior>,
    }

    /// Reaction to an unhealthy application.
    pub struct ApplicationFailoverBehavior {
        /// When the application counts as failed.
        decision_conditions: DecisionConditions,
        /// What happens to the failed copy.
        purge_mode?: PurgeMode = {"default": "Gracefully", "enum": ["Directly", "Gracefully", "Never"]},
        /// Longest wait in seconds before a gracefully purged copy is removed although its replacement is not healthy; 600 if unset.
        grace_period_seconds?: Option<i32>,
        /// State that is handed to the new cluster; needs the feature gate StatefulFailoverInjection.
        state_preservation?: Option<StatePreservation>,
    }

    /// Reaction to a failed cluster.
    pub struct ClusterFailoverBehavior {
        /// What happens to the copy on the failed cluster.
        purge_mode?: PurgeMode = {"default": "Gracefully", "enum": ["Directly", "Gracefully"]},
        /// State that is handed to the new cluster; needs the feature gate StatefulFailoverInjection.
        state_preservation?: Option<StatePreservation>,
    }

    /// When an application counts as failed.
    pub struct DecisionConditions {
        /// How many seconds the application may be unhealthy before it is moved; 0 moves it at once.
        toleration_seconds?: Option<i32> = {"default": 300},
    }

    /// State that moves along with an application.
    pub struct StatePreservation {
        /// Values to take from the status of the old copy.
        rules: Vec<StatePreservationRule>,
    }

    /// One value to take along.
    pub struct StatePreservationRule {
        /// Label that carries the value to the new cluster.
        alias_label_name: String,
        /// Where the value stands in the status, as a JSONPath template such as `{.replicas}`.
        json_path: String,
    }

    /// Rules for choosing clusters and dividing replicas.
    pub struct Placement {
        /// Clusters that are candidates; all clusters if unset. Cannot be combined with clusterAffinities.
        cluster_affinity?: Option<ClusterAffinity>,
        /// Groups of candidates in order of preference; the first that fits is used. Cannot be combined with clusterAffinity.
        cluster_affinities?: Vec<ClusterAffinityTerm>,
        /// Cluster taints that do not keep the workload away.
        cluster_tolerations?: Vec<Toleration>,
        /// Limits on how the workload is spread over groups of clusters.
        spread_constraints?: Vec<SpreadConstraint>,
        /// How replicas are divided among the chosen clusters; every cluster gets all of them if unset.
        replica_scheduling?: Option<ReplicaSchedulingStrategy>,
        /// Which workloads must or must not share clusters; needs the feature gate WorkloadAffinity.
        workload_affinity?: Option<WorkloadAffinity>,
    }

    /// A limit on how a workload is spread.
    pub struct SpreadConstraint {
        /// Field of the cluster that forms the groups; cannot be combined with spreadByLabel.
        spread_by_field?: SpreadFieldValue = {"enum": ["cluster", "region", "zone", "provider"]},
        /// Label of the cluster that forms the groups; cannot be combined with spreadByField.
        spread_by_label?: String,
        /// Largest number of groups; 0 sets no limit.
        max_groups?: Int,
        /// Smallest number of groups, 1 if unset.
        min_groups?: Int,
    }

    /// Selects clusters; what is given must all hold, an empty affinity selects every cluster.
    pub struct ClusterAffinity {
        /// Labels of the Cluster object.
        label_selector?: Option<LabelSelector>,
        /// Provider, region or zone of the cluster.
        field_selector?: Option<FieldSelector>,
        /// Names of the clusters that may be selected; all if empty.
        cluster_names?: Vec<String>,
        /// Names of clusters that are never selected.
        exclude_clusters as "exclude"?: Vec<String>,
    }

    /// A named group of candidate clusters.
    pub struct ClusterAffinityTerm {
        /// Name of the group; the binding records which one is in use.
        affinity_name: String = {"maxLength": 32, "minLength": 1},
        flatten cluster_affinity: ClusterAffinity,
        /// Further groups that are added in order while the ones before lack capacity; needs Divided scheduling with Aggregated or dynamic weights.
        overflow_affinities?: Vec<OverflowClusterAffinity>,
    }

    /// A group of clusters that is used when the ones before it are full.
    pub struct OverflowClusterAffinity {
        /// Name of the group, unique within the term.
        affinity_name: String = {"maxLength": 32, "minLength": 1},
        flatten cluster_affinity: ClusterAffinity,
    }

    /// Which workloads must or must not share clusters.
    pub struct WorkloadAffinity {
        /// Keeps workloads of a group on the same clusters; the first of a group goes anywhere.
        affinity?: Option<WorkloadAffinityTerm>,
        /// Keeps workloads of a group on different clusters.
        anti_affinity?: Option<WorkloadAntiAffinityTerm>,
    }

    /// Workloads that belong together.
    pub struct WorkloadAffinityTerm {
        /// Label of the template whose value names the group; groups do not cross namespaces.
        group_by_label_key: String,
    }

    /// Workloads that stay apart.
    pub struct WorkloadAntiAffinityTerm {
        /// Label of the template whose value names the group; must differ from the key used for affinity.
        group_by_label_key: String,
    }

    /// How replicas are divided.
    pub struct ReplicaSchedulingStrategy {
        /// Duplicated gives every cluster all replicas, Divided splits them.
        replica_scheduling_type?: ReplicaSchedulingType = {"default": "Divided", "enum": ["Duplicated", "Divided"]},
        /// Aggregated fills as few clusters as possible, Weighted divides by weight; Weighted if unset.
        replica_division_preference?: ReplicaDivisionPreference = {"enum": ["Aggregated", "Weighted"]},
        /// Weights of the clusters; all weigh the same if unset.
        weight_preference?: Option<ClusterPreferences>,
    }

    /// Weights for dividing replicas.
    pub struct ClusterPreferences {
        /// Fixed weights; clusters that no entry selects get nothing.
        static_weight_list?: Vec<StaticClusterWeight>,
        /// Takes the weights from what the clusters can hold; the fixed weights are then ignored.
        dynamic_weight?: DynamicWeightFactor = {"enum": ["AvailableReplicas"]},
    }

    /// A fixed weight.
    pub struct StaticClusterWeight {
        /// Clusters the weight is for.
        target_cluster: ClusterAffinity,
        /// Share of each of these clusters, relative to the other weights.
        weight: i64 = {"minimum": 1},
    }

    /// Source of the scheduling priority.
    pub struct SchedulePriority {
        /// Where the class is looked up.
        priority_class_source: PriorityClassSource = {"enum": ["KubePriorityClass"]},
        /// Name of the PriorityClass in the control plane.
        priority_class_name: String,
    }
}

text! {
    /// What happens to the copy that is moved away.
    pub enum PurgeMode { Directly, Gracefully, Never }

    /// Cluster field that forms spread groups.
    pub enum SpreadFieldValue { Cluster = "cluster", Region = "region", Zone = "zone", Provider = "provider" }

    /// Whether clusters get all replicas or a share.
    pub enum ReplicaSchedulingType { Duplicated, Divided }

    /// How divided replicas are shared out.
    pub enum ReplicaDivisionPreference { Aggregated, Weighted }

    /// Source of dynamic weights.
    pub enum DynamicWeightFactor { AvailableReplicas }

    /// Whether claimed templates may be taken over.
    pub enum PreemptionBehavior { Always, Never }

    /// Reaction to an object that exists already.
    pub enum ConflictResolution { Abort, Overwrite }

    /// When a changed policy takes effect.
    pub enum ActivationPreference { Lazy }

    /// Where priority classes are looked up.
    pub enum PriorityClassSource { KubePriorityClass, PodPriorityClass, FederatedPriorityClass }
}

impl Placement {
    /// The strategy in force: nothing said means every cluster gets all replicas.
    pub fn scheduling_type(&self) -> ReplicaSchedulingType {
        match &self.replica_scheduling {
            None => ReplicaSchedulingType::Duplicated,
            Some(strategy) => strategy.replica_scheduling_type.clone(),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl PropagationSpec {
    /// The priority in force.
    pub fn explicit_priority(&self) -> i32 {
        self.priority.unwrap_or_default()
    }
}

// Kept as text in an annotation of bindings.
karmada_apimachinery::readable!(Placement);

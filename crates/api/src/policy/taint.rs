//! ClusterTaintPolicy: taints that follow the conditions of clusters.

use super::propagation::ClusterAffinity;
use crate::core::TaintEffect;
use crate::meta::kinds;
use crate::wire::{go_package, text, wire};

go_package!("v1alpha1");

kinds! {
    /// Adds taints to clusters and removes them as the conditions of the clusters change. Deleting the policy leaves the taints.
    pub struct ClusterTaintPolicy in "policy.karmada.io" / "v1alpha1" as "clustertaintpolicies", Cluster {
        /// Which taints follow which conditions.
        spec: ClusterTaintPolicySpec,
    }
}

wire! {
    /// Which taints follow which conditions.
    pub struct ClusterTaintPolicySpec {
        /// Clusters that are looked at; all clusters if unset.
        target_clusters?: Option<ClusterAffinity>,
        /// Conditions that must all hold for the taints to be added; empty never adds.
        add_on_conditions?: Vec<MatchCondition>,
        /// Conditions that must all hold for the taints to be removed; empty never removes.
        remove_on_conditions?: Vec<MatchCondition>,
        /// Taints that are added and removed.
        taints: Vec<Taint> = {"minItems": 1},
    }

    /// A test of one cluster condition.
    pub struct MatchCondition {
        /// Type of the condition.
        condition_type: String,
        /// Relation of the status to the values: In or NotIn.
        operator: MatchConditionOperator,
        /// Statuses to compare with: True, False, Unknown.
        status_values: Vec<String>,
    }

    /// A taint to manage.
    pub struct Taint {
        /// Taint key.
        key: String,
        /// Taint effect: NoSchedule or NoExecute; the latter must be allowed by the administrator.
        effect: TaintEffect,
        /// Taint value.
        value?: String,
    }
}

text! {
    /// Relation of a condition's status to a set of values.
    pub enum MatchConditionOperator { In, NotIn }
}

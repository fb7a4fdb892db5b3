//! `remedy.karmada.io/v1alpha1`: what to do when a cluster shows a condition.

use crate::meta::kinds;
use crate::wire::{go_package, text, wire};

go_package!("v1alpha1");

pub const GROUP: &str = "remedy.karmada.io";

kinds! {
    /// Asks for actions on clusters that show certain conditions.
    pub struct Remedy in "remedy.karmada.io" / "v1alpha1" as "remedies", Cluster {
        /// Which clusters, conditions and actions.
        spec: RemedySpec,
    }
}

wire! {
    /// Which clusters, conditions and actions.
    pub struct RemedySpec {
        /// Clusters that are looked at; all if unset.
        cluster_affinity?: Option<ClusterAffinity>,
        /// Conditions of which one is enough; without any the actions always apply.
        decision_matches?: Vec<DecisionMatch>,
        /// Actions written to the status of the clusters.
        actions?: Vec<RemedyAction> = {"items": {"description": "An action, such as TrafficControl."}},
    }

    /// Clusters by name.
    pub struct ClusterAffinity {
        /// Names of the clusters; all if empty.
        cluster_names?: Vec<String>,
    }

    /// A condition to meet.
    pub struct DecisionMatch {
        /// Test of a cluster condition.
        cluster_condition_match?: Option<ClusterConditionRequirement>,
    }

    /// A test of one cluster condition.
    pub struct ClusterConditionRequirement {
        /// Type of the condition, such as ServiceDomainNameResolutionReady.
        condition_type: ConditionType,
        /// How the status is compared.
        operator: ClusterConditionOperator = {"enum": ["Equal", "NotEqual"]},
        /// Status to compare with.
        condition_status: String,
    }
}

text! {
    /// How a condition's status is compared.
    pub enum ClusterConditionOperator { Equal, NotEqual }

    /// A cluster condition that remedies know.
    pub enum ConditionType { ServiceDomainNameResolutionReady }

    /// An action on a cluster.
    pub enum RemedyAction { TrafficControl }
}

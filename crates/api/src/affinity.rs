//! Which clusters an affinity selects.

use karmada_apimachinery::selector::{LabelSelector, Labelled, Operator, Requirement};

use crate::core::{NodeSelectorOperator, NodeSelectorRequirement};
use crate::meta::{self, LabelSelectorOperator, Labels};
use crate::policy::{ClusterAffinity, FieldSelector};

/// What an affinity looks at in a cluster.
pub trait ClusterFacts {
    fn name(&self) -> &str;
    fn labels(&self) -> &Labels;
    fn provider(&self) -> &str;
    fn region(&self) -> &str;
    fn zones(&self) -> &[String];
}

impl ClusterFacts for crate::cluster::Cluster {
    fn name(&self) -> &str {
        &self.metadata.name
    }
    fn labels(&self) -> &Labels {
        &self.metadata.labels
    }
    fn provider(&self) -> &str {
        &self.spec.provider
    }
    fn region(&self) -> &str {
        &self.spec.region
    }
    fn zones(&self) -> &[String] {
        &self.spec.zones
    }
}

impl ClusterAffinity {
    /// Whether the cluster fulfils every criterion that is set; an exclusion wins over all.
    pub fn matches(&self, cluster: &impl ClusterFacts) -> bool {
        let is_named = |names: &[String]| names.iter().any(|name| name == cluster.name());
        !is_named(&self.exclude_clusters)
            && (self.cluster_names.is_empty() || is_named(&self.cluster_names))
            && self
                .label_selector
                .as_ref()
                .is_none_or(|selector| selector.matches(cluster.labels()))
            && self.field_selector.as_ref().is_none_or(|selector| selector.matches(cluster))
    }
}

impl meta::LabelSelector {
    /// Whether the labels fulfil all requirements; an invalid requirement is never fulfilled.
    pub fn matches(&self, labels: &(impl Labelled + ?Sized)) -> bool {
        let mut wanted = self.match_labels.iter();
        let exact = wanted.all(|(key, value)| labels.label(key) == Some(value));
        exact && self.match_expressions.iter().all(|requirement| requirement.matches(labels))
    }
}

impl meta::LabelSelectorRequirement {
    fn matches(&self, labels: &(impl Labelled + ?Sized)) -> bool {
        let value = labels.label(&self.key);
        let is_listed = |value: &str| self.values.iter().any(|listed| listed == value);
        match self.operator {
            LabelSelectorOperator::In => value.is_some_and(is_listed),
            LabelSelectorOperator::NotIn => {
                !self.values.is_empty() && !value.is_some_and(is_listed)
            }
            LabelSelectorOperator::Exists => value.is_some() && self.values.is_empty(),
            LabelSelectorOperator::DoesNotExist => value.is_none() && self.values.is_empty(),
            _ => false,
        }
    }
}

impl FieldSelector {
    /// `zone` looks at the list of zones; everything else at provider and region as if they were labels.
    fn matches(&self, cluster: &impl ClusterFacts) -> bool {
        self.match_expressions.iter().all(|requirement| {
            if requirement.key == "zone" {
                zones_match(requirement, cluster.zones())
            } else {
                field_matches(requirement, cluster)
            }
        })
    }
}

fn zones_match(requirement: &NodeSelectorRequirement, zones: &[String]) -> bool {
    let overlaps = || zones.iter().any(|zone| requirement.values.contains(zone));
    match requirement.operator {
        NodeSelectorOperator::In => overlaps(),
        NodeSelectorOperator::NotIn => !overlaps(),
        NodeSelectorOperator::Exists => !zones.is_empty(),
        NodeSelectorOperator::DoesNotExist => zones.is_empty(),
        _ => false,
    }
}

fn field_matches(requirement: &NodeSelectorRequirement, cluster: &impl ClusterFacts) -> bool {
    let operator = match requirement.operator {
        NodeSelectorOperator::In => Operator::In,
        NodeSelectorOperator::NotIn => Operator::NotIn,
        NodeSelectorOperator::Exists => Operator::Exists,
        NodeSelectorOperator::DoesNotExist => Operator::DoesNotExist,
        NodeSelectorOperator::Gt => Operator::GreaterThan,
        NodeSelectorOperator::Lt => Operator::LessThan,
        _ => return false,
    };
    let Ok(parsed) = Requirement::new(&requirement.key, operator, requirement.values.clone())
    else {
        return false;
    };
    LabelSelector::new(vec![parsed]).matches_with(|key| {
        let value = match key {
            "provider" => cluster.provider(),
            "region" => cluster.region(),
            _ => "",
        };
        (!value.is_empty()).then_some(value)
    })
}

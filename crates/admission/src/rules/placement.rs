//! Placement: which clusters may be chosen and how replicas are divided.

use karmada_api::core::{NodeSelectorOperator, Toleration, TolerationOperator};
use karmada_api::policy::{
    ClusterAffinity, ClusterAffinityTerm, FieldSelector, Placement, ReplicaDivisionPreference,
    ReplicaSchedulingStrategy, ReplicaSchedulingType, SpreadConstraint, SpreadFieldValue,
    WorkloadAffinity,
};
use karmada_api::wire::Int;
use karmada_apimachinery::field::{FieldError, Path, quote};
use karmada_apimachinery::names;

use super::each;
use crate::show::shown;

pub(crate) fn check(placement: &Placement, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if placement.cluster_affinity.is_some() && !placement.cluster_affinities.is_empty() {
        errors.push(FieldError::invalid(
            path,
            shown(placement),
            "clusterAffinities cannot co-exist with clusterAffinity",
        ));
    }
    let terms_path = path.child("clusterAffinities");
    if !allows_overflow(placement.replica_scheduling.as_ref()) {
        for (index, term) in placement.cluster_affinities.iter().enumerate() {
            if !term.overflow_affinities.is_empty() {
                errors.push(FieldError::invalid(
                    &terms_path.index(index).child("overflowAffinities"),
                    shown(&term.overflow_affinities),
                    "overflowAffinities can only be used together with dynamic weight or aggregated scheduling",
                ));
            }
        }
    }
    let affinity = placement.cluster_affinity.as_ref();
    errors.extend(check_affinity(affinity, &path.child("clusterAffinity")));
    errors.extend(check_terms(&placement.cluster_affinities, &terms_path));
    errors.extend(check_spread(&placement.spread_constraints, &path.child("spreadConstraints")));
    let workload = placement.workload_affinity.as_ref();
    errors.extend(check_workload_affinity(workload, &path.child("workloadAffinity")));
    let tolerations_path = path.child("clusterTolerations");
    errors.extend(check_tolerations(&placement.cluster_tolerations, &tolerations_path));
    errors
}

/// Overflow makes sense only where the scheduler looks at capacity.
fn allows_overflow(strategy: Option<&ReplicaSchedulingStrategy>) -> bool {
    let Some(strategy) = strategy else { return false };
    let dynamic = strategy
        .weight_preference
        .as_ref()
        .is_some_and(|preference| !preference.dynamic_weight.is_unset());
    strategy.replica_scheduling_type == ReplicaSchedulingType::Divided
        && match strategy.replica_division_preference {
            ReplicaDivisionPreference::Aggregated => true,
            ReplicaDivisionPreference::Weighted => dynamic,
            _ => false,
        }
}

/// Checks the field selector of an affinity, wherever one stands.
pub(crate) fn check_affinity(
    affinity: Option<&ClusterAffinity>,
    path: &Path,
) -> Option<FieldError> {
    let selector = affinity?.field_selector.as_ref()?;
    let message = field_selector_problem(selector)?;
    Some(FieldError::invalid(&path.child("fieldSelector"), shown(selector), message))
}

fn field_selector_problem(selector: &FieldSelector) -> Option<String> {
    selector.match_expressions.iter().find_map(|expression| {
        if !["provider", "region", "zone"].contains(&&*expression.key) {
            let key = quote(&expression.key);
            return Some(format!("unsupported key {key}, must be provider, region, or zone"));
        }
        match expression.operator {
            NodeSelectorOperator::In | NodeSelectorOperator::NotIn => None,
            ref operator => Some(format!(
                "unsupported operator {}, must be In or NotIn",
                quote(operator.as_str())
            )),
        }
    })
}

fn check_terms(terms: &[ClusterAffinityTerm], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, term) in terms.iter().enumerate() {
        let term_path = path.index(index);
        let name = &*term.affinity_name;
        errors.extend(each(&term_path, name, names::qualified_name(name)));
        if terms[..index].iter().any(|earlier| earlier.affinity_name == name) {
            errors.push(FieldError::invalid(
                path,
                shown(&terms),
                "each affinity term in a policy must have a unique name",
            ));
        }
        errors.extend(check_affinity(Some(&term.cluster_affinity), &term_path));
        errors.extend(check_overflow(term, &term_path.child("overflowAffinities")));
    }
    errors
}

fn check_overflow(term: &ClusterAffinityTerm, path: &Path) -> Vec<FieldError> {
    if term.overflow_affinities.is_empty() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if term.cluster_affinity == ClusterAffinity::default() {
        errors.push(FieldError::invalid(
            path,
            shown(&term.overflow_affinities),
            "overflowAffinities can only be used together with the inline ClusterAffinity",
        ));
    }
    let mut taken = vec![&*term.affinity_name];
    for (index, tier) in term.overflow_affinities.iter().enumerate() {
        let name = &*tier.affinity_name;
        let name_path = path.index(index).child("affinityName");
        errors.extend(each(&name_path, name, names::qualified_name(name)));
        if taken.contains(&name) {
            errors.push(FieldError::invalid(
                &name_path,
                name,
                "overflow affinity name must be unique and must not duplicate the primary group's affinityName",
            ));
        }
        taken.push(name);
        errors.extend(check_affinity(Some(&tier.cluster_affinity), &path.index(index)));
    }
    errors
}

fn check_spread(constraints: &[SpreadConstraint], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // How often each field was seen.
    let mut fields: Vec<(&SpreadFieldValue, usize)> = Vec::new();
    for (index, constraint) in constraints.iter().enumerate() {
        errors.extend(check_constraint(constraint, &path.index(index)));
        let field = &constraint.spread_by_field;
        if field.is_unset() {
            continue;
        }
        match fields.iter_mut().find(|(seen, _)| *seen == field) {
            None => fields.push((field, 1)),
            Some((_, count)) => {
                *count += 1;
                if *count == 2 {
                    errors.push(FieldError::invalid(
                        path,
                        shown(&constraints),
                        format!("multiple {field} spread constraints are not allowed"),
                    ));
                }
            }
        }
    }
    if !fields.is_empty() && !fields.iter().any(|(field, _)| **field == SpreadFieldValue::Cluster) {
        errors.push(FieldError::invalid(
            path,
            shown(&constraints),
            "the cluster spread constraint must be enabled in one of the constraints in case of SpreadByField is enabled",
        ));
    }
    errors
}

fn check_constraint(constraint: &SpreadConstraint, path: &Path) -> Vec<FieldError> {
    let (min, max) = (constraint.min_groups, constraint.max_groups);
    let both = !constraint.spread_by_field.is_unset() && !constraint.spread_by_label.is_empty();
    [
        (both, "spreadByLabel should not co-exist with spreadByField"),
        (min < Int(0), "minGroups lower than 0 is not allowed"),
        (max < Int(0), "maxGroups lower than 0 is not allowed"),
        (max > Int(0) && max < min, "maxGroups lower than minGroups is not allowed"),
    ]
    .into_iter()
    .filter(|(broken, _)| *broken)
    .map(|(_, message)| FieldError::invalid(path, shown(constraint), message))
    .collect()
}

fn check_workload_affinity(workload: Option<&WorkloadAffinity>, path: &Path) -> Vec<FieldError> {
    let Some(workload) = workload else { return Vec::new() };
    let together = workload.affinity.as_ref().map(|term| &*term.group_by_label_key);
    let apart = workload.anti_affinity.as_ref().map(|term| &*term.group_by_label_key);
    let mut errors = Vec::new();
    for (field, key) in [("affinity", together), ("antiAffinity", apart)] {
        if let Some(key) = key {
            let path = path.child(field).child("groupByLabelKey");
            errors.extend(each(&path, key, names::qualified_name(key)));
        }
    }
    if together.is_some() && together == apart {
        errors.push(FieldError::invalid(
            path,
            shown(workload),
            "affinity and antiAffinity must not use the same groupByLabelKey",
        ));
    }
    errors
}

fn check_tolerations(tolerations: &[Toleration], path: &Path) -> Vec<FieldError> {
    let compares_numbers = |toleration: &Toleration| {
        matches!(toleration.operator, TolerationOperator::Lt | TolerationOperator::Gt)
    };
    tolerations
        .iter()
        .enumerate()
        .filter(|(_, toleration)| compares_numbers(toleration))
        .map(|(index, toleration)| {
            FieldError::not_supported(
                &path.index(index).child("operator"),
                toleration.operator.as_str(),
                &["", "Exists", "Equal"],
            )
        })
        .collect()
}

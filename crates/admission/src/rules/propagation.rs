//! PropagationPolicy and ClusterPropagationPolicy.

use karmada_api::multicluster;
use karmada_api::policy::{
    ApplicationFailoverBehavior, ClusterFailoverBehavior, FailoverBehavior, PreemptionBehavior,
    PropagationSpec, PurgeMode, ReplicaDivisionPreference, ReplicaSchedulingType, ResourceSelector,
    SpreadFieldValue, StatePreservation, Suspension,
};
use karmada_api::scopes::Policy;
use karmada_api::wire::Int;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names;

use super::{each, placement};
use crate::decode::{decode, encode};
use crate::request::{Denial, Environment, Operation, Request, Verdict, refuse_any};
use crate::show::shown;

const DEFAULT_GRACE_PERIOD_SECONDS: i32 = 600;

pub(crate) fn mutate<P: Policy>(
    request: &Request,
    environment: &dyn Environment,
) -> Result<Verdict, Denial> {
    let mut policy: P = decode(&request.object)?;
    if P::NAMESPACED {
        default_selector_namespaces(&mut policy.spec_mut().resource_selectors, &request.namespace);
    }
    set_defaults(policy.spec_mut());
    if request.operation == Operation::Create {
        let metadata = policy.metadata_mut();
        metadata.labels.insert(P::PERMANENT_ID.to_owned(), environment.new_id());
        if !metadata.finalizers.iter().any(|finalizer| finalizer == P::FINALIZER) {
            metadata.finalizers.push(P::FINALIZER.to_owned());
        }
    }
    Ok(Verdict { object: Some(encode(&policy, &request.object)?), ..Verdict::default() })
}

pub(crate) fn validate<P: Policy>(
    request: &Request,
    _: &dyn Environment,
) -> Result<Verdict, Denial> {
    let policy: P = decode(&request.object)?;
    let id = |policy: &P| policy.metadata().labels.get(P::PERMANENT_ID).cloned();
    if request.operation == Operation::Update {
        let old: P = decode(&request.old_object)?;
        if policy.spec().scheduler_name != old.spec().scheduler_name {
            return Err(Denial::forbidden("the schedulerName should not be updated"));
        }
        if id(&policy).unwrap_or_default() != id(&old).unwrap_or_default() {
            return Err(Denial::forbidden(format!(
                "label {} is immutable, it can only be set by the system during creation",
                P::PERMANENT_ID
            )));
        }
    }
    if id(&policy).is_none() {
        return Err(Denial::forbidden(format!(
            "label {} is required, it should be set by the mutating admission webhook during creation",
            P::PERMANENT_ID
        )));
    }
    let namespace = if P::NAMESPACED { &*request.namespace } else { "" };
    refuse_any(&check_spec(policy.spec(), namespace))?;
    Ok(Verdict::default())
}

/// Selectors of a namespaced policy select in its own namespace.
pub(crate) fn default_selector_namespaces(selectors: &mut [ResourceSelector], namespace: &str) {
    for selector in selectors {
        if selector.namespace.is_empty() {
            selector.namespace = namespace.to_owned();
        }
    }
}

fn set_defaults(spec: &mut PropagationSpec) {
    for constraint in &mut spec.placement.spread_constraints {
        if constraint.spread_by_label.is_empty() && constraint.spread_by_field.is_unset() {
            constraint.spread_by_field = SpreadFieldValue::Cluster;
        }
        if constraint.min_groups == Int(0) {
            constraint.min_groups = Int(1);
        }
    }
    // A ServiceImport is of no use without the Service and slices derived from it.
    let is_service_import = |selector: &ResourceSelector| {
        selector.kind == "ServiceImport"
            && selector.api_version.strip_suffix("/v1alpha1") == Some(multicluster::GROUP)
    };
    if spec.resource_selectors.iter().any(is_service_import) {
        spec.propagate_deps = true;
    }
    if let Some(strategy) = &mut spec.placement.replica_scheduling
        && strategy.replica_scheduling_type == ReplicaSchedulingType::Divided
        && strategy.replica_division_preference.is_unset()
    {
        strategy.replica_division_preference = ReplicaDivisionPreference::Weighted;
    }
    if let Some(application) = spec.failover.as_mut().and_then(|f| f.application.as_mut())
        && application.purge_mode == PurgeMode::Gracefully
    {
        application.grace_period_seconds.get_or_insert(DEFAULT_GRACE_PERIOD_SECONDS);
    }
}

fn check_spec(spec: &PropagationSpec, namespace: &str) -> Vec<FieldError> {
    let path = Path::new("spec");
    let mut errors = placement::check(&spec.placement, &path.child("placement"));
    if spec.failover.as_ref().is_some_and(|failover| failover.application.is_some())
        && !spec.propagate_deps
    {
        errors.push(FieldError::invalid(
            &path.child("propagateDeps"),
            false,
            "application failover is set, propagateDeps must be true",
        ));
    }
    errors.extend(check_failover(spec.failover.as_ref(), &path.child("failover")));
    let selectors_path = path.child("resourceSelectors");
    errors.extend(check_selector_namespaces(&spec.resource_selectors, namespace, &selectors_path));
    if spec.preemption == PreemptionBehavior::Always {
        errors.extend(check_preemption(&spec.resource_selectors, &selectors_path));
    }
    errors.extend(check_suspension(spec.suspension.as_ref(), &path.child("suspension")));
    errors
}

/// Selectors of a namespaced policy may not look into other namespaces.
pub(crate) fn check_selector_namespaces(
    selectors: &[ResourceSelector],
    namespace: &str,
    path: &Path,
) -> Vec<FieldError> {
    if namespace.is_empty() {
        return Vec::new();
    }
    let foreign = |(_, selector): &(usize, &ResourceSelector)| selector.namespace != namespace;
    selectors
        .iter()
        .enumerate()
        .filter(foreign)
        .map(|(index, selector)| {
            FieldError::invalid(
                &path.index(index).child("namespace"),
                &*selector.namespace,
                "namespace of resource selector must be the same as the namespace of the policy",
            )
        })
        .collect()
}

fn check_preemption(selectors: &[ResourceSelector], path: &Path) -> Vec<FieldError> {
    selectors
        .iter()
        .enumerate()
        .filter(|(_, selector)| selector.name.is_empty())
        .map(|(index, _)| {
            FieldError::invalid(
                &path.index(index).child("name"),
                "",
                "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption",
            )
        })
        .collect()
}

fn check_suspension(suspension: Option<&Suspension>, path: &Path) -> Option<FieldError> {
    let suspension = suspension?;
    let on_clusters = suspension
        .dispatching_on_clusters
        .as_ref()
        .is_some_and(|clusters| !clusters.cluster_names.is_empty());
    (suspension.dispatching == Some(true) && on_clusters).then(|| {
        FieldError::invalid(
            // Compat: the path names the field twice.
            &path.child("suspension"),
            shown(suspension),
            "suspension dispatching cannot co-exist with dispatchingOnClusters.clusterNames",
        )
    })
}

fn check_failover(failover: Option<&FailoverBehavior>, path: &Path) -> Vec<FieldError> {
    let Some(failover) = failover else { return Vec::new() };
    let mut errors = Vec::new();
    if let Some(application) = &failover.application {
        errors.extend(check_application_failover(application, &path.child("application")));
    }
    if let Some(ClusterFailoverBehavior { state_preservation, .. }) = &failover.cluster {
        let path = path.child("cluster").child("statePreservation");
        errors.extend(check_state_preservation(state_preservation.as_ref(), &path));
    }
    errors
}

fn check_application_failover(
    failover: &ApplicationFailoverBehavior,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let toleration = failover.decision_conditions.toleration_seconds.unwrap_or_default();
    if toleration < 0 {
        errors.push(FieldError::invalid(
            &path.child("decisionConditions").child("tolerationSeconds"),
            toleration,
            "must be greater than or equal to 0",
        ));
    }
    let grace_path = path.child("gracePeriodSeconds");
    let gracefully = failover.purge_mode == PurgeMode::Gracefully;
    match failover.grace_period_seconds {
        Some(grace) if !gracefully => errors.push(FieldError::invalid(
            &grace_path,
            grace,
            "only takes effect when purgeMode is gracefully",
        )),
        None if gracefully => errors.push(FieldError::invalid(
            &grace_path,
            karmada_apimachinery::Value::Null,
            "should not be empty when purgeMode is gracefully",
        )),
        _ => {}
    }
    if let Some(grace) = failover.grace_period_seconds.filter(|grace| *grace <= 0) {
        errors.push(FieldError::invalid(&grace_path, grace, "must be greater than 0"));
    }
    let state_path = path.child("statePreservation");
    errors.extend(check_state_preservation(failover.state_preservation.as_ref(), &state_path));
    errors
}

fn check_state_preservation(state: Option<&StatePreservation>, path: &Path) -> Vec<FieldError> {
    let rules = state.map_or(&[][..], |state| &state.rules);
    rules
        .iter()
        .enumerate()
        .flat_map(|(index, rule)| {
            let path = path.child("rules").index(index).child("aliasLabelName");
            each(&path, &rule.alias_label_name, names::qualified_name(&rule.alias_label_name))
        })
        .collect()
}

//! The table of hooks, and running those that a request concerns.

use karmada_api::config::{
    ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration,
};
use karmada_api::meta::Kind;
use karmada_api::policy::{
    ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy,
};
use karmada_api::work::{ClusterResourceBinding, ResourceBinding};
use karmada_api::{autoscaling, networking, policy, work};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::status::Status;

use crate::request::{Admitted, Denial, Environment, Operation, Request, Verdict};
use crate::rules;

/// When a hook runs: before the schema is validated, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Mutating,
    Validating,
}

/// One rule set for one kind.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    /// Name that denials carry.
    pub name: &'static str,
    /// Path of the HTTP endpoint.
    pub path: &'static str,
    pub phase: Phase,
    /// `*` for any.
    pub group: &'static str,
    /// Plural name; `*` for any.
    pub resource: &'static str,
    pub operations: &'static [Operation],
    run: fn(&Request, &dyn Environment) -> Result<Verdict, Denial>,
}

const CREATE: &[Operation] = &[Operation::Create];
const WRITE: &[Operation] = &[Operation::Create, Operation::Update];
const DELETE: &[Operation] = &[Operation::Delete];

macro_rules! hooks {
    ($( $phase:ident $name:literal $path:literal, $kind:ty, $operations:ident => $run:expr; )*) => {
        &[$( Hook {
            name: $name,
            path: $path,
            phase: Phase::$phase,
            group: <$kind as Kind>::GROUP,
            resource: <$kind as Kind>::PLURAL,
            operations: $operations,
            run: $run,
        }, )*
        Hook {
            name: "resourcedeletionprotection.karmada.io",
            path: "/validate-resourcedeletionprotection",
            phase: Phase::Validating,
            group: "*",
            resource: "*",
            operations: DELETE,
            run: rules::deletion::validate,
        }]
    };
}

/// All hooks, in the order in which they are registered.
pub fn hooks() -> &'static [Hook] {
    hooks! {
        Mutating "propagationpolicy.karmada.io" "/mutate-propagationpolicy", PropagationPolicy, WRITE
            => rules::propagation::mutate::<PropagationPolicy>;
        Mutating "clusterpropagationpolicy.karmada.io" "/mutate-clusterpropagationpolicy", ClusterPropagationPolicy, WRITE
            => rules::propagation::mutate::<ClusterPropagationPolicy>;
        Mutating "overridepolicy.karmada.io" "/mutate-overridepolicy", OverridePolicy, WRITE
            => rules::overrides::mutate;
        Mutating "work.karmada.io" "/mutate-work", work::Work, WRITE
            => rules::work::mutate;
        Mutating "autoscaling.karmada.io" "/mutate-federatedhpa", autoscaling::FederatedHPA, WRITE
            => rules::federated_hpa::mutate;
        Mutating "multiclusterservice.karmada.io" "/mutate-multiclusterservice", networking::MultiClusterService, WRITE
            => rules::service::mutate;
        Mutating "resourcebinding.karmada.io" "/mutate-resourcebinding", ResourceBinding, CREATE
            => rules::binding::mutate::<ResourceBinding>;
        Mutating "clusterresourcebinding.karmada.io" "/mutate-clusterresourcebinding", ClusterResourceBinding, CREATE
            => rules::binding::mutate::<ClusterResourceBinding>;
        Validating "propagationpolicy.karmada.io" "/validate-propagationpolicy", PropagationPolicy, WRITE
            => rules::propagation::validate::<PropagationPolicy>;
        Validating "clusterpropagationpolicy.karmada.io" "/validate-clusterpropagationpolicy", ClusterPropagationPolicy, WRITE
            => rules::propagation::validate::<ClusterPropagationPolicy>;
        Validating "overridepolicy.karmada.io" "/validate-overridepolicy", OverridePolicy, WRITE
            => rules::overrides::validate::<OverridePolicy>;
        Validating "clusteroverridepolicy.karmada.io" "/validate-clusteroverridepolicy", ClusterOverridePolicy, WRITE
            => rules::overrides::validate::<ClusterOverridePolicy>;
        Validating "config.karmada.io" "/validate-resourceinterpreterwebhookconfiguration", ResourceInterpreterWebhookConfiguration, WRITE
            => rules::interpreter_webhook::validate;
        Validating "federatedresourcequota.karmada.io" "/validate-federatedresourcequota", policy::FederatedResourceQuota, WRITE
            => rules::federated_quota::validate;
        Validating "resourceinterpretercustomization.karmada.io" "/validate-resourceinterpretercustomization", ResourceInterpreterCustomization, WRITE
            => rules::customization::validate;
        Validating "multiclusteringress.karmada.io" "/validate-multiclusteringress", networking::MultiClusterIngress, WRITE
            => rules::ingress::validate;
        Validating "multiclusterservice.karmada.io" "/validate-multiclusterservice", networking::MultiClusterService, WRITE
            => rules::service::validate;
        Validating "federatedhpa.karmada.io" "/validate-federatedhpa", autoscaling::FederatedHPA, WRITE
            => rules::federated_hpa::validate;
        Validating "cronfederatedhpa.karmada.io" "/validate-cronfederatedhpa", autoscaling::CronFederatedHPA, WRITE
            => rules::cron_federated_hpa::validate;
        Validating "clustertaintpolicy.karmada.io" "/validate-clustertaintpolicy", policy::ClusterTaintPolicy, WRITE
            => rules::taint_policy::validate;
        Validating "resourcebinding.karmada.io" "/validate-resourcebinding", ResourceBinding, WRITE
            => rules::binding::validate;
    }
}

impl Hook {
    /// Whether the hook has a say in the request.
    pub fn concerns(&self, request: &Request) -> bool {
        let matches = |pattern: &str, word: &str| pattern == "*" || pattern == word;
        request.subresource.is_empty()
            && matches(self.group, &request.resource.group)
            && matches(self.resource, &request.resource.resource)
            && self.operations.contains(&request.operation)
            && (!self.is_deletion_protection()
                || request.old_object.label(karmada_api::labels::DELETION_PROTECTED).is_some())
    }

    /// Deletion protection looks only at objects that carry its label.
    pub(crate) fn is_deletion_protection(&self) -> bool {
        self.resource == "*"
    }

    /// Runs the hook.
    pub fn run(&self, request: &Request, environment: &dyn Environment) -> Result<Verdict, Denial> {
        (self.run)(request, environment)
    }
}

/// Whether a hook of the phase has a say in writes of this kind. Deletion protection is not asked: it looks
/// at the object itself.
pub fn concerned(phase: Phase, resource: (&str, &str), operation: Operation) -> bool {
    hooks().iter().any(|hook| {
        hook.phase == phase
            && (hook.group, hook.resource) == resource
            && hook.operations.contains(&operation)
    })
}

/// Runs the mutating hooks; the answer holds the object with defaults filled in, if one did so.
pub fn mutate(request: &Request, environment: &dyn Environment) -> Result<Admitted, Status> {
    run_phase(Phase::Mutating, request, environment)
}

/// Runs the validating hooks on an object whose schema is already validated.
pub fn validate(request: &Request, environment: &dyn Environment) -> Result<Admitted, Status> {
    run_phase(Phase::Validating, request, environment)
}

/// Runs all hooks, for callers that have no schema validation in between.
pub fn admit(request: &Request, environment: &dyn Environment) -> Result<Admitted, Status> {
    let mutated = mutate(request, environment)?;
    let Some(object) = mutated.object else { return validate(request, environment) };
    let admitted = validate(&request.about(object.clone()), environment)?;
    Ok(Admitted { object: Some(object), ..admitted })
}

fn run_phase(
    phase: Phase,
    request: &Request,
    environment: &dyn Environment,
) -> Result<Admitted, Status> {
    // Made by the first hook that changes the object; most requests meet one hook at most.
    let mut current: Option<Request<'_>> = None;
    let mut quota_uses = Vec::new();
    for hook in hooks().iter().filter(|hook| hook.phase == phase && hook.concerns(request)) {
        let verdict = hook
            .run(current.as_ref().unwrap_or(request), environment)
            .map_err(|denial| denial.to_status(hook.name))?;
        if let Some(object) = verdict.object {
            current = Some(request.about(object));
        }
        quota_uses.extend(verdict.quota_uses);
    }
    let object = current.map(|current| current.object.into_owned());
    Ok(Admitted { object, warnings: Vec::new(), quota_uses })
}

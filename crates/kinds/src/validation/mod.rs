//! What the API server refuses to store: static checks of built-in kinds, on creation and on
//! change, with the words, order and paths of Kubernetes.
//!
//! Objects arrive decoded, normalised and defaulted; defaults are not filled in here, nothing is
//! looked up, and what depends on other objects (quotas, allocated addresses) is not checked.

mod admission_policies;
mod apiregistration;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod flowcontrol;
mod job_status;
mod meta;
mod net;
mod networking;
mod options;
mod place;
mod policy;
mod rbac;
mod resource_claims;
mod resource_slices;
mod reviews;
mod scheduling;
mod selectors;
mod storage;
#[cfg(test)]
mod tests;
mod webhooks;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::{Value, names};

pub use core::service::validate_service_addresses;
use core::{config, node, persistent, pod, quota, service};
use meta::Scope;
pub use options::{
    ListQuery, LogQuery, WriteQuery, validate_delete_options, validate_list_options,
    validate_log_options, validate_patch_options, validate_write_options,
};
use place::{At, Errors};
pub use reviews::{validate_binding, validate_token_request_name};

type Create = fn(&At<'_>, &mut Errors);
/// Takes the subresource, the new and the stored object.
type Update = fn(&str, &At<'_>, &At<'_>, &mut Errors);

/// How one kind is checked.
struct Rule {
    group: &'static str,
    kind: &'static str,
    scope: Scope,
    create: Create,
    update: Update,
}

const fn namespaced(
    group: &'static str,
    kind: &'static str,
    create: Create,
    update: Update,
) -> Rule {
    Rule { group, kind, scope: Scope::Namespaced, create, update }
}

const fn cluster(group: &'static str, kind: &'static str, create: Create, update: Update) -> Rule {
    Rule { group, kind, scope: Scope::Cluster, create, update }
}

/// A kind that is answered, not stored.
const fn transient(group: &'static str, kind: &'static str, create: Create) -> Rule {
    Rule { group, kind, scope: Scope::None, create, update: |_, _, _, _| {} }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const FLOW: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const STORAGE: &str = "storage.k8s.io";

#[rustfmt::skip] // One kind, one line.
static RULES: &[Rule] = &[
    transient("", "Binding", reviews::binding),
    namespaced("", "ConfigMap", config::config_map_create, config::config_map_update),
    namespaced("", "Endpoints", node::endpoints_create, node::endpoints_update),
    namespaced("", "Event", events::core_create, events::core_update),
    namespaced("", "LimitRange", quota::limit_range_create, quota::limit_range_update),
    cluster("", "Namespace", config::namespace_create, config::namespace_update),
    cluster("", "Node", node::create, node::update),
    cluster("", "PersistentVolume", persistent::volume_create, persistent::volume_update),
    namespaced("", "PersistentVolumeClaim", persistent::claim_create, persistent::claim_update),
    namespaced("", "Pod", pod::create, pod::update),
    namespaced("", "PodTemplate", pod::template_create, pod::template_update),
    namespaced("", "ReplicationController", node::replication_controller_create, node::replication_controller_update),
    namespaced("", "ResourceQuota", quota::quota_create, quota::quota_update),
    namespaced("", "Secret", config::secret_create, config::secret_update),
    namespaced("", "Service", service::create, service::update),
    namespaced("", "ServiceAccount", config::service_account_create, config::service_account_update),
    cluster(ADMISSION, "MutatingAdmissionPolicy", admission_policies::mutating_create, admission_policies::mutating_update),
    cluster(ADMISSION, "MutatingAdmissionPolicyBinding", admission_policies::mutating_binding_create, |_, new, _, errs| admission_policies::mutating_binding_create(new, errs)),
    cluster(ADMISSION, "MutatingWebhookConfiguration", webhooks::create, webhooks::update),
    cluster(ADMISSION, "ValidatingAdmissionPolicy", admission_policies::validating_create, admission_policies::validating_update),
    cluster(ADMISSION, "ValidatingAdmissionPolicyBinding", admission_policies::validating_binding_create, |_, new, _, errs| admission_policies::validating_binding_create(new, errs)),
    cluster(ADMISSION, "ValidatingWebhookConfiguration", webhooks::create, webhooks::update),
    cluster("apiregistration.k8s.io", "APIService", apiregistration::create, apiregistration::update),
    namespaced("apps", "ControllerRevision", apps::controller_revision_create, apps::controller_revision_update),
    namespaced("apps", "DaemonSet", apps::daemon_set_create, apps::daemon_set_update),
    namespaced("apps", "Deployment", apps::deployment_create, apps::deployment_update),
    namespaced("apps", "ReplicaSet", apps::replica_set_create, apps::replica_set_update),
    namespaced("apps", "StatefulSet", apps::stateful_set_create, apps::stateful_set_update),
    transient("authentication.k8s.io", "TokenRequest", reviews::token_request),
    transient(AUTHORIZATION, "LocalSubjectAccessReview", reviews::local_subject_access),
    transient(AUTHORIZATION, "SelfSubjectAccessReview", reviews::self_subject_access),
    transient(AUTHORIZATION, "SubjectAccessReview", reviews::subject_access),
    namespaced("autoscaling", "HorizontalPodAutoscaler", autoscaling::create, autoscaling::update),
    namespaced("autoscaling", "Scale", autoscaling::scale, |_, new, _, errs| autoscaling::scale(new, errs)),
    namespaced("batch", "CronJob", batch::cron_job_create, batch::cron_job_update),
    namespaced("batch", "Job", batch::job_create, batch::job_update),
    cluster("certificates.k8s.io", "CertificateSigningRequest", certificates::create, certificates::update),
    namespaced("coordination.k8s.io", "Lease", coordination::lease_create, coordination::lease_update),
    namespaced("discovery.k8s.io", "EndpointSlice", discovery::slice_create, discovery::slice_update),
    namespaced("events.k8s.io", "Event", events::create, events::update),
    cluster(FLOW, "FlowSchema", flowcontrol::schema_create, flowcontrol::schema_update),
    cluster(FLOW, "PriorityLevelConfiguration", flowcontrol::level_create, flowcontrol::level_update),
    cluster(NETWORKING, "IPAddress", networking::ip_address_create, networking::ip_address_update),
    namespaced(NETWORKING, "Ingress", networking::ingress_create, networking::ingress_update),
    cluster(NETWORKING, "IngressClass", networking::ingress_class_create, networking::ingress_class_update),
    namespaced(NETWORKING, "NetworkPolicy", networking::policy_create, networking::policy_update),
    cluster(NETWORKING, "ServiceCIDR", networking::service_cidr_create, networking::service_cidr_update),
    cluster("node.k8s.io", "RuntimeClass", scheduling::runtime_class_create, scheduling::runtime_class_update),
    namespaced("policy", "PodDisruptionBudget", policy::budget_create, policy::budget_update),
    cluster(RBAC, "ClusterRole", rbac::cluster_role_create, rbac::cluster_role_update),
    cluster(RBAC, "ClusterRoleBinding", rbac::cluster_role_binding_create, rbac::cluster_role_binding_update),
    namespaced(RBAC, "Role", rbac::role_create, rbac::role_update),
    namespaced(RBAC, "RoleBinding", rbac::role_binding_create, rbac::role_binding_update),
    cluster(RESOURCE, "DeviceClass", resource_claims::class_create, resource_claims::class_update),
    namespaced(RESOURCE, "ResourceClaim", resource_claims::claim_create, resource_claims::claim_update),
    namespaced(RESOURCE, "ResourceClaimTemplate", resource_claims::template_create, resource_claims::template_update),
    cluster(RESOURCE, "ResourceSlice", resource_slices::create, resource_slices::update),
    cluster("scheduling.k8s.io", "PriorityClass", scheduling::priority_class_create, scheduling::priority_class_update),
    cluster(STORAGE, "CSIDriver", storage::csi_driver_create, storage::csi_driver_update),
    cluster(STORAGE, "CSINode", storage::csi_node_create, storage::csi_node_update),
    namespaced(STORAGE, "CSIStorageCapacity", storage::capacity_create, storage::capacity_update),
    cluster(STORAGE, "StorageClass", storage::class_create, storage::class_update),
    cluster(STORAGE, "VolumeAttachment", storage::attachment_create, storage::attachment_update),
    cluster(STORAGE, "VolumeAttributesClass", storage::attributes_class_create, storage::attributes_class_update),
];

fn rule(group: &str, kind: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.group == group && rule.kind == kind)
}

/// Checks a new object. An unknown kind passes.
pub fn validate_create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let Some(rule) = rule(group, kind) else { return Vec::new() };
    let object = At::root(object);
    let mut errs = Errors::default();
    (rule.create)(&object, &mut errs);
    if errs.is_empty() && rule.scope != Scope::None {
        // Whatever a kind's own rule is, a name must fit into a path.
        meta::check_plain(&object, rule.scope, names::path_segment_name, &mut errs);
    }
    errs.0
}

/// Checks a changed object against the stored one. `subresource` is empty for the object itself,
/// else `status`, `approval`, `ephemeralcontainers`, `resize`, `finalize` and the like.
pub fn validate_update(
    group: &str,
    kind: &str,
    subresource: &str,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let Some(rule) = rule(group, kind) else { return Vec::new() };
    let (new, old) = (At::root(new), At::root(old));
    let mut errs = Errors::default();
    if rule.scope == Scope::None {
        return Vec::new();
    }
    // Compat: these run before the kind's own checks, which often repeat them.
    meta::check_plain(&new, rule.scope, names::path_segment_name, &mut errs);
    meta::update_plain(&new, &old, &mut errs);
    (rule.update)(subresource, &new, &old, &mut errs);
    errs.0
}

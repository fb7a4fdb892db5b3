//! Fills in what a manifest leaves out, as Kubernetes 1.36 does for each kind.
//!
//! Runs after decoding and normalising, on create, on update and on what a patch produced.
//! Applying it twice changes nothing more.

mod amount;
mod core;
mod extension;
mod image;
mod pod;
mod policy;
mod storage;
mod workload;

#[cfg(test)]
mod tests;

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Map, Value, json};

/// Sets the defaults of one kind on an object.
type Default = fn(&mut Value);

/// Sets the defaults of `kind` wherever the object says nothing.
pub fn apply(group: &str, version: &str, kind: &str, object: &mut Value) {
    let Some(row) = DEFAULTS.iter().find(|row| (row.0, row.1) == (group, kind)) else { return };
    // The older version of the autoscaler knows neither metrics nor behaviour.
    if (kind, version) == ("HorizontalPodAutoscaler", "v1") {
        return workload::autoscaler_v1(object);
    }
    (row.2)(object);
}

static DEFAULTS: &[(&str, &str, Default)] = &[
    ("", "Endpoints", core::endpoints),
    ("", "LimitRange", core::limit_range),
    ("", "Namespace", core::namespace),
    ("", "Node", core::node),
    ("", "PersistentVolume", storage::volume),
    ("", "PersistentVolumeClaim", storage::claim),
    ("", "Pod", pod::pod),
    ("", "PodTemplate", pod::pod_template),
    ("", "ReplicationController", workload::replication_controller),
    ("", "ResourceQuota", core::resource_quota),
    ("", "Secret", core::secret),
    ("", "Service", core::service),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", extension::admission_policy),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", extension::policy_binding),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", extension::mutating_webhooks),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", extension::admission_policy),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", extension::policy_binding),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        extension::validating_webhooks,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", extension::custom_resource_definition),
    ("apiregistration.k8s.io", "APIService", extension::api_service),
    ("apps", "DaemonSet", workload::daemon_set),
    ("apps", "Deployment", workload::deployment),
    ("apps", "ReplicaSet", workload::replica_set),
    ("apps", "StatefulSet", workload::stateful_set),
    ("authentication.k8s.io", "TokenRequest", policy::token_request),
    ("autoscaling", "HorizontalPodAutoscaler", workload::autoscaler),
    ("batch", "CronJob", workload::cron_job),
    ("batch", "Job", workload::job),
    ("discovery.k8s.io", "EndpointSlice", policy::endpoint_slice),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", policy::flow_schema),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", policy::priority_level),
    ("networking.k8s.io", "IngressClass", policy::ingress_class),
    ("networking.k8s.io", "NetworkPolicy", policy::network_policy),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", policy::role_binding),
    ("rbac.authorization.k8s.io", "RoleBinding", policy::role_binding),
    ("resource.k8s.io", "ResourceClaim", policy::resource_claim),
    ("resource.k8s.io", "ResourceClaimTemplate", policy::resource_claim_template),
    ("resource.k8s.io", "ResourceSlice", policy::resource_slice),
    ("scheduling.k8s.io", "PriorityClass", policy::priority_class),
    ("storage.k8s.io", "CSIDriver", storage::csi_driver),
    ("storage.k8s.io", "StorageClass", storage::storage_class),
];

/// Sets a text where it is absent or empty.
fn text(object: &mut Value, field: &str, default: &str) {
    if object.str_at(&[field]).unwrap_or_default().is_empty() {
        object.set(&[field], default);
    }
}

/// Sets a number where it is absent or zero.
fn nonzero(object: &mut Value, field: &str, default: i64) {
    if object.i64_at(&[field]).unwrap_or_default() == 0 {
        object.set(&[field], default);
    }
}

/// Returns the map at a field if the object has one there.
fn present<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    object.get_mut(field).filter(|value| value.is_object())
}

/// Returns the map at a field, made empty where nothing stands.
fn made<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    object.set_default(&[field], Map::new());
    object.get_mut(field).expect("was just set")
}

fn items<'a>(object: &'a mut Value, field: &str) -> &'a mut [Value] {
    object.list_at_mut(&[field])
}

fn is_empty_list(object: &Value, field: &str) -> bool {
    object.list_at(&[field]).is_empty()
}

/// Adds the entries of `from` that `to` lacks.
fn fill(to: &mut Map, from: &Map) {
    for (key, value) in from {
        to.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// Some kinds have a field for one thing, and a newer one for a list of them. The one is the first of the list; it
/// counts where they differ. Entries of the list are texts, or objects that hold the text in a field.
fn agree(object: &mut Value, one: &[&str], many: &[&str], field: Option<&str>) {
    let said = object.str_at(one).unwrap_or_default().to_owned();
    let first = object.list_at(many).first().and_then(|first| match field {
        Some(field) => first.str_at(&[field]),
        None => first.as_str(),
    });
    match first.map(str::to_owned) {
        Some(first) if said.is_empty() => object.set(one, first),
        first if !said.is_empty() && first.as_deref() != Some(&said) => {
            let entry = match field {
                Some(field) => json!({ field: said }),
                None => said.into(),
            };
            object.set(many, vec![entry]);
        }
        _ => {}
    }
}

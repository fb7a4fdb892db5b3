//! What the server itself does to an object between defaulting and validation: keeps or drops
//! status, counts generations, fills in what only the server may say.

mod certificate;
mod disabled;
mod pod;
mod stored;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};

pub use certificate::{Requestor, record_requestor};
pub use pod::{is_pod_terminal, qos_class};
pub(crate) use stored::TEMPLATE_GENERATION;

use crate::{resource, service};

/// Prepares an object about to be created; its system metadata (name, uid, creation time) is set.
pub fn prepare_create(group: &str, kind: &str, object: &mut Value) {
    let resource = resource::find_kind(group, kind);
    if resource.is_some_and(|r| r.has_generation) {
        object.set(&["metadata", "generation"], 1);
    } else {
        object.remove_at(&["metadata", "generation"]);
    }
    if let Some(status) = initial_status(group, kind) {
        object.set(&["status"], status);
    }
    disabled::drop_fields(group, kind, object, None);
    let created = object.at(&["metadata", "creationTimestamp"]).cloned().unwrap_or_default();
    match (group, kind) {
        ("", "Namespace") => stored::add_namespace_finalizer(object),
        ("", "PersistentVolume") => object.set(&["status", "lastPhaseTransitionTime"], created),
        ("", "PersistentVolumeClaim") => stored::agree_on_data_source(object, None),
        ("", "Pod") => pod::prepare_create(object),
        ("", "Service") => {
            service::drop_internal_policy(object);
            service::agree(object, None);
        }
        ("", "ServiceAccount") => stored::keep_secret_names(object),
        ("apiextensions.k8s.io", _) => stored::record_stored_version(object),
        ("apiregistration.k8s.io", _) => stored::mark_local_service(object, created),
        ("apps", "DaemonSet") => stored::start_template_generation(object),
        ("batch", "Job") => stored::generate_selector(object),
        ("resource.k8s.io", "ResourceSlice") => stored::date_device_taints(object, &created),
        _ => {}
    }
}

/// Prepares an update; `subresource` is empty for the object itself. Metadata the server owns (uid,
/// creation and deletion time) has already been taken over from `old`.
pub fn prepare_update(
    group: &str,
    kind: &str,
    subresource: &str,
    new: &mut Value,
    old: &Value,
    now: Timestamp,
) {
    copy(new, old, &["metadata", "generation"]);
    match subresource {
        "" => prepare_main(group, kind, new, old),
        "status" => prepare_status(group, kind, new, old, now),
        "approval" => certificate::prepare_approval(new, old, now),
        "finalize" => copy(new, old, &["status"]),
        "ephemeralcontainers" => pod::keep_ephemeral_containers(new, old),
        "resize" => pod::keep_resize(new, old),
        _ => {}
    }
    count_generation(group, kind, subresource, new, old);
}

fn prepare_main(group: &str, kind: &str, new: &mut Value, old: &Value) {
    if resource::find_kind(group, kind).is_some_and(|r| r.has_status()) {
        copy(new, old, &["status"]);
    }
    disabled::drop_fields(group, kind, new, Some(old));
    match (group, kind) {
        ("", "Namespace") => copy(new, old, &["spec", "finalizers"]),
        ("", "PersistentVolumeClaim") => stored::agree_on_data_source(new, Some(old)),
        ("", "Service") => {
            service::agree(new, Some(old));
            service::drop_type_dependent_fields(new, old);
        }
        ("", "ServiceAccount") => stored::keep_secret_names(new),
        ("apiextensions.k8s.io", _) => stored::record_stored_version(new),
        ("apps", "DaemonSet") => stored::count_template_generation(new, old),
        ("certificates.k8s.io", _) => copy(new, old, &["spec"]),
        _ => {}
    }
}

/// A status write changes the status and, for some kinds, labels and the like; never the spec.
fn prepare_status(group: &str, kind: &str, new: &mut Value, old: &Value, now: Timestamp) {
    copy(new, old, &["spec"]);
    for field in kept_metadata(group, kind) {
        copy(new, old, &["metadata", field]);
    }
    disabled::drop_fields(group, kind, new, Some(old));
    match (group, kind) {
        ("", "PersistentVolume") => stored::date_phase(new, old, now),
        ("", "Pod") => pod::prepare_status(new, old),
        ("certificates.k8s.io", _) => certificate::prepare_status(new, old, now),
        _ => {}
    }
}

/// The metadata a status write cannot change.
fn kept_metadata(group: &str, kind: &str) -> &'static [&'static str] {
    const ALL: &[&str] = &["labels", "annotations", "finalizers", "ownerReferences"];
    match (group, kind) {
        ("apps", "Deployment") => &["labels"],
        ("", "Pod") => &["ownerReferences"],
        ("apiregistration.k8s.io", _)
        | ("flowcontrol.apiserver.k8s.io", _)
        | ("networking.k8s.io", "ServiceCIDR")
        | ("resource.k8s.io", "ResourceClaim")
        | ("storage.k8s.io", "VolumeAttachment")
        | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => ALL,
        _ => &[],
    }
}

/// The status every new object of a kind starts with; a status sent along is ignored.
fn initial_status(group: &str, kind: &str) -> Option<Value> {
    let status = match (group, kind) {
        ("", "Namespace") => json!({"phase": "Active"}),
        ("", "PersistentVolume") => json!({"phase": "Pending"}),
        // Compat: a claim is stored without a phase and completed whenever it is read.
        ("", "PersistentVolumeClaim") => json!({}),
        // Nodes may register together with their status.
        ("", "Node") => return None,
        ("", "ReplicationController") | ("apps", "ReplicaSet") => json!({"replicas": 0}),
        ("", "Service") | ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        ("apiextensions.k8s.io", _) => {
            json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null})
        }
        ("apps", "DaemonSet") => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0,
            "numberMisscheduled": 0, "numberReady": 0,
        }),
        ("apps", "StatefulSet") => json!({"availableReplicas": 0, "replicas": 0}),
        ("autoscaling", _) => json!({"currentMetrics": null, "desiredReplicas": 0}),
        ("policy", _) => json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }),
        ("storage.k8s.io", "VolumeAttachment") => json!({"attached": false}),
        _ if resource::find_kind(group, kind)?.has_status() => json!({}),
        _ => return None,
    };
    Some(status)
}

/// Raises the generation when the wanted state differs.
fn count_generation(group: &str, kind: &str, subresource: &str, new: &mut Value, old: &Value) {
    if matches!(subresource, "status" | "approval" | "finalize") {
        return;
    }
    let differs = |path: &[&str]| new.at(path) != old.at(path);
    let changed = match (group, kind) {
        // Compat: a change of annotations counts too; the rollout tools rely on it.
        ("apps", "Deployment") => differs(&["spec"]) || differs(&["metadata", "annotations"]),
        ("", "PodTemplate") => differs(&["template"]),
        ("discovery.k8s.io", _) => {
            ["addressType", "endpoints", "ports"].iter().any(|field| differs(&[*field]))
                || differs(&["metadata", "labels"])
        }
        ("scheduling.k8s.io", _) => false,
        (_, "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            differs(&["webhooks"])
        }
        // Compat: drivers start without a generation and get one with their first change.
        ("storage.k8s.io", "CSIDriver") => differs(&["spec"]),
        _ => {
            resource::find_kind(group, kind).is_some_and(|r| r.has_generation) && differs(&["spec"])
        }
    };
    if changed {
        let generation = old.i64_at(&["metadata", "generation"]).unwrap_or_default();
        new.set(&["metadata", "generation"], generation.saturating_add(1));
    }
}

/// Makes `new` say at `path` what `old` says there.
fn copy(new: &mut Value, old: &Value, path: &[&str]) {
    match old.at(path) {
        // Most writers send back what they do not change, and comparing is cheaper than copying.
        said if said == new.at(path) => {}
        Some(value) => new.set(path, value.clone()),
        None => {
            new.remove_at(path);
        }
    }
}

//! What a template loses and gains on its way into a Work: fields that belong to the control plane are
//! removed, and the keys Karmada put there are recorded so that they can be taken back later.

use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Map, Value};

use crate::{annotations, labels};

/// Metadata that describes the object in the control plane, not in a member.
const LOCAL_METADATA: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "ownerReferences",
    "finalizers",
];

const CONTROLLER_UIDS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const JOB_NAMES: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

/// Removes what a member must not receive.
///
/// Compat: kinds are told by name alone, so kinds of other groups with the same name are treated alike.
pub fn prune(manifest: &mut Value) {
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| !LOCAL_METADATA.contains(&key.as_str()));
    }
    manifest.remove_at(&["status"]);
    match manifest.kind() {
        "Deployment" => remove_annotations(
            manifest,
            &["deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"],
        ),
        "Job" => prune_job(manifest),
        "Secret" => prune_token(manifest),
        "ServiceAccount" => prune_service_account(manifest),
        "Service" => prune_service(manifest),
        "PersistentVolumeClaim" => {
            remove_annotations(manifest, &["volume.kubernetes.io/selected-node"]);
        }
        _ => {}
    }
}

fn remove_annotations(manifest: &mut Value, keys: &[&str]) {
    remove_keys(manifest, &["metadata", "annotations"], keys);
}

/// Removes entries of a map; a map with nothing left stays, as the original leaves it.
fn remove_keys(manifest: &mut Value, path: &[&str], keys: &[&str]) {
    if let Some(map) = manifest.at_mut(path).and_then(Value::as_object_mut) {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

fn prune_job(manifest: &mut Value) {
    manifest.remove_at(&["spec", "ttlSecondsAfterFinished"]);
    if manifest.bool_at(&["spec", "manualSelector"]) == Some(true) {
        return;
    }
    remove_keys(manifest, &["spec", "selector", "matchLabels"], &CONTROLLER_UIDS);
    let template = &["spec", "template", "metadata", "labels"];
    remove_keys(manifest, template, &CONTROLLER_UIDS);
    remove_keys(manifest, template, &JOB_NAMES);
}

fn prune_token(manifest: &mut Value) {
    if manifest.str_at(&["type"]) == Some("kubernetes.io/service-account-token") {
        remove_annotations(manifest, &["kubernetes.io/service-account.uid"]);
        manifest.set(&["data"], Value::Null);
    }
}

fn prune_service_account(manifest: &mut Value) {
    let prefix = format!("{}-token-", manifest.name());
    let is_token =
        |secret: &Value| secret.str_at(&["name"]).is_some_and(|name| name.starts_with(&prefix));
    if let Some(secrets) = manifest.get_mut("secrets").and_then(Value::as_array_mut) {
        secrets.retain(|secret| !is_token(secret));
    }
}

fn prune_service(manifest: &mut Value) {
    if manifest.str_at(&["spec", "clusterIP"]).is_some_and(|address| address != "None") {
        manifest.remove_at(&["spec", "clusterIP"]);
        manifest.remove_at(&["spec", "clusterIPs"]);
    }
}

/// Records which annotations and labels are Karmada's, and marks the manifest with the id of its Work.
pub fn stamp(manifest: &mut Value, work_permanent_id: Option<&str>) {
    let annotations = manifest.map_at_mut(&["metadata", "annotations"]);
    for key in [annotations::MANAGED_ANNOTATIONS, annotations::MANAGED_LABELS] {
        annotations.entry(key).or_insert_with(|| Value::from(""));
    }
    let recorded = keys(annotations);
    annotations.insert(annotations::MANAGED_ANNOTATIONS.to_owned(), recorded.into());
    if let Some(id) = work_permanent_id {
        manifest.set(&["metadata", "labels", labels::WORK_PERMANENT_ID], id);
    }
    let recorded = manifest.map_at(&["metadata", "labels"]).map(keys).unwrap_or_default();
    manifest.set(&["metadata", "annotations", annotations::MANAGED_LABELS], recorded);
}

/// The keys of a map, sorted and joined by commas.
fn keys(map: &Map) -> String {
    map.keys().map(|it| it.as_str()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    #[test]
    fn members_receive_only_what_the_user_wrote() {
        let cases = [
            (
                json!({"kind": "Deployment", "metadata": {"name": "a", "uid": "u", "generation": 2,
                       "annotations": {"deployment.kubernetes.io/revision": "1"}}, "status": {"replicas": 1}}),
                json!({"kind": "Deployment", "metadata": {"name": "a", "annotations": {}}}),
            ),
            (
                json!({"kind": "Job", "spec": {"ttlSecondsAfterFinished": 5,
                       "selector": {"matchLabels": {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"}},
                       "template": {"metadata": {"labels": {"a": "b", "job-name": "j", "controller-uid": "u"}}}}}),
                json!({"kind": "Job", "spec": {"selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {"a": "b"}}}}}),
            ),
            (
                json!({"kind": "Service", "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "type": "ClusterIP"}}),
                json!({"kind": "Service", "spec": {"type": "ClusterIP"}}),
            ),
            (
                json!({"kind": "Service", "spec": {"clusterIP": "None"}}),
                json!({"kind": "Service", "spec": {"clusterIP": "None"}}),
            ),
            (
                json!({"kind": "ServiceAccount", "metadata": {"name": "sa"},
                       "secrets": [{"name": "sa-token-a"}, {"name": "sa-token-b"}, {"name": "own"}]}),
                json!({"kind": "ServiceAccount", "metadata": {"name": "sa"}, "secrets": [{"name": "own"}]}),
            ),
            (
                json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {"token": "x"}}),
                json!({"kind": "Secret", "type": "kubernetes.io/service-account-token", "data": null}),
            ),
        ];
        for (mut manifest, expected) in cases {
            prune(&mut manifest);
            assert_eq!(manifest, expected);
        }
    }

    #[test]
    fn keys_of_karmada_are_recorded_once_and_for_all() {
        let mut manifest =
            json!({"metadata": {"name": "a", "annotations": {"z": "1"}, "labels": {"l": "1"}}});
        stamp(&mut manifest, Some("id"));
        let once = manifest.clone();
        stamp(&mut manifest, Some("id"));
        assert_eq!(manifest, once);
        assert_eq!(
            manifest.annotation(annotations::MANAGED_ANNOTATIONS),
            Some(
                "resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels,z"
            )
        );
        assert_eq!(
            manifest.annotation(annotations::MANAGED_LABELS),
            Some("l,work.karmada.io/permanent-id")
        );
    }
}

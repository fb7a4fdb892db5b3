//! Fields of features that are off in Kubernetes 1.36: they are known, and dropped from what is
//! written unless the stored object already uses them.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};

/// A path in which `*` stands for every element of a list.
type Pattern = &'static [&'static str];

static FIELDS: &[(&str, &str, Pattern)] = &[
    ("", "Node", &["spec", "configSource"]),
    ("", "Node", &["status", "config"]),
    ("", "Pod", &["status", "nodeAllocatableResourceClaimStatuses"]),
    ("", "Pod", &["status", "containerStatuses", "*", "volumeMounts", "*", "volumeStatus"]),
    ("", "Pod", &["status", "initContainerStatuses", "*", "volumeMounts", "*", "volumeStatus"]),
    (
        "",
        "Pod",
        &["status", "ephemeralContainerStatuses", "*", "volumeMounts", "*", "volumeStatus"],
    ),
    ("apps", "StatefulSet", &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]),
    ("coordination.k8s.io", "Lease", &["spec", "strategy"]),
    ("coordination.k8s.io", "Lease", &["spec", "preferredHolder"]),
    (
        "resource.k8s.io",
        "ResourceSlice",
        &["spec", "devices", "*", "nodeAllocatableResourceMappings"],
    ),
    ("storage.k8s.io", "CSIDriver", &["spec", "preventPodSchedulingIfMissing"]),
];

/// Such fields of pods, wherever a pod spec stands.
static POD_FIELDS: &[Pattern] = &[
    &["schedulingGroup"],
    &["volumes", "*", "projected", "sources", "*", "clusterTrustBundle"],
    &["volumes", "*", "projected", "sources", "*", "podCertificate"],
];

/// Drops the fields of disabled features.
pub(super) fn drop_fields(group: &str, kind: &str, new: &mut Value, old: Option<&Value>) {
    for (_, _, pattern) in FIELDS.iter().filter(|row| (row.0, row.1) == (group, kind)) {
        drop_unused(new, old, pattern);
    }
    if let Some(place) = pod_spec(group, kind) {
        let old = old.and_then(|old| old.at(place));
        if let Some(spec) = new.at_mut(place) {
            for pattern in POD_FIELDS {
                drop_unused(spec, old, pattern);
            }
            drop_stop_signals(spec, old);
        }
    }
    if (group, kind) == ("", "PersistentVolumeClaim") {
        drop_foreign_source(new, old);
    }
}

/// Where a kind keeps the spec of the pods it makes.
fn pod_spec(group: &str, kind: &str) -> Option<&'static [&'static str]> {
    match (group, kind) {
        ("", "Pod") => Some(&["spec"]),
        ("", "PodTemplate") => Some(&["template", "spec"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        ("", "ReplicationController") | ("apps" | "batch", _) => {
            Some(&["spec", "template", "spec"])
        }
        _ => None,
    }
}

/// A lifecycle that only named a signal goes with it.
fn drop_stop_signals(spec: &mut Value, old: Option<&Value>) {
    const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
    let is_signalled =
        |list: &&str| old.is_some_and(|old| is_used(old, &[list, "*", "lifecycle", "stopSignal"]));
    if LISTS.iter().any(is_signalled) {
        return;
    }
    for list in LISTS {
        for container in spec.list_at_mut(&[list]) {
            let dropped = container.remove_at(&["lifecycle", "stopSignal"]).is_some();
            if dropped && container.map_at(&["lifecycle"]).is_some_and(|left| left.is_empty()) {
                container.remove_at(&["lifecycle"]);
            }
        }
    }
}

/// Content from another namespace is not taken; the whole reference goes.
fn drop_foreign_source(new: &mut Value, old: Option<&Value>) {
    const REFERENCE: &[&str] = &["spec", "dataSourceRef"];
    let is_foreign =
        new.str_at(&["spec", "dataSourceRef", "namespace"]).is_some_and(|name| !name.is_empty());
    if is_foreign && old.is_none_or(|old| old.map_at(REFERENCE).is_none()) {
        new.remove_at(REFERENCE);
    }
}

fn drop_unused(new: &mut Value, old: Option<&Value>, pattern: &[&str]) {
    if !old.is_some_and(|old| is_used(old, pattern)) {
        remove(new, pattern);
    }
}

fn is_used(value: &Value, pattern: &[&str]) -> bool {
    match pattern {
        [] => !value.is_null(),
        ["*", rest @ ..] => value.as_array().into_iter().flatten().any(|item| is_used(item, rest)),
        [step, rest @ ..] => value.get(*step).is_some_and(|value| is_used(value, rest)),
    }
}

fn remove(value: &mut Value, pattern: &[&str]) {
    match pattern {
        [] => {}
        ["*", rest @ ..] => {
            for item in value.as_array_mut().into_iter().flatten() {
                remove(item, rest);
            }
        }
        [last] => {
            value.remove_at(&[last]);
        }
        [step, rest @ ..] => {
            if let Some(value) = value.get_mut(*step) {
                remove(value, rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_in_use() {
        let lease = json!({"spec": {"strategy": "x", "holderIdentity": "h"}});
        let mut new = lease.clone();
        drop_fields("coordination.k8s.io", "Lease", &mut new, None);
        assert_eq!(new, json!({"spec": {"holderIdentity": "h"}}));
        let mut kept = lease.clone();
        drop_fields("coordination.k8s.io", "Lease", &mut kept, Some(&lease));
        assert_eq!(kept, lease);
    }

    #[test]
    fn pod_fields_are_dropped_in_templates_too() {
        let spec = json!({"containers": [{"lifecycle": {"stopSignal": "SIGTERM"}}]});
        let mut job = json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}});
        drop_fields("batch", "CronJob", &mut job, None);
        let left = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(*left, json!({}));
    }

    #[test]
    fn claims_take_nothing_from_other_namespaces() {
        let mut claim = json!({"spec": {"dataSourceRef": {"kind": "X", "namespace": "n"}}});
        drop_fields("", "PersistentVolumeClaim", &mut claim, None);
        assert_eq!(claim, json!({"spec": {}}));
    }
}

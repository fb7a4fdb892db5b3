//! What makes a pod the one of its ordinal: its name, labels, host name and claims.

use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::Object;

use crate::workloads::ownership::controller_reference;
use crate::workloads::pods::from_template;
use crate::workloads::revision::REVISION_HASH;

/// The ordinal in the name of a pod of this set.
pub(super) fn ordinal_of(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

pub(super) fn render_pod(
    set: &Object,
    value: &Value,
    ordinal: i64,
    template: &Value,
    revision: &str,
) -> Value {
    let name = format!("{}-{ordinal}", set.name());
    let mut pod = from_template(template, set);
    pod.remove_at(&["metadata", "generateName"]);
    pod.set(&["metadata", "name"], name.as_str());
    pod.set(&["metadata", "labels", REVISION_HASH], revision);
    pod.set(&["metadata", "labels", "statefulset.kubernetes.io/pod-name"], name.as_str());
    pod.set(&["metadata", "labels", "apps.kubernetes.io/pod-index"], ordinal.to_string());
    pod.set(&["spec", "hostname"], name.as_str());
    pod.set(&["spec", "subdomain"], value.str_at(&["spec", "serviceName"]).unwrap_or_default());
    let templates = value.list_at(&["spec", "volumeClaimTemplates"]);
    if templates.is_empty() {
        return pod;
    }
    let claimed =
        |volume: &Value| templates.iter().any(|claim| claim.name() == volume_name(volume));
    let mut volumes: Vec<_> = pod.list_at(&["spec", "volumes"]).to_vec();
    volumes.retain(|volume| !claimed(volume));
    for claim in templates {
        let claim_name = claim_name(set, claim, ordinal);
        volumes.push(json!({"name": claim.name(),
            "persistentVolumeClaim": {"claimName": claim_name}}));
    }
    pod.set(&["spec", "volumes"], volumes);
    pod
}

fn volume_name(volume: &Value) -> &str {
    volume.str_at(&["name"]).unwrap_or_default()
}

fn claim_name(set: &Object, template: &Value, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", template.name(), set.name())
}

/// The claims of an ordinal.
pub(super) fn claims_of(set: &Object, value: &Value, ordinal: i64) -> Vec<Value> {
    let retention = ["spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted"];
    let goes_with_set = value.str_at(&retention) == Some("Delete");
    let claim = |template: &Value| {
        let mut claim = template.clone();
        claim.remove_at(&["status"]);
        claim.remove_at(&["metadata", "creationTimestamp"]);
        claim.set(&["apiVersion"], "v1");
        claim.set(&["kind"], "PersistentVolumeClaim");
        claim.set(&["metadata", "name"], claim_name(set, template, ordinal));
        claim.set(&["metadata", "namespace"], set.namespace());
        let labels = value.map_at(&["spec", "selector", "matchLabels"]);
        for (key, label) in labels.into_iter().flatten() {
            claim.set(&["metadata", "labels", key], label.clone());
        }
        if goes_with_set {
            claim.set(&["metadata", "ownerReferences"], vec![controller_reference(set)]);
        }
        claim
    };
    value.list_at(&["spec", "volumeClaimTemplates"]).iter().map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_read_from_names() {
        let cases = [("web-0", Some(0)), ("web-12", Some(12)), ("web-x", None), ("webb-1", None)];
        for (name, expected) in cases {
            assert_eq!(ordinal_of("web", name), expected, "{name}");
        }
        assert_eq!(ordinal_of("web", "web-+1"), None);
    }

    #[test]
    fn a_pod_mounts_the_claims_of_its_ordinal() {
        let value = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "web", "namespace": "x", "uid": "u"},
            "spec": {"serviceName": "svc", "selector": {"matchLabels": {"a": "b"}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"x": 1}}]}});
        let set = Object::from_value(&value).unwrap();
        let template = json!({"spec": {"volumes": [{"name": "data"}, {"name": "other"}]}});
        let pod = render_pod(&set, &value, 2, &template, "web-abc");
        assert_eq!(pod.name(), "web-2");
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "2");
        assert_eq!(pod["spec"]["hostname"], "web-2");
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{"name": "other"},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-2"}}])
        );
        let claims = claims_of(&set, &value, 2);
        assert_eq!(claims[0].name(), "data-web-2");
        assert_eq!(claims[0]["metadata"]["labels"], json!({"a": "b"}));
    }
}

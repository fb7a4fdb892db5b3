use karmada_apimachinery::{Value, json};

use super::*;

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
}

#[test]
fn a_pod_acts_as_the_default_account() {
    let mut pod = pod(json!({"containers": [{"name": "c"}]}));
    let account = json!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "s"}]});
    service_account(&mut pod, Some(&account), "abcde").expect("the account exists");
    let spec = &pod["spec"];
    assert_eq!(spec["serviceAccountName"], "default");
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["name"], "kube-api-access-abcde");
    assert_eq!(
        spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"],
        json!({"expirationSeconds": 3607, "path": "token"})
    );
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "s"}]));
    let once = pod.clone();
    service_account(&mut pod, Some(&account), "zzzzz").expect("the account exists");
    assert_eq!(pod, once);
}

#[test]
fn accounts_that_are_missing_or_keep_their_token_are_respected() {
    let mut lost = pod(json!({"serviceAccountName": "robot"}));
    assert_eq!(
        service_account(&mut lost, None, "abcde"),
        Err("error looking up service account n/robot: serviceaccount \"robot\" not found".into())
    );
    let mut quiet = pod(json!({"containers": [{}]}));
    let account = json!({"automountServiceAccountToken": false});
    service_account(&mut quiet, Some(&account), "abcde").expect("the account exists");
    assert_eq!(quiet["spec"].get("volumes"), None);
}

#[test]
fn tolerations_are_added_unless_given() {
    let cases = [
        (json!([]), 2),
        (json!([{"operator": "Exists"}]), 1),
        (json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]), 2),
        (json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), 3),
    ];
    for (given, count) in cases {
        let mut pod = pod(json!({"tolerations": given}));
        default_tolerations(&mut pod);
        assert_eq!(pod.list_at(&["spec", "tolerations"]).len(), count, "{given}");
    }
}

#[test]
fn priority_comes_from_the_class() {
    let class = json!({"metadata": {"name": "high"}, "value": 7, "preemptionPolicy": "Never"});
    let mut named = pod(json!({"priorityClassName": "high"}));
    priority(&mut named, Some(&class)).expect("the class exists");
    assert_eq!(named["spec"]["priority"], 7);
    assert_eq!(named["spec"]["preemptionPolicy"], "Never");
    let mut plain = pod(json!({}));
    priority(&mut plain, None).expect("no class is needed");
    assert_eq!(plain["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let mut unknown = pod(json!({"priorityClassName": "nope"}));
    assert_eq!(
        priority(&mut unknown, None),
        Err("no PriorityClass with name nope was found".into())
    );
    let mut forged = pod(json!({"priority": 9}));
    assert!(priority(&mut forged, None).is_err());
}

#[test]
fn nodes_and_volumes_are_protected_once() {
    let mut node = json!({});
    taint_new_node(&mut node);
    taint_new_node(&mut node);
    assert_eq!(node.list_at(&["spec", "taints"]).len(), 1);
    let mut claim = json!({});
    protect_storage("PersistentVolumeClaim", &mut claim);
    protect_storage("PersistentVolumeClaim", &mut claim);
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
}

#[test]
fn the_newest_default_class_is_taken() {
    let class = |name: &str, created: &str, default: &str| {
        json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {
            "storageclass.kubernetes.io/is-default-class": default,
        }}})
    };
    let classes = [
        class("old", "2020-01-01T00:00:00Z", "true"),
        class("new", "2021-01-01T00:00:00Z", "true"),
        class("other", "2022-01-01T00:00:00Z", "false"),
    ];
    let mut claim = json!({"spec": {}});
    default_class("PersistentVolumeClaim", &mut claim, &classes);
    assert_eq!(claim["spec"]["storageClassName"], "new");
    let mut unclassed = json!({"spec": {"storageClassName": ""}});
    default_class("PersistentVolumeClaim", &mut unclassed, &classes);
    assert_eq!(unclassed["spec"]["storageClassName"], "");
}

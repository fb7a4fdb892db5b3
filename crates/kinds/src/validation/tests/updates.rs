use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::{Value, json};

use super::super::validate_update;
use super::{container, pod, prepared, with, workload};

/// Asserts what changing one field of a stored object is refused with.
#[track_caller]
fn check(
    (group, kind, subresource): (&str, &str, &str),
    stored: Value,
    path: &[&str],
    value: Value,
    expected: &[&str],
) {
    let old = prepared(group, kind, stored);
    let mut new = old.clone();
    new.set(path, value);
    let errors: Vec<String> = validate_update(group, kind, subresource, &new, &old)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(errors, expected, "{kind} {path:?}");
}

#[test]
fn pods_change_only_images_deadlines_and_tolerations() {
    let kind = ("", "Pod", "");
    let image = json!([with(
        container(),
        json!({"image": "other", "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": {}})
    )]);
    check(kind, pod(json!({})), &["spec", "containers"], image, &[]);
    check(kind, pod(json!({})), &["spec", "activeDeadlineSeconds"], json!(5), &[]);
    check(
        kind,
        pod(json!({"activeDeadlineSeconds": 5})),
        &["spec", "activeDeadlineSeconds"],
        json!(6),
        &[
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
        ],
    );
    check(
        kind,
        pod(json!({"schedulingGates": [{"name": "g"}]})),
        &["spec", "nodeSelector"],
        json!({"a": "b"}),
        &[],
    );
    check(
        kind,
        pod(json!({"tolerations": [{"key": "k", "operator": "Exists"}]})),
        &["spec", "tolerations"],
        json!([]),
        &[
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ],
    );
    check(
        ("", "Pod", "status"),
        pod(json!({})),
        &["status", "hostIPs"],
        json!([{"ip": "10.0.0.1"}]),
        &[r#"status.hostIPs[0].ip: Invalid value: "10.0.0.1": must be equal to `hostIP`"#],
    );
    check(
        ("", "Pod", "resize"),
        pod(json!({})),
        &["spec", "nodeName"],
        json!("n"),
        &["spec: Forbidden: only cpu and memory resources are mutable"],
    );
}

#[test]
fn ephemeral_containers_are_added_never_changed() {
    let ephemeral = |name: &str, image: &str| json!([{"name": name, "image": image, "imagePullPolicy": "Always", "terminationMessagePolicy": "File", "resources": {}}]);
    let kind = ("", "Pod", "ephemeralcontainers");
    check(kind, pod(json!({})), &["spec", "ephemeralContainers"], ephemeral("e", "i"), &[]);
    check(
        kind,
        pod(json!({"ephemeralContainers": ephemeral("e", "i")})),
        &["spec", "ephemeralContainers"],
        json!([]),
        &[
            "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n",
        ],
    );
}

#[test]
fn identity_and_selectors_stay() {
    check(
        ("apps", "Deployment", ""),
        workload(json!({})),
        &["spec", "selector"],
        json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        &[
            r#"spec.selector: Invalid value: {"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is immutable"#,
        ],
    );
    check(
        ("", "ConfigMap", ""),
        json!({}),
        &["metadata", "uid"],
        json!("other"),
        &[
            r#"metadata.uid: Invalid value: "other": field is immutable"#,
            r#"metadata.uid: Invalid value: "other": field is immutable"#,
        ],
    );
    check(
        ("", "Secret", ""),
        json!({}),
        &["type"],
        json!("other"),
        &[r#"type: Invalid value: "other": field is immutable"#],
    );
}

#[test]
fn suspended_jobs_may_move_their_pods() {
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container()]}});
    let path = ["spec", "template", "spec", "nodeSelector"];
    let selector = json!({"zone": "a"});
    check(
        ("batch", "Job", ""),
        json!({"spec": {"suspend": true, "template": template}}),
        &path,
        selector,
        &[],
    );
    check(
        ("batch", "Job", ""),
        json!({"spec": {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template}}),
        &["spec", "completions"],
        json!(3),
        &[
            "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism",
        ],
    );
    check(
        ("batch", "Job", "status"),
        json!({"spec": {"template": template}}),
        &["status", "conditions"],
        json!([{"type": "Complete", "status": "True"}]),
        &[
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.startTime: Required value: startTime is required for finished job",
        ],
    );
}

#[test]
fn status_counts_are_plausible() {
    check(
        ("apps", "Deployment", "status"),
        workload(json!({})),
        &["status", "readyReplicas"],
        json!(2),
        &["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
    );
    check(
        ("apps", "StatefulSet", "status"),
        workload(json!({})),
        &["status", "replicas"],
        json!(-1),
        &[
            "status.replicas: Invalid value: -1: must be greater than or equal to 0",
            "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
            "status.currentReplicas: Invalid value: 0: cannot be greater than status.replicas",
            "status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
        ],
    );
    check(
        ("", "Namespace", "status"),
        json!({}),
        &["status", "phase"],
        json!("Terminating"),
        &[
            r#"status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#,
        ],
    );
}

#[test]
fn signing_requests_are_approved_only_through_their_subresource() {
    let pem = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
    let request =
        json!({"spec": {"request": pem, "signerName": "example.com/s", "usages": ["any"]}});
    let group = "certificates.k8s.io";
    let kind = "CertificateSigningRequest";
    let approved = json!([{"type": "Approved", "status": "True"}]);
    let path = ["status", "conditions"];
    check((group, kind, "approval"), request.clone(), &path, approved.clone(), &[]);
    check(
        (group, kind, "status"),
        request,
        &path,
        approved,
        &[r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#],
    );
}

#[test]
fn classes_stay_valid_when_they_change() {
    check(
        ("storage.k8s.io", "StorageClass", ""),
        json!({"provisioner": "p"}),
        &["provisioner"],
        json!(""),
        &["provisioner: Required value", r#"provisioner: Invalid value: "": field is immutable"#],
    );
    check(
        ("node.k8s.io", "RuntimeClass", ""),
        json!({"handler": "h"}),
        &["handler"],
        json!(""),
        &["handler: Required value", r#"handler: Invalid value: "": field is immutable"#],
    );
}

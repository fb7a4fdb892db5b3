use jiff::Timestamp;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};

use super::*;

fn created(group: &str, kind: &str, mut object: Value) -> Value {
    prepare_create(group, kind, &mut object);
    object
}

fn updated(group: &str, kind: &str, subresource: &str, old: &Value, mut new: Value) -> Value {
    let now = Timestamp::from_second(1_000_000).expect("in range");
    prepare_update(group, kind, subresource, &mut new, old, now);
    new
}

#[test]
fn status_sent_with_a_new_object_is_ignored() {
    let object = created("apps", "StatefulSet", json!({"status": {"replicas": 7}}));
    assert_eq!(object["status"], json!({"availableReplicas": 0, "replicas": 0}));
    assert_eq!(object["metadata"]["generation"], 1);
    let node = created("", "Node", json!({"status": {"capacity": {"cpu": "1"}}}));
    assert_eq!(node["status"]["capacity"]["cpu"], "1");
    let map = created("", "ConfigMap", json!({"metadata": {"generation": 4}}));
    assert_eq!(map.at(&["metadata", "generation"]), None);
}

#[test]
fn generation_follows_the_wanted_state() {
    let old = json!({
        "metadata": {"generation": 3, "labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"s": 1},
    });
    let mut relabelled = old.clone();
    relabelled.set(&["metadata", "labels", "a"], "c");
    let mut annotated = old.clone();
    annotated.set(&["metadata", "annotations", "a"], "c");
    let mut respecified = old.clone();
    respecified.set(&["spec", "x"], 2);
    respecified.set(&["metadata", "generation"], 99);
    respecified.set(&["status", "s"], 2);
    let cases = [
        ("apps", "Deployment", "", &relabelled, 3),
        ("apps", "Deployment", "", &annotated, 4),
        ("apps", "ReplicaSet", "", &annotated, 3),
        ("apps", "ReplicaSet", "", &respecified, 4),
        ("apps", "ReplicaSet", "status", &respecified, 3),
        ("discovery.k8s.io", "EndpointSlice", "", &relabelled, 4),
        ("scheduling.k8s.io", "PriorityClass", "", &respecified, 3),
    ];
    for (group, kind, subresource, new, generation) in cases {
        let new = updated(group, kind, subresource, &old, new.clone());
        assert_eq!(new["metadata"]["generation"], generation, "{kind} {subresource}");
    }
}

#[test]
fn spec_and_status_are_written_apart() {
    let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"s": 1}});
    let new = json!({"metadata": {"labels": {"a": "c"}}, "spec": {"x": 2}, "status": {"s": 2}});
    let main = updated("apps", "Deployment", "", &old, new.clone());
    assert_eq!((&main["spec"]["x"], &main["status"]["s"]), (&json!(2), &json!(1)));
    let status = updated("apps", "Deployment", "status", &old, new.clone());
    assert_eq!((&status["spec"]["x"], &status["status"]["s"]), (&json!(1), &json!(2)));
    assert_eq!(status["metadata"]["labels"]["a"], "b");
    let status = updated("apps", "ReplicaSet", "status", &old, new);
    assert_eq!(status["metadata"]["labels"]["a"], "c");
}

#[test]
fn a_job_selects_its_pods_by_its_uid() {
    let job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {}}});
    let job = created("batch", "Job", job);
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
        "controller-uid": "u", "job-name": "j",
    });
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(job["metadata"].get("labels"), None, "they come when it is read");
    let mut labelled = json!({"metadata": {"name": "j", "uid": "u"}});
    labelled["spec"]["template"]["metadata"]["labels"]["a"] = "b".into();
    let labelled = created("batch", "Job", labelled);
    assert_eq!(labelled["metadata"]["labels"], labelled["spec"]["template"]["metadata"]["labels"]);
    assert_eq!(labelled["metadata"]["labels"]["job-name"], "j");
    let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
    assert_eq!(job["spec"]["selector"], selector);
    let manual = created("batch", "Job", json!({"spec": {"manualSelector": true}}));
    assert_eq!(manual["spec"], json!({"manualSelector": true}));
}

#[test]
fn quality_of_service_follows_cpu_and_memory() {
    let cases = [
        (json!([{}]), "BestEffort"),
        (json!([{"resources": {"requests": {"example.com/gpu": "1"}}}]), "BestEffort"),
        (json!([{"resources": {"requests": {"cpu": "1"}}}]), "Burstable"),
        (
            json!([{"resources": {
                "requests": {"cpu": "1", "memory": "1Gi"},
                "limits": {"cpu": "1000m", "memory": "1Gi"},
            }}]),
            "Guaranteed",
        ),
        (
            json!([
                {"resources": {
                    "requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"cpu": "1", "memory": "1Gi"},
                }},
                {},
            ]),
            "Burstable",
        ),
    ];
    for (containers, class) in cases {
        assert_eq!(qos_class(&json!({"spec": {"containers": containers}})), class, "{containers}");
    }
}

#[test]
fn namespaces_are_held_until_empty() {
    let namespace = created("", "Namespace", json!({"spec": {"finalizers": ["mine"]}}));
    assert_eq!(namespace["spec"]["finalizers"], json!(["mine", "kubernetes"]));
    let kept = updated("", "Namespace", "", &namespace, json!({"spec": {}}));
    assert_eq!(kept["spec"]["finalizers"], json!(["mine", "kubernetes"]));
}

#[test]
fn daemon_sets_count_changes_of_their_template() {
    let old = created("apps", "DaemonSet", json!({"spec": {"template": {"x": 1}}}));
    let count =
        |set: &Value| set.annotation("deprecated.daemonset.template.generation").map(str::to_owned);
    assert_eq!(count(&old).as_deref(), Some("1"));
    let same = updated("apps", "DaemonSet", "", &old, json!({"spec": old["spec"]}));
    assert_eq!(count(&same).as_deref(), Some("1"));
    let changed = updated("apps", "DaemonSet", "", &old, json!({"spec": {"template": {"x": 2}}}));
    assert_eq!(count(&changed).as_deref(), Some("2"));
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[test]
fn approval_and_certificate_do_not_touch_each_other() {
    let old = json!({"spec": {"r": 1}, "status": {"certificate": "c"}});
    let new = json!({"spec": {"r": 2}, "status": {
        "certificate": "other", "conditions": [{"type": "Approved", "status": "True"}],
    }});
    let kind = ("certificates.k8s.io", "CertificateSigningRequest");
    let approved = updated(kind.0, kind.1, "approval", &old, new);
    assert_eq!(approved["spec"]["r"], 1);
    assert_eq!(approved["status"]["certificate"], "c");
    let condition = &approved["status"]["conditions"][0];
    assert_eq!(condition["lastUpdateTime"], "1970-01-12T13:46:40Z");
    let forged = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "forged"},
    ]}});
    let kept = updated(kind.0, kind.1, "status", &approved, forged);
    assert_eq!(kept["status"]["conditions"][0], *condition);
}

#[test]
fn claims_name_their_source_in_both_forms() {
    let source = json!({"kind": "PersistentVolumeClaim", "name": "p"});
    let claim = created("", "PersistentVolumeClaim", json!({"spec": {"dataSource": source}}));
    assert_eq!(claim["spec"]["dataSourceRef"], source);
    let unknown = json!({"spec": {"dataSource": {"kind": "Other", "name": "p"}}});
    assert_eq!(created("", "PersistentVolumeClaim", unknown)["spec"], json!({}));
}

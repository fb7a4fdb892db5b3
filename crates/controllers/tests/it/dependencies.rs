//! What a workload needs goes where the workload goes, and leaves when it is no longer needed.

use karmada_api::{annotations, finalizers, labels};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

use crate::bare::Plane;

const POLICIES: &str = "propagationpolicies.policy.karmada.io";
const BINDINGS: &str = "resourcebindings.work.karmada.io";

fn deployment(name: &str, config_map: &str) -> Value {
    let labels = json!({"app": name});
    let volume = json!({"name": "c", "configMap": {"name": config_map}});
    json!({"metadata": {"name": name}, "spec": {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "containers": [{"name": "c", "image": "nginx"}], "volumes": [volume]}},
    }})
}

/// A plane with a ConfigMap, and a policy that sends Deployments with what they need.
async fn plane() -> Plane {
    let plane = Plane::start().await;
    plane.namespace("ns").await;
    plane
        .create("configmaps", "ns", json!({"metadata": {"name": "conf"}, "data": {"a": "1"}}))
        .await;
    let policy = json!({"metadata": {"name": "pp"}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        "propagateDeps": true,
    }});
    plane.create(POLICIES, "ns", policy).await;
    plane
}

/// Plays the scheduler.
async fn schedule(plane: &Plane, binding: &str, cluster: &str) {
    plane.eventually(BINDINGS, "ns", binding, |_| true).await;
    let patch = json!({"spec": {"clusters": [{"name": cluster, "replicas": 2}]}});
    plane.patch(BINDINGS, "ns", binding, patch).await;
}

fn required_by(binding: &Value) -> Vec<(&str, &str)> {
    let snapshots = binding.list_at(&["spec", "requiredBy"]).iter();
    snapshots
        .map(|snapshot| {
            let cluster = snapshot["clusters"][0]["name"].as_str().unwrap_or_default();
            (snapshot["name"].as_str().unwrap(), cluster)
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn dependencies_follow_the_schedule_and_their_own_changes() {
    let plane = plane().await;
    plane.create("deployments.apps", "ns", deployment("web", "conf")).await;
    schedule(&plane, "web-deployment", "m1").await;
    let attached = plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    assert_eq!(required_by(&attached), [("web-deployment", "m1")]);
    assert_eq!(attached["spec"]["preserveResourcesOnDeletion"], false);
    assert_eq!(attached["spec"]["conflictResolution"], "Abort");
    assert_eq!(attached["spec"].get("placement"), None);
    let web = plane.find(BINDINGS, "ns", "web-deployment").await.unwrap();
    assert_eq!(
        web.annotation(annotations::DEPENDENCIES),
        Some(r#"[{"apiVersion":"v1","kind":"ConfigMap","namespace":"ns","name":"conf"}]"#)
    );
    assert_eq!(
        web["metadata"]["finalizers"],
        json!([finalizers::BINDING, finalizers::DEPENDENCIES_DISTRIBUTOR])
    );
    let told = plane.events("ns", "web").await;
    let message = "Get dependencies([{APIVersion:v1 Kind:ConfigMap Namespace:ns Name:conf LabelSelector:nil}]) succeed.";
    assert!(told.contains(&("GetDependenciesSucceed".to_owned(), message.to_owned())), "{told:?}");
    schedule(&plane, "web-deployment", "m2").await;
    plane
        .eventually(BINDINGS, "ns", "conf-configmap", |b| {
            required_by(b) == [("web-deployment", "m2")]
        })
        .await;
    let edited = plane.patch("configmaps", "ns", "conf", json!({"data": {"a": "2"}})).await;
    let version = &edited["metadata"]["resourceVersion"];
    plane
        .eventually(BINDINGS, "ns", "conf-configmap", |b| {
            b["spec"]["resource"]["resourceVersion"] == *version
        })
        .await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_appears_later_is_sent_and_one_no_longer_named_is_let_go() {
    let plane = plane().await;
    plane.create("deployments.apps", "ns", deployment("web", "late")).await;
    schedule(&plane, "web-deployment", "m1").await;
    plane.settle().await;
    assert_eq!(plane.find(BINDINGS, "ns", "late-configmap").await, None);
    plane.create("configmaps", "ns", json!({"metadata": {"name": "late"}})).await;
    plane.eventually(BINDINGS, "ns", "late-configmap", |_| true).await;
    let volumes = json!([{"name": "c", "configMap": {"name": "conf"}}]);
    let patch = json!({"spec": {"template": {"spec": {"volumes": volumes}}}});
    plane.patch("deployments.apps", "ns", "web", patch).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| required_by(b).len() == 1).await;
    let left =
        plane.eventually(BINDINGS, "ns", "late-configmap", |b| required_by(b).is_empty()).await;
    let marks = left.map_at(&["metadata", "labels"]).unwrap();
    assert!(!marks.keys().any(|mark| mark.starts_with(labels::DEPENDED_BY_PREFIX)));
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shared_dependency_stays_until_the_last_workload_leaves() {
    let plane = plane().await;
    for name in ["one", "two"] {
        plane.create("deployments.apps", "ns", deployment(name, "conf")).await;
        schedule(&plane, &format!("{name}-deployment"), "m1").await;
    }
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| required_by(b).len() == 2).await;
    plane.delete("deployments.apps", "ns", "one").await;
    plane
        .eventually(BINDINGS, "ns", "conf-configmap", |b| {
            required_by(b) == [("two-deployment", "m1")]
        })
        .await;
    plane.patch(POLICIES, "ns", "pp", json!({"spec": {"propagateDeps": false}})).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| required_by(b).is_empty()).await;
    plane
        .eventually(BINDINGS, "ns", "two-deployment", |b| {
            b["metadata"]["finalizers"] == json!([finalizers::BINDING])
        })
        .await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dependencies_that_were_to_be_taken_back_are_after_a_restart() {
    let mut plane = plane().await;
    plane.create("deployments.apps", "ns", deployment("web", "conf")).await;
    schedule(&plane, "web-deployment", "m1").await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| required_by(b).len() == 1).await;
    plane.settle().await;
    plane.stop_controllers().await;
    plane.patch(BINDINGS, "ns", "web-deployment", json!({"spec": {"propagateDeps": false}})).await;
    plane.patch(POLICIES, "ns", "pp", json!({"spec": {"propagateDeps": false}})).await;
    plane.start_controllers();
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| required_by(b).is_empty()).await;
    plane
        .eventually(BINDINGS, "ns", "web-deployment", |b| {
            b["metadata"]["finalizers"] == json!([finalizers::BINDING])
        })
        .await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn requirers_that_disagree_are_told_what_about() {
    let plane = plane().await;
    let overwriting = json!({"metadata": {"name": "strong"}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "two"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        "propagateDeps": true, "conflictResolution": "Overwrite",
    }});
    plane.create(POLICIES, "ns", overwriting).await;
    for name in ["one", "two"] {
        plane.create("deployments.apps", "ns", deployment(name, "conf")).await;
        schedule(&plane, &format!("{name}-deployment"), "m1").await;
        plane.settle().await;
    }
    let told = plane.events("ns", "conf-configmap").await;
    let words =
        "Dependency policy conflict detected: ConflictResolution conflicted (Overwrite vs Abort).";
    let expected = ("DependencyPolicyConflict".to_owned(), words.to_owned());
    assert!(told.contains(&expected), "{told:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut plane = plane().await;
    plane.create("deployments.apps", "ns", deployment("web", "conf")).await;
    schedule(&plane, "web-deployment", "m1").await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.settle().await;
    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.start_controllers();
    plane.settle().await;
    assert_eq!(plane.revision().await, before);
    plane.stop().await;
}

//! From a scheduled binding to the members and back.

use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt;

use crate::plane::{BINDINGS, Plane, condition, config_map, deployment, eventually, is};

#[tokio::test(start_paused = true)]
async fn a_binding_reaches_its_clusters_and_their_state_comes_back() {
    let plane = Plane::start(&["m1", "m2"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create("deployments.v1.apps", "ns", deployment("web", 3)).await;
    let clusters = json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]);
    plane.bind(&template, clusters, json!({"replicas": 3})).await;
    let there = |replicas: i64| {
        move |object: Option<&karmada_apimachinery::Value>| {
            object.is_some_and(|object| object["spec"]["replicas"] == replicas)
        }
    };
    let copy = plane.eventually_member("m1", "deployments.v1.apps", "web", there(2)).await.unwrap();
    plane.eventually_member("m2", "deployments.v1.apps", "web", there(1)).await;
    assert_eq!(copy.label("karmada.io/managed"), Some("true"));
    let healthy = |work: &karmada_apimachinery::Value| {
        is(work, "Applied", "True") && work["status"]["manifestStatuses"][0]["health"] == "Healthy"
    };
    let work = plane.eventually_work("m1", healthy).await;
    assert_eq!(condition(&work, "Dispatching").unwrap()["reason"], "Dispatching");
    eventually("the binding and the template tell of three replicas", async || {
        let binding = plane.find(BINDINGS, "ns", "web-deployment").await.unwrap();
        let template = plane.find("deployments.v1.apps", "ns", "web").await.unwrap();
        is(&binding, "FullyApplied", "True") && template["status"]["readyReplicas"] == 3
    })
    .await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_nothing_changed_writes_nothing() {
    let mut plane = Plane::start(&["m1", "m2"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    for template in [
        plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await,
        plane.create("deployments.v1.apps", "ns", deployment("web", 1)).await,
    ] {
        let clusters = json!([{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}]);
        plane.bind(&template, clusters, json!({"replicas": 1})).await;
    }
    eventually("everything is applied", async || {
        let works = [plane.works("m1").await, plane.works("m2").await].concat();
        works.len() == 4 && works.iter().all(|work| is(work, "Applied", "True"))
    })
    .await;
    plane.settle().await;
    let before = plane.versions().await;
    plane.stop_controllers().await;
    plane.start_controllers();
    plane.settle().await;
    assert_eq!(plane.versions().await, before);
    plane.stop().await;
}

//! What was delivered reports, whether or not anything is delivered now.

use karmada_apimachinery::{Value, json};
use karmada_client::Patch;

use crate::plane::{BINDINGS, Plane, deployment, eventually, is};

const DEPLOYMENTS: &str = "deployments.v1.apps";

/// A plane with a Deployment that runs in its member, and the controllers stopped.
async fn stopped_plane_with_a_deployment() -> Plane {
    let mut plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create(DEPLOYMENTS, "ns", deployment("web", 2)).await;
    plane.bind(&template, json!([{"name": "m1", "replicas": 2}]), json!({"replicas": 2})).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "True") && runs(work, 2)).await;
    plane.settle().await;
    plane.stop_controllers().await;
    plane
}

fn runs(work: &Value, replicas: i64) -> bool {
    work["status"]["manifestStatuses"][0]["status"]["readyReplicas"] == replicas
}

/// Scales the Deployment in the member; nobody may bring it back.
async fn scale(plane: &Plane) {
    let copy = plane.member("m1", DEPLOYMENTS);
    copy.merge_patch("web", json!({"spec": {"replicas": 3}})).await.unwrap();
}

async fn reports_and_is_sent_nothing(plane: &Plane) {
    plane.settle().await;
    scale(plane).await;
    plane.eventually_work("m1", |work| runs(work, 3)).await;
    plane.settle().await;
    let copy = plane.member("m1", DEPLOYMENTS).get("web").await.unwrap();
    assert_eq!(copy["spec"]["replicas"], 3, "nothing is sent");
}

#[tokio::test(start_paused = true)]
async fn a_work_whose_dispatching_is_suspended_reports_also_after_a_restart() {
    let mut plane = stopped_plane_with_a_deployment().await;
    plane.start_controllers();
    let api = plane.api(BINDINGS).namespaced("ns");
    let suspended = json!({"spec": {"suspension": {"dispatching": true}}});
    api.merge_patch("web-deployment", suspended).await.unwrap();
    plane.eventually_work("m1", |work| is(work, "Dispatching", "False")).await;
    plane.stop_controllers().await;
    plane.start_controllers();
    reports_and_is_sent_nothing(&plane).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn works_report_where_nothing_is_delivered_at_all() {
    let mut plane = stopped_plane_with_a_deployment().await;
    plane.list.retain(|name| *name != "execution");
    plane.start_controllers();
    reports_and_is_sent_nothing(&plane).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_others_write_into_the_status_of_a_template_stays() {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create(DEPLOYMENTS, "ns", deployment("web", 2)).await;
    let api = plane.api(DEPLOYMENTS).namespaced("ns");
    let others = api.clone();
    *plane.meddling.lock().unwrap() = Some(Box::pin(async move {
        let condition = json!({"type": "Own", "status": "True", "reason": "Own", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        others.patch_subresource("web", "status", &patch, &Default::default()).await.unwrap();
    }));
    plane.bind(&template, json!([{"name": "m1", "replicas": 2}]), json!({"replicas": 2})).await;
    let runs = async || api.get("web").await.unwrap()["status"]["readyReplicas"] == 2;
    eventually("the template tells that it runs", runs).await;
    plane.settle().await;
    let status = api.get("web").await.unwrap()["status"].clone();
    assert_eq!(status["conditions"][0]["type"], "Own", "{status}");
    plane.stop().await;
}

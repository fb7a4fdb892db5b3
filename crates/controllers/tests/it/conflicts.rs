//! Objects that are in the member already, or are changed there by others.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::DeleteOptions;

use crate::plane::{Plane, condition, config_map, deployment, is};

const DEPLOYMENTS: &str = "deployments.v1.apps";

async fn plane_with_one_config_map(spec: Value) -> Plane {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let foreign = config_map("conf", json!({"old": "1"}));
    plane.member("m1", "configmaps").create(&foreign).await.unwrap();
    let template = plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await;
    plane.bind(&template, json!([{"name": "m1"}]), spec).await;
    plane
}

fn data_is(data: Value) -> impl Fn(Option<&Value>) -> bool {
    move |object| object.is_some_and(|object| object["data"] == data)
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_is_left_alone_and_the_reason_told() {
    let plane = plane_with_one_config_map(json!({})).await;
    let work = plane.eventually_work("m1", |work| is(work, "Applied", "False")).await;
    assert_eq!(
        condition(&work, "Applied").unwrap()["message"],
        "Failed to apply all manifests (0/1): resource(kind=ConfigMap, ns/conf) already exists in the cluster m1 and the work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource"
    );
    let foreign = plane.member("m1", "configmaps").get("conf").await.unwrap();
    assert_eq!(foreign["data"], json!({"old": "1"}));
    // The Work's end does not touch what is not ours either.
    plane.unbind("conf-configmap").await;
    plane.eventually_no_work("m1").await;
    assert_eq!(plane.member("m1", "configmaps").get("conf").await.unwrap(), foreign);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn overwriting_takes_a_foreign_object_over() {
    let plane = plane_with_one_config_map(json!({"conflictResolution": "Overwrite"})).await;
    plane.eventually_member("m1", "configmaps", "conf", data_is(json!({"a": "1"}))).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "True")).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_workload_is_adopted_without_a_restart() {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    plane.member("m1", DEPLOYMENTS).create(&deployment("web", 2)).await.unwrap();
    plane.settle().await;
    let before = plane.member("m1", DEPLOYMENTS).get("web").await.unwrap();
    let template = plane.create(DEPLOYMENTS, "ns", deployment("web", 2)).await;
    let spec = json!({"replicas": 2, "conflictResolution": "Overwrite"});
    plane.bind(&template, json!([{"name": "m1", "replicas": 2}]), spec).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "True")).await;
    let after = plane.member("m1", DEPLOYMENTS).get("web").await.unwrap();
    assert_eq!(after.label("karmada.io/managed"), Some("true"));
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after["spec"]["template"], before["spec"]["template"]);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_edited_or_deleted_in_the_member_comes_back() {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await;
    plane.bind(&template, json!([{"name": "m1"}]), json!({})).await;
    let wanted = || data_is(json!({"a": "1"}));
    plane.eventually_member("m1", "configmaps", "conf", wanted()).await;
    plane.settle().await;
    let member = plane.member("m1", "configmaps");
    let edit = json!({"data": {"a": "2", "z": "z"}, "metadata": {"labels": {"own": "1"}}});
    member.merge_patch("conf", edit).await.unwrap();
    let copy = plane.eventually_member("m1", "configmaps", "conf", wanted()).await.unwrap();
    // Labels of the member's own people stay.
    assert_eq!(copy.label("own"), Some("1"));
    member.delete("conf", &DeleteOptions::default()).await.unwrap();
    plane.eventually_member("m1", "configmaps", "conf", wanted()).await;
    plane.stop().await;
}

/// Quirk 5 of the register: matched.
#[tokio::test(start_paused = true)]
async fn an_object_that_loses_our_mark_is_no_longer_ours() {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await;
    plane.bind(&template, json!([{"name": "m1"}]), json!({})).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "True")).await;
    plane.settle().await;
    let unmark = json!({"metadata": {"labels": {"karmada.io/managed": null}}});
    plane.member("m1", "configmaps").merge_patch("conf", unmark).await.unwrap();
    let work = plane.eventually_work("m1", |work| is(work, "Applied", "False")).await;
    // What was last seen of it stays.
    assert_eq!(work["status"]["manifestStatuses"][0]["health"], "Healthy");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_that_the_member_decides_are_kept() {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let mut template = deployment("web", 1);
    template["metadata"]["labels"] = json!({"resourcetemplate.karmada.io/retain-replicas": "true"});
    let template = plane.create(DEPLOYMENTS, "ns", template).await;
    plane.bind(&template, json!([{"name": "m1", "replicas": 1}]), json!({"replicas": 1})).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "True")).await;
    plane.settle().await;
    let member = plane.member("m1", DEPLOYMENTS);
    member.merge_patch("web", json!({"spec": {"replicas": 4, "paused": true}})).await.unwrap();
    let is_back = |object: Option<&Value>| {
        object.is_some_and(|object| object["spec"].get("paused").is_none())
    };
    let copy = plane.eventually_member("m1", DEPLOYMENTS, "web", is_back).await.unwrap();
    assert_eq!(copy["spec"]["replicas"], 4);
    plane.stop().await;
}

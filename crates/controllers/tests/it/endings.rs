//! How Works come to their end, and what stays behind.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::DeleteOptions;

use crate::plane::{BINDINGS, Plane, config_map, eventually, is};

async fn delivered(members: &[&str], spec: Value) -> Plane {
    let plane = Plane::start(members).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await;
    let clusters: Vec<Value> = members.iter().map(|name| json!({"name": name})).collect();
    plane.bind(&template, json!(clusters), spec).await;
    for member in members {
        plane.eventually_work(member, |work| is(work, "Applied", "True")).await;
    }
    plane.settle().await;
    plane
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_no_longer_chosen_loses_the_object_and_the_others_keep_it() {
    let plane = delivered(&["m1", "m2"], json!({})).await;
    let api = plane.api(BINDINGS).namespaced("ns");
    let only = json!({"spec": {"clusters": [{"name": "m2"}]}});
    api.merge_patch("conf-configmap", only).await.unwrap();
    plane.eventually_no_work("m1").await;
    assert!(plane.member("m1", "configmaps").find("conf").await.unwrap().is_none());
    assert!(plane.member("m2", "configmaps").find("conf").await.unwrap().is_some());
    eventually("the status tells of one cluster", async || {
        let binding = api.get("conf-configmap").await.unwrap();
        binding.list_at(&["status", "aggregatedStatus"]).len() == 1
            && is(&binding, "FullyApplied", "True")
    })
    .await;
    plane.stop().await;
}

/// Quirk 4 of the register: fixed, all marks go and a missing object is no obstacle.
#[tokio::test(start_paused = true)]
async fn preserved_objects_stay_without_our_marks() {
    let plane = delivered(&["m1", "m2"], json!({"preserveResourcesOnDeletion": true})).await;
    // The Work of m2 must not hang on an object that is gone already.
    plane.set_ready("m2", false).await;
    plane.member("m2", "configmaps").delete("conf", &DeleteOptions::default()).await.unwrap();
    plane.unbind("conf-configmap").await;
    plane.eventually_no_work("m1").await;
    let left = plane.member("m1", "configmaps").get("conf").await.unwrap();
    assert_eq!(left["data"], json!({"a": "1"}));
    let marks = [left.map_at(&["metadata", "labels"]), left.map_at(&["metadata", "annotations"])];
    let mut keys = marks.into_iter().flatten().flat_map(|map| map.keys());
    // How conflicts are resolved may be the word of whoever wrote the template.
    assert!(keys.all(|key| key == "work.karmada.io/conflict-resolution"), "{left}");
    plane.set_ready("m2", true).await;
    plane.eventually_no_work("m2").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_during_the_deletion_delays_it_and_loses_nothing() {
    let plane = delivered(&["m1", "m2"], json!({})).await;
    plane.members["m1"].faults().partition();
    plane.unbind("conf-configmap").await;
    plane.eventually_no_work("m2").await;
    plane.settle().await;
    // The Work stays as long as its object may be there.
    assert_eq!(plane.works("m1").await.len(), 1);
    assert!(plane.member("m1", "configmaps").find("conf").await.unwrap().is_some());
    plane.members["m1"].faults().heal();
    plane.eventually_no_work("m1").await;
    assert!(plane.member("m1", "configmaps").find("conf").await.unwrap().is_none());
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_ready_is_waited_for() {
    let plane = delivered(&["m1"], json!({})).await;
    plane.set_ready("m1", false).await;
    plane.unbind("conf-configmap").await;
    plane.settle().await;
    assert_eq!(plane.works("m1").await.len(), 1);
    assert!(plane.member("m1", "configmaps").find("conf").await.unwrap().is_some());
    plane.set_ready("m1", true).await;
    plane.eventually_no_work("m1").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_unreachable_is_not_waited_for() {
    let plane = delivered(&["m1"], json!({})).await;
    let clusters = plane.api(crate::plane::CLUSTERS);
    let hold = json!({"metadata": {"finalizers": ["karmada.io/cluster-controller"]}});
    clusters.merge_patch("m1", hold).await.unwrap();
    plane.set_ready("m1", false).await;
    clusters.delete("m1", &DeleteOptions::default()).await.unwrap();
    plane.unbind("conf-configmap").await;
    plane.eventually_no_work("m1").await;
    assert!(plane.member("m1", "configmaps").find("conf").await.unwrap().is_some());
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_work_is_not_made_again_and_the_status_tells() {
    let plane = delivered(&["m1"], json!({})).await;
    let work = plane.works("m1").await.remove(0);
    let api = plane.api("works.v1alpha1.work.karmada.io").namespaced("karmada-es-m1");
    api.delete(work.name(), &DeleteOptions::default()).await.unwrap();
    plane.eventually_no_work("m1").await;
    eventually("the binding is not fully applied", async || {
        let binding = plane.find(BINDINGS, "ns", "conf-configmap").await.unwrap();
        is(&binding, "FullyApplied", "False")
            && binding.list_at(&["status", "aggregatedStatus"]).is_empty()
    })
    .await;
    plane.settle().await;
    assert!(plane.works("m1").await.is_empty());
    assert!(plane.member("m1", "configmaps").find("conf").await.unwrap().is_none());
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn suspended_delivery_keeps_what_is_there_and_goes_on_later() {
    let plane = delivered(&["m1"], json!({})).await;
    let api = plane.api(BINDINGS).namespaced("ns");
    let suspend = |on: bool| json!({"spec": {"suspension": {"dispatching": on}}});
    api.merge_patch("conf-configmap", suspend(true)).await.unwrap();
    plane.eventually_work("m1", |work| is(work, "Dispatching", "False")).await;
    let member = plane.member("m1", "configmaps");
    member.merge_patch("conf", json!({"data": {"a": "own"}})).await.unwrap();
    plane.settle().await;
    assert_eq!(member.get("conf").await.unwrap()["data"]["a"], "own");
    api.merge_patch("conf-configmap", suspend(false)).await.unwrap();
    plane.eventually_work("m1", |work| is(work, "Dispatching", "True")).await;
    let is_back = |object: Option<&Value>| object.is_some_and(|object| object["data"]["a"] == "1");
    plane.eventually_member("m1", "configmaps", "conf", is_back).await;
    plane.stop().await;
}

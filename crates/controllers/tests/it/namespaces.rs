//! Namespaces go to every cluster, unless they are kept at home.

use karmada_api::{annotations, labels};
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::ListOptions;

use crate::bare::{Plane, Setup, eventually};

const WORKS: &str = "works.work.karmada.io";

async fn join(plane: &Plane, cluster: &str) {
    let object = json!({"metadata": {"name": cluster}, "spec": {"syncMode": "Push"}});
    plane.create("clusters.cluster.karmada.io", "", object).await;
    plane.namespace(&format!("karmada-es-{cluster}")).await;
}

/// The namespaces a cluster is given.
async fn given(plane: &Plane, cluster: &str) -> Vec<String> {
    let works = plane.api(WORKS).namespaced(&format!("karmada-es-{cluster}"));
    let works = works.list_all(&ListOptions::default()).await.unwrap().items;
    let name = |work: &karmada_client::Object| {
        work.value()["spec"]["workload"]["manifests"][0].name().to_owned()
    };
    works.iter().map(|work| name(work)).collect()
}

#[tokio::test(start_paused = true)]
async fn every_cluster_gets_every_namespace_but_those_of_the_system() {
    let controllers = vec!["namespace".to_owned()];
    let mut plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    join(&plane, "m1").await;
    plane.namespace("early").await;
    plane.namespace("kube-extra").await;
    let home =
        json!({"metadata": {"name": "home", "labels": {labels::SKIP_AUTO_PROPAGATION: "True"}}});
    plane.create("namespaces", "", home).await;
    eventually("m1 has it", async || given(&plane, "m1").await == ["early"]).await;
    join(&plane, "m2").await;
    plane.namespace("late").await;
    for cluster in ["m1", "m2"] {
        eventually("all have both", async || given(&plane, cluster).await == ["early", "late"])
            .await;
    }
    plane.settle().await;
    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.start_controllers();
    plane.settle().await;
    assert_eq!(plane.revision().await, before, "a restart writes nothing");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_leaves_is_given_no_namespace_any_more() {
    let controllers = vec!["namespace".to_owned()];
    let plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    join(&plane, "m1").await;
    join(&plane, "m2").await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    plane.patch("clusters.cluster.karmada.io", "", "m1", held).await;
    plane.delete("clusters.cluster.karmada.io", "", "m1").await;
    plane.settle().await;
    plane.namespace("late").await;
    eventually("m2 has it", async || given(&plane, "m2").await == ["late"]).await;
    plane.settle().await;
    assert!(given(&plane, "m1").await.is_empty());
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_work_of_a_namespace_carries_overrides_and_goes_with_it() {
    let controllers = vec!["namespace".to_owned()];
    let plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    join(&plane, "m1").await;
    plane.namespace("team").await;
    eventually("it is sent", async || given(&plane, "m1").await == ["team"]).await;
    let works = plane.api(WORKS).namespaced("karmada-es-m1");
    let found = works.list_all(&ListOptions::default()).await.unwrap().items.remove(0);
    let work = found.value();
    assert!(work.name().starts_with("team-"));
    assert_eq!(work["metadata"].get("annotations"), None);
    assert_eq!(work["metadata"]["ownerReferences"][0]["kind"], "Namespace");
    let manifest = &work["spec"]["workload"]["manifests"][0];
    assert_eq!(manifest.label(labels::MANAGED), Some("true"));
    assert_eq!(manifest.annotation(annotations::WORK_NAME), Some(work.name()));
    assert_eq!(work["spec"].get("suspendDispatching"), None);
    let overrides = json!({"metadata": {"name": "cop"}, "spec": {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "team"}],
        "overrideRules": [{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"zone": "a"}}]}}],
    }});
    plane.create("clusteroverridepolicies.policy.karmada.io", "", overrides).await;
    let overridden = plane
        .eventually(WORKS, "karmada-es-m1", found.name(), |work| {
            work["spec"]["workload"]["manifests"][0].label("zone") == Some("a")
        })
        .await;
    assert!(overridden.annotation(annotations::APPLIED_CLUSTER_OVERRIDES).is_some());
    plane.delete("clusteroverridepolicies.policy.karmada.io", "", "cop").await;
    plane
        .eventually(WORKS, "karmada-es-m1", found.name(), |work| {
            work.annotation(annotations::APPLIED_CLUSTER_OVERRIDES).is_none()
        })
        .await;
    plane.stop().await;
}

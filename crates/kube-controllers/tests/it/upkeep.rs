//! What a cluster makes for every namespace, and what it clears away.

use std::time::Duration;

use karmada_apimachinery::json;
use karmada_apiserver::Role;
use karmada_client::Propagation::Background;
use karmada_store::{Memory, Store};

use crate::cluster::Cluster;

#[tokio::test(start_paused = true)]
async fn every_namespace_of_a_member_has_its_account_and_certificate() {
    let cluster = Cluster::member().await;
    cluster.namespace("a").await;
    let is_pem = |pem: &karmada_apimachinery::Value| {
        pem.as_str().is_some_and(|pem| pem.starts_with("-----"))
    };
    for namespace in ["a", "default", "kube-system"] {
        cluster.eventually("serviceaccounts", namespace, "default", |_| true).await;
        cluster
            .eventually("configmaps", namespace, "kube-root-ca.crt", |map| {
                is_pem(&map["data"]["ca.crt"])
            })
            .await;
    }
    cluster.delete("serviceaccounts", "a", "default", Background).await;
    let changed = json!({"data": {"ca.crt": "mine"}});
    let api = cluster.api("configmaps").namespaced("a");
    api.merge_patch("kube-root-ca.crt", changed).await.unwrap();
    cluster.eventually("serviceaccounts", "a", "default", |_| true).await;
    cluster
        .eventually("configmaps", "a", "kube-root-ca.crt", |map| is_pem(&map["data"]["ca.crt"]))
        .await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_plane_makes_nothing_for_its_namespaces() {
    let cluster = Cluster::plane().await;
    cluster.namespace("a").await;
    cluster.settle().await;
    assert_eq!(cluster.find("serviceaccounts", "a", "default").await, None);
    assert_eq!(cluster.find("configmaps", "a", "kube-root-ca.crt").await, None);
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn finished_jobs_go_when_their_time_is_over() {
    let cluster = Cluster::plane().await;
    cluster.namespace("a").await;
    let job = json!({"metadata": {"name": "job"}, "spec": {"ttlSecondsAfterFinished": 100,
        "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}}});
    let mut job = cluster.create("jobs.batch", "a", job).await;
    let now = karmada_apimachinery::time::format_time(cluster.clock.now());
    job["status"] = json!({"startTime": now, "completionTime": now, "succeeded": 1,
        "uncountedTerminatedPods": {}, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
        {"type": "Complete", "status": "True", "lastTransitionTime": now}]});
    let api = cluster.api("jobs.batch").namespaced("a");
    api.update_subresource(&job, "status").await.unwrap();
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(cluster.find("jobs.batch", "a", "job").await.is_some());
    tokio::time::sleep(Duration::from_secs(15)).await;
    cluster.eventually_gone("jobs.batch", "a", "job").await;
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_nothing_changed_writes_nothing() {
    for role in [Role::Plane, Role::Member] {
        let store = Memory::new();
        let cluster = Cluster::start(role, store.clone()).await;
        cluster.namespace("a").await;
        let owner = cluster.config_map("a", "owner", &[]).await;
        cluster.config_map("a", "child", &[crate::cluster::owned_by(&owner, true)]).await;
        cluster.create("serviceaccounts", "a", json!({"metadata": {"name": "robot"}})).await;
        let secret = json!({"type": "kubernetes.io/service-account-token", "metadata": {
            "name": "token", "annotations": {"kubernetes.io/service-account.name": "robot"}}});
        cluster.create("secrets", "a", secret).await;
        cluster.settle().await;
        cluster.stop().await;
        let revision = store.revision();
        let cluster = Cluster::start(role, store.clone()).await;
        cluster.settle().await;
        assert_eq!(store.revision(), revision, "{role:?}");
        cluster.stop().await;
    }
}

//! Pull clusters: nobody reaches them, their agents report. Here the test is the agent.

use karmada_api::conditions::cluster::READY;
use karmada_api::{finalizers, taints};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::format_micro_time;
use karmada_apimachinery::{Value, json};
use karmada_client::Patch;
use karmada_testkit::{World, gvr};

use crate::pieces::*;

const LEASES: &str = "leases.coordination.k8s.io";

async fn register(world: &World) {
    world
        .apply(
            "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: edge},
              spec: {syncMode: Pull, apiEndpoint: 'https://edge.invalid'}}",
        )
        .await;
}

async fn report(world: &World, ready: &str) {
    let now = world.clock.now().to_string();
    let condition = json!({"type": READY, "status": ready, "reason": "ClusterReady",
        "message": "", "lastTransitionTime": now});
    let apis =
        json!([{"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]}]);
    let status = json!({"status": {"conditions": [condition], "apiEnablements": apis}});
    let api = world.client.api(&gvr(CLUSTERS));
    let patch = Patch::Merge(status);
    api.patch_subresource("edge", "status", &patch, &Default::default()).await.unwrap();
}

async fn renew(world: &World) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "edge", "namespace": "karmada-cluster"},
        "spec": {"holderIdentity": "edge", "leaseDurationSeconds": 40,
            "renewTime": format_micro_time(world.clock.now())},
    });
    let api = world.client.api(&gvr(LEASES)).namespaced("karmada-cluster");
    api.apply(&lease, "agent").await.unwrap();
}

async fn ready(world: &World) -> (String, String) {
    let cluster = world.cluster("edge").await.expect("the cluster is registered");
    let ready = cluster.condition(READY).cloned().unwrap_or_default();
    (ready.status, ready.reason)
}

async fn taint_keys(world: &World) -> Vec<String> {
    let taints = world.cluster("edge").await.unwrap().spec.taints;
    taints.into_iter().map(|taint| taint.key).collect()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_agent_renews_its_lease_stays_ready_and_is_not_rewritten() {
    let world = World::of(201, 0).await;
    register(&world).await;
    report(&world, "True").await;
    renew(&world).await;
    world.advance(seconds(10)).await;
    let before = world.cluster("edge").await.unwrap().metadata;
    assert_eq!(before.finalizers, [finalizers::CLUSTER]);
    for _ in 0..360 {
        renew(&world).await;
        world.advance(seconds(10)).await;
    }
    assert_eq!(world.cluster("edge").await.unwrap().metadata, before);
    assert_eq!(ready(&world).await.0, "True");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_makes_its_cluster_unknown_until_it_speaks_again() {
    let world = World::of(202, 0).await;
    register(&world).await;
    report(&world, "True").await;
    renew(&world).await;
    world.advance(seconds(35)).await;
    assert_eq!(ready(&world).await.0, "True", "less than the grace period of 40 s");
    world.advance(seconds(20)).await;
    assert_eq!(ready(&world).await, ("Unknown".to_owned(), "ClusterStatusUnknown".to_owned()));
    assert_eq!(taint_keys(&world).await, [taints::UNREACHABLE]);
    let before = world.cluster("edge").await.unwrap().metadata.resource_version;
    world.advance(seconds(600)).await;
    let after = world.cluster("edge").await.unwrap().metadata.resource_version;
    assert_eq!(after, before, "it is said once");
    report(&world, "True").await;
    renew(&world).await;
    world.advance(seconds(6)).await;
    assert_eq!(ready(&world).await.0, "True");
    assert_eq!(taint_keys(&world).await, [""; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_reported_has_the_longer_grace_of_a_start() {
    let world = World::of(203, 0).await;
    register(&world).await;
    world.advance(seconds(55)).await;
    assert_eq!(ready(&world).await.0, "", "less than the grace period of 60 s");
    assert_eq!(taint_keys(&world).await, [taints::NOT_READY]);
    world.advance(seconds(20)).await;
    let never = ("Unknown".to_owned(), "ClusterStatusNeverUpdated".to_owned());
    assert_eq!(ready(&world).await, never);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn works_of_a_cluster_that_goes_wait_for_its_agent_only_while_it_lives() {
    let world = World::of(204, 0).await;
    register(&world).await;
    report(&world, "True").await;
    renew(&world).await;
    world.apply(&config_map("conf", "1")).await;
    let there = "placement: {clusterAffinity: {clusterNames: [edge]}}";
    world.apply(&config_policy("conf", there)).await;
    let bound = async |world: &World| work(world, "edge", "ConfigMap", "conf").await.is_some();
    world.eventually("there is a Work for the agent", bound).await;
    delete(&world, CLUSTERS, "", "edge").await;
    for _ in 0..12 {
        renew(&world).await;
        world.advance(seconds(10)).await;
    }
    let left = work(&world, "edge", "ConfigMap", "conf").await.expect("the agent has to let it go");
    assert!(
        left.has_finalizer(finalizers::EXECUTION)
            && left.at(&["metadata", "deletionTimestamp"]).is_some()
    );
    assert!(world.cluster("edge").await.is_some(), "it goes after its Works");
    // The agent falls silent: nobody else would let the Works go.
    let gone = async |world: &World| world.cluster("edge").await.is_none();
    world.eventually("the cluster goes without its agent", gone).await;
    assert!(world.get("namespaces", "", "karmada-es-edge").await.is_none());
    let template: Value = world.get("configmaps", "default", "conf").await.unwrap();
    assert_eq!(template["data"]["v"], "1");
    world.stop().await;
}

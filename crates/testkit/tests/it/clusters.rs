//! Clusters that fail, flap, are slow, and go.

use karmada_api::conditions::cluster::READY;
use karmada_api::{finalizers, labels, taints};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::DeleteOptions;
use karmada_registration::Unjoin;
use karmada_testkit::{Options, World, gvr};

use crate::pieces::*;

async fn reason(world: &World, cluster: &str) -> String {
    let cluster = world.cluster(cluster).await.expect("the cluster is joined");
    cluster.condition(READY).map(|ready| ready.reason.clone()).unwrap_or_default()
}

async fn taint_keys(world: &World, cluster: &str) -> Vec<String> {
    let taints = world.cluster(cluster).await.expect("the cluster is joined").spec.taints;
    taints.into_iter().map(|taint| taint.key).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lost_cluster_is_told_after_the_threshold_and_told_well_again_after_it() {
    let world = World::of(1, 1).await;
    assert_eq!(taint_keys(&world, "m1").await, [""; 0]);
    world.member("m1").partition();
    world.advance(seconds(25)).await;
    assert!(world.is_ready("m1").await, "a disturbance of 25 s is nobody's business");
    world.advance(seconds(25)).await;
    assert_eq!(reason(&world, "m1").await, "ClusterNotReachable");
    assert_eq!(taint_keys(&world, "m1").await, [taints::NOT_READY]);
    world.member("m1").heal();
    world.advance(seconds(20)).await;
    assert!(!world.is_ready("m1").await, "20 s of health are no recovery yet");
    world.advance(seconds(25)).await;
    assert_eq!(reason(&world, "m1").await, "ClusterReady");
    assert_eq!(taint_keys(&world, "m1").await, [""; 0]);
    world.stop().await;
}

/// Nodes beat, pods report and leases are renewed all the time: none of it is news about the cluster.
#[tokio::test(start_paused = true)]
async fn a_cluster_is_not_rewritten_in_an_hour_in_which_nothing_changes() {
    let options = Options { heartbeat: seconds(10), ..Options::seeded(9) };
    let world = World::start(options, 2).await;
    world.apply(&deployment("web", 2)).await;
    let both = "placement: {clusterAffinity: {clusterNames: [m1, m2]}}";
    world.apply(&deployment_policy("web", both)).await;
    world.advance(seconds(120)).await;
    let versions = async || {
        let listed = world.client.api(&gvr(CLUSTERS)).list_all(&Default::default()).await.unwrap();
        listed.items.iter().map(|c| c.resource_version().to_owned()).collect::<Vec<_>>()
    };
    let (before, beats) = (versions().await, world.member("m1").writes());
    world.advance(seconds(3600)).await;
    assert_eq!(versions().await, before, "{}", world.trace());
    assert!(world.member("m1").writes() > beats + 300, "the nodes were alive meanwhile");
    // A change is news, and told once.
    let node = json!({"metadata": {"name": "extra"}, "status": {"allocatable": {"cpu": "4"}}});
    world.member("m1").client().api(&gvr("nodes")).create(&node).await.unwrap();
    world.advance(seconds(60)).await;
    let after = versions().await;
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1], before[1]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_joined_cluster_has_its_namespace_and_is_held_by_a_finalizer() {
    let world = World::of(10, 1).await;
    assert_eq!(world.cluster("m1").await.unwrap().metadata.finalizers, [finalizers::CLUSTER]);
    let space = world.get("namespaces", "", "karmada-es-m1").await.unwrap();
    assert_eq!(space.label(labels::SYSTEM), Some("true"));
    // Whoever takes them away gets them back.
    let strip = json!({"metadata": {"finalizers": null}});
    world.client.api(&gvr(CLUSTERS)).merge_patch("m1", strip).await.unwrap();
    let back = async |world: &World| {
        world.cluster("m1").await.unwrap().metadata.finalizers == [finalizers::CLUSTER]
    };
    world.eventually("the finalizer is back", back).await;
    world.stop().await;
}

/// A write that fails as if somebody had been faster must not be taken for a namespace that is there.
#[tokio::test(start_paused = true)]
async fn a_joined_cluster_gets_its_namespace_back_once_writes_succeed() {
    let world = World::of(41, 1).await;
    let namespaces = world.client.api(&gvr("namespaces"));
    world.contend(500);
    for _ in 0..10 {
        // It may be gone already, or the answer is lost.
        drop(namespaces.delete("karmada-es-m1", &DeleteOptions::default()).await);
        world.advance(seconds(5)).await;
    }
    world.contend(0);
    let is_back = async |world: &World| {
        let space = world.get("namespaces", "", "karmada-es-m1").await;
        space.is_some_and(|space| !space.is_being_deleted())
    };
    world.eventually("the namespace is back", is_back).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_works_left_is_not_removed_until_they_are_gone() {
    let world = World::of(11, 2).await;
    world.apply(&config_map("conf", "1")).await;
    let there = "placement: {clusterAffinity: {clusterNames: [m1, m2]}}";
    world.apply(&config_policy("conf", there)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    // Lost a moment ago, so nobody knows yet that it is: what it has must not be forgotten.
    world.member("m1").partition();
    delete(&world, CLUSTERS, "", "m1").await;
    world.advance(seconds(20)).await;
    let leaving = world.cluster("m1").await.expect("it still has Works");
    assert!(leaving.metadata.deletion_timestamp.is_some());
    assert_eq!(leaving.metadata.finalizers, [finalizers::CLUSTER]);
    assert!(work(&world, "m1", "ConfigMap", "conf").await.is_some());
    // Back in time, it is cleaned before it goes.
    world.member("m1").heal();
    let gone = async |world: &World| world.cluster("m1").await.is_none();
    world.eventually("the cluster is gone", gone).await;
    assert_eq!(value(&world, "m1", "conf").await, None);
    assert_eq!(value(&world, "m2", "conf").await.as_deref(), Some("1"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_stays_lost_goes_and_keeps_what_it_has() {
    let world = World::of(12, 2).await;
    world.apply(&config_map("conf", "1")).await;
    let there = "placement: {clusterAffinity: {clusterNames: [m1]}}";
    world.apply(&config_policy("conf", there)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    world.member("m1").partition();
    delete(&world, CLUSTERS, "", "m1").await;
    world.advance(seconds(20)).await;
    assert!(world.cluster("m1").await.is_some(), "20 s of silence are no loss yet");
    let gone = async |world: &World| world.cluster("m1").await.is_none();
    world.eventually("the cluster is gone", gone).await;
    assert!(world.get("namespaces", "", "karmada-es-m1").await.is_none());
    // Nobody could reach it, so nobody deleted anything there.
    assert_eq!(value(&world, "m1", "conf").await.as_deref(), Some("1"));
    assert_eq!(placed(&world, "conf-configmap").await, "");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn short_disturbances_never_reach_the_cluster_object() {
    let world = World::of(2, 1).await;
    world.advance(seconds(30)).await;
    let before = world.cluster("m1").await.unwrap().metadata.resource_version;
    for _ in 0..20 {
        world.member("m1").partition();
        world.advance(seconds(15)).await;
        world.member("m1").heal();
        world.advance(seconds(15)).await;
    }
    assert_eq!(world.cluster("m1").await.unwrap().metadata.resource_version, before);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_never_answers_delays_no_other() {
    let world = World::of(4, 3).await;
    world.member("m1").black_hole();
    world.member("m2").latency(seconds(9));
    world.advance(seconds(20)).await;
    // A change in the healthy cluster shows within its own period.
    let node = json!({"metadata": {"name": "extra"}, "status": {"allocatable": {"cpu": "4"}}});
    let nodes = world.member("m3").client();
    let nodes = nodes.api(&gvr("nodes"));
    nodes.create(&node).await.unwrap();
    world.advance(seconds(11)).await;
    let summary = world.cluster("m3").await.unwrap().status.node_summary.unwrap();
    assert_eq!(summary.total_num, 4);
    world.advance(seconds(60)).await;
    assert_eq!(reason(&world, "m1").await, "ClusterNotReachable");
    assert!(world.is_ready("m2").await && world.is_ready("m3").await);
    world.stop().await;
}

/// Quirk 10 of the register: matched.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_answers_with_errors_counts_as_not_reachable() {
    let world = World::of(7, 1).await;
    world.member("m1").faults().error_rate(1.0);
    world.advance(seconds(60)).await;
    assert_eq!(reason(&world, "m1").await, "ClusterNotReachable");
    assert_eq!(taint_keys(&world, "m1").await, [taints::NOT_READY]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn apis_of_a_cluster_that_answers_with_errors_are_not_forgotten() {
    let world = World::of(5, 1).await;
    let known = world.cluster("m1").await.unwrap().status.api_enablements;
    assert!(known.iter().any(|api| api.group_version == "apps/v1"));
    world.member("m1").faults().error_rate(0.7);
    world.advance(seconds(600)).await;
    assert_eq!(world.cluster("m1").await.unwrap().status.api_enablements, known);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_goes_with_everything_of_it() {
    let world = World::of(6, 2).await;
    assert!(world.get("namespaces", "", "karmada-es-m1").await.is_some());
    world.unjoin(&Unjoin::named("m1")).await.unwrap();
    assert!(world.cluster("m1").await.is_none());
    assert!(world.get("namespaces", "", "karmada-es-m1").await.is_none());
    let gone = async |world: &World| {
        world.get("secrets", "karmada-cluster", "m1").await.is_none()
            && world.get("secrets", "karmada-cluster", "m1-impersonator").await.is_none()
    };
    world.eventually("the credentials are gone too", gone).await;
    assert!(world.is_ready("m2").await);
    let refused = world.unjoin(&Unjoin::named("m1")).await.unwrap_err().to_string();
    assert_eq!(refused, "no cluster object m1 found in karmada control Plane");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_let_go_is_joined_again_at_once() {
    use karmada_registration::{Access, Join, join, unjoin};
    let world = World::of(6, 1).await;
    let inside = world.member("m1").client();
    let maps = inside.api(&Gvr::new("", "v1", "configmaps")).namespaced("karmada-cluster");
    // What the first registration leaves behind takes a while to go.
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.org/hold"]}});
    maps.create(&held).await.unwrap();
    unjoin(&world.client, Some(&inside), &Unjoin::named("m1"), &|_| {}).await.unwrap();
    let access = Access { endpoint: "https://m1.invalid".to_owned(), ..Access::default() };
    let told = std::sync::Mutex::new(Vec::new());
    let tell = |step: &str| told.lock().unwrap().push(step.to_owned());
    let wish = Join::named("again");
    let (joined, released) =
        tokio::join!(join(&world.client, &inside, &access, &wish, &tell), async {
            world.advance(seconds(20)).await;
            maps.merge_patch("held", json!({"metadata": {"finalizers": null}})).await
        });
    released.unwrap();
    joined.unwrap();
    let told = told.into_inner().unwrap();
    assert_eq!(told[0], "the earlier namespace karmada-cluster of the member to be gone");
    assert!(world.cluster("again").await.is_some());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_cluster_is_not_joined_twice() {
    use karmada_registration::{Access, Join, join};
    let world = World::of(8, 1).await;
    let id = world.cluster("m1").await.unwrap().spec.id;
    let access = Access { endpoint: "https://m1.invalid".to_owned(), ..Access::default() };
    let again = Join::named("other");
    let inside = world.member("m1").client();
    let refused = join(&world.client, &inside, &access, &again, &|_| {}).await.unwrap_err();
    let expected = format!("the cluster ID {id} or the cluster name other has been registered");
    assert_eq!(refused.to_string(), expected);
    world.stop().await;
}

//! Workloads that leave clusters they do not tolerate, and the copies that stay until they are replaced.

use karmada_api::features::Gates;
use karmada_api::policy::PurgeMode;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_testkit::{Options, World, gvr};

use crate::pieces::*;

const BOTH: &str = "
placement:
  clusterAffinity: {clusterNames: [m1, m2]}
  replicaScheduling:
    replicaSchedulingType: Divided
    replicaDivisionPreference: Weighted
    weightPreference: {staticWeightList: [
      {targetCluster: {clusterNames: [m1]}, weight: 1}, {targetCluster: {clusterNames: [m2]}, weight: 1}]}";

fn options(seed: u64) -> Options {
    let mut options =
        Options { gates: Gates::parse("Failover=true").unwrap(), ..Options::seeded(seed) };
    options.controllers.enable_no_execute_taint_eviction = true;
    options
}

async fn taint(world: &World, cluster: &str, effect: Option<&str>) {
    let taints: Vec<_> =
        effect.iter().map(|effect| json!({"key": "repair", "effect": effect})).collect();
    let api = world.client.api(&gvr(CLUSTERS));
    api.merge_patch(cluster, json!({"spec": {"taints": taints}})).await.unwrap();
}

async fn tasks(world: &World, binding: &str) -> Vec<String> {
    let binding = world.get(BINDINGS, "default", binding).await.unwrap_or_default();
    let tasks = binding.list_at(&["spec", "gracefulEvictionTasks"]).iter();
    tasks.map(|task| task.str_at(&["fromCluster"]).unwrap_or_default().to_owned()).collect()
}

async fn eventually_placed(world: &World, binding: &str, wanted: &str) {
    let what = format!("{binding} is on {wanted}");
    world.eventually(&what, async |world| placed(world, binding).await == wanted).await;
}

async fn divided(world: &World, name: &str, rest: &str) {
    world.apply(&deployment(name, 4)).await;
    world.apply(&deployment_policy(name, &format!("{BOTH}{rest}"))).await;
    eventually_placed(world, &format!("{name}-deployment"), "m1:2 m2:2").await;
    let ready = async |world: &World| {
        let template = world.get("deployments.apps", "default", name).await.unwrap();
        template["status"]["readyReplicas"] == 4
    };
    world.eventually("all replicas run", ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_moves_the_replicas_and_the_old_copy_goes_when_the_new_one_is_healthy() {
    let world = World::start(options(301), 2).await;
    divided(&world, "web", "").await;
    // New pods take a while, so that there is a time in which the old copy is needed.
    let pace = json!({"metadata": {"annotations": {"pod-ready.stage.kwok.x-k8s.io/delay": "60s"}}});
    let template = json!({"spec": {"template": pace}});
    let api = world.client.api(&gvr("deployments.apps")).namespaced("default");
    api.merge_patch("web", template).await.unwrap();
    world.advance(seconds(400)).await;
    taint(&world, "m1", Some("NoExecute")).await;
    eventually_placed(&world, "web-deployment", "m2:4").await;
    world.advance(seconds(20)).await;
    assert_eq!(tasks(&world, "web-deployment").await, ["m1"]);
    assert!(has(&world, "m1", "deployments.apps", "web").await, "two of four are not ready yet");
    eventually_gone(&world, "m1", "deployments.apps", "web").await;
    let moved = world.member("m2").get("deployments.apps", "default", "web").await.unwrap();
    assert_eq!(moved["status"]["readyReplicas"], 4, "the old copy went too early");
    assert_eq!(tasks(&world, "web-deployment").await, [""; 0]);
    // Without the taint it is welcome there again, but nobody moves it back.
    taint(&world, "m1", None).await;
    world.advance(seconds(60)).await;
    assert_eq!(placed(&world, "web-deployment").await, "m2:4");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_is_tolerated_for_as_long_as_the_policy_says() {
    let world = World::start(options(302), 2).await;
    let short = "\n  clusterTolerations: [{key: repair, operator: Exists, effect: NoExecute, tolerationSeconds: 120}]";
    let ever = "\n  clusterTolerations: [{key: repair, operator: Exists, effect: NoExecute}]";
    divided(&world, "short", short).await;
    divided(&world, "ever", ever).await;
    taint(&world, "m1", Some("NoExecute")).await;
    world.advance(seconds(110)).await;
    assert_eq!(placed(&world, "short-deployment").await, "m1:2 m2:2");
    world.advance(seconds(20)).await;
    // Placed anew while it still tolerates the taint for a while, it may stay: who is there stays.
    assert_eq!(tasks(&world, "ever-deployment").await, [""; 0]);
    assert!(!placed(&world, "short-deployment").await.contains("m1"), "{}", world.trace());
    world.advance(seconds(300)).await;
    assert_eq!(placed(&world, "ever-deployment").await, "m1:2 m2:2");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_purged_directly_goes_before_the_new_one_comes() {
    let mut options = options(303);
    options.controllers.no_execute_taint_eviction_purge_mode = PurgeMode::Directly;
    let world = World::start(options, 2).await;
    world.apply(&deployment("web", 2)).await;
    let one = "
placement:
  clusterAffinities: [{affinityName: a, clusterNames: [m1]}, {affinityName: b, clusterNames: [m2]}]";
    world.apply(&deployment_policy("web", one)).await;
    eventually_placed(&world, "web-deployment", "m1:2").await;
    world.advance(seconds(30)).await;
    taint(&world, "m1", Some("NoExecute")).await;
    let moved = async |world: &World| has(world, "m2", "deployments.apps", "web").await;
    world.eventually("the new copy comes", moved).await;
    assert!(!has(&world, "m1", "deployments.apps", "web").await, "two copies at once");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_gets_healthy_is_waited_for_until_the_time_is_over() {
    let mut options = options(304);
    options.controllers.graceful_eviction_timeout = seconds(300);
    let world = World::start(options, 2).await;
    divided(&world, "web", "").await;
    world.member("m2").partition();
    world.advance(seconds(60)).await;
    taint(&world, "m1", Some("NoExecute")).await;
    world.advance(seconds(240)).await;
    assert!(has(&world, "m1", "deployments.apps", "web").await, "nothing replaces it");
    world.advance(seconds(120)).await;
    assert_eq!(tasks(&world, "web-deployment").await, [""; 0]);
    eventually_gone(&world, "m1", "deployments.apps", "web").await;
    world.stop().await;
}

/// Row 18 of the quirk register: the taint outlives its policy.
#[tokio::test(start_paused = true)]
async fn a_lost_cluster_is_left_as_its_taint_policy_says() {
    let world = World::start(options(309), 2).await;
    divided(&world, "web", "").await;
    world
        .apply(
            "
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: lost}
spec:
  targetClusters: {clusterNames: [m1]}
  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ['True']}]
  removeOnConditions: [{conditionType: Ready, operator: In, statusValues: ['True']}]
  taints: [{key: lost, effect: NoExecute}]
",
        )
        .await;
    world.advance(seconds(60)).await;
    assert_eq!(placed(&world, "web-deployment").await, "m1:2 m2:2");
    world.member("m1").partition();
    eventually_placed(&world, "web-deployment", "m2:4").await;
    let keys = async || {
        let taints = world.cluster("m1").await.unwrap().spec.taints;
        taints.into_iter().map(|taint| taint.key).collect::<Vec<_>>()
    };
    assert!(keys().await.contains(&"lost".to_owned()));
    // Nobody can reach it, so what it has is cleaned up when it is back.
    world.advance(seconds(900)).await;
    assert!(has(&world, "m1", "deployments.apps", "web").await);
    delete(&world, "clustertaintpolicies.v1alpha1.policy.karmada.io", "", "lost").await;
    world.member("m1").heal();
    eventually_gone(&world, "m1", "deployments.apps", "web").await;
    assert_eq!(keys().await, ["lost"]);
    assert_eq!(placed(&world, "web-deployment").await, "m2:4");
    world.stop().await;
}

/// Row 8 of the quirk register: the documented rate.
#[tokio::test(start_paused = true)]
async fn evictions_keep_the_rate_that_was_set() {
    let world = World::start(options(305), 2).await;
    for number in 0..6 {
        divided(&world, &format!("app{number}"), "").await;
    }
    taint(&world, "m1", Some("NoExecute")).await;
    let left = async || {
        let mut left = 0;
        for number in 0..6 {
            let there = placed(&world, &format!("app{number}-deployment")).await;
            left += usize::from(there.contains("m1"));
        }
        left
    };
    world.advance(seconds(5)).await;
    assert_eq!(left().await, 3, "one at once, then one every two seconds");
    world.advance(seconds(6)).await;
    assert_eq!(left().await, 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_moves_unless_gate_and_flag_say_so() {
    for (seed, gates, flag) in [(306, "", true), (307, "Failover=true", false)] {
        let mut options = options(seed);
        options.gates = Gates::parse(gates).unwrap();
        options.controllers.enable_no_execute_taint_eviction = flag;
        let world = World::start(options, 2).await;
        divided(&world, "web", "").await;
        taint(&world, "m1", Some("NoExecute")).await;
        world.advance(seconds(120)).await;
        assert_eq!(placed(&world, "web-deployment").await, "m1:2 m2:2");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn taints_that_only_keep_out_move_nothing() {
    let world = World::start(options(308), 2).await;
    divided(&world, "web", "").await;
    taint(&world, "m1", Some("NoSchedule")).await;
    world.advance(seconds(120)).await;
    assert_eq!(placed(&world, "web-deployment").await, "m1:2 m2:2");
    world.stop().await;
}

//! Workloads that leave clusters they do not tolerate or do not thrive in, and the copies that stay until they are
//! replaced.

use karmada_api::features::Gates;
use karmada_api::policy::PurgeMode;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
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
    assert!(!placed(&world, "short-deployment").await.contains("m1"), "{}", world.trace());
    // Whoever comes now would be sent away at once, so that it does not come.
    world.apply(&deployment("late", 4)).await;
    world.apply(&deployment_policy("late", &format!("{BOTH}{short}"))).await;
    eventually_placed(&world, "late-deployment", "m2:4").await;
    world.advance(seconds(60)).await;
    assert_eq!(tasks(&world, "late-deployment").await, [""; 0]);
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

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_keeps_nobody_out_of_a_cluster_that_is_well_again() {
    let mut options = options(312);
    options.controllers.graceful_eviction_timeout = seconds(300);
    let world = World::start(options, 1).await;
    world.apply(&deployment("web", 2)).await;
    let one = "\nplacement: {clusterAffinity: {clusterNames: [m1]}}";
    world.apply(&deployment_policy("web", one)).await;
    eventually_placed(&world, "web-deployment", "m1:2").await;
    world.advance(seconds(30)).await;
    taint(&world, "m1", Some("NoExecute")).await;
    world.advance(seconds(60)).await;
    assert_eq!(tasks(&world, "web-deployment").await, ["m1"]);
    world.clock.jump(jiff::SignedDuration::from_hours(-2));
    taint(&world, "m1", None).await;
    // The time of the eviction at most twice: once as it was begun, once as it is counted anew.
    world.advance(seconds(660)).await;
    assert_eq!(tasks(&world, "web-deployment").await, [""; 0]);
    assert_eq!(placed(&world, "web-deployment").await, "m1:2", "{}", world.trace());
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

/// What happens to an application that is not healthy, as a policy says it.
fn failover(rest: &str) -> String {
    format!("\npropagateDeps: true\nfailover: {{application: {{{rest}}}}}")
}

async fn task(world: &World, binding: &str) -> Value {
    let binding = world.get(BINDINGS, "default", binding).await.unwrap_or_default();
    let mut task = binding["spec"]["gracefulEvictionTasks"][0].clone();
    if let Some(task) = task.as_object_mut() {
        task.remove("creationTimestamp");
    }
    task
}

#[tokio::test(start_paused = true)]
async fn an_application_that_stays_unhealthy_moves_when_its_time_is_over() {
    let world = World::start(Options::seeded(310), 2).await;
    let rest = failover("decisionConditions: {tolerationSeconds: 120}, gracePeriodSeconds: 900");
    divided(&world, "web", &rest).await;
    // For a while, and then well again: the time begins anew.
    world.member("m1").faults().crash_loop("app=web");
    world.advance(seconds(100)).await;
    world.member("m1").heal();
    world.advance(seconds(400)).await;
    assert_eq!(placed(&world, "web-deployment").await, "m1:2 m2:2");
    world.member("m1").faults().crash_loop("app=web");
    world.advance(seconds(110)).await;
    assert_eq!(placed(&world, "web-deployment").await, "m1:2 m2:2", "its time is not over");
    let moved = async |world: &World| !tasks(world, "web-deployment").await.is_empty();
    world.eventually("it has to go", moved).await;
    let wanted = json!({
        "fromCluster": "m1", "purgeMode": "Gracefully", "replicas": 2, "gracePeriodSeconds": 900,
        "reason": "ApplicationFailure",
        "producer": "resource-binding-application-failover-controller",
    });
    assert_eq!(task(&world, "web-deployment").await, wanted);
    eventually_placed(&world, "web-deployment", "m2:4").await;
    eventually_gone(&world, "m1", "deployments.apps", "web").await;
    let moved = world.member("m2").get("deployments.apps", "default", "web").await.unwrap();
    assert_eq!(moved["status"]["readyReplicas"], 4, "the old copy went too early");
    assert_eq!(tasks(&world, "web-deployment").await, [""; 0]);
    world.stop().await;
}

/// Policies that say so are refused, so that only a binding can.
async fn leave_dependencies_behind(world: &World, resource: &str, namespace: &str, name: &str) {
    let api = world.client.api(&gvr(resource)).namespaced(namespace);
    api.merge_patch(name, json!({"spec": {"propagateDeps": false}})).await.unwrap();
}

/// Row 6 of the quirk register: matched.
#[tokio::test(start_paused = true)]
async fn a_copy_is_kept_until_a_person_says_otherwise_and_who_leaves_dependencies_behind_stays() {
    let mut options = Options::seeded(311);
    options.controllers.graceful_eviction_timeout = seconds(60);
    let world = World::start(options, 2).await;
    let rest = failover("decisionConditions: {tolerationSeconds: 30}, purgeMode: Never");
    divided(&world, "now", &rest).await;
    divided(&world, "never", &rest).await;
    leave_dependencies_behind(&world, BINDINGS, "default", "never-deployment").await;
    world.member("m1").faults().crash_loop("app in (now,never)");
    eventually_placed(&world, "now-deployment", "m2:4").await;
    let wanted = json!({
        "fromCluster": "m1", "purgeMode": "Never", "replicas": 2, "suppressDeletion": true,
        "reason": "ApplicationFailure",
        "producer": "resource-binding-application-failover-controller",
    });
    assert_eq!(task(&world, "now-deployment").await, wanted);
    world.advance(seconds(120)).await;
    assert_eq!(placed(&world, "never-deployment").await, "m1:2 m2:2");
    assert!(has(&world, "m1", "deployments.apps", "now").await, "nobody takes it away");
    // A person says what becomes of it.
    let tasks = json!([{
        "fromCluster": "m1", "purgeMode": "Never", "suppressDeletion": false,
        "reason": "ApplicationFailure", "producer": "somebody",
    }]);
    let api = world.client.api(&gvr(BINDINGS)).namespaced("default");
    let patch = json!({"spec": {"gracefulEvictionTasks": tasks}});
    api.merge_patch("now-deployment", patch).await.unwrap();
    eventually_gone(&world, "m1", "deployments.apps", "now").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_an_application_knows_moves_along_as_labels() {
    let gates = Gates::parse("StatefulFailoverInjection=true").unwrap();
    let world = World::start(Options { gates, ..Options::seeded(312) }, 2).await;
    world.apply(&deployment("web", 2)).await;
    let state =
        "statePreservation: {rules: [{aliasLabelName: was/replicas, jsonPath: '{.replicas}'}]}";
    let conditions = "decisionConditions: {tolerationSeconds: 30}";
    let rest = failover(&format!("{conditions}, purgeMode: Directly, {state}"));
    let one = "
placement:
  clusterAffinity: {clusterNames: [m1, m2]}
  spreadConstraints: [{spreadByField: cluster, maxGroups: 1, minGroups: 1}]";
    world.apply(&deployment_policy("web", &format!("{one}{rest}"))).await;
    let is_placed = async |world: &World| !placed(world, "web-deployment").await.is_empty();
    world.eventually("it is placed", is_placed).await;
    world.advance(seconds(60)).await;
    let old = placed(&world, "web-deployment").await.replace(":2", "");
    let new = if old == "m1" { "m2" } else { "m1" };
    world.member(&old).faults().crash_loop("app=web");
    let there = async |world: &World| has(world, new, "deployments.apps", "web").await;
    world.eventually("the new copy comes", there).await;
    let moved = world.member(new).get("deployments.apps", "default", "web").await.unwrap();
    assert_eq!(moved["metadata"]["labels"]["was/replicas"], "2");
    assert!(!has(&world, &old, "deployments.apps", "web").await, "two copies at once");
    world.stop().await;
}

const SHIPS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.sea.example}
spec:
  group: sea.example
  names: {plural: ships, singular: ship, kind: Ship, listKind: ShipList}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: ships}
spec:
  target: {apiVersion: sea.example/v1, kind: Ship}
  customizations:
    healthInterpretation:
      luaScript: |
        function InterpretHealth(ship)
          return ship.spec.leaks ~= true
        end
";

/// Row 6 of the quirk register: what belongs to no namespace needs no dependencies.
#[tokio::test(start_paused = true)]
async fn what_is_of_the_whole_cluster_moves_too() {
    let world = World::start(Options::seeded(313), 2).await;
    world.apply(SHIPS).await;
    copy_definition(&world, "ships.sea.example", &["m1", "m2"]).await;
    world.apply("apiVersion: sea.example/v1\nkind: Ship\nmetadata: {name: one}\nspec: {}").await;
    world
        .apply(
            "
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: ships}
spec:
  resourceSelectors: [{apiVersion: sea.example/v1, kind: Ship}]
  placement:
    clusterAffinities: [{affinityName: a, clusterNames: [m1]}, {affinityName: b, clusterNames: [m2]}]
  propagateDeps: true
  failover: {application: {decisionConditions: {tolerationSeconds: 60}, purgeMode: Directly}}
",
        )
        .await;
    let sails = async |world: &World, member: &str| {
        world.member(member).get("ships.sea.example", "", "one").await.is_some()
    };
    world.eventually("it is in m1", async |world| sails(world, "m1").await).await;
    leave_dependencies_behind(&world, CLUSTER_BINDINGS, "", "one-ship").await;
    world
        .apply(
            "
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: ships}
spec:
  resourceSelectors: [{apiVersion: sea.example/v1, kind: Ship}]
  overrideRules:
  - targetCluster: {clusterNames: [m1]}
    overriders: {plaintext: [{path: /spec/leaks, operator: add, value: true}]}
",
        )
        .await;
    world.advance(seconds(30)).await;
    assert!(sails(&world, "m1").await, "its time is not over");
    world.eventually("it moved", async |world| sails(world, "m2").await).await;
    assert!(!sails(&world, "m1").await);
    world.stop().await;
}

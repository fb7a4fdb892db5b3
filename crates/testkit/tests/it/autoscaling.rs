//! Workloads that grow and shrink in all their clusters with what their pods use.

use std::time::Duration;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::ListOptions;
use karmada_testkit::{World, gvr};

use crate::pieces::*;

const SCALERS: &str = "federatedhpas.v1alpha1.autoscaling.karmada.io";
const DEPLOYMENTS: &str = "deployments.v1.apps";

/// Two members that share the replicas evenly.
const SHARED: &str = "
placement:
  replicaScheduling:
    replicaSchedulingType: Divided
    replicaDivisionPreference: Weighted
    weightPreference:
      staticWeightList:
      - {targetCluster: {clusterNames: [m1]}, weight: 1}
      - {targetCluster: {clusterNames: [m2]}, weight: 1}
";

/// A Deployment whose pods request a tenth of a processor, and use so much of one.
fn busy(name: &str, replicas: i64, cpu: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata:
      labels: {{app: {name}}}
      annotations: {{kwok.x-k8s.io/usage-cpu: {cpu}}}
    spec:
      containers:
      - {{name: web, image: registry.example/shop/web:1.0, resources: {{requests: {{cpu: 100m}}}}}}
"
    )
}

/// Half of the requested processor is aimed for, with two to eight replicas.
fn autoscaler(name: &str, target: &str) -> String {
    format!(
        "
apiVersion: autoscaling.karmada.io/v1alpha1
kind: FederatedHPA
metadata: {{name: {name}, namespace: default}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {target}}}
  minReplicas: 2
  maxReplicas: 8
  metrics:
  - type: Resource
    resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 50}}}}
  behavior:
    scaleDown: {{stabilizationWindowSeconds: 60}}
"
    )
}

async fn replicas(world: &World, name: &str) -> i64 {
    let template = world.get(DEPLOYMENTS, "default", name).await.unwrap_or_default();
    template.i64_at(&["spec", "replicas"]).unwrap_or_default()
}

async fn eventually_replicas(world: &World, name: &str, wanted: i64) {
    let what = format!("{name} has {wanted} replicas");
    world.eventually(&what, async |world| replicas(world, name).await == wanted).await;
}

/// Status and reason of a condition of a FederatedHPA.
async fn reason(world: &World, name: &str, kind: &str) -> (String, String) {
    let scaler = world.get(SCALERS, "default", name).await.unwrap_or_default();
    let conditions = scaler.list_at(&["status", "conditions"]);
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    let word =
        |field: &str| found.and_then(|found| found.str_at(&[field])).unwrap_or_default().to_owned();
    (word("status"), word("reason"))
}

async fn eventually_reason(world: &World, name: &str, kind: &str, wanted: &str) {
    let what = format!("{kind} of {name} is {wanted}");
    world.eventually(&what, async |world| reason(world, name, kind).await.1 == wanted).await;
}

/// Reasons of the events about an object.
async fn events(world: &World, name: &str) -> Vec<String> {
    let events = world.client.api(&gvr("events")).namespaced("default");
    let events = events.list_all(&ListOptions::default()).await.unwrap().items;
    let events: Vec<Value> = events.iter().map(|event| event.value()).collect();
    let about = events.iter().filter(|event| event["involvedObject"]["name"] == name);
    about.filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_busy_workload_grows_in_all_its_clusters_and_an_idle_one_shrinks_later() {
    let world = World::of(71, 2).await;
    world.serve_metrics();
    world.apply(&busy("web", 2, "100m")).await;
    world.apply(&deployment_policy("web", SHARED)).await;
    world.apply(&autoscaler("web", "web")).await;
    eventually_replicas(&world, "web", 8).await;
    world
        .eventually("both have four", async |world| {
            placed(world, "web-deployment").await == "m1:4 m2:4"
        })
        .await;
    assert!(events(&world, "web").await.contains(&"SuccessfulRescale".to_owned()));
    eventually_reason(&world, "web", "ScalingLimited", "TooManyReplicas").await;
    let status = world.get(SCALERS, "default", "web").await.unwrap()["status"].clone();
    let current = &status["currentMetrics"][0]["resource"]["current"];
    assert_eq!(*current, json!({"averageUtilization": 100, "averageValue": "100m"}));
    assert_eq!(status["desiredReplicas"], 8);
    assert!(status["lastScaleTime"].is_string(), "{status}");
    world.apply(&busy("web", 8, "10m")).await;
    eventually_replicas(&world, "web", 2).await;
    eventually_reason(&world, "web", "AbleToScale", "SucceededRescale").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_cluster_is_no_reason_to_shrink_and_the_rest_speaks_for_it() {
    let world = World::of(72, 2).await;
    world.serve_metrics();
    world.apply(&busy("web", 4, "50m")).await;
    world.apply(&deployment_policy("web", SHARED)).await;
    world.apply(&autoscaler("web", "web")).await;
    eventually_reason(&world, "web", "ScalingActive", "ValidMetricFound").await;
    world.member("m2").partition();
    world.eventually("m2 is lost", async |world| !world.is_ready("m2").await).await;
    world.advance(seconds(180)).await;
    assert_eq!(replicas(&world, "web").await, 4, "half of the pods do what all of them did");
    assert_eq!(reason(&world, "web", "ScalingActive").await.1, "ValidMetricFound");
    world.apply(&busy("web", 4, "100m")).await;
    eventually_replicas(&world, "web", 8).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_cluster_holds_up_no_decision_about_the_others() {
    let world = World::of(73, 2).await;
    world.serve_metrics();
    world.apply(&busy("web", 2, "100m")).await;
    world.apply(&deployment_policy("web", SHARED)).await;
    world
        .eventually("m1 runs its part", async |world| {
            let own =
                world.member("m1").get(DEPLOYMENTS, "default", "web").await.unwrap_or_default();
            own.i64_at(&["status", "readyReplicas"]) == Some(1)
        })
        .await;
    world.advance(seconds(60)).await;
    world.member("m2").black_hole();
    world.apply(&autoscaler("web", "web")).await;
    world.advance(seconds(10)).await;
    assert!(world.is_ready("m2").await, "nobody has noticed yet");
    assert_eq!(replicas(&world, "web").await, 4, "m1 was asked and speaks for m2");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_get_a_new_size_before_they_are_asked_again() {
    let mut world = World::of(78, 2).await;
    world.serve_metrics();
    for member in ["m1", "m2"] {
        world.member(member).latency(Duration::from_millis(600));
    }
    world.apply(&busy("web", 2, "100m")).await;
    world.apply(&deployment_policy("web", SHARED)).await;
    world.apply(&autoscaler("web", "web")).await;
    eventually_replicas(&world, "web", 4).await;
    let scalers = world.client.api(&gvr(SCALERS)).namespaced("default");
    scalers.merge_patch("web", json!({"spec": {"maxReplicas": 100}})).await.unwrap();
    world.advance(seconds(3)).await;
    assert_eq!(replicas(&world, "web").await, 4, "two pods are not half of what there will be");
    world.restart_controllers().await;
    world.advance(seconds(3)).await;
    assert_eq!(replicas(&world, "web").await, 4, "nor do those who come after think so");
    eventually_replicas(&world, "web", 8).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_metrics_nothing_is_scaled_and_the_status_says_so_once() {
    let mut world = World::of(74, 2).await;
    world.apply(&busy("web", 4, "100m")).await;
    world.apply(&deployment_policy("web", SHARED)).await;
    world.apply(&autoscaler("web", "web")).await;
    eventually_reason(&world, "web", "ScalingActive", "FailedGetResourceMetric").await;
    assert_eq!(reason(&world, "web", "AbleToScale").await.0, "True");
    world.advance(seconds(60)).await;
    let told = events(&world, "web").await;
    assert!(told.contains(&"FailedGetResourceMetric".to_owned()), "{told:?}");
    assert!(told.contains(&"FailedComputeMetricsReplicas".to_owned()), "{told:?}");
    let before = world.writes();
    world.advance(seconds(120)).await;
    assert_eq!(world.writes(), before, "what goes on is not told again");
    world.restart_controllers().await;
    world.advance(seconds(120)).await;
    assert_eq!(world.writes(), before, "neither by those who come after");
    assert_eq!(replicas(&world, "web").await, 4);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_outside_its_bounds_needs_no_metrics() {
    let world = World::of(75, 2).await;
    for (name, size) in [("small", 1), ("big", 10)] {
        world.apply(&busy(name, size, "50m")).await;
        world.apply(&deployment_policy(name, SHARED)).await;
        world.apply(&autoscaler(name, name)).await;
    }
    eventually_replicas(&world, "small", 2).await;
    eventually_replicas(&world, "big", 8).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_that_scale_by_the_same_pods_scale_nothing() {
    let world = World::of(76, 2).await;
    world.serve_metrics();
    world.apply(&busy("web", 4, "50m")).await;
    world.apply(&deployment_policy("web", SHARED)).await;
    world.apply(&autoscaler("one", "web")).await;
    eventually_reason(&world, "one", "ScalingActive", "ValidMetricFound").await;
    world.apply(&autoscaler("two", "web")).await;
    for name in ["one", "two"] {
        eventually_reason(&world, name, "ScalingActive", "AmbiguousSelector").await;
    }
    delete(&world, SCALERS, "default", "two").await;
    eventually_reason(&world, "one", "ScalingActive", "ValidMetricFound").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_nowhere_cannot_be_scaled_and_is_as_soon_as_it_is() {
    let world = World::of(77, 2).await;
    world.serve_metrics();
    world.apply(&autoscaler("web", "web")).await;
    eventually_reason(&world, "web", "AbleToScale", "FailedGetScaleTargetRef").await;
    world.apply(&busy("web", 2, "100m")).await;
    eventually_reason(&world, "web", "AbleToScale", "FailedGetBinding").await;
    world.apply(&deployment_policy("web", SHARED)).await;
    eventually_replicas(&world, "web", 8).await;
    world.stop().await;
}

//! Workloads scaled at set times, and by metrics as far as that needs no members.

use std::time::Duration;

use karmada_api::event_reason;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use crate::bare::{Plane, Setup};

const CRONS: &str = "cronfederatedhpas.autoscaling.karmada.io";
const SCALERS: &str = "federatedhpas.autoscaling.karmada.io";
const DEPLOYMENTS: &str = "deployments.apps";
const MINUTE: u64 = 60;

/// A plane at midnight that scales by the clock.
async fn plane() -> Plane {
    with_deployment(vec!["cronFederatedHorizontalPodAutoscaler".to_owned()]).await
}

/// A plane with a Deployment of one replica.
async fn with_deployment(controllers: Vec<String>) -> Plane {
    let plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    plane.namespace("team").await;
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template});
    plane.create(DEPLOYMENTS, "team", json!({"metadata": {"name": "web"}, "spec": spec})).await;
    plane
}

async fn schedule(plane: &Plane, target: Value, rules: Value) {
    let spec = json!({"scaleTargetRef": target, "rules": rules});
    plane.create(CRONS, "team", json!({"metadata": {"name": "cron"}, "spec": spec})).await;
}

fn web() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

fn autoscaler(name: &str) -> Value {
    json!({"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": name})
}

async fn create_autoscaler(plane: &Plane, name: &str, spec: Value) {
    plane.create(SCALERS, "team", json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn replicas(plane: &Plane) -> Value {
    plane.find(DEPLOYMENTS, "team", "web").await.unwrap()["spec"]["replicas"].clone()
}

async fn bounds(plane: &Plane, name: &str) -> (Value, Value) {
    let spec = plane.find(SCALERS, "team", name).await.unwrap()["spec"].clone();
    (spec["minReplicas"].clone(), spec["maxReplicas"].clone())
}

async fn history(plane: &Plane, rule: usize) -> Value {
    let cron = plane.find(CRONS, "team", "cron").await.unwrap();
    cron["status"]["executionHistories"][rule].clone()
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_workload_has_the_size_of_the_last_rule_whose_time_came() {
    let plane = plane().await;
    let rules = json!([
        {"name": "more", "schedule": "10 0 * * *", "targetReplicas": 5},
        {"name": "less", "schedule": "20 0 * * *", "targetReplicas": 2},
    ]);
    schedule(&plane, web(), rules).await;
    plane.settle().await;
    assert_eq!(history(&plane, 0).await["nextExecutionTime"], "2026-01-01T00:10:00Z");
    assert_eq!(replicas(&plane).await, 1);
    pass(10 * MINUTE).await;
    assert_eq!(replicas(&plane).await, 5);
    let told = history(&plane, 0).await;
    assert_eq!(told["nextExecutionTime"], "2026-01-02T00:10:00Z");
    let run = json!({"scheduleTime": "2026-01-01T00:10:00Z",
        "executionTime": "2026-01-01T00:10:00Z", "appliedReplicas": 5});
    assert_eq!(told["successfulExecutions"], json!([run]));
    pass(10 * MINUTE).await;
    assert_eq!(replicas(&plane).await, 2);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_firing_writes_the_target_and_the_status_once_and_nothing_between() {
    let plane = plane().await;
    let rules = json!([{"name": "r", "schedule": "*/10 * * * *", "targetReplicas": 5}]);
    schedule(&plane, web(), rules).await;
    plane.settle().await;
    let before = plane.revision().await;
    pass(8 * MINUTE).await;
    assert_eq!(plane.revision().await, before, "nothing is due");
    pass(4 * MINUTE).await;
    assert_eq!(plane.revision().await, before + 2, "the Deployment and the history");
    pass(10 * MINUTE).await;
    assert_eq!(plane.revision().await, before + 3, "the history: the size is right already");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_and_makes_up_for_nothing() {
    let mut plane = plane().await;
    let rules = json!([{"name": "r", "schedule": "*/20 * * * *", "targetReplicas": 5}]);
    schedule(&plane, web(), rules).await;
    plane.settle().await;
    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.start_controllers();
    pass(10 * MINUTE).await;
    assert_eq!(plane.revision().await, before);
    plane.stop_controllers().await;
    pass(15 * MINUTE).await;
    plane.start_controllers();
    plane.settle().await;
    assert_eq!(replicas(&plane).await, 1, "nobody was there twenty minutes past");
    let told = history(&plane, 0).await;
    assert_eq!(told["nextExecutionTime"], "2026-01-01T00:40:00Z");
    assert!(told.get("successfulExecutions").is_none(), "{told}");
    pass(15 * MINUTE).await;
    assert_eq!(replicas(&plane).await, 5);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rules_are_suspended_changed_and_removed_while_they_wait() {
    let plane = plane().await;
    let rule = |name: &str, schedule: &str, suspend: bool| json!({"name": name, "schedule": schedule, "suspend": suspend, "targetReplicas": 5});
    let set = async |rules: Value| {
        plane.patch(CRONS, "team", "cron", json!({"spec": {"rules": rules}})).await;
        plane.settle().await;
    };
    schedule(&plane, web(), json!([rule("a", "5 0 * * *", false)])).await;
    plane.settle().await;
    set(json!([rule("a", "5 0 * * *", true)])).await;
    let told = history(&plane, 0).await;
    assert!(told.get("nextExecutionTime").is_none() && told["ruleName"] == "a", "{told}");
    pass(6 * MINUTE).await;
    assert_eq!(replicas(&plane).await, 1, "suspended rules do nothing");
    set(json!([rule("a", "10 0 * * *", false), rule("b", "20 0 * * *", false)])).await;
    assert_eq!(history(&plane, 0).await["nextExecutionTime"], "2026-01-01T00:10:00Z");
    pass(5 * MINUTE).await;
    assert_eq!(replicas(&plane).await, 5);
    set(json!([rule("b", "20 0 * * *", false)])).await;
    assert_eq!(history(&plane, 0).await["ruleName"], "b");
    assert_eq!(history(&plane, 1).await, Value::Null, "the history of a goes with it");
    plane.delete(CRONS, "team", "cron").await;
    plane.patch(DEPLOYMENTS, "team", "web", json!({"spec": {"replicas": 3}})).await;
    pass(15 * MINUTE).await;
    assert_eq!(replicas(&plane).await, 3, "nobody scales any more");
    plane.stop().await;
}

/// Row 16 of the quirk register: fixed.
#[tokio::test(start_paused = true)]
async fn after_a_change_of_target_every_rule_goes_on_for_the_new_one() {
    let plane = plane().await;
    for name in ["one", "two"] {
        let spec = json!({"scaleTargetRef": web(), "minReplicas": 1, "maxReplicas": 10});
        create_autoscaler(&plane, name, spec).await;
    }
    let rules = json!([{"name": "r", "schedule": "*/10 * * * *", "targetMinReplicas": 3,
        "targetMaxReplicas": 30}]);
    schedule(&plane, autoscaler("one"), rules).await;
    plane.settle().await;
    let target = json!({"spec": {"scaleTargetRef": autoscaler("two")}});
    plane.patch(CRONS, "team", "cron", target).await;
    pass(10 * MINUTE).await;
    assert_eq!(bounds(&plane, "one").await, (1.into(), 10.into()));
    assert_eq!(bounds(&plane, "two").await, (3.into(), 30.into()));
    let back = json!({"spec": {"minReplicas": 1, "maxReplicas": 10}});
    plane.patch(SCALERS, "team", "two", back).await;
    pass(10 * MINUTE).await;
    assert_eq!(bounds(&plane, "two").await, (3.into(), 30.into()), "again and again");
    assert_eq!(history(&plane, 0).await.list_at(&["successfulExecutions"]).len(), 2);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_moves_the_bound_it_names_and_leaves_the_other() {
    let plane = plane().await;
    let spec = json!({"scaleTargetRef": web(), "minReplicas": 2, "maxReplicas": 10});
    create_autoscaler(&plane, "scaler", spec).await;
    let rules = json!([{"name": "r", "schedule": "*/10 * * * *", "targetMaxReplicas": 30}]);
    schedule(&plane, autoscaler("scaler"), rules).await;
    pass(10 * MINUTE).await;
    assert_eq!(bounds(&plane, "scaler").await, (2.into(), 30.into()));
    let run = &history(&plane, 0).await["successfulExecutions"][0];
    assert_eq!(run["appliedMaxReplicas"], 30);
    assert!(run.get("appliedMinReplicas").is_none(), "{run}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_scaled_is_told_and_kept_in_the_history() {
    let plane = plane().await;
    let rule = |name: &str, limit: i32| {
        json!({"name": name, "schedule": "*/10 * * * *", "targetReplicas": 5,
            "failedHistoryLimit": limit})
    };
    let nobody = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody"});
    schedule(&plane, nobody, json!([rule("two", 2), rule("none", 0)])).await;
    pass(30 * MINUTE).await;
    let told = history(&plane, 0).await;
    let failed = told.list_at(&["failedExecutions"]);
    assert_eq!(failed.len(), 2, "{told}");
    assert_eq!(failed[0]["scheduleTime"], "2026-01-01T00:30:00Z");
    let message = failed[0].str_at(&["message"]).unwrap();
    assert!(
        message.contains("read Deployment nobody") && message.contains("not found"),
        "{message}"
    );
    assert!(history(&plane, 1).await.get("failedExecutions").is_none());
    let events = plane.events("team", "cron").await;
    assert!(events.iter().any(|(reason, _)| reason == event_reason::SCALE_FAILED), "{events:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_admission_takes_and_nobody_can_run_is_told_of() {
    let plane = plane().await;
    let rules = json!([
        {"name": "seconds", "schedule": "0 0 9 * * *", "targetReplicas": 5},
        {"name": "often", "schedule": "*/10 * * * *", "targetReplicas": 3},
    ]);
    schedule(&plane, web(), rules).await;
    pass(10 * MINUTE).await;
    assert_eq!(replicas(&plane).await, 3, "the other rule runs");
    let events = plane.events("team", "cron").await;
    let [(reason, message)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(reason, event_reason::START_RULE_FAILED);
    assert!(message.contains("rule seconds: expected exactly 5 fields, found 6"), "{message}");
    plane.stop().await;
}

/// Row 15 of the quirk register: fixed.
#[tokio::test(start_paused = true)]
async fn the_binding_of_another_namespace_is_not_that_of_the_target() {
    let controllers = vec!["federatedHorizontalPodAutoscaler".to_owned()];
    let plane = with_deployment(controllers).await;
    plane.namespace("other").await;
    let labels = json!({"propagationpolicy.karmada.io/permanent-id": "p"});
    plane.patch(DEPLOYMENTS, "team", "web", json!({"metadata": {"labels": labels}})).await;
    let bind = async |namespace: &str, clusters: Value| {
        let resource = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "namespace": namespace, "name": "web"});
        let binding = json!({"metadata": {"name": "web-deployment", "labels": labels},
            "spec": {"resource": resource, "clusters": clusters}});
        plane.create("resourcebindings.work.karmada.io", namespace, binding).await;
    };
    bind("other", json!([{"name": "m1", "replicas": 1}])).await;
    let spec = json!({"scaleTargetRef": web(), "minReplicas": 1, "maxReplicas": 10});
    create_autoscaler(&plane, "scaler", spec).await;
    let says = async |reason: &str| {
        plane
            .eventually(SCALERS, "team", "scaler", |scaler| {
                let conditions = scaler.list_at(&["status", "conditions"]);
                conditions.iter().any(|c| c["type"] == "AbleToScale" && c["reason"] == reason)
            })
            .await;
    };
    says("FailedGetBinding").await;
    let events = plane.events("team", "scaler").await;
    let told = |(reason, _): &(String, String)| reason == event_reason::FAILED_GET_BINDINGS;
    assert!(events.iter().any(told), "{events:?}");
    bind("team", json!([])).await;
    says("FailedGetTargetClusters").await;
    plane
        .patch(
            "resourcebindings.work.karmada.io",
            "team",
            "web-deployment",
            json!({"spec": {"clusters": [{"name": "nowhere", "replicas": 1}]}}),
        )
        .await;
    says("FailedGetScale").await;
    let text = plane.metrics();
    for metric in ["reconciliations_total", "reconciliation_duration_seconds_count"] {
        let row = format!(
            "horizontal_pod_autoscaler_controller_{metric}{{action=\"none\",error=\"internal\"}} "
        );
        assert!(text.lines().any(|line| line.starts_with(&row)), "{row} is not in\n{text}");
    }
    plane.stop().await;
}

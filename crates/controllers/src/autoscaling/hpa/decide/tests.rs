use std::time::Duration;

use karmada_apimachinery::json;

use super::*;
use crate::autoscaling::hpa::replicas::{Pod, PodId, Ready, Sample};
use crate::context::AutoscalerOptions;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn pods() -> Vec<Pod> {
    let pod = |n: i32| Pod {
        id: PodId { cluster: "m1".to_owned(), name: format!("p{n}") },
        phase: "Running".to_owned(),
        started: Some(now() - Duration::from_secs(9000)),
        ready: Some(Ready { status: "True".into(), since: now() - Duration::from_secs(9000) }),
        ..Pod::default()
    };
    (0..4).map(pod).collect()
}

/// What every pod was measured at.
fn each(value: i64) -> Result<Reading, String> {
    let sample = Sample { value, at: now(), window: Duration::from_secs(30) };
    Ok(Reading::Pods(pods().into_iter().map(|pod| (pod.id, sample)).collect()))
}

fn away() -> Result<Reading, String> {
    Err("read metrics.k8s.io/v1beta1: the server could not find the requested resource".to_owned())
}

/// One metric of each kind that averages to 100.
fn spec() -> FederatedHPASpec {
    let resource = json!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}}});
    let pods = json!({"type": "Pods", "pods": {
        "metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "100m"}}});
    let spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2, "maxReplicas": 10, "metrics": [resource, pods],
    });
    karmada_apimachinery::from_value(spec).unwrap()
}

fn follow(spec: &FederatedHPASpec, readings: &[Result<Reading, String>]) -> Plan {
    let (options, pods) = (AutoscalerOptions::default(), pods());
    let situation = Situation {
        options: &options,
        now: now(),
        pods: &pods,
        current: 4,
        assigned: 4,
        running: 4,
    };
    follow_metrics(spec, Status::default(), &situation, readings, &mut Memory::default())
}

/// Status, reason and message of a condition.
fn condition<'a>(plan: &'a Plan, kind: &str) -> (&'a str, &'a str, &'a str) {
    let mut conditions = plan.status.conditions.iter();
    let found = conditions.find(|condition| condition.r#type == kind);
    found.map_or(("", "", ""), |found| (&found.status, &found.reason, &found.message))
}

#[test]
fn the_metric_that_asks_for_most_wins() {
    let plan = follow(&spec(), &[each(150), each(200)]);
    assert_eq!(plan.rescale, Some((8, "pods metric hits above target".to_owned())));
    assert_eq!((plan.status.current_replicas, plan.status.desired_replicas), (4, 8));
    assert_eq!(condition(&plan, SCALING_ACTIVE).1, "ValidMetricFound");
    assert_eq!(condition(&plan, ABLE_TO_SCALE).1, "ReadyForNewScale");
    assert_eq!(condition(&plan, SCALING_LIMITED).1, "DesiredWithinRange");
    let shown = karmada_apimachinery::to_value(&plan.status.current_metrics).unwrap();
    assert_eq!(shown[0]["resource"]["current"]["averageValue"], "150m");
    assert_eq!(shown[1]["pods"]["metric"]["name"], "hits");
    let plan = follow(&spec(), &[each(50), each(75)]);
    assert_eq!(plan.rescale, Some((3, "All metrics below target".to_owned())));
    assert_eq!(follow(&spec(), &[each(100), each(50)]).rescale, None);
}

#[test]
fn a_metric_nobody_knows_allows_growing_and_forbids_shrinking() {
    let plan = follow(&spec(), &[each(200), away()]);
    assert_eq!(plan.rescale.map(|(replicas, _)| replicas), Some(8));
    assert_eq!(condition(&plan_of_growth(), SCALING_ACTIVE).0, "True");
    assert_eq!(plan.warnings.len(), 1);
    assert_eq!(plan.status.current_metrics.unwrap().len(), 1);
    let plan = follow(&spec(), &[each(50), away()]);
    assert_eq!(plan.rescale, None);
    let (status, reason, message) = condition(&plan, SCALING_ACTIVE);
    assert_eq!((status, reason), ("False", "FailedGetPodsMetric"));
    assert!(message.contains("hits: read metrics.k8s.io/v1beta1"), "{message}");
    let reasons: Vec<_> = plan.warnings.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reasons, ["FailedGetPodsMetric", "FailedComputeMetricsReplicas"]);
    assert!(plan.warnings[1].1.starts_with("1 of 2 metrics cannot be used"), "{plan:?}");
}

fn plan_of_growth() -> Plan {
    follow(&spec(), &[each(200), away()])
}

#[test]
fn without_any_metric_nothing_moves_and_the_condition_says_why() {
    let cases = [
        ("Resource", "FailedGetResourceMetric"),
        ("ContainerResource", "FailedGetContainerResourceMetric"),
        ("Pods", "FailedGetPodsMetric"),
        ("Object", "FailedGetObjectMetric"),
        ("External", "InvalidMetricSourceType"),
    ];
    let target = json!({"type": "AverageValue", "averageValue": "100m"});
    let object = json!({"apiVersion": "v1", "kind": "Service", "name": "web"});
    for (kind, expected) in cases {
        let metric = json!({
            "type": kind,
            "resource": {"name": "cpu", "target": target},
            "containerResource": {"name": "cpu", "container": "app", "target": target},
            "pods": {"metric": {"name": "hits"}, "target": target},
            "object": {"describedObject": object, "metric": {"name": "hits"}, "target": target},
        });
        let metrics = vec![karmada_apimachinery::from_value(metric).unwrap()];
        let plan = follow(&FederatedHPASpec { metrics, ..spec() }, &[away()]);
        assert_eq!(plan.rescale, None, "{kind}");
        let (status, reason, _) = condition(&plan, SCALING_ACTIVE);
        assert_eq!((status, reason), ("False", expected), "{kind}");
        assert_eq!(plan.status.current_replicas, 4);
    }
}

#[test]
fn a_value_of_an_object_is_compared_whole_or_per_pod() {
    let follow = |target: karmada_apimachinery::Value| {
        let object = json!({"apiVersion": "v1", "kind": "Service", "name": "web"});
        let metric = json!({"type": "Object", "object": {
            "describedObject": object, "metric": {"name": "hits"}, "target": target}});
        let metrics = vec![karmada_apimachinery::from_value(metric).unwrap()];
        follow(&FederatedHPASpec { metrics, ..spec() }, &[Ok(Reading::Value(30_000))])
    };
    let plan = follow(json!({"type": "Value", "value": "20"}));
    assert_eq!(plan.rescale, Some((6, "Service metric hits above target".to_owned())));
    let shown = karmada_apimachinery::to_value(&plan.status.current_metrics).unwrap();
    assert_eq!(shown[0]["object"]["current"], json!({"value": "30"}));
    let plan = follow(json!({"type": "AverageValue", "averageValue": "5"}));
    assert_eq!(plan.rescale.map(|(replicas, _)| replicas), Some(6));
    let shown = karmada_apimachinery::to_value(&plan.status.current_metrics).unwrap();
    assert_eq!(shown[0]["object"]["current"], json!({"averageValue": "7500m"}));
    assert_eq!(shown[0]["object"]["describedObject"]["name"], "web");
}

#[test]
fn a_workload_outside_its_bounds_is_pulled_into_them() {
    let size = |current| pull_into_bounds(&spec(), current).map(|(replicas, _)| replicas);
    assert_eq!([size(1), size(2), size(10), size(11)], [Some(2), None, None, Some(10)]);
    let unbound = FederatedHPASpec { min_replicas: None, ..spec() };
    assert_eq!(pull_into_bounds(&unbound, 1), None, "the least is one unless somebody says so");
}

#[test]
fn the_time_of_a_condition_moves_with_its_status() {
    let mut status = Status::default();
    let later = now() + Duration::from_secs(60);
    set_condition(&mut status, ABLE_TO_SCALE, true, ("A", "a"), now());
    set_condition(&mut status, ABLE_TO_SCALE, true, ("B", "b"), later);
    assert_eq!(status.conditions[0].last_transition_time, Some(now().into()));
    set_condition(&mut status, ABLE_TO_SCALE, false, ("B", "b"), later);
    assert_eq!(status.conditions[0].last_transition_time, Some(later.into()));
    assert_eq!(status.conditions.len(), 1);
}

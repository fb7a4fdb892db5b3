use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use super::convert;

fn converted(mut object: Value, group: &str, version: &str) -> Value {
    convert(&mut object, group, version);
    object
}

#[test]
fn an_event_keeps_its_facts_in_both_groups() {
    let core = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "count": 3,
        "eventTime": null, "firstTimestamp": "2020-01-02T03:04:05Z", "lastTimestamp": null,
        "involvedObject": {"kind": "Pod"}, "message": "m", "reason": "r",
        "reportingComponent": "", "reportingInstance": "", "source": {"component": "c"},
    });
    let events = converted(core.clone(), "events.k8s.io", "v1");
    let expected = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "deprecatedCount": 3, "eventTime": null,
        "deprecatedFirstTimestamp": "2020-01-02T03:04:05Z", "deprecatedLastTimestamp": null,
        "deprecatedSource": {"component": "c"}, "note": "m", "reason": "r",
        "regarding": {"kind": "Pod"},
    });
    assert_eq!(events, expected);
    assert_eq!(converted(events, "", "v1"), core);
}

#[test]
fn version_one_carries_what_it_cannot_say_in_annotations() {
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {},
        "spec": {
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60}}},
                {"type": "Pods", "pods": {"metric": {"name": "qps"},
                    "target": {"type": "AverageValue", "averageValue": "10"}}},
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max",
                "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}},
        },
        "status": {"currentMetrics": null, "desiredReplicas": 0},
    });
    let old = converted(autoscaler.clone(), "autoscaling", "v1");
    assert_eq!(old["spec"], json!({"targetCPUUtilizationPercentage": 60}));
    assert_eq!(old["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
    assert_eq!(
        old.annotation("autoscaling.alpha.kubernetes.io/metrics"),
        Some(r#"[{"type":"Pods","pods":{"metricName":"qps","targetAverageValue":"10"}}]"#)
    );
    assert_eq!(
        old.annotation("autoscaling.alpha.kubernetes.io/behavior"),
        Some(
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":"Max","Policies":[{"Type":"Percent","Value":10,"PeriodSeconds":60}],"Tolerance":null}}"#
        )
    );
    let mut back = converted(old, "autoscaling", "v2");
    // The CPU target comes last after the round trip, as it always did.
    back["spec"]["metrics"].as_array_mut().expect("a list").reverse();
    assert_eq!(back, autoscaler);
}

#[test]
fn version_one_without_a_target_means_eighty_percent() {
    let old = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "spec": {}, "status": {},
    });
    let new = converted(old, "autoscaling", "v2");
    let percent = &new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"];
    assert_eq!(*percent, 80);
}

//! What the scheduler tells of itself, by the names dashboards know.

use karmada_api::Kind as _;
use karmada_api::placing::{Placer as _, Subject};
use karmada_api::work::ResourceBinding;
use karmada_apimachinery::json;

use crate::plane::{Plane, divided, plain};

/// The value of a row, written as it is exposed.
fn value(text: &str, row: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| line.rsplit_once(' '));
    let mut found = values.filter(|(shown, _)| *shown == row).map(|(_, value)| value);
    found.next()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn every_step_of_a_decision_is_timed() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    plane.create("resourcebindings", "x", divided("web", 4)).await;
    assert_eq!(plane.outcome("web").await.1, "Success");
    let nowhere = json!({"clusterAffinity": {"clusterNames": ["nowhere"]}});
    plane.create("resourcebindings", "x", plain("lost", nowhere)).await;
    assert_eq!(plane.outcome("lost").await.1, "NoClusterFit");
    let text = plane.metrics();
    let count = |metric: &str, labels: &str| {
        value(&text, &format!("karmada_scheduler_{metric}_count{{{labels}}}")).unwrap_or_default()
    };
    for (step, decisions) in
        [("Filter", 2.0), ("Score", 1.0), ("Select", 1.0), ("AssignReplicas", 1.0)]
    {
        let labels = format!("schedule_step=\"{step}\"");
        assert_eq!(count("scheduling_algorithm_duration_seconds", &labels), decisions, "{step}");
    }
    for (point, result) in
        [("Filter", "Success"), ("Filter", "Unschedulable"), ("Score", "Success")]
    {
        let labels = format!("extension_point=\"{point}\",result=\"{result}\"");
        assert_eq!(count("framework_extension_point_duration_seconds", &labels), 1.0, "{labels}");
    }
    for (plugin, point) in [("APIEnablement", "Filter"), ("ClusterLocality", "Score")] {
        let labels = format!("plugin=\"{plugin}\",extension_point=\"{point}\",result=\"Success\"");
        assert_eq!(count("plugin_execution_duration_seconds", &labels), 1.0, "{labels}");
    }
    for (result, kind) in [("scheduled", "ReconcileSchedule"), ("error", "ReconcileSchedule")] {
        let row = format!(
            "karmada_scheduler_schedule_attempts_total{{result=\"{result}\",schedule_type=\"{kind}\"}}"
        );
        assert_eq!(value(&text, &row), Some(1.0), "{row} in\n{text}");
    }
    for name in ["scheduler_pending_bindings", "karmada_scheduler_pending_bindings"] {
        for queue in ["active", "backoff", "unschedulable"] {
            assert_eq!(value(&text, &format!("{name}{{queue=\"{queue}\"}}")), Some(0.0));
        }
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_made_with_its_placement_is_an_attempt_too() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let mut made = plain("conf", json!({}));
    let read = |binding| ResourceBinding::from_value(&binding).unwrap();
    let placed = plane.scheduler().place(Subject::of(&read(made.clone()))).unwrap();
    made["spec"]["clusters"] = json!(placed.clusters);
    made["metadata"]["annotations"] =
        json!({"policy.karmada.io/applied-placement": placed.placement});
    let made = read(plane.create("resourcebindings", "x", made).await);
    let status = plane.scheduler().report(Subject::of(&made)).unwrap();
    plane.patch_status("resourcebindings", "conf", json!(status)).await;
    plane.scheduler().reported(Subject::of(&made));
    plane.settle().await;
    let (text, labels) =
        (plane.metrics(), "result=\"scheduled\",schedule_type=\"ReconcileSchedule\"");
    for metric in ["schedule_attempts_total", "e2e_scheduling_duration_seconds_count"] {
        let row = format!("karmada_scheduler_{metric}{{{labels}}}");
        assert_eq!(value(&text, &row), Some(1.0), "{row} in\n{text}");
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_and_types_of_the_original() {
    let plane = Plane::with_clusters(&["m1"]).await;
    plane.create("resourcebindings", "x", plain("conf", json!({}))).await;
    plane.settle().await;
    let text = plane.metrics();
    for (name, kind) in [
        ("karmada_scheduler_schedule_attempts", "counter"),
        ("karmada_scheduler_e2e_scheduling_duration_seconds", "histogram"),
        ("karmada_scheduler_scheduling_algorithm_duration_seconds", "histogram"),
        ("karmada_scheduler_queue_incoming_bindings", "counter"),
        ("karmada_scheduler_framework_extension_point_duration_seconds", "histogram"),
        ("karmada_scheduler_plugin_execution_duration_seconds", "histogram"),
        ("scheduler_pending_bindings", "gauge"),
    ] {
        let line = format!("# TYPE {name} {kind}");
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    plane.stop().await;
}

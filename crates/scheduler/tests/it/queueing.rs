//! Who waits for how long.

use std::time::Duration;

use karmada_api::features::Gates;
use karmada_apimachinery::{Value, json};
use karmada_scheduler::Options;

use crate::plane::{Plane, divided, plain, room};

#[tokio::test(start_paused = true)]
async fn higher_priority_is_written_first() {
    let mut plane = Plane::empty().await;
    plane.cluster("m1", json!({})).await;
    for (name, priority) in [("low", 0), ("high", 100), ("middle", 7)] {
        let mut binding = plain(name, json!({}));
        binding["spec"]["schedulePriority"] = json!({"priority": priority});
        plane.create("resourcebindings", "x", binding).await;
    }
    let options = Options { workers: 1, ..Options::default() };
    plane.schedule_with(options, &Gates::default()).await;
    let mut versions = Vec::new();
    for name in ["high", "middle", "low"] {
        let version = plane.binding(name).await["metadata"]["resourceVersion"].clone();
        versions.push(version.as_str().unwrap().parse::<u64>().unwrap());
    }
    assert!(versions.is_sorted(), "{versions:?}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_room_a_workload_waits_until_room_grows() {
    let plane = Plane::with_clusters(&["m1"]).await;
    plane.create("resourcebindings", "x", divided("web", 20)).await;
    let (clusters, reason) = plane.outcome("web").await;
    assert_eq!((clusters.as_str(), reason.as_str()), ("", "Unschedulable"));
    let message = "failed to assign replicas: failed to scale up: Clusters available replicas 10 are not enough to schedule.";
    assert_eq!(plane.binding("web").await["status"]["conditions"][0]["message"], message);
    plane.patch_status("clusters", "m1", json!({"resourceSummary": room(30)})).await;
    assert_eq!(plane.outcome("web").await.0, "m1:20");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_constraint_that_cannot_be_met_is_tried_again_without_more_writes() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let spread = json!({"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]});
    plane.create("resourcebindings", "x", plain("conf", spread)).await;
    assert_eq!(plane.outcome("conf").await.1, "SchedulerError");
    let version = |binding: Value| binding["metadata"]["resourceVersion"].clone();
    let before = version(plane.binding("conf").await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(before, version(plane.binding("conf").await));
    // A new cluster is no event by itself; the next attempt finds it.
    plane.cluster("m2", json!({})).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(plane.outcome("conf").await.0, "m1 m2");
    plane.stop().await;
}

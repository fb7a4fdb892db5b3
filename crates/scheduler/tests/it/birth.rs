//! Bindings that are made with their placement.

use std::time::Duration;

use karmada_api::Kind as _;
use karmada_api::placing::{Placer as _, Subject};
use karmada_api::work::ResourceBinding;
use karmada_apimachinery::{Value, json};

use crate::plane::{Plane, divided, outcome, plain};

/// How long a report waits for company.
const PATIENCE: Duration = Duration::from_secs(1);

fn read(binding: Value) -> ResourceBinding {
    ResourceBinding::from_value(&binding).unwrap()
}

/// Makes a binding as whoever asks the scheduler before does.
async fn make(plane: &Plane, binding: Value) -> ResourceBinding {
    let placed =
        plane.scheduler().place(Subject::of(&read(binding.clone()))).expect("it is placed");
    let mut born = binding;
    born["spec"]["clusters"] = json!(placed.clusters);
    born["metadata"]["annotations"] =
        json!({"policy.karmada.io/applied-placement": placed.placement});
    read(plane.create("resourcebindings", "x", born).await)
}

#[tokio::test(start_paused = true)]
async fn what_is_made_with_its_placement_is_reported_once_and_left_alone() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    make(&plane, divided("web", 4)).await;
    plane.settle().await;
    let binding = plane.binding("web").await;
    assert_eq!(outcome(&binding), ("m1:2 m2:2".to_owned(), String::new()), "it waits for company");
    // The room changes meanwhile: that is no reason to move anything.
    let room = json!({"resourceSummary": crate::plane::room(2)});
    plane.patch_status("clusters", "m1", room).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let binding = plane.binding("web").await;
    assert_eq!(outcome(&binding), ("m1:2 m2:2".to_owned(), "Success".to_owned()));
    assert_eq!(binding["metadata"]["generation"], 1);
    assert_eq!(binding["status"]["schedulerObservedGeneration"], 1);
    assert!(binding["status"]["lastScheduledTime"].is_string());
    let told = plane.events("web").await;
    let expected =
        "ScheduleBindingSucceed Binding has been scheduled successfully. Result: {m1:2, m2:2}";
    assert_eq!(told, [expected, expected]);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_writes_the_status_first_says_what_scheduling_has_to_say() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let born = make(&plane, plain("conf", json!({}))).await;
    let status = plane.scheduler().report(Subject::of(&born)).expect("there is something to say");
    plane.patch_status("resourcebindings", "conf", json!(status)).await;
    plane.scheduler().reported(Subject::of(&born));
    let written = plane.binding("conf").await;
    assert_eq!(outcome(&written), ("m1".to_owned(), "Success".to_owned()));
    assert!(plane.scheduler().report(Subject::of(&read(written.clone()))).is_none());
    tokio::time::sleep(Duration::from_secs(5)).await;
    let later = plane.binding("conf").await;
    assert_eq!(later["metadata"]["resourceVersion"], written["metadata"]["resourceVersion"]);
    assert_eq!(plane.events("conf").await.len(), 2);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reports_wait_while_others_find_company_and_no_longer() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let mut others = Vec::new();
    for number in 0..5 {
        others.push(make(&plane, plain(&format!("other-{number}"), json!({}))).await);
    }
    make(&plane, plain("late", json!({}))).await;
    for other in others {
        let status = plane.scheduler().report(Subject::of(&other)).expect("it was not reported");
        plane.patch_status("resourcebindings", &other.metadata.name, json!(status)).await;
        plane.scheduler().reported(Subject::of(&other));
        tokio::time::sleep(Duration::from_millis(900)).await;
        assert_eq!(outcome(&plane.binding("late").await).1, "");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(outcome(&plane.binding("late").await).1, "Success");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_success_is_told_once_whoever_is_the_first_to_write_it() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let expected = "ScheduleBindingSucceed Binding has been scheduled successfully. Result: {m1:0}";
    for change in [json!({}), json!({"spec": {"conflictResolution": "Overwrite"}})] {
        let name = if change == json!({}) { "same" } else { "changed" };
        let born = make(&plane, plain(name, json!({}))).await;
        let status =
            plane.scheduler().report(Subject::of(&born)).expect("there is something to say");
        plane.patch_status("resourcebindings", name, json!(status)).await;
        plane.patch("resourcebindings", name, change).await;
        // Patience ends before the other one takes note of its own write.
        tokio::time::sleep(2 * PATIENCE).await;
        plane.scheduler().reported(Subject::of(&born));
        plane.settle().await;
        assert_eq!(plane.events(name).await, [expected, expected], "{name}");
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_any_more_is_reported_all_the_same() {
    let plane = Plane::with_clusters(&["m1", "m2"]).await;
    let born = make(&plane, divided("web", 4)).await;
    plane.scheduler().reported(Subject::of(&born));
    tokio::time::sleep(2 * PATIENCE).await;
    let binding = plane.binding("web").await;
    assert_eq!(outcome(&binding), ("m1:2 m2:2".to_owned(), "Success".to_owned()));
    assert_eq!(binding["metadata"]["generation"], 1);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_changed_since_it_was_made_is_decided_on_anew() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let born = make(&plane, plain("conf", json!({}))).await;
    let named = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    plane.patch("resourcebindings", "conf", json!({"spec": {"placement": named}})).await;
    let changed = read(plane.binding("conf").await);
    assert!(plane.scheduler().report(Subject::of(&changed)).is_none());
    assert_eq!(born.metadata.generation, 1);
    assert_eq!(plane.outcome("conf").await.1, "NoClusterFit");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_what_fits_and_is_this_schedulers_is_placed_at_once() {
    let plane = Plane::with_clusters(&["m1"]).await;
    let nowhere = plain("a", json!({"clusterAffinity": {"clusterNames": ["m9"]}}));
    let mut foreign = plain("b", json!({}));
    foreign["spec"]["schedulerName"] = "another".into();
    let mut suspended = plain("c", json!({}));
    suspended["spec"]["suspension"] = json!({"scheduling": true});
    let mut orphan = plain("d", json!({}));
    orphan["metadata"]["labels"] = json!({});
    for binding in [nowhere, foreign, suspended, orphan] {
        let binding = read(binding);
        assert_eq!(
            plane.scheduler().place(Subject::of(&binding)),
            None,
            "{}",
            binding.metadata.name
        );
    }
    plane.stop().await;
}

//! Work that is not done.

use karmada_apimachinery::json;
use karmada_testkit::{World, gvr};

use crate::pieces::*;

const ALL: &str = "placement: {clusterAffinity: {clusterNames: [m1, m2]}}";

async fn busy_world(seed: u64) -> World {
    let world = World::of(seed, 2).await;
    for number in 0..3 {
        let name = format!("app{number}");
        world.apply(&deployment(&name, 2)).await;
        world.apply(&deployment_policy(&name, ALL)).await;
        world.apply(&config_map(&name, "1")).await;
        let of = ("v1", "ConfigMap", &*name);
        world.apply(&policy(&format!("conf-{name}"), of, ALL)).await;
    }
    let ready = async |world: &World| {
        let object = world.get("deployments.apps", "default", "app2").await.unwrap();
        object["status"]["readyReplicas"] == 4 && value(world, "m2", "app2").await.is_some()
    };
    world.eventually("everything runs", ready).await;
    world.advance(seconds(600)).await;
    world
}

fn all_writes(world: &World) -> (i64, i64, i64) {
    (world.writes(), world.member("m1").writes(), world.member("m2").writes())
}

#[tokio::test(start_paused = true)]
async fn an_idle_hour_writes_nothing() {
    let world = busy_world(31).await;
    // The events of the beginning end with their hour.
    world.advance(seconds(4000)).await;
    let before = all_writes(&world);
    world.advance(seconds(3600)).await;
    assert_eq!(all_writes(&world), before, "{}", world.trace());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_nothing_changed_writes_nothing_anywhere() {
    let mut world = busy_world(32).await;
    let before = all_writes(&world);
    world.restart_controllers().await;
    world.advance(seconds(120)).await;
    assert_eq!(all_writes(&world), before, "{}", world.trace());
    world.kill_plane().await;
    world.advance(seconds(120)).await;
    assert_eq!(all_writes(&world), before, "{}", world.trace());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_a_policy_that_changes_nothing_downstream_writes_nothing_downstream() {
    let world = busy_world(33).await;
    let members = (world.member("m1").writes(), world.member("m2").writes());
    let works = async || {
        let listed = world.client.api(&gvr(WORKS)).list_all(&Default::default()).await.unwrap();
        let versions = listed.items.iter().map(|w| w.resource_version().to_owned());
        versions.collect::<Vec<_>>()
    };
    let before = works().await;
    // Another way to say the same, and a wish that concerns only later conflicts.
    let same = "placement: {clusterAffinity: {exclude: [m9], clusterNames: [m2, m1]}}";
    world.apply(&deployment_policy("app0", same)).await;
    world.advance(seconds(60)).await;
    assert_eq!(works().await, before, "{}", world.trace());
    assert_eq!((world.member("m1").writes(), world.member("m2").writes()), members);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_states_in_a_member_is_written_few_times() {
    let world = busy_world(34).await;
    let inside = world.member("m1").client().api(&gvr("deployments.apps")).namespaced("default");
    let before = world.writes();
    for turn in 0..200 {
        let ready = 1 + turn % 2;
        let status = json!({"status": {"readyReplicas": ready, "availableReplicas": ready}});
        let patch = karmada_client::Patch::Merge(status);
        inside.patch_subresource("app0", "status", &patch, &Default::default()).await.unwrap();
        world.advance(std::time::Duration::from_millis(5)).await;
    }
    world.advance(seconds(30)).await;
    let written = world.writes() - before;
    assert!(0 < written && written <= 60, "{written} writes for 200 states within a second");
    println!("200 states within a second: {written} writes to the control plane");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_costs_few_writes() {
    let world = World::of(35, 2).await;
    world.advance(seconds(600)).await;
    let before = world.writes();
    const COUNT: i64 = 10;
    for number in 0..COUNT {
        let name = format!("app{number}");
        world.apply(&deployment(&name, 2)).await;
        world.apply(&deployment_policy(&name, ALL)).await;
    }
    let ready = async |world: &World| {
        let object = world.get("deployments.apps", "default", "app9").await.unwrap();
        object["status"]["readyReplicas"] == 4
    };
    world.eventually("everything runs", ready).await;
    world.advance(seconds(60)).await;
    let events = world.client.api(&gvr("events")).list_all(&Default::default()).await.unwrap();
    let each = (world.writes() - before) as f64 / COUNT as f64;
    let told = events.items.len() as f64 / COUNT as f64;
    println!(
        "{each:.1} writes per Deployment with its policy to two members, {told:.1} of them events"
    );
    assert!(each - told <= 22.0, "{each} writes per Deployment, {told} of them events");
    world.stop().await;
}

//! What is over leaves nothing behind: neither a world nor a member that left.

use karmada_api::features::Gates;
use karmada_registration::Unjoin;
use karmada_testkit::{Options, World};

use crate::pieces::*;

/// A world that has everything at work: both scopes, dependencies, a failover, a killed control plane.
async fn live(seed: u64) -> World {
    let gates = Gates::parse("Failover=true").unwrap();
    let mut options = Options { gates, ..Options::seeded(seed) };
    options.controllers.enable_no_execute_taint_eviction = true;
    let mut world = World::start(options, 2).await;
    world.apply(&deployment("web", 2)).await;
    let both = "\npropagateDeps: true\nplacement: {clusterAffinity: {clusterNames: [m1, m2]}}";
    world.apply(&deployment_policy("web", both)).await;
    world
        .eventually("it is delivered", async |world| {
            has(world, "m2", "deployments.apps", "web").await
        })
        .await;
    world.kill_controllers();
    world.advance(seconds(30)).await;
    world.restart_controllers().await;
    world.advance(seconds(30)).await;
    world
}

#[test]
fn nothing_of_a_world_survives_it() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.unwrap();
    let signs = runtime.block_on(async {
        let mut world = live(401).await;
        let mut signs = world.signs_of_life();
        world.kill_plane().await;
        world.advance(seconds(30)).await;
        signs.extend(world.signs_of_life());
        world.stop().await;
        signs
    });
    drop(runtime);
    let left: Vec<_> = signs.iter().filter(|(_, sign)| sign.strong_count() > 0).collect();
    assert!(left.is_empty(), "{:?}", left.iter().map(|(what, _)| what).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_member_survives_its_leaving() {
    let world = live(402).await;
    assert!(world.ways_to("m2") > 0);
    let unjoin = Unjoin { wait: seconds(300), ..Unjoin::named("m2") };
    world.unjoin(&unjoin).await.unwrap();
    // Requests that are under way end.
    world.advance(seconds(120)).await;
    assert_eq!(world.ways_to("m2"), 0);
    assert!(world.ways_to("m1") > 0);
    world.stop().await;
}

//! One seed, one story: whatever happens in a world happens again, in the same order and at the
//! same instants. And virtual time costs only what is done in it.

use std::time::{Duration, Instant};

use karmada_testkit::World;

fn run<T>(story: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(story)
}

const SHOP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: prices, namespace: default}
data: {apple: '1'}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, namespace: default, labels: {app: shop}}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: shop:1}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: all, namespace: default}
spec:
  resourceSelectors:
  - {apiVersion: apps/v1, kind: Deployment}
  - {apiVersion: v1, kind: ConfigMap}
  placement: {clusterAffinity: {clusterNames: [m1, m2]}}
";

/// Flapping clusters, a kill, an edit, a policy that moves.
async fn story(seed: u64) -> String {
    let mut world = World::of(seed, 2).await;
    world.apply(SHOP).await;
    world.advance(Duration::from_secs(5)).await;
    world.member("m1").faults().error_rate(0.3);
    for _ in 0..5 {
        world.member("m2").partition();
        world.advance(Duration::from_secs(50)).await;
        world.member("m2").heal();
        world.advance(Duration::from_secs(50)).await;
    }
    world.kill_controllers();
    world.contend(100);
    world.apply(&SHOP.replace("apple: '1'", "apple: '2'").replace("[m1, m2]", "[m2]")).await;
    world.advance(Duration::from_secs(300)).await;
    world.contend(0);
    world.kill_plane().await;
    world.member("m1").heal();
    world.advance(Duration::from_secs(300)).await;
    let trace = world.trace();
    world.stop().await;
    trace
}

#[test]
fn the_same_seed_tells_the_same_story_byte_by_byte() {
    let (one, other, another) = (run(story(11)), run(story(11)), run(story(12)));
    let differs = one.lines().zip(other.lines()).position(|(one, other)| one != other);
    if let Some(line) = differs {
        let around = |text: &str| {
            let lines: Vec<&str> = text.lines().skip(line.saturating_sub(5)).take(15).collect();
            lines.join("\n")
        };
        panic!("line {line} differs:\n{}\n---- and ----\n{}", around(&one), around(&other));
    }
    assert_eq!(one, other);
    assert_ne!(one, another, "another seed fails other requests");
    assert!(one.contains("m2 deleted") || one.contains("m1 deleted ConfigMap"), "{one}");
}

#[test]
fn an_hour_costs_what_is_done_in_it() {
    let (idle, flapping) = run(async {
        let world = World::of(3, 2).await;
        world.apply(SHOP).await;
        world.advance(Duration::from_secs(60)).await;
        let began = Instant::now();
        world.advance(Duration::from_secs(3600)).await;
        let idle = began.elapsed();
        let began = Instant::now();
        for _ in 0..9 {
            world.member("m1").partition();
            world.advance(Duration::from_secs(50)).await;
            world.member("m1").heal();
            world.advance(Duration::from_secs(50)).await;
        }
        let flapping = began.elapsed();
        world.eventually("m1 is well", async |world| world.is_ready("m1").await).await;
        world.stop().await;
        (idle, flapping)
    });
    println!(
        "two members: an idle hour {idle:?}, a quarter with one of them flapping {flapping:?}"
    );
}

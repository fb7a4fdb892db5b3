//! Where a workload goes, by every way a policy has to say it. One row, one policy.

use karmada_apimachinery::json;
use karmada_testkit::{World, gvr};

use crate::pieces::*;

/// Three members: m1 and m2 in the north, m3 in the south and tainted; m2 is gold.
async fn fleet(seed: u64) -> World {
    let world = World::of(seed, 3).await;
    let clusters = world.client.api(&gvr(CLUSTERS));
    let rows = [
        (
            "m1",
            json!({"metadata": {"labels": {"tier": "silver"}},
            "spec": {"region": "north", "zones": ["n1"], "provider": "acme"}}),
        ),
        (
            "m2",
            json!({"metadata": {"labels": {"tier": "gold"}},
            "spec": {"region": "north", "zones": ["n2"], "provider": "acme"}}),
        ),
        (
            "m3",
            json!({"metadata": {"labels": {"tier": "silver"}},
            "spec": {"region": "south", "zones": ["s1"], "provider": "best",
                "taints": [{"key": "soft", "value": "yes", "effect": "NoSchedule"}]}}),
        ),
    ];
    for (name, patch) in rows {
        clusters.merge_patch(name, patch).await.unwrap();
    }
    world.advance(seconds(15)).await;
    world
}

const TOLERANT: &str = "clusterTolerations: [{key: soft, operator: Exists}]";

/// (name, placement, replicas of the template, where they go)
const ROWS: &[(&str, &str, i64, &str)] = &[
    ("everywhere", "{clusterAffinity: {}}", 2, "m1:2 m2:2"),
    ("by-name", "{clusterAffinity: {clusterNames: [m2]}}", 2, "m2:2"),
    ("by-label", "{clusterAffinity: {labelSelector: {matchLabels: {tier: gold}}}}", 2, "m2:2"),
    (
        "by-expression",
        "{clusterAffinity: {labelSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]}}}",
        2,
        "m1:2",
    ),
    (
        "by-field",
        "{clusterAffinity: {fieldSelector: {matchExpressions: [{key: region, operator: In, values: [north]}]}}}",
        2,
        "m1:2 m2:2",
    ),
    (
        "by-provider",
        "{clusterAffinity: {fieldSelector: {matchExpressions: [{key: provider, operator: NotIn, values: [acme]}]}}, TOLERANT}",
        2,
        "m3:2",
    ),
    (
        "by-zone",
        "{clusterAffinity: {fieldSelector: {matchExpressions: [{key: zone, operator: In, values: [n1]}]}}}",
        2,
        "m1:2",
    ),
    ("exclude", "{clusterAffinity: {exclude: [m1]}}", 2, "m2:2"),
    ("tolerant", "{clusterAffinity: {}, TOLERANT}", 2, "m1:2 m2:2 m3:2"),
    (
        "first-group",
        "{clusterAffinities: [{affinityName: a, clusterNames: [m1]}, {affinityName: b, clusterNames: [m2]}]}",
        2,
        "m1:2",
    ),
    (
        "second-group",
        "{clusterAffinities: [{affinityName: a, clusterNames: [m9]}, {affinityName: b, clusterNames: [m2]}]}",
        2,
        "m2:2",
    ),
    (
        "static-weights",
        "{clusterAffinity: {clusterNames: [m1, m2]}, replicaScheduling: {replicaSchedulingType: Divided, \
         replicaDivisionPreference: Weighted, weightPreference: {staticWeightList: [\
         {targetCluster: {clusterNames: [m1]}, weight: 2}, {targetCluster: {clusterNames: [m2]}, weight: 1}]}}}",
        6,
        "m1:4 m2:2",
    ),
    (
        "equal-weights",
        "{clusterAffinity: {clusterNames: [m1, m2]}, replicaScheduling: {replicaSchedulingType: Divided, \
         replicaDivisionPreference: Weighted}}",
        6,
        "m1:3 m2:3",
    ),
    (
        "dynamic-weights",
        "{clusterAffinity: {clusterNames: [m1, m2]}, replicaScheduling: {replicaSchedulingType: Divided, \
         replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}}",
        6,
        "m1:3 m2:3",
    ),
    (
        "aggregated",
        "{clusterAffinity: {clusterNames: [m2]}, replicaScheduling: {replicaSchedulingType: Divided, \
         replicaDivisionPreference: Aggregated}}",
        6,
        "m2:6",
    ),
    (
        "spread-over-regions",
        "{clusterAffinity: {}, TOLERANT, spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, \
         {spreadByField: cluster, minGroups: 3, maxGroups: 3}]}",
        2,
        "m1:2 m2:2 m3:2",
    ),
];

#[tokio::test(start_paused = true)]
async fn every_way_to_choose_clusters_leads_where_it_says() {
    let world = fleet(41).await;
    for (name, placement, replicas, _) in ROWS {
        let placement = placement.replace("TOLERANT", TOLERANT);
        world.apply(&deployment(name, *replicas)).await;
        world.apply(&deployment_policy(name, &format!("placement: {placement}"))).await;
    }
    world.advance(seconds(20)).await;
    for (name, _, _, expected) in ROWS {
        assert_eq!(placed(&world, &format!("{name}-deployment")).await, *expected, "{name}");
        for share in expected.split(' ') {
            let (member, replicas) = share.split_once(':').unwrap();
            let object = world.member(member).get("deployments.apps", "default", name).await;
            let object = object.unwrap_or_else(|| panic!("{member} has no {name}"));
            assert_eq!(object["spec"]["replicas"].to_string(), replicas, "{name} in {member}");
        }
    }
    world.stop().await;
}

const AGGREGATED: &str = "placement: {clusterAffinity: {}, replicaScheduling: \
                          {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}";

/// How many replicas each chosen cluster has.
async fn shares(world: &World, binding: &str) -> Vec<i64> {
    let placed = placed(world, binding).await;
    let shares = placed.split_whitespace().filter_map(|share| share.split_once(':'));
    shares.filter_map(|(_, replicas)| replicas.parse().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn aggregated_division_takes_one_cluster_if_one_has_room_for_all() {
    let world = World::of(45, 3).await;
    world.apply(&deployment("web", 6)).await;
    world.apply(&deployment_policy("web", AGGREGATED)).await;
    let is_placed = async |world: &World| !shares(world, "web-deployment").await.is_empty();
    world.eventually("it is placed", is_placed).await;
    world.advance(seconds(20)).await;
    assert_eq!(shares(&world, "web-deployment").await, [6]);
    let placed = placed(&world, "web-deployment").await;
    for member in ["m1", "m2", "m3"] {
        let is_chosen = placed.starts_with(member);
        assert_eq!(has(&world, member, "deployments.apps", "web").await, is_chosen, "{member}");
    }
    world.stop().await;
}

/// A member takes 330 pods.
#[tokio::test(start_paused = true)]
async fn aggregated_division_takes_no_more_clusters_than_have_room_together() {
    let world = World::of(46, 3).await;
    world.apply(&deployment("wide", 400)).await;
    world.apply(&deployment_policy("wide", AGGREGATED)).await;
    let is_placed = async |world: &World| !shares(world, "wide-deployment").await.is_empty();
    world.eventually("it is placed", is_placed).await;
    let shares = shares(&world, "wide-deployment").await;
    assert_eq!((shares.len(), shares.iter().sum::<i64>()), (2, 400), "{shares:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_most_so_many_clusters_are_taken_by_a_spread() {
    let world = fleet(42).await;
    world.apply(&deployment("one", 2)).await;
    let spread = "placement: {clusterAffinity: {}, spreadConstraints: \
                  [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}";
    world.apply(&deployment_policy("one", spread)).await;
    let placed_once = async |world: &World| {
        let placed = placed(world, "one-deployment").await;
        placed == "m1:2" || placed == "m2:2"
    };
    world.eventually("one cluster is taken", placed_once).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_changes_its_mind_moves_the_workload() {
    let world = fleet(43).await;
    world.apply(&deployment("web", 2)).await;
    world
        .apply(&deployment_policy("web", "placement: {clusterAffinity: {clusterNames: [m1]}}"))
        .await;
    let first = async |world: &World| has(world, "m1", "deployments.apps", "web").await;
    world.eventually("the first cluster has it", first).await;
    world
        .apply(&deployment_policy("web", "placement: {clusterAffinity: {clusterNames: [m2]}}"))
        .await;
    let second = async |world: &World| has(world, "m2", "deployments.apps", "web").await;
    world.eventually("the second cluster has it", second).await;
    eventually_gone(&world, "m1", "deployments.apps", "web").await;
    world.stop().await;
}

//! What differs from cluster to cluster: every overrider, on both scopes.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_testkit::World;

use crate::pieces::*;

const ALL: &str = "placement: {clusterAffinity: {clusterNames: [m1, m2]}}";

/// (name, overriders, where to look, what m1 shows, what m2 shows)
const ROWS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "image",
        "imageOverrider: [{component: Registry, operator: replace, value: near.example}]",
        "/spec/template/spec/containers/0/image",
        "\"near.example/shop/web:1.0\"",
        "\"registry.example/shop/web:1.0\"",
    ),
    (
        "tag",
        "imageOverrider: [{component: Tag, operator: replace, value: '2.0'}]",
        "/spec/template/spec/containers/0/image",
        "\"registry.example/shop/web:2.0\"",
        "\"registry.example/shop/web:1.0\"",
    ),
    (
        "command",
        "commandOverrider: [{containerName: web, operator: add, value: [--fast]}]",
        "/spec/template/spec/containers/0/command",
        "[\"serve\",\"--fast\"]",
        "[\"serve\"]",
    ),
    (
        "args",
        "argsOverrider: [{containerName: web, operator: remove, value: ['--port=80']}]",
        "/spec/template/spec/containers/0/args",
        "null",
        "[\"--port=80\"]",
    ),
    (
        "labels",
        "labelsOverrider: [{operator: add, value: {city: oslo}}]",
        "/metadata/labels/city",
        "\"oslo\"",
        "null",
    ),
    (
        "annotations",
        "annotationsOverrider: [{operator: add, value: {city: oslo}}]",
        "/metadata/annotations/city",
        "\"oslo\"",
        "null",
    ),
    (
        "plaintext",
        "plaintext: [{path: /spec/minReadySeconds, operator: add, value: 7}]",
        "/spec/minReadySeconds",
        "7",
        "null",
    ),
];

fn alteration(scope: &str, name: &str, overriders: &str) -> String {
    let namespace = if scope == "OverridePolicy" { ", namespace: default" } else { "" };
    format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: {scope}
metadata: {{name: {name}{namespace}}}
spec:
  resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: {name}}}]
  overrideRules:
  - targetCluster: {{clusterNames: [m1]}}
    overriders: {{{overriders}}}
"
    )
}

async fn shown(world: &World, member: &str, name: &str, path: &str) -> String {
    let object = world.member(member).get("deployments.apps", "default", name).await;
    let object = object.unwrap_or_default();
    object.pointer(path).map_or_else(|| "null".to_owned(), Value::to_string)
}

#[tokio::test(start_paused = true)]
async fn every_overrider_of_both_scopes_changes_its_cluster_and_no_other() {
    let world = World::of(51, 2).await;
    for scope in ["OverridePolicy", "ClusterOverridePolicy"] {
        let prefix = &scope[..1].to_lowercase();
        for (name, overriders, ..) in ROWS {
            let name = format!("{prefix}-{name}");
            world.apply(&alteration(scope, &name, overriders)).await;
            world.apply(&deployment(&name, 1)).await;
            world.apply(&deployment_policy(&name, ALL)).await;
        }
    }
    world.advance(seconds(20)).await;
    for prefix in ["o", "c"] {
        for (name, _, path, altered, plain) in ROWS {
            let name = format!("{prefix}-{name}");
            assert_eq!(shown(&world, "m1", &name, path).await, *altered, "{name}");
            assert_eq!(shown(&world, "m2", &name, path).await, *plain, "{name}");
        }
    }
    world.stop().await;
}

const PAPERS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME, namespace: default}
data:
  a.json: '{\"db\":{\"host\":\"far\",\"port\":5432}}'
  b.yaml: |
    db:
      host: far
      pool: 5
";

const INSIDE: &str = "fieldOverrider: [\
    {fieldPath: /data/a.json, json: [{subPath: /db/host, operator: replace, value: near}, \
     {subPath: /db/port, operator: remove}]}, \
    {fieldPath: /data/b.yaml, yaml: [{subPath: /db/host, operator: replace, value: near}, \
     {subPath: /db/tls, operator: add, value: true}]}]";

#[tokio::test(start_paused = true)]
async fn documents_inside_a_field_differ_from_cluster_to_cluster() {
    let world = World::of(53, 2).await;
    for (scope, name) in [("OverridePolicy", "own"), ("ClusterOverridePolicy", "wide")] {
        let policy = alteration(scope, name, INSIDE).replace("apps/v1", "v1");
        world.apply(&policy.replace("kind: Deployment", "kind: ConfigMap")).await;
        world.apply(&PAPERS.replace("NAME", name)).await;
        world.apply(&config_policy(name, ALL)).await;
        for (member, papers) in [
            ("m1", [r#"{"db":{"host":"near"}}"#, "db:\n  host: near\n  pool: 5\n  tls: true\n"]),
            ("m2", [r#"{"db":{"host":"far","port":5432}}"#, "db:\n  host: far\n  pool: 5\n"]),
        ] {
            let there = async |world: &World| has(world, member, "configmaps", name).await;
            world.eventually("the member has it", there).await;
            let map = world.member(member).get("configmaps", "default", name).await.unwrap();
            let found = ["a.json", "b.yaml"].map(|key| map["data"][key].as_str().unwrap());
            assert_eq!(found, papers, "{name} in {member}");
        }
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_override_that_comes_changes_and_goes_is_followed() {
    let world = World::of(52, 2).await;
    world.apply(&deployment("web", 1)).await;
    world.apply(&deployment_policy("web", ALL)).await;
    let city =
        |name: &str| format!("labelsOverrider: [{{operator: add, value: {{city: {name}}}}}]");
    for (overriders, expected) in [(city("oslo"), "\"oslo\""), (city("rome"), "\"rome\"")] {
        world.apply(&alteration("OverridePolicy", "web", &overriders)).await;
        let there = async |world: &World| {
            shown(world, "m1", "web", "/metadata/labels/city").await == expected
        };
        world.eventually("the label is set", there).await;
    }
    delete(&world, "overridepolicies.v1alpha1.policy.karmada.io", "default", "web").await;
    let gone =
        async |world: &World| shown(world, "m1", "web", "/metadata/labels/city").await == "null";
    world.eventually("the label is gone", gone).await;
    let object = world.member("m1").get("deployments.apps", "default", "web").await.unwrap();
    assert_eq!(object.label("app"), Some("web"));
    world.stop().await;
}

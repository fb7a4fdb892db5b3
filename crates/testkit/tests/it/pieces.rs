//! Objects most stories are made of, and the questions they ask.

use std::time::Duration;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::DeleteOptions;
use karmada_testkit::{World, gvr};

pub(crate) const BINDINGS: &str = "resourcebindings.v1alpha2.work.karmada.io";
pub(crate) const CLUSTER_BINDINGS: &str = "clusterresourcebindings.v1alpha2.work.karmada.io";
pub(crate) const WORKS: &str = "works.v1alpha1.work.karmada.io";
pub(crate) const POLICIES: &str = "propagationpolicies.v1alpha1.policy.karmada.io";
pub(crate) const CLUSTERS: &str = "clusters.v1alpha1.cluster.karmada.io";

pub(crate) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) fn deployment(name: &str, replicas: i64) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: web
        image: registry.example/shop/web:1.0
        command: [serve]
        args: ['--port=80']
"
    )
}

pub(crate) fn config_map(name: &str, value: &str) -> String {
    format!(
        "
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: default}}
data: {{v: '{value}'}}
"
    )
}

/// A policy for one object; `rest` is the rest of the spec, as YAML on one line per field.
pub(crate) fn policy(name: &str, (api, kind, object): (&str, &str, &str), rest: &str) -> String {
    let rest = rest.trim().replace('\n', "\n  ");
    format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: default}}
spec:
  resourceSelectors:
  - {{apiVersion: {api}, kind: {kind}, name: {object}}}
  {rest}
"
    )
}

pub(crate) fn deployment_policy(name: &str, rest: &str) -> String {
    policy(name, ("apps/v1", "Deployment", name), rest)
}

pub(crate) fn config_policy(name: &str, rest: &str) -> String {
    policy(name, ("v1", "ConfigMap", name), rest)
}

/// Where a binding puts its workload: `m1:2 m2:1`.
pub(crate) async fn placed(world: &World, binding: &str) -> String {
    let binding = world.get(BINDINGS, "default", binding).await.unwrap_or_default();
    let shares = binding.list_at(&["spec", "clusters"]).iter();
    let share = |target: &Value| {
        let name = target.str_at(&["name"]).unwrap_or_default();
        format!("{name}:{}", target.i64_at(&["replicas"]).unwrap_or_default())
    };
    let mut shares: Vec<String> = shares.map(share).collect();
    shares.sort();
    shares.join(" ")
}

pub(crate) async fn has(world: &World, member: &str, resource: &str, name: &str) -> bool {
    world.member(member).get(resource, "default", name).await.is_some()
}

/// The value of a config map in a member.
pub(crate) async fn value(world: &World, member: &str, name: &str) -> Option<String> {
    let object = world.member(member).get("configmaps", "default", name).await?;
    object.str_at(&["data", "v"]).map(str::to_owned)
}

pub(crate) async fn eventually_value(world: &World, member: &str, name: &str, wanted: &str) {
    let what = format!("{member} has {name} = {wanted}");
    let is_there =
        async |world: &World| value(world, member, name).await.as_deref() == Some(wanted);
    world.eventually(&what, is_there).await;
}

pub(crate) async fn eventually_gone(world: &World, member: &str, resource: &str, name: &str) {
    let what = format!("{name} is gone from {member}");
    world.eventually(&what, async |world| !has(world, member, resource, name).await).await;
}

pub(crate) async fn delete(world: &World, resource: &str, namespace: &str, name: &str) {
    let api = world.client.api(&gvr(resource)).namespaced(namespace);
    api.delete(name, &DeleteOptions::default()).await.unwrap();
}

/// The condition of an object: its status and message.
pub(crate) fn condition(object: &Value, kind: &str) -> Option<(String, String)> {
    let conditions = object.list_at(&["status", "conditions"]);
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    let word = |field: &str| found.str_at(&[field]).unwrap_or_default().to_owned();
    Some((word("status"), word("message")))
}

/// The Work of an object in a cluster.
pub(crate) async fn work(world: &World, cluster: &str, kind: &str, name: &str) -> Option<Value> {
    let works = world.client.api(&gvr(WORKS)).namespaced(&format!("karmada-es-{cluster}"));
    let all = works.list_all(&karmada_client::ListOptions::default()).await.unwrap();
    let holds = |work: &Value| {
        let manifests = work.list_at(&["spec", "workload", "manifests"]);
        manifests.iter().any(|object| object["kind"] == kind && object.name() == name)
    };
    all.items.iter().map(|work| work.value()).find(holds)
}

/// Gives members a kind the control plane knows, and waits until that is known there.
pub(crate) async fn copy_definition(world: &World, definition: &str, members: &[&str]) {
    let definitions = gvr("customresourcedefinitions.apiextensions.k8s.io");
    let mut object = world.client.api(&definitions).get(definition).await.unwrap();
    object["metadata"] = json!({"name": definition});
    object["status"] = json!({});
    let group = object["spec"]["group"].as_str().unwrap().to_owned();
    for member in members {
        world.member(member).client().api(&definitions).create(&object).await.unwrap();
        let known = async |world: &World| {
            let cluster = world.cluster(member).await.unwrap();
            let mut served = cluster.status.api_enablements.iter();
            served.any(|enabled| enabled.group_version.starts_with(&group))
        };
        world.eventually("the kind is known", known).await;
    }
}

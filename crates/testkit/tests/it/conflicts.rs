//! Objects in a member that somebody else made, or meddles with.

use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, DeleteOptions};
use karmada_testkit::{Options, World, gvr};

use crate::pieces::*;

const ONE: &str = "placement: {clusterAffinity: {clusterNames: [m1]}}";
const TAKES: &str =
    "conflictResolution: Overwrite\nplacement: {clusterAffinity: {clusterNames: [m1]}}";

/// A resource in a member, as somebody inside sees it.
fn inside(world: &World, resource: &str) -> Api {
    world.member("m1").client().api(&gvr(resource)).namespaced("default")
}

/// Lets the member take no other config map.
async fn fill_quota(world: &World) {
    let quota = json!({"metadata": {"name": "full"}, "spec": {"hard": {"configmaps": "0"}}});
    inside(world, "resourcequotas").create(&quota).await.unwrap();
    let is_counted = async |world: &World| {
        let quota = world.member("m1").get("resourcequotas", "default", "full").await.unwrap();
        quota.str_at(&["status", "used", "configmaps"]).is_some()
    };
    world.eventually("the quota is counted", is_counted).await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_service_is_taken_over_although_its_node_port_is_in_use() {
    let world = World::of(81, 1).await;
    let own = json!({
        "metadata": {"name": "web"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]},
    });
    inside(&world, "services").create(&own).await.unwrap();
    let service = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, nodePort: 30080}]}
";
    world.apply(service).await;
    world.apply(&policy("web", ("v1", "Service", "web"), TAKES)).await;
    let taken = async |world: &World| {
        let service = world.member("m1").get("services", "default", "web").await.unwrap();
        service.str_at(&["spec", "selector", "app"]) == Some("web")
    };
    world.eventually("it is taken over", taken).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_is_taken_over_or_respected_although_a_quota_is_full() {
    let world = World::of(82, 1).await;
    for name in ["overwrite", "abort"] {
        let own = json!({"metadata": {"name": name}, "data": {"v": "mine"}});
        inside(&world, "configmaps").create(&own).await.unwrap();
    }
    fill_quota(&world).await;
    for (name, rest) in [("overwrite", TAKES), ("abort", ONE), ("new", ONE)] {
        world.apply(&config_map(name, "yours")).await;
        world.apply(&config_policy(name, rest)).await;
    }
    eventually_value(&world, "m1", "overwrite", "yours").await;
    world.advance(seconds(30)).await;
    assert_eq!(value(&world, "m1", "abort").await.as_deref(), Some("mine"));
    for (name, why) in [
        (
            "abort",
            "resource(kind=ConfigMap, default/abort) already exists in the cluster m1 and the \
             work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource",
        ),
        (
            "new",
            "configmaps \"new\" is forbidden: exceeded quota: full, requested: configmaps=1, used: \
             configmaps=3, limited: configmaps=0",
        ),
    ] {
        let work = work(&world, "m1", "ConfigMap", name).await.unwrap();
        let (applied, message) = condition(&work, "Applied").unwrap();
        assert_eq!(applied, "False");
        assert_eq!(message, format!("Failed to apply all manifests (0/1): {why}"));
    }
    world.stop().await;
}

const REFERENCE: [&str; 2] = ["work.karmada.io/namespace", "work.karmada.io/name"];

async fn names_its_work(world: &World, name: &str) -> bool {
    let object = world.member("m1").get("configmaps", "default", name).await.unwrap_or_default();
    object.annotation(REFERENCE[0]) == Some("karmada-es-m1")
        && object.annotation(REFERENCE[1]).is_some_and(|name| name != "other")
}

#[tokio::test(start_paused = true)]
async fn an_object_that_no_longer_names_its_work_is_still_watched_over() {
    let world = World::of(83, 1).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ONE)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    world.advance(seconds(10)).await;
    let inside = inside(&world, "configmaps");
    let [namespace, name] = REFERENCE;
    for annotations in [
        json!({namespace: null, name: null}),
        json!({name: null}),
        json!({name: "other"}),
        json!({namespace: "karmada-es-m9"}),
    ] {
        let patch = json!({"metadata": {"annotations": annotations}});
        inside.merge_patch("conf", patch).await.unwrap();
        let restored = async |world: &World| names_its_work(world, "conf").await;
        world.eventually("the reference is back", restored).await;
        inside.merge_patch("conf", json!({"data": {"v": "wrong"}})).await.unwrap();
        eventually_value(&world, "m1", "conf", "1").await;
        // It may go before anybody came to restore it.
        inside
            .merge_patch("conf", json!({"metadata": {"annotations": annotations}}))
            .await
            .unwrap();
        inside.delete("conf", &DeleteOptions::default()).await.unwrap();
        eventually_value(&world, "m1", "conf", "1").await;
        assert!(names_its_work(&world, "conf").await);
    }
    world.stop().await;
}

/// A definition of things that have their status in the object itself.
fn things(color: &str) -> String {
    format!(
        "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: things.example.com}}
spec:
  group: example.com
  names: {{plural: things, singular: thing, kind: Thing, listKind: ThingList}}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
        properties:
          spec:
            type: object
            x-kubernetes-preserve-unknown-fields: true
            properties: {{color: {{type: string{color}}}}}
"
    )
}

#[tokio::test(start_paused = true)]
async fn a_status_inside_the_object_is_left_to_the_member() {
    let world = World::of(84, 1).await;
    world.apply(&things("")).await;
    // The member adds what the template does not say.
    let definitions = gvr("customresourcedefinitions.apiextensions.k8s.io");
    let definition = things(", default: red");
    let definition =
        karmada_apimachinery::decode::yaml_untyped(definition.as_bytes()).unwrap().value;
    world.member("m1").client().api(&definitions).create(&definition).await.unwrap();
    let known = async |world: &World| {
        let cluster = world.cluster("m1").await.unwrap();
        cluster.status.api_enablements.iter().any(|it| it.group_version == "example.com/v1")
    };
    world.eventually("the kind is known", known).await;
    world
        .apply("{apiVersion: example.com/v1, kind: Thing, metadata: {name: one, namespace: default}, spec: {size: 3}}")
        .await;
    world.apply(&policy("things", ("example.com/v1", "Thing", "one"), ONE)).await;
    let there = async |world: &World| has(world, "m1", "things.example.com", "one").await;
    world.eventually("it is delivered", there).await;
    world.advance(seconds(10)).await;
    let inside = inside(&world, "things.example.com");
    for phase in ["Starting", "Running"] {
        let before = world.member("m1").writes();
        inside.merge_patch("one", json!({"status": {"phase": phase}})).await.unwrap();
        world.advance(seconds(10)).await;
        let object = inside.get("one").await.unwrap();
        assert_eq!(object.str_at(&["status", "phase"]), Some(phase));
        assert_eq!(world.member("m1").writes(), before + 1, "{}", world.trace());
        let work = work(&world, "m1", "Thing", "one").await.unwrap();
        let status = &work.list_at(&["status", "manifestStatuses"])[0]["status"];
        assert_eq!(status.str_at(&["phase"]), Some(phase), "it is told of");
    }
    // What is not status is still taken back, whatever else came with it.
    let meddled = json!({"spec": {"size": 5}, "status": {"phase": "Odd"}});
    inside.merge_patch("one", meddled).await.unwrap();
    let restored = async |world: &World| {
        let object = world.member("m1").get("things.example.com", "default", "one").await.unwrap();
        object["spec"]["size"] == 3
    };
    world.eventually("it is taken back", restored).await;
    world.stop().await;
}

/// A binding nobody schedules: the test says where it goes.
async fn unscheduled(seed: u64) -> (World, Api) {
    let world = World::start(Options { scheduler: false, ..Options::seeded(seed) }, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ONE)).await;
    let bound = async |world: &World| world.get(BINDINGS, "default", "conf-configmap").await;
    world.eventually("there is a binding", async |world| bound(world).await.is_some()).await;
    let bindings = world.client.api(&gvr(BINDINGS)).namespaced("default");
    (world, bindings)
}

/// Lets others go on for a while that is too short for all of them.
async fn pass(turns: usize) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_goes_and_comes_back_at_once_is_delivered() {
    let (world, bindings) = unscheduled(85).await;
    let place = async |cluster: &str| {
        let patch = json!({"spec": {"clusters": [{"name": cluster}]}});
        bindings.merge_patch("conf-configmap", patch).await.unwrap();
    };
    place("m1").await;
    eventually_value(&world, "m1", "conf", "1").await;
    for turns in 0..20 {
        place("m2").await;
        pass(turns).await;
        place("m1").await;
        eventually_gone(&world, "m2", "configmaps", "conf").await;
        world.advance(seconds(5)).await;
        assert_eq!(value(&world, "m1", "conf").await.as_deref(), Some("1"), "after {turns} turns");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspension_that_comes_and_goes_at_once_leaves_nothing_suspended() {
    let (world, bindings) = unscheduled(86).await;
    let patch = json!({"spec": {"clusters": [{"name": "m1"}]}});
    bindings.merge_patch("conf-configmap", patch).await.unwrap();
    eventually_value(&world, "m1", "conf", "1").await;
    let suspend = async |dispatching: bool| {
        let patch = json!({"spec": {"suspension": {"dispatching": dispatching}}});
        bindings.merge_patch("conf-configmap", patch).await.unwrap();
    };
    for turns in 0..20 {
        suspend(true).await;
        pass(turns).await;
        suspend(false).await;
        world.advance(seconds(5)).await;
        let work = work(&world, "m1", "ConfigMap", "conf").await.unwrap();
        assert_eq!(work["spec"]["suspendDispatching"], false, "after {turns} turns");
    }
    world.stop().await;
}

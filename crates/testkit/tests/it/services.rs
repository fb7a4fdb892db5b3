//! Services across clusters: the pods of one cluster serve those of another.

use karmada_api::features::Gates;
use karmada_api::{annotations, finalizers, labels, names};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::ListOptions;
use karmada_registration::Unjoin;
use karmada_testkit::{Options, World, gvr};

use crate::agent;
use crate::pieces::*;

const SERVICES: &str = "multiclusterservices.v1alpha1.networking.karmada.io";
const SLICES: &str = "endpointslices.discovery.k8s.io";

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
";

/// The same for endpoints that somebody else writes down.
const SELECTORLESS: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {ports: [{name: http, port: 80}]}
";

async fn start(seed: u64, members: usize) -> World {
    let gates = Gates::parse("MultiClusterService=true").unwrap();
    World::start(Options { gates, ..Options::seeded(seed) }, members).await
}

fn multi_cluster_service(providers: &str, consumers: &str) -> String {
    let named = |clusters: &str| {
        let names = clusters.split_whitespace().map(|name| format!("{{name: {name}}}"));
        names.collect::<Vec<_>>().join(", ")
    };
    format!(
        "
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {{name: web, namespace: default}}
spec:
  types: [CrossCluster]
  providerClusters: [{}]
  consumerClusters: [{}]
",
        named(providers),
        named(consumers)
    )
}

/// Two pods of `web` in each of the clusters, and the service.
async fn deploy(world: &World, clusters: &str) {
    world.apply(&deployment("web", 2)).await;
    let there = format!("placement: {{clusterAffinity: {{clusterNames: [{clusters}]}}}}");
    world.apply(&deployment_policy("web", &there)).await;
    world.apply(SERVICE).await;
}

/// The slices of `web` in a member.
async fn slices(world: &World, member: &str) -> Vec<Value> {
    let of_web = format!("{}=web", labels::SLICE_SERVICE_NAME);
    let options = ListOptions { label_selector: of_web, ..ListOptions::default() };
    let api = world.member(member).client().api(&gvr(SLICES)).namespaced("default");
    api.list(&options).await.unwrap().items.iter().map(|slice| slice.value()).collect()
}

fn addresses<'a>(slices: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let endpoints = slices.flat_map(|slice| slice.list_at(&["endpoints"]));
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true);
    let addresses = ready.flat_map(|endpoint| endpoint.list_at(&["addresses"]));
    let mut addresses: Vec<String> =
        addresses.filter_map(Value::as_str).map(str::to_owned).collect();
    addresses.sort();
    addresses
}

/// The ready addresses a member has from another one.
async fn from(world: &World, provider: &str, member: &str) -> Vec<String> {
    let slices = slices(world, member).await;
    let is_from =
        |slice: &&Value| slice.annotation(annotations::PROVISION_CLUSTER) == Some(provider);
    addresses(slices.iter().filter(is_from))
}

/// The ready addresses of a member's own pods.
async fn own(world: &World, member: &str) -> Vec<String> {
    let slices = slices(world, member).await;
    let is_own = |slice: &&Value| slice.annotation(annotations::PROVISION_CLUSTER).is_none();
    addresses(slices.iter().filter(is_own))
}

/// Waits until a consumer has so many addresses of a provider, and exactly those that are ready there.
async fn eventually_served(world: &World, provider: &str, consumer: &str, count: usize) {
    let what = format!("{consumer} has {count} addresses of {provider}");
    let served = async |world: &World| {
        let (theirs, here) = (own(world, provider).await, from(world, provider, consumer).await);
        theirs.len() == count && theirs == here
    };
    world.eventually(&what, served).await;
}

async fn eventually_left(world: &World, provider: &str, consumer: &str) {
    let what = format!("{consumer} has nothing of {provider}");
    let is_left = async |world: &World| {
        let slices = slices(world, consumer).await;
        let provided = annotations::PROVISION_CLUSTER;
        !slices.iter().any(|slice| slice.annotation(provided) == Some(provider))
    };
    world.eventually(&what, is_left).await;
}

async fn scale(world: &World, replicas: i64) {
    let api = world.client.api(&gvr("deployments.apps")).namespaced("default");
    api.merge_patch("web", json!({"spec": {"replicas": replicas}})).await.unwrap();
}

/// The Works of a cluster that hold a slice.
async fn slice_works(world: &World, cluster: &str) -> Vec<Value> {
    let api = world.client.api(&gvr(WORKS)).namespaced(&names::execution_space(cluster));
    let all = api.list_all(&ListOptions::default()).await.unwrap();
    let works = all.items.iter().map(|work| work.value());
    let holds_slice = |work: &Value| {
        let manifests = work.list_at(&["spec", "workload", "manifests"]);
        manifests.iter().any(|manifest| manifest["kind"] == "EndpointSlice")
    };
    works.filter(holds_slice).collect()
}

fn manual_slice(address: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "web-manual", "namespace": "default",
            "labels": {labels::SLICE_SERVICE_NAME: "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 80}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
    })
}

fn all_writes(world: &World) -> Vec<i64> {
    let members = world.members();
    let members = members.iter().map(|member| world.member(member).writes());
    std::iter::once(world.writes()).chain(members).collect()
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_provider_reach_its_consumers_follow_its_pods_and_go_with_the_service() {
    let world = start(501, 3).await;
    deploy(&world, "m1").await;
    world.apply(&multi_cluster_service("m1", "m2")).await;
    eventually_served(&world, "m1", "m2", 2).await;
    world.advance(seconds(30)).await;
    let service = world.get(SERVICES, "default", "web").await.unwrap();
    let message = "Service is propagated to target clusters.".to_owned();
    assert_eq!(condition(&service, "ServiceApplied"), Some(("True".to_owned(), message)));
    let message = "EndpointSlice are dispatched successfully".to_owned();
    assert_eq!(condition(&service, "EndpointSliceDispatched"), Some(("True".to_owned(), message)));
    let collected = slice_works(&world, "m1").await;
    assert_eq!(collected.len(), 1);
    assert_eq!(collected[0].label("multiclusterservice.karmada.io/name"), Some("web"));
    assert_eq!(
        collected[0].label("endpointslice.karmada.io/managed-by"),
        Some("MultiClusterService")
    );
    assert_eq!(
        collected[0]["metadata"]["finalizers"],
        json!(["karmada.io/mcs-endpointslice-dispatch-controller"])
    );
    assert!(!has(&world, "m3", "services", "web").await, "neither provider nor consumer");
    scale(&world, 3).await;
    eventually_served(&world, "m1", "m2", 3).await;
    scale(&world, 1).await;
    eventually_served(&world, "m1", "m2", 1).await;
    delete(&world, SERVICES, "default", "web").await;
    eventually_left(&world, "m1", "m2").await;
    let gone = async |world: &World| world.get(SERVICES, "default", "web").await.is_none();
    world.eventually("the service is let go", gone).await;
    world.advance(seconds(30)).await;
    for member in ["m1", "m2"] {
        assert_eq!(slice_works(&world, member).await, [Value::Null; 0]);
        assert!(work(&world, member, "MultiClusterService", "web").await.is_none());
        assert!(has(&world, member, "services", "web").await, "the service itself stays");
    }
    let template = world.get("services", "default", "web").await.unwrap();
    assert_eq!(template.label(labels::CLAIMED_BY), None);
    let binding = world.get(BINDINGS, "default", "web-service").await.unwrap();
    assert_eq!(binding.label(labels::BINDING_MANAGED_BY), None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn clusters_that_name_nobody_serve_each_other() {
    let mut world = start(502, 2).await;
    deploy(&world, "m1, m2").await;
    world.apply(&multi_cluster_service("", "")).await;
    eventually_served(&world, "m1", "m2", 2).await;
    eventually_served(&world, "m2", "m1", 2).await;
    // Whoever joins takes part.
    world.join("m3", karmada_member_sim::Nodes::default()).await;
    eventually_served(&world, "m1", "m3", 2).await;
    eventually_served(&world, "m2", "m3", 2).await;
    assert_eq!(own(&world, "m3").await, [""; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slices_arrive_and_leave_although_a_fifth_of_all_writes_fails() {
    let world = start(510, 3).await;
    world.contend(200);
    deploy(&world, "m1, m2").await;
    world.apply(&multi_cluster_service("m1 m2", "m2 m3")).await;
    for (provider, consumer) in [("m1", "m2"), ("m1", "m3"), ("m2", "m3")] {
        eventually_served(&world, provider, consumer, 2).await;
    }
    world.apply(&multi_cluster_service("m1", "m3")).await;
    eventually_left(&world, "m1", "m2").await;
    eventually_left(&world, "m2", "m3").await;
    eventually_served(&world, "m1", "m3", 2).await;
    world.contend(0);
    delete(&world, SERVICES, "default", "web").await;
    world.contend(200);
    eventually_left(&world, "m1", "m3").await;
    let gone = async |world: &World| world.get(SERVICES, "default", "web").await.is_none();
    world.eventually("the service is let go", gone).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_exposed_is_taken_from_its_policy_and_given_back() {
    let world = start(503, 2).await;
    deploy(&world, "m1").await;
    let on_m1 = "placement: {clusterAffinity: {clusterNames: [m1]}}";
    world.apply(&policy("web-service", ("v1", "Service", "web"), on_m1)).await;
    let is_on_m1 = async |world: &World| has(world, "m1", "services", "web").await;
    world.eventually("the policy propagates it", is_on_m1).await;
    world.apply(&multi_cluster_service("m1", "m2")).await;
    eventually_served(&world, "m1", "m2", 2).await;
    let template = world.get("services", "default", "web").await.unwrap();
    assert_eq!(template.label(labels::CLAIMED_BY), Some("MultiClusterService"));
    assert_eq!(template.label(labels::PROPAGATION_POLICY_PERMANENT_ID), None);
    let binding = world.get(BINDINGS, "default", "web-service").await.unwrap();
    assert_eq!(binding.label(labels::BINDING_MANAGED_BY), Some("MultiClusterService"));
    assert_eq!(binding.label(labels::PROPAGATION_POLICY_PERMANENT_ID), None);
    // What is edited reaches everybody.
    let api = world.client.api(&gvr("services")).namespaced("default");
    api.merge_patch("web", json!({"spec": {"sessionAffinity": "ClientIP"}})).await.unwrap();
    let edited = async |world: &World| {
        let service = world.member("m2").get("services", "default", "web").await.unwrap();
        service["spec"]["sessionAffinity"] == "ClientIP"
    };
    world.eventually("m2 has the edit", edited).await;
    delete(&world, SERVICES, "default", "web").await;
    eventually_gone(&world, "m2", "services", "web").await;
    let template = world.get("services", "default", "web").await.unwrap();
    assert!(template.label(labels::PROPAGATION_POLICY_PERMANENT_ID).is_some());
    assert!(has(&world, "m1", "services", "web").await);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_be_reached_loses_nothing() {
    let mut world = start(504, 2).await;
    deploy(&world, "m1").await;
    world.apply(&multi_cluster_service("m1", "m2")).await;
    eventually_served(&world, "m1", "m2", 2).await;
    world.member("m1").partition();
    world.eventually("m1 is lost", async |world| !world.is_ready("m1").await).await;
    world.advance(seconds(600)).await;
    assert_eq!(from(&world, "m1", "m2").await.len(), 2, "{}", world.trace());
    world.restart_controllers().await;
    world.advance(seconds(600)).await;
    assert_eq!(from(&world, "m1", "m2").await.len(), 2, "{}", world.trace());
    assert_eq!(slice_works(&world, "m1").await.len(), 1);
    // What happened meanwhile is known when it is back.
    scale(&world, 3).await;
    world.member("m1").heal();
    eventually_served(&world, "m1", "m2", 3).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn slices_go_with_their_provider_and_with_the_part_a_cluster_plays() {
    let world = start(505, 3).await;
    deploy(&world, "m1, m3").await;
    world.apply(&multi_cluster_service("m1 m3", "m2 m3")).await;
    for (provider, consumer) in [("m1", "m2"), ("m3", "m2"), ("m1", "m3")] {
        eventually_served(&world, provider, consumer, 2).await;
    }
    // m3 is a consumer no longer.
    world.apply(&multi_cluster_service("m1 m3", "m2")).await;
    eventually_left(&world, "m1", "m3").await;
    eventually_served(&world, "m3", "m2", 2).await;
    // Nor a provider.
    world.apply(&multi_cluster_service("m1", "m2")).await;
    eventually_left(&world, "m3", "m2").await;
    assert_eq!(slice_works(&world, "m3").await, [Value::Null; 0]);
    eventually_served(&world, "m1", "m2", 2).await;
    // A cluster that leaves takes its slices along, and nothing of it stays.
    let unjoin = Unjoin { wait: seconds(300), ..Unjoin::named("m1") };
    world.unjoin(&unjoin).await.unwrap();
    eventually_left(&world, "m1", "m2").await;
    world.advance(seconds(120)).await;
    assert_eq!(world.ways_to("m1"), 0);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn equally_named_slices_of_two_providers_do_not_collide() {
    let world = start(506, 3).await;
    world.apply(SELECTORLESS).await;
    world.apply(&multi_cluster_service("m1 m2 m3", "m2 m3")).await;
    for (member, address) in [("m1", "10.1.0.1"), ("m2", "10.2.0.1")] {
        let there = async |world: &World| has(world, member, "services", "web").await;
        world.eventually("the service is there", there).await;
        let inside = world.member(member).client().api(&gvr(SLICES)).namespaced("default");
        inside.create(&manual_slice(address)).await.unwrap();
    }
    let both = async |world: &World| {
        from(world, "m1", "m3").await == ["10.1.0.1"]
            && from(world, "m2", "m3").await == ["10.2.0.1"]
            && from(world, "m1", "m2").await == ["10.1.0.1"]
    };
    world.eventually("everybody has the slices of the others", both).await;
    assert_eq!(own(&world, "m2").await, ["10.2.0.1"]);
    let inside = world.member("m1").client().api(&gvr(SLICES)).namespaced("default");
    inside.delete("web-manual", &Default::default()).await.unwrap();
    eventually_left(&world, "m1", "m3").await;
    eventually_left(&world, "m1", "m2").await;
    world.advance(seconds(60)).await;
    assert_eq!(from(&world, "m2", "m3").await, ["10.2.0.1"]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn works_under_the_old_name_are_replaced_and_nobody_is_without_the_slice() {
    let world = start(507, 2).await;
    world.apply(SELECTORLESS).await;
    world.apply(&multi_cluster_service("m1", "m2")).await;
    let there = async |world: &World| has(world, "m2", "services", "web").await;
    world.eventually("the service is there", there).await;
    // As if the original had dispatched to m2: nothing is while it is lost.
    world.member("m2").partition();
    world.eventually("m2 is lost", async |world| !world.is_ready("m2").await).await;
    let inside = world.member("m1").client().api(&gvr(SLICES)).namespaced("default");
    inside.create(&manual_slice("10.1.0.1")).await.unwrap();
    let collected = async |world: &World| slice_works(world, "m1").await.len() == 1;
    world.eventually("it is collected", collected).await;
    let old_name = names::work("EndpointSlice", "web-manual", "default");
    let mut slice = manual_slice("10.1.0.1");
    slice["metadata"] = json!({
        "name": "m1-web-manual", "namespace": "default",
        "labels": {labels::SLICE_SERVICE_NAME: "web", labels::MANAGED: labels::TRUE,
            labels::SLICE_MANAGED_BY: labels::SLICE_MANAGED_BY_DISPATCH},
        "annotations": {annotations::PROVISION_CLUSTER: "m1",
            annotations::WORK_NAME: old_name, annotations::WORK_NAMESPACE: "karmada-es-m2"},
    });
    let old = json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
        "metadata": {"name": old_name, "namespace": "karmada-es-m2",
            "finalizers": [finalizers::EXECUTION],
            "labels": {labels::MULTI_CLUSTER_SERVICE_NAMESPACE: "default",
                labels::MULTI_CLUSTER_SERVICE_NAME: "web"},
            "annotations": {annotations::PROVISION_CLUSTER: "m1"}},
        "spec": {"workload": {"manifests": [slice]}},
    });
    let works = world.client.api(&gvr(WORKS)).namespaced("karmada-es-m2");
    works.create(&old).await.unwrap();
    world.advance(seconds(60)).await;
    assert!(world.get(WORKS, "karmada-es-m2", &old_name).await.is_some(), "it is all m2 has");
    world.member("m2").heal();
    let arrived = async |world: &World| has(world, "m2", SLICES, "m1-web-manual").await;
    world.eventually("the slice arrives", arrived).await;
    let first = world.member("m2").get(SLICES, "default", "m1-web-manual").await.unwrap();
    let replaced =
        async |world: &World| world.get(WORKS, "karmada-es-m2", &old_name).await.is_none();
    world.eventually("the old one is replaced", replaced).await;
    world.advance(seconds(60)).await;
    let name = names::dispatched_endpoint_slice_work("m1", "web-manual", "default");
    assert!(world.get(WORKS, "karmada-es-m2", &name).await.is_some());
    let last = world.member("m2").get(SLICES, "default", "m1-web-manual").await.unwrap();
    assert_eq!(last.uid(), first.uid(), "it was there all the time");
    // From now on it follows the new Work.
    inside.delete("web-manual", &Default::default()).await.unwrap();
    eventually_gone(&world, "m2", SLICES, "m1-web-manual").await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_there_is_missed_and_one_that_goes_takes_its_slices_along() {
    let world = start(508, 2).await;
    world.apply(&multi_cluster_service("m1", "m2")).await;
    let applied = async |world: &World, status: &str| {
        let service = world.get(SERVICES, "default", "web").await.unwrap();
        condition(&service, "ServiceApplied").is_some_and(|(is, _)| is == status)
    };
    world.eventually("it is missed", async |world| applied(world, "False").await).await;
    world.advance(seconds(60)).await;
    let service = world.get(SERVICES, "default", "web").await.unwrap();
    let (_, message) = condition(&service, "ServiceApplied").unwrap();
    assert_eq!(message, "services \"web\" not found");
    deploy(&world, "m1").await;
    eventually_served(&world, "m1", "m2", 2).await;
    assert!(applied(&world, "True").await);
    delete(&world, "services", "default", "web").await;
    eventually_left(&world, "m1", "m2").await;
    world.eventually("it is missed again", async |world| applied(world, "False").await).await;
    assert_eq!(slice_works(&world, "m1").await, [Value::Null; 0]);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_about_services_that_did_not_change() {
    let mut world = start(509, 3).await;
    deploy(&world, "m1, m2").await;
    // One of the providers never comes, which is told once.
    world.apply(&multi_cluster_service("m1 m2 nowhere", "m2 m3")).await;
    for (provider, consumer) in [("m1", "m2"), ("m1", "m3"), ("m2", "m3")] {
        eventually_served(&world, provider, consumer, 2).await;
    }
    world.advance(seconds(600)).await;
    let before = all_writes(&world);
    world.restart_controllers().await;
    world.advance(seconds(300)).await;
    assert_eq!(all_writes(&world), before, "{}", world.trace());
    world.kill_plane().await;
    world.advance(seconds(300)).await;
    assert_eq!(all_writes(&world), before, "{}", world.trace());
    // What ended while nobody looked is found out.
    delete(&world, SERVICES, "default", "web").await;
    world.kill_controllers();
    for (provider, consumer) in [("m1", "m2"), ("m1", "m3"), ("m2", "m3")] {
        eventually_left(&world, provider, consumer).await;
    }
    world.stop().await;
}

const EXPORT: &str = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: web, namespace: default}
";

const IMPORT: &str = "
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: default}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80}]}
";

const EXPORTS: &str = "serviceexports.v1alpha1.multicluster.x-k8s.io";
const IMPORTS: &str = "serviceimports.v1alpha1.multicluster.x-k8s.io";

/// A service with two pods in one cluster, exported there and imported by another.
async fn export(world: &World, from: &str, to: &str) {
    copy_definition(world, "serviceexports.multicluster.x-k8s.io", &[from]).await;
    copy_definition(world, "serviceimports.multicluster.x-k8s.io", &[to]).await;
    deploy(world, from).await;
    let api = "multicluster.x-k8s.io/v1alpha1";
    let on =
        |cluster: &str| format!("placement: {{clusterAffinity: {{clusterNames: [{cluster}]}}}}");
    world.apply(&policy("service", ("v1", "Service", "web"), &on(from))).await;
    world.apply(EXPORT).await;
    world.apply(&policy("export", (api, "ServiceExport", "web"), &on(from))).await;
    world.apply(IMPORT).await;
    world.apply(&policy("import", (api, "ServiceImport", "web"), &on(to))).await;
}

/// The ready addresses of the service that stands for the import, in a member.
async fn imported(world: &World, member: &str) -> Vec<String> {
    let of_web = format!("{}=derived-web", labels::SLICE_SERVICE_NAME);
    let options = ListOptions { label_selector: of_web, ..ListOptions::default() };
    let api = world.member(member).client().api(&gvr(SLICES)).namespaced("default");
    let slices: Vec<Value> =
        api.list(&options).await.unwrap().items.iter().map(|slice| slice.value()).collect();
    addresses(slices.iter())
}

async fn eventually_imported(world: &World, (from, to): (&str, &str), count: usize) {
    let what = format!("{to} has {count} addresses of {from}");
    let is_so = async |world: &World| {
        let (theirs, here) = (own(world, from).await, imported(world, to).await);
        theirs.len() == count && theirs == here
    };
    world.eventually(&what, is_so).await;
}

#[tokio::test(start_paused = true)]
async fn an_exported_service_is_served_where_it_is_imported() {
    let world = World::of(511, 2).await;
    export(&world, "m1", "m2").await;
    eventually_imported(&world, ("m1", "m2"), 2).await;
    let service = world.member("m2").get("services", "default", "derived-web").await.unwrap();
    assert_eq!(service["spec"]["ports"][0]["port"], 80);
    let collected = slice_works(&world, "m1").await;
    assert_eq!(collected[0].label("endpointslice.karmada.io/managed-by"), Some("ServiceExport"));
    assert_eq!(
        collected[0]["metadata"]["finalizers"],
        json!(["karmada.io/endpointslice-controller"])
    );
    scale(&world, 3).await;
    eventually_imported(&world, ("m1", "m2"), 3).await;
    // Ports follow the import.
    world.apply(&IMPORT.replace("port: 80", "port: 8080")).await;
    let moved = async |world: &World| {
        let service = world.member("m2").get("services", "default", "derived-web").await.unwrap();
        service["spec"]["ports"][0]["port"] == 8080
    };
    world.eventually("the port is another one", moved).await;
    // Without the export there is nothing to serve, without the import nobody who asks.
    delete(&world, EXPORTS, "default", "web").await;
    let nothing = async |world: &World| imported(world, "m2").await.is_empty();
    world.eventually("the slices go with the export", nothing).await;
    world.advance(seconds(30)).await;
    assert_eq!(slice_works(&world, "m1").await, [Value::Null; 0]);
    assert!(has(&world, "m2", "services", "derived-web").await);
    delete(&world, IMPORTS, "default", "web").await;
    eventually_gone(&world, "m2", "services", "derived-web").await;
    assert!(world.get("services", "default", "derived-web").await.is_none());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_exporting_cluster_that_cannot_be_reached_loses_nothing() {
    let mut world = World::of(512, 2).await;
    export(&world, "m1", "m2").await;
    eventually_imported(&world, ("m1", "m2"), 2).await;
    world.advance(seconds(600)).await;
    let before = all_writes(&world);
    world.restart_controllers().await;
    world.advance(seconds(300)).await;
    assert_eq!(all_writes(&world), before, "{}", world.trace());
    world.member("m1").partition();
    world.eventually("m1 is lost", async |world| !world.is_ready("m1").await).await;
    world.restart_controllers().await;
    world.advance(seconds(600)).await;
    assert_eq!(imported(&world, "m2").await.len(), 2, "{}", world.trace());
    // An export that ended while nobody looked.
    let inside = world.member("m1").client().api(&gvr(EXPORTS)).namespaced("default");
    delete(&world, EXPORTS, "default", "web").await;
    inside.delete("web", &Default::default()).await.unwrap();
    world.member("m1").heal();
    let nothing = async |world: &World| imported(world, "m2").await.is_empty();
    world.eventually("the slices go with the export", nothing).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_is_wanted_twice_stays_for_the_other_one() {
    let world = start(513, 2).await;
    export(&world, "m1", "m2").await;
    world.apply(&multi_cluster_service("m1", "m2")).await;
    eventually_served(&world, "m1", "m2", 2).await;
    eventually_imported(&world, ("m1", "m2"), 2).await;
    let managed_by = async |world: &World| {
        let works = slice_works(world, "m1").await;
        let own =
            works.iter().find(|work| work.annotation(annotations::PROVISION_CLUSTER).is_none());
        own.and_then(|work| work.label(labels::ENDPOINT_SLICE_WORK_MANAGED_BY)).map(str::to_owned)
    };
    assert_eq!(managed_by(&world).await.unwrap(), "MultiClusterService.ServiceExport");
    delete(&world, SERVICES, "default", "web").await;
    eventually_left(&world, "m1", "m2").await;
    world.advance(seconds(60)).await;
    assert_eq!(managed_by(&world).await.unwrap(), "ServiceExport");
    assert_eq!(imported(&world, "m2").await.len(), 2);
    world.apply(&multi_cluster_service("m1", "m2")).await;
    eventually_served(&world, "m1", "m2", 2).await;
    delete(&world, EXPORTS, "default", "web").await;
    let nothing = async |world: &World| imported(world, "m2").await.is_empty();
    world.eventually("the slices go with the export", nothing).await;
    world.advance(seconds(60)).await;
    assert_eq!(managed_by(&world).await.unwrap(), "MultiClusterService");
    assert_eq!(from(&world, "m1", "m2").await.len(), 2);
    world.stop().await;
}

/// An agent serves its cluster with the rights that the original gives it, of which patching Works is none.
#[tokio::test(start_paused = true)]
async fn the_slices_of_a_pull_cluster_are_collected_by_its_agent() {
    let world = agent::remote(514, "edge").await;
    let (agent, _) = agent::with_least_rights(&world).await;
    export(&world, "edge", "m1").await;
    eventually_imported(&world, ("edge", "m1"), 2).await;
    scale(&world, 3).await;
    eventually_imported(&world, ("edge", "m1"), 3).await;
    let collected = slice_works(&world, "edge").await;
    let managers = collected[0].list_at(&["metadata", "managedFields"]).iter();
    let mut managers = managers.filter_map(|entry| entry.str_at(&["manager"]));
    assert!(managers.any(|manager| manager == "karmada-agent"), "{}", collected[0]);
    delete(&world, EXPORTS, "default", "web").await;
    let nothing = async |world: &World| imported(world, "m1").await.is_empty();
    world.eventually("the slices go with the export", nothing).await;
    agent.kill();
    world.stop().await;
}

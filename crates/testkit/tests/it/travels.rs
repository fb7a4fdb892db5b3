//! Things that travel together: definitions and their objects, services and their exports, namespaces,
//! and every edit of a template.

use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{DeleteOptions, Propagation};
use karmada_testkit::{World, gvr};

use crate::pieces::*;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const FIRST: &str = "placement: {clusterAffinity: {clusterNames: [m1]}}";
const ALL: &str = "placement: {clusterAffinity: {clusterNames: [m1, m2]}}";

/// Sends a definition the control plane has to the first member.
async fn send_definition(world: &World, name: &str) {
    let policy = format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {{name: {name}}}
spec:
  resourceSelectors:
  - {{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: {name}}}
  {FIRST}
"
    );
    world.apply(&policy).await;
    let there = async |world: &World| world.member("m1").get(DEFINITIONS, "", name).await.is_some();
    world.eventually("the definition arrives", there).await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_travels_and_its_objects_follow_whoever_came_first() {
    let world = World::of(401, 2).await;
    let definition = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.sea.example}
spec:
  group: sea.example
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
    world.apply(definition).await;
    let served = async |world: &World| {
        let object = world.get(DEFINITIONS, "", "boats.sea.example").await.unwrap();
        condition(&object, "Established").is_some_and(|(status, _)| status == "True")
    };
    world.eventually("the definition is served", served).await;
    // The object and its policy are there before any member knows the kind.
    let boat = "{apiVersion: sea.example/v1, kind: Boat, metadata: {name: ada, namespace: default}, spec: {sails: 2}}";
    world.apply(boat).await;
    world.apply(&policy("ada", ("sea.example/v1", "Boat", "ada"), FIRST)).await;
    world.advance(seconds(60)).await;
    send_definition(&world, "boats.sea.example").await;
    let sails = async |world: &World, wanted: i64| {
        let boat = world.member("m1").get("boats.sea.example", "default", "ada").await;
        boat.is_some_and(|boat| boat["spec"]["sails"] == wanted)
    };
    world.eventually("the boat follows", async |world| sails(world, 2).await).await;
    world.apply(&boat.replace("sails: 2", "sails: 3")).await;
    world.eventually("and its edits", async |world| sails(world, 3).await).await;
    assert!(world.member("m2").get(DEFINITIONS, "", "boats.sea.example").await.is_none());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_and_its_export_travel_with_the_workload() {
    const EXPORTS: &str = "serviceexports.v1alpha1.multicluster.x-k8s.io";
    let world = World::of(402, 2).await;
    send_definition(&world, "serviceexports.multicluster.x-k8s.io").await;
    world.apply(&deployment("web", 2)).await;
    world
        .apply(
            "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default},
              spec: {selector: {app: web}, ports: [{port: 80}]}}",
        )
        .await;
    world
        .apply(
            "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport,
              metadata: {name: web, namespace: default}}",
        )
        .await;
    let together = format!(
        "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: web, namespace: default}}
spec:
  propagateDeps: true
  resourceSelectors:
  - {{apiVersion: apps/v1, kind: Deployment, name: web}}
  - {{apiVersion: v1, kind: Service, name: web}}
  - {{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: web}}
  {FIRST}
"
    );
    world.apply(&together).await;
    for resource in ["deployments.apps", "services", EXPORTS] {
        let there = async |world: &World| has(world, "m1", resource, "web").await;
        world.eventually(resource, there).await;
    }
    // The member finds the pods behind the service: what an importer would be told.
    let slices = world.member("m1").client().api(&gvr("endpointslices.discovery.k8s.io"));
    let found = async |_: &World| {
        let listed = slices.list_all(&Default::default()).await.unwrap();
        let of_web = listed.items.iter().map(|slice| slice.value());
        let mut of_web =
            of_web.filter(|slice| slice.label("kubernetes.io/service-name") == Some("web"));
        of_web.any(|slice| slice.list_at(&["endpoints"]).len() == 2)
    };
    world.eventually("two endpoints stand behind the service", found).await;
    delete(&world, EXPORTS, "default", "web").await;
    eventually_gone(&world, "m1", EXPORTS, "web").await;
    assert!(has(&world, "m1", "services", "web").await);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_go_everywhere_unless_told_not_to() {
    let world = World::of(403, 2).await;
    world
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}")
        .await;
    let skip = "namespace.karmada.io/skip-auto-propagation";
    let private = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: private, labels: {{{skip}: 'true'}}}}}}"
    );
    world.apply(&private).await;
    for member in ["m1", "m2"] {
        let there = async |world: &World| {
            let namespace = world.member(member).get("namespaces", "", "shop").await;
            namespace.is_some_and(|namespace| namespace.label("team") == Some("a"))
        };
        world.eventually("the namespace arrives with its labels", there).await;
    }
    world.advance(seconds(60)).await;
    assert!(world.member("m1").get("namespaces", "", "private").await.is_none());
    let open = json!({"metadata": {"labels": {skip: null}}});
    world.client.api(&gvr("namespaces")).merge_patch("private", open).await.unwrap();
    let there =
        async |world: &World| world.member("m2").get("namespaces", "", "private").await.is_some();
    world.eventually("it goes once it may", there).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_edit_of_a_template_reaches_every_cluster_and_what_was_taken_out_goes() {
    let world = World::of(404, 2).await;
    let full = "
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: default, labels: {a: '1', b: '1'}, annotations: {note: x}}
data: {v: '1', w: '1'}
";
    world.apply(full).await;
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    eventually_value(&world, "m2", "conf", "1").await;
    // Somebody in the member adds what is the member's own.
    let own = json!({"metadata": {"labels": {"own": "yes"}}});
    let inside = world.member("m1").client().api(&gvr("configmaps")).namespaced("default");
    inside.merge_patch("conf", own).await.unwrap();
    let less = "
apiVersion: v1
kind: ConfigMap
metadata: {name: conf, namespace: default, labels: {a: '2'}}
data: {v: '2'}
";
    world.apply(less).await;
    for member in ["m1", "m2"] {
        eventually_value(&world, member, "conf", "2").await;
        let object = world.member(member).get("configmaps", "default", "conf").await.unwrap();
        assert_eq!((object.label("a"), object.label("b")), (Some("2"), None), "{member}");
        assert_eq!(object.annotation("note"), None, "{member}");
        assert_eq!(object.at(&["data", "w"]), None, "{member}");
        assert_eq!(object.label("own").is_some(), member == "m1", "{member}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_deleted_without_its_dependents_leaves_all_copies_running() {
    let world = World::of(405, 2).await;
    world.apply(&config_map("conf", "1")).await;
    world.apply(&config_policy("conf", ALL)).await;
    eventually_value(&world, "m1", "conf", "1").await;
    eventually_value(&world, "m2", "conf", "1").await;
    let api = world.client.api(&gvr("configmaps")).namespaced("default");
    let orphaning =
        DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    api.delete("conf", &orphaning).await.unwrap();
    world.advance(seconds(120)).await;
    assert!(world.get("configmaps", "default", "conf").await.is_none());
    let binding =
        world.get(BINDINGS, "default", "conf-configmap").await.expect("the binding stays");
    assert_eq!(binding.list_at(&["metadata", "ownerReferences"]).len(), 0);
    for member in ["m1", "m2"] {
        assert_eq!(value(&world, member, "conf").await.as_deref(), Some("1"), "{member}");
    }
    world.stop().await;
}

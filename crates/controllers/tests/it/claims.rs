//! Which policy claims a template, what its binding says, and how claims come and go.

use std::time::Duration;

use karmada_api::{annotations, labels};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::ListOptions;

use crate::bare::{Plane, Setup};

const POLICIES: &str = "propagationpolicies.policy.karmada.io";
const CLUSTER_POLICIES: &str = "clusterpropagationpolicies.policy.karmada.io";
const BINDINGS: &str = "resourcebindings.work.karmada.io";
const CLUSTER_BINDINGS: &str = "clusterresourcebindings.work.karmada.io";

/// The spec of a policy for ConfigMaps, sent to one cluster, with further fields.
fn spec(selector: Value, cluster: &str, more: Value) -> Value {
    let mut selector = selector;
    selector["apiVersion"] = "v1".into();
    selector["kind"] = "ConfigMap".into();
    let mut spec = json!({
        "resourceSelectors": [selector],
        "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

async fn policy(plane: &Plane, name: &str, spec: Value) {
    plane.create(POLICIES, "ns", json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn config_map(plane: &Plane, name: &str) {
    let object = json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"a": "1"}});
    plane.create("configmaps", "ns", object).await;
}

fn claimed_by(object: &Value) -> Option<&str> {
    object.label(labels::PROPAGATION_POLICY_PERMANENT_ID)?;
    object.annotation(annotations::PROPAGATION_POLICY_NAME)
}

fn goes_to(binding: &Value) -> &Value {
    &binding["spec"]["placement"]["clusterAffinity"]["clusterNames"][0]
}

async fn plane() -> Plane {
    let plane = Plane::start().await;
    plane.namespace("ns").await;
    plane
}

#[tokio::test(start_paused = true)]
async fn a_template_is_claimed_and_bound_whichever_comes_first() {
    let plane = plane().await;
    config_map(&plane, "early").await;
    plane.settle().await;
    policy(&plane, "pp", spec(json!({}), "m1", json!({}))).await;
    config_map(&plane, "late").await;
    for name in ["early", "late"] {
        let template =
            plane.eventually("configmaps", "ns", name, |o| claimed_by(o) == Some("pp")).await;
        let binding =
            plane.eventually(BINDINGS, "ns", &format!("{name}-configmap"), |_| true).await;
        let id = template.label(labels::PROPAGATION_POLICY_PERMANENT_ID);
        assert_eq!(binding.label(labels::PROPAGATION_POLICY_PERMANENT_ID), id);
        assert_eq!(binding["metadata"]["ownerReferences"][0]["uid"], template["metadata"]["uid"]);
        assert_eq!(
            binding["spec"]["resource"]["resourceVersion"],
            template["metadata"]["resourceVersion"]
        );
        assert_eq!(goes_to(&binding), "m1");
        let told = plane.events("ns", name).await;
        assert_eq!(
            told,
            [("ApplyPolicySucceed".to_owned(), "Apply policy(ns/pp) succeed".to_owned())]
        );
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_service_of_the_control_plane_itself_stays_at_home() {
    let plane = plane().await;
    let placement = json!({"clusterAffinity": {"clusterNames": ["m1"]}});
    let services = json!([{"apiVersion": "v1", "kind": "Service"}]);
    let spec = json!({"resourceSelectors": services, "placement": placement});
    let policy = json!({"metadata": {"name": "services"}, "spec": spec});
    plane.create(POLICIES, "default", policy).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    plane.create("services", "default", service).await;
    plane.eventually(BINDINGS, "default", "web-service", |_| true).await;
    plane.settle().await;
    let own = plane.eventually("services", "default", "kubernetes", |_| true).await;
    assert_eq!(claimed_by(&own), None);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_costs_two_writes_and_a_restart_none() {
    let mut plane = Plane::without_controllers(Setup::default()).await;
    plane.namespace("ns").await;
    for i in 0..20 {
        config_map(&plane, &format!("c{i}")).await;
        let by_name = spec(json!({"name": format!("c{i}")}), "m1", json!({}));
        policy(&plane, &format!("p{i}"), by_name).await;
    }
    plane.settle().await;
    let before = plane.revision().await;
    plane.start_controllers();
    plane.settle().await;
    for i in 0..20 {
        plane.eventually(BINDINGS, "ns", &format!("c{i}-configmap"), |_| true).await;
    }
    // A claim, a binding and an event.
    assert_eq!(plane.revision().await - before, 20 * 3);
    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.start_controllers();
    plane.settle().await;
    assert_eq!(plane.revision().await, before);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_better_policy_wins_and_keeps_what_it_has() {
    let plane = plane().await;
    policy(&plane, "kind", spec(json!({}), "m1", json!({}))).await;
    let by_label = json!({"labelSelector": {"matchLabels": {"app": "conf"}}});
    policy(&plane, "label", spec(by_label, "m2", json!({}))).await;
    plane.settle().await;
    config_map(&plane, "conf").await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("label")).await;
    let urgent = spec(json!({"name": "conf"}), "m3", json!({"priority": 9}));
    policy(&plane, "urgent", urgent).await;
    plane.settle().await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("label")).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn preemption_needs_its_gate() {
    for (gates, expected) in [("", "a"), ("PropagationPolicyPreemption=true", "b")] {
        let plane = Plane::with(Setup { gates, ..Setup::default() }).await;
        plane.namespace("ns").await;
        config_map(&plane, "conf").await;
        policy(&plane, "a", spec(json!({"name": "conf"}), "m1", json!({}))).await;
        plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("a")).await;
        let more = json!({"priority": 9, "preemption": "Always"});
        policy(&plane, "b", spec(json!({"name": "conf"}), "m2", more)).await;
        plane.settle().await;
        plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some(expected)).await;
        let cluster = if expected == "b" { "m2" } else { "m1" };
        plane.eventually(BINDINGS, "ns", "conf-configmap", |b| goes_to(b) == cluster).await;
        let told = plane.events("ns", "conf").await;
        let preempted = (
            "PreemptPolicySucceed".to_owned(),
            "Propagation policy(ns/b) preempted propagation policy(ns/a) successfully".to_owned(),
        );
        assert_eq!(told.contains(&preempted), expected == "b");
        plane.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_steps_back_is_overtaken() {
    let gates = "PropagationPolicyPreemption=true";
    let plane = Plane::with(Setup { gates, ..Setup::default() }).await;
    plane.namespace("ns").await;
    config_map(&plane, "conf").await;
    policy(&plane, "a", spec(json!({"name": "conf"}), "m1", json!({"priority": 9}))).await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("a")).await;
    let more = json!({"priority": 5, "preemption": "Always"});
    policy(&plane, "b", spec(json!({"name": "conf"}), "m2", more)).await;
    plane.settle().await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("a")).await;
    plane.patch(POLICIES, "ns", "a", json!({"spec": {"priority": 1}})).await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("b")).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_policy_reaches_the_binding_and_one_that_says_nothing_writes_nothing() {
    let plane = plane().await;
    config_map(&plane, "conf").await;
    policy(&plane, "pp", spec(json!({"name": "conf"}), "m1", json!({}))).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| goes_to(b) == "m1").await;
    plane.settle().await;
    let before = plane.revision().await;
    plane.patch(POLICIES, "ns", "pp", json!({"spec": {"priority": 3}})).await;
    plane.settle().await;
    assert_eq!(plane.revision().await, before + 1);
    let moved = spec(json!({"name": "conf", "namespace": "ns"}), "m2", json!({}));
    plane.patch(POLICIES, "ns", "pp", json!({"spec": moved})).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| goes_to(b) == "m2").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_policy_reaches_what_has_no_binding() {
    let plane = plane().await;
    config_map(&plane, "conf").await;
    plane.settle().await;
    let lazy = json!({"activationPreference": "Lazy"});
    policy(&plane, "pp", spec(json!({}), "m1", lazy)).await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("pp")).await;
    plane.settle().await;
    assert_eq!(plane.find(BINDINGS, "ns", "conf-configmap").await, None);
    plane.patch(POLICIES, "ns", "pp", json!({"spec": {"activationPreference": null}})).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_policy_no_longer_selects_is_free_for_others() {
    let plane = plane().await;
    config_map(&plane, "conf").await;
    policy(&plane, "a", spec(json!({"name": "conf"}), "m1", json!({}))).await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("a")).await;
    policy(&plane, "b", spec(json!({}), "m2", json!({}))).await;
    let other = spec(json!({"name": "other", "namespace": "ns"}), "m1", json!({}));
    plane.patch(POLICIES, "ns", "a", json!({"spec": other})).await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("b")).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| goes_to(b) == "m2").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_edited_while_nobody_looked_lets_go_and_takes_over_all_the_same() {
    let gates = "PropagationPolicyPreemption=true";
    let mut plane = Plane::with(Setup { gates, ..Setup::default() }).await;
    plane.namespace("ns").await;
    for name in ["left", "taken"] {
        config_map(&plane, name).await;
        policy(&plane, name, spec(json!({"name": name}), "m1", json!({}))).await;
        plane.eventually("configmaps", "ns", name, |o| claimed_by(o) == Some(name)).await;
    }
    plane.settle().await;
    plane.stop_controllers().await;
    let other = spec(json!({"name": "other", "namespace": "ns"}), "m1", json!({}));
    plane.patch(POLICIES, "ns", "left", json!({"spec": other})).await;
    let more = json!({"priority": 9, "preemption": "Always"});
    policy(&plane, "strong", spec(json!({"name": "taken"}), "m2", more)).await;
    plane.start_controllers();
    plane.eventually("configmaps", "ns", "left", |o| claimed_by(o).is_none()).await;
    let id = labels::PROPAGATION_POLICY_PERMANENT_ID;
    plane.eventually(BINDINGS, "ns", "left-configmap", |b| b.label(id).is_none()).await;
    plane.eventually("configmaps", "ns", "taken", |o| claimed_by(o) == Some("strong")).await;
    plane.eventually(BINDINGS, "ns", "taken-configmap", |b| goes_to(b) == "m2").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_claim_outlives_a_policy_that_is_deleted_a_moment_later() {
    let plane = plane().await;
    for turn in 0..20 {
        let name = format!("c{turn}");
        config_map(&plane, &name).await;
        policy(&plane, "pp", spec(json!({"name": name}), "m1", json!({}))).await;
        tokio::time::sleep(std::time::Duration::from_micros(turn * 50)).await;
        plane.delete(POLICIES, "ns", "pp").await;
        plane.eventually_gone(POLICIES, "ns", "pp").await;
        plane.settle().await;
        plane.eventually("configmaps", "ns", &name, |o| claimed_by(o).is_none()).await;
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_policy_lets_go_and_the_binding_stays() {
    let plane = plane().await;
    config_map(&plane, "conf").await;
    policy(&plane, "pp", spec(json!({"name": "conf"}), "m1", json!({}))).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.delete(POLICIES, "ns", "pp").await;
    plane.eventually_gone(POLICIES, "ns", "pp").await;
    let template = plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o).is_none()).await;
    assert_eq!(template["metadata"].get("annotations"), None);
    let binding = plane.find(BINDINGS, "ns", "conf-configmap").await.unwrap();
    assert_eq!(binding.label(labels::PROPAGATION_POLICY_PERMANENT_ID), None);
    assert_eq!(goes_to(&binding), "m1");
    policy(&plane, "next", spec(json!({}), "m2", json!({}))).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| goes_to(b) == "m2").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_policy_of_the_cluster_takes_what_the_one_of_the_namespace_leaves() {
    let plane = plane().await;
    policy(&plane, "pp", spec(json!({"name": "conf"}), "m1", json!({}))).await;
    let everywhere = spec(json!({"name": "conf"}), "m2", json!({"priority": 100}));
    let object = json!({"metadata": {"name": "cpp"}, "spec": everywhere});
    plane.create(CLUSTER_POLICIES, "", object).await;
    plane.settle().await;
    config_map(&plane, "conf").await;
    plane.eventually("configmaps", "ns", "conf", |o| claimed_by(o) == Some("pp")).await;
    plane.delete(POLICIES, "ns", "pp").await;
    let by_cluster =
        |o: &Value| o.annotation(annotations::CLUSTER_PROPAGATION_POLICY_NAME) == Some("cpp");
    let template = plane.eventually("configmaps", "ns", "conf", by_cluster).await;
    assert_eq!(template.label(labels::PROPAGATION_POLICY_PERMANENT_ID), None);
    plane.eventually(BINDINGS, "ns", "conf-configmap", |b| goes_to(b) == "m2").await;
    assert!(
        plane
            .events("ns", "conf")
            .await
            .iter()
            .any(|(_, m)| m == "Apply cluster policy(cpp) succeed")
    );
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn cluster_scoped_objects_get_cluster_scoped_bindings() {
    let plane = plane().await;
    let role = json!({"metadata": {"name": "system:reader"}, "rules": []});
    plane.create("clusterroles.rbac.authorization.k8s.io", "", role).await;
    let object = json!({"metadata": {"name": "cpp"}, "spec": {
        "resourceSelectors": [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "system:reader"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
    }});
    plane.create(CLUSTER_POLICIES, "", object).await;
    let binding =
        plane.eventually(CLUSTER_BINDINGS, "", "system.reader-clusterrole", |_| true).await;
    assert_eq!(binding["spec"]["resource"]["name"], "system:reader");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_cluster_needs_no_priority_and_is_followed_though_its_generation_stays() {
    let plane = plane().await;
    let class = json!({"metadata": {"name": "gold"}, "value": 7, "description": "old"});
    plane.create("priorityclasses.scheduling.k8s.io", "", class).await;
    let object = json!({"metadata": {"name": "cpp"}, "spec": {
        "resourceSelectors": [{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "name": "gold"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        "schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "nobody"},
    }});
    plane.create(CLUSTER_POLICIES, "", object).await;
    let version = |binding: &Value| binding["spec"]["resource"]["resourceVersion"].clone();
    let binding = plane.eventually(CLUSTER_BINDINGS, "", "gold-priorityclass", |_| true).await;
    let patch = json!({"description": "new"});
    plane.patch("priorityclasses.scheduling.k8s.io", "", "gold", patch).await;
    let moved = |other: &Value| version(other) != version(&binding);
    plane.eventually(CLUSTER_BINDINGS, "", "gold-priorityclass", moved).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lazy_policy_waits_for_the_template_to_change() {
    let mut plane = plane().await;
    let lazy = json!({"activationPreference": "Lazy"});
    config_map(&plane, "old").await;
    plane.settle().await;
    policy(&plane, "pp", spec(json!({}), "m1", lazy)).await;
    plane.eventually("configmaps", "ns", "old", |o| claimed_by(o) == Some("pp")).await;
    plane.settle().await;
    assert_eq!(plane.find(BINDINGS, "ns", "old-configmap").await, None);
    config_map(&plane, "new").await;
    plane.eventually(BINDINGS, "ns", "new-configmap", |_| true).await;
    let affinity = json!({"clusterAffinity": {"clusterNames": ["m2"]}});
    plane.patch(POLICIES, "ns", "pp", json!({"spec": {"placement": affinity}})).await;
    plane.settle().await;
    plane.eventually(BINDINGS, "ns", "new-configmap", |b| goes_to(b) == "m1").await;
    plane.patch("configmaps", "ns", "new", json!({"data": {"a": "2"}})).await;
    plane.eventually(BINDINGS, "ns", "new-configmap", |b| goes_to(b) == "m2").await;
    assert_eq!(plane.find(BINDINGS, "ns", "old-configmap").await, None);
    // Quirk 1, kept: a restart looks at everything as if people had just written it.
    plane.stop_controllers().await;
    plane.start_controllers();
    plane.eventually(BINDINGS, "ns", "old-configmap", |b| goes_to(b) == "m2").await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_template_takes_its_binding_along_and_a_new_one_gets_a_new_one() {
    let plane = plane().await;
    policy(&plane, "pp", spec(json!({}), "m1", json!({}))).await;
    config_map(&plane, "conf").await;
    let first = plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.delete("configmaps", "ns", "conf").await;
    config_map(&plane, "conf").await;
    // The binding controller is not there to let the old binding go.
    plane
        .eventually(BINDINGS, "ns", "conf-configmap", |b| {
            !b["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    plane.patch(BINDINGS, "ns", "conf-configmap", json!({"metadata": {"finalizers": null}})).await;
    let new = |b: &Value| b["metadata"]["uid"] != first["metadata"]["uid"];
    plane.eventually(BINDINGS, "ns", "conf-configmap", new).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn objects_of_others_and_of_the_system_are_left_alone() {
    let plane = plane().await;
    let object = json!({"metadata": {"name": "cpp"}, "spec": spec(json!({}), "m1", json!({}))});
    plane.create(CLUSTER_POLICIES, "", object).await;
    let foreign =
        json!({"metadata": {"name": "foreign", "labels": {labels::CLAIMED_BY: "someone"}}});
    plane.create("configmaps", "ns", foreign).await;
    plane.namespace("kube-extra").await;
    for namespace in ["kube-extra", "karmada-system"] {
        plane.create("configmaps", namespace, json!({"metadata": {"name": "own"}})).await;
    }
    config_map(&plane, "conf").await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.settle().await;
    assert_eq!(plane.find(BINDINGS, "ns", "foreign-configmap").await, None);
    for namespace in ["kube-extra", "karmada-system"] {
        assert_eq!(plane.find(BINDINGS, namespace, "own-configmap").await, None);
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_defined_later_are_claimed_too() {
    let plane = plane().await;
    let object = json!({"metadata": {"name": "pp"}, "spec": {
        "resourceSelectors": [{"apiVersion": "example.io/v1", "kind": "Widget", "name": "w"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
    }});
    plane.create(POLICIES, "ns", object).await;
    plane.settle().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "widgets.example.io"}, "spec": {
        "group": "example.io", "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
    }});
    plane.create("customresourcedefinitions.apiextensions.k8s.io", "", definition).await;
    plane.settle().await;
    let widget =
        json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    plane.create("widgets.example.io", "ns", widget).await;
    plane.eventually(BINDINGS, "ns", "w-widget", |_| true).await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_waits_for_the_overrides_it_depends_on() {
    let plane = plane().await;
    let more = json!({"dependentOverrides": ["op"]});
    policy(&plane, "pp", spec(json!({"name": "conf"}), "m1", more)).await;
    config_map(&plane, "conf").await;
    plane.settle().await;
    assert_eq!(plane.find(BINDINGS, "ns", "conf-configmap").await, None);
    let overrides = json!({"metadata": {"name": "op"}, "spec": {"overrideRules": []}});
    plane.create("overridepolicies.policy.karmada.io", "ns", overrides).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.stop().await;
}

/// How often it was told of an object that its policy could not be applied.
async fn failures_told(plane: &Plane, name: &str) -> i64 {
    let events = plane.api("events").namespaced("ns");
    let events = events.list_all(&ListOptions::default()).await.unwrap().items;
    let events = events.iter().map(|event| event.value());
    let failed = events.filter(|event| {
        event["involvedObject"]["name"] == name && event["reason"] == "ApplyPolicyFailed"
    });
    failed.filter_map(|event| event.i64_at(&["count"])).sum()
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_goes_on_with_every_retry_is_told_once_until_it_is_over() {
    let plane = plane().await;
    let class = json!({"priorityClassSource": "KubePriorityClass", "priorityClassName": "nobody"});
    let unknown = json!({"schedulePriority": class});
    policy(&plane, "pp", spec(json!({"name": "conf"}), "m1", unknown.clone())).await;
    config_map(&plane, "conf").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(failures_told(&plane, "conf").await, 1);
    plane.patch(POLICIES, "ns", "pp", json!({"spec": {"schedulePriority": null}})).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.settle().await;
    plane.patch(POLICIES, "ns", "pp", json!({"spec": unknown})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(failures_told(&plane, "conf").await, 2, "it is news again");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deployments_tell_their_replicas_and_a_status_is_no_change() {
    let plane = plane().await;
    let object = json!({"metadata": {"name": "pp"}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        "schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "nobody"},
    }});
    plane.create(POLICIES, "ns", object).await;
    let labels = json!({"app": "web"});
    let web = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
    }});
    plane.create("deployments.apps", "ns", web).await;
    plane.settle().await;
    let failed = (
        "ApplyPolicyFailed".to_owned(),
        "Apply policy(ns/pp) failed: PriorityClass.scheduling.k8s.io \"nobody\" not found"
            .to_owned(),
    );
    assert!(plane.events("ns", "web").await.contains(&failed));
    plane.patch(POLICIES, "ns", "pp", json!({"spec": {"schedulePriority": null}})).await;
    let binding = plane.eventually(BINDINGS, "ns", "web-deployment", |_| true).await;
    assert_eq!(binding["spec"]["replicas"], 3);
    plane.settle().await;
    let before = plane.revision().await;
    let status = json!({"status": {"replicas": 3}});
    let api = plane.api("deployments.apps").namespaced("ns");
    let patch = karmada_client::Patch::Merge(status);
    api.patch_subresource("web", "status", &patch, &Default::default()).await.unwrap();
    plane.settle().await;
    assert_eq!(plane.revision().await, before + 1);
    plane.stop().await;
}

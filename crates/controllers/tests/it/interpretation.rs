//! What a kind means is not guessed: before everything the interpreter is configured by is known, nothing is
//! decided.

use std::time::Duration;

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

use crate::bare::{Plane, Setup};

const POLICIES: &str = "propagationpolicies.policy.karmada.io";
const BINDINGS: &str = "resourcebindings.work.karmada.io";
const CUSTOMIZATIONS: &str = "resourceinterpretercustomizations.config.karmada.io";
const CONFIGURATION: &[&str] =
    &["resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"];

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "containers": [{"name": "c", "image": "nginx"}]}},
    }})
}

fn policy() -> Value {
    json!({"metadata": {"name": "pp"}, "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
        "propagateDeps": true,
    }})
}

/// Deployments have other replicas and dependencies than everybody would think.
fn customization() -> Value {
    let replicas = "function GetReplicas(object) return 7, nil end";
    let dependencies = "function GetDependencies(object) return \
        {{apiVersion = 'v1', kind = 'ConfigMap', namespace = 'ns', name = 'conf'}} end";
    json!({"metadata": {"name": "deployments"}, "spec": {
        "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
        "customizations": {
            "replicaResource": {"luaScript": replicas},
            "dependencyInterpretation": {"luaScript": dependencies},
        },
    }})
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_learns_its_customizations_late_writes_nothing() {
    let mut plane = Plane::start().await;
    plane.namespace("ns").await;
    plane.create(CUSTOMIZATIONS, "", customization()).await;
    plane.settle().await;
    let data = json!({"metadata": {"name": "conf"}, "data": {"a": "1"}});
    plane.create("configmaps", "ns", data).await;
    plane.create(POLICIES, "ns", policy()).await;
    plane.create("deployments.apps", "ns", deployment()).await;
    let web = plane.eventually(BINDINGS, "ns", "web-deployment", |_| true).await;
    assert_eq!(web["spec"]["replicas"], 7);
    let placed = json!({"spec": {"clusters": [{"name": "m1", "replicas": 7}]}});
    plane.patch(BINDINGS, "ns", "web-deployment", placed).await;
    plane.eventually(BINDINGS, "ns", "conf-configmap", |_| true).await;
    plane.settle().await;
    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.setup.late = (CONFIGURATION, Duration::from_secs(20));
    plane.start_controllers();
    for _ in 0..10 {
        plane.settle().await;
    }
    let web = plane.find(BINDINGS, "ns", "web-deployment").await.unwrap();
    assert_eq!(web["spec"]["replicas"], 7);
    assert!(web.annotation(karmada_api::annotations::DEPENDENCIES).unwrap().contains("conf"));
    assert_eq!(plane.revision().await, before);
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_customize_anything_the_controllers_start_nevertheless() {
    let plane = Plane::with(Setup { unserved: CONFIGURATION, ..Setup::default() }).await;
    plane.namespace("ns").await;
    plane.create(POLICIES, "ns", policy()).await;
    plane.create("deployments.apps", "ns", deployment()).await;
    let web = plane.eventually(BINDINGS, "ns", "web-deployment", |_| true).await;
    assert_eq!(web["spec"]["replicas"], 2);
    plane.stop().await;
}

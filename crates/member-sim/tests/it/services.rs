//! Services, budgets and daemons on a running member.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::ListOptions;

use crate::member::{api, eventually, eventually_is, start};

fn workload(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "i",
                "ports": [{"name": "http", "containerPort": 8080}]}]}}}})
}

// Shows: SIM-7
#[tokio::test(start_paused = true)]
async fn endpoints_follow_the_pods_of_a_service() {
    let member = start(2).await;
    let mut deployment = workload("Deployment", "web");
    deployment["spec"]["replicas"] = 3.into();
    api(&member, "deployments.apps").create(&deployment).await.unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}});
    api(&member, "services").create(&service).await.unwrap();
    let addresses = |endpoints: &Value| {
        endpoints["subsets"][0].list_at(&["addresses"]).len() == 3
            && endpoints["subsets"][0]["ports"][0]["port"] == 8080
    };
    eventually_is(&member, "endpoints", "web", addresses).await;
    let slices = api(&member, "endpointslices.discovery.k8s.io");
    let selected = ListOptions {
        label_selector: "kubernetes.io/service-name=web".to_owned(),
        ..ListOptions::default()
    };
    eventually("one slice lists three ready endpoints", async || {
        let slices = slices.list(&selected).await.unwrap().items;
        let slice = slices.first()?.value();
        let ready = slice.list_at(&["endpoints"]).iter();
        let ready = ready.filter(|endpoint| endpoint["conditions"]["ready"] == true).count();
        (slices.len() == 1 && ready == 3).then_some(())
    })
    .await;
    member.stop().await;
}

// Shows: SIM-5
#[tokio::test(start_paused = true)]
async fn a_budget_lets_go_of_no_more_than_it_allows() {
    let member = start(2).await;
    let mut deployment = workload("Deployment", "web");
    deployment["spec"]["replicas"] = 3.into();
    api(&member, "deployments.apps").create(&deployment).await.unwrap();
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"}, "spec": {"maxUnavailable": 1,
            "selector": {"matchLabels": {"app": "web"}}}});
    api(&member, "poddisruptionbudgets.policy").create(&budget).await.unwrap();
    let budget = eventually_is(&member, "poddisruptionbudgets.policy", "b", |budget| {
        budget["status"]["disruptionsAllowed"] == 1
    })
    .await;
    assert_eq!(budget["status"]["expectedPods"], 3);
    let pods = api(&member, "pods");
    let names: Vec<_> = pods.list(&ListOptions::default()).await.unwrap().items;
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": "default"}});
        pods.create_subresource(name, "eviction", &eviction).await
    };
    // At the same time: later there may be a replacement already.
    let results = tokio::join!(evict(names[0].name()), evict(names[1].name()));
    let refused = match results {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
        other => panic!("not exactly one was let go: {other:?}"),
    };
    assert_eq!(refused.api().map(|error| error.code), Some(429));
    eventually_is(&member, "poddisruptionbudgets.policy", "b", |budget| {
        budget["status"]["disruptionsAllowed"] == 1
    })
    .await;
    member.stop().await;
}

// Shows: SIM-5
#[tokio::test(start_paused = true)]
async fn a_daemon_runs_on_every_node_that_takes_it() {
    let member = start(3).await;
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    api(&member, "nodes").merge_patch("m1-node-2", taint).await.unwrap();
    let daemons = api(&member, "daemonsets.apps");
    daemons.create(&workload("DaemonSet", "agent")).await.unwrap();
    let two = |set: &Value| set["status"]["numberReady"] == 2;
    let set = eventually_is(&member, "daemonsets.apps", "agent", two).await;
    assert_eq!(set["status"]["desiredNumberScheduled"], 2);
    let clean = json!({"spec": {"taints": null}});
    api(&member, "nodes").merge_patch("m1-node-2", clean).await.unwrap();
    let three = |set: &Value| set["status"]["numberReady"] == 3;
    eventually_is(&member, "daemonsets.apps", "agent", three).await;
    member.stop().await;
}

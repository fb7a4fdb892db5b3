//! Deployments and their pods, from creation to drain.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{ListOptions, Propagation};
use karmada_member_sim::Sim;
use std::time::Duration;

use crate::member::{api, eventually, eventually_is, start};

pub(crate) fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

pub(crate) async fn create(member: &Sim, deployment: &Value) {
    eventually_is(member, "serviceaccounts", "default", |_| true).await;
    api(member, "deployments.apps").create(deployment).await.unwrap();
}

pub(crate) fn is_rolled_out(deployment: &Value) -> bool {
    let number = |path: &[&str]| deployment.i64_at(path).unwrap_or_default();
    let want = number(&["spec", "replicas"]);
    number(&["status", "observedGeneration"]) >= number(&["metadata", "generation"])
        && ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
            .iter()
            .all(|field| number(&["status", field]) == want)
}

pub(crate) async fn rolled_out(member: &Sim, name: &str) -> Value {
    eventually_is(member, "deployments.apps", name, is_rolled_out).await
}

pub(crate) async fn pods(member: &Sim) -> Vec<Value> {
    let list = api(member, "pods").list_all(&ListOptions::default()).await.unwrap();
    list.items.iter().map(|pod| pod.value()).collect()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

async fn images(member: &Sim) -> Vec<String> {
    let mut images: Vec<String> = pods(member)
        .await
        .iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned())
        .collect();
    images.dedup();
    images
}

// Shows: SIM-3, SIM-5
#[tokio::test(start_paused = true)]
async fn a_deployment_of_a_hundred_is_ready_within_two_seconds() {
    let member = start(3).await;
    eventually_is(&member, "serviceaccounts", "default", |_| true).await;
    let began = tokio::time::Instant::now();
    create(&member, &deployment("web", 100, "nginx")).await;
    let web = rolled_out(&member, "web").await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(condition(&web, "Available")["reason"], "MinimumReplicasAvailable");
    assert_eq!(condition(&web, "Progressing")["reason"], "NewReplicaSetAvailable");
    assert_eq!(web.annotation("deployment.kubernetes.io/revision"), Some("1"));
    let pods = pods(&member).await;
    assert_eq!(pods.len(), 100);
    let addresses: std::collections::BTreeSet<_> =
        pods.iter().map(|pod| pod["status"]["podIP"].to_string()).collect();
    assert_eq!(addresses.len(), 100);
    let kinds: Vec<_> =
        pods[0].list_at(&["status", "conditions"]).iter().map(|c| c["type"].clone()).collect();
    assert_eq!(kinds, ["Initialized", "Ready", "ContainersReady", "PodScheduled"]);
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_never_has_too_few_or_too_many_pods() {
    let member = start(3).await;
    let mut web = deployment("web", 10, "nginx:1");
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}});
    web["spec"]["template"]["metadata"]["annotations"] =
        json!({"sim.karmada.io/start-delay": "2s"});
    create(&member, &web).await;
    rolled_out(&member, "web").await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}});
    api(&member, "deployments.apps").merge_patch("web", patch).await.unwrap();
    let done = eventually("the update is done", async || {
        let alive: Vec<_> =
            pods(&member).await.into_iter().filter(|pod| !pod.is_being_deleted()).collect();
        let ready = alive.iter().filter(|pod| condition(pod, "Ready")["status"] == "True").count();
        assert!(alive.len() <= 12, "{} pods", alive.len());
        assert!(ready >= 9, "{ready} ready pods");
        let web = api(&member, "deployments.apps").get("web").await.unwrap();
        is_rolled_out(&web).then_some(web)
    })
    .await;
    assert_eq!(images(&member).await, ["nginx:2"]);
    assert_eq!(done.annotation("deployment.kubernetes.io/revision"), Some("2"));
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn going_back_reuses_the_old_replica_set_with_a_new_revision() {
    let member = start(3).await;
    create(&member, &deployment("web", 3, "nginx:1")).await;
    rolled_out(&member, "web").await;
    for image in ["nginx:2", "nginx:1"] {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        api(&member, "deployments.apps").merge_patch("web", patch).await.unwrap();
        eventually("the image is everywhere", async || {
            rolled_out(&member, "web").await;
            (images(&member).await == [image]).then_some(())
        })
        .await;
    }
    let sets = api(&member, "replicasets.apps").list_all(&ListOptions::default()).await.unwrap();
    assert_eq!(sets.items.len(), 2);
    let web = rolled_out(&member, "web").await;
    assert_eq!(web.annotation("deployment.kubernetes.io/revision"), Some("3"));
    let history = sets
        .items
        .iter()
        .filter_map(|set| set.meta().annotations.get("deployment.kubernetes.io/revision-history"));
    assert_eq!(history.collect::<Vec<_>>(), ["1"]);
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn recreate_has_no_two_templates_at_once() {
    let member = start(3).await;
    let mut web = deployment("web", 4, "nginx:1");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    web["spec"]["template"]["metadata"]["annotations"] = json!({"sim.karmada.io/stop-delay": "5s"});
    create(&member, &web).await;
    rolled_out(&member, "web").await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}});
    api(&member, "deployments.apps").merge_patch("web", patch).await.unwrap();
    eventually("the image is everywhere", async || {
        let mut seen = images(&member).await;
        seen.sort();
        seen.dedup();
        assert!(seen.len() < 2, "{seen:?}");
        let web = api(&member, "deployments.apps").get("web").await.unwrap();
        (seen == ["nginx:2"] && is_rolled_out(&web)).then_some(())
    })
    .await;
    member.stop().await;
}

// Shows: SIM-6
#[tokio::test(start_paused = true)]
async fn pods_that_fit_nowhere_say_why_until_they_fit() {
    let member = start(3).await;
    let mut web = deployment("web", 1, "nginx");
    web["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "9"}});
    create(&member, &web).await;
    let unschedulable = eventually("the pod is refused", async || {
        let pod = pods(&member).await.pop()?;
        (condition(&pod, "PodScheduled")["reason"] == "Unschedulable").then_some(pod)
    })
    .await;
    assert_eq!(
        condition(&unschedulable, "PodScheduled")["message"],
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: \
         3 No preemption victims found for incoming pod."
    );
    let events = api(&member, "events").list_all(&ListOptions::default()).await.unwrap();
    let reasons: Vec<_> =
        events.items.iter().map(|event| event.value()["reason"].clone()).collect();
    assert!(reasons.contains(&json!("FailedScheduling")), "{reasons:?}");
    let bigger = json!({"status": {"allocatable": {"cpu": "16"}, "capacity": {"cpu": "16"}}});
    let patch = karmada_client::Patch::Merge(bigger);
    api(&member, "nodes")
        .patch_subresource("m1-node-2", "status", &patch, &Default::default())
        .await
        .unwrap();
    rolled_out(&member, "web").await;
    assert_eq!(pods(&member).await[0]["spec"]["nodeName"], "m1-node-2");
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_rollout_exceeds_its_deadline() {
    let member = start(1).await;
    let mut web = deployment("web", 1, "nginx");
    web["spec"]["progressDeadlineSeconds"] = 30.into();
    web["spec"]["template"]["metadata"]["annotations"] = json!({"sim.karmada.io/hold": "true"});
    create(&member, &web).await;
    let stuck = eventually_is(&member, "deployments.apps", "web", |web| {
        condition(web, "Progressing")["reason"] == "ProgressDeadlineExceeded"
    })
    .await;
    assert_eq!(condition(&stuck, "Progressing")["status"], "False");
    assert_eq!(condition(&stuck, "Available")["status"], "False");
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_loses_its_pods_to_the_others() {
    let member = start(3).await;
    create(&member, &deployment("web", 9, "nginx")).await;
    rolled_out(&member, "web").await;
    api(&member, "nodes")
        .merge_patch("m1-node-1", json!({"spec": {"unschedulable": true}}))
        .await
        .unwrap();
    eventually_is(&member, "nodes", "m1-node-1", |node| {
        !node.list_at(&["spec", "taints"]).is_empty()
    })
    .await;
    for pod in pods(&member).await.iter().filter(|pod| pod["spec"]["nodeName"] == "m1-node-1") {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name()}});
        api(&member, "pods").create_subresource(pod.name(), "eviction", &eviction).await.unwrap();
    }
    eventually("all pods are elsewhere", async || {
        let pods = pods(&member).await;
        let gone = pods.iter().all(|pod| pod["spec"]["nodeName"] != "m1-node-1");
        (gone && pods.len() == 9).then_some(())
    })
    .await;
    rolled_out(&member, "web").await;
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_deployment_leaves_nothing() {
    let member = start(2).await;
    create(&member, &deployment("web", 5, "nginx")).await;
    rolled_out(&member, "web").await;
    let options = karmada_client::DeleteOptions {
        propagation: Some(Propagation::Background),
        ..Default::default()
    };
    api(&member, "deployments.apps").delete("web", &options).await.unwrap();
    eventually("all pods are gone", async || pods(&member).await.is_empty().then_some(())).await;
    member.stop().await;
}

//! Requests to place workloads anew.

use karmada_api::wire::Time;
use karmada_apimachinery::{Value, json};

use crate::bare::{Plane, Setup, eventually};

const REBALANCERS: &str = "workloadrebalancers.apps.karmada.io";
const BINDINGS: &str = "resourcebindings.work.karmada.io";

fn workload(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "team", "name": name})
}

fn time(value: &Value) -> Option<Time> {
    karmada_apimachinery::from_value(value.clone()).ok()
}

/// Times of objects are in seconds, so that such a decision looks like the answer.
#[tokio::test(start_paused = true)]
async fn a_decision_of_the_same_second_is_no_answer_to_a_request() {
    let controllers = vec!["workloadRebalancer".to_owned()];
    let mut plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    plane.stop_controllers().await;
    plane.namespace("team").await;
    let request = json!({"metadata": {"name": "again"}, "spec": {"workloads": [workload("web")]}});
    let asked = plane.create(REBALANCERS, "", request).await;
    let asked = time(&asked["metadata"]["creationTimestamp"]).unwrap();
    let spec = json!({"resource": workload("web")});
    let binding = json!({"metadata": {"name": "web-deployment"}, "spec": spec});
    plane.create(BINDINGS, "team", binding).await;
    let bindings = plane.api(BINDINGS).namespaced("team");
    let scheduled = json!({"status": {"lastScheduledTime": asked}});
    bindings.merge_patch_status("web-deployment", scheduled).await.unwrap();
    plane.start_controllers();
    eventually("it is asked for", async || {
        let binding = bindings.get("web-deployment").await.unwrap();
        time(&binding["spec"]["rescheduleTriggeredAt"]).is_some_and(|triggered| triggered > asked)
    })
    .await;
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_triggers_the_scheduler_once_and_goes_after_its_time() {
    let controllers = vec!["workloadRebalancer".to_owned()];
    let mut plane = Plane::with(Setup { controllers, ..Setup::default() }).await;
    plane.namespace("team").await;
    let spec = json!({"resource": workload("web")});
    let binding = json!({"metadata": {"name": "web-deployment"}, "spec": spec});
    plane.create(BINDINGS, "team", binding).await;
    let request = json!({
        "metadata": {"name": "again"},
        "spec": {"workloads": [workload("web"), workload("nowhere")],
            "ttlSecondsAfterFinished": 600},
    });
    plane.create(REBALANCERS, "", request).await;
    let rebalancers = plane.api(REBALANCERS);
    eventually("it is served", async || {
        let found = rebalancers.get("again").await.unwrap();
        found["status"].get("finishTime").is_some()
    })
    .await;
    let served = rebalancers.get("again").await.unwrap();
    let seen = &served["status"]["observedWorkloads"];
    assert_eq!(seen[0]["workload"]["name"], "nowhere");
    assert_eq!(seen[0]["result"], "Failed");
    assert_eq!(seen[0]["reason"], "ReferencedBindingNotFound");
    assert_eq!(seen[1]["result"], "Successful");
    let binding = plane.api(BINDINGS).namespaced("team").get("web-deployment").await.unwrap();
    let asked_at = &served["metadata"]["creationTimestamp"];
    assert_eq!(&binding["spec"]["rescheduleTriggeredAt"], asked_at);

    plane.stop_controllers().await;
    let before = plane.revision().await;
    plane.start_controllers();
    tokio::time::sleep(std::time::Duration::from_secs(300)).await;
    assert_eq!(plane.revision().await, before, "a restart writes nothing");
    tokio::time::sleep(std::time::Duration::from_secs(400)).await;
    eventually("it is gone", async || rebalancers.find("again").await.unwrap().is_none()).await;
    plane.stop().await;
}

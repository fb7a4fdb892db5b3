//! What goes wrong on purpose.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use std::time::Duration;

use crate::member::{api, eventually, eventually_is, start};
use crate::workloads::{create, deployment, pods, rolled_out};

fn ready(node: &Value) -> String {
    let conditions = node.list_at(&["status", "conditions"]);
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    ready["status"].as_str().unwrap().to_owned()
}

// Shows: SIM-2
#[tokio::test(start_paused = true)]
async fn a_node_that_is_down_is_unknown_and_loses_its_pods_after_five_minutes() {
    let member = start(2).await;
    create(&member, &deployment("web", 4, "nginx")).await;
    rolled_out(&member, "web").await;
    let began = tokio::time::Instant::now();
    member.faults().node_down("m1-node-1");
    let node = eventually_is(&member, "nodes", "m1-node-1", |node| ready(node) == "Unknown").await;
    assert!((39..45).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(node.name(), "m1-node-1");
    eventually("the pods are marked", async || {
        let web = api(&member, "deployments.apps").get("web").await.unwrap();
        (web["status"]["readyReplicas"] == 2).then_some(())
    })
    .await;
    rolled_out(&member, "web").await;
    assert!((330..360).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    member.faults().heal();
    eventually_is(&member, "nodes", "m1-node-1", |node| {
        ready(node) == "True" && node.list_at(&["spec", "taints"]).is_empty()
    })
    .await;
    eventually("the old pods are gone", async || (pods(&member).await.len() == 4).then_some(()))
        .await;
    member.stop().await;
}

fn waiting(pod: &Value) -> &str {
    pod["status"]["containerStatuses"][0]
        .str_at(&["state", "waiting", "reason"])
        .unwrap_or_default()
}

// Shows: SIM-4
#[tokio::test(start_paused = true)]
async fn a_crash_loop_backs_off_and_recovers() {
    let member = start(1).await;
    member.faults().crash_loop("app=web");
    create(&member, &deployment("web", 1, "nginx")).await;
    let pod = eventually("it is restarted again and again", async || {
        let pod = pods(&member).await.pop()?;
        let restarts = pod["status"]["containerStatuses"][0].i64_at(&["restartCount"])?;
        (restarts >= 3 && waiting(&pod) == "CrashLoopBackOff").then_some(pod)
    })
    .await;
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    let message =
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("back-off 40s restarting failed container=main pod=web-"),
        "{message}"
    );
    member.faults().heal();
    rolled_out(&member, "web").await;
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_image_that_never_pulls_backs_off_until_it_is_there() {
    let member = start(1).await;
    member.faults().image_never_pulls("ghost:1");
    create(&member, &deployment("web", 1, "ghost:1")).await;
    eventually("the pull backs off", async || {
        let pod = pods(&member).await.pop()?;
        (waiting(&pod) == "ImagePullBackOff" && pod["status"]["phase"] == "Pending").then_some(())
    })
    .await;
    member.faults().heal();
    rolled_out(&member, "web").await;
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_full_member_takes_no_more_pods() {
    let member = start(3).await;
    member.faults().full();
    create(&member, &deployment("web", 1, "nginx")).await;
    eventually("the pod is refused", async || {
        let pod = pods(&member).await.pop()?;
        let why = pod["status"]["conditions"][0]["message"].as_str()?.to_owned();
        why.starts_with("0/3 nodes are available: 3 Too many pods.").then_some(())
    })
    .await;
    member.faults().heal();
    rolled_out(&member, "web").await;
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn frozen_watches_tell_nothing_until_they_thaw() {
    use futures::StreamExt as _;
    let member = start(1).await;
    let admin = karmada_apiserver::auth::Identity::new("a", ["system:masters"]);
    let maps = member.remote_client(admin).api(&karmada_apimachinery::gvk::Gvr::new(
        "",
        "v1",
        "configmaps",
    ));
    let maps = maps.namespaced("default");
    let options =
        karmada_client::WatchOptions { resource_version: "0".into(), ..Default::default() };
    let mut watch = maps.watch(&options).await.unwrap();
    member.faults().freeze();
    maps.create(&json!({"metadata": {"name": "news"}})).await.unwrap();
    let is_news = |event: &karmada_client::Result<karmada_client::WatchEvent>| matches!(event, Ok(karmada_client::WatchEvent::Added(map)) if map.name() == "news");
    let heard = async {
        loop {
            let event = watch.next().await.unwrap();
            if is_news(&event) {
                return;
            }
        }
    };
    tokio::pin!(heard);
    assert!(tokio::time::timeout(Duration::from_secs(60), &mut heard).await.is_err());
    member.faults().heal();
    tokio::time::timeout(Duration::from_secs(60), heard).await.unwrap();
    member.stop().await;
}

//! Who gets room when there is not enough, what pods do on a timeline, and addresses of balancers.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_member_sim::{Config, Nodes, Sim};
use std::time::Duration;

use crate::member::{api, config, eventually, eventually_is, start};
use crate::workloads::{create, deployment, pods, rolled_out};

async fn class(member: &Sim, name: &str, value: i64) {
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": name}, "value": value,
    });
    let api = member.client().api(&Gvr::new("scheduling.k8s.io", "v1", "priorityclasses"));
    api.create(&class).await.unwrap();
}

fn hungry(name: &str, replicas: i64, class: &str) -> Value {
    let mut deployment = deployment(name, replicas, "nginx");
    let spec = &mut deployment["spec"]["template"]["spec"];
    spec["priorityClassName"] = class.into();
    spec["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    deployment
}

// Shows: SIM-6
#[tokio::test(start_paused = true)]
async fn important_pods_take_the_place_of_the_least_important_ones() {
    let nodes = Nodes { count: 2, cpu: "2".to_owned(), ..Nodes::default() };
    let member = Sim::start(Config { nodes, ..config(2) }).await.unwrap();
    for (name, value) in [("low", 1), ("mid", 5), ("high", 10)] {
        class(&member, name, value).await;
    }
    create(&member, &hungry("low", 2, "low")).await;
    create(&member, &hungry("mid", 2, "mid")).await;
    rolled_out(&member, "low").await;
    rolled_out(&member, "mid").await;
    // Four processors are taken; two of them by those who matter least.
    create(&member, &hungry("high", 2, "high")).await;
    rolled_out(&member, "high").await;
    rolled_out(&member, "mid").await;
    let waiting = eventually("those of low priority wait", async || {
        let all = pods(&member).await;
        let low: Vec<Value> =
            all.into_iter().filter(|pod| pod.label("app") == Some("low")).collect();
        let waits = |pod: &Value| pod["spec"].get("nodeName").is_none();
        (low.len() == 2 && low.iter().all(waits)).then_some(low)
    })
    .await;
    let why = waiting[0]["status"]["conditions"][0]["message"].as_str().unwrap();
    assert_eq!(
        why,
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: \
         0/2 nodes are available: 2 No preemption victims found for incoming pod."
    );
    let events = api(&member, "events").list_all(&Default::default()).await.unwrap();
    let told = events.items.iter().filter(|event| event.value()["reason"] == "Preempted").count();
    assert_eq!(told, 2, "each victim once");
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_victim_says_why_it_goes() {
    let nodes = Nodes { count: 1, cpu: "1".to_owned(), ..Nodes::default() };
    let member = Sim::start(Config { nodes, ..config(1) }).await.unwrap();
    class(&member, "high", 10).await;
    let mut victim = hungry("victim", 1, "");
    victim["spec"]["template"]["metadata"]["annotations"] =
        json!({"sim.karmada.io/stop-delay": "20s"});
    create(&member, &victim).await;
    rolled_out(&member, "victim").await;
    create(&member, &hungry("high", 1, "high")).await;
    let leaving = eventually("the victim is being deleted", async || {
        pods(&member).await.into_iter().find(Value::is_being_deleted)
    })
    .await;
    let conditions = leaving.list_at(&["status", "conditions"]);
    let target = conditions.iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(target["reason"], "PreemptionByScheduler");
    // It takes its time, and nobody else is asked to go meanwhile.
    rolled_out(&member, "high").await;
    member.stop().await;
}

// Shows: SIM-4
#[tokio::test(start_paused = true)]
async fn pods_live_by_the_timeline_of_their_member() {
    let timeline = "start-delay=3s,ready-delay=2s,stop-delay=4s".parse().unwrap();
    let member = Sim::start(Config { timeline, ..config(1) }).await.unwrap();
    create(&member, &deployment("web", 1, "nginx")).await;
    let began = tokio::time::Instant::now();
    eventually("it is created", async || {
        let pod = pods(&member).await.pop()?;
        let waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
        (waiting == "ContainerCreating").then_some(())
    })
    .await;
    eventually("it runs and is not ready", async || {
        let pod = pods(&member).await.pop()?;
        let ready = pod["status"]["containerStatuses"][0]["ready"].clone();
        (pod["status"]["phase"] == "Running" && ready == false).then_some(())
    })
    .await;
    rolled_out(&member, "web").await;
    let took = began.elapsed();
    // Times in objects have no fractions of seconds.
    assert!((4..8).contains(&took.as_secs()), "{took:?}");
    let began = tokio::time::Instant::now();
    api(&member, "deployments.apps")
        .merge_patch("web", json!({"spec": {"replicas": 0}}))
        .await
        .unwrap();
    eventually("it has stopped", async || pods(&member).await.is_empty().then_some(())).await;
    assert!((3..7).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    member.stop().await;
}

// Shows: SIM-10
#[tokio::test(start_paused = true)]
async fn balancers_and_ingresses_get_addresses_of_the_pool() {
    let load_balancers = Some("203.0.113.0/30".parse().unwrap());
    let member = Sim::start(Config { load_balancers, ..config(1) }).await.unwrap();
    let service = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
    };
    let services = api(&member, "services");
    services.create(&service("one")).await.unwrap();
    let address = |object: &Value| {
        object["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().map(str::to_owned)
    };
    let one = eventually_is(&member, "services", "one", |one| address(one).is_some()).await;
    assert_eq!(one["status"]["loadBalancer"]["ingress"][0]["ipMode"], "VIP");
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "web"}, "spec": {"defaultBackend": {"service":
            {"name": "one", "port": {"number": 80}}}}});
    api(&member, "ingresses.networking.k8s.io").create(&ingress).await.unwrap();
    let ingress =
        eventually_is(&member, "ingresses.networking.k8s.io", "web", |web| address(web).is_some())
            .await;
    assert_ne!(address(&one), address(&ingress));
    // Nothing is left until one is given back.
    services.create(&service("late")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(address(&services.get("late").await.unwrap()), None);
    services.merge_patch("one", json!({"spec": {"type": "ClusterIP"}})).await.unwrap();
    eventually_is(&member, "services", "one", |one| address(one).is_none()).await;
    let late = eventually_is(&member, "services", "late", |late| address(late).is_some()).await;
    assert_eq!(address(&late), address(&one));
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn balancers_wait_where_there_is_no_pool() {
    let member = start(1).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    api(&member, "services").create(&service).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let service = api(&member, "services").get("web").await.unwrap();
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    member.stop().await;
}

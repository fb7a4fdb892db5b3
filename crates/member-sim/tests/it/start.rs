//! What a member has right after its start.

use karmada_member_sim::{Config, Fault};
use std::time::Duration;

use crate::member::{api, config, eventually_is, start};

// Shows: SIM-1, SIM-2
#[tokio::test(start_paused = true)]
async fn a_member_has_ready_nodes_and_beating_leases() {
    let member = start(2).await;
    let node = api(&member, "nodes").get("m1-node-2").await.unwrap();
    assert_eq!(node["status"]["capacity"]["cpu"], "8");
    assert_eq!(node["status"]["conditions"][4]["type"], "Ready");
    assert_eq!(node["status"]["conditions"][4]["status"], "True");
    let leases = api(&member, "leases.coordination.k8s.io").namespaced("kube-node-lease");
    let first = leases.get("m1-node-1").await.unwrap();
    tokio::time::sleep(Duration::from_secs(15)).await;
    let second = leases.get("m1-node-1").await.unwrap();
    assert_ne!(first["spec"]["renewTime"], second["spec"]["renewTime"]);
    eventually_is(&member, "serviceaccounts", "default", |_| true).await;
    member.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_is_felt_outside_and_not_inside() {
    let member = start(1).await;
    let admin = karmada_apiserver::auth::Identity::new("a", ["system:masters"]);
    let outside =
        member.remote_client(admin).api(&karmada_apimachinery::gvk::Gvr::new("", "v1", "nodes"));
    assert!(outside.get("m1-node-1").await.is_ok());
    member.faults().partition();
    assert!(outside.get("m1-node-1").await.is_err());
    assert!(api(&member, "nodes").get("m1-node-1").await.is_ok());
    member.faults().heal();
    assert!(outside.get("m1-node-1").await.is_ok());
    member.faults().set(Fault::BlackHole);
    let asked = tokio::time::timeout(Duration::from_secs(60), outside.get("m1-node-1")).await;
    assert!(asked.is_err(), "a black hole answers nothing");
    member.stop().await;
}

#[tokio::test]
async fn a_listening_member_is_reached_by_its_kubeconfig_until_it_is_cut_off() {
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let own = Config { listen, clock: karmada_runtime::Clock::real(), ..config(1) };
    let member = karmada_member_sim::Sim::start(own).await.unwrap();
    let file = std::env::temp_dir().join(format!("member-{}.config", std::process::id()));
    std::fs::write(&file, member.kubeconfig()).unwrap();
    let client = karmada_client::Client::from_kubeconfig(&file, None).await.unwrap();
    std::fs::remove_file(&file).unwrap();
    let nodes = client.api(&karmada_apimachinery::gvk::Gvr::new("", "v1", "nodes"));
    assert!(nodes.get("m1-node-1").await.is_ok());
    member.faults().partition();
    assert!(nodes.get("m1-node-1").await.is_err());
    member.faults().heal();
    crate::member::eventually("the port is open again", async || nodes.get("m1-node-1").await.ok())
        .await;
    member.stop().await;
}

#[tokio::test]
async fn faults_are_set_from_another_process_all_or_nothing() {
    let path = std::env::temp_dir().join(format!("member-{}.sock", std::process::id()));
    let own =
        Config { control: Some(path.clone()), clock: karmada_runtime::Clock::real(), ..config(1) };
    let member = karmada_member_sim::Sim::start(own).await.unwrap();
    let set = async |faults: &[&str]| {
        let faults: Vec<String> = faults.iter().map(|fault| (*fault).to_owned()).collect();
        karmada_member_sim::set_faults(&path, &faults).await.map_err(|error| error.to_string())
    };
    assert_eq!(set(&[]).await.unwrap(), "healthy");
    assert_eq!(set(&["partition", "full"]).await.unwrap(), "partition full");
    assert!(set(&["heal", "fire"]).await.unwrap_err().starts_with("there is no fault \"fire\""));
    assert_eq!(member.faults().current().to_string(), "partition full");
    assert_eq!(set(&["heal"]).await.unwrap(), "healthy");
    member.stop().await;
    assert!(!path.exists());
}

//! Backups of a control plane that runs, and moves between its directory and etcd.

use std::path::Path;
use std::process::Command;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, Client, DeleteOptions};

use crate::environment::without_personal_settings;
use crate::etcd_servers::Servers;
use crate::server::{Server, text};

/// Runs a command of the binary on the data of a server; says what it printed.
fn karmada(server: &Server, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    let output = without_personal_settings(&mut command)
        .args(arguments)
        .arg("--data-dir")
        .arg(server.data())
        .output()
        .expect("run karmada");
    if output.status.success() { Ok(text(&output)) } else { Err(text(&output)) }
}

async fn config_maps(server: &Server) -> Api {
    let client = Client::from_kubeconfig(&server.kubeconfig(), None).await.expect("make a client");
    client.api(&Gvr::new("", "v1", "configmaps")).namespaced("default")
}

async fn create(maps: &Api, name: &str) -> (String, i64) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let made = maps.create(&map).await.expect("create");
    (made.uid().to_owned(), made.resource_version().parse().expect("a version"))
}

async fn exists(maps: &Api, name: &str) -> bool {
    maps.find(name).await.expect("ask").is_some()
}

#[tokio::test]
async fn a_backup_is_taken_and_brought_back_while_the_server_runs() {
    let server = Server::plane(&[]);
    let maps = config_maps(&server).await;
    let (uid, _) = create(&maps, "kept").await;
    let file = server.scratch().join("backup");
    let file = file.to_str().expect("a path");
    let told = karmada(&server, &["backup", file]).expect("back up");
    assert!(told.contains("objects as of revision"), "{told}");
    maps.delete("kept", &DeleteOptions::default()).await.expect("delete");
    let (_, version) = create(&maps, "later").await;
    let told = karmada(&server, &["restore", file]).expect("restore");
    assert!(told.contains("objects written and"), "{told}");
    let kept = maps.get("kept").await.expect("it is back");
    assert_eq!(kept.uid(), uid);
    assert!(kept.resource_version().parse::<i64>().expect("a version") > version);
    assert!(!exists(&maps, "later").await);
    let refused = karmada(&server, &["restore", "/nowhere"]).expect_err("there is no such file");
    assert!(refused.contains("/nowhere"), "{refused}");
}

// The credentials of the lost control plane open the new one.
#[tokio::test]
async fn a_lost_directory_is_made_anew_from_a_backup() {
    let mut server = Server::plane(&[]);
    let (uid, version) = create(&config_maps(&server).await, "kept").await;
    let file = server.scratch().join("backup");
    let file = file.to_str().expect("a path");
    karmada(&server, &["backup", file]).expect("back up");
    let kubeconfig = std::fs::read_to_string(server.kubeconfig()).expect("read");
    server.kill();
    let refused = karmada(&server, &["restore", file]).expect_err("there is a store");
    assert!(refused.contains("there is a store"), "{refused}");
    for lost in ["store", "pki"] {
        std::fs::remove_dir_all(server.data().join(lost)).expect("remove");
    }
    karmada(&server, &["restore", file]).expect("restore");
    server.start_again();
    std::fs::write(server.kubeconfig(), kubeconfig).expect("write");
    let maps = config_maps(&server).await;
    assert_eq!(maps.get("kept").await.expect("it is back").uid(), uid);
    let (_, later) = create(&maps, "later").await;
    assert!(later > version + 1000, "versions given out since the backup are not given out again");
}

fn entries(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("list a directory");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into()).collect()
}

#[tokio::test]
async fn a_control_plane_moves_to_etcd_and_back() {
    let Some(etcd) = Servers::start(1) else { return };
    let mut server = Server::plane(&[]);
    let (uid, mut version) = create(&config_maps(&server).await, "moved").await;
    let servers = etcd.addresses().join(",");
    let there = ["move", "--to", "etcd", "--etcd-servers", &servers];
    let refused = karmada(&server, &there).expect_err("it runs");
    assert!(refused.contains("in use by"), "{refused}");
    server.kill();
    karmada(&server, &there).expect("move to etcd");
    assert!(!entries(&server.data()).contains(&"store".to_owned()));
    server.start_again_with(&["--etcd-servers", &servers]);
    for _ in 0..2 {
        let maps = config_maps(&server).await;
        assert_eq!(maps.get("moved").await.expect("it was moved").uid(), uid);
        maps.delete("probe", &DeleteOptions::default()).await.ok();
        let (_, later) = create(&maps, "probe").await;
        assert!(later > version, "versions go on: {later} after {version}");
        version = later;
        if entries(&server.data()).contains(&"store".to_owned()) {
            return;
        }
        server.kill();
        let back = ["move", "--to", "embedded", "--etcd-servers", &servers];
        karmada(&server, &back).expect("move back");
        server.start_again_with(&[]);
    }
}

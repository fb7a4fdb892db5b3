//! `karmada agent`: a cluster that registers itself and works for itself, each as a process of its own.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Client;

use crate::environment::confine;
use crate::member::Member;
use crate::server::{Server, eventually_awaited as eventually, text};

fn agent(server: &Server, member: &Member, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    confine(&mut command, &server.scratch().join("home"))
        .args(["agent", "--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .arg(format!("--karmada-kubeconfig={}", server.kubeconfig().display()))
        .arg(format!("--kubeconfig={}", member.kubeconfig().display()))
        .arg(format!("--cluster-name={name}"));
    command
}

/// A running agent; it is stopped by its process id when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn client(kubeconfig: &Path) -> Client {
    Client::from_kubeconfig(kubeconfig, None).await.unwrap()
}

#[tokio::test]
async fn an_agent_registers_its_cluster_and_runs_there_what_is_wanted() {
    let (server, member) = (Server::up(), Member::named("edge", &[]));
    let mut command = agent(&server, &member, "edge");
    command.args(["--cluster-region=north", "--cluster-zones=n1,n2"]).stderr(Stdio::null());
    let _agent = Running(command.spawn().expect("start karmada agent"));
    let plane = client(&server.kubeconfig()).await;
    let clusters = plane.api(&Gvr::new("cluster.karmada.io", "v1alpha1", "clusters"));
    let cluster = eventually("the cluster is ready", async || {
        let cluster = clusters.find("edge").await.ok()??;
        let mut conditions = cluster.list_at(&["status", "conditions"]).iter();
        let is_ready = conditions.any(|c| c["type"] == "Ready" && c["status"] == "True");
        is_ready.then_some(cluster)
    })
    .await;
    assert_eq!(cluster["spec"]["syncMode"], "Pull");
    assert_eq!(cluster["spec"]["region"], "north");
    assert_eq!(cluster["spec"]["zones"], json!(["n1", "n2"]));

    let web: Value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]}}},
    });
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["edge"]}}},
    });
    let deployments = plane.api(&Gvr::new("apps", "v1", "deployments")).namespaced("default");
    deployments.create(&web).await.unwrap();
    let policies = plane.api(&Gvr::new("policy.karmada.io", "v1alpha1", "propagationpolicies"));
    policies.namespaced("default").create(&policy).await.unwrap();
    eventually("its state comes back", async || {
        let web = deployments.get("web").await.ok()?;
        (web.i64_at(&["status", "readyReplicas"]) == Some(2)).then_some(())
    })
    .await;

    let nowhere = agent(&server, &member, "edge")
        .arg("--karmada-context=karmada")
        .output()
        .expect("run karmada agent");
    assert!(!nowhere.status.success());
    assert!(text(&nowhere).contains("there are: karmada-apiserver"), "{}", text(&nowhere));
    let second = agent(&server, &member, "border").output().expect("run karmada agent");
    assert!(!second.status.success());
    assert!(text(&second).contains("is registered as edge already"), "{}", text(&second));
}

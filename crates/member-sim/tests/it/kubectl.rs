//! A listening member, judged by kubectl.

use std::process::Command;
use std::time::{Duration, Instant};

use karmada_member_sim::{Config, Sim};
use karmada_runtime::Clock;

use crate::member::config;

/// Runs kubectl against the member; returns what it printed and whether it was content. It has a home of its
/// own: what kubectl keeps about servers there goes by address, and ports come back.
struct Kubectl(std::path::PathBuf);

impl Kubectl {
    async fn run(&self, line: &str) -> (String, bool) {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('~', " ")).collect();
        let home = self.0.clone();
        let output = tokio::task::spawn_blocking(move || {
            let kubeconfig = home.join("config");
            let mut command = Command::new("kubectl");
            command.arg("--kubeconfig").arg(kubeconfig).args(words);
            command.env("HOME", home).env_remove("KUBECACHEDIR").output()
        });
        let output = output.await.unwrap().expect("start kubectl");
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status.success())
    }

    async fn ok(&self, line: &str) -> String {
        let (text, content) = self.run(line).await;
        assert!(content, "kubectl {line}:\n{text}");
        text
    }

    async fn shows(&self, line: &str, expected: &str) {
        let text = self.ok(line).await;
        assert!(text.contains(expected), "kubectl {line}: no {expected:?} in\n{text}");
    }
}

// Shows: SIM-3, SIM-5, SIM-8, SIM-9
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_deploys_rolls_back_drains_and_looks_inside() {
    if Command::new("kubectl").arg("version").arg("--client").output().is_err() {
        eprintln!("SKIPPED: kubectl is not installed");
        return;
    }
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let member = Sim::start(Config { listen, clock: Clock::real(), ..config(3) }).await.unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config"), member.kubeconfig()).unwrap();
    let kubectl = Kubectl(home.path().to_owned());

    kubectl.ok("create deployment web --image=nginx:1 --replicas=100").await;
    let began = Instant::now();
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    eprintln!("100 replicas were ready after {:?}", began.elapsed());
    kubectl.shows("get deployment web", "100/100").await;
    kubectl.ok("scale deployment web --replicas=4").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("set image deployment/web nginx=nginx:2").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("rollout restart deployment/web").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl.ok("rollout undo deployment/web --to-revision=1").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;
    kubectl
        .shows(
            "get deployment web -o jsonpath={.spec.template.spec.containers[0].image}",
            "nginx:1",
        )
        .await;
    kubectl.shows("rollout history deployment/web", "4").await;

    kubectl.ok("drain m1-node-1 --ignore-daemonsets --timeout=300s").await;
    kubectl.shows("get nodes", "Ready,SchedulingDisabled").await;
    kubectl.ok("uncordon m1-node-1").await;
    kubectl.ok("rollout status deployment/web --timeout=300s").await;

    kubectl.shows("logs deployment/web", "Starting nginx from nginx:1").await;
    kubectl.shows("exec deployment/web -- hostname", "web-").await;
    kubectl.shows("exec deployment/web -- sh -c echo~one~&&~echo~two", "two").await;
    let (text, content) = kubectl.run("exec deployment/web -- sh -c exit~3").await;
    assert!(!content && text.contains("exit code 3"), "{text}");
    kubectl.shows("top nodes", "m1-node-2").await;
    kubectl.shows("top pods", "1Mi").await;

    kubectl.ok("delete deployment web").await;
    let deadline = Instant::now() + Duration::from_secs(300);
    while kubectl.ok("get pods").await.contains("web-") {
        assert!(Instant::now() < deadline, "pods are left");
    }
    member.stop().await;
}

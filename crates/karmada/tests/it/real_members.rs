//! Real Kubernetes clusters as members: joined, looked at, reached through, let go, and reported
//! field by field as a simulated member of the same size is. Run by `./test real` with
//! `KARMADA_TEST_KUBECONFIGS` naming kubeconfigs of clusters made for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use karmada_apimachinery::{Value, json};

use crate::member::Member;
use crate::scenarios::{self, Part};
use crate::server::{Server, eventually, text};

/// Not the usual one: tests beside this one use the same clusters.
const NAMESPACE: &str = "karmada-reached";

fn clusters(variable: &str) -> Vec<PathBuf> {
    let Some(paths) = std::env::var_os(variable) else {
        eprintln!("SKIPPED real members: {variable} is not set");
        return Vec::new();
    };
    std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect()
}

struct Plane(Server);

impl Plane {
    fn karmadactl(&self, line: &str, kubeconfig: Option<&Path>) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
        command.arg("ctl").args(line.split(' '));
        command.arg("--kubeconfig").arg(self.0.kubeconfig());
        if let Some(kubeconfig) = kubeconfig {
            command.arg("--cluster-kubeconfig").arg(kubeconfig);
        }
        command.output().expect("run karmadactl")
    }

    /// What a command that must fail says.
    fn refusal(&self, line: &str, kubeconfig: Option<&Path>) -> String {
        let output = self.karmadactl(line, kubeconfig);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", text(&output));
        assert!(output.stdout.is_empty(), "{line}: {}", text(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn ok(&self, line: &str, kubeconfig: Option<&Path>) -> String {
        let output = self.karmadactl(line, kubeconfig);
        assert!(output.status.success(), "{line}: {}", text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn kubectl(&self, line: &str) -> Output {
        kubectl(&self.0.kubeconfig(), line)
    }

    fn cluster(&self, name: &str) -> Value {
        let output = self.kubectl(&format!("get cluster {name} -o json"));
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn until_ready(&self, name: &str) -> Value {
        eventually("the cluster is ready and counted", || {
            let cluster = self.cluster(name);
            let conditions = cluster["status"]["conditions"].as_array()?;
            let is_true =
                |kind: &str| conditions.iter().any(|c| c["type"] == kind && c["status"] == "True");
            let is_counted = cluster["status"]["resourceSummary"].is_object();
            (is_true("Ready") && is_true("CompleteAPIEnablements") && is_counted).then_some(cluster)
        })
    }
}

fn kubectl(kubeconfig: &Path, line: &str) -> Output {
    let words = line.split(' ').map(|word| word.replace('~', " "));
    Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args(words).output().unwrap()
}

fn get(kubeconfig: &Path, line: &str) -> Value {
    let output = kubectl(kubeconfig, &format!("get {line} -o json"));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn exists(kubeconfig: &Path, line: &str) -> bool {
    kubectl(kubeconfig, &format!("get {line}")).status.success()
}

/// Clusters of their own without nodes: the scenarios bring theirs, and remove what else there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_members_hold_what_members_of_the_original_held() {
    let (clusters, names) = (clusters("KARMADA_TEST_MEMBER_KUBECONFIGS"), scenarios::members());
    if clusters.is_empty() {
        return;
    }
    assert_eq!(
        clusters.len(),
        names.len(),
        "KARMADA_TEST_MEMBER_KUBECONFIGS names one for each of {names:?}"
    );
    let server = Server::up();
    let config = |name: &str| {
        let place = names.iter().position(|known| known == name);
        clusters[place.expect("a member of the recordings")].clone()
    };
    scenarios::replay_at(&server.kubeconfig(), config, Part::Core).await;
}

// Shows: MISC-2
#[test]
fn real_clusters_are_joined_reached_and_let_go() {
    let clusters = clusters("KARMADA_TEST_KUBECONFIGS");
    if clusters.is_empty() {
        return;
    }
    let plane = Plane(Server::up());
    for (place, real) in clusters.iter().enumerate() {
        let name = format!("real{place}");
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            join(&plane, &name, real);
            reach(&plane, &name, real);
            compare_with_a_twin(&plane, &name, real);
            unjoin(&plane, &name, real);
        }));
        // Whatever happened, the cluster is left as it was.
        kubectl(real, &format!("delete namespace {NAMESPACE} --ignore-not-found --wait=false"));
        kubectl(real, "delete deployment twin --ignore-not-found");
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
}

fn join(plane: &Plane, name: &str, real: &Path) {
    let line = format!(
        "join {name} --cluster-namespace {NAMESPACE} --cluster-provider p --cluster-region r --cluster-zones z1,z2"
    );
    assert_eq!(plane.ok(&format!("{line} --dry-run"), Some(real)), "");
    assert!(!exists(real, &format!("namespace {NAMESPACE}")), "a dry run changed the member");
    assert_eq!(plane.cluster(name), Value::Null, "a dry run changed the control plane");

    let joined = format!("cluster({name}) is joined successfully\n");
    assert_eq!(plane.ok(&line, Some(real)), joined);
    let id = get(real, "namespace kube-system")["metadata"]["uid"].as_str().unwrap().to_owned();
    for again in [name, "other"] {
        let refused =
            plane.refusal(&format!("join {again} --cluster-namespace {NAMESPACE}"), Some(real));
        let expected =
            format!("error: the cluster ID {id} or the cluster name {again} has been registered\n");
        assert_eq!(refused, expected);
    }
    let cluster = plane.until_ready(name);
    let spec = &cluster["spec"];
    assert_eq!(spec["id"], id.as_str());
    assert_eq!(spec["syncMode"], "Push");
    assert_eq!(
        json!([spec["provider"], spec["region"], spec["zones"]]),
        json!(["p", "r", ["z1", "z2"]])
    );
    for secret in [name.to_owned(), format!("{name}-impersonator")] {
        let secret = get(&plane.0.kubeconfig(), &format!("-n {NAMESPACE} secret {secret}"));
        assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], cluster["metadata"]["uid"]);
    }
    for object in [
        format!("namespace {NAMESPACE}"),
        format!("-n {NAMESPACE} serviceaccount karmada-impersonator"),
        format!("-n {NAMESPACE} serviceaccount karmada-{name}"),
        format!("clusterrole karmada-controller-manager:karmada-{name}"),
        format!("clusterrolebinding karmada-controller-manager:karmada-{name}"),
    ] {
        let found = get(real, &object);
        assert_eq!(found["metadata"]["labels"]["karmada.io/system"], "true", "{object}");
    }

    // A cluster that was let go without its kubeconfig still has all of that, and is joined again.
    assert_eq!(
        plane.ok(&format!("unjoin {name} --cluster-namespace {NAMESPACE} --wait 5m"), None),
        ""
    );
    assert!(exists(real, &format!("-n {NAMESPACE} serviceaccount karmada-{name}")));
    assert_eq!(plane.ok(&line, Some(real)), joined);
    plane.until_ready(name);
}

fn reach(plane: &Plane, name: &str, real: &Path) {
    let through = format!(
        "--server https://{}/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy",
        plane.0.address()
    );
    let nodes = eventually("the caller is let through", || {
        let output = plane.kubectl(&format!("{through} get nodes -o name"));
        output.status.success().then_some(output.stdout)
    });
    // What kubectl says beside it is about kinds that other tests have just taken away.
    assert_eq!(nodes, kubectl(real, "get nodes -o name").stdout);
    let made = plane.kubectl(&format!("{through} create configmap reached --from-literal=a=b"));
    assert!(made.status.success(), "{}", text(&made));
    assert_eq!(get(real, "configmap reached")["data"], json!({"a": "b"}));
    let deleted = plane.kubectl(&format!("{through} delete configmap reached"));
    assert!(deleted.status.success(), "{}", text(&deleted));
}

/// A simulated member with nodes of the same size has the same status.
fn compare_with_a_twin(plane: &Plane, name: &str, real: &Path) {
    let nodes = get(real, "nodes");
    let nodes = nodes["items"].as_array().unwrap();
    let size = |resource: &str| {
        let amount =
            |node: &Value| node["status"]["allocatable"][resource].as_str().unwrap().to_owned();
        let first = nodes.first().map(amount).unwrap();
        assert!(nodes.iter().all(|node| amount(node) == first), "nodes of one size are needed");
        first
    };
    let count = nodes.len().to_string();
    let (cpu, memory, pods) = (size("cpu"), size("memory"), size("pods"));
    let twin = Member::start_with(&[
        "--nodes", &count, "--cpu", &cpu, "--memory", &memory, "--pods", &pods,
    ]);
    plane.ok(&format!("join {name}-twin"), Some(&twin.kubeconfig()));
    same_status(plane, name);

    // The same workload, the same numbers.
    for kubeconfig in [real, &twin.kubeconfig()] {
        let made = kubectl(kubeconfig, "create deployment twin --image=nginx --replicas=3");
        assert!(made.status.success(), "{}", text(&made));
        let sized =
            kubectl(kubeconfig, "set resources deployment twin --requests=cpu=100m,memory=64Mi");
        assert!(sized.status.success(), "{}", text(&sized));
    }
    eventually("the pods are counted", || {
        let count = |name: &str| {
            plane.cluster(name)["status"]["resourceSummary"]["allocated"]["pods"].clone()
        };
        (count(name) == "3" && count(&format!("{name}-twin")) == "3").then_some(())
    });
    same_status(plane, name);
    kubectl(real, "delete deployment twin");
    plane.ok(&format!("unjoin {name}-twin --wait 5m"), None);
}

fn same_status(plane: &Plane, name: &str) {
    let mut last = (Value::Null, Value::Null);
    let twin = format!("{name}-twin");
    let began = std::time::Instant::now();
    // Both are looked at every few seconds, one a little earlier than the other.
    while began.elapsed() < crate::server::PATIENCE {
        last = (comparable(plane.until_ready(name)), comparable(plane.until_ready(&twin)));
        // Another Kubernetes serves other APIs.
        if last.0["kubernetesVersion"] != last.1["kubernetesVersion"] {
            for status in [&mut last.0, &mut last.1] {
                let fields = status.as_object_mut().unwrap();
                fields.retain(|name, _| name != "kubernetesVersion" && name != "apiEnablements");
            }
        }
        if last.0 == last.1 {
            return;
        }
    }
    assert_eq!(last.0, last.1);
}

/// The status without times, and without the APIs that are not Kubernetes' own.
fn comparable(mut cluster: Value) -> Value {
    let status = &mut cluster["status"];
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
    }
    // Nodes of the testbed have no storage of their own; simulated ones do.
    for field in ["allocatable", "allocated", "allocating"] {
        if let Some(amounts) = status["resourceSummary"][field].as_object_mut() {
            amounts.remove("ephemeral-storage");
        }
    }
    // Simulated members measure use themselves; custom kinds belong to tests beside this one.
    let is_own = |api: &Value| {
        let group = api["groupVersion"].as_str().unwrap_or_default();
        !group.starts_with("metrics.k8s.io/") && !group.contains("karmada.io/")
    };
    if let Some(apis) = status["apiEnablements"].as_array_mut() {
        apis.retain(is_own);
    }
    status.take()
}

fn unjoin(plane: &Plane, name: &str, real: &Path) {
    let line = format!("unjoin {name} --cluster-namespace {NAMESPACE} --wait 5m");
    assert_eq!(plane.ok(&format!("{line} --dry-run"), Some(real)), "");
    assert_ne!(plane.cluster(name), Value::Null, "a dry run let the cluster go");
    assert_eq!(plane.ok(&line, Some(real)), "");
    assert_eq!(plane.cluster(name), Value::Null);
    assert!(!exists(real, &format!("clusterrole karmada-controller-manager:karmada-{name}")));
    eventually("the member is clean", || {
        (!exists(real, &format!("namespace {NAMESPACE}"))).then_some(())
    });
    let expected = format!("error: no cluster object {name} found in karmada control Plane\n");
    assert_eq!(plane.refusal(&line, Some(real)), expected);
    assert!(!exists(&plane.0.kubeconfig(), &format!("namespace karmada-es-{name}")));
}

//! Walkthroughs that begin with clusters nobody has joined yet: the notes of a kind user (A3 to A12), a course (A13 to
//! A15) and an integration (A19). Typed as written there, paths aside; on simulated clusters, and on real ones where
//! `KARMADA_TEST_KUBECONFIGS` names any.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use karmada_apimachinery::{Value, json};

use super::shell::{Shell, Terminal, steady};

/// A simulated cluster that nobody has joined.
struct Cluster {
    process: Child,
    data: tempfile::TempDir,
    name: String,
}

impl Cluster {
    fn start(name: &str) -> Self {
        let data = tempfile::tempdir().expect("make a directory");
        let mut process = Command::new(env!("CARGO_BIN_EXE_karmada"))
            .args(["member", name, "--data-dir"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("start karmada member");
        let stdout = process.stdout.take().expect("its output is ours");
        let mut greeting = String::new();
        BufReader::new(stdout).read_line(&mut greeting).expect("read the greeting");
        assert!(greeting.contains("is ready"), "{greeting}");
        Self { process, data, name: name.to_owned() }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.data.path().join(format!("members/{}.config", self.name))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes `~/.kube/config` with a context per cluster; the first is the current one.
fn write_home(shell: &Shell, clusters: &[(&str, PathBuf)]) {
    let mut merged = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": clusters[0].0,
        "clusters": [], "users": [], "contexts": [],
    });
    for (name, path) in clusters {
        let text = shell.ok(&format!(
            "kubectl --kubeconfig {} config view --raw --minify --flatten -o json",
            path.display()
        ));
        let one: Value = serde_json::from_str(&text).expect("understand a kubeconfig");
        for (list, kind) in [("clusters", "cluster"), ("users", "user")] {
            let entry = json!({"name": name, kind: one[list][0][kind]});
            merged[list].as_array_mut().unwrap().push(entry);
        }
        let context = json!({"name": name, "context": {"cluster": name, "user": name}});
        merged["contexts"].as_array_mut().unwrap().push(context);
    }
    let folder = shell.home().join(".kube");
    std::fs::create_dir_all(&folder).expect("make ~/.kube");
    std::fs::write(folder.join("config"), merged.to_string()).expect("write ~/.kube/config");
}

/// The shell of someone who follows the notes: paths of the notes lead to the files of the test.
struct Notes<'a> {
    shell: &'a Shell,
}

impl Terminal for Notes<'_> {
    fn run(&self, line: &str) -> super::shell::Answer {
        let kubeconfig = self.shell.server.kubeconfig();
        let home = self.shell.home().join(".kube/config");
        let line = line
            .replace("/etc/karmada/karmada-apiserver.config", &kubeconfig.display().to_string());
        self.shell.type_in(&line, self.shell.server.scratch(), &[("KUBECONFIG", &home)])
    }

    fn folder(&self) -> PathBuf {
        self.shell.folder()
    }
}

const PLANE: &str = "--kubeconfig /etc/karmada/karmada-apiserver.config";

fn nginx_policy(affinity: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata:\n  name: propagaetion-nginx\nspec:\n  \
         resourceSelectors:\n    - apiVersion: apps/v1\n      kind: Deployment\n      name: nginx\n  placement:\n    \
         clusterAffinity:\n{affinity}"
    )
}

/// A3 to A12: join, place, move, select by labels and by fields.
fn follow_the_notes(shell: &Shell, clusters: &[(&str, PathBuf)]) {
    write_home(shell, clusters);
    let notes = Notes { shell };
    // A3.
    for name in ["kind-cluster01", "kind-cluster02"] {
        let joined = notes.ok(&format!(
            "kubectl karmada join {name} --kubeconfig=/etc/karmada/karmada-apiserver.config \
             --cluster-kubeconfig=$HOME/.kube/config --cluster-context={name}"
        ));
        assert_eq!(joined, format!("cluster({name}) is joined successfully\n"));
    }
    // A4.
    notes.until_it_prints(
        &format!("kubectl {PLANE} get clusters"),
        "NAME VERSION MODE READY AGE\nkind-cluster01 VERSION Push True AGE\nkind-cluster02 VERSION Push True AGE",
    );
    place_and_move(&notes);
    select_by_labels(&notes);
    select_by_fields(&notes);
    // Leaves the clusters as they were.
    notes.ok(&format!("kubectl {PLANE} delete pp propagaetion-nginx"));
    notes.ok(&format!("kubectl {PLANE} delete deployment nginx"));
    for name in ["kind-cluster01", "kind-cluster02"] {
        notes.until(&format!("kubectl --context {name} get deploy nginx -o name; echo ."), |out| {
            out == ".\n"
        });
        let gone = notes.ok(&format!(
            "kubectl karmada unjoin {name} --kubeconfig=/etc/karmada/karmada-apiserver.config \
             --cluster-kubeconfig=$HOME/.kube/config --cluster-context={name} --wait 10m"
        ));
        assert_eq!(gone, "");
    }
}

/// A5 to A7.
fn place_and_move(notes: &Notes<'_>) {
    notes.write(
        "propagationpolicy.yaml",
        &nginx_policy("      clusterNames:\n        - kind-cluster01\n"),
    );
    notes.ok(&format!("kubectl {PLANE} apply -f propagationpolicy.yaml"));
    assert_eq!(
        notes.ok(&format!("kubectl {PLANE} create deployment nginx --image nginx")),
        "deployment.apps/nginx created\n"
    );
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get deployment --operation-scope=members"),
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx kind-cluster01 1/1 1 1 AGE Y",
    );
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get deployment"),
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx Karmada 1/1 1 1 AGE -",
    );
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get pods --operation-scope=members"),
        "NAME CLUSTER READY STATUS RESTARTS AGE\nnginx-POD kind-cluster01 1/1 Running 0 AGE",
    );
    // A6.
    notes.until("kubectl --context kind-cluster01 get pods", |out| out.contains("1/1     Running"));
    let empty = notes.run("kubectl --context kind-cluster02 get pods");
    assert_eq!(empty.err, "No resources found in default namespace.\n");
    // A7.
    notes.write(
        "propagationpolicy-update.yaml",
        &nginx_policy("      clusterNames:\n        - kind-cluster02\n"),
    );
    assert_eq!(
        notes.ok(&format!("kubectl {PLANE} apply -f propagationpolicy-update.yaml")),
        "propagationpolicy.policy.karmada.io/propagaetion-nginx configured\n"
    );
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get deployment --operation-scope=members"),
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx kind-cluster02 1/1 1 1 AGE Y",
    );
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get pods --operation-scope=members"),
        "NAME CLUSTER READY STATUS RESTARTS AGE\nnginx-POD kind-cluster02 1/1 Running 0 AGE",
    );
}

/// A8 to A10, and the labels of A4.
fn select_by_labels(notes: &Notes<'_>) {
    for (cluster, label) in [
        ("kind-cluster01", "app=cluster01"),
        ("kind-cluster02", "app=cluster02"),
        ("kind-cluster01", "deploy-type=kind"),
        ("kind-cluster02", "deploy-type=kind"),
    ] {
        assert_eq!(
            notes.ok(&format!("kubectl {PLANE} label cluster {cluster} {label}")),
            format!("cluster.cluster.karmada.io/{cluster} labeled\n")
        );
    }
    let labels = steady(&notes.ok(&format!("kubectl {PLANE} get cluster --show-labels")));
    let expected = "kind-cluster01 VERSION Push True AGE app=cluster01,deploy-type=kind";
    assert_eq!(labels.lines().nth(1), Some(expected), "{labels}");
    notes.ok(&format!("kubectl {PLANE} scale deployment nginx --replicas=2"));
    // A9.
    let by_labels =
        nginx_policy("      labelSelector:\n        matchLabels:\n          app: cluster01\n");
    notes.write("propagationpolicy-labels.yaml", &by_labels);
    assert_eq!(
        notes.ok(&format!("kubectl {PLANE} apply -f propagationpolicy-labels.yaml")),
        "propagationpolicy.policy.karmada.io/propagaetion-nginx configured\n"
    );
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get deployments.apps --operation-scope=members"),
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx kind-cluster01 2/2 2 2 AGE Y",
    );
    let pods = "NAME CLUSTER READY STATUS RESTARTS AGE";
    let pod = |cluster: &str| format!("\nnginx-POD {cluster} 1/1 Running 0 AGE");
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get pods --operation-scope=members"),
        &format!("{pods}{}", pod("kind-cluster01").repeat(2)),
    );
    // A10.
    let in_either = nginx_policy(
        "      labelSelector:\n        matchExpressions:\n        - key: app\n          operator: In\n          values:\n          - cluster01\n          - cluster02\n",
    );
    notes.write("propagationpolicy-expressions.yaml", &in_either);
    notes.ok(&format!("kubectl {PLANE} apply -f propagationpolicy-expressions.yaml"));
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get deployments.apps --operation-scope=members"),
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx kind-cluster01 2/2 2 2 AGE Y\nnginx kind-cluster02 2/2 2 2 AGE Y",
    );
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get pods --operation-scope=members"),
        &format!("{pods}{}{}", pod("kind-cluster01").repeat(2), pod("kind-cluster02").repeat(2)),
    );
}

/// A11 and A12.
fn select_by_fields(notes: &Notes<'_>) {
    for fields in [r#"{"spec": {"provider": "kind"} }"#, r#"{"spec": {"region": "local"} }"#] {
        assert_eq!(
            notes.ok(&format!(
                "kubectl {PLANE} patch clusters.cluster.karmada.io kind-cluster01 kind-cluster02 -p '{fields}'"
            )),
            "cluster.cluster.karmada.io/kind-cluster01 patched\ncluster.cluster.karmada.io/kind-cluster02 patched\n"
        );
    }
    for number in ["01", "02"] {
        let zone = format!(r#"{{"spec": {{"zone": "cluster{number}"}} }}"#);
        let line = format!(
            "kubectl {PLANE} patch clusters.cluster.karmada.io kind-cluster{number} -p '{zone}'"
        );
        assert_eq!(
            notes.ok(&line),
            format!("cluster.cluster.karmada.io/kind-cluster{number} patched\n")
        );
        let zones = format!(
            "kubectl {PLANE} get cluster kind-cluster{number} -o jsonpath='{{.spec.zones}}'"
        );
        assert_eq!(notes.ok(&zones), format!("[\"cluster{number}\"]"));
    }
    let again = notes.run(&format!(
        "kubectl {PLANE} patch clusters.cluster.karmada.io kind-cluster01 -p '{{\"spec\": {{\"zone\": \"other\"}}}}'"
    ));
    assert!(again.code == 1 && again.err.contains("Zone and Zones cannot co-exist"), "{again:?}");
    let expression = |key: &str, value: &str| {
        format!(
            "        - key: {key}\n          operator: In\n          values:\n          - {value}\n"
        )
    };
    let by_fields = nginx_policy(&format!(
        "      fieldSelector:\n        matchExpressions:\n{}{}{}",
        expression("provider", "kind"),
        expression("region", "local"),
        expression("zone", "cluster02")
    ));
    notes.write("propagationpolicy-fields.yaml", &by_fields);
    notes.ok(&format!("kubectl {PLANE} apply -f propagationpolicy-fields.yaml"));
    notes.until_it_prints(
        &format!("kubectl karmada {PLANE} get deployments.apps --operation-scope=members"),
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx kind-cluster02 2/2 2 2 AGE Y",
    );
}

/// A3 to A12, U16 to U20.
#[test]
fn u16_and_a3_to_a12_the_notes_of_a_kind_user() {
    let Some(shell) = Shell::new(&[]) else { return };
    let clusters = [Cluster::start("one"), Cluster::start("two")];
    follow_the_notes(
        &shell,
        &[
            ("kind-cluster01", clusters[0].kubeconfig()),
            ("kind-cluster02", clusters[1].kubeconfig()),
        ],
    );
}

/// The same on real clusters; where only one is at hand the other is simulated.
#[test]
fn real_a3_to_a12_the_notes_of_a_kind_user() {
    let Some(real) = real_clusters() else { return };
    let Some(shell) = Shell::new(&[]) else { return };
    let simulated = Cluster::start("two");
    let second = real.get(1).cloned().unwrap_or_else(|| simulated.kubeconfig());
    follow_the_notes(&shell, &[("kind-cluster01", real[0].clone()), ("kind-cluster02", second)]);
}

fn real_clusters() -> Option<Vec<PathBuf>> {
    let named = std::env::var("KARMADA_TEST_KUBECONFIGS").unwrap_or_default();
    let paths: Vec<PathBuf> =
        named.split(':').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    if paths.is_empty() {
        eprintln!("SKIPPED real clusters: KARMADA_TEST_KUBECONFIGS is not set");
        return None;
    }
    Some(paths)
}

/// A13, A14, U25: the kubeconfig is exported and edited, one cluster joins by the current context, one by a named one.
fn follow_the_course(shell: &Shell, clusters: &[(&str, PathBuf)]) {
    write_home(shell, clusters);
    let notes = Notes { shell };
    notes.ok("mkdir -p kind/karmada && cp /etc/karmada/karmada-apiserver.config kind/karmada/karmada-config");
    // Edited by hand: the address becomes another name of the same host.
    notes.ok("sed 's#https://127.0.0.1:#https://localhost:#' kind/karmada/karmada-config > karmada-config");
    assert_eq!(
        notes.ok("karmadactl join member1 --kubeconfig=./karmada-config --cluster-kubeconfig='$HOME/.kube/config'"),
        "cluster(member1) is joined successfully\n"
    );
    assert_eq!(
        notes.ok(
            "karmadactl join member2 --kubeconfig=./karmada-config --cluster-kubeconfig='$HOME/.kube/config' --cluster-context='kind-test2'"
        ),
        "cluster(member2) is joined successfully\n"
    );
    notes.until_it_prints(
        "kubectl --kubeconfig ./karmada-config get clusters",
        "NAME VERSION MODE READY AGE\nmember1 VERSION Push True AGE\nmember2 VERSION Push True AGE",
    );
    // Each context led to its own cluster.
    for (member, context) in [("member1", clusters[0].0), ("member2", "kind-test2")] {
        let id = notes.ok(&format!(
            "kubectl --kubeconfig ./karmada-config get cluster {member} -o jsonpath='{{.spec.id}}'"
        ));
        let uid = notes.ok(&format!(
            "kubectl --context {context} get ns kube-system -o jsonpath='{{.metadata.uid}}'"
        ));
        assert_eq!(id, uid, "{member}");
    }
    // A14.
    let services = "kubectl get apiservice --kubeconfig kind/karmada/karmada-config";
    let services = steady(&notes.until(services, |out| !out.is_empty() && !out.contains("False")));
    for line in [
        "v1alpha1.cluster.karmada.io karmada-system/karmada-aggregated-apiserver True AGE",
        "v1alpha1.policy.karmada.io Local True AGE",
        "v1alpha2.work.karmada.io Local True AGE",
    ] {
        assert!(services.lines().any(|one| one == line), "no {line:?} in\n{services}");
    }
    let kinds =
        notes.ok("kubectl api-resources --kubeconfig kind/karmada/karmada-config | grep cluster");
    let clusters_line =
        kinds.lines().find(|line| line.starts_with("clusters ")).unwrap_or_default();
    assert!(
        steady(clusters_line).ends_with("cluster.karmada.io/v1alpha1 false Cluster"),
        "{kinds}"
    );
    a15_programs_list_the_clusters(shell);
    for name in ["member1", "member2"] {
        notes.ok(&format!("karmadactl unjoin {name} --kubeconfig=./karmada-config --wait 10m"));
    }
}

/// A15, U27: Go programs print the names, with the dynamic client and with a typed clientset. The original's own cannot
/// be had from the registry of modules, so one made of the same parts stands in for it (`client_go/clusters.go`).
fn a15_programs_list_the_clusters(shell: &Shell) {
    let Some(program) = crate::client_go::Program::build() else { return };
    let printed = program.run(&shell.server.kubeconfig(), &["clusters"]);
    assert_eq!(printed, "dynamic: member1 member2\ntyped: member1 member2\n");
}

#[test]
fn u25_u27_and_a13_to_a15_the_course() {
    let Some(shell) = Shell::new(&[]) else { return };
    let clusters = [Cluster::start("one"), Cluster::start("two")];
    follow_the_course(
        &shell,
        &[("kind-test1", clusters[0].kubeconfig()), ("kind-test2", clusters[1].kubeconfig())],
    );
}

#[test]
fn real_a13_to_a15_the_course() {
    let Some(real) = real_clusters() else { return };
    let Some(shell) = Shell::new(&[]) else { return };
    let simulated = Cluster::start("two");
    let second = real.get(1).cloned().unwrap_or_else(|| simulated.kubeconfig());
    follow_the_course(&shell, &[("kind-test1", real[0].clone()), ("kind-test2", second)]);
}

/// A19: an integration keeps both kubeconfigs in Secrets and joins from the files it takes out of them, naming every
/// context.
fn join_from_secrets(shell: &Shell, cluster: PathBuf) {
    write_home(shell, &[("boc-member", cluster), ("unused", shell.server.kubeconfig())]);
    let notes = Notes { shell };
    notes.ok(&format!(
        "kubectl {PLANE} create secret generic karmada-kubeconfig --from-file=karmada-kubeconfig=/etc/karmada/karmada-apiserver.config"
    ));
    notes.ok(&format!(
        "kubectl {PLANE} create secret generic member-kubeconfig --from-file=kubeconfig=$HOME/.kube/config"
    ));
    for (secret, key, file) in [
        ("karmada-kubeconfig", "karmada-kubeconfig", "karmada.config"),
        ("member-kubeconfig", "kubeconfig", "member.config"),
    ] {
        notes.ok(&format!(
            "karmadactl {PLANE} get secret {secret} -o go-template='{{{{index .data \"{key}\" | base64decode}}}}' > {file}"
        ));
    }
    let wrong = notes.run(
        "karmadactl join boc --kubeconfig karmada.config --karmada-context karmada --cluster-kubeconfig member.config --cluster-context boc-member",
    );
    assert!(
        wrong.code == 1 && wrong.err.contains("The kubeconfig has: karmada-apiserver"),
        "{wrong:?}"
    );
    assert_eq!(
        notes.ok(
            "karmadactl join boc --kubeconfig karmada.config --karmada-context karmada-apiserver --cluster-kubeconfig member.config --cluster-context boc-member"
        ),
        "cluster(boc) is joined successfully\n"
    );
    notes.until_it_prints(
        "kubectl --kubeconfig karmada.config get cluster boc",
        "NAME VERSION MODE READY AGE\nboc VERSION Push True AGE",
    );
    assert_eq!(
        notes.ok("karmadactl unjoin boc --kubeconfig karmada.config --cluster-kubeconfig member.config --cluster-context boc-member --wait 10m"),
        ""
    );
}

// Shows: MISC-2
#[test]
fn a19_a_cluster_joins_from_kubeconfigs_kept_in_secrets() {
    let Some(shell) = Shell::new(&[]) else { return };
    let cluster = Cluster::start("one");
    join_from_secrets(&shell, cluster.kubeconfig());
}

#[test]
fn real_a19_a_cluster_joins_from_kubeconfigs_kept_in_secrets() {
    let Some(real) = real_clusters() else { return };
    let Some(shell) = Shell::new(&[]) else { return };
    join_from_secrets(&shell, real[0].clone());
}

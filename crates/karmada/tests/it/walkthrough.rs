//! First use, as people write it down: `karmadactl` and kubectl against `karmada up --members 2`, word for word what
//! the acceptance cases of the command line and the stories of users say.

use std::path::PathBuf;
use std::process::Command;

use regex::Regex;

use crate::environment::{confine, has_kubectl};
use crate::server::{Server, eventually};

/// A control plane with two simulated members, and a shell that knows it.
struct Shell {
    server: Server,
}

/// What a command line printed, and how it ended.
#[derive(Debug, PartialEq)]
struct Answer {
    out: String,
    err: String,
    code: i32,
}

impl Shell {
    fn new(flags: &[&str]) -> Self {
        Self { server: Server::up_with(flags) }
    }

    /// With two members that are ready and keep nobody out any more.
    fn with_members() -> Self {
        let shell = Self::new(&["--members", "2"]);
        shell.until("karmadactl get clusters", |out| out.matches(" True ").count() == 2);
        shell.until(
            "karmadactl get clusters -o jsonpath='{.items[*].spec.taints}'; echo .",
            |out| out == ".\n",
        );
        shell
    }

    fn bin(&self) -> PathBuf {
        self.server.data().join("bin")
    }

    fn run(&self, line: &str) -> Answer {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = confine(&mut Command::new("bash"), &self.server.scratch().join("home"))
            .args(["-c", line])
            .current_dir(self.server.scratch())
            .env("KUBECONFIG", self.server.kubeconfig())
            .env("MEMBERS", self.server.data().join("members"))
            .env("PATH", format!("{}:{path}", self.bin().display()))
            .output()
            .expect("run bash");
        Answer {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }

    /// What a command that must succeed prints.
    fn ok(&self, line: &str) -> String {
        let answer = self.run(line);
        assert_eq!(answer.code, 0, "{line}: {answer:?}");
        answer.out
    }

    /// Repeats a reading command until its output is as it should be.
    fn until(&self, line: &str, right: impl Fn(&str) -> bool) -> String {
        eventually(line, || Some(self.run(line).out).filter(|out| right(out)))
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.server.scratch().join(name), text).expect("write a file");
    }
}

/// Ages, uids and generated names replaced, columns narrowed to one blank.
fn steady(text: &str) -> String {
    let age = Regex::new(r"\b(\d+[dhms])+\b").unwrap();
    let blanks = Regex::new(" {2,}").unwrap();
    let lines = text.lines().map(|line| {
        let line = age.replace_all(line, "AGE");
        blanks.replace_all(&line, " ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: nginx, labels: {app: nginx}}
spec:
  replicas: 2
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: nginx}]}
";

fn policy(affinity: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: nginx-propagation}}\nspec:\n  \
         resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: nginx}}]\n  \
         placement: {{clusterAffinity: {affinity}}}\n"
    )
}

/// A4, A5, A7, A9, A11; U2, U10, U16 to U19, U21, U31, U48; parts of A10, A12 and U20.
#[test]
fn a_workload_is_placed_moved_selected_and_explained() {
    if !has_kubectl() {
        return;
    }
    let shell = Shell::with_members();
    let clusters = steady(&shell.ok("kubectl get clusters"));
    assert!(
        clusters.starts_with("NAME VERSION MODE READY AGE\nmember1 v1.36.3 Push True AGE"),
        "{clusters}"
    );
    let ours = steady(&shell.ok("karmadactl get clusters"));
    assert!(
        ours.starts_with("NAME CLUSTER VERSION MODE READY AGE ADOPTION\nmember1 Karmada"),
        "{ours}"
    );

    shell.write("deploy.yaml", DEPLOYMENT);
    shell.write("policy.yaml", &policy("{clusterNames: [member1]}"));
    assert_eq!(shell.ok("karmadactl create -f deploy.yaml"), "deployment.apps/nginx created\n");
    assert_eq!(
        shell.ok("karmadactl apply -f policy.yaml"),
        "propagationpolicy.policy.karmada.io/nginx-propagation created\n"
    );
    let placed = shell.until("karmadactl get deploy", |out| out.contains("2/2"));
    assert_eq!(
        steady(&placed),
        "NAME CLUSTER READY UP-TO-DATE AVAILABLE AGE ADOPTION\nnginx Karmada 2/2 2 2 AGE -"
    );
    shell.until("kubectl --kubeconfig $MEMBERS/member1.config get deploy", |out| {
        out.contains("2/2")
    });
    let elsewhere = shell.run("kubectl --kubeconfig $MEMBERS/member2.config get pods");
    assert_eq!(elsewhere.err, "No resources found in default namespace.\n");

    let kinds = shell.until("karmadactl get pp,rb,deploy", |out| {
        steady(out)
            .contains("resourcebinding.work.karmada.io/nginx-deployment Karmada True True AGE -")
    });
    assert_eq!(kinds.lines().filter(|line| line.starts_with("NAME")).count(), 3, "{kinds}");
    let works = shell.ok("karmadactl get work -A");
    assert!(works.contains("karmada-es-member1   nginx-687f7fb96f"), "{works}");

    let why = shell.until("karmadactl why deploy/nginx", |out| {
        out.contains("member1: applied, healthy, 2/2 ready")
    });
    for part in ["claimed by PropagationPolicy default/nginx-propagation", "- member2: "] {
        assert!(why.contains(part), "no {part:?} in\n{why}");
    }
    let why_not = shell.ok("karmadactl why-not deploy/nginx -C member2");
    assert!(why_not.contains("(ClusterAffinity)"), "{why_not}");

    // U18: the policy changes and the workload moves.
    shell.write("policy.yaml", &policy("{clusterNames: [member2]}"));
    assert_eq!(
        shell.ok("karmadactl apply -f policy.yaml"),
        "propagationpolicy.policy.karmada.io/nginx-propagation configured\n"
    );
    shell.until("kubectl --kubeconfig $MEMBERS/member2.config get deploy", |out| {
        out.contains("2/2")
    });
    shell.until("kubectl --kubeconfig $MEMBERS/member1.config get deploy -o name; echo .", |out| {
        out == ".\n"
    });

    // U19, U20: by labels, by fields.
    assert_eq!(
        shell.ok("karmadactl label cluster member1 app=one"),
        "cluster.cluster.karmada.io/member1 labeled\n"
    );
    shell.write("policy.yaml", &policy("{labelSelector: {matchLabels: {app: one}}}"));
    shell.ok("karmadactl apply -f policy.yaml");
    shell.until(
        "karmadactl get rb nginx-deployment -o jsonpath='{.spec.clusters[*].name}'",
        |out| out == "member1",
    );
    assert_eq!(
        shell.ok("karmadactl patch clusters.cluster.karmada.io member1 member2 -p '{\"spec\": {\"provider\": \"kind\"} }'"),
        "cluster.cluster.karmada.io/member1 patched\ncluster.cluster.karmada.io/member2 patched\n"
    );
    let field =
        "{fieldSelector: {matchExpressions: [{key: provider, operator: In, values: [kind]}]}}";
    shell.write("policy.yaml", &policy(field));
    shell.ok("karmadactl apply -f policy.yaml");
    shell.until(
        "karmadactl get rb nginx-deployment -o jsonpath='{.spec.clusters[*].name}'",
        // The one with more room comes first.
        |out| out == "member1 member2" || out == "member2 member1",
    );

    // U2, U36: one cluster differs.
    shell.write(
        "override.yaml",
        "apiVersion: policy.karmada.io/v1alpha1\nkind: OverridePolicy\nmetadata: {name: nginx-override}\nspec:\n  \
         resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]\n  overrideRules:\n  \
         - targetCluster: {clusterNames: [member2]}\n    overriders:\n      \
         imageOverrider: [{component: Registry, operator: add, value: registry.example.com}]\n      \
         argsOverrider: [{containerName: nginx, operator: add, value: [--cluster=member2]}]\n",
    );
    shell.ok("karmadactl apply -f override.yaml");
    let container = "get deploy nginx -o jsonpath='{.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].args}'";
    shell.until(&format!("kubectl --kubeconfig $MEMBERS/member2.config {container}"), |out| {
        out == "registry.example.com/nginx [\"--cluster=member2\"]"
    });
    assert_eq!(
        shell.ok(&format!("kubectl --kubeconfig $MEMBERS/member1.config {container}")),
        "nginx "
    );

    assert_eq!(
        shell.ok("karmadactl delete pp,op,deploy --all"),
        "propagationpolicy.policy.karmada.io \"nginx-propagation\" deleted from default namespace\n\
         overridepolicy.policy.karmada.io \"nginx-override\" deleted from default namespace\n\
         deployment.apps \"nginx\" deleted from default namespace\n"
    );
}

/// Clusters are kept from new workloads, and let in again.
#[test]
fn clusters_are_cordoned_and_tainted() {
    if !has_kubectl() {
        return;
    }
    let shell = Shell::with_members();
    for (line, expected) in [
        ("karmadactl cordon member1", "member1 cluster cordoned\n"),
        ("karmadactl cordon member1", "member1 cluster already cordoned\n"),
        (
            "kubectl get cluster member1 -o jsonpath='{.spec.taints[0].key}:{.spec.taints[0].effect}'",
            "cluster.karmada.io/unschedulable:NoSchedule",
        ),
        ("karmadactl uncordon member1", "member1 cluster uncordoned\n"),
        (
            "karmadactl taint clusters member1 dedicated=special:NoSchedule",
            "cluster/member1 tainted\n",
        ),
        ("karmadactl taint clusters member1 dedicated:NoSchedule-", "cluster/member1 untainted\n"),
    ] {
        assert_eq!(shell.ok(line), expected, "{line}");
    }
}

/// U29, U37, a part of U22: everywhere at once, by one command; cluster-scoped kinds too.
#[test]
fn apply_places_what_it_makes() {
    if !has_kubectl() {
        return;
    }
    let shell = Shell::with_members();
    shell.write("deploy.yaml", DEPLOYMENT);
    assert_eq!(
        shell.ok("karmadactl apply -f deploy.yaml --all-clusters"),
        "deployment.apps/nginx created\npropagationpolicy.policy.karmada.io/nginx-6d7f8d5f5b created\n"
    );
    assert_eq!(
        shell.ok("karmadactl apply -f deploy.yaml --all-clusters"),
        "deployment.apps/nginx unchanged\npropagationpolicy.policy.karmada.io/nginx-6d7f8d5f5b unchanged\n"
    );
    // U39: duplicated to two clusters, the template counts the replicas of both.
    let total = shell.until("karmadactl get deploy", |out| out.contains("4/2"));
    assert!(total.contains("Karmada"), "{total}");
    shell.write("role.yaml", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader}\nrules: []\n");
    let made = shell.ok("karmadactl apply -f role.yaml --cluster member2");
    assert!(made.contains("clusterpropagationpolicy.policy.karmada.io/reader-"), "{made}");
    shell.until(
        "kubectl --kubeconfig $MEMBERS/member2.config get clusterrole reader -o name",
        |out| !out.is_empty(),
    );
    assert_ne!(
        shell.run("kubectl --kubeconfig $MEMBERS/member1.config get clusterrole reader").code,
        0
    );
}

/// A17, and mistakes as the original words them, with the nearest right word where there is one.
#[test]
fn mistakes_are_answered_as_people_know_it() {
    if !has_kubectl() {
        return;
    }
    let shell = Shell::new(&[]);
    shell.write("deploy.yaml", DEPLOYMENT);
    let version = shell.ok("kubectl karmada version");
    assert!(
        version.starts_with("kubectl karmada version: version.Info{GitVersion:\"v"),
        "{version}"
    );
    for (line, expected) in [
        (
            "karmadactl get deploy nosuch",
            "error: cluster(Karmada): deployments.apps \"nosuch\" not found\n",
        ),
        (
            "karmadactl get deploymnts",
            "error: cluster(Karmada): the server doesn't have a resource type \"deploymnts\" (did you mean \"deployments\"?)\n",
        ),
        (
            "karmadactl get deploy -C nosuch --operation-scope members",
            "error: clusters don't exist: nosuch\n",
        ),
        (
            "karmadactl cordon nosuch",
            "Error from server (NotFound): clusters.cluster.karmada.io \"nosuch\" not found\n",
        ),
        ("karmadactl cordon", "error: cluster name is required\n"),
        ("karmadactl apply -f nosuch.yaml", "error: the path \"nosuch.yaml\" does not exist\n"),
        ("karmadactl apply -f deploy.yaml --cluster m9", "error: cluster m9 does not exist\n"),
        ("karmadactl logs nosuch", "error: must specify a cluster\n"),
        ("karmadactl promote deployment x", "error: the cluster cannot be empty\n"),
        (
            "karmadactl --karmada-context nosuch get clusters",
            "Error in configuration: context was not found for specified context: nosuch\nThe kubeconfig has: karmada-apiserver\n",
        ),
        (
            "karmadactl gett",
            "error: unknown command \"gett\" for \"karmadactl\"\n\nDid you mean this?\n\tget\n",
        ),
    ] {
        let answer = shell.run(line);
        assert_eq!((answer.err.as_str(), answer.code), (expected, 1), "{line}");
    }
    let nothing = shell.run("karmadactl get deploy");
    assert_eq!(
        (nothing.err.as_str(), nothing.code),
        ("No resources found in default namespace.\n", 0)
    );
}

/// A14, U26: Karmada's groups are seen by both programs.
#[test]
fn kinds_are_listed_by_both_programs() {
    if !has_kubectl() {
        return;
    }
    let shell = Shell::new(&[]);
    for program in ["kubectl", "karmadactl"] {
        let text =
            steady(&shell.ok(&format!("{program} api-resources --api-group=policy.karmada.io")));
        assert!(
            text.contains(
                "propagationpolicies pp policy.karmada.io/v1alpha1 true PropagationPolicy"
            ),
            "{text}"
        );
    }
    let services = shell.ok("kubectl get apiservice v1alpha1.cluster.karmada.io");
    assert!(services.contains("True"), "{services}");
    assert!(
        shell.ok("karmadactl api-versions").lines().any(|line| line == "work.karmada.io/v1alpha2")
    );
}

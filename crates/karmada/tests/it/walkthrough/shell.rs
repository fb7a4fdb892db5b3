//! A shell that knows a control plane: with the programs of the built binary in its path, a home of its own and the
//! kubeconfig of the administrator.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use regex::Regex;

use crate::environment::{confine, has_kubectl};
use crate::server::Server;

/// A control plane, and where commands are typed.
pub(crate) struct Shell {
    pub(crate) server: Server,
}

/// What a command line printed, and how it ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: i32,
}

impl Shell {
    /// A control plane of its own; none where there is no kubectl to type.
    pub(crate) fn new(flags: &[&str]) -> Option<Self> {
        has_kubectl().then(|| Self { server: Server::up_with(flags) })
    }

    fn bin(&self) -> PathBuf {
        self.server.data().join("bin")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.server.scratch().join("home")
    }

    /// Types a line in a directory, with further variables.
    pub(crate) fn type_in(&self, line: &str, folder: &Path, variables: &[(&str, &Path)]) -> Answer {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        confine(&mut command, &self.home())
            .args(["-c", line])
            .current_dir(folder)
            .env("KUBECONFIG", self.server.kubeconfig())
            .env("MEMBERS", self.server.data().join("members"))
            .env("PATH", format!("{}:{path}", self.bin().display()))
            .envs(variables.iter().copied());
        let output = command.output().expect("run bash");
        Answer {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code().unwrap_or(-1),
        }
    }
}

/// Somewhere commands can be typed.
pub(crate) trait Terminal {
    fn run(&self, line: &str) -> Answer;
    fn folder(&self) -> PathBuf;

    /// What a command that must succeed prints.
    fn ok(&self, line: &str) -> String {
        let answer = self.run(line);
        assert_eq!(answer.code, 0, "{line}: {answer:?}");
        answer.out
    }

    /// Repeats a reading command until its output is as it should be.
    fn until(&self, line: &str, right: impl Fn(&str) -> bool) -> String {
        let began = std::time::Instant::now();
        loop {
            let answer = self.run(line);
            if right(&answer.out) {
                return answer.out;
            }
            assert!(
                began.elapsed() < crate::server::PATIENCE,
                "waited in vain: $ {line}\n{answer:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// Repeats a reading command until it prints this, whatever the ages and widths.
    fn until_it_prints(&self, line: &str, expected: &str) {
        self.until(line, |out| steady(out) == expected);
    }

    /// Follows a command that never ends until it has printed this, however long that takes, and stops it then.
    fn follow(&self, line: &str, part: &str) -> String {
        let line = format!(
            "({line}) > followed & trap 'kill $!' EXIT; \
             for _ in $(seq {}); do grep -q '{part}' followed && break; sleep 0.1; done; cat followed",
            crate::server::PATIENCE.as_secs() * 10
        );
        let printed = self.run(&line).out;
        assert!(printed.contains(part), "no {part:?} in what is printed by {line}: {printed}");
        printed
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder().join(name), text).expect("write a file");
    }
}

impl Terminal for Shell {
    fn run(&self, line: &str) -> Answer {
        self.type_in(line, self.server.scratch(), &[])
    }

    fn folder(&self) -> PathBuf {
        self.server.scratch().to_owned()
    }
}

/// One control plane with three members for all tests that leave clusters alone; it ends with the test process.
static SHARED: LazyLock<Shell> = LazyLock::new(|| {
    let shell = Shell { server: Server::up_guarded(&["--members", "3"]) };
    shell.until("karmadactl get clusters", |out| out.matches(" True ").count() == 3);
    // They keep nobody out any more.
    let taints = "karmadactl get clusters -o jsonpath='{.items[*].spec.taints}'; echo .";
    shell.until(taints, |out| out == ".\n");
    shell
});

/// Held for writing by whoever keeps workloads off clusters for a while.
static CLUSTERS: RwLock<()> = RwLock::new(());

/// A namespace of the shared control plane, in which plain commands act.
pub(crate) struct Space {
    name: String,
    folder: PathBuf,
    _clusters: Option<RwLockReadGuard<'static, ()>>,
}

impl Space {
    /// None where there is no kubectl to type.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let guard = CLUSTERS.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        has_kubectl().then(|| Self::make(name, Some(guard)))
    }

    /// A namespace for a test that has the clusters to itself as long as it holds the guard.
    pub(crate) fn exclusive(name: &str) -> Option<(Self, RwLockWriteGuard<'static, ()>)> {
        let guard = CLUSTERS.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        has_kubectl().then(|| (Self::make(name, None), guard))
    }

    fn make(name: &str, clusters: Option<RwLockReadGuard<'static, ()>>) -> Self {
        let folder = SHARED.server.scratch().join(name);
        std::fs::create_dir_all(folder.join("members")).expect("make a folder");
        let space = Self { name: name.to_owned(), folder, _clusters: clusters };
        // Every kubeconfig, with the namespace in its context.
        let mut kubeconfigs = vec![(SHARED.server.kubeconfig(), space.kubeconfig())];
        for member in ["member1", "member2", "member3"] {
            let file = format!("members/{member}.config");
            kubeconfigs.push((SHARED.server.data().join(&file), space.folder.join(&file)));
        }
        for (from, to) in kubeconfigs {
            std::fs::copy(&from, &to).expect("copy a kubeconfig");
            space.ok(&format!(
                "kubectl --kubeconfig {} config set-context --current --namespace {name}",
                to.display()
            ));
        }
        space.ok(&format!("kubectl create namespace {name}"));
        space
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("karmada.config")
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the deployment is ready with as many replicas as it should, in the control plane.
    pub(crate) fn ready(&self, deployment: &str, ready: &str) {
        self.until(&format!("kubectl get deploy {deployment}"), |out| {
            out.contains(&format!(" {ready} "))
        });
    }

    /// Waits until a binding names these clusters, in any order.
    pub(crate) fn placed(&self, binding: &str, clusters: &[&str]) {
        let line = format!("kubectl get rb {binding} -o jsonpath='{{.spec.clusters[*].name}}'");
        self.until(&line, |out| {
            let mut found: Vec<&str> = out.split_whitespace().collect();
            found.sort_unstable();
            found == clusters
        });
    }
}

impl Terminal for Space {
    fn run(&self, line: &str) -> Answer {
        let (kubeconfig, members) = (self.kubeconfig(), self.folder.join("members"));
        SHARED.type_in(line, &self.folder, &[("KUBECONFIG", &kubeconfig), ("MEMBERS", &members)])
    }

    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }
}

/// Ages and generated names replaced, columns narrowed to one blank.
pub(crate) fn steady(text: &str) -> String {
    static PATTERNS: LazyLock<[(Regex, &str); 4]> = LazyLock::new(|| {
        let pattern = |text: &str| Regex::new(text).unwrap();
        [
            (pattern(r"\b([a-z-]+)-[0-9a-z]{8,10}-[0-9a-z]{5}\b"), "$1-POD"),
            (pattern(r"\b(\d+[dhms])+\b"), "AGE"),
            (pattern(r"\bv1\.\d+\.\d+\S*"), "VERSION"),
            (pattern(" {2,}"), " "),
        ]
    });
    let lines = text.lines().map(|line| {
        let replaced = PATTERNS.iter().fold(line.to_owned(), |line, (pattern, with)| {
            pattern.replace_all(&line, *with).into_owned()
        });
        replaced.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A Deployment as people write it.
pub(crate) fn deployment(name: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: {name}, image: nginx}}]}}
"
    )
}

/// A policy for one Deployment.
pub(crate) fn policy(name: &str, placement: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         resourceSelectors: [{{apiVersion: apps/v1, kind: Deployment, name: nginx}}]\n  placement: {placement}\n"
    )
}

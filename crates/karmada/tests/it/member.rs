//! `karmada member`: a simulated cluster as a process of its own, reached by kubectl and broken from
//! the command line.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use crate::environment::{confine, has_kubectl};
use crate::server::{PATIENCE, text};

/// A simulated cluster as a process of its own; it is stopped by its process id when dropped.
pub(crate) struct Member {
    process: Child,
    data: tempfile::TempDir,
    name: String,
}

impl Member {
    pub(crate) fn start_with(flags: &[&str]) -> Self {
        Self::named("m1", flags)
    }

    pub(crate) fn named(name: &str, flags: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("make a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
        let mut process = confine(&mut command, &data.path().join("home"))
            .args(["member", name])
            .args(flags)
            .arg("--data-dir")
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start karmada member");
        // Read no further than the first line: a member whose reader is gone lives on.
        let stdout = process.stdout.take().expect("its output is ours");
        let mut greeting = String::new();
        BufReader::new(stdout).read_line(&mut greeting).expect("read the greeting");
        assert!(greeting.starts_with(&format!("Member {name} is ready")), "{greeting}");
        Self { process, data, name: name.to_owned() }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data.path().join(format!("members/{}.config", self.name))
    }

    fn kubectl(&self, words: &[&str]) -> Output {
        let kubeconfig = self.kubeconfig();
        confine(&mut Command::new("kubectl"), &self.data.path().join("home"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(words)
            .output()
            .expect("run kubectl")
    }
}

pub(crate) fn fault(data: &Path, member: &str, faults: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_karmada"))
        .args(["member", "fault", member])
        .args(faults)
        .arg("--data-dir")
        .arg(data)
        .output()
        .expect("run karmada member fault")
}

impl Drop for Member {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_member_is_used_by_kubectl_and_broken_and_healed_from_the_command_line() {
    if !has_kubectl() {
        return;
    }
    let flags = ["--nodes", "2", "--zone", "z1", "--load-balancers", "203.0.113.0/29"];
    let member = Member::start_with(&[&flags[..], &["--scripted", "ready-delay=1s"]].concat());
    let nodes = member.kubectl(&["get", "nodes", "-L", "topology.kubernetes.io/zone"]);
    assert!(text(&nodes).contains("m1-node-2   Ready"), "{}", text(&nodes));
    assert!(text(&nodes).contains("z1"), "{}", text(&nodes));
    let exposed = member.kubectl(&["create", "service", "loadbalancer", "web", "--tcp=80"]);
    assert!(exposed.status.success(), "{}", text(&exposed));
    member.until(&["get", "service", "web"], "203.0.113.1");
    every_fault_is_set_and_healed(&member, |faults| fault(member.data.path(), "m1", faults));
    let unknown = fault(member.data.path(), "m1", &["fire"]);
    assert!(!unknown.status.success() && text(&unknown).contains("there is no fault \"fire\""));
    let nobody = fault(member.data.path(), "m2", &["heal"]);
    assert!(!nobody.status.success() && text(&nobody).contains("does it run?"));
}

/// Whoever can be asked by kubectl.
pub(crate) trait Asked {
    fn kubectl(&self, words: &[&str]) -> Output;

    /// Asks until the answer, good or bad, has this in it.
    fn until(&self, words: &[&str], part: &str) {
        let mut last = String::new();
        let deadline = Instant::now() + PATIENCE;
        while !last.contains(part) {
            assert!(Instant::now() < deadline, "no {part:?} in the answer to {words:?}: {last}");
            last = text(&self.kubectl(words));
        }
    }
}

impl Asked for Member {
    fn kubectl(&self, words: &[&str]) -> Output {
        Member::kubectl(self, words)
    }
}

/// Sets each fault by the command line, sees what it does, and heals it.
pub(crate) fn every_fault_is_set_and_healed(member: &impl Asked, set: impl Fn(&[&str]) -> Output) {
    let set = |faults: &[&str], state: &str| {
        let output = set(faults);
        assert!(output.status.success(), "{}", text(&output));
        assert!(text(&output).trim_end().ends_with(&format!(": {state}")), "{}", text(&output));
    };
    let well = || {
        set(&["heal"], "healthy");
        member.until(&["get", "--raw", "/readyz"], "ok");
    };
    set(&["partition", "latency=10ms"], "partition latency=10ms");
    member.until(&["get", "nodes"], "refused");
    well();
    set(&["black-hole"], "black-hole");
    member.until(&["get", "nodes", "--request-timeout=1s"], "imeout");
    well();
    set(&["freeze"], "freeze");
    member.until(&["get", "--raw", "/readyz"], "ok");
    well();
    set(&["latency=3s"], "latency=3000ms");
    member.until(&["get", "--raw", "/readyz", "--request-timeout=1s"], "imeout");
    well();
    set(&["error-rate=1"], "error-rate=1");
    member.until(&["get", "--raw", "/readyz"], "a fault was injected");
    well();
    let run = |name: &str, image: &str| {
        let output =
            member.kubectl(&["run", name, &format!("--image={image}"), "--labels=bad=yes"]);
        assert!(output.status.success(), "{}", text(&output));
    };
    set(&["image-never-pulls=ghost:1"], "image-never-pulls=ghost:1");
    run("ghost", "ghost:1");
    member.until(&["get", "pod", "ghost"], "ImagePull");
    well();
    member.until(&["get", "pod", "ghost"], "Running");
    set(&["crash-loop=bad=yes"], "crash-loop=bad=yes");
    member.until(&["get", "pod", "ghost"], "CrashLoopBackOff");
    well();
    member.until(&["get", "pod", "ghost"], "Running");
    set(&["full"], "full");
    run("late", "nginx");
    member.until(&["describe", "pod", "late"], "Too many pods");
    well();
    member.until(&["get", "pod", "late"], "Running");
    let node = ["get", "pod", "ghost", "-o", "jsonpath={.spec.nodeName}"];
    let down = format!("node-down={}", text(&member.kubectl(&node)));
    set(&[&down], &down);
    // That the node is NotReady after 40 seconds is shown on virtual time.
    member.until(&["logs", "ghost"], "no route to host");
    well();
    member.until(&["logs", "ghost"], "Starting ghost");
    let removed = member.kubectl(&["delete", "pod", "ghost", "late", "--wait=false"]);
    assert!(removed.status.success(), "{}", text(&removed));
}

//! `karmada member`: a simulated cluster as a process of its own, reached by kubectl and broken from
//! the command line.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::environment::{confine, has_kubectl};
use crate::server::{eventually, text};

struct Member {
    process: Child,
    data: tempfile::TempDir,
}

impl Member {
    fn start() -> Self {
        let data = tempfile::tempdir().expect("make a directory");
        let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
        let mut process = confine(&mut command, &data.path().join("home"))
            .args(["member", "m1", "--nodes", "2", "--zone", "z1", "--data-dir"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start karmada member");
        // Read no further than the first line: a member whose reader is gone lives on.
        let stdout = process.stdout.take().expect("its output is ours");
        let mut greeting = String::new();
        BufReader::new(stdout).read_line(&mut greeting).expect("read the greeting");
        assert!(greeting.starts_with("Member m1 is ready"), "{greeting}");
        Self { process, data }
    }

    fn kubectl(&self, words: &[&str]) -> Output {
        let kubeconfig = self.data.path().join("members/m1.config");
        confine(&mut Command::new("kubectl"), &self.data.path().join("home"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(words)
            .output()
            .expect("run kubectl")
    }

    fn fault(&self, faults: &[&str]) -> String {
        let output = fault(self.data.path(), "m1", faults);
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    }
}

fn fault(data: &Path, member: &str, faults: &[&str]) -> Output {
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
    let member = Member::start();
    let nodes = member.kubectl(&["get", "nodes", "-L", "topology.kubernetes.io/zone"]);
    assert!(text(&nodes).contains("m1-node-2   Ready"), "{}", text(&nodes));
    assert!(text(&nodes).contains("z1"), "{}", text(&nodes));
    assert!(member.fault(&["partition", "latency=10ms"]).contains("m1: partition latency=10ms"));
    // The port is closed a moment later.
    eventually("connections are refused", || {
        let refused = member.kubectl(&["get", "nodes"]);
        (!refused.status.success() && text(&refused).contains("refused")).then_some(())
    });
    assert!(member.fault(&["heal"]).contains("m1: healthy"));
    eventually("the member comes back", || {
        member.kubectl(&["get", "nodes"]).status.success().then_some(())
    });
    let unknown = fault(member.data.path(), "m1", &["fire"]);
    assert!(!unknown.status.success() && text(&unknown).contains("there is no fault \"fire\""));
    let nobody = fault(member.data.path(), "m2", &["heal"]);
    assert!(!nobody.status.success() && text(&nobody).contains("does it run?"));
}

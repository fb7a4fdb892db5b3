//! Members reached through the control plane, `clusters/<name>/proxy`, by kubectl of every age: older
//! ones speak SPDY where newer ones speak WebSockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::server::{PATIENCE, Server, eventually, text};

const PROXY: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// The kubectls that `./test` found, or whatever is installed.
fn kubectls() -> Vec<String> {
    let named = std::env::var("KARMADA_TEST_KUBECTLS").unwrap_or_else(|_| "kubectl".to_owned());
    let found = named.split(':').filter(|program| !program.is_empty());
    let runs =
        |program: &&str| Command::new(program).args(["version", "--client"]).output().is_ok();
    let found: Vec<String> = found.filter(runs).map(str::to_owned).collect();
    if found.is_empty() {
        eprintln!("SKIPPED: there is no kubectl");
    }
    found
}

/// A kubectl and the way into a member.
struct Way<'a> {
    server: &'a Server,
    program: String,
    member: &'a str,
}

impl Way<'_> {
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        let through = format!("https://{}{PROXY}/{}/proxy", self.server.address(), self.member);
        command
            .arg("--kubeconfig")
            .arg(self.server.kubeconfig())
            .args(["--server", &through])
            // Older ones look for what they remember of the server first.
            .arg("--cache-dir")
            .arg(self.server.scratch().join("cache"))
            .args(line.split(' ').map(|word| word.replace('~', " ")))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("run kubectl")
    }

    fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{} {line}:\n{}", self.program, text(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a command that does not end by itself.
    fn follow(&self, line: &str) -> Following {
        let mut command = self.command(line);
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("run kubectl");
        let output = BufReader::new(process.stdout.take().expect("its output is ours"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Following { process, lines }
    }
}

/// A running kubectl and what it prints.
struct Following {
    process: Child,
    lines: Receiver<String>,
}

impl Following {
    /// Waits for a line with this in it.
    fn until(&self, part: &str) -> String {
        let began = Instant::now();
        let mut seen = Vec::new();
        while began.elapsed() < PATIENCE {
            match self.lines.recv_timeout(Duration::from_secs(1)) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        panic!("no {part:?} in {seen:#?}");
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn in_member(server: &Server, member: &str, line: &str) -> Output {
    let kubeconfig = server.data().join(format!("members/{member}.config"));
    let words = line.split(' ').map(|word| word.replace('~', " "));
    Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args(words).output().unwrap()
}

// Shows: SIM-9, SIM-11
/// One control plane for all of it: starting one costs more than what is shown here.
// Shows: SUB-4
#[test]
fn members_are_reached_through_the_control_plane() {
    let programs = kubectls();
    let Some(newest) = programs.first().cloned() else { return };
    let server = Server::up_with(&["--members", "2", "--member-nodes", "1"]);
    every_kubectl_reads_follows_runs_attaches_and_forwards(&server, programs);
    callers_act_as_themselves_and_only_where_they_may(&server, &newest);
}

fn every_kubectl_reads_follows_runs_attaches_and_forwards(server: &Server, programs: Vec<String>) {
    for program in programs {
        let way = Way { server, program, member: "member1" };
        // The member learns a moment after it joined who may come through.
        eventually("the caller is let through", || {
            way.run("get namespaces").status.success().then_some(())
        });
        way.ok("run web --image=nginx");
        eventually("the pod runs", || way.ok("get pod web").contains("Running").then_some(()));
        let watch = way.follow("get pods --watch -o name");
        watch.until("pod/web");
        way.ok("label pod web seen=yes");
        watch.until("pod/web");
        let patched = way.ok("get pod web -o jsonpath={.metadata.labels.seen}");
        assert_eq!(patched, "yes");

        way.follow("logs -f web").until("Alive for");
        way.follow("attach web").until("Alive for");
        assert_eq!(way.ok("exec web -- echo one~two"), "one two\n");
        let failed = way.run("exec web -- sh -c exit~3");
        assert_eq!(failed.status.code(), Some(3), "{}: {}", way.program, text(&failed));
        assert_eq!(echo(&way), "typed\n");

        let forward = way.follow("port-forward pod/web :80");
        let line = forward.until("Forwarding from 127.0.0.1:");
        let port = line.split(':').nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        // Twice: each connection has streams of its own.
        for _ in 0..2 {
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.contains("web answers on port 80"), "{}: {answer}", way.program);
        }
        drop(forward);
        way.ok("delete pod web --grace-period=1");
    }
}

/// Sends something to a command and returns what comes back.
fn echo(way: &Way<'_>) -> String {
    let mut command = way.command("exec -i web -- cat");
    let mut process =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run kubectl");
    process.stdin.take().unwrap().write_all(b"typed\n").unwrap();
    let output = process.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn callers_act_as_themselves_and_only_where_they_may(server: &Server, program: &str) {
    let way = |member| Way { server, program: program.to_owned(), member };
    let ask = |line: &str| {
        let words = line.split(' ').map(|word| word.replace('~', " "));
        let mut kubectl = Command::new("kubectl");
        kubectl.arg("--kubeconfig").arg(server.kubeconfig()).args(words).output().unwrap()
    };
    let plane = |line: &str| {
        let output = ask(line);
        assert!(output.status.success(), "{line}: {}", text(&output));
        text(&output)
    };
    let refused = text(&ask(&format!("--as bob get --raw {PROXY}/member1/proxy/version")));
    assert!(refused.contains("cannot get resource \"clusters/proxy\""), "{refused}");

    plane(
        "create clusterrole reach --verb=* --resource=clusters.cluster.karmada.io/proxy --resource-name=member1",
    );
    plane("create clusterrolebinding reach --clusterrole=reach --user=bob");
    // The control plane lets him through; what he may do there is for the member to say.
    eventually("the member knows bob and lets him do nothing", || {
        let output = way("member1").run("--as bob get pods");
        text(&output).contains("pods is forbidden: User \"bob\" cannot list resource").then_some(())
    });
    let elsewhere = text(&ask(&format!("--as bob get --raw {PROXY}/member2/proxy/version")));
    assert!(
        elsewhere.contains("clusters.cluster.karmada.io \"member2\" is forbidden"),
        "{elsewhere}"
    );
    let bound =
        in_member(server, "member1", "create clusterrolebinding bob --clusterrole=view --user=bob");
    assert!(bound.status.success(), "{}", text(&bound));
    eventually("bob reads pods", || {
        way("member1").run("--as bob get pods").status.success().then_some(())
    });
}

//! Members reached through the control plane, `clusters/<name>/proxy`, by kubectl of every age: older
//! ones speak SPDY where newer ones speak WebSockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
        Following::start(self.command(line))
    }
}

/// A running kubectl and what it prints.
pub(crate) struct Following {
    process: Child,
    lines: Receiver<String>,
}

impl Following {
    pub(crate) fn start(mut command: Command) -> Self {
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
        Self { process, lines }
    }

    /// Waits for a line with this in it.
    pub(crate) fn until(&self, part: &str) -> String {
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

pub(crate) fn in_member(server: &Server, member: &str, line: &str) -> Output {
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
    a_member_behind_a_proxy_is_reached_through_it(&server, newest);
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
    let deleting = text(&way("member1").run("--as bob delete configmap kube-root-ca.crt"));
    assert!(deleting.contains("cannot delete resource \"configmaps\""), "{deleting}");

    let raw = |path: &str| plane(&format!("get --raw {PROXY}/*/proxy{path}"));
    // The second member may join later than the first.
    eventually("there is one node of each member", || {
        let output = ask(&format!("get --raw {PROXY}/*/proxy/api/v1/nodes")).stdout;
        let nodes: karmada_apimachinery::Value =
            serde_json::from_slice(&output).unwrap_or_default();
        (nodes["items"].as_array().map(|it| it.len()) == Some(2)).then_some(())
    });
    let one: karmada_apimachinery::Value =
        serde_json::from_str(&raw("/api/v1/nodes/member2-node-1")).unwrap();
    assert_eq!(one["metadata"]["name"], "member2-node-1");
    let twice = ask(&format!("get --raw {PROXY}/*/proxy/api/v1/namespaces/default"));
    assert!(
        text(&twice).contains("exist in more than one cluster: member1,member2"),
        "{}",
        text(&twice)
    );
}

fn a_member_behind_a_proxy_is_reached_through_it(server: &Server, program: String) {
    let way = Way { server, program, member: "member2" };
    eventually("the member is joined", || way.run("get namespaces").status.success().then_some(()));
    let (address, tunnels) = tunnel();
    let patch = format!("{{\"spec\":{{\"proxyURL\":\"http://{address}\"}}}}");
    let patched = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .args(["patch", "cluster", "member2", "--type=merge", "-p", &patch])
        .output()
        .unwrap();
    assert!(patched.status.success(), "{}", text(&patched));
    // The controllers dial anew through it.
    eventually("the controllers go through the proxy", || {
        (tunnels.load(Ordering::Relaxed) > 0).then_some(())
    });
    let before = tunnels.load(Ordering::Relaxed);
    way.ok("get nodes");
    way.ok("run web --image=nginx");
    eventually("the pod runs", || way.ok("get pod web").contains("Running").then_some(()));
    assert_eq!(way.ok("exec web -- echo hello"), "hello\n");
    assert!(tunnels.load(Ordering::Relaxed) > before, "nothing went through the proxy");
    eventually("the cluster is still ready", || {
        let ready = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(server.kubeconfig())
            .args(["get", "cluster", "member2"])
            .output()
            .unwrap();
        text(&ready).contains("True").then_some(())
    });
}

/// An HTTP proxy that counts the tunnels it opens. It ends with the test.
fn tunnel() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let counted = counted.clone();
            std::thread::spawn(move || pass_on(client, &counted));
        }
    });
    (address, count)
}

fn pass_on(mut client: TcpStream, counted: &AtomicUsize) {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read_exact(&mut byte).is_err() {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let Some(target) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()) else {
        return;
    };
    let Ok(mut server) = TcpStream::connect(target) else { return };
    if client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").is_err() {
        return;
    }
    counted.fetch_add(1, Ordering::Relaxed);
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let there = std::thread::spawn(move || {
        // Either side may end it.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(Shutdown::Write);
    let _ = there.join();
}

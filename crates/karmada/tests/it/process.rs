//! The server as a process: who holds a directory, what is private, how long certificates last,
//! and that an end of any kind loses nothing that was acknowledged.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, Client, DeleteOptions, ListOptions, WatchEvent, WatchOptions};
use tokio::net::TcpStream;

use crate::environment::{confine, without_personal_settings};
use crate::server::{PATIENCE, Server, eventually, text};

/// How often the server is killed among writes.
const KILLS: usize = 3;
/// How many writes each life of the server has to acknowledge before it is killed.
const WRITES: usize = 40;

#[test]
fn a_second_process_is_told_who_holds_the_directory() {
    let server = Server::plane(&[]);
    let mut second = Command::new(env!("CARGO_BIN_EXE_karmada"));
    let output = without_personal_settings(&mut second)
        .args(["apiserver", "--secure-port", "0", "--data-dir"])
        .arg(server.data())
        .output()
        .expect("start a second karmada");
    assert!(!output.status.success());
    let holder = format!("process {}", server.pid());
    assert!(text(&output).contains(&holder), "no {holder:?} in:\n{}", text(&output));
}

#[test]
fn credentials_are_readable_by_their_owner_alone() {
    let server = Server::plane(&[]);
    let mut private = vec![server.kubeconfig()];
    for entry in std::fs::read_dir(server.data().join("pki")).expect("list certificates") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "key") {
            private.push(path);
        }
    }
    assert!(private.len() > 1, "no keys found");
    for path in private {
        let mode = path.metadata().expect("look at a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[test]
fn certificates_last_as_long_as_asked_for() {
    const YEARS_99: u64 = 99 * 365 * 24 * 3600;
    let server = Server::plane(&["--cert-validity", "876000h", "--advertise-address", "127.0.0.3"]);
    assert!(server.address().starts_with("127.0.0.3:"), "{}", server.address());
    let serving = server.data().join("pki/apiserver.crt");
    let names = Command::new("openssl")
        .args(["x509", "-noout", "-ext", "subjectAltName", "-in"])
        .arg(&serving)
        .output()
        .expect("run openssl");
    assert!(text(&names).contains("127.0.0.3"), "{}", text(&names));
    let mut certificates = 0;
    for entry in std::fs::read_dir(server.data().join("pki")).expect("list certificates") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "crt") {
            let output = Command::new("openssl")
                .args(["x509", "-noout", "-checkend", &YEARS_99.to_string(), "-in"])
                .arg(&path)
                .output()
                .expect("run openssl");
            assert!(output.status.success(), "{}: {}", path.display(), text(&output));
            certificates += 1;
        }
    }
    assert!(certificates > 1, "no certificates found");
}

// Shows: OPS-4
#[tokio::test]
async fn ends_cleanly_on_request_and_finds_its_data_again() {
    let mut server = Server::plane(&[]);
    for signal in ["INT", "TERM"] {
        let maps = config_maps(&server).await;
        create(&maps, signal).await.expect("create");
        // An open connection, such as a watch, does not hold the end up.
        let idle = TcpStream::connect(server.address()).await.expect("connect");
        let status = server.end_by(signal);
        assert!(status.success(), "{signal}: {status}\n{}", server.log());
        drop(idle);
        server.start_again();
        config_maps(&server).await.get(&signal.to_lowercase()).await.expect("find it again");
    }
}

#[tokio::test]
async fn a_kill_among_writes_loses_nothing_acknowledged() {
    let mut server = Server::plane(&[]);
    let mut acknowledged = BTreeSet::new();
    for life in 0..KILLS {
        let stop = Arc::new(AtomicBool::new(false));
        let maps = config_maps(&server).await;
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        for writer in 0..4 {
            let (stop, maps, sender) = (stop.clone(), maps.clone(), sender.clone());
            tokio::spawn(async move {
                for number in 0.. {
                    let name = format!("w-{life}-{writer}-{number}");
                    if stop.load(Ordering::Relaxed) || create(&maps, &name).await.is_err() {
                        return;
                    }
                    // The receiver outlives every writer.
                    let _ = sender.send(name);
                }
            });
        }
        drop(sender);
        for _ in 0..WRITES {
            let written = tokio::time::timeout(PATIENCE, receiver.recv()).await;
            acknowledged.insert(written.expect("writes go on").expect("writers run"));
        }
        server.kill();
        stop.store(true, Ordering::Relaxed);
        while let Some(name) = receiver.recv().await {
            acknowledged.insert(name);
        }
        server.start_again();
    }
    let found = config_maps(&server).await.list_all(&ListOptions::default()).await.expect("list");
    let found: BTreeSet<String> = found.items.iter().map(|item| item.name().to_owned()).collect();
    let lost: Vec<&String> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
}

// Shows: WATCH-2, META-3
#[tokio::test]
async fn a_watch_resumes_where_it_was_after_a_kill() {
    let mut server = Server::plane(&[]);
    let maps = config_maps(&server).await;
    create(&maps, "seen").await.expect("create");
    let version = maps.get("seen").await.expect("get").resource_version().to_owned();
    for name in ["missed-1", "missed-2"] {
        create(&maps, name).await.expect("create");
    }
    maps.delete("seen", &DeleteOptions::default()).await.expect("delete");
    server.kill();
    server.start_again();
    let options = WatchOptions { resource_version: version, ..WatchOptions::default() };
    let mut watch = config_maps(&server).await.watch(&options).await.expect("watch");
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let event = tokio::time::timeout(PATIENCE, watch.next()).await.expect("events come");
        match event.expect("the watch goes on").expect("no error") {
            WatchEvent::Added(map) => heard.push(format!("+{}", map.name())),
            WatchEvent::Modified(map) => heard.push(format!("~{}", map.name())),
            WatchEvent::Deleted(map) => heard.push(format!("-{}", map.name())),
            WatchEvent::Bookmark { .. } => {}
        }
    }
    assert_eq!(heard, ["+missed-1", "+missed-2", "-seen"]);
}

/// Whoever read what was printed may be gone: nothing ends for that, and nothing is said about it.
#[tokio::test]
async fn readers_that_are_gone_end_nothing() {
    let folder = tempfile::tempdir().expect("make a directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    let mut process = confine(&mut command, &folder.path().join("home"))
        .args(["up", "--secure-port", "0", "--log-level", "debug", "--data-dir"])
        .arg(folder.path().join("data"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start karmada");
    drop((process.stdout.take(), process.stderr.take()));
    let kubeconfig = folder.path().join("data/karmada-apiserver.config");
    eventually("the kubeconfig is there", || kubeconfig.is_file().then_some(()));
    let client = Client::from_kubeconfig(&kubeconfig, None).await.expect("make a client");
    let maps = client.api(&Gvr::new("", "v1", "configmaps")).namespaced("default");
    let began = std::time::Instant::now();
    while maps.list(&ListOptions::default()).await.is_err() {
        let ended = process.try_wait().expect("ask for the process");
        assert!(ended.is_none() && began.elapsed() < PATIENCE, "it ended: {ended:?}");
    }
    let line = "set -o pipefail; $KARMADA ctl get clusterroles | head -1; $KARMADA ctl get nonsense 2>&1 | head -1; \
                $KARMADA ctl --help | head -1; $KARMADA crds | head -1; $KARMADA --help | head -1";
    let output = confine(&mut Command::new("bash"), &folder.path().join("home"))
        .args(["-c", line])
        .env("KARMADA", env!("CARGO_BIN_EXE_karmada"))
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .expect("run bash");
    assert!(!text(&output).contains("panicked"), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stderr).is_empty(), "{}", text(&output));
    assert!(text(&output).starts_with("NAME"), "{}", text(&output));
    process.kill().expect("stop karmada");
    process.wait().expect("wait for karmada");
}

async fn config_maps(server: &Server) -> Api {
    let client = Client::from_kubeconfig(&server.kubeconfig(), None).await.expect("make a client");
    client.api(&Gvr::new("", "v1", "configmaps")).namespaced("default")
}

async fn create(maps: &Api, name: &str) -> karmada_client::Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name.to_lowercase() },
    });
    maps.create(&map).await.map(drop)
}

//! Replays recorded conversations with a real Kubernetes API server against the built binary and
//! compares every answer. What differs is listed in `known-differences.txt`; a new difference fails,
//! and so does a listed one that is gone.

mod compare;
mod normalise;
mod run;
mod server;
mod transport;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::read::GzDecoder;
use karmada_apimachinery::Value;
use tokio::sync::Mutex;

use server::{Role, Server};

/// How many topics are replayed at the same time. Cases of one topic share namespaces.
const LANES: usize = 3;
/// Marks cases whose answer depends on what else the server does at that moment.
const UNSTABLE: &str = "unstable";
const BRIEF: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The cases of every topic, by file.
fn topics() -> BTreeMap<String, Vec<Value>> {
    let entries = std::fs::read_dir(folder()).expect("list the recordings");
    let mut topics = BTreeMap::new();
    for path in entries.map(|entry| entry.expect("list the recordings").path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(topic) = name.strip_suffix(".jsonl.gz") else { continue };
        let mut text = String::new();
        let file = std::fs::File::open(&path).expect("open a recording");
        GzDecoder::new(file).read_to_string(&mut text).expect("read a recording");
        let cases = text.lines().map(|line| serde_json::from_str(line).expect("parse a case"));
        topics.insert(topic.to_owned(), cases.collect());
    }
    topics
}

/// Ids of cases that are known to differ in a role, and whether they only do so at times.
fn known_differences(role: Role) -> BTreeMap<String, bool> {
    let text =
        std::fs::read_to_string(folder().join("known-differences.txt")).expect("read the list");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let (id, roles) = (words.next()?, words.next()?);
            assert!(words.next().is_some(), "{id} is listed without a reason");
            let listed = roles == "all" || roles == role.name() || roles == UNSTABLE;
            listed.then(|| (id.to_owned(), roles == UNSTABLE))
        })
        .collect()
}

/// What a plane does otherwise on purpose: pods and volumes are completed by plugins only members run.
fn is_for(role: Role, case: &Value) -> bool {
    const MEMBERS_ONLY: &[&str] = &["/pods", "/persistentvolumes", "/persistentvolumeclaims"];
    let text = case.to_string();
    role == Role::Member || !MEMBERS_ONLY.iter().any(|part| text.contains(part))
}

async fn replay(role: Role) {
    let server = Arc::new(Server::start(role).await);
    let queue: Vec<(String, Vec<Value>)> = topics().into_iter().collect();
    let queue = Arc::new(Mutex::new(queue));
    let known = Arc::new(known_differences(role));
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let (server, queue, known) = (server.clone(), queue.clone(), known.clone());
        lanes.push(tokio::spawn(async move {
            let mut results = Vec::new();
            loop {
                let Some((topic, cases)) = queue.lock().await.pop() else { return results };
                let mut runner = run::Runner::new(&server);
                for case in cases.iter().filter(|case| is_for(role, case)) {
                    let id = case["id"].as_str().unwrap_or_default().to_owned();
                    // What is known to differ is not waited for at length.
                    let patience = if known.contains_key(&id) { BRIEF } else { LONG };
                    let difference = runner.replay(case, patience).await;
                    results.push((topic.clone(), id, difference));
                }
            }
        }));
    }
    let mut results = Vec::new();
    for lane in lanes {
        results.extend(lane.await.expect("a lane panicked"));
    }
    report(role, results);
}

type Outcome = (String, String, Option<compare::Difference>);

/// Prints counts per topic and fails on any change against the list.
fn report(role: Role, results: Vec<Outcome>) {
    let known = known_differences(role);
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut lost, mut gained) = (Vec::new(), Vec::new());
    for (topic, id, difference) in &results {
        let count = counts.entry(topic).or_default();
        count.1 += 1;
        match difference {
            None => {
                count.0 += 1;
                if known.get(id) == Some(&false) {
                    gained.push(id.as_str());
                }
            }
            Some(difference) if !known.contains_key(id) => lost.push(format!("{id}\n{difference}")),
            Some(_) => {}
        }
    }
    for (topic, (passed, all)) in counts {
        println!("{topic:<24} {passed:>4} of {all}",);
    }
    let role = role.name();
    for id in &gained {
        println!("{role}: {id} agrees now");
    }
    assert!(lost.is_empty(), "{role}: {} cases differ:\n{}", lost.len(), lost.join("\n"));
    assert!(
        gained.is_empty(),
        "{role}: these agree now, take them off the list: {}",
        gained.join(", ")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_answers_as_the_recorded_server_did() {
    replay(Role::Member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plane_answers_as_the_recorded_server_did() {
    replay(Role::Plane).await;
}

//! Replays recorded conversations with a real Kubernetes API server against the built binary and
//! compares every answer. What differs is listed in `known-differences.txt`; a new difference fails,
//! and so does a listed one that is gone.

mod compare;
mod normalise;
mod run;
mod server;
mod transport;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::read::GzDecoder;
use karmada_apimachinery::Value;
use tokio::sync::Mutex;

use server::{Role, Server};

/// How many groups of topics are replayed at the same time.
const LANES: usize = 3;
/// Marks cases whose answer depends on what else the server does at that moment.
const UNSTABLE: &str = "unstable";
const BRIEF: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(300);

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

type Topic = (String, Vec<Value>);

/// Topics that write the same objects outside of namespaces, or the same namespaces, are one group: replayed
/// at the same time they would get in each other's way. Cases of one topic share them anyway.
fn groups(topics: impl IntoIterator<Item = Topic>) -> Vec<Vec<Topic>> {
    let mut groups: Vec<(BTreeSet<String>, Vec<Topic>)> = Vec::new();
    for (topic, cases) in topics {
        let mut written: BTreeSet<String> = cases.iter().flat_map(written_by).collect();
        let mut together = vec![(topic, cases)];
        for (others, topics) in std::mem::take(&mut groups) {
            if written.is_disjoint(&others) {
                groups.push((others, topics));
            } else {
                written.extend(others);
                together.splice(0..0, topics);
            }
        }
        groups.push((written, together));
    }
    let mut groups: Vec<Vec<Topic>> = groups.into_iter().map(|(_, topics)| topics).collect();
    // The longest first, which is taken from the end.
    groups.sort_by_key(|topics| topics.iter().map(|(_, cases)| cases.len()).sum::<usize>());
    groups
}

/// Compares what is served as a whole, which every definition and every registered server changes: these
/// topics are replayed before all others, and write nothing themselves.
const DISCOVERY: &str = "discovery";

/// Paths of what a case writes outside of namespaces.
fn written_by(case: &Value) -> Vec<String> {
    let steps = ["setup", "steps", "teardown"].into_iter();
    let steps = steps.flat_map(|part| case[part].as_array().into_iter().flatten());
    let path = |step: &Value| {
        let request = &step["request"];
        let path = request["path"].as_str()?.split('?').next()?.trim_end_matches('/');
        let inside = path.split_once("/namespaces/").is_some_and(|(_, rest)| rest.contains('/'));
        match request["method"].as_str()? {
            _ if inside => None,
            "GET" => None,
            "POST" => {
                let metadata = &request["body"]["metadata"];
                let name = metadata["name"].as_str().or(metadata["generateName"].as_str())?;
                Some(format!("{path}/{name}"))
            }
            _ => Some(path.to_owned()),
        }
    };
    steps.filter_map(path).collect()
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

/// A plane publishes no root certificates, so no case waits for them there.
fn wait_for_nobody(role: Role, case: &mut Value) {
    for step in case["setup"].as_array_mut().into_iter().flatten() {
        let path = step["request"]["path"].as_str().unwrap_or_default();
        if role == Role::Plane && path.ends_with("/kube-root-ca.crt") {
            step.as_object_mut().map(|step| step.remove("until"));
        }
    }
}

async fn replay(role: Role) {
    let server = Arc::new(Server::start(role).await);
    let known = Arc::new(known_differences(role));
    let (first, others): (Vec<Topic>, Vec<Topic>) =
        topics().into_iter().partition(|(topic, _)| topic.starts_with(DISCOVERY));
    let mut results = replay_topics(role, &server, &known, first).await;
    let queue = Arc::new(Mutex::new(groups(others)));
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let (server, queue, known) = (server.clone(), queue.clone(), known.clone());
        lanes.push(tokio::spawn(async move {
            let mut results = Vec::new();
            loop {
                let Some(topics) = queue.lock().await.pop() else { return results };
                results.extend(replay_topics(role, &server, &known, topics).await);
            }
        }));
    }
    for lane in lanes {
        results.extend(lane.await.expect("a lane panicked"));
    }
    report(role, results);
}

/// One case after the other.
async fn replay_topics(
    role: Role,
    server: &Arc<Server>,
    known: &BTreeMap<String, bool>,
    topics: Vec<Topic>,
) -> Vec<Outcome> {
    let mut runner = run::Runner::new(server);
    let mut results = Vec::new();
    for (topic, cases) in topics {
        for mut case in cases.into_iter().filter(|case| is_for(role, case)) {
            wait_for_nobody(role, &mut case);
            let id = case["id"].as_str().unwrap_or_default().to_owned();
            // What is known to differ is not waited for at length.
            let patience = if known.contains_key(&id) { BRIEF } else { LONG };
            let difference = runner.replay(&case, patience).await;
            results.push((topic.clone(), id, difference));
        }
    }
    results
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

//! Recorded scenarios of the original, replayed against `karmada up --members 3`: what every kind of
//! policy leads to in bindings, Works, members, status and events. `cargo xtask golden scenarios DIR`
//! takes recordings in; those that differ are listed in `known-differences.txt` with the reason, and
//! one that is listed but passes fails too.

mod compare;
mod lab;
mod normal;
mod observe;
mod replay;

use std::collections::{BTreeMap, VecDeque};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use karmada_apimachinery::Value;
use tokio::sync::Mutex;

use crate::server::Server;
use lab::Lab;

/// Scenarios that touch only their own namespace run side by side.
const LANES: usize = 8;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn read(name: &str) -> String {
    let file = std::fs::File::open(folder().join(name)).expect("open the recordings");
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).expect("read the recordings");
    text
}

/// Ids of scenarios that differ, with the reason.
fn known_differences() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(folder().join("known-differences.txt")).expect("the list");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (id, reason) = line.split_once(' ').expect("an id and a reason");
        (id.to_owned(), reason.trim().to_owned())
    };
    lines.map(entry).collect()
}

/// The scenarios to run: those of the default gates, or the ones named in the environment.
fn scenarios() -> Vec<Value> {
    let only = std::env::var("KARMADA_TEST_SCENARIOS").unwrap_or_default();
    let only: Vec<&str> = only.split(',').filter(|id| !id.is_empty()).collect();
    let all = read("scenarios.jsonl.gz");
    let all = all.lines().map(|line| serde_json::from_str::<Value>(line).expect("a scenario"));
    let wanted = |scenario: &Value| {
        scenario["profile"].as_str().unwrap_or("default") == "default"
            && (only.is_empty() || only.contains(&scenario["id"].as_str().unwrap_or_default()))
    };
    all.filter(wanted).collect()
}

// Runs for minutes: `./test scenarios` asks for it by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a leg of its own: ./test scenarios"]
async fn the_recorded_scenarios_lead_to_the_recorded_states() {
    let server = Server::up_with(&["--members", "3"]);
    let setup: Value = serde_json::from_str(&read("setup.json.gz")).expect("the setup");
    let lab = Arc::new(Lab::open(&server, setup).await);
    lab.prepare().await;
    let (mut alone, mut together) = (Vec::new(), VecDeque::new());
    for scenario in scenarios() {
        match scenario["exclusive"].as_bool() {
            Some(false) => together.push_back(scenario),
            _ => alone.push(scenario),
        }
    }
    let together = Arc::new(Mutex::new(together));
    let outcomes = Arc::new(Mutex::new(BTreeMap::new()));
    let lanes = (0..LANES).map(|_| {
        let (lab, together, outcomes) = (lab.clone(), together.clone(), outcomes.clone());
        tokio::spawn(async move {
            loop {
                let Some(scenario) = together.lock().await.pop_front() else { return };
                let outcome = replay::run(&lab, &scenario).await;
                outcomes.lock().await.insert(id_of(&scenario), outcome);
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.expect("a lane runs to its end");
    }
    for scenario in alone {
        let outcome = replay::run(&lab, &scenario).await;
        outcomes.lock().await.insert(id_of(&scenario), outcome);
    }
    let outcomes = std::mem::take(&mut *outcomes.lock().await);
    judge(&outcomes);
}

fn id_of(scenario: &Value) -> String {
    scenario["id"].as_str().unwrap_or_default().to_owned()
}

/// Fails on any loss, and on any gain that the list does not know of yet.
#[allow(clippy::print_stdout, reason = "the report of the leg")]
fn judge(outcomes: &BTreeMap<String, Option<String>>) {
    let known = known_differences();
    let mut surprises = Vec::new();
    for (id, outcome) in outcomes {
        match (outcome, known.get(id)) {
            (Some(difference), None) => surprises.push(format!("{id}: {difference}")),
            (None, Some(reason)) => {
                surprises.push(format!("{id} passes; take it off the list ({reason})"));
            }
            _ => {}
        }
    }
    let passed = outcomes.values().filter(|outcome| outcome.is_none()).count();
    println!("{passed} of {} scenarios lead to the recorded states", outcomes.len());
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

//! Recorded scenarios of the original, replayed against `karmada up --members 3`: what every kind of
//! policy leads to in bindings, Works, members, status and events. `cargo xtask golden scenarios DIR`
//! takes recordings in; those that differ are listed in `known-differences.txt` with the reason, and
//! one that is listed but passes fails too, unless a question mark says that it depends on who is
//! faster.

mod compare;
mod lab;
mod normal;
mod observe;
mod replay;
mod site;

use std::collections::{BTreeMap, VecDeque};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use flate2::read::GzDecoder;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::server::Server;
use lab::Lab;

/// Scenarios that touch only their own namespace run side by side.
const LANES: usize = 6;

/// How often a scenario is tried.
const ATTEMPTS: usize = 3;

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

/// How the control plane was started for the recordings with all gates on.
const ALL_GATES: [&str; 4] = [
    "--feature-gates=AllAlpha=true,AllBeta=true",
    "--enable-no-execute-taint-eviction",
    "--allow-no-execute-taint-policy",
    "--controllers=*,hpaScaleTargetMarker",
];

fn is_gated(scenario: &Value) -> bool {
    scenario["profile"] == "gates"
}

/// What a control plane can play whose own Kubernetes would run workloads: scenarios about objects
/// that nobody acts on.
const CORE: &str = "aff-field-region,aff-label,aff-names,affs-second,conflict-abort,\
    conflict-overwrite,cop-field-json,cpp-cluster-scoped,drift-edit,lazy-edit,life-policy-first,\
    life-template-delete,life-template-edit,op-field-yaml,op-plain-add,op-target-label,\
    prio-explicit,retain-finalizers,suspend-delete";

/// The scenarios to run: those named in the environment, or else by `default`, where nothing means all.
fn scenarios(default: &str) -> Vec<Value> {
    let only = std::env::var("KARMADA_TEST_SCENARIOS").unwrap_or_else(|_| default.to_owned());
    let only: Vec<&str> = only.split(',').filter(|id| !id.is_empty()).collect();
    let all = read("scenarios.jsonl.gz");
    let all = all.lines().map(|line| serde_json::from_str::<Value>(line).expect("a scenario"));
    let wanted = |scenario: &Value| {
        only.is_empty() || only.contains(&scenario["id"].as_str().unwrap_or_default())
    };
    all.filter(wanted).collect()
}

/// What is left to do, and what came of what was done.
#[derive(Default)]
struct Desk {
    together: Mutex<VecDeque<Value>>,
    alone: Mutex<VecDeque<Value>>,
    gated: Mutex<VecDeque<Value>>,
    outcomes: Mutex<BTreeMap<String, Option<String>>>,
    known: BTreeMap<String, String>,
}

impl Desk {
    fn new(scenarios: Vec<Value>) -> Self {
        let is_alone = |scenario: &Value| scenario["exclusive"] != false;
        let (gated, scenarios): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(is_gated);
        let (mut alone, together): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(is_alone);
        // Those that need the Pull clusters follow each other, so that these are made once.
        alone.sort_by_key(|scenario| scenario["pull"] == true);
        Self {
            together: Mutex::new(together.into()),
            alone: Mutex::new(alone.into()),
            gated: Mutex::new(gated.into()),
            known: known_differences(),
            ..Self::default()
        }
    }

    async fn work_off(&self, lab: &Lab, queue: &Mutex<VecDeque<Value>>) {
        loop {
            let Some(scenario) = queue.lock().await.pop_front() else { return };
            let id = id_of(&scenario);
            let began = Instant::now();
            let outcome = replay::run(lab, &scenario, self.known.contains_key(&id)).await;
            let verdict = outcome.as_deref().unwrap_or("ok");
            tell(&format!("{id}: {verdict} after {:.1} s", began.elapsed().as_secs_f64()));
            self.outcomes.lock().await.insert(id, outcome);
        }
    }

    /// Those that were not as recorded get further chances, alone: on a busy machine a scenario
    /// can miss a moment that it waits for.
    async fn try_again(&self, lab: &Lab, scenarios: impl Iterator<Item = &Value> + Clone) {
        for attempt in 2..=ATTEMPTS {
            for scenario in scenarios.clone() {
                let id = id_of(scenario);
                let failed = matches!(self.outcomes.lock().await.get(&id), Some(Some(_)));
                if failed && !self.known.contains_key(&id) {
                    let outcome = replay::run(lab, scenario, false).await;
                    let verdict = outcome.as_deref().unwrap_or("ok");
                    tell(&format!("{id}: {verdict} at attempt {attempt}"));
                    self.outcomes.lock().await.insert(id, outcome);
                }
            }
        }
    }
}

fn setup() -> Value {
    serde_json::from_str(&read("setup.json.gz")).expect("the setup")
}

/// Which scenarios are played where a control plane or its members are made of something else.
pub(crate) enum Part {
    /// All that need no gates.
    Whole,
    Core,
}

/// Replays scenarios on a control plane that knows no members yet, and lets them go again.
pub(crate) async fn replay_at(plane: &Path, member: impl Fn(&str) -> PathBuf, part: Part) {
    let mut scenarios = scenarios(if matches!(part, Part::Core) { CORE } else { "" });
    scenarios.retain(|scenario| !is_gated(scenario));
    let lab = Arc::new(Lab::at(plane, member, setup()).await);
    lab.join_all().await;
    lab.prepare().await;
    let desk = Arc::new(Desk::new(scenarios.clone()));
    work_off_together(&desk, &lab).await;
    desk.work_off(&lab, &desk.alone).await;
    desk.try_again(&lab, scenarios.iter()).await;
    lab.unjoin_all().await;
    judge(&*desk.outcomes.lock().await, false);
}

/// Those that can run side by side.
async fn work_off_together(desk: &Arc<Desk>, lab: &Arc<Lab>) {
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let (desk, lab) = (desk.clone(), lab.clone());
        lanes.spawn(async move { desk.work_off(&lab, &desk.together).await });
    }
    lanes.join_all().await;
}

/// The names of the members that took part in the recordings.
pub(crate) fn members() -> Vec<String> {
    let setup = setup();
    let members = setup.map_at(&["members"]).into_iter().flatten();
    members.map(|(name, _)| name.to_string()).collect()
}

async fn make_lab(flags: &[&str]) -> (Server, Lab) {
    let server = Server::up_with(&[&["--members", "3"], flags].concat());
    let lab = Lab::open(&server, setup()).await;
    lab.prepare().await;
    (server, lab)
}

// Runs for minutes: `./test scenarios` asks for it by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a leg of its own: ./test scenarios"]
async fn the_recorded_scenarios_lead_to_the_recorded_states() {
    let scenarios = Arc::new(scenarios(""));
    let desk = Arc::new(Desk::new(scenarios.to_vec()));
    let gated = tokio::spawn(play_gated(desk.clone(), scenarios.clone()));
    let ((_one, one), (_two, two)) = tokio::join!(make_lab(&[]), make_lab(&[]));
    let (one, two) = (Arc::new(one), Arc::new(two));
    let (own, lab) = (desk.clone(), two.clone());
    let alone = tokio::spawn(async move { own.work_off(&lab, &own.alone).await });
    work_off_together(&desk, &one).await;
    desk.work_off(&one, &desk.alone).await;
    alone.await.expect("the lane runs to its end");
    desk.try_again(&two, scenarios.iter().filter(|scenario| !is_gated(scenario))).await;
    gated.await.expect("the lane runs to its end");
    judge(&*desk.outcomes.lock().await, true);
}

/// Those that were recorded with all gates on, on a control plane of their own.
async fn play_gated(desk: Arc<Desk>, scenarios: Arc<Vec<Value>>) {
    if desk.gated.lock().await.is_empty() {
        return;
    }
    let (_server, lab) = make_lab(&ALL_GATES).await;
    desk.work_off(&lab, &desk.gated).await;
    desk.try_again(&lab, scenarios.iter().filter(|scenario| is_gated(scenario))).await;
}

#[allow(clippy::print_stdout, reason = "the report of the leg")]
fn tell(line: &str) {
    println!("{line}");
}

fn id_of(scenario: &Value) -> String {
    scenario["id"].as_str().unwrap_or_default().to_owned()
}

/// Fails on any loss, and in one process on any gain that the list does not know of yet. Components that do not wait for each other
/// come closer to the recordings than one process does.
fn judge(outcomes: &BTreeMap<String, Option<String>>, is_one_process: bool) {
    let known = known_differences();
    let mut surprises = Vec::new();
    for (id, outcome) in outcomes {
        match (outcome, known.get(id)) {
            (Some(difference), None) => surprises.push(format!("{id}: {difference}")),
            (None, Some(reason)) if is_one_process && !reason.starts_with("? ") => {
                surprises.push(format!("{id} passes; take it off the list ({reason})"));
            }
            _ => {}
        }
    }
    let passed = outcomes.values().filter(|outcome| outcome.is_none()).count();
    tell(&format!("{passed} of {} scenarios lead to the recorded states", outcomes.len()));
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

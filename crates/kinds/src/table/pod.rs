//! The pod row: readiness, the one word that says how the pod is, and restarts.

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::{human_duration, parse_time};

use super::row::{Row, or_none};

pub(super) fn pod(row: &Row<'_>) -> Vec<Value> {
    let state = State::of(row);
    let mut restarts = state.restarts.to_string();
    if let Some(last) = state.last_restart.filter(|_| state.restarts != 0) {
        restarts = format!("{restarts} ({} ago)", human_duration(row.now.duration_since(last)));
    }
    let address = row.object.list_at(&["status", "podIPs"]).first();
    let address = address.and_then(|address| address.str_at(&["ip"])).unwrap_or_default();
    vec![
        row.name(),
        format!("{}/{}", state.ready, state.containers).into(),
        state.reason.into(),
        restarts.into(),
        row.age(),
        or_none(address).into(),
        or_none(row.str(&["spec", "nodeName"])).into(),
        or_none(row.str(&["status", "nominatedNodeName"])).into(),
        readiness_gates(row).into(),
    ]
}

fn readiness_gates(row: &Row<'_>) -> String {
    let gates = row.object.list_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates.iter().filter_map(|gate| gate.str_at(&["conditionType"]));
    format!("{}/{}", met.filter(|gate| row.is_true(gate)).count(), gates.len())
}

/// What the columns say about the containers together.
#[derive(Default)]
struct State {
    reason: String,
    containers: usize,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl State {
    fn of(row: &Row<'_>) -> Self {
        let pod = row.object;
        let mut state = Self {
            reason: row.str(&["status", "phase"]).to_owned(),
            containers: pod.list_at(&["spec", "containers"]).len(),
            ..Self::default()
        };
        let reason = row.str(&["status", "reason"]);
        if !reason.is_empty() {
            state.reason = reason.to_owned();
        }
        let scheduled = row.condition("PodScheduled");
        if scheduled.is_some_and(|c| c.str_at(&["reason"]) == Some("SchedulingGated")) {
            state.reason = "SchedulingGated".to_owned();
        }
        let mut sidecars = Self::default();
        let initializing = state.start_up(pod, &mut sidecars);
        if !initializing || row.is_true("Initialized") {
            state.restarts = sidecars.restarts;
            state.last_restart = sidecars.last_restart;
            state.run(row);
        }
        if pod.is_being_deleted() {
            let phase = row.str(&["status", "phase"]);
            if reason == "NodeLost" {
                state.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                state.reason = "Terminating".to_owned();
            }
        }
        state
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += status.i64_at(&["restartCount"]).unwrap_or_default();
        let finished = status.str_at(&["lastState", "terminated", "finishedAt"]);
        self.last_restart = self.last_restart.max(finished.and_then(parse_time));
    }

    /// Looks at init containers up to the first unfinished one; returns whether there is one.
    fn start_up(&mut self, pod: &Value, sidecars: &mut Self) -> bool {
        let init = pod.list_at(&["spec", "initContainers"]);
        let is_restartable = |c: &&Value| c.str_at(&["restartPolicy"]) == Some("Always");
        self.containers += init.iter().filter(is_restartable).count();
        for (index, status) in pod.list_at(&["status", "initContainerStatuses"]).iter().enumerate()
        {
            self.count_restarts(status);
            let spec = init.iter().find(|c| c.get("name") == status.get("name"));
            let is_sidecar = spec.as_ref().is_some_and(is_restartable);
            if is_sidecar {
                sidecars.count_restarts(status);
            }
            let terminated = status.at(&["state", "terminated"]).filter(|t| t.is_object());
            if terminated.is_some_and(|t| t.i64_at(&["exitCode"]).unwrap_or_default() == 0) {
                continue;
            }
            if is_sidecar && status.bool_at(&["started"]) == Some(true) {
                self.ready += usize::from(status.bool_at(&["ready"]) == Some(true));
                continue;
            }
            let waiting = status.str_at(&["state", "waiting", "reason"]).unwrap_or_default();
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", ending(terminated)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", init.len()),
            };
            return true;
        }
        false
    }

    /// Looks at the main containers, the first one last: its state wins.
    fn run(&mut self, row: &Row<'_>) {
        let mut is_running = false;
        let mut failure = None;
        for status in row.object.list_at(&["status", "containerStatuses"]).iter().rev() {
            self.count_restarts(status);
            let state = |name: &str| status.at(&["state", name]).filter(|s| s.is_object());
            let waiting = status.str_at(&["state", "waiting", "reason"]).unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(terminated) = state("terminated") {
                self.reason = ending(terminated);
                if terminated.i64_at(&["exitCode"]).unwrap_or_default() != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if status.bool_at(&["ready"]) == Some(true) && state("running").is_some() {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if is_running && row.is_true("Ready") {
                self.reason = "Running".to_owned();
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if is_running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

/// How a container ended, by reason, signal or exit code.
fn ending(terminated: &Value) -> String {
    let reason = terminated.str_at(&["reason"]).unwrap_or_default();
    let signal = terminated.i64_at(&["signal"]).unwrap_or_default();
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", terminated.i64_at(&["exitCode"]).unwrap_or_default())
    }
}

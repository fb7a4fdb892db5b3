//! The status of a pod, rendered from what the containers do. As much of it as simulated kubelets
//! elsewhere write: ids of images and containers that do not exist are left out.

use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::time::{format_go_duration, format_time, parse_time};
use karmada_apimachinery::{Value, json};

use super::life::Machine;
use super::script::Exit;

/// What the containers of a pod do; all of them do the same.
pub(super) enum Containers<'a> {
    Creating,
    PullFailed(&'a str),
    PullBackOff(&'a str),
    Started {
        ready: bool,
    },
    Restarted {
        ready: bool,
    },
    /// They go on as they were.
    Running,
    /// They exited and are started again after this time.
    Exited(&'a Exit, Duration),
    BackOff(Duration),
    /// They exited for good.
    Finished(&'a Exit),
}

pub(super) fn pull_failure(image: &str) -> String {
    format!(
        "Failed to pull image \"{image}\": failed to pull and unpack image \"{image}\": failed to resolve reference \
         \"{image}\": {image}: not found"
    )
}

/// The whole status of a pod whose containers do this.
pub(super) fn of(
    pod: &Value,
    containers: Containers<'_>,
    now: Timestamp,
    machine: &Machine<'_>,
) -> Value {
    let time = format_time(now);
    let old = pod.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
    let (phase, initialized) = match &containers {
        Containers::Creating | Containers::PullFailed(_) | Containers::PullBackOff(_) => {
            let waits = pod.list_at(&["spec", "initContainers"]).is_empty();
            ("Pending", waits)
        }
        Containers::Finished(exit) if exit.code == 0 => ("Succeeded", true),
        Containers::Finished(_) => ("Failed", true),
        _ => ("Running", true),
    };
    let main: Vec<Value> = pod
        .list_at(&["spec", "containers"])
        .iter()
        .map(|container| container_status(pod, container, &containers, &time))
        .collect();
    let ready = main.iter().all(|status| status["ready"] == true);
    let init = init_statuses(pod, initialized, &time);
    let address = (machine.address)();
    let mut status = json!({
        "phase": phase,
        "hostIP": machine.host,
        "startTime": old.str_at(&["startTime"]).unwrap_or(&time),
        "containerStatuses": main,
    });
    if !init.is_empty() {
        status["initContainerStatuses"] = init.into();
    }
    let creating = phase == "Pending";
    if !creating {
        status["podIP"] = address.as_str().into();
        status["podIPs"] = json!([{"ip": address}]);
    }
    status["conditions"] = conditions(pod, &old, phase, (ready, initialized), &time);
    status
}

/// The conditions in the order a kubelet writes them; others' conditions stay behind them.
fn conditions(
    pod: &Value,
    old: &Value,
    phase: &str,
    (ready, initialized): (bool, bool),
    time: &str,
) -> Value {
    let known = old.list_at(&["conditions"]);
    let names = |field: &str, which: &dyn Fn(&Value) -> bool| -> String {
        let statuses = pod.list_at(&["spec", field]).iter().filter(|c| which(c));
        let names: Vec<&str> = statuses.filter_map(|c| c.str_at(&["name"])).collect();
        names.join(" ")
    };
    let unready = match phase {
        "Succeeded" => ("PodCompleted", String::new()),
        "Failed" => ("PodFailed", String::new()),
        _ => {
            let all = names("containers", &|_| true);
            ("ContainersNotReady", format!("containers with unready status: [{all}]"))
        }
    };
    let is_true = |name: &str| known.iter().any(|c| c["type"] == name && c["status"] == "True");
    let gates = pod.list_at(&["spec", "readinessGates"]);
    let closed: Vec<String> = gates
        .iter()
        .filter_map(|gate| gate.str_at(&["conditionType"]))
        .filter(|gate| !is_true(gate))
        .map(|gate| {
            format!("corresponding condition of pod readiness gate \"{gate}\" does not exist.")
        })
        .collect();
    let incomplete = names("initContainers", &|_| true);
    let pod_ready = match (ready, closed.is_empty()) {
        (true, true) => (true, "", String::new()),
        (true, false) => (false, "ReadinessGatesNotReady", closed.join(", ")),
        (false, _) => (false, unready.0, unready.1.clone()),
    };
    let initial = if initialized {
        (true, if phase == "Succeeded" { "PodCompleted" } else { "" }, String::new())
    } else {
        let message = format!("containers with incomplete status: [{incomplete}]");
        (false, "ContainersNotInitialized", message)
    };
    let all = [
        ("Initialized", initial),
        ("Ready", pod_ready),
        (
            "ContainersReady",
            if ready { (true, "", String::new()) } else { (false, unready.0, unready.1) },
        ),
        ("PodScheduled", (true, "", String::new())),
    ];
    let mut list: Vec<Value> = all
        .iter()
        .map(|(name, (holds, reason, message))| {
            let status = if *holds { "True" } else { "False" };
            let same = known.iter().find(|c| c["type"] == *name && c["status"] == status);
            let since = same.and_then(|c| c.str_at(&["lastTransitionTime"])).unwrap_or(time);
            let mut condition = json!({
                "type": name, "status": status, "lastProbeTime": null,
                "lastTransitionTime": since,
            });
            if !reason.is_empty() {
                condition["reason"] = (*reason).into();
            }
            if !message.is_empty() {
                condition["message"] = message.as_str().into();
            }
            condition
        })
        .collect();
    let ours = |condition: &&Value| all.iter().any(|(name, _)| condition["type"] == *name);
    list.extend(known.iter().filter(|condition| !ours(condition)).cloned());
    list.into()
}

fn container_status(
    pod: &Value,
    container: &Value,
    containers: &Containers<'_>,
    time: &str,
) -> Value {
    let name = container.str_at(&["name"]).unwrap_or_default();
    let image = container.str_at(&["image"]).unwrap_or_default();
    let old = old_status(pod, name);
    let restarts = old.and_then(|old| old.i64_at(&["restartCount"])).unwrap_or_default();
    let kept = |field: &str| old.and_then(|old| old.at(&[field])).cloned();
    let last = kept("lastState").unwrap_or_else(|| json!({}));
    let waiting = |reason: &str, message: String| {
        let mut waiting = json!({"reason": reason});
        if !message.is_empty() {
            waiting["message"] = message.into();
        }
        json!({"waiting": waiting})
    };
    let running = json!({"running": {"startedAt": time}});
    let since = old.and_then(|old| old.str_at(&["state", "running", "startedAt"])).unwrap_or(time);
    let ended = |exit: &Exit| {
        json!({"terminated": {
            "exitCode": exit.code, "reason": exit.reason, "startedAt": since, "finishedAt": time,
        }})
    };
    let (state, last, ready, restarts) = match containers {
        Containers::Creating => {
            let init = !pod.list_at(&["spec", "initContainers"]).is_empty();
            let reason = if init { "PodInitializing" } else { "ContainerCreating" };
            (waiting(reason, String::new()), last, false, restarts)
        }
        Containers::PullFailed(missing) if *missing == image => {
            (waiting("ErrImagePull", pull_failure(image)), last, false, restarts)
        }
        Containers::PullBackOff(missing) if *missing == image => {
            let message = format!("Back-off pulling image \"{image}\"");
            (waiting("ImagePullBackOff", message), last, false, restarts)
        }
        Containers::PullFailed(_) | Containers::PullBackOff(_) => {
            (waiting("ContainerCreating", String::new()), last, false, restarts)
        }
        Containers::Started { ready } => (running, last, *ready, restarts),
        Containers::Restarted { ready } => {
            let ended = kept("state").filter(|state| state.at(&["terminated"]).is_some());
            (running, ended.unwrap_or(last), *ready, restarts + 1)
        }
        Containers::Running => (json!({"running": {"startedAt": since}}), last, true, restarts),
        Containers::Exited(exit, pause) if pause.is_zero() => (ended(exit), last, false, restarts),
        Containers::Exited(exit, pause) => (
            waiting("CrashLoopBackOff", back_off_text(pod, name, *pause)),
            ended(exit),
            false,
            restarts,
        ),
        Containers::BackOff(pause) => {
            let ended = kept("state").filter(|state| state.at(&["terminated"]).is_some());
            let state = waiting("CrashLoopBackOff", back_off_text(pod, name, *pause));
            (state, ended.unwrap_or(last), false, restarts)
        }
        Containers::Finished(exit) => (ended(exit), last, false, restarts),
    };
    json!({
        "name": name, "image": image, "imageID": "", "ready": ready,
        "restartCount": restarts, "state": state, "lastState": last,
    })
}

fn back_off_text(pod: &Value, container: &str, pause: Duration) -> String {
    let pause = format_go_duration(pause.try_into().unwrap_or_default());
    format!(
        "back-off {pause} restarting failed container={container} pod={}_{}({})",
        pod.name(),
        pod.namespace(),
        pod.uid()
    )
}

fn init_statuses(pod: &Value, initialized: bool, time: &str) -> Vec<Value> {
    let containers = pod.list_at(&["spec", "initContainers"]).iter();
    let status = |container: &Value| {
        let name = container.str_at(&["name"]).unwrap_or_default();
        let image = container.str_at(&["image"]).unwrap_or_default();
        let old = pod.list_at(&["status", "initContainerStatuses"]);
        let old = old.iter().find(|old| old["name"] == name);
        let begun =
            |field: &[&str]| old.and_then(|old| old.str_at(field)).unwrap_or(time).to_owned();
        let sidecar = container.str_at(&["restartPolicy"]) == Some("Always");
        let state = match (initialized, sidecar) {
            (false, _) => json!({"waiting": {"reason": "PodInitializing"}}),
            (true, true) => {
                json!({"running": {"startedAt": begun(&["state", "running", "startedAt"])}})
            }
            (true, false) => json!({"terminated": {
                "exitCode": 0, "reason": "Completed",
                "startedAt": begun(&["state", "terminated", "startedAt"]),
                "finishedAt": begun(&["state", "terminated", "finishedAt"]),
            }}),
        };
        json!({
            "name": name, "image": image, "imageID": "", "ready": initialized,
            "started": initialized && sidecar, "restartCount": 0, "state": state, "lastState": {},
        })
    };
    containers.map(status).collect()
}

fn old_status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let all = pod.list_at(&["status", "containerStatuses"]);
    all.iter().find(|status| status["name"] == container)
}

fn first_status(pod: &Value) -> Option<&Value> {
    pod.list_at(&["status", "containerStatuses"]).first()
}

pub(super) fn restarts(pod: &Value) -> i64 {
    first_status(pod).and_then(|status| status.i64_at(&["restartCount"])).unwrap_or_default()
}

/// Returns why containers wait, if they do.
pub(super) fn waiting_reason(pod: &Value) -> Option<String> {
    let statuses = pod.list_at(&["status", "containerStatuses"]).iter();
    let mut reasons = statuses.filter_map(|s| s.str_at(&["state", "waiting", "reason"]));
    reasons.find(|reason| *reason != "ContainerCreating").map(str::to_owned)
}

pub(super) fn is_creating(pod: &Value) -> bool {
    let reason = first_status(pod).and_then(|s| s.str_at(&["state", "waiting", "reason"]));
    matches!(reason, Some("ContainerCreating" | "PodInitializing"))
}

/// Returns since when the containers of a running pod have stood still.
pub(super) fn stopped_since(pod: &Value) -> Option<Timestamp> {
    let status = first_status(pod)?;
    if status.at(&["state", "running"]).is_some() {
        return None;
    }
    let ended = status.str_at(&["state", "terminated", "finishedAt"]);
    let ended = ended.or_else(|| status.str_at(&["lastState", "terminated", "finishedAt"]))?;
    parse_time(ended)
}

pub(super) fn running_since(pod: &Value) -> Option<Timestamp> {
    first_status(pod)?.str_at(&["state", "running", "startedAt"]).and_then(parse_time)
}

/// Whether writing this status would change the pod's.
pub(super) fn differs(pod: &Value, fresh: &Value) -> bool {
    let stored = pod.at(&["status"]);
    fresh
        .as_object()
        .into_iter()
        .flatten()
        .any(|(field, value)| stored.and_then(|stored| stored.get(field)) != Some(value))
}

/// The status of a pod whose containers were told to stop.
pub(super) fn killed(pod: &Value, now: Timestamp) -> Value {
    let exit = Exit { after: Duration::ZERO, code: 143, reason: "Error".to_owned() };
    ended(pod, &exit, now)
}

/// The status of a pod that was active for too long.
pub(super) fn past_deadline(pod: &Value, now: Timestamp) -> Value {
    let exit = Exit { after: Duration::ZERO, code: 137, reason: "Error".to_owned() };
    let mut status = ended(pod, &exit, now);
    status.set(&["reason"], "DeadlineExceeded");
    status.set(&["message"], "Pod was active on the node longer than the specified deadline");
    status
}

fn ended(pod: &Value, exit: &Exit, now: Timestamp) -> Value {
    let host = pod.str_at(&["status", "hostIP"]).unwrap_or_default().to_owned();
    let address = pod.str_at(&["status", "podIP"]).unwrap_or_default().to_owned();
    let machine = Machine { host, address: &|| address.clone() };
    let mut status = of(pod, Containers::Finished(exit), now, &machine);
    if pod.str_at(&["status", "podIP"]).is_none() {
        status.remove_at(&["podIP"]);
        status.remove_at(&["podIPs"]);
    }
    status
}

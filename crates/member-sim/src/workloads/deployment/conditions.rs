//! The status of a Deployment: its counters, and what its conditions say about a rollout.

use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::{format_time, parse_time};
use karmada_apimachinery::{Value, json};

use super::rollout;
use super::sets::{Generations, ReplicaSet};

/// No deadline at all.
const NO_DEADLINE: i64 = i32::MAX as i64;

struct Counts {
    replicas: i64,
    updated: i64,
    ready: i64,
    available: i64,
    terminating: i64,
    unavailable: i64,
}

fn count(generations: &Generations) -> Counts {
    let sum = |field: &str| -> i64 { generations.all().map(|set| set.counted(field)).sum() };
    let sizes: i64 = generations.all().map(ReplicaSet::size).sum();
    let available = sum("availableReplicas");
    Counts {
        replicas: sum("replicas"),
        updated: generations.new.as_ref().map_or(0, |set| set.counted("replicas")),
        ready: sum("readyReplicas"),
        available,
        terminating: sum("terminatingReplicas"),
        unavailable: (sizes - available).max(0),
    }
}

/// Whether all pods have the present template and are available.
pub(super) fn is_complete(deployment: &Value, generations: &Generations) -> bool {
    let (counts, want) = (count(generations), rollout::desired(deployment));
    counts.updated == want && counts.replicas == want && counts.available == want
}

/// Returns the status as it is to be stored, and when to look again. `paused` is nothing while the
/// Deployment goes: then only the counters move.
pub(super) fn status_of(
    deployment: &Value,
    generations: &Generations,
    paused: Option<bool>,
    now: Timestamp,
) -> (Value, Option<Duration>) {
    let counts = count(generations);
    let mut status = json!({
        "observedGeneration": deployment.i64_at(&["metadata", "generation"]).unwrap_or_default(),
    });
    for (field, number) in [
        ("replicas", counts.replicas),
        ("updatedReplicas", counts.updated),
        ("readyReplicas", counts.ready),
        ("availableReplicas", counts.available),
        ("unavailableReplicas", counts.unavailable),
    ] {
        if number != 0 {
            status[field] = number.into();
        }
    }
    status["terminatingReplicas"] = counts.terminating.into();
    if let Some(collisions) = deployment.i64_at(&["status", "collisionCount"]) {
        status["collisionCount"] = collisions.into();
    }
    let mut list = Conditions { list: deployment.list_at(&["status", "conditions"]).to_vec(), now };
    let mut again = None;
    if let Some(paused) = paused {
        again = list.progress(deployment, generations, &counts, paused);
    }
    list.availability(deployment, &counts);
    list.replica_failure(generations);
    if !list.list.is_empty() {
        status["conditions"] = list.list.into();
    }
    (status, again)
}

struct Conditions {
    list: Vec<Value>,
    now: Timestamp,
}

impl Conditions {
    fn find(&self, kind: &str) -> Option<&Value> {
        self.list.iter().find(|condition| condition["type"] == kind)
    }

    /// Sets a condition; `touch` moves its update time even if it says the same as before.
    fn set(&mut self, kind: &str, status: &str, (reason, message): (&str, &str), touch: bool) {
        let time = format_time(self.now);
        let old = self.find(kind);
        let same = |old: &Value| {
            old["status"] == status
                && old["reason"] == reason
                && (!touch || old["message"] == message)
        };
        if old.is_some_and(same) && !touch {
            return;
        }
        let since = old.filter(|old| old["status"] == status);
        let since = since.and_then(|old| old.str_at(&["lastTransitionTime"])).unwrap_or(&time);
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since, "lastUpdateTime": time,
        });
        // Compat: a changed condition moves to the end of the list.
        self.list.retain(|condition| condition["type"] != kind);
        self.list.push(condition);
    }

    fn availability(&mut self, deployment: &Value, counts: &Counts) {
        let least = rollout::desired(deployment) - rollout::limits(deployment).unavailable;
        if counts.available >= least {
            let why = ("MinimumReplicasAvailable", "Deployment has minimum availability.");
            self.set("Available", "True", why, false);
        } else {
            let why =
                ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.");
            self.set("Available", "False", why, false);
        }
    }

    fn replica_failure(&mut self, generations: &Generations) {
        let failure = generations.all().flat_map(|set| set.conditions());
        let failure = failure.into_iter().find(|condition| condition["type"] == "ReplicaFailure");
        match failure {
            Some(failure) => {
                let text = |field: &str| failure.str_at(&[field]).unwrap_or_default().to_owned();
                let (reason, message) = (text("reason"), text("message"));
                self.set("ReplicaFailure", &text("status"), (&reason, &message), false);
            }
            None => self.list.retain(|condition| condition["type"] != "ReplicaFailure"),
        }
    }

    /// Follows the rollout; returns how long it may still stand still.
    fn progress(
        &mut self,
        deployment: &Value,
        generations: &Generations,
        counts: &Counts,
        paused: bool,
    ) -> Option<Duration> {
        let deadline = deployment.i64_at(&["spec", "progressDeadlineSeconds"]);
        let deadline = deadline.filter(|seconds| *seconds < NO_DEADLINE)?;
        let reason = self.find("Progressing").and_then(|c| c.str_at(&["reason"]));
        let reason = reason.unwrap_or_default().to_owned();
        if paused {
            if reason != "DeploymentPaused" {
                self.set(
                    "Progressing",
                    "Unknown",
                    ("DeploymentPaused", "Deployment is paused"),
                    true,
                );
            }
            return None;
        }
        if reason == "DeploymentPaused" {
            self.set(
                "Progressing",
                "Unknown",
                ("DeploymentResumed", "Deployment is resumed"),
                true,
            );
        }
        let name = match &generations.new {
            Some(set) => format!("ReplicaSet \"{}\"", set.name()),
            None => format!("Deployment \"{}\"", deployment.name()),
        };
        if is_complete(deployment, generations) {
            if reason != "NewReplicaSetAvailable" || self.names_another(&name) {
                let message = format!("{name} has successfully progressed.");
                self.set("Progressing", "True", ("NewReplicaSetAvailable", &message), true);
            }
            return None;
        }
        if self.find("Progressing").is_none()
            || reason == "NewReplicaSetAvailable" && self.names_another(&name)
        {
            let created = generations.all().count() <= 1;
            let (reason, verb) = if created {
                ("NewReplicaSetCreated", "Created new replica set")
            } else {
                ("ReplicaSetUpdated", "")
            };
            let set = generations.new.as_ref().map(ReplicaSet::name).unwrap_or_default();
            let message = if created {
                format!("{verb} \"{set}\"")
            } else {
                format!("{name} is progressing.")
            };
            self.set("Progressing", "True", (reason, &message), true);
        }
        if moved(deployment, counts) {
            let message = format!("{name} is progressing.");
            self.set("Progressing", "True", ("ReplicaSetUpdated", &message), true);
        }
        self.deadline(deadline, &name)
    }

    /// Whether the condition is about another set than this.
    fn names_another(&self, name: &str) -> bool {
        let message = self.find("Progressing").and_then(|c| c.str_at(&["message"]));
        !message.unwrap_or_default().starts_with(name)
    }

    fn deadline(&mut self, seconds: i64, name: &str) -> Option<Duration> {
        let condition = self.find("Progressing")?;
        if condition["reason"] == "ProgressDeadlineExceeded"
            || condition["reason"] == "NewReplicaSetAvailable"
        {
            return None;
        }
        let since = condition.str_at(&["lastUpdateTime"]).and_then(parse_time)?;
        let gone = Duration::try_from(self.now.duration_since(since)).unwrap_or_default();
        let left = Duration::from_secs(seconds.unsigned_abs()).checked_sub(gone);
        match left.filter(|left| !left.is_zero()) {
            Some(left) => Some(left + Duration::from_secs(1)),
            None => {
                let message = format!("{name} has timed out progressing.");
                self.set("Progressing", "False", ("ProgressDeadlineExceeded", &message), true);
                None
            }
        }
    }
}

/// Whether the counters show more of the new and less of the old than the stored status.
fn moved(deployment: &Value, counts: &Counts) -> bool {
    let old = |field: &str| deployment.i64_at(&["status", field]).unwrap_or_default();
    let old_of_old = old("replicas") - old("updatedReplicas");
    counts.updated > old("updatedReplicas")
        || counts.replicas - counts.updated < old_of_old
        || counts.ready > old("readyReplicas")
        || counts.available > old("availableReplicas")
}

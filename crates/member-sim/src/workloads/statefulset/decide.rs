//! Decides what a StatefulSet does next and how it stands.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::int_or_string::{Rounding, scaled_value};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

use super::identity::ordinal_of;
use crate::workloads::pods::Pod;
use crate::workloads::revision::REVISION_HASH;

/// What is known about a set.
pub(super) struct Known<'a> {
    pub(super) set: &'a Value,
    pub(super) pods: &'a [Pod],
    pub(super) current: &'a str,
    pub(super) update: &'a str,
    pub(super) collisions: i64,
    pub(super) now: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Ordinals to make, with the revision they get.
    pub(super) create: Vec<(i64, String)>,
    pub(super) delete: Vec<Pod>,
    pub(super) status: Value,
    pub(super) recheck_in: Option<Duration>,
}

pub(super) fn revision_of(pod: &Pod) -> &str {
    pod.label(REVISION_HASH).unwrap_or_default()
}

/// The ordinals a set should have.
pub(super) fn range_of(set: &Value) -> Range<i64> {
    let start = set.i64_at(&["spec", "ordinals", "start"]).unwrap_or_default();
    start..start + set.i64_at(&["spec", "replicas"]).unwrap_or(1)
}

fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status().phase == "Running" && pod.is_ready()
}

pub(super) fn decide(known: &Known<'_>) -> Plan {
    let mut plan = Plan { status: status_of(known), ..Plan::default() };
    plan.recheck_in = next_available(known);
    if known.set.is_being_deleted() {
        return plan;
    }
    let mut by_ordinal: BTreeMap<i64, &Pod> = BTreeMap::new();
    for pod in known.pods {
        if let Some(ordinal) = ordinal_of(known.set.name(), pod.name()) {
            by_ordinal.insert(ordinal, pod);
        }
    }
    let _done = grow(known, &by_ordinal, &mut plan)
        && shrink(known, &by_ordinal, &mut plan)
        && roll(known, &by_ordinal, &mut plan);
    plan
}

fn min_ready(known: &Known<'_>) -> i64 {
    known.set.i64_at(&["spec", "minReadySeconds"]).unwrap_or_default()
}

fn is_ordered(known: &Known<'_>) -> bool {
    known.set.str_at(&["spec", "podManagementPolicy"]) != Some("Parallel")
}

fn is_available(known: &Known<'_>, pod: &Pod) -> bool {
    is_running_and_ready(pod) && pod.is_available(min_ready(known), known.now)
}

/// Makes what is missing and replaces what has ended. Returns whether to go on.
fn grow(known: &Known<'_>, pods: &BTreeMap<i64, &Pod>, plan: &mut Plan) -> bool {
    let ordered = is_ordered(known);
    for ordinal in range_of(known.set) {
        let Some(pod) = pods.get(&ordinal) else {
            plan.create.push((ordinal, revision_for(known, ordinal).to_owned()));
            if ordered {
                return false;
            }
            continue;
        };
        if pod.is_finished() && !pod.is_terminating() {
            // It is made again once it is gone.
            plan.delete.push((*pod).clone());
            if ordered {
                return false;
            }
            continue;
        }
        if ordered && (pod.is_terminating() || !is_available(known, pod)) {
            return false;
        }
    }
    true
}

/// Takes away what is beyond the ordinals, highest first.
fn shrink(known: &Known<'_>, pods: &BTreeMap<i64, &Pod>, plan: &mut Plan) -> bool {
    let (wanted, ordered) = (range_of(known.set), is_ordered(known));
    // The lowest unhealthy one may go although it is unhealthy: waiting would not end.
    let unhealthy = |pod: &Pod| !is_running_and_ready(pod) || pod.is_terminating();
    let first_unhealthy = pods.iter().find(|(_, pod)| unhealthy(pod)).map(|(ordinal, _)| *ordinal);
    let mut surplus = pods.iter().rev().filter(|(ordinal, _)| !wanted.contains(ordinal)).peekable();
    let all_gone = surplus.peek().is_none();
    for (ordinal, pod) in surplus {
        if pod.is_terminating() {
            if ordered {
                return false;
            }
            continue;
        }
        if ordered && !is_running_and_ready(pod) && first_unhealthy != Some(*ordinal) {
            return false;
        }
        plan.delete.push((*pod).clone());
        if ordered {
            return false;
        }
    }
    all_gone || !ordered
}

/// Replaces pods of older templates, highest first, as few at a time as allowed.
fn roll(known: &Known<'_>, pods: &BTreeMap<i64, &Pod>, plan: &mut Plan) -> bool {
    if known.set.str_at(&["spec", "updateStrategy", "type"]) == Some("OnDelete") {
        return true;
    }
    let wanted = range_of(known.set);
    let from = wanted.start + partition(known);
    let replicas = wanted.end - wanted.start;
    let limit = known.set.at(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
    let limit = limit.and_then(|limit| scaled_value(limit, replicas, Rounding::Up).ok());
    let limit = limit.unwrap_or(1).max(1);
    let mut unavailable = 0;
    for ordinal in (from..wanted.end).rev() {
        let Some(pod) = pods.get(&ordinal) else {
            unavailable += 1;
            continue;
        };
        if unavailable >= limit {
            return false;
        }
        if revision_of(pod) != known.update && !pod.is_terminating() {
            plan.delete.push((*pod).clone());
            unavailable += 1;
        } else if pod.is_terminating() || !is_available(known, pod) {
            unavailable += 1;
        }
    }
    unavailable == 0
}

fn partition(known: &Known<'_>) -> i64 {
    let partition = ["spec", "updateStrategy", "rollingUpdate", "partition"];
    known.set.i64_at(&partition).unwrap_or_default()
}

/// Ordinals below the partition keep the template they had.
fn revision_for<'a>(known: &Known<'a>, ordinal: i64) -> &'a str {
    let rolling = known.set.str_at(&["spec", "updateStrategy", "type"]) != Some("OnDelete");
    if rolling && ordinal < range_of(known.set).start + partition(known) {
        known.current
    } else {
        known.update
    }
}

fn next_available(known: &Known<'_>) -> Option<Duration> {
    let waits = known.pods.iter().filter_map(|p| p.until_available(min_ready(known), known.now));
    waits.filter(|wait| !wait.is_zero()).min()
}

fn status_of(known: &Known<'_>) -> Value {
    let count = |which: &dyn Fn(&Pod) -> bool| -> i64 {
        known.pods.iter().filter(|pod| which(pod)).count().try_into().unwrap_or(i64::MAX)
    };
    let at =
        |revision: &str| count(&|pod: &Pod| !pod.is_terminating() && revision_of(pod) == revision);
    let replicas = count(&|_| true);
    let ready = count(&is_running_and_ready);
    let (mut current, updated) = (at(known.current), at(known.update));
    let mut current_revision = known.current;
    let rolling = known.set.str_at(&["spec", "updateStrategy", "type"]) != Some("OnDelete");
    if rolling && updated == replicas && ready == replicas {
        (current, current_revision) = (updated, known.update);
    }
    let mut status = json!({
        "observedGeneration": known.set.i64_at(&["metadata", "generation"]).unwrap_or_default(),
        "replicas": replicas,
        "availableReplicas": count(&|pod: &Pod| is_available(known, pod)),
        "currentRevision": current_revision,
        "updateRevision": known.update,
        "collisionCount": known.collisions,
    });
    // Compat: these are left out when zero, as Kubernetes writes them.
    let optional =
        [("readyReplicas", ready), ("currentReplicas", current), ("updatedReplicas", updated)];
    for (field, number) in optional {
        if number > 0 {
            status[field] = number.into();
        }
    }
    // What others say about the set stays.
    if let Some(conditions) = known.set.at(&["status", "conditions"]) {
        status["conditions"] = conditions.clone();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(extra: &Value) -> Value {
        let mut set = json!({"metadata": {"name": "web", "generation": 2}, "spec": {"replicas": 3,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}});
        for (key, value) in extra.as_object().into_iter().flatten() {
            set["spec"][key] = value.clone();
        }
        set
    }

    /// `web-0:new` is ready, `web-0:new!` is not, `web-0:new-` is being deleted, `…x` has failed.
    fn pod(text: &str) -> Pod {
        let (name, rest) = text.split_once(':').unwrap();
        let revision = rest.trim_end_matches(['!', '-', 'x']);
        let ready = if rest.ends_with('!') || rest.ends_with('x') { "False" } else { "True" };
        let phase = if rest.ends_with('x') { "Failed" } else { "Running" };
        let mut pod = json!({"metadata": {"name": name, "uid": name,
            "labels": {REVISION_HASH: revision}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}});
        if rest.ends_with('-') {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Pod::from_value(&pod)
    }

    /// What a set with these pods does: `+2@new` makes, `-web-1` deletes.
    fn next(extra: Value, pods: &[&str]) -> String {
        let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
        let (set, now) = (set(&extra), Timestamp::UNIX_EPOCH);
        let known =
            Known { set: &set, pods: &pods, current: "old", update: "new", collisions: 0, now };
        let plan = decide(&known);
        let made = plan.create.iter().map(|(ordinal, revision)| format!("+{ordinal}@{revision}"));
        let gone = plan.delete.iter().map(|pod| format!("-{}", pod.name()));
        made.chain(gone).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_come_and_go_in_order() {
        let parallel = json!({"podManagementPolicy": "Parallel"});
        let cases: [(Value, &[&str], &str); 12] = [
            (json!({}), &[], "+0@new"),
            (json!({}), &["web-0:new!"], ""),
            (json!({}), &["web-0:new"], "+1@new"),
            (json!({}), &["web-0:new", "web-1:new-"], ""),
            (json!({}), &["web-0:new", "web-1:newx"], "-web-1"),
            (parallel.clone(), &["web-1:new!"], "+0@new +2@new"),
            (json!({"replicas": 1}), &["web-0:new", "web-1:new", "web-2:new"], "-web-2"),
            (json!({"replicas": 1}), &["web-0:new", "web-1:new", "web-2:new-"], ""),
            (json!({"replicas": 0}), &["web-0:new!", "web-1:new"], "-web-1"),
            (json!({"replicas": 0}), &["web-0:new!"], "-web-0"),
            (json!({"replicas": 1, "ordinals": {"start": 5}}), &["web-0:new"], "+5@new"),
            (
                json!({"replicas": 1, "podManagementPolicy": "Parallel"}),
                &["web-0:new", "web-1:new", "web-2:new"],
                "-web-2 -web-1",
            ),
        ];
        for (extra, pods, expected) in cases {
            assert_eq!(next(extra.clone(), pods), expected, "{extra} {pods:?}");
        }
    }

    #[test]
    fn a_new_template_rolls_from_the_top_down_to_the_partition() {
        let at = |partition: i64| {
            json!({"updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"partition": partition}}})
        };
        let cases: [(Value, &[&str], &str); 7] = [
            (at(0), &["web-0:old", "web-1:old", "web-2:old"], "-web-2"),
            (at(0), &["web-0:old", "web-1:old", "web-2:new!"], ""),
            (at(0), &["web-0:old", "web-1:old", "web-2:new"], "-web-1"),
            (at(2), &["web-0:old", "web-1:old", "web-2:new"], ""),
            (at(2), &["web-1:old", "web-2:new"], "+0@old"),
            (at(3), &["web-0:old", "web-1:old"], "+2@old"),
            (
                json!({"updateStrategy": {"type": "OnDelete"}}),
                &["web-0:old", "web-1:old", "web-2:old"],
                "",
            ),
        ];
        for (extra, pods, expected) in cases {
            assert_eq!(next(extra.clone(), pods), expected, "{extra} {pods:?}");
        }
        let two = json!({"updateStrategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 2}}});
        assert_eq!(next(two, &["web-0:old", "web-1:old", "web-2:old"]), "-web-2 -web-1");
    }

    #[test]
    fn the_update_is_complete_when_all_pods_have_it() {
        let set = set(&json!({}));
        let pods: Vec<_> = ["web-0:new", "web-1:new", "web-2:new"].map(pod).into();
        let now = Timestamp::UNIX_EPOCH;
        let known =
            Known { set: &set, pods: &pods, current: "old", update: "new", collisions: 0, now };
        let status = decide(&known).status;
        assert_eq!(
            status,
            json!({"observedGeneration": 2, "replicas": 3, "readyReplicas": 3,
                "availableReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3,
                "currentRevision": "new", "updateRevision": "new", "collisionCount": 0})
        );
    }
}

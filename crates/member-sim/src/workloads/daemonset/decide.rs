//! Decides which nodes get a daemon pod, which lose one, and how the set stands.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::int_or_string::{Rounding, scaled_value};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

use super::eligibility::Eligibility;
use crate::workloads::pods::Pod;
use crate::workloads::revision::REVISION_HASH;

/// A pod that ended is replaced no sooner than this after it was made.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(1);

pub(super) struct Known<'a> {
    pub(super) set: &'a Value,
    pub(super) nodes: &'a [(String, Eligibility)],
    pub(super) pods: &'a [Pod],
    /// The hash of the present template.
    pub(super) hash: &'a str,
    pub(super) collisions: i64,
    pub(super) now: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Pod>,
    /// Those of `delete` that have ended.
    pub(super) failed: Vec<Pod>,
    pub(super) status: Value,
    pub(super) recheck_in: Option<Duration>,
}

impl Plan {
    fn recheck(&mut self, after: Duration) {
        self.recheck_in = Some(self.recheck_in.map_or(after, |soonest| soonest.min(after)));
    }
}

/// The node a pod runs on, or is meant for.
pub(super) fn node_of(pod: &Pod) -> String {
    if !pod.spec().node_name.is_empty() {
        return pod.spec().node_name.clone();
    }
    let required =
        ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let value = pod.object.value();
    let terms = value.at(&required).map(|selector| selector.list_at(&["nodeSelectorTerms"]));
    let mut fields = terms.into_iter().flatten().flat_map(|term| term.list_at(&["matchFields"]));
    let name = fields.find(|field| field.str_at(&["key"]) == Some("metadata.name"));
    let name = name.and_then(|field| field.list_at(&["values"]).first()).and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}

pub(super) fn decide(known: &Known<'_>) -> Plan {
    let mut by_node: BTreeMap<String, Vec<&Pod>> = BTreeMap::new();
    for pod in known.pods {
        by_node.entry(node_of(pod)).or_default().push(pod);
    }
    let mut plan = Plan::default();
    for (node, eligibility) in known.nodes {
        let pods = by_node.get(node).map_or(&[][..], Vec::as_slice);
        manage_node(known, node, *eligibility, pods, &mut plan);
    }
    let gone = |node: &str| !known.nodes.iter().any(|(name, _)| name == node);
    for (node, pods) in &by_node {
        // Pods of nodes that are gone belong to the pod collector once they were bound.
        let unbound = pods.iter().filter(|pod| pod.spec().node_name.is_empty());
        if gone(node) {
            plan.delete.extend(unbound.filter(|pod| pod.is_active()).map(|pod| (*pod).clone()));
        }
    }
    if known.set.str_at(&["spec", "updateStrategy", "type"]) != Some("OnDelete") {
        roll(known, &by_node, &mut plan);
    }
    plan.status = status_of(known, &by_node);
    for pod in known.pods {
        if let Some(wait) = pod.until_available(min_ready(known), known.now)
            && !wait.is_zero()
        {
            plan.recheck(wait);
        }
    }
    plan
}

fn manage_node(
    known: &Known<'_>,
    node: &str,
    eligibility: Eligibility,
    pods: &[&Pod],
    plan: &mut Plan,
) {
    let active: Vec<_> = pods.iter().filter(|pod| !pod.is_terminating()).collect();
    if eligibility.run && pods.is_empty() {
        return plan.create.push(node.to_owned());
    }
    if !eligibility.stay {
        return plan.delete.extend(active.into_iter().map(|pod| (*pod).clone()));
    }
    let mut running = Vec::new();
    for pod in active {
        if !pod.is_finished() {
            running.push(pod);
            continue;
        }
        let due = pod.created().and_then(|created| created.checked_add(RETRY_AFTER).ok());
        match due.filter(|due| *due > known.now) {
            Some(due) => {
                plan.recheck(due.duration_since(known.now).try_into().unwrap_or_default());
            }
            None => {
                plan.failed.push((*pod).clone());
                plan.delete.push((*pod).clone());
            }
        }
    }
    // With a surge, old and new stand side by side for a while.
    let keep = if surge_limit(known) > 0 { 2 } else { 1 };
    running.sort_by_key(|pod| (pod.created(), pod.name().to_owned()));
    plan.delete.extend(running.into_iter().skip(keep).map(|pod| (*pod).clone()));
}

fn min_ready(known: &Known<'_>) -> i64 {
    known.set.i64_at(&["spec", "minReadySeconds"]).unwrap_or_default()
}

fn desired(known: &Known<'_>) -> i64 {
    count(known.nodes.iter().filter(|(_, node)| node.run).count())
}

fn limit(known: &Known<'_>, field: &str) -> i64 {
    let limit = known.set.at(&["spec", "updateStrategy", "rollingUpdate", field]);
    limit.and_then(|l| scaled_value(l, desired(known), Rounding::Up).ok()).unwrap_or_default()
}

fn surge_limit(known: &Known<'_>) -> i64 {
    limit(known, "maxSurge")
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Replaces pods of older templates, as few at a time as allowed.
fn roll(known: &Known<'_>, by_node: &BTreeMap<String, Vec<&Pod>>, plan: &mut Plan) {
    let surge = surge_limit(known);
    let spare = if surge > 0 { 0 } else { limit(known, "maxUnavailable").max(1) };
    let is_new = |pod: &&&Pod| pod.label(REVISION_HASH) == Some(known.hash);
    let available = |pod: &Pod| pod.is_available(min_ready(known), known.now);
    let (mut unavailable, mut surging) = (0, 0);
    let (mut broken, mut candidates, mut additions) = (Vec::new(), Vec::new(), Vec::new());
    for (node, _) in known.nodes.iter().filter(|(_, eligibility)| eligibility.run) {
        let pods = by_node.get(node).map_or(&[][..], Vec::as_slice);
        let living = || pods.iter().filter(|pod| pod.is_active());
        let new = living().find(|pod| is_new(pod));
        let old = living().find(|pod| !is_new(pod));
        match (new, old) {
            (Some(new), Some(old)) if available(new) => broken.push((*old).clone()),
            (Some(_), Some(_)) => surging += 1,
            (Some(new), None) => unavailable += i64::from(!available(new)),
            (None, None) => unavailable += 1,
            (None, Some(old)) if surge > 0 => {
                additions.push((available(old), node.clone()));
            }
            (None, Some(old)) if available(old) => candidates.push((*old).clone()),
            (None, Some(old)) => {
                unavailable += 1;
                broken.push((*old).clone());
            }
        }
    }
    let room = usize::try_from((spare - unavailable).max(0)).unwrap_or(0);
    candidates.truncate(room);
    for pod in broken.into_iter().chain(candidates) {
        if !plan.delete.iter().any(|other| other.uid() == pod.uid()) {
            plan.delete.push(pod);
        }
    }
    // Nodes whose old pod does not serve anyway come first.
    additions.sort();
    let room = usize::try_from((surge - surging).max(0)).unwrap_or(0);
    plan.create.extend(additions.into_iter().take(room).map(|(_, node)| node));
}

fn status_of(known: &Known<'_>, by_node: &BTreeMap<String, Vec<&Pod>>) -> Value {
    let (mut scheduled, mut misscheduled, mut ready, mut available, mut updated) = (0, 0, 0, 0, 0);
    for (node, eligibility) in known.nodes {
        let pods = by_node.get(node).map_or(&[][..], Vec::as_slice);
        if !eligibility.run {
            misscheduled += i64::from(!pods.is_empty());
            continue;
        }
        // The oldest pod of a node speaks for it.
        let Some(pod) = pods.iter().min_by_key(|pod| (pod.created(), pod.name())) else { continue };
        scheduled += 1;
        ready += i64::from(pod.is_ready());
        available += i64::from(pod.is_available(min_ready(known), known.now));
        updated += i64::from(pod.label(REVISION_HASH) == Some(known.hash));
    }
    let desired = desired(known);
    let mut status = json!({
        "currentNumberScheduled": scheduled,
        "numberMisscheduled": misscheduled,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
        "observedGeneration": known.set.i64_at(&["metadata", "generation"]).unwrap_or_default(),
    });
    let unavailable = (desired - available).max(0);
    let optional = [
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", unavailable),
        ("collisionCount", known.collisions),
    ];
    for (field, number) in optional {
        if number > 0 {
            status[field] = number.into();
        }
    }
    if let Some(conditions) = known.set.at(&["status", "conditions"]) {
        status["conditions"] = conditions.clone();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `node:hash`, with `!` for a pod that is not ready and `x` for one that failed.
    fn pod(text: &str) -> Pod {
        let (node, rest) = text.split_once(':').unwrap();
        let ready = if rest.ends_with(['!', 'x']) { "False" } else { "True" };
        let phase = if rest.ends_with('x') { "Failed" } else { "Running" };
        Pod::from_value(&json!({
            "metadata": {"name": text.to_lowercase(), "uid": text,
                "creationTimestamp": "1969-01-01T00:00:00Z",
                "labels": {REVISION_HASH: rest.trim_end_matches(['!', 'x'])}},
            "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
        }))
    }

    fn next(strategy: Value, pods: &[&str]) -> String {
        let set = json!({"metadata": {"generation": 1}, "spec": {"updateStrategy":
            {"type": "RollingUpdate", "rollingUpdate": strategy}}});
        let pods: Vec<_> = pods.iter().map(|text| pod(text)).collect();
        let yes = Eligibility { run: true, stay: true };
        let no = Eligibility { run: false, stay: false };
        let nodes: Vec<_> =
            [("a", yes), ("b", yes), ("c", yes), ("z", no)].map(|(n, e)| (n.to_owned(), e)).into();
        let known = Known {
            set: &set,
            nodes: &nodes,
            pods: &pods,
            hash: "new",
            collisions: 0,
            now: Timestamp::UNIX_EPOCH,
        };
        let plan = decide(&known);
        let made = plan.create.iter().map(|node| format!("+{node}"));
        made.chain(plan.delete.iter().map(|pod| format!("-{}", pod.uid())))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn every_eligible_node_has_one_pod() {
        let one = || json!({"maxUnavailable": 1});
        assert_eq!(next(one(), &[]), "+a +b +c");
        assert_eq!(next(one(), &["a:new", "b:new", "c:new"]), "");
        assert_eq!(next(one(), &["a:new", "b:new", "c:new", "z:new"]), "-z:new");
        assert_eq!(next(one(), &["a:new", "b:newx", "c:new"]), "-b:newx");
    }

    #[test]
    fn templates_roll_within_the_limits() {
        let one = || json!({"maxUnavailable": 1});
        assert_eq!(next(one(), &["a:old", "b:old", "c:old"]), "-a:old");
        assert_eq!(next(one(), &["a:new!", "b:old", "c:old"]), "");
        assert_eq!(next(one(), &["a:new", "b:old", "c:old!"]), "-c:old!");
        assert_eq!(
            next(json!({"maxUnavailable": "50%"}), &["a:old", "b:old", "c:old"]),
            "-a:old -b:old"
        );
        let surge = || json!({"maxUnavailable": 0, "maxSurge": 1});
        assert_eq!(next(surge(), &["a:old", "b:old", "c:old"]), "+a");
        assert_eq!(next(surge(), &["a:old", "a:new!", "b:old", "c:old"]), "");
        assert_eq!(next(surge(), &["a:old", "a:new", "b:old", "c:old"]), "+b -a:old");
    }
}

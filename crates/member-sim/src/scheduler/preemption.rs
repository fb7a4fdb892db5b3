//! Room for a pod of higher priority: which pods of which node would have to go. Decides only; the
//! pods are told and deleted by the scheduler.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_runtime::ObjectKey;

use super::affinity::Spread;
use super::fit;
use super::ledger::{Node, Placed, Wanted};
use super::verdict;

/// More nodes than this are not looked at: each costs a copy of it.
const CANDIDATES: usize = 100;

/// A way to make room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Preemption {
    pub(super) node: String,
    pub(super) victims: Vec<Victim>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Victim {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
}

/// Finds the node that loses least: victims of low priority, and few.
pub(super) fn plan(wanted: &Wanted<'_>, nodes: &[&Node], full: bool) -> Option<Preemption> {
    let candidates = nodes.iter().enumerate().filter(|(_, node)| has_lower(wanted, node));
    let ways = candidates.take(CANDIDATES).filter_map(|(place, node)| {
        let victims = victims(wanted, nodes, place, full)?;
        let priorities = || victims.iter().map(|(_, pod)| pod.priority);
        let cost = (priorities().max(), priorities().sum::<i64>(), victims.len());
        let victims = victims
            .into_iter()
            .map(|(uid, pod)| Victim { key: pod.key.clone(), uid: uid.to_string() })
            .collect();
        Some((cost, Preemption { node: node.name.to_string(), victims }))
    });
    // Of equals the first, so that the same cluster always decides the same.
    ways.min_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.node.cmp(&b.node)))
        .map(|(_, preemption)| preemption)
}

fn has_lower(wanted: &Wanted<'_>, node: &Node) -> bool {
    node.pods.values().any(|pod| pod.priority < wanted.priority)
}

/// The pods of one node that have to go, as few as possible; nothing if even all would not do.
fn victims<'n>(
    wanted: &Wanted<'_>,
    nodes: &[&'n Node],
    place: usize,
    full: bool,
) -> Option<Vec<(&'n Arc<str>, &'n Placed)>> {
    let node = *nodes.get(place)?;
    let mut lower: Vec<(&Arc<str>, &Placed)> =
        node.pods.iter().filter(|(_, pod)| pod.priority < wanted.priority).collect();
    // The most important ones are the first that may stay.
    lower.sort_by(|(one, a), (other, b)| b.priority.cmp(&a.priority).then_with(|| one.cmp(other)));
    let mut emptied = node.clone();
    for (uid, _) in &lower {
        emptied.take_out(uid);
    }
    if !fits(wanted, nodes, place, &emptied, full) {
        return None;
    }
    let mut victims = Vec::new();
    for (uid, pod) in lower {
        emptied.put_back(uid, pod);
        if !fits(wanted, nodes, place, &emptied, full) {
            emptied.take_out(uid);
            victims.push((uid, pod));
        }
    }
    Some(victims)
}

fn fits(wanted: &Wanted<'_>, nodes: &[&Node], place: usize, changed: &Node, full: bool) -> bool {
    let mut nodes = nodes.to_vec();
    nodes[place] = changed;
    let spread = Spread::of(wanted, &nodes);
    verdict::check(wanted, changed, &nodes, &spread, full).is_ok()
}

impl Node {
    fn take_out(&mut self, uid: &str) {
        if let Some(placed) = self.pods.remove(uid) {
            fit::subtract(&mut self.used, &placed.requests);
        }
    }

    fn put_back(&mut self, uid: &Arc<str>, pod: &Placed) {
        fit::add(&mut self.used, &pod.requests);
        self.pods.insert(uid.clone(), pod.clone());
    }
}

/// The condition of a pod that has to go.
pub(super) fn disruption(now: &str, generation: Option<i64>) -> Value {
    karmada_apimachinery::json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        "lastProbeTime": null, "lastTransitionTime": now, "observedGeneration": generation,
    })
}

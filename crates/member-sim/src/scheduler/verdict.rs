//! Whether a node takes a pod, how gladly, and how refusals are put into words.

use std::collections::BTreeMap;

use super::affinity::{self, Spread};
use super::ledger::{Node, Wanted};

/// Why one node takes a pod not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reasons: Vec<String>,
    /// Whether pods leaving the node could change it.
    resolvable: bool,
    /// Whether pods of lower priority are there to leave.
    victims: bool,
}

impl Refusal {
    /// Whether the pod could take the place of others.
    pub(super) fn has_victims(&self) -> bool {
        self.resolvable && self.victims
    }
}

pub(super) fn check(
    wanted: &Wanted<'_>,
    node: &Node,
    nodes: &[&Node],
    spread: &Spread,
    full: bool,
) -> Result<(), Refusal> {
    let never = |reason: &str| {
        Err(Refusal { reasons: vec![reason.to_owned()], resolvable: false, victims: false })
    };
    let has_victims = || node.pods.values().any(|pod| pod.priority < wanted.priority);
    let now = |reasons: Vec<String>| {
        Err(Refusal { reasons, resolvable: true, victims: wanted.preempts && has_victims() })
    };
    let one = |reason: &str| vec![reason.to_owned()];
    if node.unschedulable && !tolerates_unschedulable(wanted) {
        return never("node(s) were unschedulable");
    }
    if !affinity::tolerates_all(wanted.pod, node) {
        return never("node(s) had untolerated taint(s)");
    }
    if !affinity::matches_node(wanted.pod, node) {
        return never("node(s) didn't match Pod's node affinity/selector");
    }
    let taken = |port: &(String, i64)| node.pods.values().any(|pod| pod.host_ports.contains(port));
    if wanted.host_ports.iter().any(taken) {
        return now(one("node(s) didn't have free ports for the requested pod ports"));
    }
    let lacking = lacking(wanted, node, full);
    if !lacking.is_empty() {
        return now(lacking);
    }
    if !spread.allows(node) {
        return now(one("node(s) didn't match pod topology spread constraints"));
    }
    if !affinity::has_company(wanted, node, nodes) {
        return never("node(s) didn't match pod affinity rules");
    }
    if !affinity::avoids_all(wanted, node, nodes) {
        return now(one("node(s) didn't match pod anti-affinity rules"));
    }
    if !affinity::is_welcome(wanted, node, nodes) {
        return now(one("node(s) didn't satisfy existing pods anti-affinity rules"));
    }
    Ok(())
}

fn tolerates_unschedulable(wanted: &Wanted<'_>) -> bool {
    use karmada_apimachinery::json;
    use karmada_apimachinery::object::ObjectExt as _;
    let taint = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let tolerations = wanted.pod.list_at(&["spec", "tolerations"]);
    tolerations.iter().any(|toleration| affinity::tolerates(toleration, &taint))
}

fn lacking(wanted: &Wanted<'_>, node: &Node, full: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    let places = node.allocatable.get("pods").copied().unwrap_or_default();
    let (others, kept) = node.kept(wanted);
    if full || i64::try_from(node.pods.len()).unwrap_or(i64::MAX).saturating_add(others) >= places {
        reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in &wanted.requests {
        let has = node.allocatable.get(name).copied().unwrap_or_default();
        let used = node.used.get(name).copied().unwrap_or_default()
            + kept.get(name).copied().unwrap_or_default();
        if *amount > has - used {
            reasons.push(format!("Insufficient {name}"));
        }
    }
    reasons
}

/// The share of the node that stays free, in thousandths: pods go where most room is.
pub(super) fn score(wanted: &Wanted<'_>, node: &Node) -> i64 {
    let free = |name: &str, least: i64| {
        let has = node.allocatable.get(name).copied().unwrap_or_default().max(1);
        let used = node.used.get(name).copied().unwrap_or_default();
        let wants = wanted.requests.get(name).copied().unwrap_or(least);
        (has - used - wants).max(0).saturating_mul(1000) / has
    };
    let places = node.allocatable.get("pods").copied().unwrap_or_default().max(1);
    let taken = i64::try_from(node.pods.len()).unwrap_or(i64::MAX);
    let room = (places - taken).max(0).saturating_mul(1000) / places;
    free("cpu", 0) + free("memory", 0) + room
}

/// The sentence people look for in events and conditions.
pub(super) fn explain(wanted: &Wanted<'_>, nodes: usize, refusals: &[Refusal]) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refusals.iter().flat_map(|refusal| &refusal.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let told = |counts: &BTreeMap<&str, usize>| {
        let mut words: Vec<String> =
            counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        words.sort();
        words.join(", ")
    };
    let mut preemption: BTreeMap<&str, usize> = BTreeMap::new();
    for refusal in refusals {
        let why = match (refusal.resolvable, refusal.victims) {
            (false, _) => "Preemption is not helpful for scheduling",
            (true, false) => "No preemption victims found for incoming pod",
            (true, true) => continue,
        };
        *preemption.entry(why).or_default() += 1;
    }
    let mut message = format!("0/{nodes} nodes are available: {}.", told(&counts));
    if !wanted.preempts {
        message.push_str(" preemption: not eligible due to preemptionPolicy=Never.");
    } else if !preemption.is_empty() {
        let why = told(&preemption);
        message.push_str(&format!(
            " no new claims to deallocate, preemption: 0/{nodes} nodes are available: {why}."
        ));
    }
    message
}

/// The same where the reason is the pod's own and no node's.
pub(super) fn explain_everywhere(reason: &str, nodes: usize) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    format!(
        "0/{nodes} nodes are available: {reason}. no new claims to deallocate, preemption: \
         0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    )
}

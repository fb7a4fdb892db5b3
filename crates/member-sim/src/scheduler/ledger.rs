//! The nodes and what is on them, kept up to date by every change instead of being counted anew for
//! every pod.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::pairs::Pairs;
use karmada_client::Object;
use karmada_runtime::ObjectKey;

use super::affinity;
use super::fit::{self, Amounts};
use super::preemption::{self, Preemption};
use super::verdict::{self, Refusal};
use crate::workloads::pods::Pod;

#[derive(Default)]
pub(crate) struct Ledger {
    nodes: BTreeMap<String, Node>,
    /// Where the pods are, by uid.
    places: HashMap<Arc<str>, Arc<str>>,
    requests: Common<Amounts>,
}

#[derive(Default, Clone)]
pub(super) struct Node {
    /// Pods may be seen before their node is.
    pub(super) known: bool,
    pub(super) name: Arc<str>,
    pub(super) labels: Pairs,
    pub(super) taints: Vec<Value>,
    pub(super) unschedulable: bool,
    pub(super) allocatable: Amounts,
    pub(super) used: Amounts,
    pub(super) pods: HashMap<Arc<str>, Placed>,
    /// How many of them keep others away. Few do, so that nodes without one need not be searched.
    pub(super) averse: usize,
    /// Pods that others were asked to leave for, by uid: the room is theirs.
    nominated: HashMap<String, (i64, Amounts)>,
}

/// A pod on a node.
#[derive(Clone)]
pub(super) struct Placed {
    pub(super) key: ObjectKey,
    /// It leaves already.
    pub(super) terminating: bool,
    pub(super) labels: Pairs,
    pub(super) requests: Arc<Amounts>,
    pub(super) priority: i64,
    pub(super) host_ports: Vec<(String, i64)>,
    pub(super) anti_affinity: Vec<Value>,
}

/// Values many pods have in common, as those of one template do.
struct Common<T>(VecDeque<Arc<T>>);

impl<T> Default for Common<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Clone + PartialEq> Common<T> {
    /// How many are remembered: those of the templates that are being rolled out.
    const KNOWN: usize = 32;

    fn share(&mut self, value: &T) -> Arc<T> {
        if let Some(known) = self.0.iter().find(|known| ***known == *value) {
            return known.clone();
        }
        let value = Arc::new(value.clone());
        self.0.truncate(Self::KNOWN - 1);
        self.0.push_front(value.clone());
        value
    }
}

/// Why a pod has no place, and how it could get one.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) why: String,
    pub(super) preemption: Option<Preemption>,
}

/// What a change of a pod means for scheduling.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It has no node yet.
    Unplaced,
    Placed,
    /// It needs its place no longer.
    Freed,
}

impl Ledger {
    /// Notes a node; whether something changed that pods are placed by.
    pub(super) fn apply_node(&mut self, object: &Object) -> bool {
        let value = object.content();
        let node = self.nodes.entry(object.name().to_owned()).or_default();
        let taints = value.list_at(&["spec", "taints"]).to_vec();
        let unschedulable = value.bool_at(&["spec", "unschedulable"]) == Some(true);
        let allocatable = fit::amounts(value.at(&["status", "allocatable"]));
        let labels = object.meta().labels.clone();
        let same = node.known
            && node.taints == taints
            && node.unschedulable == unschedulable
            && node.allocatable == allocatable
            && node.labels == labels;
        node.known = true;
        node.name = object.name().into();
        node.taints = taints;
        node.unschedulable = unschedulable;
        node.allocatable = allocatable;
        node.labels = labels;
        !same
    }

    pub(super) fn remove_node(&mut self, name: &str) -> bool {
        match self.nodes.get_mut(name) {
            Some(node) if !node.pods.is_empty() => {
                node.known = false;
                true
            }
            _ => self.nodes.remove(name).is_some(),
        }
    }

    pub(super) fn apply_pod(&mut self, object: &Arc<Object>) -> Taken {
        let pod = Pod::of(object);
        if pod.is_finished() {
            return if self.remove_pod(object.uid()) { Taken::Freed } else { Taken::Placed };
        }
        if pod.spec().node_name.is_empty() {
            return Taken::Unplaced;
        }
        let node = pod.spec().node_name.as_str();
        if self.places.get(object.uid()).is_none_or(|place| **place != *node) {
            self.remove_pod(object.uid());
            self.put(object, &object.content(), node);
        }
        let node = self.nodes.get_mut(node);
        if let Some(placed) = node.and_then(|node| node.pods.get_mut(object.uid())) {
            placed.terminating = object.is_being_deleted();
        }
        Taken::Placed
    }

    fn put(&mut self, object: &Object, pod: &Value, node: &str) {
        self.denominate(object.uid());
        let placed = Placed {
            key: ObjectKey::of(object),
            terminating: object.is_being_deleted(),
            labels: object.meta().labels.clone(),
            requests: self.requests.share(&fit::requests(pod)),
            priority: pod.i64_at(&["spec", "priority"]).unwrap_or_default(),
            host_ports: host_ports(pod),
            anti_affinity: affinity::required_terms(pod, "podAntiAffinity").to_vec(),
        };
        let entry = self.nodes.entry(node.to_owned()).or_default();
        fit::add(&mut entry.used, &placed.requests);
        entry.averse += usize::from(!placed.anti_affinity.is_empty());
        if entry.name.is_empty() {
            entry.name = node.into();
        }
        let uid: Arc<str> = object.uid().into();
        entry.pods.insert(uid.clone(), placed);
        self.places.insert(uid, entry.name.clone());
    }

    fn denominate(&mut self, uid: &str) {
        self.nodes.values_mut().for_each(|node| drop(node.nominated.remove(uid)));
    }

    /// Forgets a pod that waits; whether room was kept for it.
    pub(super) fn forget(&mut self, uid: &str) -> bool {
        let kept = self.nodes.values().any(|node| node.nominated.contains_key(uid));
        self.denominate(uid);
        kept
    }

    /// Forgets a pod; whether it had a place.
    pub(super) fn remove_pod(&mut self, uid: &str) -> bool {
        let Some(node) = self.places.remove(uid).and_then(|name| self.nodes.get_mut(&*name)) else {
            return false;
        };
        if let Some(placed) = node.pods.remove(uid) {
            fit::subtract(&mut node.used, &placed.requests);
            node.averse -= usize::from(!placed.anti_affinity.is_empty());
        }
        true
    }

    /// What a pod is told that no node would take, for a reason that lies in no node.
    pub(super) fn refuse_everywhere(&self, reason: &str) -> Refused {
        let nodes = self.nodes.values().filter(|node| node.known).count();
        Refused { why: verdict::explain_everywhere(reason, nodes), preemption: None }
    }

    /// Chooses a node and notes the pod there, or says why there is none.
    pub(super) fn place(
        &mut self,
        object: &Object,
        pod: &Value,
        full: bool,
    ) -> Result<String, Refused> {
        let wanted = Wanted::of(object, pod);
        let nodes: Vec<&Node> = self.nodes.values().filter(|node| node.known).collect();
        let spread = affinity::Spread::of(&wanted, &nodes);
        let mut refusals: Vec<Refusal> = Vec::new();
        let mut best: Option<(i64, &Node)> = None;
        for node in &nodes {
            match verdict::check(&wanted, node, &nodes, &spread, full) {
                Err(refusal) => refusals.push(refusal),
                Ok(()) => {
                    let score = verdict::score(&wanted, node);
                    if best.is_none_or(|(top, _)| score > top) {
                        best = Some((score, node));
                    }
                }
            }
        }
        if let Some(name) = best.map(|(_, node)| node.name.clone()) {
            self.put(object, pod, &name);
            return Ok(name.to_string());
        }
        let why = verdict::explain(&wanted, nodes.len(), &refusals);
        let can_preempt = wanted.preempts && refusals.iter().any(Refusal::has_victims);
        if !can_preempt || self.is_awaited(&wanted) {
            return Err(Refused { why, preemption: None });
        }
        let preemption = preemption::plan(&wanted, &nodes, full);
        if let Some(Preemption { node, .. }) = &preemption {
            let room = (wanted.priority, wanted.requests.clone());
            self.denominate(object.uid());
            if let Some(node) = self.nodes.get_mut(node) {
                node.nominated.insert(object.uid().to_owned(), room);
            }
        }
        Err(Refused { why, preemption })
    }

    /// Whether somebody leaves for this pod already.
    fn is_awaited(&self, wanted: &Wanted<'_>) -> bool {
        let mut nominated =
            self.nodes.values().filter(|node| node.nominated.contains_key(wanted.uid));
        let leaves = |pod: &Placed| pod.terminating && pod.priority < wanted.priority;
        nominated.any(|node| node.pods.values().any(leaves))
    }
}

impl Node {
    /// Room kept for other pods that go first: how many, and how much.
    pub(super) fn kept(&self, wanted: &Wanted<'_>) -> (i64, Amounts) {
        let mut kept = (0, Amounts::new());
        for (uid, (priority, requests)) in &self.nominated {
            if uid != wanted.uid && *priority >= wanted.priority {
                kept.0 += 1;
                fit::add(&mut kept.1, requests);
            }
        }
        kept
    }
}

/// A pod that looks for a node.
pub(super) struct Wanted<'a> {
    pub(super) uid: &'a str,
    pub(super) pod: &'a Value,
    pub(super) namespace: &'a str,
    pub(super) labels: &'a Pairs,
    pub(super) requests: Amounts,
    pub(super) priority: i64,
    pub(super) host_ports: Vec<(String, i64)>,
    pub(super) preempts: bool,
}

impl<'a> Wanted<'a> {
    fn of(object: &'a Object, pod: &'a Value) -> Self {
        Self {
            uid: object.uid(),
            pod,
            namespace: object.namespace(),
            labels: &object.meta().labels,
            requests: fit::requests(pod),
            priority: pod.i64_at(&["spec", "priority"]).unwrap_or_default(),
            host_ports: host_ports(pod),
            preempts: pod.str_at(&["spec", "preemptionPolicy"]) != Some("Never"),
        }
    }
}

fn host_ports(pod: &Value) -> Vec<(String, i64)> {
    let containers = pod.list_at(&["spec", "containers"]).iter();
    let ports = containers.flat_map(|container| container.list_at(&["ports"]));
    ports
        .filter_map(|port| {
            let number = port.i64_at(&["hostPort"]).filter(|number| *number > 0)?;
            Some((port.str_at(&["protocol"]).unwrap_or("TCP").to_owned(), number))
        })
        .collect()
}

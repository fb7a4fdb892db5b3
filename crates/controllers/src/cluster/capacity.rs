//! Capacity and use of a cluster, kept up to date by what changes in it: every node and pod is
//! counted once, when it comes, changes or goes, however many there are.

use std::collections::{BTreeMap, HashMap};

use karmada_api::cluster::{AllocatableModeling, NodeSummary, ResourceModel, ResourceSummary};
use karmada_api::core::{Quantity, ResourceList};
use karmada_apimachinery::quantity::Format;
use karmada_client::Object;
use karmada_runtime::{Change, ObjectKey};
use serde::Deserialize;

use super::modeling;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
pub(super) const PODS: &str = "pods";

/// What is read of a node.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Node {
    status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatus {
    allocatable: ResourceList,
    conditions: Vec<NodeCondition>,
}

#[derive(Deserialize)]
struct NodeCondition {
    r#type: String,
    status: String,
}

/// What is read of a pod.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Pod {
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: String,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: ResourceList,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PodStatus {
    phase: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    resources: Resources,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resources {
    requests: ResourceList,
}

/// Amounts added up, with how many contributed to each.
#[derive(Debug, Default, Clone)]
struct Sum {
    amounts: BTreeMap<String, (Quantity, usize)>,
}

impl Sum {
    fn add(&mut self, list: &ResourceList) {
        for (name, amount) in list {
            match self.amounts.get_mut(name) {
                Some((sum, contributors)) => {
                    *sum += amount;
                    *contributors += 1;
                }
                None => {
                    self.amounts.insert(name.clone(), (amount.clone(), 1));
                }
            }
        }
    }

    fn subtract(&mut self, list: &ResourceList) {
        for (name, amount) in list {
            let Some((sum, contributors)) = self.amounts.get_mut(name) else { continue };
            *contributors -= 1;
            if *contributors == 0 {
                self.amounts.remove(name);
            } else {
                *sum -= amount;
            }
        }
    }

    fn list(&self) -> ResourceList {
        self.amounts.iter().map(|(name, (sum, _))| (name.clone(), sum.clone())).collect()
    }

    /// What is more than nothing, in the units Karmada writes requests in.
    fn requests(&self) -> ResourceList {
        let positive = self.amounts.iter().filter(|(_, (sum, _))| sum.signum() > 0);
        let in_unit = |(name, (sum, _)): (&String, &(Quantity, usize))| {
            (name.clone(), Quantity::from_nanos(sum.nanos(), format_of(name)))
        };
        positive.map(in_unit).collect()
    }
}

fn format_of(resource: &str) -> Format {
    match resource {
        MEMORY | EPHEMERAL_STORAGE => Format::BinarySi,
        _ if resource.starts_with("hugepages-") => Format::BinarySi,
        _ => Format::DecimalSi,
    }
}

struct NodeShare {
    is_ready: bool,
    allocatable: ResourceList,
}

struct PodShare {
    /// Empty while the pod waits for a node.
    node: String,
    is_done: bool,
    requests: ResourceList,
}

/// Nodes and pods of one cluster, added up.
#[derive(Default)]
pub(super) struct Capacity {
    nodes: BTreeMap<String, NodeShare>,
    pods: HashMap<ObjectKey, PodShare>,
    ready: usize,
    allocatable: Sum,
    allocating: Sum,
    allocated: Sum,
    /// Requests of the pods on each node.
    used: HashMap<String, Sum>,
}

impl Capacity {
    pub(super) fn node_changed(&mut self, change: &Change) {
        let name = change.object().name();
        if let Some(old) = self.nodes.remove(name) {
            self.ready -= usize::from(old.is_ready);
            self.allocatable.subtract(&old.allocatable);
        }
        let Change::Applied { new, .. } = change else { return };
        let share = read_node(new);
        self.ready += usize::from(share.is_ready);
        self.allocatable.add(&share.allocatable);
        self.nodes.insert(name.to_owned(), share);
    }

    pub(super) fn pod_changed(&mut self, change: &Change) {
        let key = ObjectKey::of(change.object());
        if let Some(old) = self.pods.remove(&key) {
            if let Some(sum) = self.sum_of(&old) {
                sum.subtract(&old.requests);
            }
            if let Some(used) = self.used.get_mut(&old.node).filter(|_| !old.is_done) {
                used.subtract(&old.requests);
            }
        }
        let Change::Applied { new, .. } = change else { return };
        let share = read_pod(new);
        if let Some(sum) = self.sum_of(&share) {
            sum.add(&share.requests);
        }
        if !share.node.is_empty() && !share.is_done {
            self.used.entry(share.node.clone()).or_default().add(&share.requests);
        }
        self.pods.insert(key, share);
    }

    /// Where a pod is counted, if at all.
    fn sum_of(&mut self, share: &PodShare) -> Option<&mut Sum> {
        match (share.node.is_empty(), share.is_done) {
            (true, _) => Some(&mut self.allocating),
            (false, false) => Some(&mut self.allocated),
            (false, true) => None,
        }
    }

    pub(super) fn node_summary(&self) -> NodeSummary {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        NodeSummary { total_num: number(self.nodes.len()), ready_num: number(self.ready) }
    }

    pub(super) fn resource_summary(&self, models: &[ResourceModel]) -> ResourceSummary {
        ResourceSummary {
            allocatable: self.allocatable.list(),
            allocating: self.allocating.requests(),
            allocated: self.allocated.requests(),
            allocatable_modelings: self.modelings(models),
        }
    }

    fn modelings(&self, models: &[ResourceModel]) -> Vec<AllocatableModeling> {
        let nodes = self.nodes.iter().filter_map(|(name, node)| {
            let Some(used) = self.used.get(name) else { return Some(node.allocatable.clone()) };
            let mut available = node.allocatable.clone();
            for (resource, (amount, _)) in &used.amounts {
                if let Some(left) = available.get_mut(resource) {
                    *left -= amount;
                }
            }
            // A node without a free place takes no pod, whatever else is free on it.
            available.get(PODS).is_some_and(|places| places.signum() > 0).then_some(available)
        });
        modeling::count(models, nodes)
    }
}

fn read_node(object: &Object) -> NodeShare {
    let node: Node = object.text().with(|text| serde_json::from_slice(text)).unwrap_or_default();
    let is_ready =
        |condition: &NodeCondition| condition.r#type == "Ready" && condition.status == "True";
    NodeShare {
        is_ready: node.status.conditions.iter().any(is_ready),
        allocatable: node.status.allocatable,
    }
}

fn read_pod(object: &Object) -> PodShare {
    let pod: Pod = object.text().with(|text| serde_json::from_slice(text)).unwrap_or_default();
    PodShare {
        is_done: matches!(pod.status.phase.as_str(), "Succeeded" | "Failed"),
        requests: requests(&pod.spec),
        node: pod.spec.node_name,
    }
}

/// What a pod asks for: all containers together, but as much as its hungriest initial container,
/// and its overhead; and one place.
fn requests(spec: &PodSpec) -> ResourceList {
    let mut sum = ResourceList::new();
    let add = |sum: &mut ResourceList, list: &ResourceList| {
        for (name, amount) in list {
            *sum.entry(name.clone()).or_insert(Quantity::ZERO) += amount;
        }
    };
    spec.containers.iter().for_each(|container| add(&mut sum, &container.resources.requests));
    for (name, amount) in spec.init_containers.iter().flat_map(|c| &c.resources.requests) {
        let known = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        if *known < *amount {
            *known = amount.clone();
        }
    }
    add(&mut sum, &spec.overhead);
    sum.insert(PODS.to_owned(), Quantity::new(1, Format::DecimalSi));
    // Compat: the cpu is counted in thousandths, rounded up.
    if let Some(cpu) = sum.get_mut(CPU) {
        *cpu = Quantity::from_millis(cpu.milli_value());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::{Value, json};
    use std::sync::Arc;

    fn applied(object: &Value) -> Change {
        Change::Applied { old: None, new: Arc::new(Object::from_value(object).unwrap()) }
    }

    fn deleted(object: &Value) -> Change {
        Change::Deleted(Arc::new(Object::from_value(object).unwrap()))
    }

    fn node(name: &str, cpu: &str, ready: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {
            "allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "2"},
            "conditions": [{"type": "Ready", "status": ready}],
        }})
    }

    fn pod(name: &str, node: &str, phase: &str, cpu: &str, init: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"},
            "spec": {
                "nodeName": node,
                "containers": [{"resources": {"requests": {"cpu": cpu}}}, {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}],
                "initContainers": [{"resources": {"requests": {"cpu": init}}}],
            },
            "status": {"phase": phase},
        })
    }

    fn summary(capacity: &Capacity) -> Value {
        karmada_apimachinery::to_value(capacity.resource_summary(&[])).unwrap()
    }

    #[test]
    fn sums_follow_what_changes_and_return_to_nothing() {
        let mut capacity = Capacity::default();
        capacity.node_changed(&applied(&node("n1", "4", "True")));
        capacity.node_changed(&applied(&node("n2", "8", "True")));
        capacity.node_changed(&applied(&node("n2", "2", "False")));
        assert_eq!(capacity.node_summary(), NodeSummary { total_num: 2, ready_num: 1 });
        let waiting = pod("p1", "", "Pending", "100m", "0");
        let running = pod("p1", "n1", "Running", "100m", "1");
        capacity.pod_changed(&applied(&waiting));
        assert_eq!(
            summary(&capacity),
            json!({
                "allocatable": {"cpu": "6", "memory": "8Gi", "pods": "4"},
                "allocating": {"cpu": "200m", "memory": "1Gi", "pods": "1"},
            })
        );
        capacity.pod_changed(&applied(&running));
        assert_eq!(
            summary(&capacity),
            json!({
                "allocatable": {"cpu": "6", "memory": "8Gi", "pods": "4"},
                "allocated": {"cpu": "1", "memory": "1Gi", "pods": "1"},
            })
        );
        capacity.pod_changed(&applied(&pod("p1", "n1", "Succeeded", "100m", "1")));
        capacity.node_changed(&deleted(&node("n2", "2", "False")));
        let one_node = json!({"allocatable": {"cpu": "4", "memory": "4Gi", "pods": "2"}});
        assert_eq!(summary(&capacity), one_node);
        capacity.pod_changed(&deleted(&running));
        assert_eq!(summary(&capacity), one_node);
    }

    /// Quirk 11 of the register: fixed, a full node hides no other.
    #[test]
    fn nodes_without_a_free_place_are_in_no_class() {
        let mut capacity = Capacity::default();
        let models: Vec<ResourceModel> = karmada_apimachinery::from_value(json!([
            {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "1000"}]},
        ]))
        .unwrap();
        capacity.node_changed(&applied(&node("n1", "4", "True")));
        capacity.node_changed(&applied(&node("n2", "4", "True")));
        capacity.node_changed(&applied(&node("n3", "4", "True")));
        capacity.pod_changed(&applied(&pod("p1", "n1", "Running", "1500m", "0")));
        for name in ["p2", "p3"] {
            capacity.pod_changed(&applied(&pod(name, "n2", "Running", "10m", "0")));
        }
        let counts: Vec<_> =
            capacity.modelings(&models).iter().map(|m| (m.grade.0, m.count.0)).collect();
        assert_eq!(counts, [(0, 1), (1, 1)]);
    }
}

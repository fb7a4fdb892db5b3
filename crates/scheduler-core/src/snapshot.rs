//! What the scheduler knows of the member clusters, prepared once per change of a cluster so that
//! a decision only reads.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use karmada_api::affinity::ClusterFacts;
use karmada_api::cluster::{Cluster, ResourceSummary};
use karmada_api::core::{ResourceList, Taint, TaintEffect};
use karmada_api::meta::Labels;
use karmada_apimachinery::quantity::Quantity;

use crate::resources::{Amount, Node, PODS_PER_MODEL_NODE, Request};

/// All member clusters, sorted by name.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    clusters: Vec<Arc<ClusterInfo>>,
}

impl Snapshot {
    pub fn new(mut clusters: Vec<Arc<ClusterInfo>>) -> Self {
        clusters.sort_by(|a, b| a.name.cmp(&b.name));
        Self { clusters }
    }

    pub fn clusters(&self) -> &[Arc<ClusterInfo>] {
        &self.clusters
    }

    pub fn get(&self, name: &str) -> Option<&ClusterInfo> {
        let place = self.clusters.binary_search_by(|info| info.name.as_str().cmp(name));
        place.ok().map(|index| &*self.clusters[index])
    }
}

impl FromIterator<ClusterInfo> for Snapshot {
    fn from_iter<T: IntoIterator<Item = ClusterInfo>>(clusters: T) -> Self {
        Self::new(clusters.into_iter().map(Arc::new).collect())
    }
}

/// One member cluster as the rules see it.
#[derive(Debug, Clone, Default)]
pub struct ClusterInfo {
    pub name: String,
    pub labels: Labels,
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
    /// The taints that keep workloads away: NoSchedule and NoExecute.
    pub taints: Vec<Taint>,
    pub deleting: bool,
    /// The kinds it serves.
    pub(crate) apis: Apis,
    pub(crate) capacity: Option<Capacity>,
}

impl ClusterInfo {
    pub fn from_cluster(cluster: &Cluster) -> Self {
        let spec = &cluster.spec;
        let apis = cluster.status.api_enablements.iter().flat_map(|enabled| {
            let kinds = enabled.resources.iter().map(|resource| resource.kind.as_str());
            kinds.map(|kind| (enabled.group_version.as_str(), kind))
        });
        let keeps_away = |taint: &&Taint| {
            matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute)
        };
        Self {
            name: cluster.metadata.name.clone(),
            labels: cluster.metadata.labels.clone(),
            provider: spec.provider.clone(),
            region: spec.region.clone(),
            zones: spec.zones.clone(),
            taints: spec.taints.iter().filter(keeps_away).cloned().collect(),
            deleting: cluster.metadata.deletion_timestamp.is_some(),
            apis: Apis::new(apis),
            capacity: cluster
                .status
                .resource_summary
                .as_ref()
                .map(|summary| Capacity::new(summary, cluster)),
        }
    }

    /// Whether something that found no room before may find some now.
    pub fn has_more_room_than(&self, before: &Self) -> bool {
        match (&self.capacity, &before.capacity) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(now), Some(before)) => {
                now.pods > before.pods
                    || now.models != before.models
                    || now.free.iter().any(|free| free.amount > before.amount_of(&free.resource))
            }
        }
    }

    pub fn serves(&self, kind: &ServedKind<'_>) -> bool {
        self.apis.contains(kind)
    }
}

/// A kind to ask many clusters for, prepared once.
#[derive(Debug, Clone, Copy)]
pub struct ServedKind<'a> {
    hash: u64,
    api_version: &'a str,
    kind: &'a str,
}

impl<'a> ServedKind<'a> {
    pub fn new(api_version: &'a str, kind: &'a str) -> Self {
        let mut hasher = DefaultHasher::new();
        (api_version, kind).hash(&mut hasher);
        Self { hash: hasher.finish(), api_version, kind }
    }
}

/// Kinds by the hash of their names: the question is asked of every cluster in every decision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Apis(Vec<(u64, Box<str>, Box<str>)>);

impl Apis {
    fn new<'a>(kinds: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut apis: Vec<(u64, Box<str>, Box<str>)> = kinds
            .map(|(version, kind)| {
                (ServedKind::new(version, kind).hash, Box::from(version), Box::from(kind))
            })
            .collect();
        apis.sort_unstable();
        apis.dedup();
        Self(apis)
    }

    fn contains(&self, asked: &ServedKind<'_>) -> bool {
        let first = self.0.partition_point(|(hash, ..)| *hash < asked.hash);
        let alike = self.0[first..].iter().take_while(|(hash, ..)| *hash == asked.hash);
        let mut alike = alike.map(|(_, version, kind)| (&**version, &**kind));
        alike.any(|found| found == (asked.api_version, asked.kind))
    }
}

impl ClusterFacts for ClusterInfo {
    fn name(&self) -> &str {
        &self.name
    }
    fn labels(&self) -> &Labels {
        &self.labels
    }
    fn provider(&self) -> &str {
        &self.provider
    }
    fn region(&self) -> &str {
        &self.region
    }
    fn zones(&self) -> &[String] {
        &self.zones
    }
}

/// What a cluster has left, as its status reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) pods: i64,
    /// The two that nearly everything asks for.
    cpu: i64,
    memory: i64,
    /// Free amounts of every resource the cluster has at all, sorted by name.
    free: Vec<Amount>,
    /// Free nodes by grade, where the cluster models its resources.
    pub(crate) models: Option<Models>,
}

/// Virtual nodes of a resource model: a node and how many like it there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Models(pub(crate) Vec<(Node, usize)>);

impl Capacity {
    fn new(summary: &ResourceSummary, cluster: &Cluster) -> Self {
        let mut free: Vec<Amount> = summary
            .allocatable
            .iter()
            .map(|(resource, total)| {
                let mut left = total.clone();
                for used in [&summary.allocated, &summary.allocating] {
                    if let Some(used) = used.get(resource) {
                        left -= used;
                    }
                }
                Amount { resource: resource.clone(), amount: in_units(resource, &left) }
            })
            .collect();
        free.sort();
        let amount_of = |name: &str| {
            free.iter().find(|free| free.resource == name).map_or(0, |free| free.amount)
        };
        Self {
            pods: amount_of("pods"),
            cpu: amount_of("cpu"),
            memory: amount_of("memory"),
            free,
            models: Models::new(summary, cluster),
        }
    }

    /// How much is left; a resource the cluster does not have at all is zero.
    pub(crate) fn amount_of(&self, resource: &str) -> i64 {
        match resource {
            "cpu" => return self.cpu,
            "memory" => return self.memory,
            _ => {}
        }
        let place = self.free.binary_search_by(|free| free.resource.as_str().cmp(resource));
        place.map_or(0, |index| self.free[index].amount)
    }
}

impl Models {
    /// Compat: an incomplete or contradictory model is not used at all; the summary is.
    fn new(summary: &ResourceSummary, cluster: &Cluster) -> Option<Self> {
        if summary.allocatable_modelings.is_empty() || cluster.spec.resource_models.is_empty() {
            return None;
        }
        let mut nodes = Vec::new();
        let mut counts: Vec<_> = summary.allocatable_modelings.iter().collect();
        counts.sort_by_key(|counted| counted.grade.0);
        for counted in counts {
            let count = usize::try_from(counted.count.0).ok()?;
            let model =
                cluster.spec.resource_models.iter().find(|model| model.grade == counted.grade);
            if let (Some(model), 1..) = (model, count) {
                let least = model
                    .ranges
                    .iter()
                    .map(|range| (range.name.clone(), in_units(&range.name, &range.min)));
                nodes.push((Node::new(least, PODS_PER_MODEL_NODE), count));
            }
        }
        Some(Self(nodes))
    }
}

pub(crate) fn in_units(resource: &str, quantity: &Quantity) -> i64 {
    if resource == "cpu" { quantity.milli_value() } else { quantity.value() }
}

/// What a list of resources asks for.
pub fn request_of(resources: &ResourceList) -> Request {
    Request::new(resources.iter().map(|(name, amount)| (name.clone(), in_units(name, amount))))
}

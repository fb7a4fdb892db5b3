//! How many replicas (or whole component sets) each candidate can still take.

use std::collections::BTreeMap;

use karmada_api::work::{Component, ResourceBindingSpec};

use crate::Config;
use crate::resources::{FirstFit, Node, Part, Request};
use crate::snapshot::{Capacity, ClusterInfo, Models, request_of};

/// What is known beyond the cluster objects when a decision is made.
#[derive(Debug, Clone, Default)]
pub struct Estimates {
    /// Answers of the accurate estimators; a cluster that is missing has no opinion.
    pub accurate: BTreeMap<String, i64>,
    /// Workloads decided before that do not show in a cluster's numbers yet, one set each.
    pub assumed: BTreeMap<String, Vec<Vec<Part>>>,
}

/// A bound that bounds nothing.
const UNBOUNDED: i64 = i32::MAX as i64;

/// Nodes of a model that are filled one by one; ten times what a cluster can have. A status that claims
/// more must not cost memory without end.
const MAX_MODEL_NODES: usize = 50_000;

/// What is to be counted, prepared once per decision.
pub(crate) enum Demand {
    /// Capacity does not matter.
    Nothing,
    Replicas {
        wanted: i64,
        request: Option<Request>,
    },
    Sets {
        parts: Vec<Part>,
    },
}

impl Demand {
    pub(crate) fn of(spec: &ResourceBindingSpec, counts_sets: bool) -> Self {
        if counts_sets {
            return Self::Sets { parts: spec.components.iter().map(part_of).collect() };
        }
        if spec.replicas == 0 && spec.components.is_empty() {
            return Self::Nothing;
        }
        // A component workload that is not counted in sets has no requirements of its own.
        let request =
            spec.replica_requirements.as_ref().map(|needs| request_of(&needs.resource_request));
        Self::Replicas { wanted: i64::from(spec.replicas), request }
    }

    /// How many replicas or sets the cluster can take on top of what it has.
    pub(crate) fn allocatable(
        &self,
        cluster: &ClusterInfo,
        estimates: &Estimates,
        config: &Config,
    ) -> i64 {
        let assumed = estimates.assumed.get(&cluster.name).map_or(&[][..], Vec::as_slice);
        let (general, fallback) = match self {
            Self::Nothing => return UNBOUNDED,
            Self::Replicas { wanted, request } => (
                count_replicas(cluster.capacity.as_ref(), request.as_ref(), assumed, config),
                *wanted,
            ),
            Self::Sets { parts } => {
                (count_sets(cluster.capacity.as_ref(), parts, assumed, config), 0)
            }
        };
        let accurate = estimates.accurate.get(&cluster.name).copied().filter(|&count| count >= 0);
        let bound = accurate.map_or(general, |accurate| accurate.min(general));
        if bound >= UNBOUNDED { fallback } else { bound }
    }
}

fn part_of(component: &Component) -> Part {
    let request = component
        .replica_requirements
        .as_ref()
        .map(|needs| request_of(&needs.resource_request))
        .unwrap_or_default();
    Part { request, replicas: i64::from(component.replicas) }
}

/// What assumed workloads take away: pods, and an amount by resource.
fn assumed_use(assumed: &[Vec<Part>]) -> (i64, BTreeMap<&str, i64>) {
    let mut pods = 0i64;
    let mut amounts = BTreeMap::new();
    for part in assumed.iter().flatten() {
        pods = part.replicas.saturating_add(pods);
        for asked in part.request.amounts() {
            let amount = amounts.entry(asked.resource.as_str()).or_insert(0i64);
            *amount = amount.saturating_add(asked.amount.saturating_mul(part.replicas));
        }
    }
    (pods, amounts)
}

fn count_replicas(
    capacity: Option<&Capacity>,
    request: Option<&Request>,
    assumed: &[Vec<Part>],
    config: &Config,
) -> i64 {
    let Some(capacity) = capacity else { return 0 };
    let (assumed_pods, used) = assumed_use(assumed);
    let pods = capacity.pods.saturating_sub(assumed_pods);
    if pods <= 0 {
        return 0;
    }
    let Some(request) = request else { return pods.min(UNBOUNDED) };
    if let (true, Some(models)) = (config.resource_models, &capacity.models) {
        return pods.min(models.count_replicas(request, assumed));
    }
    let by_resource = request.amounts().iter().map(|asked| {
        let used = used.get(asked.resource.as_str()).copied().unwrap_or(0);
        capacity.amount_of(&asked.resource).saturating_sub(used).max(0) / asked.amount
    });
    by_resource.fold(pods, i64::min).min(UNBOUNDED)
}

fn count_sets(
    capacity: Option<&Capacity>,
    parts: &[Part],
    assumed: &[Vec<Part>],
    config: &Config,
) -> i64 {
    let Some(capacity) = capacity else { return 0 };
    let (assumed_pods, used) = assumed_use(assumed);
    let pods = capacity.pods.saturating_sub(assumed_pods);
    let pods_per_set = parts.iter().map(|part| part.replicas).fold(0, i64::saturating_add);
    if pods <= 0 || pods_per_set <= 0 {
        return pods.clamp(0, UNBOUNDED);
    }
    let one_set = [parts.to_vec()];
    let (_, demand) = assumed_use(&one_set);
    let by_resource = demand.iter().filter(|(_, demand)| **demand > 0).map(|(resource, demand)| {
        let used = used.get(resource).copied().unwrap_or(0);
        capacity.amount_of(resource).saturating_sub(used).max(0) / demand
    });
    let bound = by_resource.fold(pods / pods_per_set, i64::min);
    match (config.resource_models, &capacity.models) {
        (true, Some(models)) => bound.min(models.first_fit(assumed).count_sets(parts, bound)),
        _ => bound,
    }
}

impl Models {
    /// Nodes of one grade are alike, so without assumed workloads one of them answers for all.
    fn count_replicas(&self, request: &Request, assumed: &[Vec<Part>]) -> i64 {
        if !assumed.is_empty() {
            return self.first_fit(assumed).count_replicas(request);
        }
        let on_grade =
            |(node, count): &(Node, usize)| node.room_for(request).saturating_mul(*count as i64);
        self.0.iter().map(on_grade).fold(0, i64::saturating_add)
    }

    fn first_fit(&self, assumed: &[Vec<Part>]) -> FirstFit {
        let nodes =
            self.0.iter().flat_map(|(node, count)| std::iter::repeat_n(node.clone(), *count));
        let mut fit = FirstFit::new(nodes.take(MAX_MODEL_NODES).collect());
        for set in assumed {
            fit.place_assumed(set);
        }
        fit
    }
}

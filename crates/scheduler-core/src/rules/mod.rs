//! The rules a cluster must pass to be a candidate, and those that rank candidates: one file
//! each, one row each in [`RULES`].

mod api_enablement;
mod cluster_affinity;
mod cluster_eviction;
mod cluster_locality;
mod spread_constraint;
mod taint_toleration;
mod workload_groups;

use std::collections::{BTreeSet, HashSet};

use karmada_api::policy::{ClusterAffinity, Placement};
use karmada_api::wire::Time;

use crate::reason::Rejection;
use crate::snapshot::{ClusterInfo, ServedKind};
use crate::{Config, Subject};

pub(crate) const MAX_SCORE: i64 = 100;

/// What all rules of one attempt read, prepared once.
pub(crate) struct Attempt<'a> {
    pub(crate) placement: &'a Placement,
    pub(crate) kind: ServedKind<'a>,
    /// The rules that are asked, in order, with their names.
    pub(crate) filters: Vec<(&'static str, Filter)>,
    pub(crate) scores: Vec<(&'static str, Score)>,
    pub(crate) targets: HashSet<&'a str>,
    pub(crate) evicting: HashSet<&'a str>,
    /// The affinities of which one must match, by tier; `None` accepts every cluster.
    pub(crate) tiers: Option<Vec<&'a ClusterAffinity>>,
    /// Clusters that all peers of the affinity group run on; `None` when nobody restricts.
    pub(crate) required: Option<BTreeSet<&'a str>>,
    pub(crate) forbidden: BTreeSet<&'a str>,
    pub(crate) now: Time,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(
        subject: &Subject<'a>,
        placement: &'a Placement,
        affinity_name: Option<&str>,
        config: &Config,
    ) -> Self {
        let Subject { spec, peers, now, .. } = *subject;
        let rules = || config.rules.rules(config);
        Self {
            placement,
            kind: ServedKind::new(&spec.resource.api_version, &spec.resource.kind),
            filters: rules().filter_map(|rule| Some((rule.name, rule.filter?))).collect(),
            scores: rules().filter_map(|rule| Some((rule.name, rule.score?))).collect(),
            targets: spec.clusters.iter().map(|target| target.name.as_str()).collect(),
            evicting: spec
                .graceful_eviction_tasks
                .iter()
                .map(|task| task.from_cluster.as_str())
                .collect(),
            tiers: cluster_affinity::tiers(spec, placement, affinity_name),
            required: workload_groups::required(&peers.affinity),
            forbidden: workload_groups::forbidden(&peers.anti_affinity),
            now,
        }
    }

    pub(crate) fn is_target(&self, cluster: &ClusterInfo) -> bool {
        self.targets.contains(cluster.name.as_str())
    }

    /// The first affinity that matches; clusters of lower tiers are served first.
    pub(crate) fn tier_of(&self, cluster: &ClusterInfo) -> usize {
        match &self.tiers {
            Some(tiers) if tiers.len() > 1 => tiers
                .iter()
                .position(|affinity| affinity.matches(cluster))
                .unwrap_or(cluster_affinity::NO_TIER),
            _ => 0,
        }
    }
}

pub(crate) type Filter = fn(&Attempt<'_>, &ClusterInfo) -> Result<(), Rejection>;
pub(crate) type Score = fn(&Attempt<'_>, &ClusterInfo) -> i64;

/// A rule by the name users know from `--plugins`.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) filter: Option<Filter>,
    pub(crate) score: Option<Score>,
    /// Runs only where workloads name affinity groups.
    pub(crate) needs_workload_affinity: bool,
}

const fn filter(name: &'static str, filter: Filter) -> Rule {
    Rule { name, filter: Some(filter), score: None, needs_workload_affinity: false }
}

/// All rules, in the order in which they are asked; the first refusal is the one reported.
pub(crate) const RULES: &[Rule] = &[
    filter("APIEnablement", api_enablement::filter),
    filter("TaintToleration", taint_toleration::filter),
    filter("ClusterAffinity", cluster_affinity::filter),
    filter("SpreadConstraint", spread_constraint::filter),
    Rule {
        name: "ClusterLocality",
        filter: None,
        score: Some(cluster_locality::score),
        needs_workload_affinity: false,
    },
    filter("ClusterEviction", cluster_eviction::filter),
    Rule {
        name: "WorkloadAffinity",
        filter: Some(workload_groups::filter_affinity),
        score: None,
        needs_workload_affinity: true,
    },
    Rule {
        name: "WorkloadAntiAffinity",
        filter: Some(workload_groups::filter_anti_affinity),
        score: None,
        needs_workload_affinity: true,
    },
];

/// Which rules run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnabledRules(Vec<bool>);

impl Default for EnabledRules {
    fn default() -> Self {
        Self(vec![true; RULES.len()])
    }
}

impl EnabledRules {
    /// Reads a `--plugins` list: `*` enables all, a name enables, `-name` disables.
    ///
    /// Compat: a removal counts only if something is enabled already; `*` works from any place.
    pub fn parse(list: &[impl AsRef<str>]) -> Result<Self, String> {
        let mut enabled = vec![list.iter().any(|item| item.as_ref() == "*"); RULES.len()];
        for item in list.iter().map(AsRef::as_ref).filter(|item| *item != "*") {
            let (name, on) = item.strip_prefix('-').map_or((item, true), |name| (name, false));
            let Some(place) = RULES.iter().position(|rule| rule.name == name) else {
                let known: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
                return Err(format!("no plugin {name:?}; there are: {}", known.join(", ")));
            };
            if on || enabled.contains(&true) {
                enabled[place] = on;
            }
        }
        Ok(Self(enabled))
    }

    pub(crate) fn rules(&self, config: &Config) -> impl Iterator<Item = &'static Rule> {
        let workload_affinity = config.workload_affinity;
        RULES
            .iter()
            .zip(&self.0)
            .filter(move |(rule, on)| **on && (workload_affinity || !rule.needs_workload_affinity))
            .map(|(rule, _)| rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_lists_read_as_the_original_reads_them() {
        let names = |list: &[&str]| -> Vec<&str> {
            let config = Config { workload_affinity: true, ..Config::default() };
            EnabledRules::parse(list).unwrap().rules(&config).map(|rule| rule.name).collect()
        };
        assert_eq!(names(&["*"]).len(), RULES.len());
        assert_eq!(names(&["TaintToleration"]), ["TaintToleration"]);
        assert_eq!(names(&["-TaintToleration"]), [""; 0]);
        assert!(!names(&["-TaintToleration", "*"]).contains(&"TaintToleration"));
        assert!(EnabledRules::parse(&["Taint"]).unwrap_err().contains("TaintToleration"));
    }
}

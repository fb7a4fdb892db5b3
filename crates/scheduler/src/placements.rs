//! Which bindings a change of a cluster concerns. Bindings are grouped by the affinity in force, so
//! a cluster is compared with the few affinities there are and not with every binding.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_api::affinity::ClusterFacts;
use karmada_api::policy::ClusterAffinity;
use karmada_api::scopes::Binding;
use karmada_runtime::ObjectKey;

/// Affinities in force and the bindings they stand for.
#[derive(Default)]
pub(crate) struct Placements {
    groups: BTreeMap<Arc<str>, Group>,
    of: BTreeMap<ObjectKey, Arc<str>>,
    /// Affinities that name their clusters, by those names.
    by_name: BTreeMap<String, BTreeSet<Arc<str>>>,
    /// Affinities that any cluster may match.
    open: BTreeSet<Arc<str>>,
}

struct Group {
    /// Nothing matches every cluster.
    affinity: Option<ClusterAffinity>,
    bindings: BTreeSet<ObjectKey>,
}

/// Which clusters concern a binding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Concern<'a> {
    Every,
    Matching(&'a ClusterAffinity),
}

/// The affinity that decides whether a cluster concerns the binding; none without a placement.
///
/// Compat: of a list of affinity groups the one in use counts, its overflow groups do not.
pub(crate) fn concern<B: Binding>(binding: &B) -> Option<Concern<'_>> {
    let placement = binding.spec().placement.as_ref()?;
    let terms = &placement.cluster_affinities;
    if terms.is_empty() {
        return Some(placement.cluster_affinity.as_ref().map_or(Concern::Every, Concern::Matching));
    }
    let status = binding.status();
    if status.scheduler_observed_generation != binding.metadata().generation {
        return Some(Concern::Every);
    }
    let observed = &status.scheduler_observed_affinity_name;
    let term = terms.iter().find(|term| term.affinity_name == *observed).or(terms.first())?;
    Some(Concern::Matching(&term.cluster_affinity))
}

impl Placements {
    pub(crate) fn apply(&mut self, key: &ObjectKey, concern: Option<Concern<'_>>) {
        let Some(concern) = concern else { return self.remove(key) };
        let affinity = match concern {
            Concern::Every => None,
            Concern::Matching(affinity) => Some(affinity),
        };
        // Values without maps of random order: equal ones have equal texts.
        let text = affinity.and_then(|affinity| serde_json::to_string(affinity).ok());
        let text = text.unwrap_or_default();
        if self.of.get(key).is_some_and(|known| **known == *text) {
            return;
        }
        self.remove(key);
        let id: Arc<str> = match self.groups.get_key_value(text.as_str()) {
            Some((id, _)) => id.clone(),
            None => self.add_group(text.into(), affinity.cloned()),
        };
        if let Some(group) = self.groups.get_mut(&id) {
            group.bindings.insert(key.clone());
        }
        self.of.insert(key.clone(), id);
    }

    fn add_group(&mut self, id: Arc<str>, affinity: Option<ClusterAffinity>) -> Arc<str> {
        let names = affinity.as_ref().map_or(&[][..], |affinity| &affinity.cluster_names);
        if names.is_empty() {
            self.open.insert(id.clone());
        }
        for name in names {
            self.by_name.entry(name.clone()).or_default().insert(id.clone());
        }
        self.groups.insert(id.clone(), Group { affinity, bindings: BTreeSet::new() });
        id
    }

    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        let Some(id) = self.of.remove(key) else { return };
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.bindings.remove(key);
        if !group.bindings.is_empty() {
            return;
        }
        let group = self.groups.remove(&id);
        self.open.remove(&id);
        let names = group.and_then(|group| group.affinity).map(|affinity| affinity.cluster_names);
        for name in names.unwrap_or_default() {
            if let Some(ids) = self.by_name.get_mut(&name) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_name.remove(&name);
                }
            }
        }
    }

    /// The bindings this state of a cluster concerns.
    pub(crate) fn matching(&self, cluster: &impl ClusterFacts) -> BTreeSet<ObjectKey> {
        let named = self.by_name.get(cluster.name()).into_iter().flatten();
        let mut found = BTreeSet::new();
        for group in self.open.iter().chain(named).filter_map(|id| self.groups.get(id)) {
            if group.affinity.as_ref().is_none_or(|affinity| affinity.matches(cluster)) {
                found.extend(group.bindings.iter().cloned());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::cluster::Cluster;
    use karmada_api::work::ResourceBinding;
    use karmada_apimachinery::{Value, json};

    fn binding(name: &str, placement: Value, status: Value) -> (ObjectKey, ResourceBinding) {
        let value = json!({
            "metadata": {"namespace": "x", "name": name, "generation": 2},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": name}, "placement": placement},
            "status": status,
        });
        (ObjectKey::new("x", name), karmada_apimachinery::from_value(value).unwrap())
    }

    fn cluster(name: &str, labels: Value) -> Cluster {
        karmada_apimachinery::from_value(json!({"metadata": {"name": name, "labels": labels}}))
            .unwrap()
    }

    fn names(placements: &Placements, cluster: &Cluster) -> Vec<String> {
        placements.matching(cluster).into_iter().map(|key| key.name.into()).collect()
    }

    #[test]
    fn a_cluster_concerns_the_bindings_whose_affinity_it_matches() {
        let terms = json!({"clusterAffinities": [
            {"affinityName": "one", "clusterNames": ["m1"]},
            {"affinityName": "two", "clusterNames": ["m2"]},
        ]});
        let observed = |generation: i64, name: &str| json!({"schedulerObservedGeneration": generation, "schedulerObservingAffinityName": name});
        let rows = [
            binding("all", json!({}), json!({})),
            binding("named", json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}}), json!({})),
            binding(
                "labelled",
                json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"a": "b"}}}}),
                json!({}),
            ),
            binding("second", terms.clone(), observed(2, "two")),
            binding("unknown-term", terms.clone(), observed(2, "gone")),
            binding("outdated", terms, observed(1, "two")),
            binding("follows-others", Value::Null, json!({})),
        ];
        let mut placements = Placements::default();
        for (key, binding) in &rows {
            placements.apply(key, concern(binding));
        }
        let m1 = cluster("m1", json!({}));
        assert_eq!(names(&placements, &m1), ["all", "named", "outdated", "unknown-term"]);
        let m2 = cluster("m2", json!({"a": "b"}));
        assert_eq!(names(&placements, &m2), ["all", "labelled", "named", "outdated", "second"]);
        let other = cluster("other", json!({}));
        assert_eq!(names(&placements, &other), ["all", "outdated"]);
        for (key, _) in &rows {
            placements.remove(key);
        }
        assert!(placements.groups.is_empty() && placements.by_name.is_empty());
        assert!(placements.open.is_empty() && placements.of.is_empty());
    }
}

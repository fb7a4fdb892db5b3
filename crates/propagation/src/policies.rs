//! Which policy claims an object. Policies are indexed by what they select, so that the answer
//! does not depend on how many policies there are.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use karmada_api::Policy;
use karmada_api::explain::PolicyCandidate;
use karmada_api::policy::ResourceSelector;

use crate::selector::{Head, Precision, best_pick};

/// The namespace and name of a policy; cluster-scoped ones have no namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyKey {
    pub namespace: String,
    pub name: String,
}

impl PolicyKey {
    pub fn of(policy: &impl Policy) -> Self {
        Self { namespace: policy.namespace().to_owned(), name: policy.name().to_owned() }
    }
}

/// Best policy first: explicit priority, then name.
type Rank = (Reverse<i32>, String);

/// What a policy wins an object with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub policy: PolicyKey,
    pub priority: i32,
    pub precision: Precision,
}

impl Claim {
    /// Sorts the better claim first: priority, precision, then name.
    fn order(&self) -> (Reverse<i32>, Reverse<Precision>, &str) {
        (Reverse(self.priority), Reverse(self.precision), &self.policy.name)
    }
}

/// Where a selector stands in the index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    /// The namespace of the policy; empty for cluster-scoped ones.
    scope: String,
    api_version: String,
    kind: String,
}

/// Selectors of one kind in one scope.
#[derive(Debug, Default)]
struct Shelf {
    by_name: HashMap<String, BTreeSet<Rank>>,
    /// Selectors that require a label, by one such label.
    by_label: HashMap<(String, String), BTreeSet<Rank>>,
    /// Selectors by labels that require no particular value.
    by_expression: BTreeSet<Rank>,
    by_kind: BTreeSet<Rank>,
}

impl Shelf {
    fn slot(&mut self, selector: &ResourceSelector) -> &mut BTreeSet<Rank> {
        if !selector.name.is_empty() {
            return self.by_name.entry(selector.name.clone()).or_default();
        }
        match &selector.label_selector {
            None => &mut self.by_kind,
            Some(labels) => match labels.match_labels.first_key_value() {
                Some((key, value)) => {
                    self.by_label.entry((key.clone(), value.clone())).or_default()
                }
                None => &mut self.by_expression,
            },
        }
    }
}

/// What is kept of a policy.
#[derive(Debug)]
struct Entry {
    priority: i32,
    selectors: Vec<ResourceSelector>,
}

/// The policies of one scope: all PropagationPolicies, or all ClusterPropagationPolicies.
#[derive(Debug, Default)]
pub struct PolicyIndex {
    policies: HashMap<PolicyKey, Entry>,
    shelves: HashMap<Place, Shelf>,
}

impl PolicyIndex {
    /// Adds a policy or replaces it by its new version.
    pub fn insert<P: Policy>(&mut self, policy: &P) {
        let key = PolicyKey::of(policy);
        self.remove(&key);
        let spec = policy.spec();
        let priority = spec.priority.unwrap_or(0);
        for selector in &spec.resource_selectors {
            let shelf = self.shelves.entry(place(&key.namespace, selector)).or_default();
            shelf.slot(selector).insert((Reverse(priority), key.name.clone()));
        }
        let selectors = spec.resource_selectors.clone();
        self.policies.insert(key, Entry { priority, selectors });
    }

    pub fn remove(&mut self, key: &PolicyKey) {
        let Some(entry) = self.policies.remove(key) else { return };
        for selector in &entry.selectors {
            if let Some(shelf) = self.shelves.get_mut(&place(&key.namespace, selector)) {
                shelf.slot(selector).remove(&(Reverse(entry.priority), key.name.clone()));
            }
        }
    }

    /// Returns the best claim on an object nobody has claimed yet. `scope` is the object's
    /// namespace for namespaced policies and empty for cluster-scoped ones.
    pub fn best(&self, scope: &str, object: &Head<'_>) -> Option<Claim> {
        let shelf = self.shelf(scope, object)?;
        let mut best: Option<Claim> = None;
        let mut consider = |ranks: &BTreeSet<Rank>| {
            // Ranks are sorted: the first that matches is the best of its set.
            let found = ranks.iter().find_map(|rank| self.claim(scope, rank, object));
            if let Some(claim) = found
                && best.as_ref().is_none_or(|best| claim.order() < best.order())
            {
                best = Some(claim);
            }
        };
        for ranks in shelf.sets(object) {
            consider(ranks);
        }
        best
    }

    /// Returns every claim on an object, the best first, for whoever asks why.
    pub fn candidates(&self, scope: &str, object: &Head<'_>) -> Vec<Claim> {
        let Some(shelf) = self.shelf(scope, object) else { return Vec::new() };
        let ranks: BTreeSet<&Rank> = shelf.sets(object).into_iter().flatten().collect();
        let mut claims: Vec<Claim> =
            ranks.into_iter().filter_map(|rank| self.claim(scope, rank, object)).collect();
        claims.sort_by(|a, b| a.order().cmp(&b.order()));
        claims
    }

    fn shelf(&self, scope: &str, object: &Head<'_>) -> Option<&Shelf> {
        self.shelves.get(&Place {
            scope: scope.to_owned(),
            api_version: object.api_version.clone().into_owned(),
            kind: object.kind.to_owned(),
        })
    }

    /// What a policy makes of the object with its most precise selector.
    fn claim(&self, scope: &str, (_, name): &Rank, object: &Head<'_>) -> Option<Claim> {
        let policy = PolicyKey { namespace: scope.to_owned(), name: name.clone() };
        let entry = self.policies.get(&policy)?;
        let precision = best_pick(&entry.selectors, object)?;
        Some(Claim { policy, priority: entry.priority, precision })
    }
}

impl Shelf {
    /// The sets in which a selector of the object may stand.
    fn sets(&self, object: &Head<'_>) -> Vec<&BTreeSet<Rank>> {
        let mut sets = vec![&self.by_kind, &self.by_expression];
        sets.extend(self.by_name.get(object.name));
        if !self.by_label.is_empty() {
            let labels = object.labels.labels();
            let own = labels.filter_map(|(k, v)| self.by_label.get(&(k.to_owned(), v.to_owned())));
            sets.extend(own);
        }
        sets
    }
}

fn place(scope: &str, selector: &ResourceSelector) -> Place {
    Place {
        scope: scope.to_owned(),
        api_version: selector.api_version.clone(),
        kind: selector.kind.clone(),
    }
}

/// Says for every candidate why it won or lost. A namespaced policy always comes before a
/// cluster-scoped one, and a claim that stands is kept whatever appears later.
pub fn explain(namespaced: &[Claim], cluster_scoped: &[Claim]) -> Vec<PolicyCandidate> {
    let mut candidates = Vec::new();
    let winner = namespaced.first().or(cluster_scoped.first());
    for claim in namespaced.iter().chain(cluster_scoped) {
        let won = Some(claim) == winner;
        let selected =
            format!("selected {}, priority {}", claim.precision.describe(), claim.priority);
        let is_cluster_scoped = claim.policy.namespace.is_empty();
        let reason = match winner {
            Some(winner) if !won => format!("{selected}; {}", lost_to(claim, winner)),
            _ => selected,
        };
        let policy = if is_cluster_scoped {
            format!("ClusterPropagationPolicy {}", claim.policy.name)
        } else {
            format!("PropagationPolicy {}/{}", claim.policy.namespace, claim.policy.name)
        };
        candidates.push(PolicyCandidate { policy, won, reason });
    }
    candidates
}

fn lost_to(claim: &Claim, winner: &Claim) -> String {
    if claim.policy.namespace.is_empty() && !winner.policy.namespace.is_empty() {
        "a policy of the namespace comes first".to_owned()
    } else if claim.priority != winner.priority {
        format!("priority {} is higher", winner.priority)
    } else if claim.precision != winner.precision {
        format!(
            "{} is selected more precisely, {}",
            winner.policy.name,
            winner.precision.describe()
        )
    } else {
        format!("{:?} comes first by name", winner.policy.name)
    }
}

#[cfg(test)]
mod tests {
    use karmada_api::policy::PropagationPolicy;
    use karmada_apimachinery::{Value, json};
    use proptest::prelude::*;

    use super::*;

    fn policy(name: &str, priority: i32, selector: Value) -> PropagationPolicy {
        let mut selector = selector;
        selector["apiVersion"] = "v1".into();
        selector["kind"] = "ConfigMap".into();
        karmada_apimachinery::from_value(json!({
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"priority": priority, "resourceSelectors": [selector]},
        }))
        .unwrap()
    }

    fn object(name: &str, labels: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": name, "namespace": "ns", "labels": labels}})
    }

    fn winner(policies: &[PropagationPolicy], object: &Value) -> Option<String> {
        let mut index = PolicyIndex::default();
        policies.iter().for_each(|policy| index.insert(policy));
        index.best("ns", &Head::of(object)).map(|claim| claim.policy.name)
    }

    #[test]
    fn priority_beats_precision_beats_name() {
        let by_kind = |name, priority| policy(name, priority, json!({}));
        let by_label = |name, priority| {
            policy(name, priority, json!({"labelSelector": {"matchLabels": {"a": "b"}}}))
        };
        let by_name = |name, priority| policy(name, priority, json!({"name": "conf"}));
        let conf = object("conf", json!({"a": "b"}));
        let cases = [
            (vec![by_kind("x", 0), by_label("y", 0), by_name("z", 0)], "z"),
            (vec![by_kind("x", 1), by_label("y", 0), by_name("z", 0)], "x"),
            (vec![by_kind("b", 0), by_kind("a", 0)], "a"),
            (vec![by_label("b", 3), by_label("a", 2)], "b"),
        ];
        for (policies, expected) in cases {
            assert_eq!(winner(&policies, &conf).as_deref(), Some(expected));
        }
        assert_eq!(winner(&[by_name("z", 0)], &object("other", json!({}))), None);
    }

    #[test]
    fn every_candidate_is_told_why() {
        let mut index = PolicyIndex::default();
        index.insert(&policy("all", 0, json!({})));
        index.insert(&policy("named", 0, json!({"name": "conf"})));
        index.insert(&policy("urgent", 5, json!({})));
        let told = explain(&index.candidates("ns", &Head::of(&object("conf", json!({})))), &[]);
        let told: Vec<String> =
            told.iter().map(|c| format!("{} {}: {}", c.won, c.policy, c.reason)).collect();
        assert_eq!(
            told,
            [
                "true PropagationPolicy ns/urgent: selected by kind, priority 5",
                "false PropagationPolicy ns/named: selected by name, priority 0; priority 5 is higher",
                "false PropagationPolicy ns/all: selected by kind, priority 0; priority 5 is higher",
            ]
        );
    }

    #[test]
    fn a_policy_that_is_gone_or_changed_claims_nothing_by_its_old_selectors() {
        let mut index = PolicyIndex::default();
        let conf = object("conf", json!({}));
        index.insert(&policy("p", 0, json!({"name": "conf"})));
        index.insert(&policy("p", 0, json!({"name": "other"})));
        assert_eq!(index.best("ns", &Head::of(&conf)), None);
        index.insert(&policy("p", 0, json!({"name": "conf"})));
        index.remove(&PolicyKey { namespace: "ns".into(), name: "p".into() });
        assert_eq!(index.best("ns", &Head::of(&conf)), None);
    }

    proptest! {
        #[test]
        fn the_index_answers_as_a_scan_would(
            rows in proptest::collection::vec((0i32..3, 0usize..4, 0usize..3), 0..12),
            name in 0usize..3,
            label in 0usize..3,
        ) {
            let policies: Vec<PropagationPolicy> = rows
                .iter()
                .enumerate()
                .map(|(i, (priority, form, value))| {
                    let selector = match form {
                        0 => json!({}),
                        1 => json!({"name": format!("n{value}")}),
                        2 => json!({"labelSelector": {"matchLabels": {"l": format!("v{value}")}}}),
                        _ => json!({"labelSelector": {"matchExpressions": [
                            {"key": "l", "operator": "NotIn", "values": [format!("v{value}")]}]}}),
                    };
                    policy(&format!("p{i:02}"), *priority, selector)
                })
                .collect();
            let object = object(&format!("n{name}"), json!({"l": format!("v{label}")}));
            let scanned = policies
                .iter()
                .filter_map(|policy| {
                    let precision = best_pick(&policy.spec.resource_selectors, &Head::of(&object))?;
                    let priority = policy.spec.priority.unwrap_or(0);
                    Some((Reverse(priority), Reverse(precision), policy.metadata.name.clone()))
                })
                .min()
                .map(|(_, _, name)| name);
            prop_assert_eq!(winner(&policies, &object), scanned);
        }
    }
}

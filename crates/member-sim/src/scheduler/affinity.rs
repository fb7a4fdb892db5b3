//! Where a pod wants to be or must not be: by labels of nodes, by taints, and by the pods that are
//! there already.

use std::collections::HashMap;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::pairs::Pairs;
use karmada_apimachinery::selector::LabelSelector;

use super::ledger::{Node, Placed, Wanted};

/// Whether the node is one that the pod's selector and node affinity allow.
pub(super) fn matches_node(pod: &Value, node: &Node) -> bool {
    let wanted = pod.map_at(&["spec", "nodeSelector"]).into_iter().flatten();
    for (key, value) in wanted {
        if node.labels.get(key.as_str()) != value.as_str() {
            return false;
        }
    }
    let required = pod.at(&[
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ]);
    match required {
        None | Some(Value::Null) => true,
        Some(required) => {
            required.list_at(&["nodeSelectorTerms"]).iter().any(|term| matches_term(term, node))
        }
    }
}

/// A term without any requirement matches nothing.
fn matches_term(term: &Value, node: &Node) -> bool {
    let (labels, fields) = (term.list_at(&["matchExpressions"]), term.list_at(&["matchFields"]));
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let by_label = |rule: &Value| {
        let key = rule.str_at(&["key"]).unwrap_or_default();
        holds(rule, node.labels.get(key))
    };
    let by_field = |rule: &Value| {
        rule.str_at(&["key"]) == Some("metadata.name") && holds(rule, Some(&node.name))
    };
    labels.iter().all(by_label) && fields.iter().all(by_field)
}

fn holds(rule: &Value, value: Option<&str>) -> bool {
    let values: Vec<&str> = rule.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = |holds: fn(i64, i64) -> bool| {
        let pair = value.and_then(number).zip(values.first().copied().and_then(number));
        pair.is_some_and(|(own, other)| holds(own, other))
    };
    match rule.str_at(&["operator"]).unwrap_or_default() {
        "In" => value.is_some_and(|value| values.contains(&value)),
        "NotIn" => value.is_none_or(|value| !values.contains(&value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|own, other| own > other),
        "Lt" => compare(|own, other| own < other),
        _ => false,
    }
}

/// Whether a toleration of the pod covers the taint.
pub(crate) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value, field: &str| value.str_at(&[field]).unwrap_or_default().to_owned();
    let (key, effect) = (text(toleration, "key"), text(toleration, "effect"));
    if !effect.is_empty() && effect != text(taint, "effect") {
        return false;
    }
    if !key.is_empty() && key != text(taint, "key") {
        return false;
    }
    match text(toleration, "operator").as_str() {
        "Exists" => true,
        "" | "Equal" => !key.is_empty() && text(toleration, "value") == text(taint, "value"),
        _ => false,
    }
}

/// Whether no taint keeps the pod from the node.
pub(super) fn tolerates_all(pod: &Value, node: &Node) -> bool {
    let tolerations = pod.list_at(&["spec", "tolerations"]);
    let keeps_off =
        |taint: &&Value| matches!(taint.str_at(&["effect"]), Some("NoSchedule" | "NoExecute"));
    node.taints
        .iter()
        .filter(keeps_off)
        .all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// The hard terms of a kind of pod affinity.
pub(super) fn required_terms<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    pod.list_at(&["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"])
}

fn selects(term: &Value, own_namespace: &str, namespace: &str, labels: &Pairs) -> bool {
    let namespaces = term.list_at(&["namespaces"]);
    // A selector of namespaces is taken to select all: their labels are not kept here.
    let anywhere = term.at(&["namespaceSelector"]).is_some_and(|selector| !selector.is_null());
    let there = if namespaces.is_empty() {
        anywhere || namespace == own_namespace
    } else {
        anywhere || namespaces.iter().any(|name| name == namespace)
    };
    let selector = term.at(&["labelSelector"]).filter(|selector| !selector.is_null());
    there && LabelSelector::from_object(selector).is_ok_and(|selector| selector.matches_map(labels))
}

/// Whether another pod in the same domain as the node is selected by the term.
fn in_domain(term: &Value, own_namespace: &str, node: &Node, nodes: &[&Node]) -> Option<bool> {
    let key = term.str_at(&["topologyKey"])?;
    let domain = node.labels.get(key)?;
    let near = nodes.iter().filter(|other| other.labels.get(key) == Some(domain));
    let mut pods = near.flat_map(|other| other.pods.values());
    Some(pods.any(|pod| selects(term, own_namespace, &pod.key.namespace, &pod.labels)))
}

/// Whether the pods that the pod wants near itself are near this node.
pub(super) fn has_company(wanted: &Wanted<'_>, node: &Node, nodes: &[&Node]) -> bool {
    required_terms(wanted.pod, "podAffinity").iter().all(|term| {
        if in_domain(term, wanted.namespace, node, nodes) == Some(true) {
            return true;
        }
        // The first of a group that wants to be together may begin anywhere.
        let key = term.str_at(&["topologyKey"]).unwrap_or_default();
        let anybody = nodes.iter().flat_map(|node| node.pods.values());
        let alone = !anybody
            .into_iter()
            .any(|pod| selects(term, wanted.namespace, &pod.key.namespace, &pod.labels));
        alone
            && node.labels.contains_key(key)
            && selects(term, wanted.namespace, wanted.namespace, wanted.labels)
    })
}

/// Whether none of the pods it avoids is near this node.
pub(super) fn avoids_all(wanted: &Wanted<'_>, node: &Node, nodes: &[&Node]) -> bool {
    let terms = required_terms(wanted.pod, "podAntiAffinity");
    terms.iter().all(|term| in_domain(term, wanted.namespace, node, nodes) != Some(true))
}

/// Whether no pod near this node avoids it.
pub(super) fn is_welcome(wanted: &Wanted<'_>, node: &Node, nodes: &[&Node]) -> bool {
    let avoids = |other: &Node, pod: &Placed| {
        pod.anti_affinity.iter().any(|term| {
            let key = term.str_at(&["topologyKey"]).unwrap_or_default();
            node.labels.contains_key(key)
                && node.labels.get(key) == other.labels.get(key)
                && selects(term, &pod.key.namespace, wanted.namespace, wanted.labels)
        })
    };
    let mut averse = nodes.iter().filter(|other| other.averse > 0);
    !averse.any(|other| other.pods.values().any(|pod| avoids(other, pod)))
}

/// How evenly the pods that a pod belongs to lie over the domains of its hard constraints.
pub(super) struct Spread {
    constraints: Vec<Constraint>,
}

struct Constraint {
    key: String,
    max_skew: i64,
    is_one: bool,
    counts: HashMap<String, i64>,
    least: i64,
}

impl Spread {
    pub(super) fn of(wanted: &Wanted<'_>, nodes: &[&Node]) -> Self {
        let all = wanted.pod.list_at(&["spec", "topologySpreadConstraints"]).iter();
        let hard = all.filter(|c| c.str_at(&["whenUnsatisfiable"]) != Some("ScheduleAnyway"));
        Self { constraints: hard.map(|rule| Constraint::of(rule, wanted, nodes)).collect() }
    }

    /// Whether the constraints hold with the pod on this node.
    pub(super) fn allows(&self, node: &Node) -> bool {
        self.constraints.iter().all(|constraint| {
            let Some(domain) = node.labels.get(&constraint.key) else { return false };
            let there = constraint.counts.get(domain).copied().unwrap_or_default();
            there + i64::from(constraint.is_one) - constraint.least <= constraint.max_skew
        })
    }
}

impl Constraint {
    fn of(rule: &Value, wanted: &Wanted<'_>, nodes: &[&Node]) -> Self {
        let key = rule.str_at(&["topologyKey"]).unwrap_or_default().to_owned();
        let mut counts: HashMap<String, i64> = HashMap::new();
        for node in nodes.iter().filter(|node| matches_node(wanted.pod, node)) {
            let Some(domain) = node.labels.get(&key) else { continue };
            let own =
                |pod: &&Placed| selects(rule, wanted.namespace, &pod.key.namespace, &pod.labels);
            let here = node.pods.values().filter(own).count();
            *counts.entry(domain.to_owned()).or_default() +=
                i64::try_from(here).unwrap_or(i64::MAX);
        }
        let least_domains = rule.i64_at(&["minDomains"]).unwrap_or(1);
        let few = i64::try_from(counts.len()).unwrap_or_default() < least_domains;
        let least = if few { 0 } else { counts.values().copied().min().unwrap_or_default() };
        Self {
            max_skew: rule.i64_at(&["maxSkew"]).unwrap_or(1),
            is_one: selects(rule, wanted.namespace, wanted.namespace, wanted.labels),
            key,
            counts,
            least,
        }
    }
}

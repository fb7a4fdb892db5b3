//! Whether a node is one a DaemonSet runs on: its labels, its name and its taints.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::selector::{LabelSelector, Operator, Requirement};
use karmada_apimachinery::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Eligibility {
    /// A new pod is wanted here.
    pub(super) run: bool,
    /// A pod that is here may stay.
    pub(super) stay: bool,
}

/// Every daemon pod tolerates the troubles of nodes it may be there to heal.
pub(super) fn tolerations_added(host_network: bool) -> Vec<Value> {
    let mut all = vec![("not-ready", "NoExecute"), ("unreachable", "NoExecute")];
    all.extend([("disk-pressure", "NoSchedule"), ("memory-pressure", "NoSchedule")]);
    all.extend([("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule")]);
    if host_network {
        all.push(("network-unavailable", "NoSchedule"));
    }
    let toleration = |(key, effect): (&str, &str)| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    all.into_iter().map(toleration).collect()
}

/// Judges a node for the template of a DaemonSet's spec.
pub(super) fn eligibility(node: &Value, spec: &Value) -> Eligibility {
    let empty = json!({});
    let pod = spec.at(&["template", "spec"]).unwrap_or(&empty);
    let named = pod.str_at(&["nodeName"]).is_none_or(|name| name.is_empty() || name == node.name());
    if !named || !selects(pod, node) {
        return Eligibility { run: false, stay: false };
    }
    let host_network = pod.bool_at(&["hostNetwork"]).unwrap_or_default();
    let mut tolerations = pod.list_at(&["tolerations"]).to_vec();
    tolerations.extend(tolerations_added(host_network));
    let repels = |effects: &[&str]| {
        node.list_at(&["spec", "taints"])
            .iter()
            .filter(|taint| effects.contains(&taint.str_at(&["effect"]).unwrap_or_default()))
            .any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
    };
    Eligibility { run: !repels(&["NoSchedule", "NoExecute"]), stay: !repels(&["NoExecute"]) }
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value, field: &str| value.str_at(&[field]).unwrap_or_default().to_owned();
    let (effect, key) = (text(toleration, "effect"), text(toleration, "key"));
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

/// Whether node selector and required affinity take the node.
fn selects(pod: &Value, node: &Value) -> bool {
    let label = |key: &str| node.label(key);
    let selected = pod
        .map_at(&["nodeSelector"])
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| label(key) == value.as_str()));
    let required = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let affine = pod.at(&required).is_none_or(|selector| {
        selector.list_at(&["nodeSelectorTerms"]).iter().any(|term| term_takes(term, node))
    });
    selected && affine
}

/// A term without any requirement takes nothing.
fn term_takes(term: &Value, node: &Value) -> bool {
    let (labels, fields) = (term.list_at(&["matchExpressions"]), term.list_at(&["matchFields"]));
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let name = |key: &str| (key == "metadata.name").then(|| node.name());
    labels.iter().all(|requirement| meets(requirement, |key| node.label(key)))
        && fields.iter().all(|requirement| meets(requirement, name))
}

fn meets<'a>(requirement: &Value, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
    let operator = match requirement.str_at(&["operator"]) {
        Some("In") => Operator::In,
        Some("NotIn") => Operator::NotIn,
        Some("Exists") => Operator::Exists,
        Some("DoesNotExist") => Operator::DoesNotExist,
        Some("Gt") => Operator::GreaterThan,
        Some("Lt") => Operator::LessThan,
        _ => return false,
    };
    let values = requirement.list_at(&["values"]).iter().filter_map(Value::as_str);
    let values = values.map(str::to_owned).collect();
    let key = requirement.str_at(&["key"]).unwrap_or_default();
    match Requirement::new(key, operator, values) {
        Ok(requirement) => LabelSelector::new(vec![requirement]).matches_with(lookup),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: Value, taints: Value) -> Value {
        json!({"metadata": {"name": "n1", "labels": labels}, "spec": {"taints": taints}})
    }

    #[test]
    fn labels_names_and_taints_decide() {
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
        };
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let (both, none) = ((true, true), (false, false));
        let plain = node(json!({"a": "b"}), json!([]));
        let cases = [
            (plain.clone(), json!({}), both),
            (plain.clone(), json!({"nodeSelector": {"a": "b"}}), both),
            (plain.clone(), json!({"nodeSelector": {"a": "c"}}), none),
            (plain.clone(), json!({"nodeName": "n2"}), none),
            (
                plain.clone(),
                affinity(json!({"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}]})),
                both,
            ),
            (
                plain.clone(),
                affinity(json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]})),
                none,
            ),
            (plain, affinity(json!({})), none),
            (node(json!({}), taint("x", "NoSchedule")), json!({}), (false, true)),
            (node(json!({}), taint("x", "NoExecute")), json!({}), none),
            (node(json!({}), taint("x", "PreferNoSchedule")), json!({}), both),
            (
                node(json!({}), taint("node.kubernetes.io/unschedulable", "NoSchedule")),
                json!({}),
                both,
            ),
            (
                node(json!({}), taint("x", "NoExecute")),
                json!({"tolerations": [{"operator": "Exists"}]}),
                both,
            ),
        ];
        for (node, pod, (run, stay)) in cases {
            let found = eligibility(&node, &json!({"template": {"spec": pod}}));
            assert_eq!(found, Eligibility { run, stay }, "{node} {pod}");
        }
    }
}

//! What an object uses of a ResourceQuota, and whether a quota is about it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::quantity::{Format, Quantity};
use karmada_apimachinery::time::parse_time;

use karmada_kinds::strategy::qos_class;

/// Amounts by the names quotas call them.
pub(super) type Usage = BTreeMap<String, Quantity>;

/// Resources counted by a name of their own besides `count/…`.
const NAMED: &[&str] = &[
    "pods",
    "services",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
];

/// Returns which resource has to be counted for an amount a quota limits.
pub(super) fn source_of(name: &str) -> Option<GroupResource> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(GroupResource::new(group, resource));
    }
    let resource = match name {
        "services.nodeports" | "services.loadbalancers" => "services",
        "requests.storage" => "persistentvolumeclaims",
        named if NAMED.contains(&named) => named,
        class if class.contains(".storageclass.storage.k8s.io/") => "persistentvolumeclaims",
        "cpu" | "memory" | "ephemeral-storage" => "pods",
        other => {
            let plain = ["requests.", "limits.", "hugepages-"];
            plain.iter().any(|prefix| other.starts_with(prefix)).then_some("pods")?
        }
    };
    Some(GroupResource::new("", resource))
}

fn one() -> Quantity {
    Quantity::new(1, Format::DecimalSi)
}

pub(super) fn add(total: &mut Usage, more: Usage) {
    for (name, amount) in more {
        let sum = match total.get(&name) {
            Some(known) => plus(known, &amount),
            None => amount,
        };
        total.insert(name, sum);
    }
}

fn plus(a: &Quantity, b: &Quantity) -> Quantity {
    let format = if a.is_zero() { b.format() } else { a.format() };
    Quantity::from_nanos(a.nanos() + b.nanos(), format)
}

/// Returns what an object uses at this time.
pub(super) fn usage_of(resource: &GroupResource, object: &Value, now: Timestamp) -> Usage {
    let mut usage = Usage::from([(format!("count/{resource}"), one())]);
    if !resource.group.is_empty() {
        return usage;
    }
    match resource.resource.as_str() {
        "pods" if !is_over(object, now) => pod_usage(object, &mut usage),
        "pods" => {}
        "services" => service_usage(object, &mut usage),
        "persistentvolumeclaims" => claim_usage(object, &mut usage),
        name if NAMED.contains(&name) => drop(usage.insert(name.to_owned(), one())),
        _ => {}
    }
    usage
}

/// Pods that ended use nothing, nor do those that are long overdue to go.
fn is_over(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")) {
        return true;
    }
    let deleted = pod.str_at(&["metadata", "deletionTimestamp"]).and_then(parse_time);
    let grace = pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]);
    deleted.zip(grace).is_some_and(|(deleted, grace)| {
        deleted.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| end < now)
    })
}

fn pod_usage(pod: &Value, usage: &mut Usage) {
    usage.insert("pods".to_owned(), one());
    for (name, amount) in pod_amounts(pod, "requests") {
        let plain = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
        if plain || name.starts_with("hugepages-") {
            usage.insert(name.clone(), amount.clone());
        }
        if plain || name.starts_with("hugepages-") || name.contains('/') {
            usage.insert(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in pod_amounts(pod, "limits") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
}

fn amounts(container: &Value, field: &str) -> Usage {
    let amounts = container.map_at(&["resources", field]).into_iter().flatten();
    amounts
        .filter_map(|(name, value)| Some((name.clone(), Quantity::from_value(value).ok()?)))
        .collect()
}

fn raise(total: &mut Usage, other: &Usage) {
    for (name, amount) in other {
        let higher = total.get(name).is_none_or(|known| known.nanos() < amount.nanos());
        if higher {
            total.insert(name.clone(), amount.clone());
        }
    }
}

/// What the containers of a pod ask for together: those that run side by side add up, those that
/// run one after the other count by the largest.
pub(super) fn pod_amounts(pod: &Value, field: &str) -> Usage {
    let mut total = Usage::new();
    for container in pod.list_at(&["spec", "containers"]) {
        add(&mut total, amounts(container, field));
    }
    let (mut sidecars, mut peak) = (Usage::new(), Usage::new());
    for container in pod.list_at(&["spec", "initContainers"]) {
        let own = amounts(container, field);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            add(&mut total, own.clone());
            add(&mut sidecars, own);
            raise(&mut peak, &sidecars);
        } else {
            let mut during = sidecars.clone();
            add(&mut during, own);
            raise(&mut peak, &during);
        }
    }
    raise(&mut total, &peak);
    // What is asked for the pod as a whole stands above its containers.
    for (name, amount) in amounts(&pod["spec"], field) {
        total.insert(name, amount);
    }
    for (name, value) in pod.map_at(&["spec", "overhead"]).into_iter().flatten() {
        if let Ok(amount) = Quantity::from_value(value)
            && (field == "requests" || total.contains_key(name))
        {
            add(&mut total, Usage::from([(name.clone(), amount)]));
        }
    }
    total
}

fn service_usage(service: &Value, usage: &mut Usage) {
    let ports = service.list_at(&["spec", "ports"]);
    let count =
        |number: usize| Quantity::new(i64::try_from(number).unwrap_or(0), Format::DecimalSi);
    let kind = service.str_at(&["spec", "type"]).unwrap_or_default();
    let allocates = service.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(false);
    let chosen = ports.iter().filter(|port| port.i64_at(&["nodePort"]).unwrap_or(0) != 0).count();
    let node_ports = match kind {
        "NodePort" => ports.len(),
        "LoadBalancer" if allocates => ports.len(),
        "LoadBalancer" => chosen,
        _ => 0,
    };
    usage.insert("services".to_owned(), one());
    usage.insert("services.nodeports".to_owned(), count(node_ports));
    usage.insert("services.loadbalancers".to_owned(), count(usize::from(kind == "LoadBalancer")));
}

fn claim_usage(claim: &Value, usage: &mut Usage) {
    let storage = claim.at(&["spec", "resources", "requests", "storage"]);
    let storage = storage.and_then(|storage| Quantity::from_value(storage).ok());
    let class = claim
        .annotation("volume.beta.kubernetes.io/storage-class")
        .or(claim.str_at(&["spec", "storageClassName"]))
        .filter(|class| !class.is_empty());
    usage.insert("persistentvolumeclaims".to_owned(), one());
    if let Some(class) = class {
        let prefix = format!("{class}.storageclass.storage.k8s.io/");
        usage.insert(format!("{prefix}persistentvolumeclaims"), one());
        if let Some(storage) = &storage {
            usage.insert(format!("{prefix}requests.storage"), storage.clone());
        }
    }
    if let Some(storage) = storage {
        usage.insert("requests.storage".to_owned(), storage);
    }
}

/// Whether the scopes of a quota's `spec` take the object; without scopes everything is taken.
pub(super) fn covers(spec: &Value, resource: &GroupResource, object: &Value) -> bool {
    let scopes = spec.list_at(&["scopes"]).iter().filter_map(Value::as_str);
    let selected = spec.list_at(&["scopeSelector", "matchExpressions"]);
    let mut asked = false;
    let is_pod = resource.group.is_empty() && resource.resource == "pods";
    for scope in scopes {
        asked = true;
        if !is_pod || !in_scope(object, scope, None) {
            return false;
        }
    }
    for expression in selected {
        asked = true;
        let scope = expression.str_at(&["scopeName"]).unwrap_or_default();
        if !is_pod || !in_scope(object, scope, Some(expression)) {
            return false;
        }
    }
    // Scopes are about pods; a quota that has them counts nothing else.
    !asked || is_pod
}

fn in_scope(pod: &Value, scope: &str, expression: Option<&Value>) -> bool {
    let terminating = pod.i64_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|s| s >= 0);
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => has_priority(pod, expression),
        "CrossNamespacePodAffinity" => has_cross_namespace_affinity(pod),
        _ => false,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    qos_class(pod) == "BestEffort"
}

fn has_priority(pod: &Value, expression: Option<&Value>) -> bool {
    let class = pod.str_at(&["spec", "priorityClassName"]).unwrap_or_default();
    let Some(expression) = expression else { return !class.is_empty() };
    let mut values = expression.list_at(&["values"]).iter().filter_map(Value::as_str);
    match expression.str_at(&["operator"]) {
        Some("Exists") => !class.is_empty(),
        Some("DoesNotExist") => class.is_empty(),
        Some("In") => !class.is_empty() && values.any(|value| value == class),
        Some("NotIn") => class.is_empty() || !values.any(|value| value == class),
        _ => false,
    }
}

fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let elsewhere = |term: &Value| {
        !term.list_at(&["namespaces"]).is_empty()
            || term.at(&["namespaceSelector"]).is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let own = ["spec", "affinity", kind];
        let affinity = pod.at(&own);
        affinity.is_some_and(|affinity| {
            let required = affinity.list_at(&["requiredDuringSchedulingIgnoredDuringExecution"]);
            let preferred = affinity.list_at(&["preferredDuringSchedulingIgnoredDuringExecution"]);
            let preferred = preferred.iter().filter_map(|term| term.at(&["podAffinityTerm"]));
            required.iter().chain(preferred).any(elsewhere)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn usage(resource: &str, object: Value) -> BTreeMap<String, String> {
        let now = parse_time("2026-01-01T00:00:00Z").unwrap();
        let usage = usage_of(&GroupResource::new("", resource), &object, now);
        usage.into_iter().map(|(name, amount)| (name, amount.canonical())).collect()
    }

    #[test]
    fn pods_use_what_their_containers_ask_for_until_they_end() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("100m");
        sidecar["restartPolicy"] = "Always".into();
        let pod = |phase: &str| {
            json!({"spec": {"containers": [container("200m"), container("300m")],
                "initContainers": [sidecar.clone(), container("800m")]},
                "status": {"phase": phase}})
        };
        let running = usage("pods", pod("Running"));
        assert_eq!(running["requests.cpu"], "900m");
        assert_eq!((running["pods"].as_str(), running["count/pods"].as_str()), ("1", "1"));
        let ended = usage("pods", pod("Succeeded"));
        assert_eq!(ended.keys().collect::<Vec<_>>(), ["count/pods"]);
    }

    #[test]
    fn services_use_ports_and_claims_use_storage() {
        let service =
            usage("services", json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}}));
        assert_eq!(service["services.nodeports"], "2");
        assert_eq!(service["services.loadbalancers"], "1");
        let claim = usage(
            "persistentvolumeclaims",
            json!({"spec": {"storageClassName": "gold",
                "resources": {"requests": {"storage": "1Gi"}}}}),
        );
        assert_eq!(claim["gold.storageclass.storage.k8s.io/requests.storage"], "1Gi");
    }

    #[test]
    fn scopes_select_pods() {
        let pods = GroupResource::new("", "pods");
        let long = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}]}});
        let short = json!({"spec": {"activeDeadlineSeconds": 5, "containers": [{}]}});
        let scoped = |scope: &str| json!({"scopes": [scope]});
        let cases = [
            ("Terminating", false, true),
            ("NotTerminating", true, false),
            ("BestEffort", false, true),
            ("NotBestEffort", true, false),
        ];
        for (scope, first, second) in cases {
            let found = [&long, &short].map(|pod| covers(&scoped(scope), &pods, pod));
            assert_eq!(found, [first, second], "{scope}");
        }
        assert!(!covers(&scoped("Terminating"), &GroupResource::new("", "services"), &json!({})));
        assert!(covers(&json!({}), &GroupResource::new("", "services"), &json!({})));
    }

    #[test]
    fn every_amount_has_a_source() {
        let cases = [
            ("cpu", Some("pods")),
            ("limits.memory", Some("pods")),
            ("requests.storage", Some("persistentvolumeclaims")),
            ("services.nodeports", Some("services")),
            ("count/deployments.apps", Some("deployments.apps")),
            ("requests.example.com/gpu", Some("pods")),
            ("unknown", None),
        ];
        for (name, expected) in cases {
            assert_eq!(source_of(name).map(|source| source.to_string()).as_deref(), expected);
        }
    }
}

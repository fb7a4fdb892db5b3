//! LimitRange as admission applies it: defaults for containers that say nothing, bounds for all.

use std::collections::BTreeMap;

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Map, Value};

type Amounts = BTreeMap<String, Quantity>;

fn amounts(value: Option<&Value>) -> Amounts {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.to_string(), Quantity::from_value(amount).ok()?)))
        .collect()
}

fn items<'a>(range: &'a Value, kind: &str) -> Vec<&'a Value> {
    let limits = range.list_at(&["spec", "limits"]).iter();
    limits.filter(|item| item.str_at(&["type"]) == Some(kind)).collect()
}

/// Fills in the requests and limits a pod leaves out, and notes so in an annotation.
pub fn complete_pod(pod: &mut Value, range: &Value) {
    let (mut limits, mut requests) = (Map::new(), Map::new());
    for item in items(range, "Container") {
        for (from, to) in [("default", &mut limits), ("defaultRequest", &mut requests)] {
            let given = item.at(&[from]).and_then(Value::as_object).into_iter().flatten();
            to.extend(given.map(|(name, amount)| (name.clone(), amount.clone())));
        }
    }
    let mut notes = Vec::new();
    for (field, words) in [("containers", "container"), ("initContainers", "init container")] {
        let count = pod.list_at(&["spec", field]).len();
        for index in 0..count {
            let container = &mut pod["spec"][field][index];
            let name = container.str_at(&["name"]).unwrap_or_default().to_owned();
            for (place, defaults, word) in
                [("requests", &requests, "request"), ("limits", &limits, "limit")]
            {
                let set = complete(container, place, defaults);
                if !set.is_empty() {
                    notes.push(format!("{} {word} for {words} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.set(&["metadata", "annotations", "kubernetes.io/limit-ranger"], note);
    }
}

/// Adds what is missing; returns the names of what was added.
fn complete(container: &mut Value, place: &str, defaults: &Map) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults {
        if container.at(&["resources", place, name]).is_none() {
            container.set(&["resources", place, name], amount.clone());
            set.push(name.to_string());
        }
    }
    set.sort();
    set
}

/// What is wrong with a pod or claim by a LimitRange.
pub fn check(kind: &str, object: &Value, range: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    match kind {
        "Pod" => {
            for item in items(range, "Container") {
                for field in ["initContainers", "containers"] {
                    for container in object.list_at(&["spec", field]) {
                        let requests = amounts(container.at(&["resources", "requests"]));
                        let limits = amounts(container.at(&["resources", "limits"]));
                        check_item(item, "Container", &requests, &limits, &mut problems);
                    }
                }
            }
            let requests = pod_amounts(object, "requests");
            let limits = pod_amounts(object, "limits");
            for item in items(range, "Pod") {
                check_item(item, "Pod", &requests, &limits, &mut problems);
            }
        }
        "PersistentVolumeClaim" => {
            let requests = amounts(object.at(&["spec", "resources", "requests"]));
            for item in items(range, kind) {
                check_claim(item, &requests, &mut problems);
            }
        }
        _ => {}
    }
    problems
}

/// What all containers of a pod ask for together; starting ones count only where they need more.
pub fn pod_amounts(pod: &Value, place: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in pod.list_at(&["spec", "containers"]) {
        for (name, amount) in amounts(container.at(&["resources", place])) {
            let sum = total.get(&name).map_or(0, Quantity::nanos) + amount.nanos();
            total.insert(name, Quantity::from_nanos(sum, amount.format()));
        }
    }
    for container in pod.list_at(&["spec", "initContainers"]) {
        for (name, amount) in amounts(container.at(&["resources", place])) {
            if total.get(&name).is_none_or(|own| own.nanos() < amount.nanos()) {
                total.insert(name, amount);
            }
        }
    }
    total
}

fn check_item(
    item: &Value,
    kind: &str,
    requests: &Amounts,
    limits: &Amounts,
    problems: &mut Vec<String>,
) {
    for (name, least) in amounts(item.at(&["min"])) {
        let begin = format!("minimum {name} usage per {kind} is {}", least.canonical());
        let below = |amount: Option<&Quantity>| {
            amount.filter(|amount| amount.nanos() < least.nanos()).map(Quantity::canonical)
        };
        if !requests.contains_key(&name) {
            problems.push(format!("{begin}.  No request is specified"));
        } else if let Some(found) = below(requests.get(&name)) {
            problems.push(format!("{begin}, but request is {found}"));
        } else if let Some(found) = below(limits.get(&name)) {
            problems.push(format!("{begin}, but limit is {found}"));
        }
    }
    for (name, most) in amounts(item.at(&["max"])) {
        let begin = format!("maximum {name} usage per {kind} is {}", most.canonical());
        let above = |amount: Option<&Quantity>| {
            amount.filter(|amount| amount.nanos() > most.nanos()).map(Quantity::canonical)
        };
        if !limits.contains_key(&name) {
            problems.push(format!("{begin}.  No limit is specified"));
        } else if let Some(found) = above(limits.get(&name)) {
            problems.push(format!("{begin}, but limit is {found}"));
        } else if let Some(found) = above(requests.get(&name)) {
            problems.push(format!("{begin}, but request is {found}"));
        }
    }
    for (name, ratio) in amounts(item.at(&["maxLimitRequestRatio"])) {
        let begin =
            format!("{name} max limit to request ratio per {kind} is {}", ratio.canonical());
        match (requests.get(&name), limits.get(&name)) {
            (Some(request), Some(limit)) if !request.is_zero() && !limit.is_zero() => {
                let found = limit.as_f64() / request.as_f64();
                if found > ratio.as_f64() {
                    problems.push(format!("{begin}, but provided ratio is {found:.6}"));
                }
            }
            _ => problems.push(format!("{begin}, but no request is specified or request is 0")),
        }
    }
}

fn check_claim(item: &Value, requests: &Amounts, problems: &mut Vec<String>) {
    let bounds = [("min", "minimum"), ("max", "maximum")];
    for (bound, word) in bounds {
        for (name, amount) in amounts(item.at(&[bound])) {
            let begin =
                format!("{word} {name} usage per PersistentVolumeClaim is {}", amount.canonical());
            match requests.get(&name) {
                None => problems.push(format!("{begin}.  No request is specified")),
                Some(found) => {
                    let broken = match bound {
                        "min" => found.nanos() < amount.nanos(),
                        _ => found.nanos() > amount.nanos(),
                    };
                    if broken {
                        problems.push(format!("{begin}, but request is {}", found.canonical()));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    // Shows: RQ-1
    #[test]
    fn a_pod_is_completed_then_held_to_its_bounds() {
        let range = json!({"spec": {"limits": [{
            "type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "10m"},
            "default": {"cpu": "500m", "memory": "64Mi"},
            "defaultRequest": {"cpu": "100m", "memory": "64Mi"},
        }]}});
        let mut pod = json!({"spec": {"containers": [{"name": "a"}]}});
        complete_pod(&mut pod, &range);
        assert_eq!(
            pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
            "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a"
        );
        assert_eq!(check("Pod", &pod, &range), Vec::<String>::new());
        pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "3".into();
        let problems = check("Pod", &pod, &range);
        assert_eq!(problems, ["maximum cpu usage per Container is 2, but limit is 3"]);
    }
}

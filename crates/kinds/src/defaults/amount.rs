//! Rules for resource amounts: the precision they are kept in, and what a pod as a whole asks for.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::quantity::Quantity;

/// Rounds the limits and requests of a container or claim.
pub(super) fn round_resources(resources: &mut Value) {
    for list in ["limits", "requests"] {
        if let Some(list) = resources.get_mut(list) {
            round_list(list);
        }
    }
}

/// Amounts are kept to a thousandth; what is finer is rounded up.
pub(super) fn round_list(list: &mut Value) {
    const MILLI: i128 = 1_000_000;
    for amount in list.as_object_mut().into_iter().flat_map(|list| list.values_mut()) {
        let Ok(exact) = Quantity::from_value(amount) else { continue };
        let rest = exact.nanos() % MILLI;
        if rest != 0 {
            let rounded = exact.nanos() - rest + rest.signum() * MILLI;
            *amount = Quantity::from_nanos(rounded, exact.format()).canonical().into();
        }
    }
}

type Amounts = BTreeMap<String, Quantity>;

/// Fills limits and requests of the pod as a whole from its containers, where it has any of its own.
pub(super) fn pod_level(spec: &mut Value) {
    let has = |spec: &Value, list: &str| {
        spec.map_at(&["resources", list]).is_some_and(|list| !list.is_empty())
    };
    if has(spec, "limits") || has(spec, "requests") {
        for (name, amount) in aggregate(spec, "limits") {
            let is_open =
                is_huge_page(&name) && spec.at(&["resources", "requests", &name]).is_none();
            if is_open {
                spec.set_default(&["resources", "limits", &name], amount.to_string());
            }
        }
    }
    if !has(spec, "limits") {
        return;
    }
    for (name, amount) in aggregate(spec, "requests") {
        if matches!(name.as_str(), "cpu" | "memory") {
            spec.set_default(&["resources", "requests", &name], amount.to_string());
        }
    }
    for (name, limit) in spec.map_at(&["resources", "limits"]).cloned().unwrap_or_default() {
        if matches!(name.as_str(), "cpu" | "memory") || is_huge_page(&name) {
            spec.set_default(&["resources", "requests", &name], limit);
        }
    }
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// What the containers need together: the running ones at once, or the largest step of starting up.
fn aggregate(spec: &Value, list: &str) -> Amounts {
    let mut running = Amounts::new();
    for container in spec.list_at(&["containers"]) {
        add(&mut running, &amounts(container, list));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.list_at(&["initContainers"]) {
        let mut step = amounts(container, list);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            add(&mut running, &step);
            add(&mut sidecars, &step);
            step = sidecars.clone();
        } else {
            add(&mut step, &sidecars);
        }
        raise(&mut starting, step);
    }
    raise(&mut running, starting);
    running
}

fn amounts(container: &Value, list: &str) -> Amounts {
    let amounts = container.map_at(&["resources", list]).into_iter().flatten();
    amounts
        .filter_map(|(name, amount)| Some((name.to_string(), Quantity::from_value(amount).ok()?)))
        .collect()
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match to.get_mut(name) {
            Some(sum) => *sum += amount,
            None => {
                to.insert(name.clone(), amount.clone());
            }
        }
    }
}

fn raise(to: &mut Amounts, other: Amounts) {
    for (name, amount) in other {
        if to.get(&name).is_none_or(|have| *have < amount) {
            to.insert(name, amount);
        }
    }
}

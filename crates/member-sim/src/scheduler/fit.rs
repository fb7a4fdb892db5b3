//! How much a pod asks for, and how much a node has.

use std::collections::BTreeMap;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::Quantity;

/// Amounts by resource: processors in thousandths, everything else in whole units.
pub(super) type Amounts = BTreeMap<String, i64>;

/// Reads a list of resources; what cannot be read counts as nothing.
pub(super) fn amounts(list: Option<&Value>) -> Amounts {
    let entries = list.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(name, value)| {
            let quantity = Quantity::from_value(value).ok()?;
            let amount = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
            Some((name.to_string(), amount))
        })
        .collect()
}

pub(super) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *to.entry(name.clone()).or_default() += amount;
    }
}

pub(super) fn subtract(from: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        *from.entry(name.clone()).or_default() -= amount;
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = to.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// What a pod asks for: its containers together, or its hungriest init container if that is more.
pub(super) fn requests(pod: &Value) -> Amounts {
    let of = |container: &Value| amounts(container.at(&["resources", "requests"]));
    let mut total = Amounts::new();
    for container in pod.list_at(&["spec", "containers"]) {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in pod.list_at(&["spec", "initContainers"]) {
        let own = of(container);
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &own);
            raise(&mut peak, &together);
        }
    }
    raise(&mut total, &peak);
    // Requests of the pod as a whole stand for those of its containers.
    for (name, amount) in amounts(pod.at(&["spec", "resources", "requests"])) {
        total.insert(name, amount);
    }
    add(&mut total, &amounts(pod.at(&["spec", "overhead"])));
    total.retain(|_, amount| *amount != 0);
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_pod_asks_for_its_containers_or_its_largest_init_container() {
        let asks = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}});
        let mut sidecar = asks("50m");
        sidecar["restartPolicy"] = "Always".into();
        let pod = json!({"spec": {
            "containers": [asks("100m"), asks("200m")],
            "initContainers": [sidecar, asks("1")],
            "overhead": {"cpu": "10m"},
        }});
        let total = requests(&pod);
        assert_eq!(total["cpu"], 1060);
        assert_eq!(total["memory"], 3 << 20);
    }
}

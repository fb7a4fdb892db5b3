//! A Node in words, with the pods on it.

use std::collections::BTreeMap;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::{Format, Quantity};
use karmada_apimachinery::{Value, time};
use karmada_client::ListOptions;

use super::moment;
use super::tabs::{Text, plain};
use crate::context::Server;

const ROLE: &str = "node-role.kubernetes.io/";
const OLD_ROLE: &str = "kubernetes.io/role";

pub(super) async fn describe(server: &Server, node: &Value) -> Text {
    let options = ListOptions {
        field_selector: format!(
            "spec.nodeName={},status.phase!=Succeeded,status.phase!=Failed",
            node.name()
        ),
        ..ListOptions::default()
    };
    let pods = server.client.api(&crate::pods::pods()).list_all(&options).await;
    // Without the right to read them the node is described all the same.
    let pods: Option<Vec<Value>> =
        pods.ok().map(|list| list.items.iter().map(|item| item.value()).collect());
    let lease = server.client.api(&Gvr::new("coordination.k8s.io", "v1", "leases"));
    let lease = lease.namespaced("kube-node-lease").get(node.name()).await;
    let lease = lease.map_err(|error| {
        error.api().map_or_else(|| error.to_string(), |status| status.message.clone())
    });
    let options = ListOptions {
        field_selector: format!("spec.nodeName={}", node.name()),
        ..ListOptions::default()
    };
    let slices = server.client.api(&Gvr::new("resource.k8s.io", "v1", "resourceslices"));
    // Older members have no such kind.
    let slices = slices.list_all(&options).await.map(|list| list.items).unwrap_or_default();
    let slices: Vec<Value> = slices.iter().map(|item| item.value()).collect();
    render(node, &Around { lease, slices, pods }, jiff::Timestamp::now())
}

/// What belongs to a node and stands elsewhere.
#[derive(Debug)]
struct Around {
    /// Or why it cannot be shown.
    lease: Result<Value, String>,
    slices: Vec<Value>,
    /// Unless they may not be read.
    pods: Option<Vec<Value>>,
}

fn render(node: &Value, around: &Around, now: jiff::Timestamp) -> Text {
    let mut out = Text::default();
    let text = |path: &[&str]| node.str_at(path).unwrap_or_default();
    out.field(0, "Name", node.name());
    let labels = node.map_at(&["metadata", "labels"]).into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE) {
            Some(role) => Some(role),
            None => (key == OLD_ROLE).then(|| value.as_str().unwrap_or_default()),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    out.field(0, "Roles", roles.join(","));
    out.pairs("Labels", node, "labels", "=");
    out.pairs("Annotations", node, "annotations", ": ");
    out.field(
        0,
        "CreationTimestamp",
        moment(node, &["metadata", "creationTimestamp"]).unwrap_or_default(),
    );
    let mut taints: Vec<&Value> = node.list_at(&["spec", "taints"]).iter().collect();
    taints.sort_by_key(|own| (own.str_at(&["effect"]), own.str_at(&["key"])));
    let taints: Vec<String> = taints.into_iter().map(taint).collect();
    out.many(0, "Taints", &taints);
    out.field(
        0,
        "Unschedulable",
        node.bool_at(&["spec", "unschedulable"]).unwrap_or_default().to_string(),
    );
    write_lease(&mut out, &around.lease);
    let conditions = node.list_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        out.line(0, "Conditions:");
        out.line(1, "Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage");
        out.line(1, "----\t------\t-----------------\t------------------\t------\t-------");
        for condition in conditions {
            let part = |field: &str| condition.str_at(&[field]).unwrap_or_default();
            let at = |field: &str| moment(condition, &[field]).unwrap_or_default();
            // Compat: the blanks behind the cells.
            out.line(
                1,
                &format!(
                    "{} \t{} \t{} \t{} \t{} \t{}",
                    part("type"),
                    part("status"),
                    at("lastHeartbeatTime"),
                    at("lastTransitionTime"),
                    part("reason"),
                    part("message")
                ),
            );
        }
    }
    out.line(0, "Addresses:");
    for address in node.list_at(&["status", "addresses"]) {
        let part = |field: &str| address.str_at(&[field]).unwrap_or_default();
        out.field(1, part("type"), part("address"));
    }
    for (field, heading) in [("capacity", "Capacity"), ("allocatable", "Allocatable")] {
        if let Some(amounts) = node.map_at(&["status", field]).filter(|map| !map.is_empty()) {
            out.line(0, &format!("{heading}:"));
            amounts.iter().for_each(|(name, amount)| out.field(1, name, plain(amount)));
        }
    }
    write_slices(&mut out, &around.slices);
    out.line(0, "System Info:");
    for (heading, field) in [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
    ] {
        out.line(1, &format!("{heading}:\t{}", text(&["status", "nodeInfo", field])));
    }
    out.field_if_any(0, "PodCIDR", node.str_at(&["spec", "podCIDR"]));
    let cidrs = node.list_at(&["spec", "podCIDRs"]).iter().map(plain).collect::<Vec<_>>().join(",");
    out.field_if_any(0, "PodCIDRs", Some(&cidrs));
    out.field_if_any(0, "ProviderID", node.str_at(&["spec", "providerID"]));
    match &around.pods {
        Some(pods) => write_pods(&mut out, node, pods, now),
        None => out.field(0, "Pods", "not authorized"),
    }
    out
}

fn write_lease(out: &mut Text, lease: &Result<Value, String>) {
    let lease = match lease {
        Ok(lease) => lease,
        Err(error) => return out.field(0, "Lease", format!("Failed to get lease: {error}")),
    };
    out.line(0, "Lease:");
    let holder = lease.str_at(&["spec", "holderIdentity"]).unwrap_or("<unset>");
    out.field(1, "HolderIdentity", holder);
    for (heading, field) in [("AcquireTime", "acquireTime"), ("RenewTime", "renewTime")] {
        out.field(1, heading, moment(lease, &["spec", field]).unwrap_or("<unset>".to_owned()));
    }
}

/// Devices of a node, by the pool they are in.
fn write_slices(out: &mut Text, slices: &[Value]) {
    const SHOWN: usize = 10;
    let mut pools: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for slice in slices {
        let part = |path: &[&str]| slice.str_at(path).unwrap_or_default();
        let pool = (part(&["spec", "driver"]), part(&["spec", "pool", "name"]));
        let (count, devices) = pools.entry(pool).or_default();
        *count += 1;
        *devices += slice.list_at(&["spec", "devices"]).len();
    }
    if pools.is_empty() {
        return;
    }
    out.line(0, "Node-Local ResourceSlices:");
    out.line(1, "Driver\tPool\tSlices\tDevices");
    out.line(1, "------\t----\t------\t-------");
    for ((driver, pool), (count, devices)) in pools.iter().take(SHOWN) {
        out.line(1, &format!("{driver}\t{pool}\t{count}\t{devices}"));
    }
    if let Some(more) = pools.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        out.line(1, &format!("...and {more} more pools"));
    }
}

fn taint(taint: &Value) -> String {
    let part = |field: &str| taint.str_at(&[field]).unwrap_or_default();
    match part("value") {
        "" => format!("{}:{}", part("key"), part("effect")),
        value => format!("{}={value}:{}", part("key"), part("effect")),
    }
}

/// The pods of a node, and what they ask for together.
fn write_pods(out: &mut Text, node: &Value, pods: &[Value], now: jiff::Timestamp) {
    out.line(0, &format!("Non-terminated Pods:\t({} in total)", pods.len()));
    out.line(1, "Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge");
    out.line(1, "---------\t----\t\t------------\t----------\t---------------\t-------------\t---");
    let share = |amount: &Quantity, resource: &str| share(node, amount, resource);
    for pod in pods {
        let created = pod.str_at(&["metadata", "creationTimestamp"]).and_then(time::parse_time);
        let age = created.map(|at| time::human_duration(now.duration_since(at)));
        let mut cells = vec![pod.namespace().to_owned(), pod.name().to_owned(), String::new()];
        for resource in ["cpu", "memory"] {
            for field in ["requests", "limits"] {
                cells.push(share(&amount(pod, field, resource), resource));
            }
        }
        cells.push(age.unwrap_or_default());
        out.line(1, &cells.join("\t"));
    }
    out.line(0, "Allocated resources:");
    out.line(1, "(Total limits may be over 100 percent, i.e., overcommitted.)");
    out.line(1, "Resource\tRequests\tLimits");
    out.line(1, "--------\t--------\t------");
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let total = |field: &str| {
            let all: Vec<Quantity> = pods.iter().map(|pod| amount(pod, field, resource)).collect();
            share(&sum(&all), resource)
        };
        out.line(1, &format!("{resource}\t{}\t{}", total("requests"), total("limits")));
    }
}

/// `10m (0%)`: an amount, and how much of the node that is.
fn share(node: &Value, amount: &Quantity, resource: &str) -> String {
    let room = ["allocatable", "capacity"]
        .iter()
        .find_map(|field| node.at(&["status", field, resource]))
        .and_then(|room| Quantity::from_value(room).ok());
    let percent = match room.filter(|room| !room.is_zero()) {
        // Whole percents are shown; the rest is cut off.
        Some(room) => (amount.as_f64() / room.as_f64() * 100.0) as i64,
        None => 0,
    };
    format!("{} ({percent}%)", amount.canonical())
}

/// What a pod asks for: its containers together, or the one before them that needs more.
fn amount(pod: &Value, field: &str, resource: &str) -> Quantity {
    let read = |from: Option<&Value>| from.and_then(|own| Quantity::from_value(own).ok());
    let of = |container: &Value| read(container.at(&["resources", field, resource]));
    let more = |a: Quantity, b: Quantity| if b.nanos() > a.nanos() { b } else { a };
    let own: Vec<Quantity> = pod.list_at(&["spec", "containers"]).iter().filter_map(of).collect();
    let (mut beside, mut most) = (Vec::new(), Quantity::new(0, Format::DecimalSi));
    for container in pod.list_at(&["spec", "initContainers"]) {
        let Some(amount) = of(container) else { continue };
        let mut now = beside.clone();
        now.push(amount);
        most = more(sum(&now), most);
        // One that stays is there together with all that come later.
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            beside = now;
        }
    }
    let together: Vec<Quantity> = own.into_iter().chain(beside).collect();
    let total = more(sum(&together), most);
    // What is said of the pod as a whole counts instead.
    let total = read(pod.at(&["spec", "resources", field, resource])).unwrap_or(total);
    match read(pod.at(&["spec", "overhead", resource])) {
        Some(overhead) if field == "requests" || !total.is_zero() => sum(&[total, overhead]),
        _ => total,
    }
}

fn sum(amounts: &[Quantity]) -> Quantity {
    let set = amounts.iter().find(|amount| !amount.is_zero()).or(amounts.first());
    let format = set.map_or(Format::DecimalSi, Quantity::format);
    Quantity::from_nanos(amounts.iter().map(Quantity::nanos).sum(), format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_node_shows_what_it_has_and_what_runs_there() {
        let node = json!({
            "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": true},
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi"}, "nodeInfo": {"kubeletVersion": "v1.36.3"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}]}});
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}});
        let slice = json!({"spec": {"driver": "gpu", "pool": {"name": "p"}, "devices": [{}, {}]}});
        let around =
            Around { lease: Err("gone".into()), slices: vec![slice], pods: Some(vec![pod]) };
        let text = render(&node, &around, "2026-01-01T00:01:00Z".parse().unwrap()).align();
        for part in [
            "Roles:              worker\n",
            "Taints:             a=b:NoSchedule\n",
            "Unschedulable:      true\nLease:              Failed to get lease: gone\n",
            "  gpu     p     1       2\n",
            "  Ready   True                                           KubeletReady   ok\n",
            "  InternalIP:  10.0.0.1\n",
            "  cpu:     4\n  memory:  8Gi\n",
            "  Kubelet Version:            v1.36.3\n",
            "(1 in total)\n",
            "  default                     p       100m (2%)     0 (0%)      0 (0%)           0 (0%)         60s\n",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}

//! A Node in words, with the pods on it.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::{Format, Quantity};
use karmada_apimachinery::{Value, time};
use karmada_client::ListOptions;

use super::moment;
use super::tabs::{Text, plain};
use crate::context::Server;

const ROLE: &str = "node-role.kubernetes.io/";

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
    let lease = lease.namespaced("kube-node-lease").find(node.name()).await.ok().flatten();
    render(node, lease.as_ref(), pods.as_deref(), jiff::Timestamp::now())
}

fn render(
    node: &Value,
    lease: Option<&Value>,
    pods: Option<&[Value]>,
    now: jiff::Timestamp,
) -> Text {
    let mut out = Text::default();
    let text = |path: &[&str]| node.str_at(path).unwrap_or_default();
    out.field(0, "Name", node.name());
    let labels = node.map_at(&["metadata", "labels"]).into_iter().flatten();
    let roles: Vec<&str> = labels.filter_map(|(key, _)| key.strip_prefix(ROLE)).collect();
    out.field(0, "Roles", roles.join(","));
    out.pairs("Labels", node, "labels", "=");
    out.pairs("Annotations", node, "annotations", ": ");
    out.field(
        0,
        "CreationTimestamp",
        moment(node, &["metadata", "creationTimestamp"]).unwrap_or_default(),
    );
    let taints: Vec<String> = node.list_at(&["spec", "taints"]).iter().map(taint).collect();
    out.many(0, "Taints", &taints);
    out.field(
        0,
        "Unschedulable",
        node.bool_at(&["spec", "unschedulable"]).unwrap_or_default().to_string(),
    );
    if let Some(lease) = lease {
        out.line(0, "Lease:");
        out.field(
            1,
            "HolderIdentity",
            lease.str_at(&["spec", "holderIdentity"]).unwrap_or("<unset>"),
        );
        out.field(
            1,
            "AcquireTime",
            moment(lease, &["spec", "acquireTime"]).unwrap_or("<unset>".to_owned()),
        );
        out.field(
            1,
            "RenewTime",
            moment(lease, &["spec", "renewTime"]).unwrap_or("<unset>".to_owned()),
        );
    }
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
    if let Some(pods) = pods {
        write_pods(&mut out, node, pods, now);
    }
    out
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
    let of = |list: &str| -> Vec<Quantity> {
        let containers = pod.list_at(&["spec", list]).iter();
        let amounts = containers.filter_map(|one| one.at(&["resources", field, resource]));
        amounts.filter_map(|amount| Quantity::from_value(amount).ok()).collect()
    };
    let together = sum(&of("containers"));
    of("initContainers")
        .into_iter()
        .fold(together, |most, own| if own.nanos() > most.nanos() { own } else { most })
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
        let text =
            render(&node, None, Some(&[pod]), "2026-01-01T00:01:00Z".parse().unwrap()).align();
        for part in [
            "Roles:              worker\n",
            "Taints:             a=b:NoSchedule\n",
            "Unschedulable:      true\n",
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

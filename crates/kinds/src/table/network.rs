//! Rows of services, endpoints and the networking kinds.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::row::{Row, first_three, or_none};

pub(super) fn service(row: &Row<'_>) -> Vec<Value> {
    let addresses = row.texts(&["spec", "clusterIPs"]);
    let ports =
        row.object.list_at(&["spec", "ports"]).iter().map(port).collect::<Vec<_>>().join(",");
    vec![
        row.name(),
        row.text(&["spec", "type"]),
        addresses.first().copied().unwrap_or("<none>").into(),
        external_address(row).into(),
        or_none(&ports).into(),
        row.age(),
        row.labels(&["spec", "selector"]),
    ]
}

fn port(port: &Value) -> String {
    let number = port.i64_at(&["port"]).unwrap_or_default();
    let protocol = port.str_at(&["protocol"]).unwrap_or_default();
    match port.i64_at(&["nodePort"]) {
        Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_address(row: &Row<'_>) -> String {
    let given = row.texts(&["spec", "externalIPs"]).join(",");
    match row.str(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => or_none(&given).to_owned(),
        "LoadBalancer" => {
            let balancer = balancer_addresses(row);
            let all: Vec<&str> =
                [balancer.as_str(), &given].into_iter().filter(|part| !part.is_empty()).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => row.str(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Addresses or host names of the load balancer, sorted.
fn balancer_addresses(row: &Row<'_>) -> String {
    let entries = row.object.list_at(&["status", "loadBalancer", "ingress"]).iter();
    let mut names: Vec<&str> = entries
        .filter_map(|entry| {
            ["ip", "hostname"]
                .iter()
                .find_map(|field| entry.str_at(&[field]).filter(|t| !t.is_empty()))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names.join(",")
}

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Value> {
    let subsets = row.object.list_at(&["subsets"]);
    let mut list = Vec::new();
    for subset in subsets {
        let addresses = subset.list_at(&["addresses"]).iter();
        let addresses: Vec<&str> =
            addresses.map(|address| address.str_at(&["ip"]).unwrap_or_default()).collect();
        let ports = subset.list_at(&["ports"]);
        if ports.is_empty() {
            list.extend(addresses.iter().map(|address| (*address).to_owned()));
        }
        for port in ports {
            let port = port.i64_at(&["port"]).unwrap_or_default();
            list.extend(addresses.iter().map(|address| join(address, port)));
        }
    }
    let shown = if subsets.is_empty() { "<none>".to_owned() } else { first_three(&list) };
    vec![row.name(), shown.into(), row.age()]
}

fn join(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let ports = row.object.list_at(&["ports"]).iter().map(|port| {
        let number = port.i64_at(&["port"]).map(|number| number.to_string());
        let name = || port.str_at(&["name"]).map(str::to_owned);
        number.or_else(name).unwrap_or_else(|| "*".to_owned())
    });
    let addresses = row.object.list_at(&["endpoints"]).iter();
    let addresses = addresses.flat_map(|endpoint| endpoint.list_at(&["addresses"]));
    let addresses = addresses.filter_map(Value::as_str).map(str::to_owned);
    vec![
        row.name(),
        row.text(&["addressType"]),
        or_unset(first_three(&ports.collect::<Vec<_>>())).into(),
        or_unset(first_three(&addresses.collect::<Vec<_>>())).into(),
        row.age(),
    ]
}

fn or_unset(text: String) -> String {
    if text.is_empty() { "<unset>".to_owned() } else { text }
}

pub(super) fn ingress(row: &Row<'_>) -> Vec<Value> {
    let ports = if row.count(&["spec", "tls"]) > 0 { "80, 443" } else { "80" };
    vec![
        row.name(),
        row.text_or(&["spec", "ingressClassName"], "<none>"),
        hosts(row).into(),
        balancer_addresses(row).into(),
        ports.into(),
        row.age(),
    ]
}

/// Compat: rules beyond the third host count as more, whether they name a host or not.
fn hosts(row: &Row<'_>) -> String {
    const SHOWN: usize = 3;
    let rules = row.object.list_at(&["spec", "rules"]);
    let mut list: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == SHOWN;
        let host = rule.str_at(&["host"]).unwrap_or_default();
        if !more && !host.is_empty() {
            list.push(host);
        }
    }
    if list.is_empty() {
        "*".to_owned()
    } else if more {
        format!("{} + {} more...", list.join(","), rules.len() - SHOWN)
    } else {
        list.join(",")
    }
}

pub(super) fn ingress_class(row: &Row<'_>) -> Vec<Value> {
    let is_default =
        row.object.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
    let parameters = row.object.at(&["spec", "parameters"]).filter(|p| p.is_object());
    let parameters = parameters.map_or_else(
        || "<none>".to_owned(),
        |reference| {
            let text = |field: &str| reference.str_at(&[field]).unwrap_or_default();
            let group = reference.str_at(&["apiGroup"]).map(|group| format!(".{group}"));
            format!("{}{}/{}", text("kind"), group.unwrap_or_default(), text("name"))
        },
    );
    vec![
        default_name(row, is_default),
        row.text(&["spec", "controller"]),
        parameters.into(),
        row.age(),
    ]
}

/// The name, marked where this is the class others get by default.
pub(super) fn default_name(row: &Row<'_>, is_default: bool) -> Value {
    let mark = if is_default { " (default)" } else { "" };
    format!("{}{mark}", row.object.name()).into()
}

pub(super) fn ip_address(row: &Row<'_>) -> Vec<Value> {
    let parent = row.object.at(&["spec", "parentRef"]).filter(|parent| parent.is_object());
    let parent = parent.map_or_else(
        || "<none>".to_owned(),
        |parent| {
            let text = |field: &str| parent.str_at(&[field]).unwrap_or_default();
            let (group, namespace) = (text("group"), text("namespace"));
            let dot = if group.is_empty() { "" } else { "." };
            let kind = format!("{}{dot}{group}", text("resource")).to_lowercase();
            let slash = if namespace.is_empty() { "" } else { "/" };
            format!("{kind}{slash}{namespace}/{}", text("name"))
        },
    );
    // Compat: the age is there although no column announces it.
    vec![row.name(), parent.into(), row.age()]
}

pub(super) fn network_policy(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.selector(&["spec", "podSelector"]), row.age()]
}

pub(super) fn service_cidr(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.texts(&["spec", "cidrs"]).join(",").into(), row.age()]
}

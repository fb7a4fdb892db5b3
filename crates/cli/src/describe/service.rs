//! A Service in words, with the endpoints behind it.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::ListOptions;

use super::tabs::{Text, plain};
use crate::context::Server;

pub(super) async fn describe(server: &Server, service: &Value) -> Text {
    let slices = slices(server, service.namespace(), service.name()).await;
    render(service, &slices)
}

/// What stands behind a Service. Without the right to read that there is nothing to show.
pub(super) async fn slices(server: &Server, namespace: &str, service: &str) -> Vec<Value> {
    let slices = Gvr::new("discovery.k8s.io", "v1", "endpointslices");
    let slices = server.client.api(&slices).namespaced(namespace);
    let options = ListOptions {
        label_selector: format!("kubernetes.io/service-name={service}"),
        ..ListOptions::default()
    };
    let found = slices.list_all(&options).await.map(|list| list.items).unwrap_or_default();
    found.iter().map(|slice| slice.value()).collect()
}

fn render(service: &Value, slices: &[Value]) -> Text {
    let mut out = Text::default();
    let text = |path: &[&str]| service.str_at(path).unwrap_or_default();
    let list =
        |path: &[&str]| service.list_at(path).iter().map(plain).collect::<Vec<_>>().join(",");
    out.field(0, "Name", service.name());
    out.field(0, "Namespace", service.namespace());
    out.pairs("Labels", service, "labels", "=");
    out.pairs("Annotations", service, "annotations", ": ");
    let selector = service.map_at(&["spec", "selector"]).into_iter().flatten();
    let selector: Vec<String> =
        selector.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    out.field(0, "Selector", selector.join(","));
    out.field(0, "Type", text(&["spec", "type"]));
    out.field_if_any(0, "IP Family Policy", service.str_at(&["spec", "ipFamilyPolicy"]));
    out.field(0, "IP Families", list(&["spec", "ipFamilies"]));
    out.line(0, &format!("IP:\t{}", text(&["spec", "clusterIP"])));
    out.field(0, "IPs", list(&["spec", "clusterIPs"]));
    out.field_if_any(0, "External IPs", Some(&list(&["spec", "externalIPs"])));
    out.field_if_any(0, "Desired LoadBalancer IP", service.str_at(&["spec", "loadBalancerIP"]));
    out.field_if_any(0, "External Name", service.str_at(&["spec", "externalName"]));
    let ingress = service.list_at(&["status", "loadBalancer", "ingress"]).iter();
    let ingress: Vec<String> = ingress.map(entrance).collect();
    out.field_if_any(0, "LoadBalancer Ingress", Some(&ingress.join(", ")));
    for port in service.list_at(&["spec", "ports"]) {
        let name = port.str_at(&["name"]).unwrap_or("<unset>");
        let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
        let number = |field: &str| port.get(field).map(plain).unwrap_or_default();
        out.line(0, &format!("Port:\t{name}\t{}/{protocol}", number("port")));
        out.field(0, "TargetPort", format!("{}/{protocol}", number("targetPort")));
        out.field_if_any(0, "AppProtocol", port.str_at(&["appProtocol"]));
        if port.i64_at(&["nodePort"]).is_some_and(|port| port > 0) {
            out.line(0, &format!("NodePort:\t{name}\t{}/{protocol}", number("nodePort")));
        }
        let behind = endpoints(slices, port.str_at(&["name"]).unwrap_or_default());
        out.line(0, &format!("Endpoints:\t{behind}"));
    }
    out.field(0, "Session Affinity", text(&["spec", "sessionAffinity"]));
    for (heading, field) in [
        ("External Traffic Policy", "externalTrafficPolicy"),
        ("Internal Traffic Policy", "internalTrafficPolicy"),
        ("HealthCheck NodePort", "healthCheckNodePort"),
    ] {
        let value = service.at(&["spec", field]).map(plain).filter(|value| value != "0");
        out.field_if_any(0, heading, value.as_deref());
    }
    let ranges = list(&["spec", "loadBalancerSourceRanges"]);
    out.field_if_any(0, "LoadBalancer Source Ranges", Some(&ranges));
    out.field_if_any(0, "Traffic Distribution", service.str_at(&["spec", "trafficDistribution"]));
    out
}

/// `192.0.2.1 (VIP)`: a way in from outside.
fn entrance(ingress: &Value) -> String {
    let part = |field: &str| ingress.str_at(&[field]).unwrap_or_default();
    match (part("ip"), part("ipMode")) {
        ("", _) => part("hostname").to_owned(),
        (address, "") => address.to_owned(),
        (address, mode) => format!("{address} ({mode})"),
    }
}

/// The first three addresses of a port, and how many more there are.
pub(super) fn endpoints(slices: &[Value], port: &str) -> String {
    const SHOWN: usize = 3;
    if slices.is_empty() {
        return "<none>".to_owned();
    }
    let mut addresses = Vec::new();
    for slice in slices {
        let ports = slice.list_at(&["ports"]);
        let named = ports.iter().filter(|one| one.str_at(&["name"]).unwrap_or_default() == port);
        // A Service without ports leads to addresses alone.
        let numbers: Vec<String> = match ports.is_empty() {
            true => vec![String::new()],
            false => {
                named.filter_map(|one| one.i64_at(&["port"])).map(|n| format!(":{n}")).collect()
            }
        };
        let ready = slice
            .list_at(&["endpoints"])
            .iter()
            .filter(|endpoint| endpoint.bool_at(&["conditions", "ready"]) != Some(false));
        let hosts: Vec<String> =
            ready.filter_map(|one| one.list_at(&["addresses"]).first()).map(plain).collect();
        for number in numbers {
            addresses.extend(hosts.iter().map(|host| {
                match host.contains(':') && !number.is_empty() {
                    true => format!("[{host}]{number}"),
                    false => format!("{host}{number}"),
                }
            }));
        }
    }
    match addresses.len().saturating_sub(SHOWN) {
        0 => addresses.join(","),
        more => format!("{} + {more} more...", addresses[..SHOWN].join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_service_reads_as_kubectl_shows_it() {
        let service = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "selector": {"app": "web"}, "type": "NodePort", "ipFamilyPolicy": "SingleStack",
                "ipFamilies": ["IPv4"], "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
                "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP", "nodePort": 30080}],
                "sessionAffinity": "None", "internalTrafficPolicy": "Cluster"},
        });
        let slice = json!({
            "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": ["10.1.0.2"]}, {"addresses": ["10.1.0.1"]},
                {"addresses": ["10.1.0.9"], "conditions": {"ready": false}}]});
        let expected = "\
Name:                     web
Namespace:                default
Labels:                   <none>
Annotations:              <none>
Selector:                 app=web
Type:                     NodePort
IP Family Policy:         SingleStack
IP Families:              IPv4
IP:                       10.0.0.7
IPs:                      10.0.0.7
Port:                     http  80/TCP
TargetPort:               8080/TCP
NodePort:                 http  30080/TCP
Endpoints:                10.1.0.2:8080,10.1.0.1:8080
Session Affinity:         None
Internal Traffic Policy:  Cluster
";
        assert_eq!(render(&service, &[slice]).align(), expected);
    }
}

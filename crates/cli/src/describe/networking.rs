//! Ingresses, policies of networks, and the addresses behind Services in words, as kubectl 1.36 writes them.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, selector::LabelSelector, time};

use super::service;
use super::tabs::{Text, plain};
use crate::context::Server;

/// A text, or what stands for none.
fn or<'a>(value: &'a Value, path: &[&str], none: &'a str) -> &'a str {
    value.str_at(path).filter(|text| !text.is_empty()).unwrap_or(none)
}

fn joined(value: &Value, path: &[&str], by: &str) -> String {
    value.list_at(path).iter().map(plain).collect::<Vec<_>>().join(by)
}

pub(super) async fn ingress(server: &Server, object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.field(0, "Namespace", object.namespace());
    let given = object.list_at(&["status", "loadBalancer", "ingress"]).iter();
    let address = |one: &Value| {
        let text = one.str_at(&["ip"]).filter(|ip| !ip.is_empty());
        text.or_else(|| one.str_at(&["hostname"])).map(str::to_owned)
    };
    let addresses: std::collections::BTreeSet<String> = given.filter_map(address).collect();
    let addresses: Vec<String> = addresses.into_iter().collect();
    out.line(0, &format!("Address:\t{}", addresses.join(",")));
    out.field(0, "Ingress Class", or(object, &["spec", "ingressClassName"], ""));
    let default = match object.at(&["spec", "defaultBackend"]) {
        Some(backend) => backend_of(server, object.namespace(), backend).await,
        None => "<default>".to_owned(),
    };
    out.line(0, &format!("Default backend:\t{default}"));
    let tls = object.list_at(&["spec", "tls"]);
    if !tls.is_empty() {
        out.line(0, "TLS:");
    }
    for one in tls {
        let hosts = joined(one, &["hosts"], ",");
        match or(one, &["secretName"], "") {
            "" => out.line(1, &format!("SNI routes {hosts}")),
            secret => out.line(1, &format!("{secret} terminates {hosts}")),
        }
    }
    rules(server, &mut out, object, &default).await;
    out.pairs("Annotations", object, "annotations", ": ");
    out
}

async fn rules(server: &Server, out: &mut Text, ingress: &Value, default: &str) {
    out.line(0, "Rules:");
    out.line(1, "Host\tPath\tBackends");
    out.line(1, "----\t----\t--------");
    let rules = ingress.list_at(&["spec", "rules"]).iter();
    let rules: Vec<&Value> = rules.filter(|rule| rule.at(&["http"]).is_some()).collect();
    for rule in &rules {
        out.line(1, &format!("{}\t", or(rule, &["host"], "*")));
        for path in rule.list_at(&["http", "paths"]) {
            let backend = path.at(&["backend"]).unwrap_or(&Value::Null);
            let backend = backend_of(server, ingress.namespace(), backend).await;
            // Compat: a blank behind the path.
            out.line(2, &format!("\t{} \t{backend}", or(path, &["path"], "")));
        }
    }
    if rules.is_empty() {
        out.line(1, &format!("*\t*\t{default}"));
    }
}

/// `web:80 (10.0.0.1:8080)`: where requests go, and who is there.
async fn backend_of(server: &Server, namespace: &str, backend: &Value) -> String {
    if let Some(resource) = backend.at(&["resource"]) {
        let part = |field| or(resource, &[field], "");
        let group = or(resource, &["apiGroup"], "<none>");
        return format!("APIGroup: {group}, Kind: {}, Name: {}", part("kind"), part("name"));
    }
    let Some(named) = backend.at(&["service"]) else { return String::new() };
    let name = or(named, &["name"], "");
    let number = named.i64_at(&["port", "number"]).filter(|number| *number != 0);
    let port = number.map_or(or(named, &["port", "name"], "").to_owned(), |port| port.to_string());
    let services = server.client.api(&Gvr::new("", "v1", "services")).namespaced(namespace);
    let found = match services.get(name).await {
        Ok(found) => found,
        Err(error) => return format!("{name}:{port} (<error: {error}>)"),
    };
    let is_meant = |own: &&Value| match number {
        Some(number) => own.i64_at(&["port"]) == Some(number),
        None => own.str_at(&["name"]) == Some(port.as_str()),
    };
    let of_service = found.list_at(&["spec", "ports"]).iter().find(is_meant);
    let port_name = of_service.and_then(|own| own.str_at(&["name"])).unwrap_or_default();
    let slices = service::slices(server, namespace, name).await;
    format!("{name}:{port} ({})", service::endpoints(&slices, port_name))
}

pub(super) fn ingress_class(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.line(0, &format!("Controller:\t{}", or(object, &["spec", "controller"], "")));
    if let Some(parameters) = object.at(&["spec", "parameters"]) {
        out.line(0, "Parameters:");
        out.field_if_any(1, "APIGroup", parameters.str_at(&["apiGroup"]));
        out.field(1, "Kind", or(parameters, &["kind"], ""));
        out.field(1, "Name", or(parameters, &["name"], ""));
    }
    out
}

pub(super) fn network_policy(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    let created = object.str_at(&["metadata", "creationTimestamp"]).and_then(time::parse_time);
    let created = created.map(|at| at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string());
    out.field(0, "Created on", created.unwrap_or_default());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.line(0, "Spec:");
    let pods = match selector(object.at(&["spec", "podSelector"])).as_str() {
        "<none>" => {
            "<none> (Allowing the specific traffic to all pods in this namespace)".to_owned()
        }
        selector => selector.to_owned(),
    };
    // Compat: the value is indented once more.
    out.line(1, &format!("PodSelector:     {pods}"));
    let types: Vec<String> = object.list_at(&["spec", "policyTypes"]).iter().map(plain).collect();
    for direction in [Direction::Ingress, Direction::Egress] {
        let Words { kind, traffic, .. } = direction.words();
        if !types.iter().any(|own| own == kind) {
            out.line(1, &format!("Not affecting {traffic} traffic"));
            continue;
        }
        out.line(1, &format!("Allowing {traffic} traffic:"));
        traffic_rules(&mut out, object.list_at(&["spec", traffic]), direction);
    }
    let types = if types.is_empty() { "<none>".to_owned() } else { types.join(", ") };
    out.line(1, &format!("Policy Types: {types}"));
    out
}

#[derive(Clone, Copy)]
enum Direction {
    Ingress,
    Egress,
}

/// What differs between both directions in words.
struct Words {
    kind: &'static str,
    traffic: &'static str,
    field: &'static str,
    heading: &'static str,
    end: &'static str,
}

impl Direction {
    fn words(self) -> Words {
        match self {
            Self::Ingress => Words {
                kind: "Ingress",
                traffic: "ingress",
                field: "from",
                heading: "From",
                end: "source",
            },
            Self::Egress => Words {
                kind: "Egress",
                traffic: "egress",
                field: "to",
                heading: "To",
                end: "destination",
            },
        }
    }
}

fn traffic_rules(out: &mut Text, rules: &[Value], direction: Direction) {
    let Words { traffic, field, heading, end, .. } = direction.words();
    if rules.is_empty() {
        let none = format!("<none> (Selected pods are isolated for {traffic} connectivity)");
        return out.line(2, &none);
    }
    for (place, rule) in rules.iter().enumerate() {
        if place > 0 {
            out.line(2, "----------");
        }
        let ports = rule.list_at(&["ports"]);
        if ports.is_empty() {
            out.line(2, "To Port: <any> (traffic allowed to all ports)");
        }
        for port in ports {
            let protocol = or(port, &["protocol"], "TCP");
            let number = port.at(&["port"]).map_or("<nil>".to_owned(), plain);
            match port.i64_at(&["endPort"]) {
                Some(end) => out.line(2, &format!("To Port Range: {number}-{end}/{protocol}")),
                None => out.line(2, &format!("To Port: {number}/{protocol}")),
            }
        }
        let peers = rule.list_at(&[field]);
        if peers.is_empty() {
            out.line(2, &format!("{heading}: <any> (traffic not restricted by {end})"));
        }
        for peer in peers {
            out.line(2, &format!("{heading}:"));
            write_peer(out, peer);
        }
    }
}

fn write_peer(out: &mut Text, peer: &Value) {
    for (field, heading) in
        [("namespaceSelector", "NamespaceSelector"), ("podSelector", "PodSelector")]
    {
        if let Some(own) = peer.at(&[field]) {
            out.line(3, &format!("{heading}: {}", selector(Some(own))));
        }
    }
    if let Some(block) = peer.at(&["ipBlock"]) {
        out.line(3, "IPBlock:");
        out.line(4, &format!("CIDR: {}", or(block, &["cidr"], "")));
        out.line(4, &format!("Except: {}", joined(block, &["except"], ", ")));
    }
}

fn selector(selector: Option<&Value>) -> String {
    let text = LabelSelector::from_object(selector).map(|selector| selector.to_string());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "<none>".to_owned())
}

pub(super) fn endpoints(object: &Value) -> Text {
    let mut out = Text::head(object);
    out.line(0, "Subsets:");
    for subset in object.list_at(&["subsets"]) {
        for (field, heading) in
            [("addresses", "Addresses"), ("notReadyAddresses", "NotReadyAddresses")]
        {
            let list = subset.list_at(&[field]).iter();
            let list: Vec<&str> = list.filter_map(|one| one.str_at(&["ip"])).collect();
            out.field(1, heading, list.join(","));
        }
        let ports = subset.list_at(&["ports"]);
        if !ports.is_empty() {
            out.line(1, "Ports:");
            write_ports(&mut out, 2, ports);
        }
        out.line(0, "");
    }
    out
}

fn write_ports(out: &mut Text, level: usize, ports: &[Value]) {
    out.line(level, "Name\tPort\tProtocol");
    out.line(level, "----\t----\t--------");
    for port in ports {
        let number = port.at(&["port"]).map_or("<unset>".to_owned(), plain);
        let name = or(port, &["name"], "<unset>");
        out.line(level, &format!("{name}\t{number}\t{}", or(port, &["protocol"], "TCP")));
    }
}

pub(super) fn endpoint_slice(object: &Value) -> Text {
    let mut out = Text::head(object);
    out.field(0, "AddressType", or(object, &["addressType"], ""));
    match object.list_at(&["ports"]) {
        [] => out.line(0, "Ports: <unset>"),
        ports => {
            out.line(0, "Ports:");
            write_ports(&mut out, 1, ports);
        }
    }
    let endpoints = object.list_at(&["endpoints"]);
    out.line(0, if endpoints.is_empty() { "Endpoints: <none>" } else { "Endpoints:" });
    for endpoint in endpoints {
        out.field(1, "- Addresses", joined(endpoint, &["addresses"], ", "));
        out.line(2, "Conditions:");
        let ready = endpoint.bool_at(&["conditions", "ready"]).map(|ready| ready.to_string());
        out.field(3, "Ready", ready.as_deref().unwrap_or("<unset>"));
        out.field(2, "Hostname", or(endpoint, &["hostname"], "<unset>"));
        if let Some(target) = endpoint.at(&["targetRef"]) {
            let part = |field| or(target, &[field], "");
            out.field(2, "TargetRef", format!("{}/{}", part("kind"), part("name")));
        }
        out.field(2, "NodeName", or(endpoint, &["nodeName"], "<unset>"));
        out.field(2, "Zone", or(endpoint, &["zone"], "<unset>"));
    }
    out
}

pub(super) fn service_range(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.field(0, "CIDRs", joined(object, &["spec", "cidrs"], ", "));
    let conditions = object.list_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        out.line(0, "Status:");
        out.line(0, "Conditions:");
        out.line(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage");
        out.line(1, "----\t------\t------------------\t------\t-------");
    }
    for condition in conditions {
        let part = |field| or(condition, &[field], "").to_owned();
        let at = super::moment(condition, &["lastTransitionTime"]).unwrap_or_default();
        let cells = [part("type"), part("status"), at, part("reason"), part("message")];
        out.line(1, &cells.join("\t"));
    }
    out
}

pub(super) fn ip_address(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    if let Some(parent) = object.at(&["spec", "parentRef"]) {
        out.line(0, "Parent Reference:");
        for (heading, field) in [
            ("Group", "group"),
            ("Resource", "resource"),
            ("Namespace", "namespace"),
            ("Name", "name"),
        ] {
            out.line(1, &format!("{heading}:\t{}", or(parent, &[field], "")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_network_policy_says_who_may_talk_to_whom() {
        let policy = json!({
            "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2026-11-15T19:27:33Z"},
            "spec": {
                "podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{
                    "ports": [{"port": 80, "protocol": "TCP"}, {"port": 8000, "endPort": 8010}],
                    "from": [
                        {"podSelector": {"matchLabels": {"app": "front"}}, "namespaceSelector": {}},
                        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}, {}]}});
        let expected = "\
Name:         web
Namespace:    default
Created on:   2026-11-15 19:27:33 +0000 UTC
Labels:       <none>
Annotations:  <none>
Spec:
  PodSelector:     app=web
  Allowing ingress traffic:
    To Port: 80/TCP
    To Port Range: 8000-8010/TCP
    From:
      NamespaceSelector: <none>
      PodSelector: app=front
    From:
      IPBlock:
        CIDR: 10.0.0.0/8
        Except: 10.1.0.0/16
    ----------
    To Port: <any> (traffic allowed to all ports)
    From: <any> (traffic not restricted by source)
  Allowing egress traffic:
    <none> (Selected pods are isolated for egress connectivity)
  Policy Types: Ingress, Egress
";
        assert_eq!(network_policy(&policy).align(), expected);
    }
}

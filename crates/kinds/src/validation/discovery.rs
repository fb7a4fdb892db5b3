//! Group `discovery.k8s.io`: EndpointSlice.

use std::collections::BTreeSet;

use karmada_apimachinery::names;

use super::meta::{self, Scope};
use super::net;
use super::place::{At, Errors, same};

pub(crate) fn slice_create(object: &At<'_>, errs: &mut Errors) {
    check(object, None, errs);
}

pub(crate) fn slice_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    check(new, Some(old), errs);
    errs.immutable(&new.field("addressType"), &old.field("addressType"));
}

fn check(object: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    errs.required_one_of(&object.field("addressType"), &["FQDN", "IPv4", "IPv6"]);
    check_ports(&object.field("ports"), errs);
    let endpoints = object.field("endpoints");
    if old.is_some_and(|old| same(old.field("endpoints").value, endpoints.value)) {
        return;
    }
    if endpoints.len() > 1000 {
        return errs.too_many(&endpoints, 1000);
    }
    for endpoint in endpoints.items() {
        check_endpoint(&endpoint, object.field("addressType").text(), errs);
    }
}

fn check_endpoint(endpoint: &At<'_>, family: &str, errs: &mut Errors) {
    let addresses = endpoint.field("addresses");
    if addresses.is_empty() {
        errs.required(&addresses, "must contain at least 1 address");
    } else if addresses.len() > 100 {
        errs.too_many(&addresses, 100);
    }
    for address in addresses.items() {
        let readable = match family {
            "IPv4" => net::check_ip(&address, &[], errs),
            "IPv6" => net::check_canonical_ip(&address, errs),
            "FQDN" => {
                check_domain(&address, errs);
                false
            }
            _ => false,
        };
        if readable {
            if address.text().contains(':') != (family == "IPv6") {
                errs.invalid(&addresses, address.text(), format!("must be an {family} address"));
            }
            net::check_endpoint_ip(&address, errs);
        }
    }
    let node = endpoint.field("nodeName");
    if node.is_set() {
        errs.messages(&node, &names::dns1123_subdomain(node.text()));
    }
    let topology = endpoint.field("deprecatedTopology");
    if topology.len() > 16 {
        errs.too_many(&topology, 16);
    }
    meta::labels(&topology, errs);
    let hostname = endpoint.field("hostname");
    if hostname.is_set() {
        errs.messages(&hostname, &names::dns1123_label(hostname.text()));
    }
    check_hints(&endpoint.field("hints"), errs);
}

/// A domain of at least two labels; a final dot is fine.
fn check_domain(address: &At<'_>, errs: &mut Errors) {
    if !errs.required_text(address) {
        return;
    }
    let name = address.text().strip_suffix('.').unwrap_or(address.text());
    let messages = names::dns1123_subdomain(name);
    if !messages.is_empty() {
        return errs.invalid(address, name, messages.join(","));
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return errs.invalid(address, name, detail);
    }
    for label in name.split('.') {
        let messages = names::dns1123_label(label);
        if !messages.is_empty() {
            return errs.invalid(address, label, messages.join(","));
        }
    }
}

fn check_hints(hints: &At<'_>, errs: &mut Errors) {
    type TextRule = fn(&str) -> Vec<String>;
    let lists: [(&str, TextRule); 2] =
        [("forZones", names::label_value), ("forNodes", names::dns1123_subdomain)];
    for (field, rule) in lists {
        let list = hints.field(field);
        if list.len() > 8 {
            return errs.too_many(&list, 8);
        }
        let mut seen = BTreeSet::new();
        for entry in list.items() {
            let name = entry.field("name");
            if !seen.insert(name.text()) {
                errs.duplicate(&name);
            }
            errs.messages(&name, &rule(name.text()));
        }
    }
}

fn check_ports(ports: &At<'_>, errs: &mut Errors) {
    if ports.len() > 20_000 {
        return errs.too_many(ports, 20_000);
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            errs.messages(&name, &names::dns1123_label(name.text()));
        }
        if !seen.insert(name.text()) {
            errs.push(karmada_apimachinery::field::FieldError::duplicate(&name.path, name.text()));
        }
        let protocol = port.field("protocol");
        if protocol.is_set() {
            errs.one_of(&protocol, &["SCTP", "TCP", "UDP"]);
        } else {
            errs.required(&protocol, "");
        }
        let app = port.field("appProtocol");
        if app.is_set() {
            errs.messages(&app, &names::qualified_name(app.text()));
        }
    }
}

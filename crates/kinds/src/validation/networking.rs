//! Group `networking.k8s.io`: Ingress, IngressClass, NetworkPolicy, IPAddress, ServiceCIDR.

use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::{Value, names};

use super::batch::check_domain_prefixed;
use super::meta::{self, Scope};
use super::net;
use super::place::{At, Errors, FIELD_IMMUTABLE};
use super::selectors;

const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

pub(crate) fn policy_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_policy(&object.field("spec"), &[], errs);
}

pub(crate) fn policy_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    let mut stored = Vec::new();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for peer in old.at(&["spec", rules]).items().flat_map(|rule| rule.field(peers).items()) {
            let block = peer.field("ipBlock");
            stored.push(block.field("cidr").text());
            stored.extend(block.field("except").texts());
        }
    }
    check_policy(&new.field("spec"), &stored, errs);
}

fn check_policy(spec: &At<'_>, stored: &[&str], errs: &mut Errors) {
    selectors::check(&spec.field("podSelector"), errs);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(rules).items() {
            for port in rule.field("ports").items() {
                check_policy_port(&port, errs);
            }
            for peer in rule.field(peers).items() {
                check_peer(&peer, stored, errs);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        return errs.invalid_value(&types, "may not specify more than two policyTypes");
    }
    for kind in types.items() {
        errs.one_of(&kind, &["Ingress", "Egress"]);
    }
}

fn check_policy_port(rule: &At<'_>, errs: &mut Errors) {
    errs.one_of(&rule.field("protocol"), &["TCP", "UDP", "SCTP"]);
    let (port, end) = (rule.field("port"), rule.field("endPort"));
    if !port.is_set() {
        if end.is_set() {
            errs.invalid_int(&end, "may not be specified when `port` is not specified");
        }
    } else if port.value.is_string() {
        if end.is_set() {
            errs.invalid_int(&end, "may not be specified when `port` is non-numeric");
        }
        errs.messages(&port, &names::port_name(port.text()));
    } else {
        errs.in_range(&port, 1, 65535);
        if end.is_set() {
            if end.int() < port.int() {
                errs.invalid(&end, port.int(), "must be greater than or equal to `port`");
            }
            errs.in_range(&end, 1, 65535);
        }
    }
}

fn check_peer(peer: &At<'_>, stored: &[&str], errs: &mut Errors) {
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        count += usize::from(peer.field(field).is_set());
        selectors::check(&peer.field(field), errs);
    }
    let block = peer.field("ipBlock");
    if block.is_set() {
        count += 1;
        check_block(&block, stored, errs);
    }
    if count == 0 {
        errs.required(peer, "must specify a peer");
    } else if count > 1 && block.is_set() {
        errs.forbidden(peer, "may not specify both ipBlock and another peer");
    }
}

fn check_block(block: &At<'_>, stored: &[&str], errs: &mut Errors) {
    let cidr = block.field("cidr");
    if !errs.required_text(&cidr) {
        return;
    }
    net::check_cidr(&cidr, cidr.text(), stored, errs);
    if net::parse_cidr_sloppy(cidr.text()).is_none() {
        return;
    }
    for except in block.field("except").items() {
        net::check_cidr(&except, except.text(), stored, errs);
        let readable = net::parse_cidr_sloppy(except.text()).is_some();
        if readable && !net::is_strict_subset(except.text(), cidr.text()) {
            errs.invalid_text(&except, "must be a strict subset of `cidr`");
        }
    }
}

pub(crate) fn ingress_create(object: &At<'_>, errs: &mut Errors) {
    check_ingress(object, true, errs);
    let class = object.at(&["spec", "ingressClassName"]);
    if let Some(annotation) = meta::annotation(object.value, INGRESS_CLASS)
        && class.is_set()
        && class.text() != annotation
    {
        let path = Path::new("annotations").child(INGRESS_CLASS);
        let detail = "must match `ingressClassName` when both are specified";
        errs.push(FieldError::invalid(&path, annotation, detail));
    }
}

pub(crate) fn ingress_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        return check_ingress_status(new, old, errs);
    }
    let sound = old.at(&["spec", "tls"]).items().all(|tls| {
        let secret = tls.field("secretName");
        secret.is_empty() || names::dns1123_subdomain(secret.text()).is_empty()
    });
    check_ingress(new, sound, errs);
}

fn check_ingress(object: &At<'_>, check_secrets: bool, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    let spec = object.field("spec");
    let (rules, backend) = (spec.field("rules"), spec.field("defaultBackend"));
    if rules.is_empty() && !backend.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        // Compat: what is shown at the place of the spec are its rules.
        errs.invalid(&spec, Shown::Verbatim("null".into()), detail);
    }
    if backend.is_set() {
        check_backend(&backend, errs);
    }
    for rule in rules.items() {
        check_ingress_rule(&rule, errs);
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            check_host(&host, errs);
        }
        let secret = tls.field("secretName");
        if check_secrets && !secret.is_empty() {
            errs.messages(&secret, &names::dns1123_subdomain(secret.text()));
        }
    }
    let class = spec.field("ingressClassName");
    if class.is_set() {
        errs.messages(&class, &names::dns1123_subdomain(class.text()));
    }
}

fn check_host(host: &At<'_>, errs: &mut Errors) {
    let messages = if host.text().contains('*') {
        names::wildcard_dns1123_subdomain(host.text())
    } else {
        names::dns1123_subdomain(host.text())
    };
    errs.messages(host, &messages);
}

fn check_ingress_rule(rule: &At<'_>, errs: &mut Errors) {
    let host = rule.field("host");
    if !host.is_empty() {
        if net::parse_sloppy(host.text()).is_some() {
            errs.invalid_text(&host, "must be a DNS name, not an IP address");
        }
        check_host(&host, errs);
    }
    let http = rule.field("http");
    if !http.is_set() {
        return;
    }
    let paths = http.field("paths");
    if paths.is_empty() {
        errs.required(&paths, "");
    }
    for path in paths.items() {
        check_ingress_path(&path, errs);
    }
}

fn check_ingress_path(rule: &At<'_>, errs: &mut Errors) {
    let (kind, path) = (rule.field("pathType"), rule.field("path"));
    if !kind.is_set() {
        return errs.required(&kind, "pathType must be specified");
    }
    let absolute = path.text().starts_with('/');
    match kind.text() {
        "Exact" | "Prefix" => {
            if !absolute {
                errs.invalid_text(&path, "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(part) {
                    errs.invalid_text(&path, format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.text().ends_with(end) {
                    errs.invalid_text(&path, format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !absolute {
                errs.invalid_text(&path, "must be an absolute path");
            }
        }
        _ => errs.unsupported(&kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    check_backend(&rule.field("backend"), errs);
}

fn check_backend(backend: &At<'_>, errs: &mut Errors) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => {
            errs.invalid(backend, "", "cannot set both resource and service backends");
        }
        (true, false) => check_typed_reference(&resource, errs),
        (false, true) => {
            let name = service.field("name");
            if errs.required_text(&name) {
                errs.messages(&name, &names::dns1123_label(name.text()));
            }
            let (port_name, number) =
                (service.at(&["port", "name"]), service.at(&["port", "number"]));
            match (port_name.is_empty(), number.int() != 0) {
                (false, true) => {
                    errs.invalid(backend, "", "cannot set both port name & port number");
                }
                (false, false) => errs.messages(&port_name, &names::port_name(port_name.text())),
                (true, true) => errs.in_range(&number, 1, 65535),
                (true, false) => errs.required(backend, "port name or number is required"),
            }
        }
        (false, false) => errs.invalid(backend, "", "resource or service backend is required"),
    }
}

fn check_typed_reference(reference: &At<'_>, errs: &mut Errors) {
    let group = reference.field("apiGroup");
    if group.is_set() {
        errs.messages(&group, &names::dns1123_subdomain(group.text()));
    }
    for field in ["kind", "name"] {
        let at = reference.field(field);
        if errs.required_text(&at) {
            errs.messages(&at, &names::path_segment(at.text()));
        }
    }
}

fn check_ingress_status(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let path = ["status", "loadBalancer", "ingress"];
    let stored: Vec<&str> = old.at(&path).items().map(|entry| entry.field("ip").text()).collect();
    for entry in new.at(&path).items() {
        let ip = entry.field("ip");
        if !ip.is_empty() {
            net::check_ip(&ip, &stored, errs);
        }
        let hostname = entry.field("hostname");
        if !hostname.is_empty() {
            errs.messages(&hostname, &names::dns1123_subdomain(hostname.text()));
            if net::parse_sloppy(hostname.text()).is_some() {
                errs.invalid_text(&hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}

pub(crate) fn ingress_class_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let controller = object.at(&["spec", "controller"]);
    if controller.len() > 250 {
        errs.too_long(&controller, 250);
    }
    check_domain_prefixed(&controller, errs);
    let parameters = object.at(&["spec", "parameters"]);
    if !parameters.is_set() {
        return;
    }
    check_typed_reference(&parameters, errs);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.text() {
        _ if !scope.is_set() => errs.required(&scope, ""),
        "Namespace" if !namespace.is_set() => {
            errs.required(&namespace, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => errs.messages(&namespace, &names::dns1123_label(namespace.text())),
        "Cluster" => {
            if namespace.is_set() {
                errs.forbidden(&namespace, "`parameters.scope` is set to 'Cluster'");
            }
        }
        _ => errs.unsupported(&scope, &["Cluster", "Namespace"]),
    }
}

pub(crate) fn ingress_class_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    let path = ["spec", "controller"];
    let controller = new.at(&path);
    errs.immutable_shown(&controller, &old.at(&path), controller.text());
    ingress_class_create(new, errs);
}

fn ip_name(name: &str, _: bool) -> Vec<String> {
    let value = Value::from(name);
    let mut errs = Errors::default();
    net::check_canonical_ip(&At::root(&value), &mut errs);
    errs.0.into_iter().map(|error| error.detail).collect()
}

pub(crate) fn ip_address_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, ip_name, errs);
    let parent = object.at(&["spec", "parentRef"]);
    if !parent.is_set() {
        return errs.required(&parent, "");
    }
    let group = parent.field("group");
    if !group.is_empty() {
        errs.messages(&group, &names::dns1123_subdomain(group.text()));
    }
    for field in ["resource", "name"] {
        let at = parent.field(field);
        if errs.required_text(&at) {
            errs.messages(&at, &names::path_segment(at.text()));
        }
    }
    let namespace = parent.field("namespace");
    if !namespace.is_empty() {
        errs.messages(&namespace, &names::path_segment(namespace.text()));
    }
}

pub(crate) fn ip_address_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    ip_address_create(new, errs);
    meta::update(new, old, errs);
    let path = ["spec", "parentRef"];
    errs.immutable(&new.at(&path), &old.at(&path));
}

pub(crate) fn service_cidr_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    check_service_cidrs(&object.field("spec"), errs);
}

fn check_service_cidrs(spec: &At<'_>, errs: &mut Errors) {
    let cidrs = spec.field("cidrs");
    if cidrs.is_empty() {
        return errs.required(&cidrs, "at least one CIDR required");
    }
    if cidrs.len() > 2 {
        return errs.invalid(&cidrs, spec.shown(), "may only hold up to 2 values");
    }
    for cidr in cidrs.items() {
        net::check_canonical_cidr(&cidr, errs);
    }
    let families: Vec<bool> = cidrs
        .texts()
        .filter_map(net::parse_cidr_sloppy)
        .map(|(address, _)| address.is_ipv4())
        .collect();
    if families.len() == 2 && families[0] == families[1] {
        errs.invalid_value(&cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64");
    }
}

pub(crate) fn service_cidr_update(
    subresource: &str,
    new: &At<'_>,
    old: &At<'_>,
    errs: &mut Errors,
) {
    meta::update(new, old, errs);
    if subresource == "status" {
        return;
    }
    let (cidrs, before) = (new.at(&["spec", "cidrs"]), old.at(&["spec", "cidrs"]));
    let grows = before.len() == 1 && cidrs.len() == 2;
    if !grows && cidrs.len() != before.len() {
        return errs.invalid_value(&cidrs, FIELD_IMMUTABLE);
    }
    for (after, before) in cidrs.items().zip(before.items()) {
        if after.text() != before.text() {
            errs.invalid_text(&after, FIELD_IMMUTABLE);
        }
    }
    if grows {
        check_service_cidrs(&new.field("spec"), errs);
    }
}

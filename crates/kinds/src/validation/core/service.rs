//! Services: ports, addresses, families, traffic policies, and what may change.

use std::collections::BTreeSet;

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::{Value, json, names};

use super::probes::check_port_or_name;
use crate::validation::meta::{self, Scope};
use crate::validation::net;
use crate::validation::place::{At, Errors};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];
const BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const FIXED: &str = "may not change once set";

fn kind<'a>(service: &At<'a>) -> &'a str {
    service.at(&["spec", "type"]).text()
}

fn cluster_ips<'a>(service: &At<'a>) -> Vec<&'a str> {
    service.at(&["spec", "clusterIPs"]).texts().collect()
}

fn is_headless(service: &At<'_>) -> bool {
    cluster_ips(service) == ["None"]
}

fn is_external(service: &At<'_>) -> bool {
    let external_ips = !service.at(&["spec", "externalIPs"]).is_empty();
    matches!(kind(service), "LoadBalancer" | "NodePort")
        || (kind(service) == "ClusterIP" && external_ips)
}

fn needs_health_check(service: &At<'_>) -> bool {
    kind(service) == "LoadBalancer"
        && service.at(&["spec", "externalTrafficPolicy"]).text() == "Local"
}

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::label_name, errs);
    check(object, None, errs);
}

pub(crate) fn update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        let before = old.at(&["status", "loadBalancer"]);
        return check_balancer_status(new, &before, errs);
    }
    check_cluster_ip_change(new, old, errs);
    check_family_change(new, old, errs);
    let class = new.at(&["spec", "loadBalancerClass"]);
    let both_balance = kind(new) == "LoadBalancer" && kind(old) == "LoadBalancer";
    if both_balance && class.value != old.at(&["spec", "loadBalancerClass"]).value {
        errs.invalid_value(&class, FIXED);
    }
    check_balancer_class(new, errs);
    let port = ["spec", "healthCheckNodePort"];
    if needs_health_check(new)
        && needs_health_check(old)
        && new.at(&port).int() != old.at(&port).int()
    {
        errs.forbidden(&new.at(&port), "field is immutable");
    }
    check(new, Some(old), errs);
}

fn check(service: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    let spec = service.field("spec");
    check_topology(service, errs);
    let ports = spec.field("ports");
    if ports.is_empty() && !is_headless(service) && kind(service) != "ExternalName" {
        errs.required(&ports, "");
    }
    check_type_needs(service, errs);
    check_ports(&ports, errs);
    meta::labels(&spec.field("selector"), errs);
    check_affinity(&spec, errs);
    if kind(service) != "ExternalName" {
        check_addresses(service, old, errs);
    }
    let old_external: Vec<&str> =
        old.map(|old| old.at(&["spec", "externalIPs"]).texts().collect()).unwrap_or_default();
    for ip in spec.field("externalIPs").items() {
        if net::check_ip(&ip, &old_external, errs) {
            net::check_endpoint_ip(&ip, errs);
        }
    }
    errs.required_one_of(&spec.field("type"), &TYPES);
    check_port_uniqueness(service, errs);
    check_source_ranges(service, old, errs);
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    if allocate.is_set() && kind(service) != "LoadBalancer" {
        errs.forbidden(&allocate, BALANCER_ONLY);
    }
    if kind(service) == "LoadBalancer" && !allocate.is_set() {
        errs.push(FieldError::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
    }
    check_balancer_class(service, errs);
    check_traffic(service, errs);
}

fn check_topology(service: &At<'_>, errs: &mut Errors) {
    let annotations = service.at(&["metadata", "annotations"]);
    let (mode, hints) = (annotations.key(TOPOLOGY_MODE), annotations.key(TOPOLOGY_HINTS));
    if mode.is_set() && hints.is_set() && mode.text() != hints.text() {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errs.invalid_text(&mode, detail);
    }
}

fn check_type_needs(service: &At<'_>, errs: &mut Errors) {
    let spec = service.field("spec");
    match kind(service) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(service) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errs.invalid_text(&spec.field("clusterIPs").index(0), detail);
        }
        "ExternalName" => {
            const DETAIL: &str = "may not be set for ExternalName services";
            for field in ["clusterIPs", "ipFamilies"] {
                if !spec.field(field).is_empty() {
                    errs.forbidden(&spec.field(field), DETAIL);
                }
            }
            if spec.field("ipFamilyPolicy").is_set() {
                errs.forbidden(&spec.field("ipFamilyPolicy"), DETAIL);
            }
            let target = spec.field("externalName");
            let name = target.text().strip_suffix('.').unwrap_or(target.text());
            if name.is_empty() {
                errs.required(&target, "");
            } else {
                errs.messages_for(&target, name, &names::dns1123_subdomain(name));
            }
        }
        _ => {}
    }
}

fn check_ports(ports: &At<'_>, errs: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if ports.len() > 1 && name.is_empty() {
            errs.required(&name, "");
        } else if !name.is_empty() {
            errs.messages(&name, &names::dns1123_label(name.text()));
            if !names.insert(name.text()) {
                errs.duplicate(&name);
            }
        }
        errs.in_range(&port.field("port"), 1, 65535);
        errs.required_one_of(&port.field("protocol"), &PROTOCOLS);
        check_port_or_name(&port.field("targetPort"), errs);
        let protocol = port.field("appProtocol");
        if protocol.is_set() {
            errs.messages(&protocol, &names::qualified_name(protocol.text()));
        }
    }
}

fn check_affinity(spec: &At<'_>, errs: &mut Errors) {
    let affinity = spec.field("sessionAffinity");
    let config = spec.field("sessionAffinityConfig");
    errs.required_one_of(&affinity, &["ClientIP", "None"]);
    match affinity.text() {
        "ClientIP" => {
            let client = config.field("clientIP");
            let timeout = client.field("timeoutSeconds");
            for at in [&config, &client, &timeout] {
                if !at.is_set() {
                    return errs.required(at, "when session affinity type is ClientIP");
                }
            }
            if timeout.int() <= 0 || timeout.int() > 86400 {
                errs.invalid_int(&timeout, "must be greater than 0 and less than 86400");
            }
        }
        "None" if config.is_set() => {
            errs.forbidden(&config, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

/// Checks the addresses and families of a service alone, as the allocator does before anything
/// else of the service is looked at.
pub fn validate_service_addresses(service: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let service = At::root(service);
    let mut errs = Errors::default();
    if kind(&service) != "ExternalName" {
        check_addresses(&service, old.map(At::root).as_ref(), &mut errs);
    }
    errs.0
}

fn check_addresses(service: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    let spec = service.field("spec");
    let ips = spec.field("clusterIPs");
    let first = spec.field("clusterIP");
    if first.is_empty() {
        if !ips.is_empty() {
            errs.invalid_value(&ips, "must be empty when `clusterIP` is not specified");
        }
    } else if ips.is_empty() {
        errs.required(&ips, "");
    } else if ips.index(0).text() != first.text() {
        errs.invalid_value(&ips, "first value must match `clusterIP`");
    }
    let families = spec.field("ipFamilies");
    let mut seen = BTreeSet::new();
    for family in families.items() {
        errs.one_of(&family, &FAMILIES);
        if !seen.insert(family.text()) {
            errs.duplicate(&family);
        }
    }
    errs.one_of(&spec.field("ipFamilyPolicy"), &FAMILY_POLICIES);
    let stored = old.map(cluster_ips).unwrap_or_default();
    let mut sound = true;
    for (i, ip) in ips.items().enumerate() {
        if i == 0 && ip.text() == "None" {
            if ips.len() > 1 {
                sound = false;
                errs.invalid_value(&ips, "'None' must be the first and only value");
            }
        } else {
            sound &= net::check_ip(&ip, &stored, errs);
        }
    }
    if ips.len() > 2 {
        errs.invalid_value(&ips, "may only hold up to 2 values");
    }
    if !sound {
        return;
    }
    if ips.len() > 1 && !net::is_dual_stack(&cluster_ips(service)) {
        errs.invalid_value(&ips, "may specify no more than one IP for each IP family");
    }
    if is_headless(service) {
        return;
    }
    for (i, (ip, family)) in ips.items().zip(families.items()).enumerate() {
        let is_v6 = ip.text().contains(':');
        let expected = family.text();
        if (expected == "IPv4" && is_v6) || (expected == "IPv6" && !is_v6) {
            let detail = format!("expected an {expected} value as indicated by `ipFamilies[{i}]`");
            errs.invalid_text(&ip, detail);
        }
    }
}

fn check_port_uniqueness(service: &At<'_>, errs: &mut Errors) {
    let ports = service.at(&["spec", "ports"]);
    if kind(service) == "ClusterIP" {
        for port in ports.items().filter(|port| port.field("nodePort").int() != 0) {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errs.forbidden(&port.field("nodePort"), detail);
        }
    }
    let mut taken = BTreeSet::new();
    for port in ports.items() {
        let node_port = port.field("nodePort");
        if node_port.int() != 0 && !taken.insert((port.field("protocol").text(), node_port.int())) {
            errs.duplicate(&node_port);
        }
    }
    let mut used = BTreeSet::new();
    for port in ports.items() {
        let (protocol, number) = (port.field("protocol").text(), port.field("port").int());
        if !used.insert((protocol, number)) {
            let shown = json!({"Name": "", "Protocol": protocol, "Port": number});
            errs.push(FieldError::duplicate(&port.path, shown));
        }
    }
}

fn check_source_ranges(service: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    let spec = service.field("spec");
    let balances = kind(service) == "LoadBalancer";
    let ranges = spec.renamed("loadBalancerSourceRanges", "LoadBalancerSourceRanges");
    let annotation = service.at(&["metadata", "annotations"]).key(SOURCE_RANGES);
    if !ranges.is_empty() {
        if !balances {
            errs.forbidden(&ranges, BALANCER_ONLY);
        }
        let stored: Vec<&str> = old
            .map(|old| {
                old.at(&["spec", "loadBalancerSourceRanges"]).texts().map(str::trim).collect()
            })
            .unwrap_or_default();
        for range in ranges.items() {
            net::check_cidr(&range, range.text().trim(), &stored, errs);
        }
    } else if annotation.is_set() {
        if !balances {
            errs.forbidden(&annotation, BALANCER_ONLY);
        }
        let stored = old.map(|old| old.at(&["metadata", "annotations", SOURCE_RANGES]).text());
        let text = annotation.text().trim();
        if stored != Some(annotation.text()) && !text.is_empty() {
            for range in text.split(',') {
                net::check_cidr(&annotation, range.trim(), &[], errs);
            }
        }
    }
}

fn check_balancer_class(service: &At<'_>, errs: &mut Errors) {
    let class = service.at(&["spec", "loadBalancerClass"]);
    if !class.is_set() {
        return;
    }
    if kind(service) == "LoadBalancer" {
        errs.messages(&class, &names::qualified_name(class.text()));
    } else {
        errs.forbidden(&class, BALANCER_ONLY);
    }
}

fn check_traffic(service: &At<'_>, errs: &mut Errors) {
    let spec = service.field("spec");
    let external = spec.field("externalTrafficPolicy");
    if is_external(service) {
        errs.required_one_of(&external, &["Cluster", "Local"]);
    } else if !external.is_empty() {
        errs.invalid_text(&external, "may only be set for externally-accessible services");
    }
    let health = spec.field("healthCheckNodePort");
    if !needs_health_check(service) {
        if health.int() != 0 {
            errs.invalid_int(&health, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'");
        }
    } else if health.int() != 0 {
        // Without a number one is allocated after validation.
        errs.in_range(&health, 1, 65535);
    }
    let internal = spec.field("internalTrafficPolicy");
    if !internal.is_set() && matches!(kind(service), "NodePort" | "LoadBalancer" | "ClusterIP") {
        errs.required(&internal, "");
    }
    errs.one_of(&internal, &["Cluster", "Local"]);
    errs.one_of(&spec.field("trafficDistribution"), &DISTRIBUTIONS);
}

fn check_cluster_ip_change(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let by_name = kind(new) == "ExternalName" || kind(old) == "ExternalName";
    if by_name || (is_headless(new) && is_headless(old)) {
        return;
    }
    let ips = new.at(&["spec", "clusterIPs"]);
    let (after, before) = (cluster_ips(new), cluster_ips(old));
    let report = |index: usize, detail: &str, errs: &mut Errors| {
        errs.invalid(&ips.index(index), ips.shown(), detail);
    };
    if after.len() == before.len() {
        for (i, (after, before)) in after.iter().zip(&before).enumerate() {
            if after != before {
                report(i, FIXED, errs);
            }
        }
        return;
    }
    if after.is_empty() {
        report(0, "primary clusterIP can not be unset", errs);
    }
    if let (Some(after), Some(before)) = (after.first(), before.first())
        && after != before
    {
        report(0, FIXED, errs);
    }
    let policy = new.at(&["spec", "ipFamilyPolicy"]);
    if before.len() > after.len() && after.len() == 1 && policy.text() != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        errs.invalid_value(&policy, detail);
    }
}

fn check_family_change(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let by_name = kind(new) == "ExternalName" || kind(old) == "ExternalName";
    if by_name || is_headless(new) || is_headless(old) {
        return;
    }
    let families = new.at(&["spec", "ipFamilies"]);
    let ips = new.at(&["spec", "clusterIPs"]);
    let after: Vec<&str> = families.texts().collect();
    let before: Vec<&str> = old.at(&["spec", "ipFamilies"]).texts().collect();
    let first = families.index(0);
    if after.len() == before.len() {
        for _ in after.iter().zip(&before).filter(|(after, before)| after != before) {
            errs.invalid(&first, families.shown(), FIXED);
        }
        return;
    }
    let shrinks = before.len() > after.len();
    if shrinks && ips.is_empty() {
        errs.invalid(&first, families.shown(), "primary ipFamily can not be unset");
    }
    if let (Some(after), Some(before)) = (after.first(), before.first())
        && after != before
    {
        errs.invalid(&first, ips.shown(), FIXED);
    }
    let policy = new.at(&["spec", "ipFamilyPolicy"]);
    if shrinks && after.len() == 1 && policy.text() != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        errs.invalid_value(&policy, detail);
    }
}

fn check_balancer_status(service: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let ingresses = service.at(&["status", "loadBalancer", "ingress"]);
    if kind(service) != "LoadBalancer" && !ingresses.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        return errs.forbidden(&ingresses, detail);
    }
    let stored: Vec<&str> =
        before.field("ingress").items().map(|ingress| ingress.field("ip").text()).collect();
    for ingress in ingresses.items() {
        let (ip, mode) = (ingress.field("ip"), ingress.field("ipMode"));
        if !ip.is_empty() {
            net::check_ip(&ip, &stored, errs);
        }
        match (mode.is_set(), ip.is_empty()) {
            (false, false) => errs.required(&mode, "must be specified when `ip` is set"),
            (true, true) => errs.forbidden(&mode, "may not be specified when `ip` is not set"),
            _ => errs.one_of(&mode, &["Proxy", "VIP"]),
        }
        let hostname = ingress.field("hostname");
        if !hostname.is_empty() {
            errs.messages(&hostname, &names::dns1123_subdomain(hostname.text()));
            if net::parse_sloppy(hostname.text()).is_some() {
                errs.invalid_text(&hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}

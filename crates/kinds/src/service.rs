//! When a Service takes or gives back cluster addresses and node ports. The pools themselves belong
//! to the server: it carries out the [`Plan`] and writes the results back with [`fill`].

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Map, Value, json};

/// What has to be claimed before a Service is stored, and given back afterwards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    pub addresses: Vec<AddressClaim>,
    pub node_ports: Vec<PortClaim>,
    /// The port load balancers probe; asked for by number or any free one.
    pub health_check_port: Option<Option<i64>>,
    pub released_addresses: Vec<String>,
    pub released_ports: Vec<i64>,
}

/// An address for `spec.clusterIPs[index]`: a given one, or any of the family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressClaim {
    pub index: usize,
    pub family: String,
    pub requested: Option<String>,
}

/// A node port for one or several entries of `spec.ports`: a given one, or any free one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortClaim {
    pub indexes: Vec<usize>,
    pub requested: Option<i64>,
}

/// Settles the address fields of a new or changed Service and says what to claim and release.
/// `families` are those the server has pools for, the default one first.
pub fn plan(
    new: &mut Value,
    old: Option<&Value>,
    families: &[&str],
) -> Result<Plan, Vec<FieldError>> {
    agree(new, old);
    settle_families(new, old, families)?;
    let mut plan = Plan::default();
    plan_addresses(&mut plan, new, old);
    plan_ports(&mut plan, new, old)?;
    Ok(plan)
}

/// Returns what a deleted Service gives back.
pub fn release(service: &Value) -> Plan {
    let mut plan = Plan { released_ports: node_ports(service), ..Plan::default() };
    if uses_addresses(service) && !is_headless(service) {
        plan.released_addresses = addresses(service);
    }
    plan.released_ports.extend(health_check_port(service).filter(|_| probes_health(service)));
    plan
}

/// Writes claimed addresses and ports into the Service.
pub fn fill(
    service: &mut Value,
    claimed_addresses: &[(usize, String)],
    claimed_ports: &[(Vec<usize>, i64)],
    health_check_port: Option<i64>,
) {
    let mut list = addresses(service);
    for (index, address) in claimed_addresses {
        if list.len() <= *index {
            list.resize(index + 1, String::new());
        }
        list[*index].clone_from(address);
    }
    if !claimed_addresses.is_empty() {
        service.set(&["spec", "clusterIP"], list[0].as_str());
        service.set(&["spec", "clusterIPs"], list);
    }
    for (indexes, port) in claimed_ports {
        for index in indexes {
            if let Some(entry) = service.list_at_mut(&["spec", "ports"]).get_mut(*index) {
                entry.set(&["nodePort"], *port);
            }
        }
    }
    if let Some(port) = health_check_port {
        service.set(&["spec", "healthCheckNodePort"], port);
    }
}

/// Drops what the old type needed and the new one cannot have, unless the writer changed it too.
pub(crate) fn drop_type_dependent_fields(new: &mut Value, old: &Value) {
    if uses_addresses(old) && !uses_addresses(new) {
        if same(new, old, "clusterIP") && addresses(new) == addresses(old) {
            drop_fields(new, &["clusterIP", "clusterIPs"]);
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(new, old, field) {
                drop_fields(new, &[field]);
            }
        }
    }
    let old_ports = node_ports(old);
    if uses_node_ports(old)
        && !uses_node_ports(new)
        && node_ports(new).iter().all(|port| old_ports.contains(port))
    {
        for port in new.list_at_mut(&["spec", "ports"]) {
            port.remove_at(&["nodePort"]);
        }
    }
    let is_balancer = |service: &Value| service_type(service) == "LoadBalancer";
    for (needed, field) in [
        (probes_health as fn(&Value) -> bool, "healthCheckNodePort"),
        (is_balancer, "allocateLoadBalancerNodePorts"),
        (is_balancer, "loadBalancerClass"),
        (is_external, "externalTrafficPolicy"),
    ] {
        if needed(old) && !needed(new) && same(new, old, field) {
            drop_fields(new, &[field]);
        }
    }
    if !is_balancer(new) {
        new.set(&["status", "loadBalancer"], Map::new());
    }
    drop_internal_policy(new);
}

/// A name for something outside has no traffic inside.
pub(crate) fn drop_internal_policy(service: &mut Value) {
    if !uses_addresses(service) {
        drop_fields(service, &["internalTrafficPolicy"]);
    }
}

fn drop_fields(service: &mut Value, fields: &[&str]) {
    for field in fields {
        service.remove_at(&["spec", field]);
    }
}

fn same(new: &Value, old: &Value, field: &str) -> bool {
    new.at(&["spec", field]) == old.at(&["spec", field])
}

fn service_type(service: &Value) -> &str {
    service.str_at(&["spec", "type"]).unwrap_or_default()
}

fn uses_addresses(service: &Value) -> bool {
    service_type(service) != "ExternalName"
}

fn uses_node_ports(service: &Value) -> bool {
    matches!(service_type(service), "NodePort" | "LoadBalancer")
}

fn is_external(service: &Value) -> bool {
    uses_node_ports(service)
        || (service_type(service) == "ClusterIP"
            && !service.list_at(&["spec", "externalIPs"]).is_empty())
}

fn probes_health(service: &Value) -> bool {
    service_type(service) == "LoadBalancer"
        && service.str_at(&["spec", "externalTrafficPolicy"]) == Some("Local")
}

fn is_headless(service: &Value) -> bool {
    service.str_at(&["spec", "clusterIP"]) == Some("None")
}

fn texts(service: &Value, field: &str) -> Vec<String> {
    let list = service.list_at(&["spec", field]).iter();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn addresses(service: &Value) -> Vec<String> {
    texts(service, "clusterIPs")
}

fn health_check_port(service: &Value) -> Option<i64> {
    service.i64_at(&["spec", "healthCheckNodePort"]).filter(|port| *port != 0)
}

fn node_port(port: &Value) -> i64 {
    port.i64_at(&["nodePort"]).unwrap_or_default()
}

fn node_ports(service: &Value) -> Vec<i64> {
    let mut ports: Vec<i64> = service.list_at(&["spec", "ports"]).iter().map(node_port).collect();
    ports.retain(|port| *port != 0);
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// What was allocated before stays, even when the writer left it out.
fn take_over_allocated(new: &mut Value, old: &Value) {
    if uses_addresses(old) && uses_addresses(new) {
        if new.str_at(&["spec", "clusterIP"]).unwrap_or_default().is_empty()
            && let Some(address) = old.at(&["spec", "clusterIP"])
        {
            new.set(&["spec", "clusterIP"], address.clone());
        }
        if addresses(new).is_empty() && !addresses(old).is_empty() {
            new.set(&["spec", "clusterIPs"], addresses(old));
        }
    }
    if uses_node_ports(old) && uses_node_ports(new) {
        let (before, after) = (node_ports(old), node_ports(new));
        let by_name: Vec<(Option<Value>, i64)> = old
            .list_at(&["spec", "ports"])
            .iter()
            .map(|port| (port.get("name").cloned(), node_port(port)))
            .collect();
        for port in new.list_at_mut(&["spec", "ports"]) {
            let name = port.get("name").cloned();
            let kept =
                by_name.iter().rev().find(|entry| entry.0 == name).map_or(0, |entry| entry.1);
            let is_used = before.contains(&kept) && after.contains(&kept);
            if node_port(port) == 0 && kept != 0 && !is_used {
                port.set(&["nodePort"], kept);
            }
        }
    }
    if probes_health(old)
        && probes_health(new)
        && health_check_port(new).is_none()
        && let Some(port) = health_check_port(old)
    {
        new.set(&["spec", "healthCheckNodePort"], port);
    }
}

/// The single and the plural form of the address say the same.
/// Settles what follows from the Service itself, before it is validated: addresses and ports it
/// keeps, and the two spellings of its address.
pub(crate) fn agree(new: &mut Value, old: Option<&Value>) {
    if let Some(old) = old {
        take_over_allocated(new, old);
    }
    agree_on_addresses(new, old);
}

fn agree_on_addresses(new: &mut Value, old: Option<&Value>) {
    let address = new.str_at(&["spec", "clusterIP"]).unwrap_or_default().to_owned();
    match old {
        None => {
            if !address.is_empty() && addresses(new).is_empty() {
                new.set(&["spec", "clusterIPs"], json!([address]));
            }
        }
        Some(old) => {
            let before = old.str_at(&["spec", "clusterIP"]).unwrap_or_default();
            if address != before && addresses(new) == addresses(old) {
                if address.is_empty() {
                    drop_fields(new, &["clusterIPs"]);
                } else {
                    new.set(&["spec", "clusterIPs"], json!([address]));
                }
            }
        }
    }
}

fn family_of(address: &str) -> &'static str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}

fn other_family(family: &str) -> &'static str {
    if family == "IPv4" { "IPv6" } else { "IPv4" }
}

/// Fills in the family policy and the families that follow from addresses and the server's pools.
fn settle_families(
    service: &mut Value,
    old: Option<&Value>,
    configured: &[&str],
) -> Result<(), Vec<FieldError>> {
    if !uses_addresses(service) {
        return Ok(());
    }
    let is_open = is_headless(service) && service.map_at(&["spec", "selector"]).is_none();
    if service.str_at(&["spec", "ipFamilyPolicy"]).unwrap_or_default().is_empty() {
        let kept = old.and_then(|old| old.str_at(&["spec", "ipFamilyPolicy"]));
        let policy = kept.unwrap_or(if is_open { "RequireDualStack" } else { "SingleStack" });
        service.set(&["spec", "ipFamilyPolicy"], policy);
    }
    let policy = service.str_at(&["spec", "ipFamilyPolicy"]).unwrap_or_default().to_owned();
    let is_single = policy == "SingleStack";
    if let Some(old) = old.filter(|_| is_single) {
        shrink(service, old, "clusterIPs");
        shrink(service, old, "ipFamilies");
    }
    let mut families = texts(service, "ipFamilies");
    let errors = match_families(service, &policy, is_open, configured, &mut families);
    if !errors.is_empty() {
        return Err(errors);
    }
    if families.is_empty() {
        families.push(configured.first().copied().unwrap_or("IPv4").to_owned());
    }
    if !is_single && families.len() == 1 && (is_open || configured.len() == 2) {
        families.push(other_family(&families[0]).to_owned());
    }
    service.set(&["spec", "ipFamilies"], families);
    Ok(())
}

/// Adds the families given addresses belong to, and says which of all this the server cannot do.
fn match_families(
    service: &Value,
    policy: &str,
    is_open: bool,
    configured: &[&str],
    families: &mut Vec<String>,
) -> Vec<FieldError> {
    let is_single = policy == "SingleStack";
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if is_single && service.list_at(&["spec", field]).len() == 2 {
            let why = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            );
            errors.push(FieldError::invalid(&spec.child("ipFamilyPolicy"), policy, why));
        }
    }
    let given = addresses(service);
    for (index, address) in given.iter().enumerate().skip(families.len()) {
        if address == "None" {
            break;
        }
        let family = family_of(address);
        if configured.contains(&family) {
            families.push(family.to_owned());
        } else {
            let path = spec.child("clusterIPs").index(index);
            let why = format!("{family} is not configured on this cluster");
            errors.push(FieldError::invalid(&path, json!(given), why));
        }
    }
    if !is_open {
        if policy == "RequireDualStack" && configured.len() < 2 {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid(&spec.child("ipFamilyPolicy"), policy, why));
        }
        for (index, family) in families.iter().enumerate() {
            // A family that does not exist at all is left for validation to refuse.
            let exists = matches!(family.as_str(), "IPv4" | "IPv6");
            if exists && !configured.contains(&family.as_str()) {
                let path = spec.child("ipFamilies").index(index);
                let why = "not configured on this cluster";
                errors.push(FieldError::invalid(&path, family.as_str(), why));
            }
        }
    }
    errors
}

/// Going back to one family keeps the first of an unchanged pair.
fn shrink(service: &mut Value, old: &Value, field: &str) {
    let list = texts(service, field);
    if list.len() > 1 && list == texts(old, field) {
        service.set(&["spec", field], json!([list[0]]));
    }
}

fn plan_addresses(plan: &mut Plan, new: &Value, old: Option<&Value>) {
    let before = old.filter(|old| uses_addresses(old));
    if let Some(before) = before {
        if is_headless(before) {
            return;
        }
        if !uses_addresses(new) {
            plan.released_addresses = addresses(before);
            return;
        }
        let kept = texts(new, "ipFamilies").len();
        plan.released_addresses = addresses(before).into_iter().skip(kept.max(1)).collect();
    }
    if !uses_addresses(new) || is_headless(new) {
        return;
    }
    let have = before.map_or(0, |before| addresses(before).len());
    let given = addresses(new);
    for (index, family) in texts(new, "ipFamilies").into_iter().enumerate().skip(have) {
        let requested = given.get(index).filter(|address| !address.is_empty()).cloned();
        plan.addresses.push(AddressClaim { index, family, requested });
    }
}

fn plan_ports(plan: &mut Plan, new: &Value, old: Option<&Value>) -> Result<(), Vec<FieldError>> {
    let before = old.map(node_ports).unwrap_or_default();
    if uses_node_ports(new) {
        let allocates = service_type(new) == "NodePort"
            || new.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(false);
        plan.node_ports = match old.filter(|old| uses_node_ports(old)) {
            None => claim_ports(new, allocates, &before),
            Some(_) => claim_changed_ports(new, allocates, &before),
        };
    }
    if old.is_some_and(uses_node_ports) {
        let kept = if uses_node_ports(new) { node_ports(new) } else { Vec::new() };
        plan.released_ports = before.into_iter().filter(|port| !kept.contains(port)).collect();
    }
    match (old.is_some_and(probes_health), probes_health(new)) {
        (false, true) => plan.health_check_port = Some(health_check_port(new)),
        (true, false) => plan.released_ports.extend(old.and_then(health_check_port)),
        (true, true) if health_check_port(new) != old.and_then(health_check_port) => {
            let path = Path::new("spec").child("healthCheckNodePort");
            let shown = health_check_port(new).unwrap_or_default();
            return Err(vec![FieldError::invalid(&path, shown, "field is immutable")]);
        }
        _ => {}
    }
    Ok(())
}

/// Entries of one port number share a node port, unless they ask for different ones.
fn claim_ports(service: &Value, allocates: bool, taken: &[i64]) -> Vec<PortClaim> {
    let ports = service.list_at(&["spec", "ports"]);
    let mut claims: Vec<PortClaim> = Vec::new();
    let mut by_number: Vec<(i64, usize)> = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let number = port.i64_at(&["port"]).unwrap_or_default();
        if node_port(port) == 0 && !allocates {
            continue;
        }
        let shared = by_number.iter().find(|entry| entry.0 == number).map(|entry| entry.1);
        match shared {
            Some(claim)
                if [0, claims[claim].requested.unwrap_or_default()].contains(&node_port(port)) =>
            {
                claims[claim].indexes.push(index);
            }
            Some(_) => {
                claims.push(PortClaim { indexes: vec![index], requested: Some(node_port(port)) });
            }
            None => {
                let requested = ports
                    .iter()
                    .filter(|other| other.i64_at(&["port"]) == Some(number))
                    .map(node_port)
                    .find(|requested| *requested != 0);
                by_number.push((number, claims.len()));
                claims.push(PortClaim { indexes: vec![index], requested });
            }
        }
    }
    claims.retain(|claim| claim.requested.is_none_or(|port| !taken.contains(&port)));
    claims
}

fn claim_changed_ports(service: &Value, allocates: bool, taken: &[i64]) -> Vec<PortClaim> {
    let mut claims: Vec<PortClaim> = Vec::new();
    for (index, port) in service.list_at(&["spec", "ports"]).iter().enumerate() {
        match node_port(port) {
            0 if allocates => claims.push(PortClaim { indexes: vec![index], requested: None }),
            0 => {}
            asked if taken.contains(&asked) => {}
            asked => match claims.iter_mut().find(|claim| claim.requested == Some(asked)) {
                Some(claim) => claim.indexes.push(index),
                None => claims.push(PortClaim { indexes: vec![index], requested: Some(asked) }),
            },
        }
    }
    claims
}

#[cfg(test)]
mod tests;

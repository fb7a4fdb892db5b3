//! Group `resource.k8s.io`: DeviceClass, ResourceClaim and ResourceClaimTemplate. Selectors are
//! compiled with a device of any shape.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::{Value, names};

use crate::expressions::Gives;

use super::core::scheduling::check_node_selector;
use super::core::volumes::check_driver_name;
use super::meta::{self, Scope};
use super::net;
use super::place::{At, Errors, same};
use super::webhooks::check_expression;

const MAX_REQUESTS: usize = 32;
const MAX_PARAMETERS: usize = 10 * 1024;
const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];
const NAME_OF_REQUEST: &str = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Requests of a claim with the names of their alternatives.
type Requests<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// A list with a limit; returns whether its elements are worth looking at.
pub(crate) fn within(list: &At<'_>, max: usize, errs: &mut Errors) -> bool {
    if list.len() > max {
        errs.too_many(list, max);
    }
    list.len() <= max
}

/// Reports elements whose key was seen before.
pub(crate) fn check_unique<'a>(list: &At<'a>, key: impl Fn(&At<'a>) -> &'a str, errs: &mut Errors) {
    let mut seen = BTreeSet::new();
    for item in list.items() {
        if !seen.insert(key(&item)) {
            errs.push(FieldError::duplicate(&item.path, key(&item)));
        }
    }
}

fn label(at: &At<'_>, errs: &mut Errors) {
    errs.messages(at, &names::dns1123_label(at.text()));
}

fn name_of<'a>(item: &At<'a>) -> &'a str {
    item.field("name").text()
}

pub(crate) fn claim_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_claim(&object.at(&["spec", "devices"]), errs);
}

pub(crate) fn claim_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    if subresource == "status" {
        meta::update(new, old, errs);
        return check_status(new, old, errs);
    }
    meta::check(new, Scope::Namespaced, names::subdomain_name, errs);
    meta::update(new, old, errs);
    errs.immutable(&new.field("spec"), &old.field("spec"));
}

pub(crate) fn template_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    meta::template(&object.at(&["spec", "metadata"]), errs);
    check_claim(&object.at(&["spec", "spec", "devices"]), errs);
}

pub(crate) fn template_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    template_create(new, errs);
    meta::update(new, old, errs);
    errs.immutable(&new.field("spec"), &old.field("spec"));
}

pub(crate) fn class_create(object: &At<'_>, errs: &mut Errors) {
    // Compat: this kind does not check generateName.
    let mut object_meta = object.field("metadata").value.clone();
    if let Some(map) = object_meta.as_object_mut() {
        map.remove("generateName");
    }
    let stripped = karmada_apimachinery::json!({"metadata": object_meta});
    meta::check(&At::root(&stripped), Scope::Cluster, names::subdomain_name, errs);
    check_class(&object.field("spec"), errs);
}

pub(crate) fn class_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::check(new, Scope::Cluster, names::subdomain_name, errs);
    meta::update(new, old, errs);
    check_class(&new.field("spec"), errs);
}

fn check_class(spec: &At<'_>, errs: &mut Errors) {
    check_selectors(&spec.field("selectors"), errs);
    let config = spec.field("config");
    if within(&config, 32, errs) {
        for entry in config.items() {
            check_opaque(&entry, errs);
        }
    }
    let name = spec.field("extendedResourceName");
    let extended = name.text().contains('/')
        && !name.text().contains("kubernetes.io/")
        && !name.text().starts_with("requests.")
        && names::qualified_name(&format!("requests.{}", name.text())).is_empty();
    if name.is_set() && !extended {
        errs.invalid_text(&name, "must be a valid extended resource name");
    }
}

fn gather<'a>(devices: &At<'a>) -> Requests<'a> {
    devices
        .field("requests")
        .items()
        .map(|request| {
            let alternatives = request.field("firstAvailable").items();
            (name_of(&request), alternatives.map(|alternative| name_of(&alternative)).collect())
        })
        .collect()
}

fn check_claim(devices: &At<'_>, errs: &mut Errors) {
    let known = gather(devices);
    let requests = devices.field("requests");
    if within(&requests, MAX_REQUESTS, errs) {
        for request in requests.items() {
            check_request(&request, errs);
        }
        check_unique(&requests, name_of, errs);
    }
    let constraints = devices.field("constraints");
    if within(&constraints, 32, errs) {
        for constraint in constraints.items() {
            check_constraint(&constraint, &known, errs);
        }
    }
    let config = devices.field("config");
    if within(&config, 32, errs) {
        for entry in config.items() {
            check_request_names(&entry.field("requests"), &known, errs);
            check_opaque(&entry, errs);
        }
    }
}

fn check_request(request: &At<'_>, errs: &mut Errors) {
    const ONE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    label(&request.field("name"), errs);
    let (exactly, first) = (request.field("exactly"), request.field("firstAvailable"));
    match (exactly.is_set(), !first.is_empty()) {
        (false, false) => errs.required(request, ONE),
        (true, true) => {
            errs.invalid(request, Value::Null, format!("{ONE}, but multiple fields are set"));
        }
        (true, false) => check_exact_request(&exactly, errs),
        (false, true) => {
            if within(&first, 8, errs) {
                for alternative in first.items() {
                    label(&alternative.field("name"), errs);
                    check_exact_request(&alternative, errs);
                }
                check_unique(&first, name_of, errs);
            }
        }
    }
}

fn check_exact_request(request: &At<'_>, errs: &mut Errors) {
    let class = request.field("deviceClassName");
    if errs.required_text(&class) {
        errs.messages(&class, &names::dns1123_subdomain(class.text()));
    }
    check_selectors(&request.field("selectors"), errs);
    let (mode, count) = (request.field("allocationMode"), request.field("count"));
    match mode.text() {
        "All" => {
            if count.int() != 0 {
                errs.invalid_int(&count, "must not be specified when allocationMode is 'All'");
            }
        }
        "ExactCount" => errs.positive(&count),
        _ => errs.unsupported(&mode, &["All", "ExactCount"]),
    }
    for toleration in request.field("tolerations").items() {
        check_toleration(&toleration, errs);
    }
}

fn check_toleration(toleration: &At<'_>, errs: &mut Errors) {
    let (key, operator, value) =
        (toleration.field("key"), toleration.field("operator"), toleration.field("value"));
    if !key.is_empty() {
        errs.messages(&key, &names::qualified_name(key.text()));
    }
    match operator.text() {
        "Exists" => {
            if !value.is_empty() {
                errs.invalid_text(&value, "must be empty for operator `Exists`");
            }
        }
        "Equal" => errs.messages(&value, &names::label_value(value.text())),
        "" => errs.required(&operator, ""),
        _ => errs.unsupported(&operator, &["Equal", "Exists"]),
    }
    let effect = toleration.field("effect");
    if !effect.is_empty() {
        errs.one_of(&effect, &TAINT_EFFECTS);
    }
}

/// A taint of a device.
pub(crate) fn check_taint(taint: &At<'_>, errs: &mut Errors) {
    let (key, value) = (taint.field("key"), taint.field("value"));
    errs.messages(&key, &names::qualified_name(key.text()));
    if !value.is_empty() {
        errs.messages(&value, &names::label_value(value.text()));
    }
    errs.required_one_of(&taint.field("effect"), &TAINT_EFFECTS);
}

fn check_selectors(selectors: &At<'_>, errs: &mut Errors) {
    if !within(selectors, 32, errs) {
        return;
    }
    for selector in selectors.items() {
        let cel = selector.field("cel");
        if !cel.is_set() {
            errs.required(&cel, "");
        } else if cel.field("expression").len() > MAX_PARAMETERS {
            errs.too_long(&cel.field("expression"), MAX_PARAMETERS);
        } else {
            let known = [("device".to_owned(), karmada_cel::Type::Dyn)].into();
            check_expression(&cel.field("expression"), &known, Gives::Bool, errs);
        }
    }
}

fn check_constraint(constraint: &At<'_>, known: &Requests<'_>, errs: &mut Errors) {
    check_request_names(&constraint.field("requests"), known, errs);
    let (matched, distinct) =
        (constraint.field("matchAttribute"), constraint.field("distinctAttribute"));
    if matched.is_set() {
        check_full_name(&matched, errs);
    } else if distinct.is_set() {
        check_full_name(&distinct, errs);
    } else {
        errs.required(constraint, r#"exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set"#);
    }
}

fn check_full_name(name: &At<'_>, errs: &mut Errors) {
    check_qualified_name(name, name.text(), errs);
    if !name.text().contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errs.invalid_text(name, detail);
    }
}

/// The name of an attribute or capacity, with or without a domain.
pub(crate) fn check_qualified_name(at: &At<'_>, name: &str, errs: &mut Errors) {
    let identifier = |part: &str, errs: &mut Errors| {
        if part.len() > 32 {
            errs.too_long(at, 32);
        }
        errs.messages_for(at, part, &names::c_identifier(part));
    };
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [single] => identifier(single, errs),
        [domain, single] => {
            if domain.is_empty() {
                errs.invalid(at, "", "the domain must not be empty");
            } else {
                let domain = Value::from(domain);
                check_driver_name(&At::new(at.path.clone(), &domain), errs);
            }
            if single.is_empty() {
                errs.invalid(at, "", "the name must not be empty");
            } else {
                identifier(single, errs);
            }
        }
        _ => {}
    }
}

fn check_request_names(list: &At<'_>, known: &Requests<'_>, errs: &mut Errors) {
    if !within(list, MAX_REQUESTS, errs) {
        return;
    }
    for name in list.items() {
        check_request_name(&name, known, errs);
    }
    check_unique(list, At::text, errs);
}

fn check_request_name(name: &At<'_>, known: &Requests<'_>, errs: &mut Errors) {
    let parts: Vec<&str> = name.text().split('/').collect();
    if parts.len() > 2 {
        return errs.invalid_text(name, NAME_OF_REQUEST);
    }
    for part in &parts {
        errs.messages_for(name, part, &names::dns1123_label(part));
    }
    let found = match parts[..] {
        [request] => known.contains_key(request),
        [request, sub] => known.get(request).is_some_and(|subs| subs.contains(sub)),
        _ => false,
    };
    if !found {
        errs.invalid_text(name, NAME_OF_REQUEST);
    }
}

fn check_opaque(config: &At<'_>, errs: &mut Errors) {
    let opaque = config.field("opaque");
    if !opaque.is_set() {
        return errs.required(&opaque, "");
    }
    check_driver_name(&opaque.field("driver"), errs);
    check_raw(&opaque.field("parameters"), errs);
}

fn check_raw(raw: &At<'_>, errs: &mut Errors) {
    if !raw.is_set() {
        errs.required(raw, "");
    } else if raw.value.to_string().len() > MAX_PARAMETERS {
        errs.too_long(raw, MAX_PARAMETERS);
    } else if !raw.value.is_object() {
        errs.invalid(raw, "<value omitted>", "must be a valid JSON object");
    }
}

/// The name of a pool: subdomains separated by slashes.
pub(crate) fn check_pool_name(name: &At<'_>, errs: &mut Errors) {
    if !errs.required_text(name) {
        return;
    }
    if name.len() > 253 {
        errs.too_long(name, 253);
    }
    for part in name.text().split('/') {
        errs.messages_for(name, part, &names::dns1123_subdomain(part));
    }
}

fn check_status(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let (status, before) = (new.field("status"), old.field("status"));
    let known = gather(&new.at(&["spec", "devices"]));
    let (users, allocation) = (status.field("reservedFor"), status.field("allocation"));
    if within(&users, 256, errs) {
        for user in users.items() {
            for field in ["resource", "name", "uid"] {
                errs.required_text(&user.field(field));
            }
        }
        check_unique(&users, |user| user.field("uid").text(), errs);
    }
    check_device_statuses(&status, errs);
    if !users.is_empty() {
        let deleted = new.at(&["metadata", "deletionTimestamp"]).is_set();
        let stored = before.field("reservedFor");
        let added = users.items().any(|user| !stored.items().any(|old| old.value == user.value));
        if !allocation.is_set() {
            errs.forbidden(&users, "may not be specified when `allocated` is not set");
        } else if deleted && added {
            errs.forbidden(&users, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set");
        }
    }
    if before.field("allocation").is_set() && allocation.is_set() {
        if !same(allocation.value, before.field("allocation").value) {
            errs.invalid_value(&allocation, super::place::FIELD_IMMUTABLE);
        }
    } else if allocation.is_set() {
        check_allocation(&allocation, &known, errs);
    }
}

fn check_allocation(allocation: &At<'_>, known: &Requests<'_>, errs: &mut Errors) {
    let devices = allocation.field("devices");
    let results = devices.field("results");
    if within(&results, 32, errs) {
        for result in results.items() {
            check_request_name(&result.field("request"), known, errs);
            check_driver_name(&result.field("driver"), errs);
            check_pool_name(&result.field("pool"), errs);
            label(&result.field("device"), errs);
            super::resource_slices::check_binding_conditions(&result, errs);
        }
    }
    let config = devices.field("config");
    if within(&config, 64, errs) {
        for entry in config.items() {
            errs.required_one_of(&entry.field("source"), &["FromClaim", "FromClass"]);
            check_request_names(&entry.field("requests"), known, errs);
            check_opaque(&entry, errs);
        }
    }
    if allocation.field("nodeSelector").is_set() {
        check_node_selector(&allocation.field("nodeSelector"), errs);
    }
}

fn check_device_statuses(status: &At<'_>, errs: &mut Errors) {
    const KEY: [&str; 4] = ["driver", "pool", "device", "shareID"];
    let key = |at: &At<'_>| KEY.map(|field| at.field(field).text().to_owned());
    let allocated: BTreeSet<[String; 4]> = status
        .at(&["allocation", "devices", "results"])
        .items()
        .map(|result| key(&result))
        .collect();
    let mut seen = BTreeSet::new();
    for device in status.field("devices").items() {
        check_driver_name(&device.field("driver"), errs);
        check_pool_name(&device.field("pool"), errs);
        label(&device.field("device"), errs);
        let id = key(&device);
        if !allocated.contains(&id) {
            errs.invalid_value(&device, "must be an allocated device in the claim");
        }
        let conditions = device.field("conditions");
        if conditions.len() > 8 {
            errs.too_many(&conditions, 8);
        }
        meta::conditions(&conditions, errs);
        if device.field("data").is_set() {
            check_raw(&device.field("data"), errs);
        }
        check_network_data(&device.field("networkData"), errs);
        if !seen.insert(id) {
            errs.duplicate(&device);
        }
    }
}

fn check_network_data(data: &At<'_>, errs: &mut Errors) {
    for (field, limit) in [("interfaceName", 256), ("hardwareAddress", 128)] {
        if data.field(field).len() > limit {
            errs.too_long(&data.field(field), limit);
        }
    }
    let ips = data.field("ips");
    if within(&ips, 16, errs) {
        for ip in ips.items() {
            if net::parse_cidr_sloppy(ip.text()).is_none() {
                errs.invalid_text(
                    &ip,
                    "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
                );
            }
        }
        check_unique(&ips, At::text, errs);
    }
}

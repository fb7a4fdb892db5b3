//! Group `resource.k8s.io`: ResourceSlice, the devices a driver offers.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Value, names};
use regex::Regex;

use super::core::resources::quantity;
use super::core::scheduling::check_node_selector;
use super::core::volumes::check_driver_name;
use super::meta::{self, Scope};
use super::place::{At, Errors, same};
use super::resource_claims::{
    check_pool_name, check_qualified_name, check_taint, check_unique, within,
};

const LIST_VALUES: [&str; 4] = ["bools", "ints", "strings", "versions"];
const MAX_VALUE: usize = 64;

static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    let number = r"(0|[1-9]\d*)";
    let release = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)";
    let build = "[0-9a-zA-Z-]+";
    let pattern = format!(
        r"^{number}\.{number}\.{number}(-{release}(\.{release})*)?(\+{build}(\.{build})*)?$"
    );
    Regex::new(&pattern).expect("the pattern is a constant")
});

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    check_spec(&object.field("spec"), None, errs);
}

pub(crate) fn update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    check_spec(&new.field("spec"), Some(&old.field("spec")), errs);
}

fn check_spec(spec: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    check_driver_name(&spec.field("driver"), errs);
    let pool = spec.field("pool");
    check_pool_name(&pool.field("name"), errs);
    errs.positive(&pool.field("resourceSliceCount"));
    if pool.field("generation").int() < 0 {
        errs.invalid_int(&pool.field("generation"), "must be greater than or equal to zero");
    }
    if let Some(old) = old {
        for path in [&["pool", "name"][..], &["driver"], &["nodeName"]] {
            errs.immutable(&spec.at(path), &old.at(path));
        }
    }
    check_placement(spec, errs);
    let devices = spec.field("devices");
    if spec.field("sharedCounters").is_set() && devices.is_set() {
        errs.invalid(spec, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    let advanced = devices.items().any(|device| {
        !device.field("taints").is_empty()
            || !device.field("consumesCounters").is_empty()
            || device
                .field("attributes")
                .entries()
                .any(|(_, value)| LIST_VALUES.iter().any(|list| value.field(list).is_set()))
    });
    if within(&devices, if advanced { 64 } else { 128 }, errs) {
        for device in devices.items() {
            let name = device.field("name").text();
            let stored = old.and_then(|old| {
                old.field("devices").items().find(|old| old.field("name").text() == name)
            });
            check_device(&device, stored.as_ref(), spec, errs);
        }
        check_unique(&devices, |device| device.field("name").text(), errs);
    }
    let counters = spec.field("sharedCounters");
    if within(&counters, 8, errs) {
        for set in counters.items() {
            check_counters(&set, "name", errs);
        }
        check_unique(&counters, |set| set.field("name").text(), errs);
    }
}

/// Which nodes reach the devices: exactly one way to say it.
fn check_placement(spec: &At<'_>, errs: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut given = Vec::new();
    let node = spec.field("nodeName");
    if node.is_set() && node.is_empty() {
        errs.invalid_text(&node, "must be either unset or set to a non-empty string");
    } else if node.is_set() {
        given.push("`nodeName`");
        errs.messages(&node, &names::dns1123_subdomain(node.text()));
    }
    let selector = spec.field("nodeSelector");
    if selector.is_set() {
        given.push("`nodeSelector`");
        check_node_selector(&selector, errs);
        let terms = selector.field("nodeSelectorTerms");
        if terms.len() != 1 {
            errs.invalid_value(&terms, "must have exactly one node selector term");
        }
    }
    for (field, shown) in
        [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match spec.field(field).flag() {
            Some(true) => given.push(shown),
            Some(false) => {
                errs.invalid_value(&spec.field(field), "must be either unset or set to true");
            }
            None => {}
        }
    }
    match given.len() {
        0 => errs.required(spec, ONE),
        1 => {}
        _ => errs.invalid(
            spec,
            format!("{{{}}}", given.join(", ")),
            format!("{ONE}, but multiple fields are set"),
        ),
    }
}

fn check_device(device: &At<'_>, old: Option<&At<'_>>, spec: &At<'_>, errs: &mut Errors) {
    let name = device.field("name");
    errs.messages(&name, &names::dns1123_label(name.text()));
    let (attributes, capacity) = (device.field("attributes"), device.field("capacity"));
    let entries = attributes.len() + capacity.len();
    if entries > 32 {
        let detail = "the total number of attributes and capacities must not exceed 32";
        errs.invalid(device, entries as u64, detail);
    }
    let values: usize = attributes
        .entries()
        .map(|(_, at)| LIST_VALUES.iter().map(|list| at.field(list).len()).sum::<usize>().max(1))
        .sum();
    if values > 48 {
        let detail = "the total number of attribute values must not exceed 48";
        errs.invalid(device, values as u64, detail);
    }
    for (key, attribute) in attributes.entries() {
        check_qualified_name(&attributes, key, errs);
        check_attribute(&attribute, errs);
    }
    let shared = device.field("allowMultipleAllocations").is_true();
    for (key, amount) in capacity.entries() {
        check_qualified_name(&capacity, key, errs);
        let policy = amount.field("requestPolicy");
        if policy.is_set() && shared {
            check_policy(&amount.field("value"), &policy, errs);
        } else if policy.is_set() {
            errs.forbidden(&policy, "allowMultipleAllocations must be true");
        }
    }
    let taints = device.field("taints");
    let kept = old.is_some_and(|old| same(old.field("taints").value, taints.value));
    if !kept && within(&taints, 16, errs) {
        for taint in taints.items() {
            check_taint(&taint, errs);
        }
    }
    let consumed = device.field("consumesCounters");
    if within(&consumed, 2, errs) {
        for consumption in consumed.items() {
            check_counters(&consumption, "counterSet", errs);
        }
        check_unique(&consumed, |item| item.field("counterSet").text(), errs);
    }
    check_device_placement(device, spec, errs);
    check_binding_conditions(device, errs);
}

fn check_device_placement(device: &At<'_>, spec: &At<'_>, errs: &mut Errors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let (node, selector, all) =
        (device.field("nodeName"), device.field("nodeSelector"), device.field("allNodes"));
    if !spec.field("perDeviceNodeSelection").is_true() {
        if [&node, &selector, &all].iter().any(|at| at.is_set()) {
            errs.invalid(device, Value::Null, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec");
        }
        return;
    }
    let mut given = Vec::new();
    if node.is_set() && node.is_empty() {
        errs.invalid_text(&node, "must not be empty");
    } else if node.is_set() {
        given.push("`nodeName`");
        errs.messages(&node, &names::dns1123_subdomain(node.text()));
    }
    if selector.is_set() {
        given.push("`nodeSelector`");
        check_node_selector(&selector, errs);
    }
    match all.flag() {
        Some(true) => given.push("`allNodes`"),
        Some(false) => errs.invalid_value(&all, "must be either unset or set to true"),
        None => {}
    }
    match given.len() {
        0 => errs.required(device, ONE),
        1 => {}
        _ => errs.invalid(device, format!("{{{}}}", given.join(", ")), ONE),
    }
}

fn check_attribute(attribute: &At<'_>, errs: &mut Errors) {
    let text = |at: &At<'_>, errs: &mut Errors| {
        if at.len() > MAX_VALUE {
            errs.too_long(at, MAX_VALUE);
        }
    };
    let version = |at: &At<'_>, errs: &mut Errors| {
        if !VERSION.is_match(at.text()) {
            errs.invalid_text(at, "must be a string compatible with semver.org spec 2.0.0");
        }
        text(at, errs);
    };
    if attribute.field("string").is_set() {
        text(&attribute.field("string"), errs);
    }
    if attribute.field("version").is_set() {
        version(&attribute.field("version"), errs);
    }
    for field in LIST_VALUES {
        let list = attribute.field(field);
        if list.is_set() && list.is_empty() {
            errs.invalid_value(&list, "must not be empty if specified");
        }
        for item in list.items() {
            match field {
                "strings" => text(&item, errs),
                "versions" => version(&item, errs),
                _ => {}
            }
        }
    }
    let single = ["bool", "int", "string", "version"];
    let count = single.iter().chain(&LIST_VALUES).filter(|f| attribute.field(f).is_set()).count();
    match count {
        0 => errs.invalid(attribute, "", "exactly one value must be specified"),
        1 => {}
        _ => errs.invalid_value(attribute, "exactly one value must be specified"),
    }
}

fn check_policy(capacity: &At<'_>, policy: &At<'_>, errs: &mut Errors) {
    let (values, range) = (policy.field("validValues"), policy.field("validRange"));
    let default = policy.field("default");
    if !values.is_empty() && range.is_set() {
        return errs.forbidden(policy, r#"exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#);
    }
    let zero = || Quantity::from_millis(0);
    let max = quantity(capacity).unwrap_or_else(zero);
    let which = if !values.is_empty() {
        "validValues"
    } else if range.is_set() {
        "validRange"
    } else {
        return;
    };
    let Some(default) = quantity(&default) else {
        return errs.required(&default, format!("required when {which} is defined"));
    };
    if which == "validValues" {
        check_values(&values, &default, &max, errs);
    } else {
        check_range(&range, &default, &max, errs);
    }
}

fn check_values(values: &At<'_>, default: &Quantity, max: &Quantity, errs: &mut Errors) {
    let amounts: Vec<(At<'_>, Quantity)> =
        values.items().filter_map(|at| quantity(&at).map(|amount| (at, amount))).collect();
    for pair in amounts.windows(2) {
        if let [(_, low), (at, high)] = pair
            && low > high
        {
            errs.invalid(at, high.to_string(), "values must be sorted in ascending order");
        }
    }
    if within(values, 10, errs) {
        for (at, amount) in amounts.iter().filter(|(_, amount)| amount > max) {
            let detail = format!("option is larger than capacity value: {max}");
            errs.invalid(at, amount.to_string(), detail);
        }
        let mut seen = BTreeSet::new();
        for (at, amount) in &amounts {
            if !seen.insert(amount.value()) {
                errs.push(FieldError::duplicate(&at.path, amount.value().to_string()));
            }
        }
    }
    if !amounts.iter().any(|(_, amount)| amount == default) {
        let detail = "default value is not valid according to the requestPolicy";
        errs.invalid(values, default.to_string(), detail);
    }
}

fn check_range(range: &At<'_>, default: &Quantity, capacity: &Quantity, errs: &mut Errors) {
    let (min_at, max_at, step_at) = (range.field("min"), range.field("max"), range.field("step"));
    let Some(min) = quantity(&min_at) else {
        return errs.required(&min_at, "required when validRange is defined");
    };
    if min > *capacity {
        let detail = format!("min is larger than capacity value: {capacity}");
        errs.invalid(&min_at, min.to_string(), detail);
    }
    if *default < min {
        errs.invalid(&min_at, default.to_string(), format!("default is less than min: {min}"));
    }
    let max = quantity(&max_at);
    if let Some(max) = &max {
        if min > *max {
            errs.invalid(&max_at, min.to_string(), format!("min is larger than max: {max}"));
        }
        if max > capacity {
            let detail = format!("max is larger than capacity value: {capacity}");
            errs.invalid(&max_at, max.to_string(), detail);
        }
        if default > max {
            errs.invalid(&max_at, default.to_string(), format!("default is more than max: {max}"));
        }
    }
    let Some(step) = quantity(&step_at) else { return };
    let first = &min + &step;
    if first > *capacity {
        let detail = format!("one step {first} is larger than capacity value: {capacity}");
        errs.invalid(&step_at, step.to_string(), detail);
    }
    for value in std::iter::once(default).chain(&max) {
        let offset = value.value().saturating_sub(min.value());
        if offset.checked_rem(step.value()) != Some(0) {
            let detail = format!("value is not a multiple of a given step ({step}) from ({min})");
            errs.invalid(&step_at, value.to_string(), detail);
        }
    }
}

fn check_counters(set: &At<'_>, name_field: &str, errs: &mut Errors) {
    let (name, counters) = (set.field(name_field), set.field("counters"));
    if errs.required_text(&name) {
        errs.messages(&name, &names::dns1123_label(name.text()));
    }
    if counters.is_empty() {
        errs.required(&counters, "");
    } else if within(&counters, 32, errs) {
        for (key, _) in counters.entries() {
            errs.messages_for(&counters, key, &names::dns1123_label(key));
        }
    }
}

/// Conditions a device must reach, or must not, before a pod is bound to it.
pub(crate) fn check_binding_conditions(device: &At<'_>, errs: &mut Errors) {
    let (wanted, failures) =
        (device.field("bindingConditions"), device.field("bindingFailureConditions"));
    for list in [&wanted, &failures] {
        if within(list, 4, errs) {
            for condition in list.items() {
                errs.messages(&condition, &names::qualified_name(condition.text()));
            }
        }
    }
    check_unique(&wanted, At::text, errs);
    let mut seen = BTreeSet::new();
    for condition in failures.items() {
        if !seen.insert(condition.text()) {
            errs.duplicate(&condition);
        }
        if wanted.has_text(condition.text()) {
            let detail = "bindingFailureConditions must not overlap with bindingConditions";
            errs.invalid_text(&condition, detail);
        }
    }
    if wanted.is_empty() && !failures.is_empty() {
        let detail = "bindingConditions are required to use bindingFailureConditions";
        errs.invalid_value(&wanted, detail);
    }
    if failures.is_empty() && !wanted.is_empty() {
        let detail = "bindingFailureConditions are required to use bindingConditions";
        errs.invalid_value(&failures, detail);
    }
}

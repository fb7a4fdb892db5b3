//! Rows of nodes, namespaces, events, configuration and the other kinds of the cluster itself.

use jiff::SignedDuration;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::time::human_duration;

use super::row::{Row, amount, or_none};
use crate::convert::convert;

pub(super) fn name_and_age(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.age()]
}

pub(super) fn component_status(row: &Row<'_>) -> Vec<Value> {
    let conditions = row.object.list_at(&["conditions"]);
    let healthy = conditions.iter().find(|c| c.str_at(&["type"]) == Some("Healthy"));
    let text = |field: &str| healthy.and_then(|c| c.str_at(&[field])).unwrap_or_default();
    let status = match healthy.map(|_| text("status")) {
        None => "Unknown",
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
    };
    vec![row.name(), status.into(), text("message").into(), text("error").into()]
}

pub(super) fn config_map(row: &Row<'_>) -> Vec<Value> {
    let entries = row.count(&["data"]) + row.count(&["binaryData"]);
    vec![row.name(), entries.into(), row.age()]
}

pub(super) fn secret(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["type"]), row.count(&["data"]).into(), row.age()]
}

pub(super) fn namespace(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["status", "phase"]), row.age()]
}

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let ready = row.condition("Ready").and_then(|c| c.str_at(&["status"]));
    let mut status = match ready {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if row.object.bool_at(&["spec", "unschedulable"]) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    let info = |field: &str| {
        let text = row.str(&["status", "nodeInfo", field]);
        if text.is_empty() { "<unknown>" } else { text }.to_owned()
    };
    let address = |kind: &str| {
        let addresses = row.object.list_at(&["status", "addresses"]).iter();
        let mut found = addresses.filter(|address| address.str_at(&["type"]) == Some(kind));
        found.next().and_then(|address| address.str_at(&["address"])).unwrap_or("<none>").to_owned()
    };
    let mut kernel = info("kernelVersion");
    let architecture = row.str(&["status", "nodeInfo", "architecture"]);
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        row.name(),
        status.into(),
        roles(row).into(),
        row.age(),
        row.text(&["status", "nodeInfo", "kubeletVersion"]),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

/// Roles are read off labels, by prefix or by the older single label.
fn roles(row: &Row<'_>) -> String {
    let labels = row.object.map_at(&["metadata", "labels"]).into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or_none(&roles.join(",")).to_owned()
}

pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let mut object = row.object.clone();
    convert(&mut object, "", "v1");
    let row = &Row { object: &object, now: row.now };
    let time = |path: &[&str]| row.object.at(path).filter(|time| !time.is_null()).cloned();
    let first = row.since(time(&["firstTimestamp"]).or_else(|| time(&["eventTime"])).as_ref());
    let mut last = match time(&["lastTimestamp"]) {
        Some(time) => row.since(Some(&time)),
        None => first.clone(),
    };
    let mut count = row.int(&["count"]).max(1);
    if row.object.map_at(&["series"]).is_some() {
        last = row.since(time(&["series", "lastObservedTime"]).as_ref());
        count = row.int(&["series", "count"]);
    }
    let involved = |field: &str| row.str(&["involvedObject", field]);
    let mut target = involved("kind").to_lowercase();
    if !involved("name").is_empty() {
        target = format!("{target}/{}", involved("name"));
    }
    vec![
        last.into(),
        row.text(&["type"]),
        row.text(&["reason"]),
        target.into(),
        involved("fieldPath").into(),
        event_source(row).into(),
        row.str(&["message"]).trim().into(),
        first.into(),
        count.into(),
        row.name(),
    ]
}

fn event_source(row: &Row<'_>) -> String {
    let first = |new: &[&str], old: &str| {
        let text = row.str(new);
        if text.is_empty() { row.str(&[old]) } else { text }.to_owned()
    };
    let component = first(&["source", "component"], "reportingComponent");
    let instance = first(&["source", "host"], "reportingInstance");
    if instance.is_empty() { component } else { format!("{component}, {instance}") }
}

pub(super) fn resource_quota(row: &Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in row.object.map_at(&["status", "hard"]).into_iter().flatten() {
        let used = amount(row.object.at(&["status", "used", name]));
        let text = format!("{name}: {used}/{}", amount(Some(hard)));
        if name.starts_with("limits.") { &mut limits } else { &mut requests }.push(text);
    }
    vec![row.name(), requests.join(", ").into(), limits.join(", ").into(), row.age()]
}

pub(super) fn api_service(row: &Row<'_>) -> Vec<Value> {
    let service = match row.object.at(&["spec", "service"]).filter(|s| s.is_object()) {
        Some(service) => {
            let text = |field: &str| service.str_at(&[field]).unwrap_or_default();
            format!("{}/{}", text("namespace"), text("name"))
        }
        None => "Local".to_owned(),
    };
    let condition = row.condition("Available");
    let text = |field: &str| condition.and_then(|c| c.str_at(&[field])).unwrap_or_default();
    let available = match (condition, text("status"), text("reason")) {
        (None, ..) => "Unknown".to_owned(),
        (_, "True", _) => "True".to_owned(),
        (_, status, "") => status.to_owned(),
        (_, status, reason) => format!("{status} ({reason})"),
    };
    vec![row.name(), service.into(), available.into(), row.age()]
}

pub(super) fn signing_request(row: &Row<'_>) -> Vec<Value> {
    let has = |kind: &str| row.condition(kind).is_some();
    let verdict = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if row.str(&["status", "certificate"]).is_empty() { "" } else { ",Issued" };
    let duration = row.object.i64_at(&["spec", "expirationSeconds"]);
    let duration = duration.map(|seconds| human_duration(SignedDuration::from_secs(seconds)));
    vec![
        row.name(),
        row.age(),
        or_none(row.str(&["spec", "signerName"])).into(),
        row.text(&["spec", "username"]),
        duration.unwrap_or_else(|| "<none>".to_owned()).into(),
        format!("{verdict}{failed}{issued}").into(),
    ]
}

pub(super) fn lease(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["spec", "holderIdentity"]), row.age()]
}

pub(super) fn runtime_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["handler"]), row.age()]
}

pub(super) fn priority_class(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.number(&["value"]),
        row.flag(&["globalDefault"], false),
        row.age(),
        row.text(&["preemptionPolicy"]),
    ]
}

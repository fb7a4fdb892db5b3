//! Writes to a pod's status.

use std::collections::BTreeSet;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;

use super::pod;
use crate::validation::meta;
use crate::validation::net;
use crate::validation::place::{At, Errors};

pub(crate) fn check(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    pod::check_annotation_changes(new, old, errs);
    let (status, before) = (new.field("status"), old.field("status"));
    check_conditions(&status.field("conditions"), errs);
    if node(new).text() != node(old).text() {
        errs.forbidden(&status.field("nodeName"), "may not be changed directly");
    }
    let nominated = status.field("nominatedNodeName");
    if !nominated.is_empty() && nominated.text() != before.field("nominatedNodeName").text() {
        errs.messages(&nominated, &names::dns1123_subdomain(nominated.text()));
        if !node(old).is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            errs.forbidden(&nominated, detail);
        }
    }
    check_generation(&status, errs);
    let class = status.field("qosClass");
    errs.immutable(&class, &before.field("qosClass"));
    for (list, containers) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        check_transitions(&status.field(list), &before.field(list), old, containers, errs);
    }
    check_claim_statuses(new, errs);
    check_pod_ips(&status, &before, errs);
    check_host_ips(&status, &before, errs);
    check_users(new, errs);
}

fn node<'a>(pod: &At<'a>) -> At<'a> {
    pod.at(&["spec", "nodeName"])
}

fn check_generation(at: &At<'_>, errs: &mut Errors) {
    let generation = at.field("observedGeneration");
    if generation.int() < 0 {
        errs.invalid_int(&generation, "must be a non-negative integer");
    }
}

fn check_conditions(conditions: &At<'_>, errs: &mut Errors) {
    for condition in conditions.items() {
        check_generation(&condition, errs);
        let kind = condition.field("type").text();
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            let reported = condition.field("Type");
            errs.messages_for(&reported, kind, &names::qualified_name(kind));
        }
    }
}

/// A container that has ended stays so unless its restart policy lets it run again.
fn check_transitions(
    statuses: &At<'_>,
    before: &At<'_>,
    pod: &At<'_>,
    containers: &str,
    errs: &mut Errors,
) {
    for old in before.items() {
        let ended = old.at(&["state", "terminated"]);
        if !ended.is_set() {
            continue;
        }
        let name = old.field("name").text();
        let new = statuses.items().find(|status| status.field("name").text() == name);
        let revived = new.is_some_and(|status| !status.at(&["state", "terminated"]).is_set());
        let container = pod
            .at(&["spec", containers])
            .items()
            .find(|container| container.field("name").text() == name);
        let allowed = container
            .is_some_and(|c| may_restart(&c, &pod.field("spec"), ended.field("exitCode").int()));
        if revived && !allowed {
            let at = At::new(statuses.path.clone(), before.value);
            let index = before.items().position(|s| s.path == old.path).unwrap_or_default();
            errs.forbidden(
                &at.index(index).field("state"),
                "may not be transitioned to non-terminated state",
            );
        }
    }
}

fn may_restart(container: &At<'_>, spec: &At<'_>, exit_code: i64) -> bool {
    for rule in container.field("restartPolicyRules").items() {
        let codes = rule.field("exitCodes");
        let listed = codes.field("values").items().any(|code| code.number() == Some(exit_code));
        let matches = match codes.field("operator").text() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if matches && rule.field("action").text().starts_with("Restart") {
            return true;
        }
    }
    let own = container.field("restartPolicy");
    let policy = if own.is_set() { own } else { spec.field("restartPolicy") };
    match policy.text() {
        "Always" => true,
        "OnFailure" => exit_code != 0,
        _ => false,
    }
}

fn check_claim_statuses(pod: &At<'_>, errs: &mut Errors) {
    let claims: BTreeSet<&str> =
        pod.at(&["spec", "resourceClaims"]).items().map(|c| c.field("name").text()).collect();
    let mut seen = BTreeSet::new();
    for status in pod.at(&["status", "resourceClaimStatuses"]).items() {
        let name = status.field("name");
        if !claims.contains(name.text()) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errs.invalid_text(&name, detail);
        }
        if !seen.insert(name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        let claim = status.field("resourceClaimName");
        if claim.is_set() {
            errs.messages(&claim, &names::dns1123_subdomain(claim.text()));
        }
    }
}

fn addresses<'a>(list: &At<'a>) -> Vec<&'a str> {
    list.items().map(|entry| entry.field("ip").text()).collect()
}

fn check_addresses(list: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let known = addresses(before);
    for entry in list.items() {
        let at = entry.field("ip").reported_at(entry.path.clone());
        net::check_ip(&at, &known, errs);
    }
    if list.len() > 1 && (!net::is_dual_stack(&addresses(list)) || list.len() > 2) {
        errs.invalid_value(list, "may specify no more than one IP for each IP family");
    }
}

fn check_pod_ips(status: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    check_addresses(&status.field("podIPs"), &before.field("podIPs"), errs);
}

fn check_host_ips(status: &At<'_>, before: &At<'_>, errs: &mut Errors) {
    let list = status.field("hostIPs");
    if list.is_empty() {
        return;
    }
    let first = list.index(0).field("ip");
    if status.field("hostIP").text() != first.text() {
        errs.invalid_text(&first, "must be equal to `hostIP`");
    }
    check_addresses(&list, &before.field("hostIPs"), errs);
}

fn check_users(pod: &At<'_>, errs: &mut Errors) {
    let windows = pod.at(&["spec", "os", "name"]).text() == "windows";
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for status in pod.at(&["status", list]).items() {
            let user = status.at(&["user", "linux"]);
            if !user.is_set() {
                continue;
            }
            if windows {
                errs.forbidden(&user, "cannot be set for a windows pod");
                continue;
            }
            for id in ["uid", "gid"] {
                errs.in_range(&user.field(id), 0, i64::from(i32::MAX));
            }
            for group in user.field("supplementalGroups").items() {
                errs.in_range(&group, 0, i64::from(i32::MAX));
            }
        }
    }
    for status in pod.at(&["status", "ephemeralContainerStatuses"]).items() {
        let allocated = status.field("allocatedResourcesStatus");
        if !allocated.is_empty() {
            errs.forbidden(&allocated, "must not be specified in container status");
        }
    }
}

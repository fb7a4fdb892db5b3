//! Group `apps`: Deployment, ReplicaSet, StatefulSet, DaemonSet, ControllerRevision.

use std::collections::BTreeMap;

use karmada_apimachinery::{Value, names};

use super::core::{persistent, pod};
use super::meta::{self, Scope};
use super::place::{At, Errors, same};
use super::selectors;

fn check_selector(selector: &At<'_>, kind: &str, errs: &mut Errors) {
    if !selector.is_set() {
        return errs.required(selector, "");
    }
    selectors::check(selector, errs);
    if selectors::is_blank(selector) {
        let detail = format!("empty selector is invalid for {kind}");
        errs.invalid(selector, selectors::shown(selector.value), detail);
    }
}

/// The selector of a Deployment or ReplicaSet together with its template.
fn check_replicated_template(spec: &At<'_>, errs: &mut Errors) {
    let selector = spec.field("selector");
    // Compat: the word is "deployment" for ReplicaSets too.
    check_selector(&selector, "deployment", errs);
    match selectors::parse(&selector) {
        None => {
            errs.invalid(&selector, selectors::shown(selector.value), "invalid label selector");
        }
        Some(parsed) => {
            let template = spec.field("template");
            if !parsed.is_empty() || !selector.is_set() {
                selectors::check_template_labels(&parsed, &template, errs);
            }
            pod::check_template(&template, errs);
            pod::check_long_running(&template, "ReplicaSet", errs);
        }
    }
}

/// A count or a percentage, neither negative.
pub(crate) fn check_int_or_percent(at: &At<'_>, errs: &mut Errors) {
    if at.value.is_string() {
        errs.messages(at, &names::percent(at.text()));
    } else {
        errs.non_negative(at);
    }
}

fn percent(at: &At<'_>) -> Option<i64> {
    at.text().strip_suffix('%')?.parse().ok()
}

fn is_zero(at: &At<'_>) -> bool {
    if at.value.is_string() { percent(at).unwrap_or_default() == 0 } else { at.int() == 0 }
}

pub(crate) fn check_at_most_all(at: &At<'_>, errs: &mut Errors) {
    if percent(at).is_some_and(|percent| percent > 100) {
        errs.invalid_value(at, "must not be greater than 100%");
    }
}

/// Counts of a status: none negative, none above `replicas`, no more available than ready.
pub(crate) fn check_replica_counts(status: &At<'_>, fields: &[&str], errs: &mut Errors) {
    for field in
        fields.iter().chain(&["observedGeneration", "terminatingReplicas", "collisionCount"])
    {
        errs.non_negative(&status.field(field));
    }
    let replicas = status.field("replicas").int();
    for field in
        fields.iter().filter(|field| !matches!(**field, "replicas" | "unavailableReplicas"))
    {
        if status.field(field).int() > replicas {
            errs.invalid_int(&status.field(field), "cannot be greater than status.replicas");
        }
    }
    let available = status.field("availableReplicas");
    if available.int() > status.field("readyReplicas").int() {
        errs.invalid_int(&available, "cannot be greater than readyReplicas");
    }
}

fn check_collisions(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let count = new.at(&["status", "collisionCount"]);
    let before = old.at(&["status", "collisionCount"]).number();
    if before.is_some_and(|before| count.number().is_none_or(|count| count < before)) {
        errs.invalid_int(&count, "cannot be decremented");
    }
}

pub(crate) fn deployment_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_deployment(&object.field("spec"), errs);
}

pub(crate) fn deployment_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        let fields = [
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
        ];
        check_replica_counts(&new.field("status"), &fields, errs);
        return check_collisions(new, old, errs);
    }
    check_deployment(&new.field("spec"), errs);
    check_selector_kept(new, old, errs);
}

fn check_selector_kept(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let selector = new.at(&["spec", "selector"]);
    let shown = selectors::shown(selector.value);
    errs.immutable_shown(&selector, &old.at(&["spec", "selector"]), shown);
}

fn check_deployment(spec: &At<'_>, errs: &mut Errors) {
    errs.non_negative(&spec.field("replicas"));
    check_replicated_template(spec, errs);
    check_strategy(&spec.field("strategy"), errs);
    errs.non_negative(&spec.field("minReadySeconds"));
    errs.non_negative(&spec.field("revisionHistoryLimit"));
    let deadline = spec.field("progressDeadlineSeconds");
    errs.non_negative(&deadline);
    if deadline.number().is_some_and(|seconds| seconds <= spec.field("minReadySeconds").int()) {
        errs.invalid_int(&deadline, "must be greater than minReadySeconds");
    }
}

fn check_strategy(strategy: &At<'_>, errs: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                errs.forbidden(&rolling, detail);
            }
        }
        "RollingUpdate" if !rolling.is_set() => {
            errs.required(&rolling, "this should be defaulted and never be nil");
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            check_int_or_percent(&unavailable, errs);
            check_int_or_percent(&surge, errs);
            if is_zero(&unavailable) && is_zero(&surge) {
                errs.invalid_value(&unavailable, "may not be 0 when `maxSurge` is 0");
            }
            check_at_most_all(&unavailable, errs);
        }
        _ => errs.unsupported(strategy, &["Recreate", "RollingUpdate"]),
    }
}

pub(crate) fn replica_set_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_replica_set(&object.field("spec"), errs);
}

fn check_replica_set(spec: &At<'_>, errs: &mut Errors) {
    errs.non_negative(&spec.field("replicas"));
    errs.non_negative(&spec.field("minReadySeconds"));
    check_replicated_template(spec, errs);
}

pub(crate) fn replica_set_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        let fields = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        return check_replica_counts(&new.field("status"), &fields, errs);
    }
    check_replica_set(&new.field("spec"), errs);
    check_selector_kept(new, old, errs);
}

/// How much of a StatefulSet is checked: an update leaves alone what it cannot change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Everything,
    Changeable,
    ChangeableWithoutTemplate,
}

pub(crate) fn stateful_set_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::label_name, errs);
    check_stateful_set(&object.field("spec"), Extent::Everything, errs);
}

fn check_stateful_set(spec: &At<'_>, extent: Extent, errs: &mut Errors) {
    let policy = spec.field("podManagementPolicy");
    if errs.required_text(&policy) && !["OrderedReady", "Parallel"].contains(&policy.text()) {
        errs.invalid_text(&policy, "must be 'OrderedReady' or 'Parallel'");
    }
    check_stateful_strategy(&spec.field("updateStrategy"), errs);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"].iter().filter(|_| retention.is_set()) {
        if !["Retain", "Delete"].contains(&retention.field(field).text()) {
            errs.unsupported(&retention.field(field), &["Retain", "Delete"]);
        }
    }
    if extent == Extent::Everything {
        for claim in spec.field("volumeClaimTemplates").items() {
            persistent::check_claim_spec(&claim.field("spec"), true, errs);
        }
    }
    errs.non_negative(&spec.field("replicas"));
    errs.non_negative(&spec.field("minReadySeconds"));
    let start = spec.at(&["ordinals", "start"]);
    errs.non_negative(&start.reported_at(spec.path.child("ordinals.start")));
    let service = spec.field("serviceName");
    if extent == Extent::Everything && !service.is_empty() {
        errs.messages(&service, &names::dns1123_label(service.text()));
    }
    let selector = spec.field("selector");
    check_selector(&selector, "statefulset", errs);
    match selectors::parse(&selector) {
        None => errs.invalid(&selector, selectors::shown(selector.value), ""),
        Some(parsed) => check_stateful_template(spec, &parsed, extent, errs),
    }
    pod::check_long_running(&spec.field("template"), "StatefulSet", errs);
}

fn check_stateful_strategy(strategy: &At<'_>, errs: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "" => errs.required(strategy, ""),
        "OnDelete" => {
            if rolling.is_set() {
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                errs.invalid_value(&rolling, detail);
            }
        }
        "RollingUpdate" => {
            errs.non_negative(&rolling.field("partition"));
            let unavailable = rolling.field("maxUnavailable");
            if unavailable.is_set() {
                check_int_or_percent(&unavailable, errs);
                if is_zero(&unavailable) {
                    errs.invalid_value(&unavailable, "cannot be 0");
                }
                check_at_most_all(&unavailable, errs);
            }
        }
        _ => errs.invalid_value(strategy, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

/// Pods of a StatefulSet get their hostname and the volumes of the claim templates.
fn check_stateful_template(
    spec: &At<'_>,
    selector: &karmada_apimachinery::selector::LabelSelector,
    extent: Extent,
    errs: &mut Errors,
) {
    let template = spec.field("template");
    let mut completed = template.value.clone();
    if let Some(pod_spec) = completed.get_mut("spec").and_then(Value::as_object_mut) {
        pod_spec.remove("subdomain");
        pod_spec.remove("hostname");
        let claimed: BTreeMap<&str, Value> = spec
            .field("volumeClaimTemplates")
            .items()
            .map(|claim| claim.at(&["metadata", "name"]).text())
            .map(|name| (name, persistent::volume_for_template(name)))
            .collect();
        if !claimed.is_empty() {
            let own = pod_spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
            let kept = own.filter(|volume| {
                let name = volume.get("name").and_then(Value::as_str).unwrap_or_default();
                !claimed.contains_key(name)
            });
            let volumes = claimed.values().cloned().chain(kept.cloned()).collect();
            pod_spec.insert("volumes".to_owned(), Value::Array(volumes));
        }
    }
    let completed = At::new(template.path.clone(), &completed);
    if !selector.is_empty() || !spec.field("selector").is_set() {
        selectors::check_template_labels(selector, &completed, errs);
    }
    if extent != Extent::ChangeableWithoutTemplate {
        pod::check_template(&completed, errs);
    }
    // Compat: labels and annotations are checked once more.
    let meta_at = completed.field("metadata");
    let annotations = meta_at.field("annotations").reported_at(template.path.child("annotations"));
    meta::labels(&meta_at.field("labels").reported_at(template.path.child("labels")), errs);
    meta::annotations(&annotations, errs);
    pod::check_annotations(&annotations, &completed.field("spec"), errs);
}

pub(crate) fn stateful_set_update(
    subresource: &str,
    new: &At<'_>,
    old: &At<'_>,
    errs: &mut Errors,
) {
    if subresource == "status" {
        check_stateful_status(&new.field("status"), errs);
        meta::update(new, old, errs);
        return check_collisions(new, old, errs);
    }
    meta::update(new, old, errs);
    let mut stored = Errors::default();
    check_stateful_set(&old.field("spec"), Extent::Changeable, &mut stored);
    let extent =
        if stored.is_empty() { Extent::Changeable } else { Extent::ChangeableWithoutTemplate };
    let spec = new.field("spec");
    check_stateful_set(&spec, extent, errs);
    let mut munged = spec.value.clone();
    for field in [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ] {
        if let Some(map) = munged.as_object_mut() {
            map.insert(field.to_owned(), old.at(&["spec", field]).value.clone());
        }
    }
    if !same(&munged, old.field("spec").value) {
        errs.forbidden(&spec, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden");
    }
}

fn check_stateful_status(status: &At<'_>, errs: &mut Errors) {
    let fields =
        ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    for field in fields.iter().chain(&["observedGeneration", "collisionCount"]) {
        errs.non_negative(&status.field(field));
    }
    for field in &fields[1..] {
        if status.field(field).int() > status.field("replicas").int() {
            errs.invalid_int(&status.field(field), "cannot be greater than status.replicas");
        }
    }
    let available = status.field("availableReplicas");
    if available.int() > status.field("readyReplicas").int() {
        errs.invalid_int(&available, "cannot be greater than status.readyReplicas");
    }
}

pub(crate) fn daemon_set_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_daemon_set(&object.field("spec"), errs);
}

fn check_daemon_set(spec: &At<'_>, errs: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    selectors::check(&selector, errs);
    if let Some(parsed) = selectors::parse(&selector) {
        selectors::check_template_labels(&parsed, &template, errs);
    }
    if selector.is_set() && selectors::is_blank(&selector) {
        let shown = selectors::shown(selector.value);
        errs.invalid(&selector, shown, "empty selector is invalid for daemonset");
    }
    pod::check_template(&template, errs);
    pod::check_long_running(&template, "DaemonSet", errs);
    errs.non_negative(&spec.field("minReadySeconds"));
    check_daemon_strategy(&spec.field("updateStrategy"), errs);
    errs.non_negative(&spec.field("revisionHistoryLimit"));
}

fn check_daemon_strategy(strategy: &At<'_>, errs: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errs.required(&rolling, ""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            for at in [&unavailable, &surge] {
                check_int_or_percent(at, errs);
            }
            for at in [&unavailable, &surge] {
                check_at_most_all(at, errs);
            }
            match (is_zero(&unavailable), is_zero(&surge)) {
                (false, false) => {
                    errs.invalid_value(&surge, "may not be set when maxUnavailable is non-zero");
                }
                (true, true) => errs.required(&unavailable, "cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => errs.unsupported(strategy, &["RollingUpdate", "OnDelete"]),
    }
}

pub(crate) fn daemon_set_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        for field in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ] {
            errs.non_negative(&new.at(&["status", field]));
        }
        return check_collisions(new, old, errs);
    }
    check_selector_kept(new, old, errs);
    check_daemon_set(&new.field("spec"), errs);
}

pub(crate) fn controller_revision_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    errs.non_negative(&object.field("revision"));
    let data = object.field("data");
    if !data.is_set() {
        errs.required(&data, "data is mandatory");
    } else if !data.value.is_object() {
        errs.required(&data, "data must be a valid JSON object");
    }
}

pub(crate) fn controller_revision_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    meta::check(new, Scope::Namespaced, names::subdomain_name, errs);
    errs.non_negative(&new.field("revision"));
    if new.field("data").value != old.field("data").value {
        errs.invalid_value(&new.field("data"), super::place::FIELD_IMMUTABLE);
    }
}

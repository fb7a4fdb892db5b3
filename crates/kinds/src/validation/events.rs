//! Events, as group "" and as `events.k8s.io`; both are one kind in storage.

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names;

use super::meta::{self, Scope};
use super::place::{At, Errors, FIELD_IMMUTABLE};

/// How the two versions name the same field. The object may come in either, whichever group it
/// was sent to.
struct Names {
    involved: &'static str,
    message: &'static str,
    controller: &'static str,
    first_time: &'static str,
    last_time: &'static str,
    count: &'static str,
    source: &'static str,
}

const CORE: Names = Names {
    involved: "involvedObject",
    message: "message",
    controller: "reportingComponent",
    first_time: "firstTimestamp",
    last_time: "lastTimestamp",
    count: "count",
    source: "source",
};
const EVENTS: Names = Names {
    involved: "regarding",
    message: "note",
    controller: "reportingController",
    first_time: "deprecatedFirstTimestamp",
    last_time: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    source: "deprecatedSource",
};

fn names_in(event: &At<'_>) -> &'static Names {
    if event.field("apiVersion").text() == "v1" { &CORE } else { &EVENTS }
}

pub(crate) fn core_create(object: &At<'_>, errs: &mut Errors) {
    check_common(object, "reportingComponent", errs);
}

pub(crate) fn core_update(_: &str, new: &At<'_>, _: &At<'_>, errs: &mut Errors) {
    check_common(new, "reportingComponent", errs);
}

fn top(name: &str) -> Path {
    Path::new(name)
}

fn check_common(event: &At<'_>, reported_controller: &str, errs: &mut Errors) {
    let fields = names_in(event);
    let involved = event.field(fields.involved);
    let namespace = involved.field("namespace");
    let own = event.at(&["metadata", "namespace"]);
    // Compat: paths are those of the internal form, whatever the version.
    let reported = namespace.reported_at(top("involvedObject").child("namespace"));
    const MISMATCH: &str = "does not match event.namespace";
    if !event.field("eventTime").is_set() {
        let matches = if namespace.is_empty() {
            matches!(own.text(), "" | "default")
        } else {
            own.text() == namespace.text()
        };
        if !matches {
            errs.invalid_text(&reported, MISMATCH);
        }
    } else {
        if namespace.is_empty() && !matches!(own.text(), "default" | "kube-system") {
            errs.invalid_text(&reported, MISMATCH);
        }
        let controller = event.field(fields.controller).reported_at(top(reported_controller));
        errs.required_text(&controller);
        errs.messages(&controller, &names::qualified_name(controller.text()));
        for field in ["reportingInstance", "action", "reason"] {
            let limit = 128;
            let at = event.field(field);
            errs.required_text(&at);
            if at.len() > limit {
                errs.invalid(&at, "", format!("can have at most {limit} characters"));
            }
        }
        let message = event.field(fields.message).reported_at(top("message"));
        if message.len() > 1024 {
            errs.invalid(&message, "", "can have at most 1024 characters");
        }
    }
    for message in names::dns1123_subdomain(own.text()) {
        errs.push(FieldError::invalid(&top("namespace"), own.text(), message));
    }
}

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    check_common(object, "reportingController", errs);
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_series(object, errs);
    if !object.field("eventTime").is_set() {
        errs.required(&object.field("eventTime"), "");
    }
    let kind = object.field("type");
    if !["Normal", "Warning"].contains(&kind.text()) {
        errs.invalid(&kind, "", format!("has invalid value: {}", kind.text()));
    }
    let fields = names_in(object);
    for (field, name) in [
        (fields.first_time, "firstTimestamp"),
        (fields.last_time, "lastTimestamp"),
        (fields.count, "count"),
        (fields.source, "source"),
    ] {
        let at = object.field(field);
        let unset = !at.is_set()
            || (name == "count" && at.int() == 0)
            || (name == "source" && at.is_empty());
        if !unset {
            errs.push(FieldError::invalid(&top(name), "", "needs to be unset"));
        }
    }
}

fn check_series(event: &At<'_>, errs: &mut Errors) {
    let series = event.field("series");
    if !series.is_set() {
        return;
    }
    if series.field("count").int() < 2 {
        errs.push(FieldError::invalid(&top("series.count"), "", "should be at least 2"));
    }
    if !series.field("lastObservedTime").is_set() {
        errs.push(FieldError::required(&top("series.lastObservedTime"), ""));
    }
}

pub(crate) fn update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    check_common(new, "reportingController", errs);
    meta::update(new, old, errs);
    if new.field("series").value != old.field("series").value {
        check_series(new, errs);
    }
    let fields = names_in(new);
    // Compat: the reason is compared twice.
    for (field, name) in [
        (fields.involved, "involvedObject"),
        ("reason", "reason"),
        (fields.message, "message"),
        (fields.source, "source"),
        (fields.first_time, "firstTimestamp"),
        (fields.last_time, "lastTimestamp"),
        (fields.count, "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        (fields.controller, "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        let at = new.field(field).reported_at(top(name));
        if !super::place::same(at.value, old.field(field).value) {
            if at.value.is_string() || name == "message" {
                errs.invalid_text(&at, FIELD_IMMUTABLE);
            } else {
                errs.invalid_value(&at, FIELD_IMMUTABLE);
            }
        }
    }
}

//! Group `autoscaling`: HorizontalPodAutoscaler in its v2 form, and Scale.

use std::borrow::Cow;

use karmada_apimachinery::gvk::GroupVersion;
use karmada_apimachinery::{Value, names};

use super::core::resources::{self, NameKind, quantity};
use super::meta::{self, Scope};
use super::place::{At, Errors};
use crate::convert;

const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

pub(crate) fn scale(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    errs.non_negative(&object.at(&["spec", "replicas"]));
}

/// The object in the form that is checked, whichever version it comes in.
fn current<'a>(object: &At<'a>) -> Cow<'a, Value> {
    if object.field("apiVersion").text() != "autoscaling/v1" {
        return Cow::Borrowed(object.value);
    }
    let mut converted = object.value.clone();
    convert::convert(&mut converted, "autoscaling", "v2");
    Cow::Owned(converted)
}

pub(crate) fn create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    let object = current(object);
    check(&At::root(&object).field("spec"), None, errs);
}

pub(crate) fn update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        for field in ["currentReplicas", "desiredReplicas"] {
            errs.non_negative(&new.at(&["status", field]));
        }
        return;
    }
    let (new, old) = (current(new), current(old));
    check(&At::root(&new).field("spec"), Some(&At::root(&old).field("spec")), errs);
}

/// Which groups a reference may point to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Groups {
    Named,
    Any,
    Unchecked,
}

fn check(spec: &At<'_>, old: Option<&At<'_>>, errs: &mut Errors) {
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let lowest = i64::from(old.is_none_or(|old| old.field("minReplicas").number() != Some(0)));
    if min.number().is_some_and(|min| min < lowest) {
        errs.invalid_int(&min, format!("must be greater than or equal to {lowest}"));
    }
    if max.int() == 0 {
        errs.required(&max, "must be set and greater than 0");
    } else if max.int() < 0 {
        errs.invalid_int(&max, "must be greater than or equal to 1");
    }
    if min.number().is_some_and(|min| max.int() < min) {
        errs.invalid_int(&max, "must be greater than or equal to `minReplicas`");
    }
    let target = spec.field("scaleTargetRef");
    let unchanged = old.is_some_and(|old| {
        ["apiVersion", "kind"]
            .iter()
            .all(|field| old.at(&["scaleTargetRef", field]).value == target.field(field).value)
    });
    let groups = if unchanged {
        Groups::Unchecked
    } else if target.field("kind").text() == "ReplicationController" {
        Groups::Any
    } else {
        Groups::Named
    };
    check_reference(&target, groups, errs);
    let metrics = spec.field("metrics");
    for metric in metrics.items() {
        check_metric(&metric, errs);
    }
    let outside =
        metrics.items().any(|metric| matches!(metric.field("type").text(), "Object" | "External"));
    if min.number() == Some(0) && !outside {
        errs.forbidden(&metrics, "must specify at least one Object or External metric to support scaling to zero replicas");
    }
    for direction in ["scaleUp", "scaleDown"] {
        check_rules(&spec.at(&["behavior", direction]), errs);
    }
}

fn check_reference(reference: &At<'_>, groups: Groups, errs: &mut Errors) {
    for field in ["kind", "name"] {
        let at = reference.field(field);
        if errs.required_text(&at) {
            errs.messages(&at, &names::path_segment(at.text()));
        }
    }
    let version = reference.field("apiVersion");
    match GroupVersion::parse(version.text()) {
        _ if groups == Groups::Unchecked => {}
        None => {
            errs.invalid_text(
                &version,
                format!("unexpected GroupVersion string: {}", version.text()),
            );
        }
        Some(parsed) if groups == Groups::Named && parsed.group.is_empty() => {
            errs.invalid_text(&version, "apiVersion must specify API group");
        }
        Some(_) => {}
    }
}

fn check_metric(metric: &At<'_>, errs: &mut Errors) {
    let kind = metric.field("type");
    if kind.is_empty() {
        errs.required(&kind, "must specify a metric source type");
    }
    let known = SOURCE_TYPES.contains(&kind.text());
    if !known {
        errs.unsupported(&kind, &SOURCE_TYPES);
    }
    let present: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|f| metric.field(f).is_set()).collect();
    if let Some(first) = present.first() {
        check_source(&metric.field(first), first, errs);
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind.text()).map(|(_, field)| *field);
    match expected {
        Some(field) if !metric.field(field).is_set() => errs.required(
            &metric.field(field),
            "must populate information for the given metric source",
        ),
        Some(_) => {}
        None => errs.unsupported(&kind, &SOURCE_TYPES),
    }
    if present.len() != 1 {
        for field in present.iter().filter(|field| Some(**field) != expected) {
            let detail = "must populate the given metric source only";
            errs.forbidden(&metric.field(field), detail);
        }
    }
}

fn check_source(source: &At<'_>, kind: &str, errs: &mut Errors) {
    let target = source.field("target");
    let (value, average) = (target.field("value"), target.field("averageValue"));
    if kind == "object" {
        check_reference(&source.field("describedObject"), Groups::Any, errs);
    }
    if kind.ends_with("esource") {
        let name = source.field("name");
        if name.is_empty() {
            errs.required(&name, "must specify a resource name");
        } else if kind == "containerResource" {
            resources::check_name(&name, name.text(), NameKind::Container, errs);
        }
    } else {
        let name = source.at(&["metric", "name"]);
        if name.is_empty() {
            errs.required(&name, "must specify a metric name");
        } else {
            errs.messages(&name, &names::path_segment(name.text()));
        }
    }
    if kind == "containerResource" {
        let container = source.field("container");
        if container.is_empty() {
            errs.required(&container, "must specify a container");
        } else {
            errs.messages(&container, &names::dns1123_label(container.text()));
        }
    }
    check_target(&target, errs);
    match kind {
        "object" if !value.is_set() && !average.is_set() => {
            errs.required(&average, "must set either a target value or averageValue");
        }
        "external" if !value.is_set() && !average.is_set() => {
            let detail = "must set either a target value for metric or a per-pod target";
            errs.required(&average, detail);
        }
        "external" if value.is_set() && average.is_set() => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errs.forbidden(&value, detail);
        }
        "pods" if !average.is_set() => {
            errs.required(&average, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" => {
            let utilization = target.field("averageUtilization");
            if !utilization.is_set() && !average.is_set() {
                let detail = "must set either a target raw value or a target utilization";
                errs.required(&utilization, detail);
            }
            if utilization.is_set() && average.is_set() {
                let detail = "may not set both a target raw value and a target utilization";
                errs.forbidden(&average, detail);
            }
        }
        _ => {}
    }
}

fn check_target(target: &At<'_>, errs: &mut Errors) {
    let kind = target.field("type");
    if kind.is_empty() {
        errs.required(&kind, "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.text()) {
        errs.invalid_text(&kind, "must be either Utilization, Value, or AverageValue");
    }
    for amount in [target.field("value"), target.field("averageValue")] {
        if let Some(shown) = quantity(&amount).filter(|amount| amount.signum() <= 0) {
            errs.invalid(&amount, shown.to_string(), "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.number().is_some_and(|percent| percent < 1) {
        errs.invalid_int(&utilization, "must be greater than 0");
    }
}

fn check_rules(rules: &At<'_>, errs: &mut Errors) {
    if !rules.is_set() {
        return;
    }
    let window = rules.field("stabilizationWindowSeconds");
    if window.int() < 0 {
        errs.invalid_int(&window, "must be greater than or equal to zero");
    }
    if window.int() > 3600 {
        errs.invalid_int(&window, "must be less than or equal to 3600");
    }
    errs.one_of(&rules.field("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = rules.field("policies");
    if policies.is_empty() {
        errs.required(&policies, "must specify at least one Policy");
    }
    for policy in policies.items() {
        let (kind, period) = (policy.field("type"), policy.field("periodSeconds"));
        if !["Percent", "Pods"].contains(&kind.text()) {
            errs.unsupported(&kind, &["Percent", "Pods"]);
        }
        errs.positive(&policy.field("value"));
        errs.positive(&period);
        if period.int() > 1800 {
            errs.invalid_int(&period, "must be less than or equal to 1800");
        }
    }
    resources::check_not_negative(&rules.field("tolerance"), errs);
}

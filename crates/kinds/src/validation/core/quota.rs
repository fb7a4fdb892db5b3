//! LimitRange and ResourceQuota.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;
use karmada_apimachinery::quantity::Quantity;

use super::resources::{self, NameKind, quantity};
use crate::validation::meta::{self, Scope};
use crate::validation::place::{At, Errors, FIELD_IMMUTABLE};

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
const OPPOSITES: [(&str, &str); 2] =
    [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")];

pub(crate) fn limit_range_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    let mut types = BTreeSet::new();
    for limit in object.at(&["spec", "limits"]).items() {
        let kind = limit.field("type");
        let messages = names::qualified_name(kind.text());
        errs.messages(&kind, &messages);
        let standard = ["Pod", "Container", "PersistentVolumeClaim"].contains(&kind.text());
        if messages.is_empty() && !kind.text().contains('/') && !standard {
            errs.invalid_text(&kind, "must be a standard limit type or fully qualified");
        }
        if !types.insert(kind.text()) {
            errs.push(FieldError::duplicate(&kind.path, kind.text()));
        }
        check_limit(&limit, errs);
    }
}

pub(crate) fn limit_range_update(_: &str, new: &At<'_>, _: &At<'_>, errs: &mut Errors) {
    limit_range_create(new, errs);
}

/// The amounts given for each resource, by the field they stand in.
type Amounts = BTreeMap<String, BTreeMap<&'static str, Quantity>>;

fn check_limit(limit: &At<'_>, errs: &mut Errors) {
    let kind = limit.field("type").text();
    let name_kind =
        if matches!(kind, "Pod" | "Container") { NameKind::Container } else { NameKind::Any };
    let mut amounts = Amounts::default();
    let collect = |field: &'static str, amounts: &mut Amounts, errs: &mut Errors| {
        for (name, at) in limit.field(field).entries() {
            resources::check_name(&at, name, name_kind, errs);
            if let Some(amount) = quantity(&at) {
                amounts.entry(name.to_owned()).or_default().insert(field, amount);
            }
        }
    };
    collect("max", &mut amounts, errs);
    collect("min", &mut amounts, errs);
    for field in ["default", "defaultRequest"] {
        if kind != "Pod" {
            collect(field, &mut amounts, errs);
        } else if !limit.field(field).is_empty() {
            let detail = "may not be specified when `type` is 'Pod'";
            errs.forbidden(&limit.field(field), detail);
        }
    }
    let bounded = ["min", "max"].iter().any(|field| limit.at(&[field, "storage"]).is_set());
    if kind == "PersistentVolumeClaim" && !bounded {
        errs.required(
            &limit.field("limits"),
            "either minimum or maximum storage value is required, but neither was provided",
        );
    }
    collect("maxLimitRequestRatio", &mut amounts, errs);
    for (name, amounts) in &amounts {
        check_bounds(limit, name, amounts, errs);
    }
}

fn check_bounds(limit: &At<'_>, name: &str, amounts: &BTreeMap<&str, Quantity>, errs: &mut Errors) {
    // Which two amounts are compared, where that is reported, which of them is shown, and how the
    // sentence names them.
    let rules = [
        ("min", "max", "min", "min", "min", "max"),
        ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min", "default request"),
        ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request", "max"),
        (
            "defaultRequest",
            "default",
            "defaultRequest",
            "defaultRequest",
            "default request",
            "default limit",
        ),
        ("min", "default", "default", "min", "min", "default"),
        ("default", "max", "default", "max", "default", "max"),
    ];
    for (low, high, place, shown, low_word, high_word) in rules {
        if let (Some(low), Some(high)) = (amounts.get(low), amounts.get(high))
            && low > high
        {
            let detail = format!("{low_word} value {low} is greater than {high_word} value {high}");
            let shown = amounts.get(shown).map(ToString::to_string).unwrap_or_default();
            errs.invalid(&limit.field(place).key(name), shown, detail);
        }
    }
    check_ratio(limit, name, amounts, errs);
    if let (Some(default), Some(request)) = (amounts.get("default"), amounts.get("defaultRequest"))
        && !resources::allows_overcommit(name)
        && default != request
    {
        let detail = format!(
            "default value {default} must equal to defaultRequest value {request} in {name}"
        );
        errs.invalid(&limit.field("defaultRequest").key(name), request.to_string(), detail);
    }
}

fn check_ratio(limit: &At<'_>, name: &str, amounts: &BTreeMap<&str, Quantity>, errs: &mut Errors) {
    let Some(ratio) = amounts.get("maxLimitRequestRatio") else { return };
    let at = limit.field("maxLimitRequestRatio").key(name);
    if *ratio < Quantity::from_millis(1000) {
        errs.invalid(&at, ratio.to_string(), format!("ratio {ratio} is less than 1"));
    }
    if let (Some(min), Some(max)) = (amounts.get("min"), amounts.get("max")) {
        let bound = max.as_f64() / min.as_f64();
        if ratio.as_f64() > bound {
            let detail = format!("ratio {ratio} is greater than max/min = {bound:.6}");
            errs.invalid(&at, ratio.to_string(), detail);
        }
    }
}

pub(crate) fn quota_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_quota_spec(&object.field("spec"), errs);
    check_quota_status(&object.field("status"), errs);
}

fn check_quota_spec(spec: &At<'_>, errs: &mut Errors) {
    check_hard(&spec.field("hard"), errs);
    check_scopes(spec, errs);
    check_scope_selector(spec, errs);
}

fn check_quota_status(status: &At<'_>, errs: &mut Errors) {
    check_hard(&status.field("hard"), errs);
    check_hard(&status.field("used"), errs);
}

fn check_hard(hard: &At<'_>, errs: &mut Errors) {
    for (name, amount) in hard.entries() {
        resources::check_name(&amount, name, NameKind::Quota, errs);
        resources::check_amount(&amount, name, errs);
    }
}

fn scope_covers(scope: &str, resource: &str) -> bool {
    let compute = matches!(
        resource,
        "pods"
            | "cpu"
            | "memory"
            | "limits.cpu"
            | "limits.memory"
            | "requests.cpu"
            | "requests.memory"
    );
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => compute,
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    }
}

/// Standard resources in `hard` that a scope does not apply to.
fn uncovered(spec: &At<'_>, scope: &str) -> usize {
    spec.field("hard")
        .entries()
        .filter(|(name, _)| resources::is_standard_quota_name(name) && !scope_covers(scope, name))
        .count()
}

fn check_scopes(spec: &At<'_>, errs: &mut Errors) {
    let scopes = spec.field("scopes");
    for scope in scopes.texts() {
        if !SCOPES.contains(&scope) {
            errs.invalid_value(&scopes, "unsupported scope");
        }
        for _ in 0..uncovered(spec, scope) {
            errs.invalid_value(&scopes, "unsupported scope applied to resource");
        }
    }
    for (one, other) in OPPOSITES {
        if scopes.has_text(one) && scopes.has_text(other) {
            errs.invalid_value(&scopes, "conflicting scopes");
        }
    }
}

fn check_scope_selector(spec: &At<'_>, errs: &mut Errors) {
    let selector = spec.field("scopeSelector");
    let expressions = selector.field("matchExpressions");
    let mut seen = BTreeSet::new();
    for expression in expressions.items() {
        // Compat: all of these are reported at the list, not at its element.
        let at = expression.reported_at(expressions.path.clone());
        let (scope, operator, values) =
            (at.field("scopeName"), at.field("operator"), at.field("values"));
        if !SCOPES.contains(&scope.text()) {
            errs.invalid_text(&scope, "unsupported scope");
        }
        for _ in 0..uncovered(spec, scope.text()) {
            let detail = "unsupported scope applied to resource";
            errs.invalid(&expressions, selector.shown(), detail);
        }
        let exists_only = SCOPES.contains(&scope.text())
            && !matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass");
        if exists_only && operator.text() != "Exists" {
            errs.invalid_text(&operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
        }
        match operator.text() {
            "In" | "NotIn" => {
                if values.is_empty() {
                    errs.required(&values, "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    errs.invalid_value(&values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
                }
            }
            _ => errs.invalid_text(&operator, "not a valid selector operator"),
        }
        seen.insert(scope.text());
    }
    for (one, other) in OPPOSITES {
        if seen.contains(one) && seen.contains(other) {
            errs.invalid(&expressions, spec.field("scopes").shown(), "conflicting scopes");
        }
    }
}

pub(crate) fn quota_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        return check_quota_status(&new.field("status"), errs);
    }
    check_quota_spec(&new.field("spec"), errs);
    let scopes = new.at(&["spec", "scopes"]);
    let after: BTreeSet<&str> = scopes.texts().collect();
    let before: BTreeSet<&str> = old.at(&["spec", "scopes"]).texts().collect();
    if after != before {
        errs.invalid_value(&scopes, FIELD_IMMUTABLE);
    }
}

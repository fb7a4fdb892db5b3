//! What limits workloads, in words as kubectl 1.36 writes them: LimitRanges, ResourceQuotas, PodDisruptionBudgets and
//! PriorityClasses.

use std::collections::BTreeSet;

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, selector::LabelSelector};

use super::tabs::{Text, on_one_line, plain};

pub(super) fn limit_range(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    write_limits(&mut out, "", object.list_at(&["spec", "limits"]).iter());
    out
}

/// The table of limits, one line per kind and resource.
pub(super) fn write_limits<'a>(
    out: &mut Text,
    indent: &str,
    limits: impl Iterator<Item = &'a Value>,
) {
    const FIELDS: [&str; 5] = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
    out.line(
        0,
        &format!("{indent}Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio"),
    );
    out.line(
        0,
        &format!("{indent}----\t--------\t---\t---\t---------------\t-------------\t-----------------------"),
    );
    for limit in limits {
        let named = |field: &&str| limit.map_at(&[field]).into_iter().flatten();
        let resources: BTreeSet<&str> =
            FIELDS.iter().flat_map(named).map(|(resource, _)| resource.as_str()).collect();
        for resource in resources {
            let cell = |field: &&str| limit.at(&[field, resource]).map_or("-".to_owned(), plain);
            let cells: Vec<String> = FIELDS.iter().map(cell).collect();
            let kind = limit.str_at(&["type"]).unwrap_or_default();
            out.line(0, &format!("{indent}{kind}\t{resource}\t{}", cells.join("\t")));
        }
    }
}

pub(super) fn quota(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    write_scopes(&mut out, object, 0, " * ");
    out.line(0, "Resource\tUsed\tHard");
    out.line(0, "--------\t----\t----");
    for (resource, hard) in object.map_at(&["status", "hard"]).into_iter().flatten() {
        let used = object.at(&["status", "used", resource]).map_or("0".to_owned(), plain);
        out.line(0, &format!("{resource}\t{used}\t{}", plain(hard)));
    }
    out
}

/// The scopes of a quota, each with what it means.
pub(super) fn write_scopes(out: &mut Text, quota: &Value, level: usize, mark: &str) {
    let mut scopes: Vec<String> = quota.list_at(&["spec", "scopes"]).iter().map(plain).collect();
    scopes.sort();
    out.field_if_any(level, "Scopes", Some(&scopes.join(", ")));
    for scope in &scopes {
        let (which, what) = match scope.as_str() {
            "Terminating" => (
                "have an active deadline",
                "have a limited lifespan on a node before being actively terminated by the system",
            ),
            "NotTerminating" => (
                "do not have an active deadline",
                "usually include long running pods whose container command is not expected to terminate",
            ),
            "BestEffort" => {
                ("do not have resource requirements set", "have a best effort quality of service")
            }
            "NotBestEffort" => (
                "have at least one resource requirement set",
                "have a burstable or guaranteed quality of service",
            ),
            _ => continue,
        };
        out.line(level, &format!("{mark}Matches all pods that {which}. These pods {what}."));
    }
}

pub(super) fn disruption_budget(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    let bounds = [("minAvailable", "Min available"), ("maxUnavailable", "Max unavailable")];
    let bound = bounds.iter().find_map(|(field, heading)| {
        object.at(&["spec", field]).map(|value| (heading, plain(value)))
    });
    if let Some((heading, value)) = bound {
        out.field(0, heading, value);
    }
    let selector = match object.at(&["spec", "selector"]) {
        Some(selector) => LabelSelector::from_object(Some(selector))
            .map(|selector| selector.to_string())
            .unwrap_or_default(),
        None => "<unset>".to_owned(),
    };
    out.field(0, "Selector", selector);
    out.line(0, "Status:");
    for (heading, field) in [
        ("Allowed disruptions", "disruptionsAllowed"),
        ("Current", "currentHealthy"),
        ("Desired", "desiredHealthy"),
        ("Total", "expectedPods"),
    ] {
        let count = object.i64_at(&["status", field]).unwrap_or_default();
        out.field(2, heading, count.to_string());
    }
    out
}

pub(super) fn priority_class(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Value", object.i64_at(&["value"]).unwrap_or_default().to_string());
    let is_default = object.bool_at(&["globalDefault"]).unwrap_or_default();
    out.field(0, "GlobalDefault", is_default.to_string());
    let policy = object.str_at(&["preemptionPolicy"]).unwrap_or("PreemptLowerPriority");
    out.field(0, "PreemptionPolicy", policy);
    let what = object.str_at(&["description"]).unwrap_or_default();
    out.line(0, &format!("Description:\t{what}"));
    out.field(0, "Annotations", on_one_line(object.map_at(&["metadata", "annotations"])));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn limits_budgets_and_classes_read_as_kubectl_shows_them() {
        let range = json!({
            "metadata": {"name": "r", "namespace": "d"},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]}});
        let text = limit_range(&range).align();
        assert!(
            text.contains("Container   cpu       -    2    -                1              -\n"),
            "{text}"
        );
        let used = json!({
            "metadata": {"name": "q", "namespace": "d"}, "spec": {"scopes": ["NotTerminating", "BestEffort"]},
            "status": {"hard": {"pods": "10"}, "used": {"pods": "3"}}});
        let expected = "\
Name:       q
Namespace:  d
Scopes:     BestEffort, NotTerminating
 * Matches all pods that do not have resource requirements set. These pods have a best effort quality of service.
 * Matches all pods that do not have an active deadline. These pods usually include long running pods whose container command is not expected to terminate.
Resource  Used  Hard
--------  ----  ----
pods      3     10
";
        assert_eq!(quota(&used).align(), expected);
        let budget = json!({
            "metadata": {"name": "b", "namespace": "d"},
            "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 1, "currentHealthy": 4, "desiredHealthy": 3, "expectedPods": 4}});
        let expected = "\
Name:             b
Namespace:        d
Max unavailable:  25%
Selector:         app=web
Status:
    Allowed disruptions:  1
    Current:              4
    Desired:              3
    Total:                4
";
        assert_eq!(disruption_budget(&budget).align(), expected);
        let class =
            json!({"metadata": {"name": "high"}, "value": 1000, "description": "for the shop"});
        let expected = "\
Name:              high
Value:             1000
GlobalDefault:     false
PreemptionPolicy:  PreemptLowerPriority
Description:       for the shop
Annotations:       <none>
";
        assert_eq!(priority_class(&class).align(), expected);
    }
}

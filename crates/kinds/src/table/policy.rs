//! Rows of the kinds that state rules.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::row::Row;

pub(super) fn webhooks(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count(&["webhooks"]).into(), row.age()]
}

pub(super) fn validating_policy(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count(&["spec", "validations"]).into(), param_kind(row), row.age()]
}

pub(super) fn mutating_policy(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count(&["spec", "mutations"]).into(), param_kind(row), row.age()]
}

fn param_kind(row: &Row<'_>) -> Value {
    match row.object.at(&["spec", "paramKind"]).filter(|kind| kind.is_object()) {
        Some(kind) => {
            let text = |field: &str| kind.str_at(&[field]).unwrap_or_default();
            format!("{}/{}", text("apiVersion"), text("kind")).into()
        }
        None => "<unset>".into(),
    }
}

pub(super) fn policy_binding(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["spec", "policyName"]), param_ref(row).into(), row.age()]
}

fn param_ref(row: &Row<'_>) -> String {
    const PLACE: [&str; 2] = ["spec", "paramRef"];
    let text = |field: &str| row.str(&[PLACE[0], PLACE[1], field]);
    match (text("namespace"), text("name")) {
        ("", "") | (_, "") => {
            let selector = row.object.at(&[PLACE[0], PLACE[1], "selector"]);
            selector
                .filter(|s| s.is_object())
                .map_or_else(|| "<unset>".to_owned(), printed_selector)
        }
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// Compat: a selector appears here as Go prints the struct.
fn printed_selector(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = selector.map_at(&["matchLabels"]).into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", text(value))).collect();
    let terms = selector.list_at(&["matchExpressions"]).iter();
    let terms: String = terms
        .map(|term| {
            let field = |name: &str| term.str_at(&[name]).unwrap_or_default();
            let values: Vec<String> = term.list_at(&["values"]).iter().map(text).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                field("key"),
                field("operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{terms}}},}}"
    )
}

pub(super) fn flow_schema(row: &Row<'_>) -> Vec<Value> {
    let dangling = row.condition("Dangling").and_then(|c| c.str_at(&["status"])).unwrap_or("?");
    vec![
        row.name(),
        row.text(&["spec", "priorityLevelConfiguration", "name"]),
        row.number(&["spec", "matchingPrecedence"]),
        row.text_or(&["spec", "distinguisherMethod", "type"], "<none>"),
        row.age(),
        dangling.into(),
    ]
}

pub(super) fn priority_level(row: &Row<'_>) -> Vec<Value> {
    let limited = |path: &[&str]| {
        let value = row.object.at(&["spec", "limited"]).and_then(|limited| limited.at(path));
        value.cloned().unwrap_or_else(|| "<none>".into())
    };
    vec![
        row.name(),
        row.text(&["spec", "type"]),
        limited(&["nominalConcurrencyShares"]),
        limited(&["limitResponse", "queuing", "queues"]),
        limited(&["limitResponse", "queuing", "handSize"]),
        limited(&["limitResponse", "queuing", "queueLengthLimit"]),
        row.age(),
    ]
}

pub(super) fn disruption_budget(row: &Row<'_>) -> Vec<Value> {
    // Amounts are numbers or percentages; both are shown as text.
    let amount = |field: &str| match row.object.at(&["spec", field]) {
        Some(Value::String(percent)) => percent.clone(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "N/A".to_owned().into(),
    };
    vec![
        row.name(),
        amount("minAvailable").into(),
        amount("maxUnavailable").into(),
        row.number(&["status", "disruptionsAllowed"]),
        row.age(),
    ]
}

pub(super) fn role_binding(row: &Row<'_>) -> Vec<Value> {
    let subjects = |kind: &str| -> Value {
        let matching = row.object.list_at(&["subjects"]).iter();
        let matching = matching.filter(|subject| subject.str_at(&["kind"]) == Some(kind));
        let names = matching.map(|subject| {
            let text = |field: &str| subject.str_at(&[field]).unwrap_or_default();
            match (kind, text("namespace")) {
                ("ServiceAccount", namespace) if !namespace.is_empty() => {
                    format!("{namespace}/{}", text("name"))
                }
                _ => text("name").to_owned(),
            }
        });
        names.collect::<Vec<_>>().join(", ").into()
    };
    let role = format!("{}/{}", row.str(&["roleRef", "kind"]), row.str(&["roleRef", "name"]));
    vec![
        row.name(),
        role.into(),
        row.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

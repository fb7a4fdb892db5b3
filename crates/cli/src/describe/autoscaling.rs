//! HorizontalPodAutoscalers in words, as kubectl 1.36 writes them.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::moment;
use super::tabs::{Text, plain};

pub(super) fn autoscaler(object: &Value) -> Text {
    let mut out = Text::head(object);
    let created = moment(object, &["metadata", "creationTimestamp"]);
    out.field(0, "CreationTimestamp", created.unwrap_or_default());
    let target = |field| object.str_at(&["spec", "scaleTargetRef", field]).unwrap_or_default();
    out.field(0, "Reference", format!("{}/{}", target("kind"), target("name")));
    out.line(0, "Metrics:\t( current / target )");
    for (place, metric) in object.list_at(&["spec", "metrics"]).iter().enumerate() {
        let current = object.list_at(&["status", "currentMetrics"]).get(place);
        write_metric(&mut out, metric, current.unwrap_or(&Value::Null));
    }
    let least = object.i64_at(&["spec", "minReplicas"]).map(|count| count.to_string());
    out.field(0, "Min replicas", least.as_deref().unwrap_or("<unset>"));
    let count = |path: &[&str]| object.i64_at(path).unwrap_or_default();
    out.field(0, "Max replicas", count(&["spec", "maxReplicas"]).to_string());
    if let Some(behavior) = object.at(&["spec", "behavior"]) {
        out.line(0, "Behavior:");
        for (field, heading) in [("scaleUp", "Scale Up"), ("scaleDown", "Scale Down")] {
            if let Some(rules) = behavior.at(&[field]) {
                write_rules(&mut out, heading, rules);
            }
        }
    }
    let (current, desired) =
        (count(&["status", "currentReplicas"]), count(&["status", "desiredReplicas"]));
    let heading = format!("{} pods", target("kind"));
    out.field(0, &heading, format!("{current} current / {desired} desired"));
    let conditions = object.list_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        out.line(0, "Conditions:");
        out.line(1, "Type\tStatus\tReason\tMessage");
        out.line(1, "----\t------\t------\t-------");
    }
    for condition in conditions {
        let part = |field| condition.str_at(&[field]).unwrap_or_default();
        let cells = [part("type"), part("status"), part("reason"), part("message")];
        out.line(1, &cells.join("\t"));
    }
    out
}

/// What is measured, how much it is and how much it should be.
fn write_metric(out: &mut Text, metric: &Value, current: &Value) {
    let kind = metric.str_at(&["type"]).unwrap_or_default();
    let (field, is_resource) = match kind {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        other => return out.line(1, &format!("<unknown metric type {other:?}>")),
    };
    let wanted = |part: &str| metric.at(&[field, "target", part]).map(plain);
    let found = |part: &str| current.at(&[field, "current", part]).map(plain);
    let unknown = || "<unknown>".to_owned();
    let text = |path: &[&str]| metric.str_at(path).unwrap_or_default();
    let average = wanted("averageValue");
    if is_resource {
        let container = match kind {
            "ContainerResource" => format!(" of container \"{}\"", text(&[field, "container"])),
            _ => String::new(),
        };
        let subject = format!("resource {}{container} on pods", text(&[field, "name"]));
        if let Some(average) = average {
            let current = found("averageValue").unwrap_or_else(unknown);
            return out.line(1, &format!("{subject}:\t{current} / {average}"));
        }
        let used = found("averageUtilization")
            .map(|share| format!("{share}% ({})", found("averageValue").unwrap_or("0".to_owned())));
        let target =
            wanted("averageUtilization").map_or("<auto>".to_owned(), |it| format!("{it}%"));
        let used = used.unwrap_or_else(unknown);
        let share = format!("{subject}  (as a percentage of request):\t{used} / {target}");
        return out.line(1, &share);
    }
    let name = text(&[field, "metric", "name"]);
    let subject = match kind {
        "Pods" => {
            let current = found("averageValue").unwrap_or_else(unknown);
            let target = average.unwrap_or_default();
            return out.line(1, &format!("\"{name}\" on pods:\t{current} / {target}"));
        }
        "Object" => {
            let of = |part| text(&["object", "describedObject", part]);
            format!("\"{name}\" on {}/{}", of("kind"), of("name"))
        }
        _ => format!("\"{name}\""),
    };
    let (which, value) = match average {
        Some(average) => ("averageValue", average),
        None => ("value", wanted("value").unwrap_or_default()),
    };
    let heading = if which == "value" { "target value" } else { "target average value" };
    let current = found(which).unwrap_or_else(unknown);
    out.line(1, &format!("{subject} ({heading}):\t{current} / {value}"));
}

fn write_rules(out: &mut Text, heading: &str, rules: &Value) {
    out.line(1, &format!("{heading}:"));
    if let Some(window) = rules.i64_at(&["stabilizationWindowSeconds"]) {
        out.line(2, &format!("Stabilization Window: {window} seconds"));
    }
    let policies = rules.list_at(&["policies"]);
    if policies.is_empty() {
        return;
    }
    let select = rules.str_at(&["selectPolicy"]).unwrap_or("Max");
    out.line(2, &format!("Select Policy: {select}"));
    out.line(2, "Policies:");
    for policy in policies {
        let kind = policy.str_at(&["type"]).unwrap_or_default();
        let number = |field| policy.i64_at(&[field]).unwrap_or_default();
        let (value, period) = (number("value"), number("periodSeconds"));
        out.line(3, &format!("- Type: {kind}\tValue: {value}\tPeriod: {period} seconds"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn an_autoscaler_says_what_it_measures() {
        let target = |kind: &str, value: Value| json!({"type": kind, "averageValue": value});
        let object = json!({
            "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2026-11-15T19:27:33Z"},
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 5,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
                    {"type": "Resource", "resource": {"name": "memory", "target": target("AverageValue", "1Gi".into())}},
                    {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target("AverageValue", "1k".into())}},
                    {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}}}],
                "behavior": {"scaleDown": {
                    "stabilizationWindowSeconds": 60, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}]}}},
            "status": {
                "currentReplicas": 2, "desiredReplicas": 3,
                "currentMetrics": [{"resource": {"current": {"averageUtilization": 91, "averageValue": "910m"}}}]}});
        let expected = "\
Name:                                                  web
Namespace:                                             default
Labels:                                                <none>
Annotations:                                           <none>
CreationTimestamp:                                     Sun, 15 Nov 2026 19:27:33 +0000
Reference:                                             Deployment/web
Metrics:                                               ( current / target )
  resource cpu on pods  (as a percentage of request):  91% (910m) / 80%
  resource memory on pods:                             <unknown> / 1Gi
  \"rps\" on pods:                                       <unknown> / 1k
  \"queue\" (target value):                              <unknown> / 30
Min replicas:                                          2
Max replicas:                                          5
Behavior:
  Scale Down:
    Stabilization Window: 60 seconds
    Select Policy: Max
    Policies:
      - Type: Pods  Value: 1  Period: 30 seconds
Deployment pods:    2 current / 3 desired
";
        assert_eq!(autoscaler(&object).align(), expected);
    }
}

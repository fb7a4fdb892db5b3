//! HorizontalPodAutoscaler: version 1 knows one CPU target; what else version 2 says travels in
//! annotations, in the field order clients have always seen.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Map, Value, json};

use super::ordered::{Ordered, list};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

const UTILIZATION: &[&str] = &["resource", "target", "averageUtilization"];

pub(super) fn to_v1(object: &mut Value) {
    drop_annotations(object);
    let metrics = object.list_at(&["spec", "metrics"]).to_vec();
    let (cpu, others): (Vec<&Value>, Vec<&Value>) = metrics.iter().partition(|m| is_cpu_target(m));
    if !others.is_empty() {
        annotate(object, METRICS, list(others.into_iter().map(metric_text)));
    }
    let current = object.list_at(&["status", "currentMetrics"]).to_vec();
    if !current.is_empty() {
        annotate(object, CURRENT_METRICS, list(current.iter().map(status_text)));
    }
    if let Some(behavior) = object.at(&["spec", "behavior"]).filter(|b| b.is_object()) {
        let text = behavior_text(behavior);
        annotate(object, BEHAVIOR, text);
    }
    let conditions = object.list_at(&["status", "conditions"]).to_vec();
    if !conditions.is_empty() {
        annotate(object, CONDITIONS, list(conditions.iter().map(condition_text)));
    }
    let target = cpu.first().and_then(|metric| metric.at(UTILIZATION)).cloned();
    let spec = object.map_at_mut(&["spec"]);
    spec.remove("metrics");
    spec.remove("behavior");
    if let Some(target) = target {
        spec.insert("targetCPUUtilizationPercentage", target);
    }
    let used = current.iter().rev().filter(|metric| is_cpu(metric));
    let used = used.filter_map(|m| m.at(&["resource", "current", "averageUtilization"])).next();
    let status = object.map_at_mut(&["status"]);
    status.remove("currentMetrics");
    status.remove("conditions");
    for count in ["currentReplicas", "desiredReplicas"] {
        status.entry(count).or_insert_with(|| 0.into());
    }
    if let Some(used) = used {
        status.insert("currentCPUUtilizationPercentage", used.clone());
    }
}

pub(super) fn to_v2(object: &mut Value) {
    let spec = object.map_at_mut(&["spec"]);
    let target = spec.remove("targetCPUUtilizationPercentage").filter(|v| !v.is_null());
    let mut metrics: Vec<Value> =
        parsed(object, METRICS).as_array().into_iter().flatten().map(metric_value).collect();
    metrics.extend(target.map(cpu_target));
    if metrics.is_empty() {
        metrics.push(cpu_target(80.into()));
    }
    object.set(&["spec", "metrics"], metrics);
    let behavior = behavior_value(&parsed(object, BEHAVIOR));
    if !behavior.is_empty() {
        object.set(&["spec", "behavior"], behavior);
    }
    let used = object.remove_at(&["status", "currentCPUUtilizationPercentage"]);
    let used = used.filter(|used| !used.is_null()).map(|used| {
        let current = json!({"averageUtilization": used});
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": current}}])
    });
    let current: Vec<Value> = parsed(object, CURRENT_METRICS)
        .as_array()
        .into_iter()
        .flatten()
        .map(status_value)
        .collect();
    let current = if current.is_empty() { used } else { Some(current.into()) };
    let conditions = parsed(object, CONDITIONS);
    let status = object.map_at_mut(&["status"]);
    status.insert("currentMetrics", current.unwrap_or_default());
    if status.get("currentReplicas") == Some(&json!(0)) {
        status.remove("currentReplicas");
    }
    status.entry("desiredReplicas").or_insert_with(|| 0.into());
    if conditions.as_array().is_some_and(|list| !list.is_empty()) {
        status.insert("conditions", conditions);
    }
    drop_annotations(object);
}

fn cpu_target(percent: Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn is_cpu(metric: &Value) -> bool {
    metric.str_at(&["type"]) == Some("Resource")
        && metric.str_at(&["resource", "name"]) == Some("cpu")
}

fn is_cpu_target(metric: &Value) -> bool {
    is_cpu(metric) && metric.at(UTILIZATION).is_some_and(|percent| !percent.is_null())
}

fn annotate(object: &mut Value, key: &str, text: String) {
    object.set(&["metadata", "annotations", key], text);
}

/// Reads an annotation as JSON; one that cannot be read counts as absent.
fn parsed(object: &Value, key: &str) -> Value {
    object.annotation(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn drop_annotations(object: &mut Value) {
    let Some(metadata) = object.at_mut(&["metadata"]) else { return };
    for key in [METRICS, CURRENT_METRICS, BEHAVIOR, CONDITIONS] {
        metadata.remove_at(&["annotations", key]);
    }
    if metadata.map_at(&["annotations"]).is_some_and(Map::is_empty) {
        metadata.remove_at(&["annotations"]);
    }
}

fn reference_text(reference: Option<&Value>) -> String {
    let reference = reference.unwrap_or(&Value::Null);
    Ordered::default()
        .always("kind", reference.get("kind"))
        .always("name", reference.get("name"))
        .present("apiVersion", reference.get("apiVersion"))
        .write()
}

fn zero() -> Value {
    "0".into()
}

/// Writes one version 2 metric in the form version 1 had for it.
fn metric_text(metric: &Value) -> String {
    let kind = metric.str_at(&["type"]).unwrap_or_default();
    let (key, source) = source_of(metric, kind);
    let target = |field: &str| source.at(&["target", field]);
    let name = source.at(&["metric", "name"]);
    let selector = source.at(&["metric", "selector"]);
    let body = match kind {
        "Object" => Ordered::default()
            .text("target", &reference_text(source.get("describedObject")))
            .always("metricName", name)
            .always("targetValue", Some(target("value").unwrap_or(&zero())))
            .present("selector", selector)
            .present("averageValue", target("averageValue")),
        "Pods" => Ordered::default()
            .always("metricName", name)
            .always("targetAverageValue", target("averageValue"))
            .present("selector", selector),
        "External" => Ordered::default()
            .always("metricName", name)
            .present("metricSelector", selector)
            .present("targetValue", target("value"))
            .present("targetAverageValue", target("averageValue")),
        _ => {
            let resource = Ordered::default()
                .always("name", source.get("name"))
                .present("targetAverageUtilization", target("averageUtilization"))
                .present("targetAverageValue", target("averageValue"));
            resource.present("container", source.get("container"))
        }
    };
    Ordered::default().always("type", metric.get("type")).text(key, &body.write()).write()
}

fn status_text(metric: &Value) -> String {
    let kind = metric.str_at(&["type"]).unwrap_or_default();
    let (key, source) = source_of(metric, kind);
    let current = |field: &str| source.at(&["current", field]);
    let name = source.at(&["metric", "name"]);
    let selector = source.at(&["metric", "selector"]);
    let zero = zero();
    let body = match kind {
        "Object" => Ordered::default()
            .text("target", &reference_text(source.get("describedObject")))
            .always("metricName", name)
            .always("currentValue", Some(current("value").unwrap_or(&zero)))
            .present("selector", selector)
            .present("averageValue", current("averageValue")),
        "Pods" => Ordered::default()
            .always("metricName", name)
            .always("currentAverageValue", Some(current("averageValue").unwrap_or(&zero)))
            .present("selector", selector),
        "External" => Ordered::default()
            .always("metricName", name)
            .present("metricSelector", selector)
            .always("currentValue", Some(current("value").unwrap_or(&zero)))
            .present("currentAverageValue", current("averageValue")),
        _ => Ordered::default()
            .always("name", source.get("name"))
            .present("currentAverageUtilization", current("averageUtilization"))
            .always("currentAverageValue", Some(current("averageValue").unwrap_or(&zero)))
            .present("container", source.get("container")),
    };
    Ordered::default().always("type", metric.get("type")).text(key, &body.write()).write()
}

/// The field a kind of metric is described in, and what stands there.
fn source_of<'a>(metric: &'a Value, kind: &str) -> (&'static str, &'a Value) {
    let key = match kind {
        "Object" => "object",
        "Pods" => "pods",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => "resource",
    };
    (key, metric.get(key).unwrap_or(&Value::Null))
}

fn condition_text(condition: &Value) -> String {
    Ordered::default()
        .always("type", condition.get("type"))
        .always("status", condition.get("status"))
        .always("lastTransitionTime", condition.get("lastTransitionTime"))
        .present("reason", condition.get("reason").filter(|text| *text != ""))
        .present("message", condition.get("message").filter(|text| *text != ""))
        .write()
}

/// Compat: the behaviour is written with the field names of Go structs.
fn behavior_text(behavior: &Value) -> String {
    let rules = |direction: &str| {
        let Some(rules) = behavior.get(direction).filter(|rules| rules.is_object()) else {
            return "null".to_owned();
        };
        let policies = match rules.get("policies").and_then(Value::as_array) {
            Some(policies) => list(policies.iter().map(|policy| {
                Ordered::default()
                    .always("Type", policy.get("type"))
                    .always("Value", policy.get("value"))
                    .always("PeriodSeconds", policy.get("periodSeconds"))
                    .write()
            })),
            None => "null".to_owned(),
        };
        Ordered::default()
            .always("StabilizationWindowSeconds", rules.get("stabilizationWindowSeconds"))
            .always("SelectPolicy", rules.get("selectPolicy"))
            .text("Policies", &policies)
            .always("Tolerance", rules.get("tolerance"))
            .write()
    };
    Ordered::default()
        .text("ScaleUp", &rules("scaleUp"))
        .text("ScaleDown", &rules("scaleDown"))
        .write()
}

fn behavior_value(behavior: &Value) -> Map {
    let mut converted = Map::new();
    for (from, to) in [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")] {
        let Some(rules) = behavior.get(from).filter(|rules| rules.is_object()) else { continue };
        let mut out = pick(
            rules,
            &[
                ("StabilizationWindowSeconds", &["stabilizationWindowSeconds"]),
                ("SelectPolicy", &["selectPolicy"]),
                ("Tolerance", &["tolerance"]),
            ],
        );
        if let Some(policies) = rules.get("Policies").and_then(Value::as_array) {
            let names: &[Renamed] = &[
                ("Type", &["type"]),
                ("Value", &["value"]),
                ("PeriodSeconds", &["periodSeconds"]),
            ];
            let policies: Vec<Value> = policies.iter().map(|policy| pick(policy, names)).collect();
            out.set(&["policies"], policies);
        }
        converted.insert(to.to_owned(), out);
    }
    converted
}

/// A field and the path it moves to.
type Renamed = (&'static str, &'static [&'static str]);

fn pick(source: &Value, names: &[Renamed]) -> Value {
    let mut out = json!({});
    for (from, to) in names {
        if let Some(value) = source.get(*from).filter(|value| !value.is_null()) {
            out.set(to, value.clone());
        }
    }
    out
}

const METRIC_NAMES: &[Renamed] = &[
    ("name", &["name"]),
    ("container", &["container"]),
    ("target", &["describedObject"]),
    ("metricName", &["metric", "name"]),
    ("selector", &["metric", "selector"]),
    ("metricSelector", &["metric", "selector"]),
];

/// Reads one version 1 metric; which amount is given decides the type of the target.
fn metric_value(metric: &Value) -> Value {
    let kind = metric.str_at(&["type"]).unwrap_or_default();
    let (key, source) = source_of(metric, kind);
    let mut body = pick(source, METRIC_NAMES);
    let given = |field: &str| source.get(field).filter(|value| !value.is_null());
    let average = given("targetAverageValue").or_else(|| given("averageValue"));
    let target = if let Some(percent) = given("targetAverageUtilization") {
        json!({"type": "Utilization", "averageUtilization": percent})
    } else if let Some(average) = average {
        json!({"type": "AverageValue", "averageValue": average})
    } else {
        json!({"type": "Value", "value": given("targetValue")})
    };
    body.set(&["target"], target);
    json!({"type": kind, key: body})
}

fn status_value(metric: &Value) -> Value {
    let kind = metric.str_at(&["type"]).unwrap_or_default();
    let (key, source) = source_of(metric, kind);
    let mut body = pick(source, METRIC_NAMES);
    let current = pick(
        source,
        &[
            ("currentValue", &["value"]),
            ("currentAverageValue", &["averageValue"]),
            ("averageValue", &["averageValue"]),
            ("currentAverageUtilization", &["averageUtilization"]),
        ],
    );
    body.set(&["current"], current);
    json!({"type": kind, key: body})
}

//! FederatedHPA.

use karmada_api::autoscaling::{FederatedHPA, FederatedHPASpec};
use karmada_api::core::Quantity;
use karmada_api::hpa::{
    ContainerResourceMetricSource, CrossVersionObjectReference, HPAScalingPolicy, HPAScalingRules,
    HorizontalPodAutoscalerBehavior, MetricIdentifier, MetricSpec, MetricTarget,
    ObjectMetricSource, PodsMetricSource, ResourceMetricSource,
};
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names::{self, dns1123_label, path_segment, validate_object_meta};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};

use super::each;
use super::resource_names::check_container_name;
use crate::decode::{decode, encode};
use crate::request::{Denial, Environment, Request, Verdict, refuse_any};
use crate::show::shown;

const DEFAULT_CPU_UTILIZATION: i32 = 80;
const MAX_PERIOD_SECONDS: i32 = 1800;
const MAX_STABILIZATION_SECONDS: i32 = 3600;
const METRIC_TYPES: [&str; 4] = ["ContainerResource", "Object", "Pods", "Resource"];

pub(crate) fn mutate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let mut scaler: FederatedHPA = decode(&request.object)?;
    let spec = &mut scaler.spec;
    spec.min_replicas.get_or_insert(1);
    if spec.metrics.is_empty() {
        spec.metrics.push(default_metric());
    }
    // A list of policies that is there but empty is kept, and refused later.
    let says_policies = |direction: &str| {
        let path = ["spec", "behavior", direction, "policies"];
        request.object.at(&path).is_some_and(Value::is_array)
    };
    if let Some(behavior) = &mut spec.behavior {
        *behavior = HorizontalPodAutoscalerBehavior {
            scale_up: Some(complete(
                default_scale_up(),
                behavior.scale_up.take(),
                says_policies("scaleUp"),
            )),
            scale_down: Some(complete(
                default_scale_down(),
                behavior.scale_down.take(),
                says_policies("scaleDown"),
            )),
        };
    }
    let mut object = encode(&scaler, &request.object)?;
    for direction in ["scaleUp", "scaleDown"].into_iter().filter(|d| says_policies(d)) {
        object.set_default(&["spec", "behavior", direction, "policies"], Vec::<Value>::new());
    }
    Ok(Verdict { object: Some(object), ..Verdict::default() })
}

fn default_metric() -> MetricSpec {
    MetricSpec {
        r#type: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                r#type: "Utilization".to_owned(),
                average_utilization: Some(DEFAULT_CPU_UTILIZATION),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn policy(kind: &str, value: i32) -> HPAScalingPolicy {
    HPAScalingPolicy { r#type: kind.to_owned(), value, period_seconds: 15 }
}

fn default_scale_up() -> HPAScalingRules {
    HPAScalingRules {
        stabilization_window_seconds: Some(0),
        select_policy: Some("Max".to_owned()),
        policies: vec![policy("Pods", 4), policy("Percent", 100)],
        tolerance: None,
    }
}

fn default_scale_down() -> HPAScalingRules {
    HPAScalingRules {
        stabilization_window_seconds: None,
        select_policy: Some("Max".to_owned()),
        policies: vec![policy("Percent", 100)],
        tolerance: None,
    }
}

// Compat: the tolerance of the given rules is lost here, as in the original.
fn complete(
    defaults: HPAScalingRules,
    given: Option<HPAScalingRules>,
    says_policies: bool,
) -> HPAScalingRules {
    let Some(given) = given else { return defaults };
    HPAScalingRules {
        stabilization_window_seconds: given
            .stabilization_window_seconds
            .or(defaults.stabilization_window_seconds),
        select_policy: given.select_policy.or(defaults.select_policy),
        policies: if says_policies { given.policies } else { defaults.policies },
        tolerance: None,
    }
}

pub(crate) fn validate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let scaler: FederatedHPA = decode(&request.object)?;
    let metadata = request.object.get("metadata").unwrap_or(&Value::Null);
    let mut errors =
        validate_object_meta(metadata, true, names::subdomain_name, &Path::new("metadata"));
    errors.extend(check_spec(&scaler.spec, &Path::new("spec")));
    for (field, count) in [
        ("currentReplicas", scaler.status.current_replicas),
        ("desiredReplicas", scaler.status.desired_replicas),
    ] {
        if count < 0 {
            let path = Path::new("status").child(field);
            errors.push(FieldError::invalid(&path, count, "must be greater than or equal to 0"));
        }
    }
    refuse_any(&errors)?;
    Ok(Verdict::default())
}

fn check_spec(spec: &FederatedHPASpec, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (min, max) = (spec.min_replicas, spec.max_replicas);
    if let Some(min) = min.filter(|min| *min < 1) {
        let message = "must be greater than or equal to 1";
        errors.push(FieldError::invalid(&path.child("minReplicas"), min, message));
    }
    let max_path = path.child("maxReplicas");
    if max < 1 {
        errors.push(FieldError::invalid(&max_path, max, "must be greater than 0"));
    }
    if min.is_some_and(|min| max < min) {
        let message = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid(&max_path, max, message));
    }
    errors.extend(check_reference(&spec.scale_target_ref, &path.child("scaleTargetRef")));
    for (index, metric) in spec.metrics.iter().enumerate() {
        errors.extend(check_metric(metric, &path.child("metrics").index(index)));
    }
    if let Some(behavior) = &spec.behavior {
        let path = path.child("behavior");
        errors.extend(check_rules(behavior.scale_up.as_ref(), &path.child("scaleUp")));
        errors.extend(check_rules(behavior.scale_down.as_ref(), &path.child("scaleDown")));
    }
    errors
}

/// Kind and name must be there and fit into a URL path.
pub(crate) fn check_reference(
    reference: &CrossVersionObjectReference,
    path: &Path,
) -> Vec<FieldError> {
    [("kind", &reference.kind), ("name", &reference.name)]
        .into_iter()
        .flat_map(|(field, text)| required_segment(&path.child(field), text, ""))
        .collect()
}

fn required_segment(path: &Path, text: &str, missing: &str) -> Vec<FieldError> {
    if text.is_empty() {
        vec![FieldError::required(path, missing)]
    } else {
        each(path, text, path_segment(text))
    }
}

fn check_metric(metric: &MetricSpec, path: &Path) -> Vec<FieldError> {
    let type_path = path.child("type");
    let mut errors = Vec::new();
    if metric.r#type.is_empty() {
        errors.push(FieldError::required(&type_path, "must specify a metric source type"));
    }
    let known = METRIC_TYPES.contains(&&*metric.r#type);
    if !known {
        errors.push(FieldError::not_supported(&type_path, &*metric.r#type, &METRIC_TYPES));
    }
    // Only the first source that is there is looked into.
    let sources = [
        ("object", metric.object.as_ref().map(|s| check_object(s, &path.child("object")))),
        ("pods", metric.pods.as_ref().map(|s| check_pods(s, &path.child("pods")))),
        ("resource", metric.resource.as_ref().map(|s| check_resource(s, &path.child("resource")))),
        (
            "containerResource",
            metric
                .container_resource
                .as_ref()
                .map(|s| check_container(s, &path.child("containerResource"))),
        ),
    ];
    let mut present: Vec<&str> = Vec::new();
    for (field, problems) in sources {
        if let Some(problems) = problems {
            if present.is_empty() {
                errors.extend(problems);
            }
            present.push(field);
        }
    }
    let expected = match &*metric.r#type {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => "",
    };
    if known && !present.contains(&expected) {
        let message = "must populate information for the given metric source";
        errors.push(FieldError::required(&path.child(expected), message));
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| *field != expected) {
            let message = "must populate the given metric source only";
            errors.push(FieldError::forbidden(&path.child(field), message));
        }
    }
    errors
}

fn check_object(source: &ObjectMetricSource, path: &Path) -> Vec<FieldError> {
    let target_path = path.child("target");
    let mut errors = check_reference(&source.described_object, &path.child("describedObject"));
    errors.extend(check_identifier(&source.metric, &path.child("metric")));
    errors.extend(check_target(&source.target, &target_path));
    if source.target.value.is_none() && source.target.average_value.is_none() {
        errors.push(FieldError::required(
            &target_path.child("averageValue"),
            "must set either a target value or averageValue",
        ));
    }
    errors
}

fn check_pods(source: &PodsMetricSource, path: &Path) -> Vec<FieldError> {
    let target_path = path.child("target");
    let mut errors = check_identifier(&source.metric, &path.child("metric"));
    errors.extend(check_target(&source.target, &target_path));
    if source.target.average_value.is_none() {
        errors.push(FieldError::required(
            &target_path.child("averageValue"),
            "must specify a positive target averageValue",
        ));
    }
    errors
}

fn check_resource(source: &ResourceMetricSource, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if source.name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), "must specify a resource name"));
    }
    errors.extend(check_resource_target(&source.target, &path.child("target")));
    errors
}

fn check_container(source: &ContainerResourceMetricSource, path: &Path) -> Vec<FieldError> {
    let name_path = path.child("name");
    let container_path = path.child("container");
    let mut errors = Vec::new();
    if source.name.is_empty() {
        errors.push(FieldError::required(&name_path, "must specify a resource name"));
    } else {
        errors.extend(check_container_name(&source.name, &name_path));
    }
    if source.container.is_empty() {
        errors.push(FieldError::required(&container_path, "must specify a container"));
    } else {
        errors.extend(each(&container_path, &source.container, dns1123_label(&source.container)));
    }
    errors.extend(check_resource_target(&source.target, &path.child("target")));
    errors
}

fn check_resource_target(target: &MetricTarget, path: &Path) -> Vec<FieldError> {
    let mut errors = check_target(target, path);
    match (&target.average_utilization, &target.average_value) {
        (None, None) => errors.push(FieldError::required(
            &path.child("averageUtilization"),
            "must set either a target raw value or a target utilization",
        )),
        (Some(_), Some(_)) => errors.push(FieldError::forbidden(
            &path.child("averageValue"),
            "may not set both a target raw value and a target utilization",
        )),
        _ => {}
    }
    errors
}

fn check_target(target: &MetricTarget, path: &Path) -> Vec<FieldError> {
    let type_path = path.child("type");
    let mut errors = Vec::new();
    if target.r#type.is_empty() {
        errors.push(FieldError::required(&type_path, "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&&*target.r#type) {
        let message = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(&type_path, &*target.r#type, message));
    }
    for (field, amount) in [("value", &target.value), ("averageValue", &target.average_value)] {
        let not_positive = |amount: &&Quantity| amount.signum() <= 0;
        if let Some(amount) = amount.as_ref().filter(not_positive) {
            let path = path.child(field);
            errors.push(FieldError::invalid(&path, shown(amount), "must be positive"));
        }
    }
    if let Some(percent) = target.average_utilization.filter(|percent| *percent < 1) {
        let path = path.child("averageUtilization");
        errors.push(FieldError::invalid(&path, percent, "must be greater than 0"));
    }
    errors
}

fn check_identifier(metric: &MetricIdentifier, path: &Path) -> Vec<FieldError> {
    required_segment(&path.child("name"), &metric.name, "must specify a metric name")
}

fn check_rules(rules: Option<&HPAScalingRules>, path: &Path) -> Vec<FieldError> {
    let Some(rules) = rules else { return Vec::new() };
    let mut errors = Vec::new();
    let window_path = path.child("stabilizationWindowSeconds");
    if let Some(window) = rules.stabilization_window_seconds {
        if window < 0 {
            let message = "must be greater than or equal to zero";
            errors.push(FieldError::invalid(&window_path, window, message));
        }
        if window > MAX_STABILIZATION_SECONDS {
            let message = format!("must be less than or equal to {MAX_STABILIZATION_SECONDS}");
            errors.push(FieldError::invalid(&window_path, window, message));
        }
    }
    let known = ["Disabled", "Max", "Min"];
    if let Some(select) = rules.select_policy.as_deref().filter(|word| !known.contains(word)) {
        errors.push(FieldError::not_supported(&path.child("selectPolicy"), select, &known));
    }
    let policies_path = path.child("policies");
    if rules.policies.is_empty() {
        errors.push(FieldError::required(&policies_path, "must specify at least one Policy"));
    }
    for (index, policy) in rules.policies.iter().enumerate() {
        errors.extend(check_policy(policy, &policies_path.index(index)));
    }
    errors
}

fn check_policy(policy: &HPAScalingPolicy, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let known = ["Percent", "Pods"];
    if !known.contains(&&*policy.r#type) {
        errors.push(FieldError::not_supported(&path.child("type"), &*policy.r#type, &known));
    }
    if policy.value <= 0 {
        let message = "must be greater than zero";
        errors.push(FieldError::invalid(&path.child("value"), policy.value, message));
    }
    let period_path = path.child("periodSeconds");
    if policy.period_seconds <= 0 {
        let message = "must be greater than zero";
        errors.push(FieldError::invalid(&period_path, policy.period_seconds, message));
    }
    if policy.period_seconds > MAX_PERIOD_SECONDS {
        let message = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
        errors.push(FieldError::invalid(&period_path, policy.period_seconds, message));
    }
    errors
}

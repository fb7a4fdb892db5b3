//! Decides what a FederatedHPA does about what was seen: how many replicas its workload gets, and what its
//! status says about it.

use jiff::Timestamp;
use karmada_api::autoscaling::FederatedHPASpec;
use karmada_api::core::Quantity;
use karmada_api::event_reason;
use karmada_api::hpa::{
    ContainerResourceMetricStatus, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerStatus,
    MetricSpec, MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource,
    ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
};

use super::limits::{Memory, Wish, least};
use super::replicas::{Proposal, Samples, Situation};
use super::samples::Reading;

pub(super) const ABLE_TO_SCALE: &str = "AbleToScale";
pub(super) const SCALING_ACTIVE: &str = "ScalingActive";
const SCALING_LIMITED: &str = "ScalingLimited";

type Status = HorizontalPodAutoscalerStatus;

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    pub(super) status: Status,
    /// The size the workload gets, and why.
    pub(super) rescale: Option<(i32, String)>,
    /// Events about what went wrong: reason and message.
    pub(super) warnings: Vec<(&'static str, String)>,
}

/// Sets a condition; its time moves only when its status does.
pub(super) fn set_condition(
    status: &mut Status,
    kind: &str,
    holds: bool,
    (reason, message): (&str, &str),
    now: Timestamp,
) {
    let state = if holds { "True" } else { "False" };
    let known = status.conditions.iter().position(|condition| condition.r#type == kind);
    let since = known
        .and_then(|place| status.conditions.get(place))
        .filter(|condition| condition.status == state)
        .and_then(|condition| condition.last_transition_time);
    let condition = HorizontalPodAutoscalerCondition {
        r#type: kind.to_owned(),
        status: state.to_owned(),
        last_transition_time: since.or(Some(now.into())),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match known {
        Some(place) => status.conditions[place] = condition,
        None => status.conditions.push(condition),
    }
}

/// The size of a workload that is outside its bounds, and why it changes; no metric is asked then.
pub(super) fn pull_into_bounds(spec: &FederatedHPASpec, current: i32) -> Option<(i32, String)> {
    if current > spec.max_replicas {
        return Some((
            spec.max_replicas,
            "Current number of replicas above Spec.MaxReplicas".into(),
        ));
    }
    (current < least(spec))
        .then(|| (least(spec), "Current number of replicas below Spec.MinReplicas".into()))
}

/// Follows the metrics. `readings` has one entry for each of them.
pub(super) fn follow_metrics(
    spec: &FederatedHPASpec,
    status: Status,
    situation: &Situation<'_>,
    readings: &[Result<Reading, String>],
    memory: &mut Memory,
) -> Plan {
    let (current, now) = (situation.current, situation.now);
    let mut plan = Plan { status, rescale: None, warnings: Vec::new() };
    plan.status.current_replicas = current;
    let (mut statuses, mut best): (_, Option<(i32, String)>) = (Vec::new(), None);
    for (metric, reading) in spec.metrics.iter().zip(readings) {
        match propose(metric, reading, situation) {
            Ok((replicas, name, status)) => {
                statuses.push(status);
                if best.as_ref().is_none_or(|(most, _)| replicas > *most) {
                    best = Some((replicas, name));
                }
            }
            Err(failure) => plan.warnings.push(failure),
        }
    }
    // With a metric unknown nobody shrinks.
    let best = best.filter(|(most, _)| plan.warnings.is_empty() || *most >= current);
    let Some((wished, metric)) = best else {
        refuse(&mut plan, spec.metrics.len(), now);
        return plan;
    };
    let found = format!("{wished} replicas follow from {metric}");
    set_condition(&mut plan.status, SCALING_ACTIVE, true, ("ValidMetricFound", &found), now);
    let wish = Wish { current, replicas: wished, at: now };
    let limited = memory.limit(spec, situation.options.downscale_stabilization, wish);
    set_condition(&mut plan.status, ABLE_TO_SCALE, true, limited.able, now);
    let (is_limited, reason) = limited.limited;
    set_condition(&mut plan.status, SCALING_LIMITED, is_limited, reason, now);
    plan.status.current_metrics = Some(statuses);
    plan.status.desired_replicas = limited.replicas;
    if limited.replicas != current {
        let reason = match wished > current {
            true => format!("{metric} above target"),
            false => "All metrics below target".to_owned(),
        };
        plan.rescale = Some((limited.replicas, reason));
    }
    plan
}

/// Says that no number of replicas follows from the metrics.
fn refuse(plan: &mut Plan, metrics: usize, now: Timestamp) {
    let nothing = ("InvalidMetricSourceType", "the FederatedHPA names no metrics".to_owned());
    let (reason, problem) = plan.warnings.first().cloned().unwrap_or(nothing);
    let said = format!("no number of replicas follows from the metrics: {problem}");
    set_condition(&mut plan.status, SCALING_ACTIVE, false, (reason, &said), now);
    let count = plan.warnings.len();
    let said = format!("{count} of {metrics} metrics cannot be used, first of all: {problem}");
    plan.warnings.push((event_reason::FAILED_COMPUTE_METRICS_REPLICAS, said));
}

/// Replicas that a metric asks for, the name it goes by, and what the status shows of it; or the reason and
/// what is wrong.
type Proposed = Result<(i32, String, MetricStatus), (&'static str, String)>;

/// Replicas that one metric asks for, if it can be used.
pub(super) fn wanted(
    metric: &MetricSpec,
    reading: &Result<Reading, String>,
    situation: &Situation<'_>,
) -> Option<i32> {
    propose(metric, reading, situation).ok().map(|(replicas, ..)| replicas)
}

fn propose(
    metric: &MetricSpec,
    reading: &Result<Reading, String>,
    situation: &Situation<'_>,
) -> Proposed {
    let status = MetricStatus { r#type: metric.r#type.clone(), ..MetricStatus::default() };
    match metric.r#type.as_str() {
        "Resource" => {
            let failed = |problem: String| ("FailedGetResourceMetric", problem);
            let source = metric.resource.as_ref();
            let source = source.ok_or_else(|| failed("the metric names no resource".into()))?;
            let proposal = of_resource(reading, &source.name, None, &source.target, situation);
            let proposal =
                proposal.map_err(|problem| failed(format!("{}: {problem}", source.name)))?;
            let current = proposal.shown();
            let resource = Some(ResourceMetricStatus { name: source.name.clone(), current });
            let name = named(&source.name, "resource", &proposal);
            Ok((proposal.replicas, name, MetricStatus { resource, ..status }))
        }
        "ContainerResource" => {
            let failed = |problem: String| ("FailedGetContainerResourceMetric", problem);
            let source = metric.container_resource.as_ref();
            let source = source.ok_or_else(|| failed("the metric names no resource".into()))?;
            let container = Some(source.container.as_str());
            let proposal = of_resource(reading, &source.name, container, &source.target, situation);
            let proposal = proposal.map_err(|problem| {
                failed(format!("{} of container {}: {problem}", source.name, source.container))
            })?;
            let container_resource = Some(ContainerResourceMetricStatus {
                name: source.name.clone(),
                container: source.container.clone(),
                current: proposal.shown(),
            });
            let name = named(&source.name, "container resource", &proposal);
            Ok((proposal.replicas, name, MetricStatus { container_resource, ..status }))
        }
        "Pods" => {
            let failed = |problem: String| ("FailedGetPodsMetric", problem);
            let source = metric.pods.as_ref();
            let source = source.ok_or_else(|| failed("the metric has no source".into()))?;
            let name = &source.metric.name;
            let proposal = samples_of(reading).and_then(|samples| {
                let target = milli(source.target.average_value.as_ref(), "averageValue")?;
                situation.for_average(samples, "", target).map_err(|problem| problem.to_string())
            });
            let proposal = proposal.map_err(|problem| failed(format!("{name}: {problem}")))?;
            let (metric, current) = (source.metric.clone(), proposal.shown());
            let name = format!("pods metric {name}");
            let pods = Some(PodsMetricStatus { metric, current });
            Ok((proposal.replicas, name, MetricStatus { pods, ..status }))
        }
        "Object" => {
            let failed = |problem: String| ("FailedGetObjectMetric", problem);
            let source = metric.object.as_ref();
            let source = source.ok_or_else(|| failed("the metric names no object".into()))?;
            let (object, name) = (&source.described_object, &source.metric.name);
            let (replicas, current) = of_object(reading, source, situation).map_err(|problem| {
                failed(format!("{name} of {} {}: {problem}", object.kind, object.name))
            })?;
            let name = format!("{} metric {name}", object.kind);
            let (metric, described_object) = (source.metric.clone(), object.clone());
            let object = Some(ObjectMetricStatus { metric, current, described_object });
            Ok((replicas, name, MetricStatus { object, ..status }))
        }
        other => Err((
            "InvalidMetricSourceType",
            format!(
                "metrics of type {other:?} are not known; there are Resource, ContainerResource, Pods and Object"
            ),
        )),
    }
}

/// The metric as the reason of a change names it.
fn named(resource: &str, kind: &str, proposal: &Proposal) -> String {
    match proposal.percent {
        Some(_) => format!("{resource} {kind} utilization (percentage of request)"),
        None => format!("{resource} {kind}"),
    }
}

fn of_resource(
    reading: &Result<Reading, String>,
    resource: &str,
    container: Option<&str>,
    target: &MetricTarget,
    situation: &Situation<'_>,
) -> Result<Proposal, String> {
    let samples = samples_of(reading)?;
    let proposal = match (&target.average_value, target.average_utilization) {
        (Some(value), _) => situation.for_average(samples, resource, value.milli_value()),
        (None, Some(percent)) => situation.for_utilization(samples, resource, container, percent),
        (None, None) => {
            return Err("target says neither averageUtilization nor averageValue".to_owned());
        }
    };
    proposal.map_err(|problem| problem.to_string())
}

fn of_object(
    reading: &Result<Reading, String>,
    source: &ObjectMetricSource,
    situation: &Situation<'_>,
) -> Result<(i32, MetricValueStatus), String> {
    let value = match reading {
        Ok(Reading::Value(value)) => *value,
        Ok(Reading::Pods(_)) => return Err("values of pods are not those of an object".to_owned()),
        Err(problem) => return Err(problem.clone()),
    };
    match source.target.r#type.as_str() {
        "Value" => {
            let target = milli(source.target.value.as_ref(), "value")?;
            let replicas =
                situation.for_value(value, target).map_err(|problem| problem.to_string())?;
            let value = Some(Quantity::from_millis(value));
            Ok((replicas, MetricValueStatus { value, ..MetricValueStatus::default() }))
        }
        "AverageValue" => {
            let target = milli(source.target.average_value.as_ref(), "averageValue")?;
            let proposal = situation.for_shared_value(value, target);
            Ok((proposal.replicas, proposal.shown()))
        }
        other => Err(format!("target.type is {other:?}; it is Value or AverageValue")),
    }
}

fn samples_of(reading: &Result<Reading, String>) -> Result<&Samples, String> {
    match reading {
        Ok(Reading::Pods(samples)) => Ok(samples),
        Ok(Reading::Value(_)) => Err("the value of an object is not that of pods".to_owned()),
        Err(problem) => Err(problem.clone()),
    }
}

fn milli(target: Option<&Quantity>, field: &str) -> Result<i64, String> {
    let target = target.ok_or_else(|| format!("target.{field} is missing"))?;
    Ok(target.milli_value())
}

impl Proposal {
    /// What the status shows of it.
    fn shown(&self) -> MetricValueStatus {
        MetricValueStatus {
            value: None,
            average_value: Some(Quantity::from_millis(self.average)),
            average_utilization: self.percent,
        }
    }
}

#[cfg(test)]
mod tests;

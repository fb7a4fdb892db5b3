//! The parts of `autoscaling/v2` that FederatedHPA embeds.

use crate::core::Quantity;
use crate::meta::LabelSelector;
use crate::wire::{Time, go_package, wire};

go_package!("v2");

wire! {
    /// An object by kind and name.
    pub struct CrossVersionObjectReference {
        /// Kind of the object.
        kind: String,
        /// Name of the object.
        name: String,
        /// Group and version of the object.
        api_version?: String,
    }

    /// A metric and the value to aim for.
    pub struct MetricSpec {
        /// Which of the sources below is used: Object, Pods, Resource, ContainerResource or External.
        r#type as "type": String,
        /// A metric of another object, such as requests per second of an Ingress.
        object?: Option<ObjectMetricSource>,
        /// A metric of each pod, averaged over all pods.
        pods?: Option<PodsMetricSource>,
        /// CPU or memory of the pods against what they request.
        resource?: Option<ResourceMetricSource>,
        /// CPU or memory of one container in each pod against what it requests.
        container_resource?: Option<ContainerResourceMetricSource>,
        /// A metric from outside the clusters.
        external?: Option<ExternalMetricSource>,
    }

    /// A metric of another object.
    pub struct ObjectMetricSource {
        /// Object the metric is about.
        described_object: CrossVersionObjectReference,
        /// Value to aim for.
        target: MetricTarget,
        /// Metric by name and labels.
        metric: MetricIdentifier,
    }

    /// A metric of each pod.
    pub struct PodsMetricSource {
        /// Metric by name and labels.
        metric: MetricIdentifier,
        /// Value to aim for.
        target: MetricTarget,
    }

    /// A resource of the pods.
    pub struct ResourceMetricSource {
        /// Resource name.
        name: String,
        /// Value to aim for.
        target: MetricTarget,
    }

    /// A resource of one container in each pod.
    pub struct ContainerResourceMetricSource {
        /// Resource name.
        name: String,
        /// Value to aim for.
        target: MetricTarget,
        /// Name of the container.
        container: String,
    }

    /// A metric from outside.
    pub struct ExternalMetricSource {
        /// Metric by name and labels.
        metric: MetricIdentifier,
        /// Value to aim for.
        target: MetricTarget,
    }

    /// A metric by name and labels.
    pub struct MetricIdentifier {
        /// Name of the metric.
        name: String,
        /// Labels of the metric.
        selector?: Option<LabelSelector>,
    }

    /// The value to aim for.
    pub struct MetricTarget {
        /// How the target is given: Utilization, Value or AverageValue.
        r#type as "type": String,
        /// Wanted value of the metric itself.
        value?: Option<Quantity>,
        /// Wanted value per pod.
        average_value?: Option<Quantity>,
        /// Wanted use per pod in per cent of the request.
        average_utilization?: Option<i32>,
    }

    /// How fast the number of replicas may change.
    pub struct HorizontalPodAutoscalerBehavior {
        /// Limits for growing.
        scale_up?: Option<HPAScalingRules>,
        /// Limits for shrinking.
        scale_down?: Option<HPAScalingRules>,
    }

    /// Limits in one direction.
    pub struct HPAScalingRules {
        /// Seconds of past recommendations that are considered, so that short peaks do not count; 0 to 3600.
        stabilization_window_seconds?: Option<i32>,
        /// Which policy counts when several apply: Max, Min or Disabled; Max if unset.
        select_policy?: Option<String>,
        /// Largest changes per period.
        policies?: Vec<HPAScalingPolicy> = {"x-kubernetes-list-type": "atomic"},
        /// Deviation from the target that is ignored.
        tolerance?: Option<Quantity>,
    }

    /// A largest change per period.
    pub struct HPAScalingPolicy {
        /// Unit of the value: Pods or Percent.
        r#type as "type": String,
        /// Largest change.
        value: i32,
        /// Length of the period in seconds, 1 to 1800.
        period_seconds: i32,
    }

    /// What an autoscaler last saw and did.
    pub struct HorizontalPodAutoscalerStatus {
        /// Generation the status is about.
        observed_generation?: Option<i64>,
        /// When the number of replicas last changed.
        last_scale_time?: Option<Time>,
        /// Replicas that were counted.
        current_replicas?: i32,
        /// Replicas that are wanted.
        desired_replicas: i32,
        /// Metrics that were read.
        current_metrics+: Option<Vec<MetricStatus>> = {"x-kubernetes-list-type": "atomic"},
        /// Observed aspects: AbleToScale, ScalingActive, ScalingLimited.
        conditions?: Vec<HorizontalPodAutoscalerCondition> = {"x-kubernetes-list-map-keys": ["type"], "x-kubernetes-list-type": "map"},
    }

    /// A metric that was read.
    pub struct MetricStatus {
        /// Which of the sources below is meant.
        r#type as "type": String,
        /// A metric of another object.
        object?: Option<ObjectMetricStatus>,
        /// A metric of each pod.
        pods?: Option<PodsMetricStatus>,
        /// A resource of the pods.
        resource?: Option<ResourceMetricStatus>,
        /// A resource of one container in each pod.
        container_resource?: Option<ContainerResourceMetricStatus>,
        /// A metric from outside.
        external?: Option<ExternalMetricStatus>,
    }

    /// A metric of another object.
    pub struct ObjectMetricStatus {
        /// Metric by name and labels.
        metric: MetricIdentifier,
        /// Value that was read.
        current: MetricValueStatus,
        /// Object the metric is about.
        described_object: CrossVersionObjectReference,
    }

    /// A metric of each pod.
    pub struct PodsMetricStatus {
        /// Metric by name and labels.
        metric: MetricIdentifier,
        /// Value that was read.
        current: MetricValueStatus,
    }

    /// A resource of the pods.
    pub struct ResourceMetricStatus {
        /// Resource name.
        name: String,
        /// Value that was read.
        current: MetricValueStatus,
    }

    /// A resource of one container in each pod.
    pub struct ContainerResourceMetricStatus {
        /// Resource name.
        name: String,
        /// Value that was read.
        current: MetricValueStatus,
        /// Name of the container.
        container: String,
    }

    /// A metric from outside.
    pub struct ExternalMetricStatus {
        /// Metric by name and labels.
        metric: MetricIdentifier,
        /// Value that was read.
        current: MetricValueStatus,
    }

    /// A value that was read.
    pub struct MetricValueStatus {
        /// Value of the metric itself.
        value?: Option<Quantity>,
        /// Value per pod.
        average_value?: Option<Quantity>,
        /// Use per pod in per cent of the request.
        average_utilization?: Option<i32>,
    }

    /// One observed aspect of an autoscaler.
    pub struct HorizontalPodAutoscalerCondition {
        /// Name of the condition.
        r#type as "type": String,
        /// Truth value: True, False or Unknown.
        status: String,
        /// When the status last changed.
        last_transition_time+: Option<Time>,
        /// Machine-readable word for why the status is what it is.
        reason?: String,
        /// Explanation for people.
        message?: String,
    }
}

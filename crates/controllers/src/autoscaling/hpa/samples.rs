//! Reads metrics from the APIs that the control plane serves them at: `metrics.k8s.io` for what pods use of
//! resources, `custom.metrics.k8s.io` for everything else.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use karmada_api::annotations;
use karmada_api::core::{Quantity, ResourceList};
use karmada_api::hpa::{MetricIdentifier, MetricSpec, ObjectMetricSource};
use karmada_api::wire::Time;
use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::time::parse_go_duration;
use karmada_apimachinery::{from_value, to_value};
use karmada_client::request::{Query, path};
use karmada_client::{Client, Discovery, ListOptions};
use karmada_runtime::chain;
use serde::Deserialize;
use tokio::time::Instant;

use super::replicas::{Pod, PodId, Sample, Samples};
use crate::autoscaling::metrics::HpaNumbers;

const CUSTOM: &str = "custom.metrics.k8s.io";
/// Versions of the custom metrics API that are understood, best first.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// The time a custom metric is of, unless it says so.
const CUSTOM_WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read metrics.k8s.io/v1beta1")]
    Resources(#[source] karmada_client::Error),
    #[error("metrics.k8s.io/v1beta1 knows none of the pods")]
    NoResources,
    #[error("container {container} of pod {pod} was not measured")]
    NoContainer { container: String, pod: String },
    #[error("read {CUSTOM}")]
    Custom(#[source] karmada_client::Error),
    #[error("{CUSTOM} is served in no version that is known here: v1beta2, v1beta1")]
    Version,
    #[error("no kind {kind} is served in {api_version:?}; correct describedObject")]
    NotServed { api_version: String, kind: String },
    #[error("{CUSTOM} has no value of {0}")]
    NoValue(String),
    #[error("understand what was measured")]
    Decode(#[from] serde_json::Error),
    #[error("metric.selector: {0}")]
    Selector(String),
}

/// What was read for one metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reading {
    Pods(Samples),
    /// One value, in thousandths.
    Value(i64),
}

/// What `metrics.k8s.io` tells about a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PodMetrics {
    metadata: Metadata,
    timestamp: Option<Time>,
    window: String,
    containers: Vec<ContainerMetrics>,
}

karmada_apimachinery::readable!(PodMetrics);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    annotations: HashMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ContainerMetrics {
    name: String,
    usage: ResourceList,
}

/// What `custom.metrics.k8s.io` tells about an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetricValue {
    described_object: Described,
    timestamp: Option<Time>,
    window_seconds: Option<u64>,
    value: Quantity,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Described {
    name: String,
}

/// Whose metrics are read.
pub(super) struct Subject<'a> {
    pub(super) namespace: &'a str,
    pub(super) selector: &'a LabelSelector,
    pub(super) pods: &'a [Pod],
}

pub(super) struct Source {
    client: Client,
    discovery: Discovery,
}

impl Source {
    pub(super) fn new(client: Client, discovery: Discovery) -> Self {
        Self { client, discovery }
    }

    /// Reads every metric, or says why it cannot be read; and how long each of them took.
    pub(super) async fn read(
        &self,
        metrics: &[MetricSpec],
        subject: &Subject<'_>,
        numbers: &HpaNumbers,
    ) -> (Vec<Result<Reading, String>>, Vec<Duration>) {
        let uses_resources = |metric: &MetricSpec| {
            matches!(metric.r#type.as_str(), "Resource" | "ContainerResource")
        };
        // One question answers all metrics of this kind.
        let asked = Instant::now();
        let resources = match metrics.iter().any(uses_resources) {
            false => Ok(Vec::new()),
            true => {
                let began = Instant::now();
                let read = self.read_resources(subject).await;
                numbers.pulled("ResourceMetric", began, read.is_ok());
                read.map_err(|error| chain(&error))
            }
        };
        let for_all = asked.elapsed();
        let (mut readings, mut took) = (Vec::new(), Vec::new());
        for metric in metrics {
            let began = Instant::now();
            let reading = match (metric.r#type.as_str(), &resources) {
                ("Resource" | "ContainerResource", Err(problem)) => Err(problem.clone()),
                ("Resource" | "ContainerResource", Ok(resources)) => {
                    resource_samples(metric, resources, subject.pods)
                        .map(Reading::Pods)
                        .map_err(|error| chain(&error))
                }
                _ => {
                    self.read_custom(metric, subject, numbers).await.map_err(|error| chain(&error))
                }
            };
            readings.push(reading);
            let shared = if uses_resources(metric) { for_all } else { Duration::ZERO };
            took.push(shared + began.elapsed());
        }
        (readings, took)
    }

    async fn read_resources(&self, subject: &Subject<'_>) -> Result<Vec<PodMetrics>, Error> {
        let api = self.client.api(&Gvr::new("metrics.k8s.io", "v1beta1", "pods"));
        let options =
            ListOptions { label_selector: subject.selector.to_string(), ..Default::default() };
        let list = api.namespaced(subject.namespace).list(&options).await;
        let items = list.map_err(Error::Resources)?.items;
        if items.is_empty() {
            return Err(Error::NoResources);
        }
        items.iter().map(|item| Ok(item.read::<PodMetrics>()?)).collect()
    }

    async fn read_custom(
        &self,
        metric: &MetricSpec,
        subject: &Subject<'_>,
        numbers: &HpaNumbers,
    ) -> Result<Reading, Error> {
        let began = Instant::now();
        let (kind, read) = match (&metric.pods, &metric.object) {
            (Some(pods), _) if metric.r#type == "Pods" => {
                ("RawMetric", self.read_pods(&pods.metric, subject).await)
            }
            (_, Some(object)) => ("ObjectMetric", self.read_object(object, subject).await),
            // Whoever decides says what is wrong with it.
            _ => return Ok(Reading::Value(0)),
        };
        numbers.pulled(kind, began, read.is_ok());
        read
    }

    async fn read_pods(
        &self,
        metric: &MetricIdentifier,
        subject: &Subject<'_>,
    ) -> Result<Reading, Error> {
        let gvr = Gvr::new(CUSTOM, self.custom_version().await?, "pods");
        let mut query = Query::default();
        query.add("labelSelector", &subject.selector.to_string());
        query.add("metricLabelSelector", &selector_text(metric)?);
        let path = path(&gvr, Some(subject.namespace), "*", &metric.name);
        let values = self.values(&query.append_to(path)).await?;
        if values.is_empty() {
            return Err(Error::NoValue(metric.name.clone()));
        }
        let measured = values.into_iter().filter_map(|value| {
            Some(Measured {
                id: PodId { cluster: String::new(), name: value.described_object.name },
                sample: Sample {
                    value: value.value.milli_value(),
                    at: value.timestamp?.0,
                    window: value.window_seconds.map_or(CUSTOM_WINDOW, Duration::from_secs),
                },
            })
        });
        Ok(Reading::Pods(attribute(measured, subject.pods)))
    }

    async fn read_object(
        &self,
        source: &ObjectMetricSource,
        subject: &Subject<'_>,
    ) -> Result<Reading, Error> {
        let (object, metric) = (&source.described_object, &source.metric);
        let version = self.custom_version().await?;
        let group = GroupVersion::parse(&object.api_version).unwrap_or_default();
        let path = if object.kind == "Namespace" && group.group.is_empty() {
            let gvr = Gvr::new(CUSTOM, version, "metrics");
            path(&gvr, Some(subject.namespace), &metric.name, "")
        } else {
            let kind = group.with_kind(object.kind.as_str()).group_kind();
            let found =
                self.discovery.resource_of_group_kind(&kind).await.map_err(Error::Custom)?;
            let Some(found) = found else {
                let (api_version, kind) = (object.api_version.clone(), object.kind.clone());
                return Err(Error::NotServed { api_version, kind });
            };
            let resource = match found.gvr.group.as_str() {
                "" => found.gvr.resource.to_string(),
                group => format!("{}.{group}", found.gvr.resource),
            };
            let gvr = Gvr::new(CUSTOM, version, resource);
            path(&gvr, Some(subject.namespace), &object.name, &metric.name)
        };
        let mut query = Query::default();
        query.add("metricLabelSelector", &selector_text(metric)?);
        let values = self.values(&query.append_to(path)).await?;
        let [value] = &values[..] else { return Err(Error::NoValue(metric.name.clone())) };
        Ok(Reading::Value(value.value.milli_value()))
    }

    /// The best version of the custom metrics API that is served.
    async fn custom_version(&self) -> Result<&'static str, Error> {
        let group = self.client.get_path(&format!("/apis/{CUSTOM}"), "application/json").await;
        let group = group.map_err(Error::Custom)?;
        let versions = group.list_at(&["versions"]);
        let is_served =
            |known: &&str| versions.iter().any(|found| found.str_at(&["version"]) == Some(*known));
        CUSTOM_VERSIONS.into_iter().find(is_served).ok_or(Error::Version)
    }

    async fn values(&self, path: &str) -> Result<Vec<MetricValue>, Error> {
        let list = self.client.get_path(path, "application/json").await.map_err(Error::Custom)?;
        let values = list.list_at(&["items"]).iter().cloned();
        values.map(|value| Ok(from_value(value)?)).collect()
    }
}

/// The labels of a metric as a query spells them.
fn selector_text(metric: &MetricIdentifier) -> Result<String, Error> {
    let Some(selector) = &metric.selector else { return Ok(String::new()) };
    let selector = LabelSelector::from_object(Some(&to_value(selector)?));
    Ok(selector.map_err(|problem| Error::Selector(problem.to_string()))?.to_string())
}

/// What one metric is about, of all that was measured of the pods.
fn resource_samples(
    metric: &MetricSpec,
    measured: &[PodMetrics],
    pods: &[Pod],
) -> Result<Samples, Error> {
    let (resource, container) = match (&metric.resource, &metric.container_resource) {
        (Some(source), _) if metric.r#type == "Resource" => (source.name.as_str(), None),
        (_, Some(source)) => (source.name.as_str(), Some(source.container.as_str())),
        // Whoever decides says what is wrong with it.
        _ => return Ok(Samples::new()),
    };
    let mut samples = Vec::new();
    for pod in measured {
        let own = |part: &&ContainerMetrics| container.is_none_or(|name| part.name == name);
        let parts: Vec<_> = pod.containers.iter().filter(own).collect();
        if let (true, Some(container)) = (parts.is_empty(), container) {
            let (container, pod) = (container.to_owned(), pod.metadata.name.clone());
            return Err(Error::NoContainer { container, pod });
        }
        let used = parts.iter().map(|part| Some(part.usage.get(resource)?.milli_value()));
        // A pod of which a part was not measured was not measured.
        let used = used.sum::<Option<i64>>().filter(|_| !parts.is_empty());
        let (Some(value), Some(at)) = (used, pod.timestamp) else { continue };
        let window = parse_go_duration(&pod.window).ok();
        let window = window.and_then(|window| Duration::try_from(window).ok()).unwrap_or_default();
        let cluster = pod.metadata.annotations.get(annotations::QUERY_FROM_CLUSTER);
        let cluster = cluster.cloned().unwrap_or_default();
        let id = PodId { cluster, name: pod.metadata.name.clone() };
        samples.push(Measured { id, sample: Sample { value, at: at.0, window } });
    }
    Ok(attribute(samples, pods))
}

/// What was measured of a pod; the cluster is empty where that is not told.
#[derive(Debug, Clone)]
struct Measured {
    id: PodId,
    sample: Sample,
}

/// Gives each pod what was measured of it. A value that names no cluster is that of all pods of the name
/// together, as the adapter of the original tells it, so each of them gets its part.
fn attribute(measured: impl IntoIterator<Item = Measured>, pods: &[Pod]) -> Samples {
    let mut by_name: BTreeMap<&str, Vec<&PodId>> = BTreeMap::new();
    for pod in pods {
        by_name.entry(&pod.id.name).or_default().push(&pod.id);
    }
    let mut samples = Samples::new();
    for Measured { id, sample } in measured {
        let Some(same_name) = by_name.get(id.name.as_str()) else { continue };
        if !id.cluster.is_empty() {
            if same_name.contains(&&id) {
                samples.insert(id, sample);
            }
            continue;
        }
        let parts = i64::try_from(same_name.len()).unwrap_or(i64::MAX);
        for own in same_name {
            let part = Sample { value: sample.value / parts, ..sample };
            let known = samples.entry((*own).clone());
            known.and_modify(|known| known.value += part.value).or_insert(part);
        }
    }
    samples
}

#[cfg(test)]
mod tests;

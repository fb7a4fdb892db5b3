//! What is counted on the way of a binding to the members, named as upstream names it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use karmada_runtime::Metrics;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

use super::works::ManifestHead;

/// How long something took, by whether it went well.
#[derive(Clone)]
pub(super) struct Durations {
    success: Histogram,
    error: Histogram,
}

impl Durations {
    pub(super) fn of_bindings(metrics: &Metrics) -> Self {
        let help = "Duration in seconds to sync works for a binding object";
        Self::register(metrics, "binding_sync_work_duration_seconds", help)
    }

    pub(super) fn of_works(metrics: &Metrics) -> Self {
        let help = "Duration in seconds to sync the workload to a target cluster";
        Self::register(metrics, "work_sync_workload_duration_seconds", help)
    }

    fn register(metrics: &Metrics, name: &str, help: &str) -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 12));
        let all = Family::<[(&str, &str); 1], Histogram, _>::new_with_constructor(seconds);
        let of = |result| all.get_or_create_owned(&[("result", result)]);
        let own = Self { success: of(SUCCESS), error: of(ERROR) };
        metrics.register(|registry| registry.register(name, help, all));
        own
    }

    pub(super) fn took(&self, since: Instant, succeeded: bool) {
        let histogram = if succeeded { &self.success } else { &self.error };
        histogram.observe(since.elapsed().as_secs_f64());
    }
}

const SUCCESS: &str = "success";
const ERROR: &str = "error";

/// What became of an object that should be in a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Created,
    NotCreated,
    Updated,
    Unchanged,
    NotUpdated,
    Deleted,
    NotDeleted,
}

impl Sent {
    const ALL: [Self; 7] = [
        Self::Created,
        Self::NotCreated,
        Self::Updated,
        Self::Unchanged,
        Self::NotUpdated,
        Self::Deleted,
        Self::NotDeleted,
    ];

    fn result(self) -> &'static str {
        match self {
            Self::Created | Self::Updated | Self::Unchanged | Self::Deleted => SUCCESS,
            Self::NotCreated | Self::NotUpdated | Self::NotDeleted => ERROR,
        }
    }

    fn metric(self) -> &'static str {
        match self {
            Self::Created | Self::NotCreated => "create_resource_to_cluster",
            Self::Updated | Self::Unchanged | Self::NotUpdated => "update_resource_to_cluster",
            Self::Deleted | Self::NotDeleted => "delete_resource_from_cluster",
        }
    }

    /// The label that only this metric has.
    fn own_label(self) -> Option<(&'static str, &'static str)> {
        match self {
            // Compat: nothing makes it anything else.
            Self::Created | Self::NotCreated => Some(("recreate", "false")),
            Self::Updated => Some(("operationResult", "updated")),
            Self::Unchanged => Some(("operationResult", "unchanged")),
            Self::NotUpdated => Some(("operationResult", "none")),
            Self::Deleted | Self::NotDeleted => None,
        }
    }
}

/// What was sent of one kind to one member.
#[derive(Debug, Default)]
pub(super) struct Tally([AtomicU64; Sent::ALL.len()]);

impl Tally {
    pub(super) fn count(&self, sent: Sent) {
        self.0[sent as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, sent: Sent) -> u64 {
        self.0[sent as usize].load(Ordering::Relaxed)
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    cluster: String,
    api_version: String,
    kind: String,
}

/// What was sent to all members. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Traffic(Arc<Mutex<BTreeMap<Route, Arc<Tally>>>>);

impl Traffic {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let own = Self::default();
        let shown = Box::new(own.clone());
        metrics.register(|registry| registry.register_collector(shown));
        own
    }

    /// The tally of a kind in a member, to be kept by whoever sends much.
    pub(super) fn tally(&self, cluster: &str, head: &ManifestHead) -> Arc<Tally> {
        let route = Route {
            cluster: cluster.to_owned(),
            api_version: head.api_version.clone(),
            kind: head.kind.clone(),
        };
        self.0.lock().entry(route).or_default().clone()
    }
}

/// Compat: the names have no `_total` although these are counters, which the library's own would add.
impl Collector for Traffic {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        const METRICS: [(&str, &str); 3] = [
            ("create_resource_to_cluster", "Number of creation operations against a target member"),
            ("update_resource_to_cluster", "Number of updating operations of a target member"),
            ("delete_resource_from_cluster", "Number of deletion operations of a target member"),
        ];
        let all = self.0.lock();
        for (name, help) in METRICS {
            let sents = || Sent::ALL.into_iter().filter(move |sent| sent.metric() == name);
            let mut rows = all
                .iter()
                .flat_map(|(route, tally)| sents().map(move |sent| (route, sent, tally.of(sent))));
            if !rows.clone().any(|(.., count)| count > 0) {
                continue;
            }
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            rows.by_ref().filter(|(.., count)| *count > 0).try_for_each(
                |(route, sent, count)| {
                    let mut labels = vec![
                        ("result", sent.result()),
                        ("apiversion", route.api_version.as_str()),
                        ("kind", route.kind.as_str()),
                        ("member_cluster", route.cluster.as_str()),
                    ];
                    labels.extend(sent.own_label());
                    ConstGauge::new(count).encode(metric.encode_family(&labels)?)
                },
            )?;
        }
        Ok(())
    }
}

//! What is counted about evictions, named as upstream names it.

use std::time::Duration;

use karmada_runtime::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Named {
    name: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Processed {
    name: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Queued {
    member_cluster: String,
    resource_kind: &'static str,
}

#[derive(Clone)]
pub(super) struct Numbers {
    waiting: Family<Named, Gauge>,
    queued: Family<Queued, Gauge>,
    took: Family<Named, Histogram, fn() -> Histogram>,
    processed: Family<Processed, Counter>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

impl Numbers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let numbers = Self {
            waiting: Family::default(),
            queued: Family::default(),
            took: Family::new_with_constructor(seconds),
            processed: Family::default(),
        };
        let own = numbers.clone();
        metrics.register(|registry| {
            registry.register(
                "eviction_queue_depth",
                "Number of bindings that wait to be evicted",
                own.waiting,
            );
            // Compat: a gauge, whatever its name says.
            registry.register(
                "eviction_kind_total",
                "Number of bindings in the eviction queue by cluster and kind",
                own.queued,
            );
            registry.register(
                "eviction_processing_latency_seconds",
                "Duration in seconds of one look at a binding that may have to go",
                own.took,
            );
            registry.register(
                "eviction_processing",
                "Number of looks at bindings that may have to go, by result",
                own.processed,
            );
        });
        numbers
    }

    pub(super) fn looked(&self, name: &'static str, took: Duration, is_ok: bool) {
        let result = if is_ok { "success" } else { "error" };
        self.took.get_or_create(&Named { name }).observe(took.as_secs_f64());
        self.processed.get_or_create(&Processed { name, result }).inc();
    }

    pub(super) fn waiting(&self, name: &'static str, waiting: usize) {
        let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
        self.waiting.get_or_create(&Named { name }).set(waiting);
    }

    pub(super) fn queued(&self, cluster: &str, resource_kind: &'static str) {
        self.of(cluster, resource_kind).inc();
    }

    pub(super) fn done(&self, cluster: &str, resource_kind: &'static str) {
        self.of(cluster, resource_kind).dec();
    }

    fn of(&self, cluster: &str, resource_kind: &'static str) -> Gauge {
        let labels = Queued { member_cluster: cluster.to_owned(), resource_kind };
        self.queued.get_or_create_owned(&labels)
    }
}

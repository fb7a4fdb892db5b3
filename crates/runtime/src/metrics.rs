//! Numbers about the process, in the text form Prometheus reads. Names are those of client-go and
//! controller-runtime, so that existing dashboards work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// All metrics of a process. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    work: Work,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Named {
    name: String,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reconciled {
    controller: String,
    result: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfController {
    controller: String,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone)]
struct Work {
    depth: Family<Named, Gauge>,
    adds: Family<Named, Counter>,
    retries: Family<Named, Counter>,
    reconciles: Family<Reconciled, Counter>,
    panics: Family<OfController, Counter>,
    durations: Histograms<OfController>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let work = Work {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            reconciles: Family::default(),
            panics: Family::default(),
            durations: Family::new_with_constructor(seconds),
        };
        let metrics = Self { registry: Arc::default(), work: work.clone() };
        metrics.register(|registry| {
            registry.register("workqueue_depth", "Current depth of workqueue", work.depth);
            registry.register("workqueue_adds", "Adds handled by workqueue", work.adds);
            registry.register("workqueue_retries", "Retries handled by workqueue", work.retries);
            registry.register(
                "controller_runtime_reconcile",
                "Reconciliations per controller and result",
                work.reconciles,
            );
            registry.register(
                "controller_runtime_reconcile_panics",
                "Reconcile panics per controller",
                work.panics,
            );
            registry.register(
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
                work.durations,
            );
        });
        metrics
    }
}

impl Metrics {
    /// Adds metrics of one's own.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock());
    }

    /// The numbers of one controller and its queue.
    pub fn work(&self, controller: &str) -> WorkMetrics {
        let named = Named { name: controller.to_owned() };
        let own = OfController { controller: controller.to_owned() };
        WorkMetrics {
            controller: controller.to_owned(),
            depth: self.work.depth.get_or_create_owned(&named),
            adds: self.work.adds.get_or_create_owned(&named),
            retries: self.work.retries.get_or_create_owned(&named),
            panics: self.work.panics.get_or_create_owned(&own),
            reconciles: self.work.reconciles.clone(),
            durations: self.work.durations.clone(),
        }
    }

    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry.lock()).expect("a string takes everything");
        text
    }
}

/// The numbers of one controller and its queue.
#[derive(Clone)]
pub struct WorkMetrics {
    controller: String,
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    panics: Counter,
    reconciles: Family<Reconciled, Counter>,
    durations: Histograms<OfController>,
}

impl WorkMetrics {
    pub(crate) fn added(&self) {
        self.adds.inc();
        self.depth.inc();
    }

    pub(crate) fn taken(&self, depth: usize) {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    pub(crate) fn reconciled(&self, result: &'static str, took: Duration) {
        let controller = self.controller.clone();
        self.durations
            .get_or_create(&OfController { controller: controller.clone() })
            .observe(took.as_secs_f64());
        self.reconciles.get_or_create(&Reconciled { controller, result }).inc();
    }
}

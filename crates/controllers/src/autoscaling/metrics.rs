//! What is counted about scaling, named as upstream names it.

use karmada_runtime::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

/// Durations by how it ended.
type Durations = Family<Outcome, Histogram, fn() -> Histogram>;

fn durations() -> Durations {
    Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 12)))
}

fn observe(durations: &Durations, began: Instant, is_ok: bool) {
    let result = if is_ok { "success" } else { "error" };
    durations.get_or_create(&Outcome { result }).observe(began.elapsed().as_secs_f64());
}

/// About CronFederatedHPAs.
pub(super) struct CronNumbers {
    looks: Durations,
    runs: Durations,
}

impl CronNumbers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let (looks, runs) = (durations(), durations());
        let (own_looks, own_runs) = (looks.clone(), runs.clone());
        metrics.register(|registry| {
            registry.register(
                "cronfederatedhpa_process_duration_seconds",
                "Duration in seconds to process a CronFederatedHPA",
                own_looks,
            );
            registry.register(
                "cronfederatedhpa_rule_process_duration_seconds",
                "Duration in seconds to run a rule of a CronFederatedHPA",
                own_runs,
            );
        });
        Self { looks, runs }
    }

    pub(super) fn looked(&self, began: Instant, is_ok: bool) {
        observe(&self.looks, began, is_ok);
    }

    pub(super) fn ran(&self, began: Instant, is_ok: bool) {
        observe(&self.runs, began, is_ok);
    }
}

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

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
#[expect(non_snake_case, reason = "labels are spelled as upstream spells them")]
struct Pull {
    result: &'static str,
    metricType: &'static str,
}

fn milliseconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 12))
}

fn hundredths() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 12))
}

fn result(is_ok: bool) -> &'static str {
    if is_ok { "success" } else { "error" }
}

fn observe(durations: &Durations, began: Instant, is_ok: bool) {
    let outcome = Outcome { result: result(is_ok) };
    durations.get_or_create(&outcome).observe(began.elapsed().as_secs_f64());
}

/// About CronFederatedHPAs.
pub(super) struct CronNumbers {
    looks: Durations,
    runs: Durations,
}

impl CronNumbers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let looks = Durations::new_with_constructor(milliseconds);
        let runs = Durations::new_with_constructor(milliseconds);
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

/// About FederatedHPAs.
pub(super) struct HpaNumbers {
    looks: Durations,
    pulls: Family<Pull, Histogram, fn() -> Histogram>,
}

impl HpaNumbers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let looks = Durations::new_with_constructor(hundredths);
        let pulls = Family::<Pull, _, _>::new_with_constructor(hundredths as fn() -> Histogram);
        let (own_looks, own_pulls) = (looks.clone(), pulls.clone());
        metrics.register(|registry| {
            registry.register(
                "federatedhpa_process_duration_seconds",
                "Duration in seconds to process a FederatedHPA",
                own_looks,
            );
            registry.register(
                "federatedhpa_pull_metrics_duration_seconds",
                "Duration in seconds to read the metrics of a FederatedHPA",
                own_pulls,
            );
        });
        Self { looks, pulls }
    }

    pub(super) fn looked(&self, began: Instant, is_ok: bool) {
        observe(&self.looks, began, is_ok);
    }

    pub(super) fn pulled(&self, kind: &'static str, began: Instant, is_ok: bool) {
        let pull = Pull { result: result(is_ok), metricType: kind };
        self.pulls.get_or_create(&pull).observe(began.elapsed().as_secs_f64());
    }
}

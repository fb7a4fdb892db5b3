//! What is counted about scaling, named as upstream names it.

use std::time::Duration;

use karmada_runtime::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
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

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reconciled {
    action: &'static str,
    error: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Computed {
    action: &'static str,
    error: &'static str,
    metric_type: String,
}

/// Where the number of replicas goes, as the labels of Kubernetes' autoscaler have it.
pub(super) fn action(current: i32, wanted: Option<i32>) -> &'static str {
    match wanted.map(|wanted| wanted.cmp(&current)) {
        Some(std::cmp::Ordering::Less) => "scale_down",
        Some(std::cmp::Ordering::Greater) => "scale_up",
        _ => "none",
    }
}

fn error(is_ok: bool) -> &'static str {
    if is_ok { "none" } else { "internal" }
}

fn milliseconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 12))
}

/// The bounds of Kubernetes' autoscaler.
fn up_to_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
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
    passes: Family<Reconciled, Counter>,
    pass_durations: Family<Reconciled, Histogram, fn() -> Histogram>,
    computations: Family<Computed, Counter>,
    computation_durations: Family<Computed, Histogram, fn() -> Histogram>,
}

impl HpaNumbers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let own = Self {
            looks: Family::new_with_constructor(hundredths),
            pulls: Family::new_with_constructor(hundredths),
            passes: Family::default(),
            pass_durations: Family::new_with_constructor(up_to_seconds),
            computations: Family::default(),
            computation_durations: Family::new_with_constructor(up_to_seconds),
        };
        metrics.register(|registry| {
            let help = "Duration in seconds to process a FederatedHPA";
            registry.register("federatedhpa_process_duration_seconds", help, own.looks.clone());
            let help = "Duration in seconds to read the metrics of a FederatedHPA";
            let name = "federatedhpa_pull_metrics_duration_seconds";
            registry.register(name, help, own.pulls.clone());
            let registry =
                registry.sub_registry_with_prefix("horizontal_pod_autoscaler_controller");
            let help = "Number of reconciliations of the controller";
            registry.register("reconciliations", help, own.passes.clone());
            let help = "Duration in seconds of a reconciliation";
            registry.register("reconciliation_duration_seconds", help, own.pass_durations.clone());
            let help = "Number of computations of a metric";
            registry.register("metric_computation", help, own.computations.clone());
            let help = "Duration in seconds of the computation of a metric";
            let durations = own.computation_durations.clone();
            registry.register("metric_computation_duration_seconds", help, durations);
        });
        own
    }

    pub(super) fn reconciled(&self, action: &'static str, began: Instant, is_ok: bool) {
        let labels = Reconciled { action, error: error(is_ok) };
        self.passes.get_or_create(&labels).inc();
        self.pass_durations.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
    }

    pub(super) fn computed(
        &self,
        metric_type: &str,
        action: &'static str,
        took: Duration,
        is_ok: bool,
    ) {
        let metric_type = metric_type.to_owned();
        let labels = Computed { action, error: error(is_ok), metric_type };
        self.computations.get_or_create(&labels).inc();
        self.computation_durations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn looked(&self, began: Instant, is_ok: bool) {
        observe(&self.looks, began, is_ok);
    }

    pub(super) fn pulled(&self, kind: &'static str, began: Instant, is_ok: bool) {
        let pull = Pull { result: result(is_ok), metricType: kind };
        self.pulls.get_or_create(&pull).observe(began.elapsed().as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_kubernetes_counts_of_its_autoscaler_is_counted_by_its_names() {
        let metrics = Metrics::default();
        let numbers = HpaNumbers::new(&metrics);
        numbers.reconciled(action(2, Some(3)), Instant::now(), true);
        numbers.computed("Resource", action(3, Some(2)), Duration::from_millis(3), true);
        numbers.computed("Pods", action(3, None), Duration::from_millis(3), false);
        let text = metrics.encode();
        for line in [
            "reconciliations_total{action=\"scale_up\",error=\"none\"} 1",
            "reconciliation_duration_seconds_count{action=\"scale_up\",error=\"none\"} 1",
            "metric_computation_total{action=\"scale_down\",error=\"none\",metric_type=\"Resource\"} 1",
            "metric_computation_total{action=\"none\",error=\"internal\",metric_type=\"Pods\"} 1",
            "metric_computation_duration_seconds_count{action=\"none\",error=\"internal\",metric_type=\"Pods\"} 1",
        ] {
            let line = format!("horizontal_pod_autoscaler_controller_{line}");
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}

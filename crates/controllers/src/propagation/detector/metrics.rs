//! What the detector counts, named as upstream names it.

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

#[derive(Clone)]
pub(super) struct Numbers {
    matching: Histogram,
    applying: Family<Outcome, Histogram, fn() -> Histogram>,
    attempts: Family<Outcome, Counter>,
    preemptions: Family<Outcome, Counter>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 12))
}

fn outcome(succeeded: bool) -> Outcome {
    Outcome { result: if succeeded { "success" } else { "error" } }
}

impl Numbers {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let numbers = Self {
            matching: seconds(),
            applying: Family::new_with_constructor(seconds),
            attempts: Family::default(),
            preemptions: Family::default(),
        };
        let own = numbers.clone();
        metrics.register(|registry| {
            registry.register(
                "resource_match_policy_duration_seconds",
                "Duration in seconds to find a matched propagation policy for the resource template",
                own.matching,
            );
            registry.register(
                "resource_apply_policy_duration_seconds",
                "Duration in seconds to apply a propagation policy for the resource template",
                own.applying,
            );
            registry.register(
                "policy_apply_attempts",
                "Number of attempts to be applied for a propagation policy",
                own.attempts,
            );
            registry.register(
                "policy_preemption",
                "Number of preemption for the resource template",
                own.preemptions,
            );
        });
        numbers
    }

    pub(super) fn matched(&self, since: Instant) {
        self.matching.observe(since.elapsed().as_secs_f64());
    }

    pub(super) fn applied(&self, since: Instant, succeeded: bool) {
        let outcome = outcome(succeeded);
        self.applying.get_or_create(&outcome).observe(since.elapsed().as_secs_f64());
        self.attempts.get_or_create(&outcome).inc();
    }

    pub(super) fn preempted(&self, succeeded: bool) {
        self.preemptions.get_or_create(&outcome(succeeded)).inc();
    }
}

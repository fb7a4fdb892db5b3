//! The numbers of the scheduler, by the names the original has for them.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use karmada_runtime::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Attempt {
    result: &'static str,
    schedule_type: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Step {
    schedule_step: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Incoming {
    event: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Pending {
    queue: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Counters and histograms. Clones share them.
#[derive(Clone)]
pub(crate) struct SchedulerMetrics {
    attempts: Family<Attempt, Counter<u64, AtomicU64>>,
    durations: Histograms<Attempt>,
    steps: Histograms<Step>,
    incoming: Family<Incoming, Counter<u64, AtomicU64>>,
    pending: Family<Pending, Gauge>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

impl SchedulerMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let own = Self {
            attempts: Family::default(),
            durations: Family::new_with_constructor(seconds),
            steps: Family::new_with_constructor(seconds),
            incoming: Family::default(),
            pending: Family::default(),
        };
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix("karmada_scheduler");
            registry.register(
                "schedule_attempts",
                "Number of attempts to schedule a binding",
                own.attempts.clone(),
            );
            registry.register(
                "e2e_scheduling_duration_seconds",
                "Seconds from taking a binding to having written the result",
                own.durations.clone(),
            );
            registry.register(
                "scheduling_algorithm_duration_seconds",
                "Seconds a decision takes",
                own.steps.clone(),
            );
            registry.register(
                "queue_incoming_bindings",
                "Number of bindings added to the queue by what happened",
                own.incoming.clone(),
            );
            registry.register(
                "pending_bindings",
                "Number of bindings that wait, by queue",
                own.pending.clone(),
            );
        });
        own
    }

    pub(crate) fn incoming(&self, event: &'static str) {
        self.incoming.get_or_create(&Incoming { event }).inc();
    }

    pub(crate) fn pending(&self, active: usize, backoff: usize, unschedulable: usize) {
        let rows = [("active", active), ("backoff", backoff), ("unschedulable", unschedulable)];
        for (queue, count) in rows {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.pending.get_or_create(&Pending { queue }).set(count);
        }
    }

    pub(crate) fn attempted(&self, schedule_type: &'static str, succeeded: bool, took: Duration) {
        let result = if succeeded { "scheduled" } else { "error" };
        let attempt = Attempt { result, schedule_type };
        self.attempts.get_or_create(&attempt).inc();
        self.durations.get_or_create(&attempt).observe(took.as_secs_f64());
    }

    pub(crate) fn step(&self, schedule_step: &'static str, took: Duration) {
        self.steps.get_or_create(&Step { schedule_step }).observe(took.as_secs_f64());
    }
}

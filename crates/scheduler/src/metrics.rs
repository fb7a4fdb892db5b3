//! The numbers of the scheduler, by the names the original has for them.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karmada_runtime::Metrics;
use karmada_scheduler_core::observer::{Observer, Point, Step};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

/// One decision of so many is looked at rule by rule: that takes a while for many clusters.
const SAMPLED: u64 = 16;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Attempt {
    result: &'static str,
    schedule_type: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfStep {
    schedule_step: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AtPoint {
    extension_point: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    plugin: &'static str,
    extension_point: &'static str,
    result: &'static str,
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
    steps: Histograms<OfStep>,
    points: Histograms<AtPoint>,
    plugins: Histograms<Asked>,
    /// How many decisions were made.
    decisions: Arc<AtomicU64>,
    incoming: Family<Incoming, Counter<u64, AtomicU64>>,
    pending: Family<Pending, Gauge>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 15))
}

fn seconds_at_point() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 12))
}

fn seconds_of_plugin() -> Histogram {
    Histogram::new(exponential_buckets(0.00001, 1.5, 20))
}

impl SchedulerMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let own = Self {
            attempts: Family::default(),
            durations: Family::new_with_constructor(seconds),
            steps: Family::new_with_constructor(seconds),
            points: Family::new_with_constructor(seconds_at_point),
            plugins: Family::new_with_constructor(seconds_of_plugin),
            decisions: Arc::default(),
            incoming: Family::default(),
            pending: Family::default(),
        };
        metrics.register(|registry| {
            // Compat: the original's name has no prefix; ours had one.
            let help = "Number of bindings that wait, by queue";
            registry.register("scheduler_pending_bindings", help, own.pending.clone());
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
                "Seconds a step of a decision takes",
                own.steps.clone(),
            );
            registry.register(
                "framework_extension_point_duration_seconds",
                "Seconds a decision takes to ask all plugins of an extension point about all clusters",
                own.points.clone(),
            );
            registry.register(
                "plugin_execution_duration_seconds",
                "Seconds a decision takes to ask one plugin about all clusters; some decisions are measured",
                own.plugins.clone(),
            );
            registry.register(
                "queue_incoming_bindings",
                "Number of bindings added to the queue by what happened",
                own.incoming.clone(),
            );
            registry.register("pending_bindings", help, own.pending.clone());
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

    /// Takes the times of one decision.
    pub(crate) fn stopwatch(&self) -> Stopwatch<'_> {
        let now = Instant::now();
        Stopwatch {
            metrics: self,
            sees_rules: self.decisions.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLED),
            step_began: Cell::new(now),
            last: Cell::new(now),
            plugins: RefCell::default(),
        }
    }

    fn at_point(&self, point: Point, passed: bool, took: Duration) {
        let labels = AtPoint { extension_point: name_of(point), result: result(passed) };
        self.points.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// The codes of the original.
fn result(passed: bool) -> &'static str {
    if passed { "Success" } else { "Unschedulable" }
}

fn name_of(point: Point) -> &'static str {
    match point {
        Point::Filter => "Filter",
        Point::Score => "Score",
    }
}

/// The times of one decision.
pub(crate) struct Stopwatch<'a> {
    metrics: &'a SchedulerMetrics,
    sees_rules: bool,
    step_began: Cell<Instant>,
    last: Cell<Instant>,
    /// What plugins took together for all clusters of a step.
    plugins: RefCell<Vec<(Asked, Duration)>>,
}

impl Stopwatch<'_> {
    fn show_plugins(&self) {
        for (asked, took) in self.plugins.borrow_mut().drain(..) {
            self.metrics.plugins.get_or_create(&asked).observe(took.as_secs_f64());
        }
    }
}

impl Observer for Stopwatch<'_> {
    fn began(&self) {
        let now = Instant::now();
        self.step_began.set(now);
        self.last.set(now);
    }

    fn ended(&self, step: Step) {
        let now = Instant::now();
        let took = now.duration_since(self.step_began.replace(now));
        self.last.set(now);
        let schedule_step = match step {
            Step::Filter { passed } => {
                self.metrics.at_point(Point::Filter, passed, took);
                "Filter"
            }
            Step::Score => {
                self.metrics.at_point(Point::Score, true, took);
                "Score"
            }
            Step::Select => "Select",
            Step::AssignReplicas => "AssignReplicas",
        };
        let steps = &self.metrics.steps;
        steps.get_or_create(&OfStep { schedule_step }).observe(took.as_secs_f64());
        self.show_plugins();
    }

    fn sees_rules(&self) -> bool {
        self.sees_rules
    }

    fn asked(&self, plugin: &'static str, at: Point, passed: bool) {
        let now = Instant::now();
        let took = now.duration_since(self.last.replace(now));
        let asked = Asked { plugin, extension_point: name_of(at), result: result(passed) };
        let mut all = self.plugins.borrow_mut();
        match all.iter_mut().find(|(known, _)| *known == asked) {
            Some((_, sum)) => *sum += took,
            None => all.push((asked, took)),
        }
    }
}

//! Numbers about the process, in the text form Prometheus reads. Names are those of client-go and
//! controller-runtime, so that existing dashboards work.

mod process;
mod queues;

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

use process::Process;
use queues::Queues;
pub(crate) use queues::{Busy, Load};

/// All metrics of a process. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    work: Families,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Named {
    name: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reconciled {
    controller: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OfController {
    controller: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone)]
struct Families {
    queues: Queues,
    adds: Family<Named, Counter>,
    retries: Family<Named, Counter>,
    waited: Histograms<Named>,
    worked: Histograms<Named>,
    reconciles: Family<Reconciled, Counter>,
    errors: Family<OfController, Counter>,
    panics: Family<OfController, Counter>,
    durations: Histograms<OfController>,
    workers: Family<OfController, Gauge>,
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

/// The bounds of client-go's queues.
fn nanoseconds() -> Histogram {
    Histogram::new(exponential_buckets(10e-9, 10.0, 12))
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Families {
    fn default() -> Self {
        Self {
            queues: Queues::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(nanoseconds),
            worked: Family::new_with_constructor(nanoseconds),
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            durations: Family::new_with_constructor(seconds),
            workers: Family::default(),
        }
    }
}

impl Families {
    fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(Process));
        registry.register_collector(Box::new(self.queues));
        registry.register("workqueue_adds", "Adds handled by workqueue", self.adds);
        registry.register("workqueue_retries", "Retries handled by workqueue", self.retries);
        let help = "Seconds an item stays in workqueue before being requested";
        registry.register("workqueue_queue_duration_seconds", help, self.waited);
        let help = "Seconds processing an item from workqueue takes";
        registry.register("workqueue_work_duration_seconds", help, self.worked);
        let help = "Reconciliations per controller and result";
        registry.register("controller_runtime_reconcile", help, self.reconciles);
        let help = "Reconcile errors per controller";
        registry.register("controller_runtime_reconcile_errors", help, self.errors);
        let help = "Reconcile panics per controller";
        registry.register("controller_runtime_reconcile_panics", help, self.panics);
        let help = "Length of time per reconciliation per controller";
        registry.register("controller_runtime_reconcile_time_seconds", help, self.durations);
        let help = "Maximum number of concurrent reconciles per controller";
        registry.register("controller_runtime_max_concurrent_reconciles", help, self.workers);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let work = Families::default();
        let metrics = Self { registry: Arc::default(), work: work.clone() };
        metrics.register(|registry| work.register(registry));
        metrics
    }
}

impl Metrics {
    /// Adds metrics of one's own.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock());
    }

    /// The numbers of one controller and its queue.
    pub fn work(&self, controller: &'static str) -> WorkMetrics {
        let (named, own) = (Named { name: controller }, OfController { controller });
        let of =
            |result| self.work.reconciles.get_or_create_owned(&Reconciled { controller, result });
        WorkMetrics {
            controller,
            queues: self.work.queues.clone(),
            adds: self.work.adds.get_or_create_owned(&named),
            retries: self.work.retries.get_or_create_owned(&named),
            waited: self.work.waited.get_or_create_owned(&named),
            worked: self.work.worked.get_or_create_owned(&named),
            succeeded: of("success"),
            requeued: of("requeue_after"),
            failed: of("error"),
            errors: self.work.errors.get_or_create_owned(&own),
            panics: self.work.panics.get_or_create_owned(&own),
            durations: self.work.durations.get_or_create_owned(&own),
            workers: self.work.workers.get_or_create_owned(&own),
        }
    }

    pub fn encode(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry.lock()).expect("a string takes everything");
        text
    }
}

/// How a call of a reconcile function ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Success,
    RequeueAfter,
    Error,
}

impl Ending {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

/// The numbers of one controller and its queue.
#[derive(Clone)]
pub struct WorkMetrics {
    controller: &'static str,
    queues: Queues,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    succeeded: Counter,
    requeued: Counter,
    failed: Counter,
    errors: Counter,
    panics: Counter,
    durations: Histogram,
    workers: Gauge,
}

impl WorkMetrics {
    /// Shows what waits in a queue and is worked on, as long as there is that queue.
    pub(crate) fn follow(&self, queue: &Arc<dyn Busy>) {
        self.queues.follow(self.controller, queue);
    }

    pub(crate) fn added(&self) {
        self.adds.inc();
    }

    pub(crate) fn taken(&self, waited: Duration) {
        self.waited.observe(waited.as_secs_f64());
    }

    pub(crate) fn done(&self, worked: Duration) {
        self.worked.observe(worked.as_secs_f64());
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    pub(crate) fn started(&self, workers: usize) {
        self.workers.inc_by(i64::try_from(workers).unwrap_or_default());
    }

    pub(crate) fn ended(&self, workers: usize) {
        self.workers.dec_by(i64::try_from(workers).unwrap_or_default());
    }

    pub(crate) fn reconciled(&self, ending: Ending, took: Duration) {
        self.durations.observe(took.as_secs_f64());
        match ending {
            Ending::Success => self.succeeded.inc(),
            Ending::RequeueAfter => self.requeued.inc(),
            Ending::Error => {
                self.errors.inc();
                self.failed.inc()
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Controller, RateLimit, Shutdown};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug, thiserror::Error)]
    #[error("no luck")]
    struct NoLuck;

    fn assert_shown(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn queues_of_one_name_are_shown_as_their_sum() {
        let metrics = Metrics::default();
        let of = |keys: &[&'static str]| {
            let controller = Controller::with_limit("lanes", &metrics, RateLimit::default());
            keys.iter().for_each(|key| controller.queue().add(*key));
            controller
        };
        let (one, two) = (of(&["a", "b", "c"]), of(&["d"]));
        let work = one.queue().next().await.unwrap();
        tokio::time::advance(Duration::from_secs(2)).await;
        let other = two.queue().next().await.unwrap();
        tokio::time::advance(Duration::from_secs(3)).await;
        let shown = metrics.encode();
        assert_shown(
            &shown,
            &[
                "# TYPE workqueue_depth gauge",
                "workqueue_depth{name=\"lanes\"} 2",
                "workqueue_unfinished_work_seconds{name=\"lanes\"} 8.0",
                "workqueue_longest_running_processor_seconds{name=\"lanes\"} 5.0",
                "controller_runtime_active_workers{controller=\"lanes\"} 2",
                "workqueue_adds_total{name=\"lanes\"} 4",
                "workqueue_queue_duration_seconds_sum{name=\"lanes\"} 2.0",
                "workqueue_queue_duration_seconds_count{name=\"lanes\"} 2",
            ],
        );
        drop((work, other));
        drop(one);
        let left = [
            "workqueue_depth{name=\"lanes\"} 0",
            "workqueue_work_duration_seconds_sum{name=\"lanes\"} 8.0",
        ];
        assert_shown(&metrics.encode(), &left);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_back_is_added_once_more() {
        let (metrics, shutdown) = (Metrics::default(), Shutdown::new());
        let controller = Controller::new("test", &metrics).workers(3);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        controller.queue().add("a");
        controller.start(&shutdown, move |_: &str| {
            let call = counted.fetch_add(1, Ordering::Relaxed);
            async move {
                match call {
                    0 => Err(NoLuck),
                    1 => Ok(Action::Requeue(Duration::from_secs(1))),
                    _ => Ok(Action::AwaitChange),
                }
            }
        });
        while calls.load(Ordering::Relaxed) < 3 || !controller.queue().is_idle() {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
        assert_shown(
            &metrics.encode(),
            &[
                "workqueue_adds_total{name=\"test\"} 3",
                "workqueue_retries_total{name=\"test\"} 1",
                "controller_runtime_reconcile_total{controller=\"test\",result=\"success\"} 1",
                "controller_runtime_reconcile_total{controller=\"test\",result=\"requeue_after\"} 1",
                "controller_runtime_reconcile_total{controller=\"test\",result=\"error\"} 1",
                "controller_runtime_reconcile_errors_total{controller=\"test\"} 1",
                "controller_runtime_max_concurrent_reconciles{controller=\"test\"} 3",
                "controller_runtime_reconcile_time_seconds_count{controller=\"test\"} 3",
            ],
        );
        shutdown.finish(Duration::from_secs(1)).await;
        let ended = "controller_runtime_max_concurrent_reconciles{controller=\"test\"} 0";
        assert_shown(&metrics.encode(), &[ended]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_is_shown() {
        let text = Metrics::default().encode();
        let value = |name: &str| {
            let rows = text.lines().filter_map(|line| line.split_once(' '));
            let mut values = rows.filter(|(row, _)| *row == name).map(|(_, value)| value);
            values.next().and_then(|value| value.parse::<f64>().ok())
        };
        assert!(value("process_cpu_seconds_total").is_some());
        for name in [
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_start_time_seconds",
            "process_open_fds",
            "process_max_fds",
        ] {
            assert!(value(name).is_some_and(|value| value > 0.0), "{name} in\n{text}");
        }
    }
}

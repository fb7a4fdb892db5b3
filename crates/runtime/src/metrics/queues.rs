//! What is read off the queues when somebody asks, instead of being counted all the time. Several
//! queues may have one name; their numbers are those of all of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// A queue that tells how busy it is.
pub(crate) trait Busy: Send + Sync {
    fn load(&self, now: Instant) -> Load;
}

/// What is in a queue at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    waiting: usize,
    running: usize,
    unfinished: Duration,
    longest: Duration,
}

impl Load {
    pub(crate) fn of_waiting(waiting: usize) -> Self {
        Self { waiting, ..Self::default() }
    }

    pub(crate) fn add_running(&mut self, since: Duration) {
        self.running += 1;
        self.unfinished += since;
        self.longest = self.longest.max(since);
    }

    fn add(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.running += other.running;
        self.unfinished += other.unfinished;
        self.longest = self.longest.max(other.longest);
    }
}

type ByName = BTreeMap<&'static str, Vec<Weak<dyn Busy>>>;

#[derive(Clone, Default)]
pub(super) struct Queues(Arc<Mutex<ByName>>);

impl Queues {
    pub(super) fn follow(&self, name: &'static str, queue: &Arc<dyn Busy>) {
        let mut all = self.0.lock();
        let same = all.entry(name).or_default();
        same.retain(|known| known.strong_count() > 0);
        same.push(Arc::downgrade(queue));
    }

    fn loads(&self) -> Vec<(&'static str, Load)> {
        let now = Instant::now();
        let sum = |queues: &Vec<Weak<dyn Busy>>| {
            let mut sum = Load::default();
            queues.iter().filter_map(Weak::upgrade).for_each(|queue| sum.add(queue.load(now)));
            sum
        };
        self.0.lock().iter().map(|(name, queues)| (*name, sum(queues))).collect()
    }
}

impl fmt::Debug for Queues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queues")
    }
}

impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (all, to) = (self.loads(), &mut encoder);
        let help = "Current depth of workqueue";
        show(to, "workqueue_depth", help, "name", &all, |load| load.waiting)?;
        let help = "Seconds of work that is in progress and not yet observed by work_duration";
        let unfinished = |load: &Load| load.unfinished.as_secs_f64();
        show(to, "workqueue_unfinished_work_seconds", help, "name", &all, unfinished)?;
        let help = "Seconds the longest running processor of workqueue has been running";
        let longest = |load: &Load| load.longest.as_secs_f64();
        show(to, "workqueue_longest_running_processor_seconds", help, "name", &all, longest)?;
        let help = "Number of currently used workers per controller";
        let running = |load: &Load| load.running;
        show(to, "controller_runtime_active_workers", help, "controller", &all, running)
    }
}

fn show<N: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &str,
    help: &str,
    label: &str,
    loads: &[(&'static str, Load)],
    value: impl Fn(&Load) -> N,
) -> fmt::Result {
    if loads.is_empty() {
        return Ok(());
    }
    let mut rows = encoder.encode_descriptor(metric, help, None, MetricType::Gauge)?;
    loads.iter().try_for_each(|(name, load)| {
        ConstGauge::new(value(load)).encode(rows.encode_family(&[(label, *name)])?)
    })
}

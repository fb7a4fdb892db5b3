//! The loop around a reconcile function: takes keys from a queue, runs the function in a span of
//! its own, and decides when the key comes back. A panic costs one attempt, not the process.

use std::any::Any;
use std::error::Error;
use std::fmt::{Display, Write};
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use tokio::time::Instant;
use tracing::{Instrument, debug, error, info_span, warn};

use crate::metrics::{Ending, WorkMetrics};
use crate::queue::{Queue, Work};
use crate::{Metrics, RateLimit, Shutdown};

/// What a reconcile function wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing until something changes.
    AwaitChange,
    /// Another look after this time, whatever happens.
    Requeue(Duration),
}

/// A controller: a name, a queue and a number of workers.
#[derive(Clone)]
pub struct Controller<K> {
    name: &'static str,
    queue: Queue<K>,
    metrics: WorkMetrics,
    workers: usize,
}

impl<K: Clone + Eq + Hash + Display + Send + Sync + 'static> Controller<K> {
    pub fn new(name: &'static str, metrics: &Metrics) -> Self {
        Self::with_limit(name, metrics, RateLimit::default())
    }

    pub fn with_limit(name: &'static str, metrics: &Metrics, limit: RateLimit) -> Self {
        let metrics = metrics.work(name);
        let queue = Queue::with_metrics(limit, metrics.clone());
        Self { name, queue, metrics, workers: 1 }
    }

    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    pub fn queue(&self) -> &Queue<K> {
        &self.queue
    }

    /// Starts the workers. They finish what they are at when the shutdown begins.
    pub fn start<F, R, E>(&self, shutdown: &Shutdown, reconcile: F)
    where
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Error + Send + 'static,
    {
        self.start_boxed(shutdown, &boxed(reconcile));
    }

    pub(crate) fn start_boxed(&self, shutdown: &Shutdown, reconcile: &Reconcile<K>) {
        self.metrics.started(self.workers);
        for _ in 0..self.workers {
            let (own, reconcile) = (self.clone(), reconcile.clone());
            shutdown.spawn(async move {
                while let Some(work) = own.queue.next().await {
                    own.run(work, &reconcile).await;
                }
            });
        }
        let (ended, own) = (self.clone(), shutdown.clone());
        shutdown.spawn(async move {
            own.triggered().await;
            ended.queue.close();
            ended.metrics.ended(ended.workers);
        });
    }

    async fn run(&self, work: Work<K>, reconcile: &Reconcile<K>) {
        let key = work.key().clone();
        let span = info_span!("reconcile", controller = self.name, name = %key);
        let started = Instant::now();
        // The function itself may panic before it returns a future.
        let attempt = AssertUnwindSafe(async { reconcile(key.clone()).await }).catch_unwind();
        let outcome = attempt.instrument(span.clone()).await;
        let took = started.elapsed();
        let _entered = span.enter();
        let ending = match outcome {
            Ok(Ok(Action::AwaitChange)) => {
                self.queue.forget(&key);
                Ending::Success
            }
            Ok(Ok(Action::Requeue(delay))) => {
                self.queue.forget(&key);
                self.queue.add_after(key, delay);
                Ending::RequeueAfter
            }
            Ok(Err(error)) => {
                let again_ms = self.queue.retry(key).as_millis();
                warn!(error = chain(&*error), again_ms, "reconcile failed");
                Ending::Error
            }
            Err(panic) => {
                self.metrics.panicked();
                let again_ms = self.queue.retry(key).as_millis();
                error!(error = panic_text(&*panic), again_ms, "reconcile panicked");
                Ending::Error
            }
        };
        debug!(result = ending.as_str(), elapsed_ms = took.as_millis(), "reconciled");
        self.metrics.reconciled(ending, took);
    }
}

/// A reconcile function of any type: the loop around it is compiled once, not once for each.
pub(crate) type Reconcile<K> = Arc<dyn Fn(K) -> BoxFuture<'static, Outcome> + Send + Sync>;
type Outcome = Result<Action, Box<dyn Error + Send>>;

pub(crate) fn boxed<K, F, R, E>(reconcile: F) -> Reconcile<K>
where
    F: Fn(K) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action, E>> + Send + 'static,
    E: Error + Send + 'static,
{
    Arc::new(move |key| reconcile(key).map_err(|error| Box::new(error) as _).boxed())
}

/// The error and what caused it, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        write!(text, ": {cause}").expect("a string takes everything");
        source = cause.source();
    }
    text
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Debug, thiserror::Error)]
    #[error("no luck")]
    struct NoLuck;

    /// Runs until the function was called `calls` times; returns when that was, in milliseconds.
    async fn call_times(
        calls: usize,
        answer: impl Fn(usize) -> Result<Action, NoLuck> + Send + Sync + 'static,
    ) -> Vec<u128> {
        let (shutdown, metrics) = (Shutdown::new(), Metrics::default());
        let controller = Controller::new("test", &metrics);
        let (times, answer, start) =
            (Arc::new(Mutex::new(Vec::new())), Arc::new(answer), Instant::now());
        let seen = times.clone();
        controller.queue().add("a");
        controller.start(&shutdown, move |_: &str| {
            let (seen, answer) = (seen.clone(), answer.clone());
            async move {
                seen.lock().push(start.elapsed().as_millis());
                let call = seen.lock().len();
                answer(call)
            }
        });
        while times.lock().len() < calls {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        shutdown.finish(Duration::from_secs(1)).await;
        times.lock().clone()
    }

    #[tokio::test(start_paused = true)]
    async fn failures_come_back_later_and_later_and_requeues_when_asked() {
        let answer = |call| match call {
            1 | 2 => Err(NoLuck),
            3 => Ok(Action::Requeue(Duration::from_secs(1))),
            4 => Err(NoLuck),
            _ => Ok(Action::AwaitChange),
        };
        assert_eq!(call_times(5, answer).await, [0, 5, 15, 1015, 1020]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_costs_one_attempt() {
        let answer = |call| if call == 1 { panic!("oh") } else { Ok(Action::AwaitChange) };
        assert_eq!(call_times(2, answer).await.len(), 2);
    }

    #[tokio::test]
    async fn errors_are_told_with_their_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("list works")]
        struct Outer(#[source] NoLuck);
        assert_eq!(chain(&Outer(NoLuck)), "list works: no luck");
    }
}

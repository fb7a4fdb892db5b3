//! A queue of keys to work on. A key is in it once however often it is added, is never worked on
//! twice at the same time, and comes back later and later the more often its work fails.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::exponential;
use crate::key::Hashed;
use crate::metrics::{Busy, Load, WorkMetrics};

/// What is worked on first. Keys of the same priority keep the order they were added in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    /// Work nobody waits for, such as looking at everything again after a restart.
    Low,
    #[default]
    Normal,
    High,
}

/// How many keys a queue keeps room for while it is empty.
const ROOM: usize = 64;

/// How fast failed work comes back.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimit {
    /// Delay after the first failure of a key; it doubles with every further one.
    pub base: Duration,
    pub max: Duration,
    /// Retries of all keys together: so many per second, after a burst.
    pub per_second: f64,
    pub burst: f64,
}

impl Default for RateLimit {
    /// The numbers of client-go's default limiter.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
            per_second: 10.0,
            burst: 100.0,
        }
    }
}

/// A queue shared by all its clones.
pub struct Queue<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    limit: RateLimit,
    metrics: Option<WorkMetrics>,
}

impl<K: Send + Sync> Busy for Inner<K> {
    fn load(&self, now: Instant) -> Load {
        let state = self.state.lock();
        let mut load = Load::of_waiting(state.dirty.len());
        state.active.values().for_each(|since| load.add_running(now.duration_since(*since)));
        load
    }
}

struct State<K> {
    /// Keys to be worked on, with the priority they have now, and since when they wait.
    dirty: HashMap<K, (Priority, Instant), Hashed>,
    /// Keys being worked on, and since when; those that are dirty as well come back when they are done.
    active: HashMap<K, Instant, Hashed>,
    ready: BinaryHeap<(Priority, Reverse<u64>, Entry<K>)>,
    /// When a key is to be added, and with which priority.
    delayed: HashMap<K, (Instant, Priority), Hashed>,
    timers: BinaryHeap<(Reverse<Instant>, Reverse<u64>, Entry<K>)>,
    failures: HashMap<K, u32, Hashed>,
    bucket: Bucket,
    sequence: u64,
    closed: bool,
    metrics: Option<WorkMetrics>,
}

/// A key inside a heap, which is ordered by what stands before it.
struct Entry<K>(K);

impl<K> PartialEq for Entry<K> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<K> Eq for Entry<K> {}
impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Entry<K> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// Retries that are left before they have to wait.
struct Bucket {
    tokens: f64,
    filled: Option<Instant>,
}

impl Bucket {
    fn reserve(&mut self, now: Instant, limit: &RateLimit) -> Duration {
        let gone = self.filled.map_or(Duration::MAX, |filled| now.duration_since(filled));
        self.tokens = (self.tokens + gone.as_secs_f64() * limit.per_second).min(limit.burst) - 1.0;
        self.filled = Some(now);
        if self.tokens >= 0.0 || limit.per_second <= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64(-self.tokens / limit.per_second)
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn add(&mut self, key: K, priority: Priority) {
        if self.closed {
            return;
        }
        let known = self.dirty.get(&key).copied();
        if known.is_some_and(|(known, _)| known >= priority) {
            return;
        }
        if let (None, Some(metrics)) = (known, &self.metrics) {
            metrics.added();
        }
        let since = known.map_or_else(Instant::now, |(_, since)| since);
        self.dirty.insert(key.clone(), (priority, since));
        if !self.active.contains_key(&key) {
            self.line_up(key, priority);
        }
    }

    fn line_up(&mut self, key: K, priority: Priority) {
        // A key that rises leaves its old entry behind; `pop` skips it.
        self.sequence += 1;
        self.ready.push((priority, Reverse(self.sequence), Entry(key)));
    }

    fn add_at(&mut self, key: K, priority: Priority, at: Instant) {
        let planned = self.delayed.get(&key).copied();
        if planned.is_some_and(|(time, known)| time <= at && known >= priority) {
            return;
        }
        // The earlier time and the higher priority win.
        let (time, priority) =
            planned.map_or((at, priority), |(time, other)| (time.min(at), priority.max(other)));
        self.delayed.insert(key.clone(), (time, priority));
        self.sequence += 1;
        self.timers.push((Reverse(time), Reverse(self.sequence), Entry(key)));
    }

    /// Adds what is due by now; returns when the next key will be.
    fn release(&mut self, now: Instant) -> Option<Instant> {
        while let Some((Reverse(at), _, Entry(key))) = self.timers.peek() {
            let key = key.clone();
            let planned = self.delayed.get(&key).copied();
            let current = planned.is_some_and(|(time, _)| time == *at);
            if current && *at > now {
                return Some(*at);
            }
            self.timers.pop();
            if let (true, Some((_, priority))) = (current, planned) {
                self.delayed.remove(&key);
                self.add(key, priority);
            }
        }
        None
    }

    /// The next key, and how long it waited.
    fn pop(&mut self, now: Instant) -> Option<(K, Duration)> {
        while let Some((priority, _, Entry(key))) = self.ready.pop() {
            let waiting = self.dirty.get(&key).filter(|(current, _)| *current == priority);
            if let (Some((_, since)), false) = (waiting, self.active.contains_key(&key)) {
                let waited = now.duration_since(*since);
                self.dirty.remove(&key);
                self.active.insert(key.clone(), now);
                return Some((key, waited));
            }
        }
        self.shrink();
        None
    }

    /// Gives back the room that a burst took.
    fn shrink(&mut self) {
        if self.ready.capacity() > ROOM {
            self.ready.shrink_to(0);
            self.dirty.shrink_to(0);
            self.active.shrink_to(0);
        }
        if self.timers.capacity() > ROOM && self.timers.is_empty() {
            self.timers.shrink_to(0);
            self.delayed.shrink_to(0);
        }
    }
}

impl<K: Clone + Eq + Hash> Default for Queue<K> {
    fn default() -> Self {
        Self::new(RateLimit::default())
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub fn new(limit: RateLimit) -> Self {
        Self::build(limit, None)
    }

    pub fn with_metrics(limit: RateLimit, metrics: WorkMetrics) -> Self
    where
        K: Send + Sync + 'static,
    {
        let queue = Self::build(limit, Some(metrics.clone()));
        let busy: Arc<dyn Busy> = queue.inner.clone();
        metrics.follow(&busy);
        queue
    }

    fn build(limit: RateLimit, metrics: Option<WorkMetrics>) -> Self {
        let state = State {
            dirty: HashMap::default(),
            active: HashMap::default(),
            ready: BinaryHeap::new(),
            delayed: HashMap::default(),
            timers: BinaryHeap::new(),
            failures: HashMap::default(),
            bucket: Bucket { tokens: limit.burst, filled: None },
            sequence: 0,
            closed: false,
            metrics: metrics.clone(),
        };
        let state = Mutex::new(state);
        Self { inner: Arc::new(Inner { state, changed: Notify::new(), limit, metrics }) }
    }

    pub fn add(&self, key: K) {
        self.add_with_priority(key, Priority::Normal);
    }

    pub fn add_with_priority(&self, key: K, priority: Priority) {
        self.inner.state.lock().add(key, priority);
        self.inner.changed.notify_one();
    }

    /// Adds the key when the time is over; an earlier time already set stands.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        self.inner.state.lock().add_at(key, Priority::Normal, Instant::now() + delay);
        self.inner.changed.notify_one();
    }

    /// Adds the key after a time that grows with every failure.
    pub fn retry(&self, key: K) -> Duration {
        let now = Instant::now();
        let delay = {
            let mut state = self.inner.state.lock();
            let failures = state.failures.entry(key.clone()).or_default();
            let own = exponential(self.inner.limit.base, self.inner.limit.max, *failures);
            *failures = failures.saturating_add(1);
            let delay = own.max(state.bucket.reserve(now, &self.inner.limit));
            // A retry must not hold up what comes from outside.
            state.add_at(key, Priority::Normal, now + delay);
            delay
        };
        if let Some(metrics) = &self.inner.metrics {
            metrics.retried();
        }
        self.inner.changed.notify_one();
        delay
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &K) {
        self.inner.state.lock().failures.remove(key);
    }

    /// Returns how often the key has failed since it was forgotten.
    pub fn failures(&self, key: &K) -> u32 {
        self.inner.state.lock().failures.get(key).copied().unwrap_or_default()
    }

    /// Returns how many keys could be worked on now.
    pub fn len(&self) -> usize {
        self.inner.state.lock().dirty.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is waiting, planned or being worked on.
    pub fn is_idle(&self) -> bool {
        let state = self.inner.state.lock();
        state.dirty.is_empty() && state.active.is_empty() && state.delayed.is_empty()
    }

    /// Ends the queue: nothing is added any more, and waiting workers get nothing.
    pub fn close(&self) {
        self.inner.state.lock().closed = true;
        self.inner.changed.notify_waiters();
        self.inner.changed.notify_one();
    }

    /// Waits for a key to work on; nothing is left when the queue is closed.
    pub async fn next(&self) -> Option<Work<K>> {
        loop {
            let notified = self.inner.changed.notified();
            let due = {
                let mut state = self.inner.state.lock();
                if state.closed {
                    self.inner.changed.notify_one();
                    return None;
                }
                let now = Instant::now();
                let due = state.release(now);
                if let Some((key, waited)) = state.pop(now) {
                    if !state.ready.is_empty() {
                        // One notice may have stood for several keys.
                        self.inner.changed.notify_one();
                    }
                    drop(state);
                    if let Some(metrics) = &self.inner.metrics {
                        metrics.taken(waited);
                    }
                    return Some(Work { queue: self.clone(), key });
                }
                due
            };
            match due {
                Some(due) => tokio::select! {
                    biased;
                    () = notified => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => notified.await,
            }
        }
    }

    fn done(&self, key: &K) {
        let mut state = self.inner.state.lock();
        let since = state.active.remove(key);
        if state.closed {
            state.dirty.remove(key);
        } else if let Some((priority, _)) = state.dirty.get(key).copied() {
            state.line_up(key.clone(), priority);
            self.inner.changed.notify_one();
        }
        drop(state);
        if let (Some(metrics), Some(since)) = (&self.inner.metrics, since) {
            metrics.done(since.elapsed());
        }
    }
}

/// A key being worked on. Nobody else gets it until this is dropped.
pub struct Work<K: Clone + Eq + Hash> {
    queue: Queue<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Work<K> {
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K: Clone + Eq + Hash> Drop for Work<K> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn take<K: Clone + Eq + Hash>(queue: &Queue<K>) -> Option<Work<K>> {
        queue.next().now_or_never().flatten()
    }

    fn drain(queue: &Queue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| take(queue).map(|work| *work.key())).collect()
    }

    #[tokio::test]
    async fn a_key_is_queued_once_and_by_priority() {
        let queue = Queue::default();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        queue.add_with_priority("low", Priority::Low);
        queue.add_with_priority("high", Priority::High);
        queue.add_with_priority("b", Priority::High);
        queue.add_with_priority("b", Priority::Low);
        assert_eq!(drain(&queue), ["high", "b", "a", "low"]);
    }

    #[tokio::test]
    async fn a_key_is_never_worked_on_twice_at_once() {
        let queue = Queue::default();
        queue.add("a");
        let work = take(&queue).unwrap();
        queue.add("a");
        assert!(take(&queue).is_none());
        drop(work);
        assert_eq!(drain(&queue), ["a"], "what changed meanwhile is looked at again");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_of_several_delays_counts() {
        let queue = Queue::default();
        let start = Instant::now();
        queue.add_after("late", Duration::from_secs(30));
        queue.add_after("a", Duration::from_secs(20));
        queue.add_after("a", Duration::from_secs(10));
        queue.add_after("a", Duration::from_secs(15));
        let mut seen = Vec::new();
        for _ in 0..2 {
            let work = queue.next().await.unwrap();
            seen.push((*work.key(), start.elapsed().as_secs()));
        }
        assert_eq!(seen, [("a", 10), ("late", 30)]);
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn retries_come_later_and_later_until_forgotten() {
        let queue = Queue::default();
        let delays: Vec<_> = (0..4).map(|_| queue.retry("a").as_millis()).collect();
        assert_eq!(delays, [5, 10, 20, 40]);
        assert_eq!(queue.failures(&"a"), 4);
        queue.forget(&"a");
        assert_eq!(queue.retry("a").as_millis(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn retries_of_many_keys_share_a_rate() {
        let queue = Queue::default();
        let delays: Vec<_> = (0..110).map(|key| queue.retry(key).as_millis()).collect();
        assert_eq!(delays[99], 5, "the burst goes through");
        assert_eq!(delays[109], 1000, "ten more are spread over a second");
    }

    #[tokio::test]
    async fn closing_ends_all_workers() {
        let queue: Queue<u8> = Queue::default();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await.is_none() })
            })
            .collect();
        tokio::task::yield_now().await;
        queue.close();
        for worker in workers {
            assert!(worker.await.unwrap());
        }
    }

    #[tokio::test]
    async fn many_workers_share_many_keys() {
        let queue = Queue::default();
        let done = Arc::new(Mutex::new(Vec::new()));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (queue, done) = (queue.clone(), done.clone());
                tokio::spawn(async move {
                    while let Some(work) = queue.next().await {
                        tokio::task::yield_now().await;
                        done.lock().push(*work.key());
                    }
                })
            })
            .collect();
        (0..1000_u32).for_each(|key| queue.add(key));
        while !queue.is_idle() {
            tokio::task::yield_now().await;
        }
        queue.close();
        futures::future::join_all(workers).await;
        let mut done = done.lock().clone();
        done.sort_unstable();
        assert_eq!(done, (0..1000).collect::<Vec<_>>());
    }
}

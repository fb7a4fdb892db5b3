//! The bindings that wait for a decision: by priority while they can be tried, apart while a
//! failure is young, and aside while no cluster has room. A key is in it once and is never worked on
//! twice at the same time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use karmada_runtime::{ObjectKey, RateLimit};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::metrics::SchedulerMetrics;

/// The first pause after a failure; it doubles up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How long a binding for which there was no room stays aside.
const ASIDE: Duration = Duration::from_secs(300);

/// What put a binding into the queue. Several may come together before it is its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Causes {
    /// The binding is new to this scheduler.
    added: bool,
    /// Its generation changed.
    updated: bool,
    clusters: bool,
    retry: bool,
    /// It was made with its placement, which is to be reported.
    born: bool,
}

impl Causes {
    const NONE: Self =
        Self { added: false, updated: false, clusters: false, retry: false, born: false };
    pub(crate) const ADDED: Self = Self { added: true, ..Self::NONE };
    pub(crate) const UPDATED: Self = Self { updated: true, ..Self::NONE };
    pub(crate) const BORN: Self = Self { born: true, ..Self::NONE };
    pub(crate) const CLUSTERS: Self = Self { clusters: true, ..Self::NONE };

    pub(crate) fn has_update(self) -> bool {
        self.updated
    }

    pub(crate) fn has_clusters(self) -> bool {
        self.clusters
    }

    fn with(self, other: Self) -> Self {
        Self {
            added: self.added || other.added,
            updated: self.updated || other.updated,
            clusters: self.clusters || other.clusters,
            retry: self.retry || other.retry,
            born: self.born || other.born,
        }
    }
}

/// How urgent a binding is: higher priority first, then what has not been decided on yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Urgency {
    pub(crate) priority: i32,
    /// Whether the last decision is younger than the binding, as for all of them after a restart.
    pub(crate) settled: bool,
}

/// How failures come back.
#[derive(Debug, Clone)]
pub(crate) enum Retries {
    /// Apart for 1 to 10 seconds, aside where there was no room.
    ByReason,
    /// Compat: with the gate `PriorityBasedScheduling` off, all failures alike.
    Legacy(RateLimit),
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing to do until something changes.
    Done,
    Failed,
    /// There was no room: time alone hardly helps.
    NoRoom,
    /// It is not due yet.
    Later(Duration),
}

#[derive(Debug, Clone, Copy)]
struct Item {
    urgency: Urgency,
    since: Instant,
    sequence: u64,
    attempts: u32,
    causes: Causes,
}

type Rank = (Reverse<i32>, bool, Instant, u64);

impl Item {
    fn rank(&self) -> Rank {
        (Reverse(self.urgency.priority), self.urgency.settled, self.since, self.sequence)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Active,
    Backoff(Instant),
    Aside(Instant),
}

struct State {
    waiting: HashMap<ObjectKey, (Place, Item)>,
    active: BTreeMap<Rank, ObjectKey>,
    /// Keys of backoff and aside by the time they come back.
    timers: BTreeSet<(Instant, ObjectKey)>,
    /// How many of them are aside.
    aside: usize,
    /// Keys being worked on, and what came in for them meanwhile.
    working: HashMap<ObjectKey, (Item, Option<Item>)>,
    sequence: u64,
    tokens: f64,
    filled: Option<Instant>,
    closed: bool,
}

struct Inner {
    state: Mutex<State>,
    changed: Notify,
    retries: Retries,
    metrics: SchedulerMetrics,
}

/// The queue. Clones share it.
#[derive(Clone)]
pub(crate) struct BindingQueue(Arc<Inner>);

/// A binding taken from the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) key: ObjectKey,
    pub(crate) causes: Causes,
}

impl BindingQueue {
    pub(crate) fn new(retries: Retries, metrics: SchedulerMetrics) -> Self {
        let state = State {
            waiting: HashMap::new(),
            active: BTreeMap::new(),
            timers: BTreeSet::new(),
            aside: 0,
            working: HashMap::new(),
            sequence: 0,
            tokens: match &retries {
                Retries::Legacy(limit) => limit.burst,
                Retries::ByReason => 0.0,
            },
            filled: None,
            closed: false,
        };
        let state = Mutex::new(state);
        Self(Arc::new(Inner { state, changed: Notify::new(), retries, metrics }))
    }

    /// Adds a binding because something changed. One that waits already keeps its place and takes
    /// on the new urgency; one that was put apart comes back at once.
    pub(crate) fn push(&self, key: ObjectKey, mut urgency: Urgency, causes: Causes) {
        if matches!(self.0.retries, Retries::Legacy(_)) {
            urgency.priority = 0;
        }
        self.0.state.lock().push(key, urgency, causes, Instant::now());
        self.0.changed.notify_one();
    }

    /// Adds a binding that nobody waits for yet.
    pub(crate) fn push_after(
        &self,
        key: ObjectKey,
        urgency: Urgency,
        causes: Causes,
        pause: Duration,
    ) {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        if state.closed || state.waiting.contains_key(&key) || state.working.contains_key(&key) {
            drop(state);
            return self.push(key, urgency, causes);
        }
        state.sequence += 1;
        let item = Item { urgency, since: now, sequence: state.sequence, attempts: 0, causes };
        state.place(key, Place::Backoff(now + pause), item);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Waits for the next binding; none is left when the queue is closed.
    pub(crate) async fn next(&self) -> Option<Turn> {
        loop {
            let notified = self.0.changed.notified();
            let due = {
                let mut state = self.0.state.lock();
                if state.closed {
                    self.0.changed.notify_one();
                    return None;
                }
                let due = state.release(Instant::now());
                let turn = state.take();
                self.report(&state);
                if let Some(turn) = turn {
                    if !state.active.is_empty() {
                        // One notice may have stood for several keys.
                        self.0.changed.notify_one();
                    }
                    return Some(turn);
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

    /// Ends an attempt. What came in meanwhile counts more than how the attempt ended.
    pub(crate) fn finish(&self, key: &ObjectKey, verdict: Verdict) {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let Some((item, dirty)) = state.working.remove(key) else { return };
        if state.closed {
            return;
        }
        let retry = Causes { retry: true, ..item.causes };
        match (dirty, verdict) {
            (Some(dirty), _) => state.place(key.clone(), Place::Active, dirty),
            (None, Verdict::Done) => {}
            (None, Verdict::Later(pause)) => {
                state.place(key.clone(), Place::Backoff(now + pause), item);
            }
            (None, verdict) => {
                let place = match (&self.0.retries, verdict) {
                    (Retries::Legacy(limit), _) => {
                        Place::Backoff(now + state.legacy_pause(limit, item.attempts, now))
                    }
                    (Retries::ByReason, Verdict::NoRoom) => Place::Aside(now + ASIDE),
                    (Retries::ByReason, _) => Place::Backoff(now + pause(item.attempts)),
                };
                self.0.metrics.incoming("ScheduleAttemptFailure");
                state.place(key.clone(), place, Item { causes: retry, ..item });
            }
        }
        self.report(&state);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Tries everything again for which there was no room.
    pub(crate) fn room_grew(&self) {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        let aside = |(key, (place, _)): (&ObjectKey, &(Place, Item))| {
            matches!(place, Place::Aside(_)).then(|| key.clone())
        };
        let mut keys: Vec<ObjectKey> = state.waiting.iter().filter_map(aside).collect();
        keys.sort_unstable();
        for key in keys {
            state.activate(&key, now);
        }
        drop(state);
        self.0.changed.notify_one();
    }

    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.changed.notify_waiters();
        self.0.changed.notify_one();
    }

    fn report(&self, state: &State) {
        let apart = state.timers.len() - state.aside;
        self.0.metrics.pending(state.active.len(), apart, state.aside);
    }
}

impl State {
    fn push(&mut self, key: ObjectKey, urgency: Urgency, causes: Causes, now: Instant) {
        if self.closed {
            return;
        }
        self.sequence += 1;
        let fresh = Item { urgency, since: now, sequence: self.sequence, attempts: 0, causes };
        if let Some((item, dirty)) = self.working.get_mut(&key) {
            let known = dirty.map_or(Causes::NONE, |dirty| dirty.causes);
            *dirty = Some(Item { causes: causes.with(known), attempts: item.attempts, ..fresh });
            return;
        }
        let item = match self.remove(&key) {
            Some((Place::Active, item)) => {
                Item { urgency, causes: item.causes.with(causes), ..item }
            }
            Some((_, item)) => Item { causes: item.causes.with(causes), ..fresh },
            None => fresh,
        };
        self.place(key, Place::Active, item);
    }

    fn place(&mut self, key: ObjectKey, place: Place, item: Item) {
        self.aside += usize::from(matches!(place, Place::Aside(_)));
        match place {
            Place::Active => drop(self.active.insert(item.rank(), key.clone())),
            Place::Backoff(at) | Place::Aside(at) => drop(self.timers.insert((at, key.clone()))),
        }
        self.waiting.insert(key, (place, item));
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<(Place, Item)> {
        let (place, item) = self.waiting.remove(key)?;
        self.aside -= usize::from(matches!(place, Place::Aside(_)));
        match place {
            Place::Active => drop(self.active.remove(&item.rank())),
            Place::Backoff(at) | Place::Aside(at) => {
                self.timers.remove(&(at, key.clone()));
            }
        }
        Some((place, item))
    }

    fn activate(&mut self, key: &ObjectKey, now: Instant) {
        if let Some((_, item)) = self.remove(key) {
            self.place(key.clone(), Place::Active, Item { since: now, ..item });
        }
    }

    /// Brings back what is due; returns when the next key will be.
    fn release(&mut self, now: Instant) -> Option<Instant> {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                return Some(at);
            }
            self.activate(&key, now);
        }
        None
    }

    fn take(&mut self) -> Option<Turn> {
        let (_, key) = self.active.pop_first()?;
        let (_, mut item) = self.waiting.remove(&key)?;
        item.attempts = item.attempts.saturating_add(1);
        self.working.insert(key.clone(), (item, None));
        Some(Turn { key, causes: item.causes })
    }

    fn legacy_pause(&mut self, limit: &RateLimit, attempts: u32, now: Instant) -> Duration {
        let gone = self.filled.map_or(Duration::ZERO, |filled| now - filled);
        self.filled = Some(now);
        self.tokens = (self.tokens + gone.as_secs_f64() * limit.per_second).min(limit.burst) - 1.0;
        let shared = match limit.per_second > 0.0 && self.tokens < 0.0 {
            true => Duration::from_secs_f64(-self.tokens / limit.per_second),
            false => Duration::ZERO,
        };
        doubled(limit.base, limit.max, attempts.saturating_sub(1)).max(shared)
    }
}

/// How long a binding stays apart after so many attempts.
fn pause(attempts: u32) -> Duration {
    match attempts {
        0 => Duration::ZERO,
        attempts => doubled(PAUSE, LONGEST_PAUSE, attempts - 1),
    }
}

fn doubled(base: Duration, max: Duration, times: u32) -> Duration {
    let factor = 2_u32.checked_pow(times).unwrap_or(u32::MAX);
    base.checked_mul(factor).unwrap_or(max).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_runtime::Metrics;

    fn queue(retries: Retries) -> BindingQueue {
        BindingQueue::new(retries, SchedulerMetrics::new(&Metrics::default()))
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("x", name)
    }

    fn urgency(priority: i32) -> Urgency {
        Urgency { priority, settled: false }
    }

    fn push(queue: &BindingQueue, name: &str, priority: i32) {
        queue.push(key(name), urgency(priority), Causes::ADDED);
    }

    async fn names(queue: &BindingQueue, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            names.push(queue.next().await.unwrap().key.name.into());
        }
        names
    }

    #[tokio::test(start_paused = true)]
    async fn higher_priority_goes_first_and_equals_keep_their_order() {
        let queue = queue(Retries::ByReason);
        for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 9), ("e", 5)] {
            push(&queue, name, priority);
        }
        queue.push(key("old"), Urgency { priority: 0, settled: true }, Causes::ADDED);
        push(&queue, "f", 0);
        // A change of priority counts while the binding waits.
        push(&queue, "c", 7);
        assert_eq!(names(&queue, 7).await, ["d", "c", "b", "e", "a", "f", "old"]);
    }

    #[test]
    fn e19_pauses_double_up_to_ten_seconds() {
        let seconds = [0, 1, 2, 3, 4, 5, 50].map(|attempts| pause(attempts).as_secs());
        assert_eq!(seconds, [0, 1, 2, 4, 8, 10, 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_and_of_those_due_together_the_more_important_goes_first() {
        let queue = queue(Retries::ByReason);
        push(&queue, "low", 1);
        queue.next().await.unwrap();
        queue.finish(&key("low"), Verdict::Failed);
        push(&queue, "high", 10);
        queue.next().await.unwrap();
        queue.finish(&key("high"), Verdict::Failed);
        let start = Instant::now();
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(names(&queue, 2).await, ["high", "low"]);
        queue.finish(&key("low"), Verdict::Failed);
        assert_eq!(names(&queue, 1).await, ["low"]);
        assert_eq!(start.elapsed().as_secs(), 9 + 2);
    }

    #[tokio::test(start_paused = true)]
    async fn without_room_a_binding_stays_aside_until_time_room_or_a_change() {
        let queue = queue(Retries::ByReason);
        let start = Instant::now();
        push(&queue, "a", 0);
        queue.next().await.unwrap();
        queue.finish(&key("a"), Verdict::NoRoom);
        assert_eq!(names(&queue, 1).await, ["a"]);
        assert_eq!(start.elapsed(), ASIDE);
        queue.finish(&key("a"), Verdict::NoRoom);
        queue.room_grew();
        assert_eq!(names(&queue, 1).await, ["a"]);
        queue.finish(&key("a"), Verdict::NoRoom);
        push(&queue, "a", 0);
        assert_eq!(names(&queue, 1).await, ["a"]);
        assert_eq!(start.elapsed(), ASIDE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_during_an_attempt_leads_to_one_more_whatever_came_of_it() {
        let queue = queue(Retries::ByReason);
        push(&queue, "a", 0);
        queue.next().await.unwrap();
        push(&queue, "a", 0);
        queue.push(key("a"), urgency(0), Causes::CLUSTERS);
        queue.finish(&key("a"), Verdict::NoRoom);
        let turn = queue.next().await.unwrap();
        assert_eq!(turn.causes, Causes::ADDED.with(Causes::CLUSTERS));
        queue.finish(&key("a"), Verdict::Done);
        queue.close();
        assert_eq!(queue.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_legacy_queue_knows_no_priority_and_retries_fast() {
        let queue = queue(Retries::Legacy(RateLimit::default()));
        push(&queue, "a", 0);
        push(&queue, "b", 9);
        assert_eq!(names(&queue, 2).await, ["a", "b"]);
        let start = Instant::now();
        queue.finish(&key("a"), Verdict::NoRoom);
        assert_eq!(names(&queue, 1).await, ["a"]);
        assert_eq!(start.elapsed().as_millis(), 5);
    }
}

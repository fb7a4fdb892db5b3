//! When to compact: history is kept for a while, so that clients can resume, and is bounded in
//! number, so that a burst of writes cannot fill the memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tracing::{debug, warn};

use crate::Store;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How often to look.
    pub interval: Duration,
    /// History younger than this stays, as long as `max_revisions` allows.
    pub keep: Duration,
    /// How many revisions of history to hold at most.
    pub max_revisions: i64,
    /// How much memory their values may take, whatever their number and age.
    pub max_bytes: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            keep: Duration::from_secs(5 * 60),
            max_revisions: 200_000,
            max_bytes: 32 << 20,
        }
    }
}

impl Policy {
    /// Keeps history for this long. For half a minute that is what a Kubernetes API server does
    /// with `--etcd-compaction-interval`; longer times are looked after more often, so that a
    /// burst of writes is noticed in between.
    pub fn keeping(keep: Duration) -> Self {
        Self { interval: keep.min(Duration::from_secs(30)), keep, ..Self::default() }
    }
}

/// Remembers which revision was the newest when, and from that decides how far to compact.
#[derive(Debug)]
pub struct Schedule {
    policy: Policy,
    marks: VecDeque<(Instant, i64)>,
    compacted: i64,
}

impl Schedule {
    pub fn new(policy: Policy) -> Self {
        Self { policy, marks: VecDeque::new(), compacted: 0 }
    }

    /// Notes the newest revision and returns the one to compact to, if there is anything to do.
    pub fn due(&mut self, now: Instant, revision: i64) -> Option<i64> {
        self.marks.push_back((now, revision));
        let mut target = revision.saturating_sub(self.policy.max_revisions);
        while let Some((at, marked)) = self.marks.front().copied() {
            if now.duration_since(at) < self.policy.keep {
                break;
            }
            target = target.max(marked);
            self.marks.pop_front();
        }
        if target <= self.compacted {
            return None;
        }
        self.compacted = target;
        Some(target)
    }
}

/// Compacts the store by the policy until the future is dropped.
pub async fn compact_regularly(store: Arc<dyn Store>, policy: Policy) {
    let mut ticks = tokio::time::interval(policy.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let max_bytes = policy.max_bytes;
    let mut schedule = Schedule::new(policy);
    loop {
        let target = tokio::select! {
            now = ticks.tick() => schedule.due(now, store.revision()),
            crowded = store.crowded(max_bytes) => Some(crowded),
        };
        let Some(target) = target else { continue };
        match store.compact(target).await {
            Ok(()) => debug!(rv = target, "history compacted"),
            Err(error) => warn!(rv = target, %error, "history could not be compacted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expect, Memory};

    fn schedule(keep: u64, max_revisions: i64) -> Schedule {
        let keep = Duration::from_secs(keep);
        let interval = Duration::from_secs(60);
        Schedule::new(Policy { interval, keep, max_revisions, ..Policy::default() })
    }

    #[test]
    fn keeps_young_history_and_bounds_its_length() {
        let start = Instant::now();
        // (seconds since the start, newest revision, revision to compact to)
        let mut calm = schedule(300, 1_000);
        for (at, revision, due) in [
            (0, 10, None),
            (60, 20, None),
            (299, 90, None),
            (300, 100, Some(10)),
            (360, 100, Some(20)),
            (361, 100, None),
            (660, 100, Some(100)),
            (1000, 100, None),
        ] {
            assert_eq!(calm.due(start + Duration::from_secs(at), revision), due, "calm at {at}");
        }
        let mut burst = schedule(300, 1_000);
        for (at, revision, due) in [(0, 10, None), (60, 5_000, Some(4_000)), (120, 5_000, None)] {
            assert_eq!(burst.due(start + Duration::from_secs(at), revision), due, "burst at {at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn compacts_in_the_background_on_the_clock_it_is_given() {
        let store = Arc::new(Memory::new());
        let policy = Policy::keeping(Duration::from_secs(30));
        let task = tokio::spawn(compact_regularly(store.clone(), policy));
        store.put("/a", "1".into(), Expect::Any).await.unwrap();
        tokio::time::sleep(Duration::from_secs(29)).await;
        store.put("/a", "2".into(), Expect::Any).await.unwrap();
        assert_eq!(store.compacted_revision(), 1);
        tokio::time::sleep(Duration::from_secs(32)).await;
        assert_eq!(store.compacted_revision(), 3);
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_large_values_is_forgotten_at_once() {
        let store = Arc::new(Memory::new());
        let policy = Policy { max_bytes: 1000, ..Policy::default() };
        let task = tokio::spawn(compact_regularly(store.clone(), policy));
        for _ in 0..100 {
            store.put("/a", vec![b'x'; 100].into(), Expect::Any).await.unwrap();
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kept = store.revision() - store.compacted_revision();
        assert!((5..=11).contains(&kept), "{kept} revisions are kept");
        task.abort();
    }
}

//! When owners look at what changed below them. Pods and replica sets change in bursts, and a status for
//! every single pod that comes up would cost more than the pods.

use std::collections::HashMap;
use std::time::Duration;

use karmada_client::Object;
use karmada_runtime::{Change, ObjectKey, Queue};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The pause before a look, and how long it may become.
pub(super) const BURST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// How many changes an owner waits for, at the pace they come at.
const GATHERED: u32 = 8;

/// The paces at which things change below owners.
#[derive(Default)]
pub(super) struct Bursts(Mutex<HashMap<ObjectKey, Pace>>);

#[derive(Clone, Copy)]
struct Pace {
    last: Instant,
    /// The time between two changes, smoothed.
    interval: Duration,
}

impl Pace {
    /// The next change comes at `now`. One that comes after a while begins a new burst.
    fn after(self, now: Instant) -> Self {
        let gone = now.duration_since(self.last);
        let interval =
            if gone >= LONGEST { Duration::ZERO } else { (self.interval * 7 + gone) / 8 };
        Self { last: now, interval }
    }

    fn pause(self) -> Duration {
        (self.interval * GATHERED).clamp(BURST, LONGEST)
    }
}

impl Bursts {
    /// Queues an owner after something below it has changed.
    pub(super) fn wake(&self, owner: ObjectKey, queue: &Queue<ObjectKey>) {
        let now = Instant::now();
        let mut paces = self.0.lock();
        let pace = paces.get(&owner).map(|pace| pace.after(now));
        let pace = pace.unwrap_or(Pace { last: now, interval: Duration::ZERO });
        paces.insert(owner.clone(), pace);
        drop(paces);
        queue.add_after(owner, pace.pause());
    }

    /// Queues an owner that has changed itself: at once, unless it is only its status, which nobody but
    /// its controller writes.
    pub(super) fn changed(&self, change: &Change, queue: &Queue<ObjectKey>) {
        let key = ObjectKey::of(change.object());
        match change {
            Change::Deleted(_) => {
                self.0.lock().remove(&key);
                queue.add(key);
            }
            Change::Applied { old: Some(old), new } if is_same_but_status(old, new) => {
                let pace = self.0.lock().get(&key).copied();
                queue.add_after(key, pace.map_or(BURST, Pace::pause));
            }
            Change::Applied { .. } => queue.add(key),
        }
    }
}

/// Metadata are compared roughly: a look too many costs little, one too late does no harm.
fn is_same_but_status(old: &Object, new: &Object) -> bool {
    old.meta().generation == new.meta().generation
        && old.meta().labels == new.meta().labels
        && old.is_being_deleted() == new.is_being_deleted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_wait_for_a_few_changes_at_their_pace() {
        let start = Instant::now();
        let mut pace = Pace { last: start, interval: Duration::ZERO };
        assert_eq!(pace.pause(), BURST, "the first change of a burst is seen soon");
        for step in 1..=100 {
            pace = pace.after(start + Duration::from_millis(50) * step);
        }
        let settled = pace.pause();
        assert!(settled > Duration::from_millis(350), "{settled:?}");
        assert!(settled <= Duration::from_millis(400), "{settled:?}");
        let later = pace.after(pace.last + Duration::from_secs(5));
        assert_eq!(later.pause(), BURST, "a new burst");
        let mut slow = Pace { last: start, interval: Duration::ZERO };
        for step in 1..=100 {
            slow = slow.after(start + Duration::from_millis(900) * step);
        }
        assert_eq!(slow.pause(), LONGEST);
    }
}

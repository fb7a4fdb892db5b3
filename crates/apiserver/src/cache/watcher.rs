//! A watcher: a cursor into the ring of one cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use karmada_signal::Follow;
use parking_lot::Mutex;

use super::{Cache, Change, StoredObject};

/// How many events are taken from the ring at a time.
const BATCH: usize = 256;

/// How many watchers are many.
const COMPANY: usize = 16;

pub struct Watcher {
    cache: Arc<Cache>,
    /// The number of the next event to read, which the cache knows too.
    next: Arc<AtomicU64>,
    tail: Follow<u64>,
}

/// How far the watchers of a cache are.
#[derive(Default)]
pub(super) struct Readers(Mutex<Vec<Arc<AtomicU64>>>);

impl Readers {
    fn join(&self, next: u64) -> Arc<AtomicU64> {
        let next = Arc::new(AtomicU64::new(next));
        self.0.lock().push(next.clone());
        next
    }

    fn leave(&self, next: &Arc<AtomicU64>) {
        let mut readers = self.0.lock();
        if let Some(place) = readers.iter().position(|reader| Arc::ptr_eq(reader, next)) {
            readers.swap_remove(place);
        }
    }

    fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// The number of the first event that one of them has not read.
    pub(super) fn slowest(&self) -> Option<u64> {
        self.0.lock().iter().map(|next| next.load(Ordering::Relaxed)).min()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.cache.readers.leave(&self.next);
    }
}

/// What a watcher gets.
pub enum Next {
    Changes(Vec<Arc<Change>>),
    /// Events were forgotten before this watcher read them; since this revision they are known.
    Lagged {
        since: i64,
    },
    /// The resource is no longer served.
    Closed,
}

impl Cache {
    /// Watches from now on, together with the objects as they are now.
    pub fn watch_with_list(
        self: &Arc<Self>,
        prefix: &str,
    ) -> (Vec<Arc<StoredObject>>, i64, Watcher) {
        let tail = self.tail.follow();
        let state = self.state.read();
        let objects = state
            .objects
            .range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object.clone())
            .collect();
        let next = self.readers.join(state.head + state.ring.len() as u64);
        (objects, state.revision, Watcher { cache: self.clone(), next, tail })
    }

    /// Watches everything after a revision, or tells since when history is known.
    pub fn watch_after(self: &Arc<Self>, revision: i64) -> Result<Watcher, i64> {
        let tail = self.tail.follow();
        let state = self.state.read();
        if revision < state.since {
            return Err(state.since);
        }
        let skip = state.ring.partition_point(|change| change.revision <= revision) as u64;
        let next = self.readers.join(state.head + skip);
        Ok(Watcher { cache: self.clone(), next, tail })
    }
}

impl Watcher {
    /// Takes what is there without waiting; nothing means that the watcher is up to date.
    pub fn poll(&mut self) -> Option<Next> {
        let state = self.cache.state.read();
        if state.closed {
            return Some(Next::Closed);
        }
        // Events are forgotten under the same lock, so nobody else looks at this now.
        let next = self.next.load(Ordering::Relaxed);
        if next < state.head {
            return Some(Next::Lagged { since: state.since });
        }
        let skip = (next - state.head) as usize;
        let end = state.ring.len().min(skip + BATCH);
        let changes: Vec<_> = state.ring.range(skip.min(end)..end).cloned().collect();
        self.next.fetch_add(changes.len() as u64, Ordering::Relaxed);
        (!changes.is_empty()).then_some(Next::Changes(changes))
    }

    /// Whether so many watch the same that what they are told is worth keeping.
    pub fn has_company(&self) -> bool {
        self.cache.readers.count() >= COMPANY
    }

    /// Waits until [`Watcher::poll`] may have something.
    pub async fn wait(&mut self) {
        self.tail.moved().await;
    }

    pub async fn next(&mut self) -> Next {
        loop {
            self.tail.get();
            if let Some(next) = self.poll() {
                return next;
            }
            self.wait().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karmada_apimachinery::json;
    use karmada_store::{Expect, Memory, Store as _};
    use tokio_util::sync::CancellationToken;

    use super::super::{Caches, Reading};
    use super::*;
    use crate::config::History;

    const HISTORY: History = History { stored: 1 << 20, watched: 10_000, read: 1_000 };

    struct Shelf {
        store: Memory,
        caches: Arc<Caches>,
        cache: Arc<Cache>,
    }

    impl Shelf {
        async fn open() -> Self {
            let store = Memory::new();
            let stop = CancellationToken::new();
            let caches = Caches::start(Arc::new(store.clone()), HISTORY, stop);
            let cache = caches.open("/things/", Reading::default()).await.unwrap();
            Self { store, caches, cache }
        }

        /// Writes the same object again and again, about a hundred bytes each time.
        async fn write(&self, times: usize) -> i64 {
            let filler = "x".repeat(40);
            let text = json!({"kind": "Thing", "metadata": {"name": "a"}, "x": filler}).to_string();
            for _ in 0..times {
                self.store.put("/things/a", text.clone().into(), Expect::Any).await.unwrap();
            }
            let revision = self.store.revision();
            assert!(self.caches.reach(revision, Duration::from_secs(60)).await);
            revision
        }

        fn is_known(&self, revision: i64) -> bool {
            self.cache.watch_after(revision).is_ok()
        }
    }

    fn read(watcher: &mut Watcher) -> usize {
        let mut read = 0;
        while let Some(Next::Changes(changes)) = watcher.poll() {
            read += changes.len();
        }
        read
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_has_not_read_is_remembered_longer_than_the_rest() {
        let shelf = Shelf::open().await;
        let (_, start, mut slow) = shelf.cache.watch_with_list("");
        let (_, _, mut quick) = shelf.cache.watch_with_list("");
        for _ in 0..5 {
            shelf.write(10).await;
            assert_eq!(read(&mut quick), 10);
        }
        assert!(shelf.is_known(start), "the slow one needs it");
        assert_eq!(read(&mut slow), 50);
        let last = shelf.write(1).await;
        assert!(!shelf.is_known(start), "all have read it");
        assert!(shelf.is_known(last - 3), "the last of it stays for those that come back");
        assert_eq!((read(&mut slow), read(&mut quick)), (1, 1));
        drop(quick);
        shelf.write(200).await;
        assert!(matches!(slow.poll(), Some(Next::Lagged { .. })), "nobody is waited for endlessly");
    }

    #[tokio::test(start_paused = true)]
    async fn while_nobody_watches_more_is_remembered() {
        let shelf = Shelf::open().await;
        let first = shelf.write(1).await;
        shelf.write(50).await;
        assert!(shelf.is_known(first));
        shelf.write(200).await;
        assert!(!shelf.is_known(first));
    }
}

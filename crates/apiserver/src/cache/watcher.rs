//! A watcher: a cursor into the ring of one cache.

use std::sync::Arc;

use karmada_signal::Follow;

use super::{Cache, Change, StoredObject};

/// How many events are taken from the ring at a time.
const BATCH: usize = 256;

pub struct Watcher {
    cache: Arc<Cache>,
    next: u64,
    tail: Follow<u64>,
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
        let next = state.head + state.ring.len() as u64;
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
        Ok(Watcher { cache: self.clone(), next: state.head + skip, tail })
    }
}

impl Watcher {
    /// Takes what is there without waiting; nothing means that the watcher is up to date.
    pub fn poll(&mut self) -> Option<Next> {
        let state = self.cache.state.read();
        if state.closed {
            return Some(Next::Closed);
        }
        if self.next < state.head {
            return Some(Next::Lagged { since: state.since });
        }
        let skip = (self.next - state.head) as usize;
        let end = state.ring.len().min(skip + BATCH);
        let changes: Vec<_> = state.ring.range(skip.min(end)..end).cloned().collect();
        self.next += changes.len() as u64;
        (!changes.is_empty()).then_some(Next::Changes(changes))
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

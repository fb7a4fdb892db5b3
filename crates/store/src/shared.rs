//! The index as readers, watchers and the one writer share it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::stream;
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

use crate::index::Index;
use crate::watch::{Cursor, Watcher};
use crate::{Event, Result, WatchStream};

#[derive(Default)]
pub(crate) struct Shared {
    state: RwLock<State>,
    /// How much history may take, if somebody waits for the moment it takes more.
    bound: AtomicUsize,
    crowded: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) index: Index,
    pub(crate) closed: bool,
    // Few: an API server watches once per kind, not once per client.
    watchers: Vec<Arc<Watcher>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store at revision {}", self.read().index.revision())
    }
}

impl Shared {
    pub(crate) fn new(index: Index) -> Self {
        Self { state: RwLock::new(State { index, ..State::default() }), ..Self::default() }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// Makes committed events readable and wakes the watchers they concern. `decide` runs under
    /// the same lock, so that nothing can come between the decision and its effect.
    pub(crate) fn apply_with<T>(&self, decide: impl FnOnce(&Index) -> (Vec<Arc<Event>>, T)) -> T {
        let mut woken = Vec::new();
        let out = {
            let mut state = self.state.write();
            let (events, out) = decide(&state.index);
            for event in events {
                let touched = state.watchers.iter().filter(|watcher| watcher.sees(&event.kv.key));
                woken.extend(touched.filter(|watcher| watcher.mark(event.revision())).cloned());
                state.index.apply(event);
            }
            let bound = self.bound.load(Ordering::Relaxed);
            if bound > 0 && state.index.history_bytes() > bound {
                self.crowded.notify_one();
            }
            out
        };
        woken.iter().for_each(|watcher| watcher.wake());
        out
    }

    /// Waits until history takes more than `bytes`; returns the revision that leaves half of that.
    pub(crate) async fn crowded(&self, bytes: usize) -> i64 {
        self.bound.store(bytes, Ordering::Relaxed);
        loop {
            {
                let state = self.state.read();
                if state.index.history_bytes() > bytes {
                    return state.index.revision_keeping(bytes / 2);
                }
            }
            self.crowded.notified().await;
        }
    }

    pub(crate) fn compact(&self, target: i64) {
        self.state.write().index.compact(target);
    }

    pub(crate) fn watch(self: &Arc<Self>, prefix: &str, after: i64) -> Result<WatchStream> {
        let watcher = {
            let mut state = self.state.write();
            let unseen =
                state.index.revisions_after(after, 1)?.next().map(|(revision, _)| revision);
            let watcher = Arc::new(Watcher::new(prefix, unseen));
            state.watchers.push(watcher.clone());
            watcher
        };
        let cursor = Cursor::new(self.clone(), watcher, after);
        Ok(Box::pin(stream::unfold(cursor, Cursor::next)))
    }

    pub(crate) fn forget(&self, watcher: &Arc<Watcher>) {
        self.state.write().watchers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    pub(crate) fn request_progress(&self) {
        let state = self.state.read();
        state.watchers.iter().for_each(|watcher| watcher.ask_for_progress());
    }

    /// Ends all watches with [`crate::Error::Closed`].
    pub(crate) fn close(&self) {
        let mut state = self.state.write();
        state.closed = true;
        state.watchers.iter().for_each(|watcher| watcher.wake());
    }
}

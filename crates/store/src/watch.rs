//! Watches: cursors into the history. The history itself is the queue, so a slow watcher costs
//! nothing until compaction overtakes it, and a watcher nothing concerns is never woken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::sync::Notify;

use crate::shared::Shared;
use crate::{Error, Event, Result, Update};

/// How many events a watcher looks at before it lets go of the lock.
const SCAN: usize = 4096;

/// Stands for "nothing unseen"; no event has this revision.
const NONE: i64 = 0;

/// What the writer knows about a watch. Changed only under the lock of the index.
#[derive(Debug)]
pub(crate) struct Watcher {
    prefix: String,
    /// The oldest matching revision the watcher has not been handed yet.
    unseen: AtomicI64,
    progress_wanted: AtomicBool,
    notify: Notify,
}

impl Watcher {
    pub(crate) fn new(prefix: &str, unseen: Option<i64>) -> Self {
        Self {
            prefix: prefix.to_owned(),
            unseen: AtomicI64::new(unseen.unwrap_or(NONE)),
            progress_wanted: AtomicBool::new(false),
            notify: Notify::new(),
        }
    }

    pub(crate) fn sees(&self, key: &str) -> bool {
        key.starts_with(&self.prefix)
    }

    /// Notes an unseen event; says whether it is the first one since the watcher looked.
    pub(crate) fn mark(&self, revision: i64) -> bool {
        let marked =
            self.unseen.compare_exchange(NONE, revision, Ordering::AcqRel, Ordering::Acquire);
        marked.is_ok()
    }

    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    pub(crate) fn ask_for_progress(&self) {
        self.progress_wanted.store(true, Ordering::Release);
        self.wake();
    }
}

/// The reading end of a watch.
pub(crate) struct Cursor {
    shared: Arc<Shared>,
    watcher: Arc<Watcher>,
    /// Everything up to here was handed out or does not concern this watch.
    seen: i64,
    buffer: VecDeque<Arc<Event>>,
    failed: bool,
}

enum Look {
    Found,
    /// More history waits to be looked at.
    Again,
    Idle {
        revision: i64,
    },
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, watcher: Arc<Watcher>, seen: i64) -> Self {
        Self { shared, watcher, seen, buffer: VecDeque::new(), failed: false }
    }

    pub(crate) async fn next(mut self) -> Option<(Result<Update>, Self)> {
        if self.failed {
            return None;
        }
        loop {
            if let Some(event) = self.buffer.pop_front() {
                return Some((Ok(Update::Event(event)), self));
            }
            match self.look() {
                Ok(Look::Found | Look::Again) => {}
                Ok(Look::Idle { revision }) => {
                    if self.watcher.progress_wanted.swap(false, Ordering::AcqRel) {
                        return Some((Ok(Update::Progress(revision)), self));
                    }
                    self.watcher.notify.notified().await;
                }
                Err(error) => {
                    self.failed = true;
                    return Some((Err(error), self));
                }
            }
        }
    }

    /// Fetches a batch of events. The lock keeps the writer out, so "idle" is true of the revision
    /// it comes with.
    fn look(&mut self) -> Result<Look> {
        let state = self.shared.read();
        let unseen = self.watcher.unseen.load(Ordering::Acquire);
        if unseen == NONE {
            if state.closed {
                return Err(Error::Closed);
            }
            return Ok(Look::Idle { revision: state.index.revision() });
        }
        // What lies between the last event handed out and the first unseen one concerns others.
        let after = self.seen.max(unseen - 1);
        let mut last = after;
        for (revision, key) in state.index.revisions_after(after, SCAN)? {
            last = revision;
            if self.watcher.sees(key) {
                self.buffer.extend(state.index.event(revision, key));
            }
        }
        self.seen = last;
        let done = last >= state.index.revision();
        self.watcher.unseen.store(if done { NONE } else { last + 1 }, Ordering::Release);
        Ok(if self.buffer.is_empty() { Look::Again } else { Look::Found })
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.shared.forget(&self.watcher);
    }
}

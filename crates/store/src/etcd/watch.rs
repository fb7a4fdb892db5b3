//! A watch on etcd that outlives its connection: it goes on behind the last revision delivered,
//! with whichever server answers, and ends only when that revision has been compacted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::connected::Connected;
use super::messages::{self, Happened, Keys, WatchAnswer};
use crate::grpc::{Duplex, Failure};
use crate::{Error, Event, Result, Update};

/// A server does not answer about progress while a watch has still to catch up.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How often an idle watch asks how far it is, so that it can resume from there.
const REFRESH: Duration = Duration::from_secs(30);

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// How others reach a watch.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    progress_wanted: AtomicBool,
    notify: Notify,
}

impl Ticket {
    pub(super) fn ask_for_progress(&self) {
        self.progress_wanted.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}

pub(super) struct Watching {
    server: Arc<Connected>,
    keys: Keys,
    /// Everything before this revision has been delivered.
    next: i64,
    live: Option<Duplex>,
    ticket: Arc<Ticket>,
    queue: VecDeque<Update>,
    pause: Duration,
    failed: bool,
}

impl Watching {
    pub(super) fn new(server: Arc<Connected>, keys: Keys, after: i64, ticket: Arc<Ticket>) -> Self {
        Self {
            server,
            keys,
            next: after + 1,
            live: None,
            ticket,
            queue: VecDeque::new(),
            pause: FIRST_PAUSE,
            failed: false,
        }
    }

    /// Starts the watch if a server is at hand; otherwise that is done when it is read from.
    pub(super) async fn start(&mut self) -> Result<()> {
        if let Err(failure) = self.connect().await {
            self.server.note(&failure);
            return Ok(());
        }
        // The first answer is that the watch stands, or why it cannot.
        let Some(live) = &mut self.live else { return Ok(()) };
        match tokio::time::timeout(LAST_PAUSE, live.next()).await {
            Ok(Ok(Some(message))) => self.take(WatchAnswer::read(message)?),
            Ok(_) => {
                self.live = None;
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        let start = messages::start_watch(&self.keys, self.next);
        self.live = Some(self.server.watches.stream(messages::WATCH, start).await?);
        Ok(())
    }

    pub(super) async fn next(mut self) -> Option<(Result<Update>, Self)> {
        if self.failed {
            return None;
        }
        loop {
            if let Some(update) = self.queue.pop_front() {
                return Some((Ok(update), self));
            }
            if let Err(error) = self.advance().await {
                self.failed = true;
                return Some((Err(error), self));
            }
        }
    }

    /// Goes one step further: connects, or takes in one answer, or asks for progress.
    async fn advance(&mut self) -> Result<()> {
        let Some(live) = &mut self.live else {
            return self.reconnect().await;
        };
        let wanted = self.ticket.progress_wanted.load(Ordering::Acquire);
        let patience = if wanted { ASK_AGAIN } else { REFRESH };
        let answer = tokio::select! {
            biased;
            answer = live.next() => answer,
            () = self.ticket.notify.notified() => {
                live.send(messages::ask_for_progress());
                return Ok(());
            }
            () = sleep_until(Instant::now() + patience) => {
                live.send(messages::ask_for_progress());
                return Ok(());
            }
        };
        match answer {
            Ok(Some(message)) => self.take(WatchAnswer::read(message)?),
            Ok(None) => self.interrupted("the server ended the stream").await,
            Err(failure) => self.interrupted(&failure.to_string()).await,
        }
    }

    async fn reconnect(&mut self) -> Result<()> {
        match self.connect().await {
            Ok(()) => {
                debug!(from = self.next, "watching etcd");
                if self.ticket.progress_wanted.load(Ordering::Acquire) {
                    self.ticket.notify.notify_one();
                }
            }
            Err(failure) => {
                self.server.note(&failure);
                tokio::time::sleep(self.pause).await;
                self.pause = (self.pause * 2).min(LAST_PAUSE);
            }
        }
        Ok(())
    }

    async fn interrupted(&mut self, why: &str) -> Result<()> {
        warn!(reason = why, from = self.next, "the watch on etcd was interrupted");
        if let Some(live) = self.live.take() {
            self.server.watches.leave(live.number).await;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        Ok(())
    }

    fn take(&mut self, answer: WatchAnswer) -> Result<()> {
        if answer.compact_revision > 0 {
            self.server.compacted_to(answer.compact_revision);
            let compacted = answer.compact_revision;
            return Err(Error::Compacted { requested: self.next - 1, compacted });
        }
        if answer.canceled {
            // What ended it is over, or another server does better.
            warn!(reason = answer.cancel_reason, from = self.next, "etcd ended the watch");
            self.live = None;
            return Ok(());
        }
        self.server.reached(answer.revision);
        self.pause = FIRST_PAUSE;
        if answer.created {
            return Ok(());
        }
        if answer.events.is_empty() {
            self.next = self.next.max(answer.revision + 1);
            if self.ticket.progress_wanted.swap(false, Ordering::AcqRel) {
                self.queue.push_back(Update::Progress(answer.revision));
            }
            return Ok(());
        }
        let mut last = self.next - 1;
        for happened in answer.events {
            last = last.max(happened.pair.mod_revision);
            self.queue.push_back(Update::Event(Arc::new(self.event(happened)?)));
        }
        self.next = last + 1;
        Ok(())
    }

    fn event(&self, happened: Happened) -> Result<Event> {
        let Happened { kind, pair, prev } = happened;
        let prev = prev.map(|pair| self.server.layout.to_ours(pair)).transpose()?;
        let mut kv = self.server.layout.to_ours(pair)?;
        if let (crate::EventKind::Delete, Some(prev)) = (kind, &prev) {
            // etcd leaves these out of the event of a deletion.
            kv.create_revision = prev.create_revision;
            kv.version = prev.version + 1;
        }
        Ok(Event { kind, kv, prev })
    }
}

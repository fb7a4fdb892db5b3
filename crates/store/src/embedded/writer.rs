//! The one thread that writes. Whatever was asked for while the disk was busy goes to it in one
//! transaction, so many writers share one flush; readers see a write when it is on the disk.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use super::checkpoint::Checkpoints;
use super::disk::{Disk, PAGE_SIZE};
use super::{Options, Place};
use crate::index::{Stage, Write};
use crate::lock::DirLock;
use crate::shared::Shared;
use crate::{Error, Event, Result};

/// How many writes share a transaction at most. More would make the first of them wait.
const BATCH: usize = 512;

/// After so many writes in one transaction it is busy, and the next waits for company: every flush costs processor time
/// beside the time of the disk, and under such a load nobody has the processors for themselves.
const BUSY: usize = 8;

/// How long it is waited for the next one, as long as there is a next one.
const COMPANY: Duration = Duration::from_micros(200);

/// How often that is done for one transaction.
const PATIENCE: usize = 5;

/// How many revisions a transaction of the compaction covers; writes go between two of them.
const COMPACTION_STEP: usize = 1000;

/// How many unused pages are given back at a time when a compaction is through.
const SHRINK_PAGES: u32 = 1024;

pub(super) type Reply<T> = oneshot::Sender<Result<T>>;

pub(super) enum Command {
    Write(Write, Reply<Arc<Event>>),
    Compact(i64, Reply<()>),
}

pub(super) struct Writer {
    pub(super) disk: Disk,
    pub(super) place: Place,
    pub(super) options: Options,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Receiver<Command>,
    pub(super) checkpoints: Checkpoints,
    pub(super) health: Arc<Mutex<Result<()>>>,
    /// Since when the disk has been at what it is at now.
    pub(super) busy: Arc<Mutex<Option<Instant>>>,
    /// Compactions asked for and not finished, in order.
    pub(super) compactions: Vec<(i64, Reply<()>)>,
    /// How many writes the last transaction held.
    pub(super) last: usize,
    /// Set when the disk failed in a way that leaves open what it holds.
    pub(super) suspect: bool,
    /// Given up last, after the file is closed.
    pub(super) _lock: DirLock,
}

type Waiting = (Write, Reply<Arc<Event>>);

impl Writer {
    /// Works until nobody can ask for anything any more.
    pub(super) fn run(mut self) {
        while let Some(batch) = self.next_batch() {
            if !batch.is_empty() {
                self.commit(batch);
            }
            if !self.compactions.is_empty() {
                self.compact_step();
            }
        }
        self.shared.close();
    }

    /// Collects what is asked for; waits only when there is nothing else to do, or when so much is going on that more
    /// is on its way.
    fn next_batch(&mut self) -> Option<Vec<Waiting>> {
        let mut batch = Vec::new();
        if self.compactions.is_empty() {
            let command = self.commands.recv().ok()?;
            self.take(command, &mut batch);
        }
        let rounds = if self.last >= BUSY { PATIENCE } else { 0 };
        for round in 0..=rounds {
            if round > 0 {
                std::thread::sleep(COMPANY);
            }
            let before = batch.len();
            let is_over = self.drain(&mut batch);
            if is_over && batch.is_empty() {
                return None;
            }
            if is_over || batch.len() >= BATCH || (round > 0 && batch.len() == before) {
                break;
            }
        }
        self.last = batch.len();
        Some(batch)
    }

    /// Takes what is there; says whether nobody can ask for anything any more.
    fn drain(&mut self, batch: &mut Vec<Waiting>) -> bool {
        while batch.len() < BATCH {
            match self.commands.try_recv() {
                Ok(command) => self.take(command, batch),
                Err(error) => return error == TryRecvError::Disconnected,
            }
        }
        false
    }

    fn take(&mut self, command: Command, batch: &mut Vec<Waiting>) {
        match command {
            Command::Write(write, reply) => batch.push((write, reply)),
            Command::Compact(revision, reply) => self.compactions.push((revision, reply)),
        }
    }

    fn commit(&mut self, batch: Vec<Waiting>) {
        if let Err(error) = self.recover() {
            self.report(Err(error.clone()));
            batch.into_iter().for_each(|(_, reply)| answer(reply, Err(error.clone())));
            return;
        }
        let mut stage = Stage::default();
        let outcomes: Vec<_> = {
            let state = self.shared.read();
            let judge = |(write, reply)| (stage.add(&state.index, write), reply);
            batch.into_iter().map(judge).collect()
        };
        let events = stage.events;
        let stored = if events.is_empty() { Ok(()) } else { self.store(&events) };
        // A conflict with a write that failed is none, so nobody is answered before it is known.
        for (outcome, reply) in outcomes {
            answer(reply, stored.clone().and(outcome));
        }
    }

    fn store(&mut self, events: &[Arc<Event>]) -> Result<()> {
        *self.busy.lock() = Some(Instant::now());
        let stored = self.disk.append(events);
        *self.busy.lock() = None;
        match &stored {
            Ok(()) => {
                self.shared.apply_with(|_| (events.to_vec(), ()));
                self.checkpoints.wrote(events.iter().map(|event| record_size(event)).sum());
            }
            Err(error) => self.suspect |= leaves_doubt(error),
        }
        self.report(stored.clone());
        stored
    }

    /// After a failure of the disk: opens the file anew and takes over what it holds after all.
    fn recover(&mut self) -> Result<()> {
        if !self.suspect {
            return Ok(());
        }
        self.disk = Disk::open(&self.place.dir, self.options.max_bytes)?;
        let known = self.shared.read().index.revision();
        let stored = self.disk.last_revision()?;
        if stored < known {
            let reason = format!("it ends at revision {stored}, {known} was acknowledged");
            return Err(Error::Damaged { path: self.place.file(), reason });
        }
        if stored > known {
            warn!(from = known, to = stored, "writes reported as failed were stored after all");
            let index = self.disk.load()?;
            let missed = index.revisions_after(known, usize::MAX)?;
            let missed = missed.filter_map(|(revision, key)| index.event(revision, key)).collect();
            self.shared.apply_with(|_| (missed, ()));
        }
        self.suspect = false;
        Ok(())
    }

    /// Goes one step further with the oldest compaction asked for.
    fn compact_step(&mut self) {
        let Some((target, _)) = self.compactions.first() else { return };
        let step = self.shared.read().index.plan_step(*target, COMPACTION_STEP);
        let more = self.recover().and_then(|()| match &step {
            Some(step) => self.disk.compact(step).map(|()| true),
            None => self.disk.shrink(SHRINK_PAGES),
        });
        if let (Some(step), Ok(_)) = (&step, &more) {
            self.shared.compact(step.compacted);
        }
        // Roughly: every victim touches a page, and so does every page moved.
        let pages = step.map_or(SHRINK_PAGES as usize, |step| step.victims.len());
        self.checkpoints.wrote(pages * PAGE_SIZE as usize);
        let outcome = match more {
            Ok(true) => return,
            Ok(false) => Ok(()),
            Err(error) => {
                self.suspect |= leaves_doubt(&error);
                Err(error)
            }
        };
        let (_, reply) = self.compactions.remove(0);
        answer(reply, outcome);
    }

    /// Keeps the state of health, and logs when it changes.
    fn report(&self, outcome: Result<()>) {
        let mut health = self.health.lock();
        match (&*health, &outcome) {
            (Ok(()), Err(error)) => error!(%error, "the store cannot write; reads go on"),
            (Err(_), Ok(())) => info!("the store can write again"),
            _ => {}
        }
        *health = outcome;
    }
}

/// Whether an error leaves open what reached the disk. A full disk or a missing permission undoes
/// the transaction and is over when its cause is.
fn leaves_doubt(error: &Error) -> bool {
    !matches!(error, Error::Full { .. })
}

fn record_size(event: &Event) -> usize {
    event.kv.key.len() + event.kv.value.weight() + 64
}

fn answer<T>(reply: Reply<T>, outcome: Result<T>) {
    // Whoever gave up waiting does not need the answer.
    drop(reply.send(outcome));
}

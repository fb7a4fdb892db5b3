//! The durable store of one machine: a log in SQLite, an index in memory, one writer.
//!
//! An acknowledged write survives the death of the process and of the machine. Reads never touch
//! the disk, so they go on whatever happens to it.

mod checkpoint;
mod disk;
pub(crate) mod file;
mod load;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt, ready};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tracing::{info, warn};

pub use disk::STORE_FILE;

use self::checkpoint::Checkpoints;
use self::disk::Disk;
use self::writer::{Command, Reply, Writer};
use crate::index::Write;
use crate::lock::DirLock;
use crate::shared::Shared;
use crate::{
    Error, Event, Expect, KeyValue, Packed, RangeQuery, RangeResult, Result, Store, WatchStream,
};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The size the store file may reach; writes beyond it fail with [`Error::Full`] until
    /// something was deleted and compacted.
    pub max_bytes: Option<u64>,
}

/// Where a store lies.
#[derive(Debug, Clone)]
struct Place {
    dir: PathBuf,
}

impl Place {
    fn file(&self) -> PathBuf {
        self.dir.join(STORE_FILE)
    }
}

/// A disk that takes longer for one write is not well; those who wait are told so by the health check.
const SLOW: Duration = Duration::from_secs(5);

/// A store in a directory of its own, which no second process can open. Dropping it waits for
/// what was asked for and closes the file.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    commands: Option<Sender<Command>>,
    health: Arc<Mutex<Result<()>>>,
    busy: Arc<Mutex<Option<Instant>>>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the store in `dir`, making it if there is none.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        Self::open_with(dir, Options::default())
    }

    pub fn open_with(dir: impl Into<PathBuf>, options: Options) -> Result<Self> {
        let place = Place { dir: dir.into() };
        let started = Instant::now();
        let lock = DirLock::acquire(&place.dir)?;
        let mut disk = Disk::open(&place.dir, options.max_bytes)?;
        let index = disk.load_and_tidy()?;
        log_opened(&place.dir, index.revision(), started);
        let shared = Arc::new(Shared::new(index));
        let health = Arc::new(Mutex::new(Ok(())));
        let busy = Arc::new(Mutex::new(None));
        let (sender, commands) = channel();
        let writer = Writer {
            disk,
            checkpoints: Checkpoints::start(&place.dir)?,
            place,
            options,
            shared: shared.clone(),
            commands,
            health: health.clone(),
            busy: busy.clone(),
            compactions: Vec::new(),
            last: 0,
            suspect: false,
            _lock: lock,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer.run())
            .map_err(|error| Error::io("start the writer thread", error))?;
        Ok(Self { shared, commands: Some(sender), health, busy, thread: Some(thread) })
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.as_ref().ok_or(Error::Closed)?;
        commands.send(command(reply)).map_err(|_| Error::Closed)?;
        answer.await.map_err(|_| Error::Closed)?
    }
}

fn log_opened(dir: &Path, rv: i64, started: Instant) {
    let elapsed_ms = started.elapsed().as_millis();
    info!(dir = %dir.display(), rv, elapsed_ms, "store opened");
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.commands = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the writer thread of the store panicked");
        }
    }
}

impl Store for Embedded {
    fn revision(&self) -> i64 {
        self.shared.read().index.revision()
    }

    fn compacted_revision(&self) -> i64 {
        self.shared.read().index.compacted()
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<i64>) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        ready(self.shared.read().index.get(key, at)).boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<RangeResult>> {
        ready(self.shared.read().index.range(&query)).boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Packed,
        expect: Expect,
    ) -> BoxFuture<'a, Result<KeyValue>> {
        async move {
            let write = Write::Put { key: key.into(), value, expect };
            let event = self.ask(|reply| Command::Write(write, reply)).await?;
            Ok(event.kv.clone())
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> BoxFuture<'a, Result<Arc<Event>>> {
        let write = Write::Delete { key: key.into(), expect };
        self.ask(|reply| Command::Write(write, reply)).boxed()
    }

    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, Result<WatchStream>> {
        ready(self.shared.watch(prefix, after)).boxed()
    }

    fn request_progress(&self) {
        self.shared.request_progress();
    }

    fn crowded(&self, bytes: usize) -> BoxFuture<'_, i64> {
        self.shared.crowded(bytes).boxed()
    }

    fn compact(&self, revision: i64) -> BoxFuture<'_, Result<()>> {
        self.ask(move |reply| Command::Compact(revision, reply)).boxed()
    }

    fn health(&self) -> Result<()> {
        self.health.lock().clone()?;
        let busy = self.busy.lock().map(|since| since.elapsed());
        match busy.filter(|busy| *busy > SLOW) {
            Some(busy) => {
                let reason = format!("the disk is at one write since {} s", busy.as_secs());
                Err(Error::Unavailable { reason })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;

    #[test]
    fn a_disk_that_hangs_is_said_to() {
        let dir = tempfile::tempdir().unwrap();
        let store = Embedded::open(dir.path()).unwrap();
        *store.busy.lock() = Some(Instant::now());
        assert!(store.health().is_ok());
        *store.busy.lock() = Instant::now().checked_sub(SLOW + Duration::from_secs(60));
        let why = store.health().unwrap_err().to_string();
        assert!(why.contains("the disk is at one write since 6"), "{why}");
        *store.busy.lock() = None;
        assert!(store.health().is_ok());
    }

    #[tokio::test]
    async fn what_the_disk_holds_after_a_failure_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let store = Embedded::open(dir.path()).unwrap();
        store.put("/a", "1".into(), Expect::Any).await.unwrap();
        // As if a write had been reported as failed after it reached the disk.
        let kv = KeyValue {
            key: "/b".into(),
            value: "stored after all".into(),
            create_revision: 3,
            mod_revision: 3,
            version: 1,
        };
        let unseen = Arc::new(Event { kind: EventKind::Put, kv: kv.clone(), prev: None });
        Disk::open(dir.path(), None).unwrap().append(&[unseen]).unwrap();
        let failed = store.put("/a", "2".into(), Expect::Any).await.unwrap_err();
        assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
        assert!(store.health().is_err());
        let stored = store.put("/a", "3".into(), Expect::Any).await.unwrap();
        assert_eq!(stored.mod_revision, 4);
        assert_eq!(store.get("/b", None).await.unwrap(), Some(kv));
        assert!(store.health().is_ok());
    }
}

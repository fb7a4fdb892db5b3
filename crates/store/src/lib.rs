//! A revisioned key-value store with the semantics of etcd: one global revision, compare-and-put,
//! ordered ranges at a revision, watches from a revision, compaction.
//!
//! It knows keys and bytes; what they mean is the business of the API server.
//!
//! | backend | for | durable |
//! |---|---|---|
//! | [`Memory`] | simulated members, tests | no |
//! | [`Embedded`] | one machine: a SQLite log on disk, everything readable from memory | yes |
//! | [`Etcd`] | several machines: a cluster of etcd, shared by processes | yes |

mod asked_once;
pub mod compaction;
mod embedded;
pub mod encryption;
mod error;
mod etcd;
mod grpc;
mod index;
mod lock;
mod memory;
mod shared;
mod snapshot;
mod watch;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
pub use karmada_packing::{Packed, Pattern, Patterns};

pub use embedded::{Embedded, Options, STORE_FILE};
pub use error::{Error, Result};
pub use etcd::{Etcd, EtcdOptions, TlsFiles};
pub use lock::{DirLock, LOCK_FILE};
pub use memory::Memory;
pub use snapshot::{Applied, Snapshot, raise_revision};

/// The revision of a store nobody has written to yet. Clients give 0 a meaning of its own, so it
/// is never a revision.
pub const FIRST_REVISION: i64 = 1;

/// One key with its value, as it stood at `mod_revision`.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Arc<str>,
    /// Shared, not copied: cloning a `KeyValue` is cheap. Empty in the event of a deletion.
    pub value: Packed,
    /// The revision at which the key came into being for the last time.
    pub create_revision: i64,
    /// The revision of the last write; of the deletion itself in the event of one.
    pub mod_revision: i64,
    /// How many writes the key has seen since it was created, starting at 1.
    pub version: i64,
}

/// Values may be secret, so only their length is shown.
impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, create_revision, mod_revision, version } = self;
        let length = value.len();
        write!(
            f,
            "{key}@{mod_revision} (created {create_revision}, version {version}, {length} bytes)"
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

/// One change. Every revision of a store is exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    pub kv: KeyValue,
    /// What stood there before, unless the key was created by this event.
    pub prev: Option<KeyValue>,
}

impl Event {
    pub fn revision(&self) -> i64 {
        self.kv.mod_revision
    }

    pub fn is_create(&self) -> bool {
        self.kind == EventKind::Put && self.prev.is_none()
    }
}

/// What a writer believes to be stored; a write goes through only if it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Any,
    Absent,
    ModRevision(i64),
}

/// Which keys to read, and of when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeQuery {
    /// The first key wanted.
    pub start: String,
    /// The first key no longer wanted; without it the range is open.
    pub end: Option<String>,
    /// How many items to return at most; 0 means all.
    pub limit: usize,
    /// The revision to read at; without it the newest one.
    pub at: Option<i64>,
}

impl RangeQuery {
    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: impl Into<String>) -> Self {
        let start = prefix.into();
        let end = prefix_end(&start);
        Self { start, end, limit: 0, at: None }
    }

    /// Goes on behind `key`, the last one of the page before.
    pub fn after(mut self, key: &str) -> Self {
        // No key lies between `key` and `key` followed by the smallest character.
        self.start = format!("{key}\0");
        self
    }

    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    pub fn at(mut self, revision: i64) -> Self {
        self.at = Some(revision);
        self
    }
}

/// The first string greater than every string that begins with `prefix`, if there is one.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let mut next = last as u32 + 1;
        // Surrogates are no characters.
        if (0xD800..0xE000).contains(&next) {
            next = 0xE000;
        }
        if let Some(next) = char::from_u32(next) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// A page of keys in byte order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeResult {
    pub items: Vec<KeyValue>,
    /// Whether the limit cut something off.
    pub more: bool,
    /// How many keys the range holds in all, those cut off included.
    pub count: usize,
    /// The revision the items are of; read further pages at it.
    pub revision: i64,
}

/// What a watch delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    Event(Arc<Event>),
    /// Everything up to this revision has been delivered. Answers [`Store::request_progress`].
    Progress(i64),
}

/// The updates of one watch, in order of revision. It ends after its first error.
pub type WatchStream = BoxStream<'static, Result<Update>>;

/// A revisioned key-value store. Reads at or above the compacted revision always succeed.
pub trait Store: Send + Sync + 'static {
    /// Returns the newest revision this process knows of.
    fn revision(&self) -> i64;

    /// Returns a revision that no write is newer than that anyone was told of before the call,
    /// by whichever process it was made.
    fn current(&self) -> BoxFuture<'_, Result<i64>> {
        let revision = self.revision();
        Box::pin(std::future::ready(Ok(revision)))
    }

    /// Whether reading history costs next to nothing.
    fn replays_cheaply(&self) -> bool {
        true
    }

    /// Returns the oldest revision that can still be read at or watched from.
    fn compacted_revision(&self) -> i64;

    fn get<'a>(&'a self, key: &'a str, at: Option<i64>) -> BoxFuture<'a, Result<Option<KeyValue>>>;

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<RangeResult>>;

    /// Writes a key and returns it with its new revision. When it returns, the write is as durable
    /// as the backend promises, and every read and watch knows it.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Packed,
        expect: Expect,
    ) -> BoxFuture<'a, Result<KeyValue>>;

    /// Deletes a key and returns the event. A key that is not there is a conflict with no current
    /// value.
    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> BoxFuture<'a, Result<Arc<Event>>>;

    /// Delivers every change of a key under `prefix` with a revision greater than `after`.
    ///
    /// A watcher holds no writer up: it reads from the history, and fails with
    /// [`Error::Compacted`] if compaction overtakes it. `after` may lie in the future.
    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, Result<WatchStream>>;

    /// Makes every watch say, once it has delivered all there is, how far it has come.
    fn request_progress(&self);

    /// Gives up the history below `revision`. Compacting to a revision already gone is no error.
    fn compact(&self, revision: i64) -> BoxFuture<'_, Result<()>>;

    /// Waits until the history takes more than `bytes` of memory, and returns the revision to compact
    /// to so that half of them are left. Backends that keep no history in memory never answer.
    fn crowded(&self, bytes: usize) -> BoxFuture<'_, i64> {
        let _ = bytes;
        Box::pin(std::future::pending())
    }

    /// Says why writes fail at present, if they do.
    fn health(&self) -> Result<()> {
        Ok(())
    }

    /// Says the same of what else the store needs, by the names of Kubernetes' health checks.
    fn checks(&self) -> Vec<(&'static str, Result<()>)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_ends_right_behind_the_last_key_of_the_prefix() {
        let cases = [
            ("/registry/pods/", Some("/registry/pods0")),
            ("a", Some("b")),
            ("\u{D7FF}", Some("\u{E000}")),
            ("a\u{10FFFF}", Some("b")),
            ("\u{10FFFF}", None),
            ("", None),
        ];
        for (prefix, end) in cases {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
        }
    }
}

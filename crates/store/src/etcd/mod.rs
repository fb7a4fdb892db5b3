//! The store of several machines: etcd, reached by a client of our own. Reads go to etcd and are
//! never older than the last write anyone was told of; one watch per caller outlives connections.
//!
//! Nothing is kept here. Whoever reads much should follow a watch and ask [`Store::current`] how
//! far it has to have come.

mod connected;
mod failure;
mod layout;
mod messages;
mod tls;
mod watch;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt};
use futures::stream;
use parking_lot::Mutex;
use tracing::info;

pub use self::tls::TlsFiles;

use self::connected::{Connected, READ_PATIENCE};
use self::failure::{explain, is_compacted};
use self::messages::{Change, Condition, Keys, Range, TxnAnswer};
use self::watch::{Ticket, Watching};
use crate::asked_once::AskedOnce;
use crate::{
    Error, Event, EventKind, Expect, FIRST_REVISION, KeyValue, Packed, RangeQuery, RangeResult,
    Result, Store, WatchStream,
};

/// How many keys are read at a time.
const PAGE: i64 = 2000;

/// Which etcd to use, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdOptions {
    /// Addresses such as `https://10.0.0.1:2379`.
    pub servers: Vec<String>,
    /// What all keys in etcd begin with.
    pub prefix: String,
    /// What keys begin with for users of the store; it is left out in etcd.
    pub local_prefix: String,
    pub tls: TlsFiles,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            prefix: "/registry".to_owned(),
            local_prefix: "/registry".to_owned(),
            tls: TlsFiles::default(),
        }
    }
}

/// A store in etcd. Other processes may use the same one.
#[derive(Debug)]
pub struct Etcd {
    server: Arc<Connected>,
    tickets: Mutex<Vec<Weak<Ticket>>>,
    /// The newest revision.
    newest: AskedOnce<i64>,
}

impl Etcd {
    /// Connects, waiting for the servers if they are not there yet.
    pub async fn open(options: &EtcdOptions) -> Result<Self> {
        let server = Arc::new(Connected::new(options)?);
        let status = server.status().await?;
        check_version(&status.version)?;
        let store = Self { server, tickets: Mutex::default(), newest: AskedOnce::default() };
        let revision = store.server.newest_revision().await?;
        store.server.learn_compacted(FIRST_REVISION).await?;
        let servers = options.servers.join(",");
        info!(servers, version = &*status.version, rv = revision, "etcd connected");
        Ok(store)
    }

    async fn write(
        &self,
        key: &str,
        condition: Option<Condition>,
        change: Change,
    ) -> Result<TxnAnswer> {
        let key = self.server.layout.to_theirs(key)?;
        let message = messages::transaction(&key, condition, change);
        let answer = TxnAnswer::read(self.server.write(messages::TXN, message).await?)?;
        self.server.reached(answer.revision);
        if answer.succeeded {
            return Ok(answer);
        }
        let current = answer.pairs.into_iter().next();
        Err(Error::conflict(current.map(|pair| self.server.layout.to_ours(pair)).transpose()?))
    }

    /// Reads page after page of one revision.
    async fn pages(&self, query: &RangeQuery) -> Result<RangeResult> {
        let keys = self.server.layout.keys(&query.start, query.end.as_deref());
        let mut result = RangeResult { revision: query.at.unwrap_or(0), ..RangeResult::default() };
        if keys.start >= keys.end {
            result.revision = match query.at {
                Some(revision) => revision,
                None => self.server.newest_revision().await?,
            };
            return Ok(result);
        }
        let wanted = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let mut rest = Range { keys, revision: result.revision, ..Range::default() };
        loop {
            let left = wanted - result.items.len() as i64;
            rest.limit = if wanted == 0 { PAGE } else { left.min(PAGE) };
            let answer = self.server.range(&rest).await?;
            if result.items.is_empty() {
                result.count = usize::try_from(answer.count).unwrap_or_default();
            }
            if rest.revision == 0 {
                rest.revision = answer.revision;
                result.revision = answer.revision;
            }
            let last = answer.pairs.last().map(|pair| pair.key.to_vec());
            for pair in answer.pairs {
                result.items.push(self.server.layout.to_ours(pair)?);
            }
            let full = wanted > 0 && result.items.len() as i64 >= wanted;
            match last {
                Some(last) if answer.more && !full => {
                    rest.keys.start = last;
                    rest.keys.start.push(0);
                }
                _ => {
                    result.more = answer.more;
                    return Ok(result);
                }
            }
        }
    }
}

/// Refuses servers whose watches may claim progress they have not made.
fn check_version(version: &str) -> Result<()> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u64>().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    let fine = match (part(), part(), part()) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) >= (3, 6),
    };
    if fine {
        return Ok(());
    }
    let why = format!("this is etcd {version}; 3.4.31, 3.5.13, 3.6.0 or a later one is needed");
    Err(Error::io("use etcd", std::io::Error::other(why)))
}

impl Store for Etcd {
    fn revision(&self) -> i64 {
        self.server.revision.load(Ordering::Acquire)
    }

    fn compacted_revision(&self) -> i64 {
        self.server.compacted.load(Ordering::Acquire)
    }

    fn current(&self) -> BoxFuture<'_, Result<i64>> {
        self.newest.ask(|| self.server.newest_revision()).boxed()
    }

    fn replays_cheaply(&self) -> bool {
        false
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<i64>) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        async move {
            let keys = Keys::one(&self.server.layout.to_theirs(key)?);
            let range = Range { keys, revision: at.unwrap_or(0), ..Range::default() };
            let answer = self.server.range(&range).await?;
            let found = answer.pairs.into_iter().next();
            found.map(|pair| self.server.layout.to_ours(pair)).transpose()
        }
        .boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<RangeResult>> {
        async move {
            match self.pages(&query).await {
                // Pages of the newest revision, forgotten while they were read.
                Err(Error::Compacted { .. }) if query.at.is_none() => self.pages(&query).await,
                result => result,
            }
        }
        .boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Packed,
        expect: Expect,
    ) -> BoxFuture<'a, Result<KeyValue>> {
        async move {
            let condition = match expect {
                Expect::Any => None,
                Expect::Absent => Some(Condition::ModRevision(0)),
                Expect::ModRevision(revision) => Some(Condition::ModRevision(revision)),
            };
            let answer = self.write(key, condition, Change::Put(value.to_bytes())).await?;
            let stored = answer.pairs.into_iter().next().unwrap_or_default();
            Ok(KeyValue { value, ..self.server.layout.to_ours(stored)? })
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> BoxFuture<'a, Result<Arc<Event>>> {
        async move {
            let condition = match expect {
                Expect::Any => Condition::Exists,
                // What is not there cannot be deleted, so this can only be a conflict.
                Expect::Absent => {
                    return Err(Error::conflict(self.get(key, None).await?));
                }
                Expect::ModRevision(revision) => Condition::ModRevision(revision),
            };
            let answer = self.write(key, Some(condition), Change::Delete).await?;
            let prev = answer.pairs.into_iter().next().unwrap_or_default();
            let prev = self.server.layout.to_ours(prev)?;
            let kv = KeyValue {
                value: Packed::default(),
                mod_revision: answer.revision,
                version: prev.version + 1,
                ..prev.clone()
            };
            Ok(Arc::new(Event { kind: EventKind::Delete, kv, prev: Some(prev) }))
        }
        .boxed()
    }

    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, Result<WatchStream>> {
        let query = RangeQuery::prefix(prefix);
        async move {
            let compacted = self.compacted_revision();
            if after < compacted {
                return Err(Error::Compacted { requested: after, compacted });
            }
            let keys = self.server.layout.keys(&query.start, query.end.as_deref());
            let ticket = Arc::new(Ticket::default());
            let mut watching = Watching::new(self.server.clone(), keys, after, ticket.clone());
            watching.start().await?;
            let mut tickets = self.tickets.lock();
            tickets.retain(|ticket| ticket.strong_count() > 0);
            tickets.push(Arc::downgrade(&ticket));
            drop(tickets);
            let updates: WatchStream = Box::pin(stream::unfold(watching, Watching::next));
            Ok(updates)
        }
        .boxed()
    }

    fn request_progress(&self) {
        let tickets = self.tickets.lock();
        tickets.iter().filter_map(Weak::upgrade).for_each(|ticket| ticket.ask_for_progress());
    }

    fn compact(&self, revision: i64) -> BoxFuture<'_, Result<()>> {
        async move {
            let target = match revision > self.revision() {
                true => self.server.newest_revision().await?.min(revision),
                false => revision,
            };
            if target <= self.compacted_revision() {
                return Ok(());
            }
            let message = messages::compaction(target);
            let outcome = self.server.retry(messages::COMPACT, message, READ_PATIENCE).await;
            match outcome {
                Ok(_) => self.server.compacted_to(target),
                // Somebody else was faster.
                Err(failure) if is_compacted(&failure) => {
                    self.server.learn_compacted(target).await?;
                }
                Err(failure) => return Err(explain(failure)),
            }
            Ok(())
        }
        .boxed()
    }

    fn health(&self) -> Result<()> {
        self.server.health.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_that_are_honest_about_progress_are_used() {
        for (version, fine) in [
            ("3.7.3", true),
            ("3.6.0-rc.1", true),
            ("3.5.13", true),
            ("3.5.12", false),
            ("3.4.31", true),
            ("3.4.23", false),
            ("4.0.0", true),
            ("2.3.8", false),
        ] {
            assert_eq!(check_version(version).is_ok(), fine, "{version}");
        }
    }
}

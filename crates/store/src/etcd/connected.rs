//! The servers as one: requests go to whichever answers, what may be tried again is, and what was
//! learned on the way (the newest revision, where history begins, health) is kept for all.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{error, info};

use super::EtcdOptions;
use super::failure::{explain, is_compacted, is_future, is_passing, is_undone};
use super::layout::Layout;
use super::messages::{self, Keys, Range, RangeAnswer, StatusAnswer, WatchAnswer};
use super::tls::{self, TlsFiles};
use crate::grpc::{Channel, Endpoint, Failure};
use crate::{Error, FIRST_REVISION, Result};

/// How long a server may take to answer a read before another one is asked.
const READ: Duration = Duration::from_secs(4);
/// How long reads are tried in all.
pub(super) const READ_PATIENCE: Duration = Duration::from_secs(12);
/// How long a write is waited for. Servers give up sooner and say so.
const WRITE: Duration = Duration::from_secs(15);
/// How long writes that reached nobody are tried in all.
const WRITE_PATIENCE: Duration = Duration::from_secs(12);
/// How long the servers may be away when the store is opened.
const OPEN_PATIENCE: Duration = Duration::from_secs(60);

/// A server without a leader says so at once instead of holding the call.
const HEADERS: &[(&str, &str)] = &[("hasleader", "true")];

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// What watches and requests share.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) requests: Channel,
    /// Watches have a connection of their own: what they are sent holds no request up.
    pub(super) watches: Channel,
    pub(super) layout: Layout,
    pub(super) revision: AtomicI64,
    pub(super) compacted: AtomicI64,
    pub(super) health: Mutex<Result<()>>,
}

impl Connected {
    pub(super) fn new(options: &EtcdOptions) -> Result<Self> {
        let secure = options.tls != TlsFiles::default();
        let read = |server: &String| Endpoint::parse(server, secure);
        let endpoints: Result<Vec<_>, String> = options.servers.iter().map(read).collect();
        let endpoints = endpoints.and_then(|endpoints| match endpoints.is_empty() {
            true => Err("no server is named".to_owned()),
            false => Ok(endpoints),
        });
        let endpoints =
            endpoints.map_err(|why| Error::io("find etcd", std::io::Error::other(why)))?;
        let tls = Some(tls::configure(&options.tls)?);
        Ok(Self {
            requests: Channel::new(endpoints.clone(), tls.clone()).with_headers(HEADERS),
            watches: Channel::new(endpoints, tls).with_headers(HEADERS),
            layout: Layout::new(&options.local_prefix, &options.prefix),
            revision: AtomicI64::new(FIRST_REVISION),
            compacted: AtomicI64::new(FIRST_REVISION),
            health: Mutex::new(Ok(())),
        })
    }

    pub(super) fn reached(&self, revision: i64) {
        self.revision.fetch_max(revision, Ordering::AcqRel);
    }

    pub(super) fn compacted_to(&self, revision: i64) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    /// Remembers why etcd cannot be used, and logs when that changes.
    pub(super) fn note(&self, failure: &Failure) {
        let mut health = self.health.lock();
        if health.is_ok() {
            error!(reason = %failure, "etcd does not answer; what it holds cannot be read or written");
        }
        *health = Err(Error::Unavailable { reason: failure.to_string() });
    }

    pub(super) fn note_success(&self) {
        let mut health = self.health.lock();
        if health.is_err() {
            info!("etcd answers again");
        }
        *health = Ok(());
    }

    pub(super) async fn status(&self) -> Result<StatusAnswer> {
        let answer = self.retry(messages::STATUS, Bytes::new(), OPEN_PATIENCE).await;
        let answer = StatusAnswer::read(answer.map_err(explain)?)?;
        self.reached(answer.revision);
        Ok(answer)
    }

    pub(super) async fn range(&self, range: &Range) -> Result<RangeAnswer> {
        let answered = self.retry(messages::RANGE, range.encode(), READ_PATIENCE).await;
        let answer = match answered {
            Ok(answer) => RangeAnswer::read(answer)?,
            Err(failure) if is_compacted(&failure) => {
                let compacted = self.learn_compacted(range.revision).await?;
                return Err(Error::Compacted { requested: range.revision, compacted });
            }
            Err(failure) if is_future(&failure) => {
                let current = self.newest_revision().await?;
                return Err(Error::FutureRevision { requested: range.revision, current });
            }
            Err(failure) => return Err(explain(failure)),
        };
        self.reached(answer.revision);
        Ok(answer)
    }

    /// The revision of the cluster: no write that anyone was told of before is newer.
    pub(super) async fn newest_revision(&self) -> Result<i64> {
        let keys = Keys { start: self.layout.whole().start, end: Vec::new() };
        let nothing = Range { keys, only_count: true, ..Range::default() };
        let answered = self.retry(messages::RANGE, nothing.encode(), READ_PATIENCE).await;
        let revision = RangeAnswer::read(answered.map_err(explain)?)?.revision;
        self.reached(revision);
        Ok(revision)
    }

    /// Finds out where history begins, given a revision that may lie before.
    pub(super) async fn learn_compacted(&self, suspect: i64) -> Result<i64> {
        let known = self.compacted.load(Ordering::Acquire);
        if suspect < known {
            return Ok(known);
        }
        let keys = Keys { start: self.layout.whole().start, end: Vec::new() };
        let revision = suspect.max(FIRST_REVISION);
        let probe = Range { keys: keys.clone(), revision, only_count: true, ..Range::default() };
        match self.retry(messages::RANGE, probe.encode(), READ_PATIENCE).await {
            Ok(_) => return Ok(known),
            Err(failure) if is_compacted(&failure) => {}
            Err(failure) => return Err(explain(failure)),
        }
        // Only a watch is told the number.
        let start = messages::start_watch(&keys, revision);
        let told = async {
            let mut duplex = self.watches.stream(messages::WATCH, start).await.map_err(explain)?;
            while let Some(message) = duplex.next().await.map_err(explain)? {
                let answer = WatchAnswer::read(message)?;
                if answer.compact_revision > 0 {
                    self.compacted_to(answer.compact_revision);
                    break;
                }
            }
            Ok::<_, Error>(())
        };
        // What it says is welcome, not needed.
        if let Ok(told) = tokio::time::timeout(READ, told).await {
            told?;
        }
        self.compacted_to(revision + 1);
        Ok(self.compacted.load(Ordering::Acquire))
    }

    /// Asks one server after the other until one answers. For what changes nothing.
    pub(super) async fn retry(
        &self,
        path: &'static str,
        message: Bytes,
        patience: Duration,
    ) -> Result<Bytes, Failure> {
        let deadline = Instant::now() + patience;
        self.attempt(
            deadline,
            || self.requests.call(path, message.clone(), READ),
            |failure| matches!(failure, Failure::Lost(_)) || is_passing(failure),
        )
        .await
    }

    /// Writes. It is tried again only while nobody can have acted on it.
    pub(super) async fn write(&self, path: &'static str, message: Bytes) -> Result<Bytes> {
        let deadline = Instant::now() + WRITE_PATIENCE;
        let call = || self.requests.call(path, message.clone(), WRITE);
        self.attempt(deadline, call, is_undone).await.map_err(|failure| match &failure {
            Failure::Lost(_) => Error::Ambiguous { reason: failure.to_string() },
            failure if is_passing(failure) && !is_undone(failure) => {
                Error::Ambiguous { reason: failure.to_string() }
            }
            _ => explain(failure),
        })
    }

    pub(super) async fn attempt<F: Future<Output = Result<Bytes, Failure>>>(
        &self,
        deadline: Instant,
        call: impl Fn() -> F,
        may_try_again: impl Fn(&Failure) -> bool,
    ) -> Result<Bytes, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match call().await {
                Ok(answer) => {
                    self.note_success();
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let unavailable = matches!(failure, Failure::Unsent(_) | Failure::Lost(_));
            if unavailable || is_passing(&failure) {
                self.note(&failure);
            }
            if !may_try_again(&failure) || Instant::now() + pause > deadline {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

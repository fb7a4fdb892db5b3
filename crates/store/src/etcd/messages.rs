//! The messages of etcd's API that the store exchanges, and nothing more of them. Numbers of
//! fields are those of etcd's public definition.

use std::sync::Arc;

use bytes::Bytes;

use crate::EventKind;
use crate::grpc::wire::{Content, Malformed, Writer, read};

pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const TXN: &str = "/etcdserverpb.KV/Txn";
pub(super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
pub(super) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

/// Keys from `start` up to but without `end`; without an end, the one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) start: Vec<u8>,
    pub(super) end: Vec<u8>,
}

impl Keys {
    pub(super) fn one(key: &str) -> Self {
        Self { start: key.as_bytes().to_vec(), end: Vec::new() }
    }

    fn write(&self) -> Writer {
        Writer::default().bytes(1, &self.start).bytes(2, &self.end)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Range {
    pub(super) keys: Keys,
    pub(super) limit: i64,
    /// 0 for the newest.
    pub(super) revision: i64,
    pub(super) without_values: bool,
    pub(super) only_count: bool,
}

impl Range {
    fn write(&self) -> Writer {
        let keys = self.keys.write().number(3, self.limit).number(4, self.revision);
        keys.flag(8, self.without_values).flag(9, self.only_count)
    }

    pub(super) fn encode(&self) -> Bytes {
        self.write().finish()
    }
}

/// What has to be so for a transaction to do what it is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Condition {
    /// The key was last written at this revision; 0 if it must not be there.
    ModRevision(i64),
    Exists,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Put(Bytes),
    Delete,
}

/// A write to one key, which answers with what is there afterwards or was in the way.
pub(super) fn transaction(key: &str, condition: Option<Condition>, change: Change) -> Bytes {
    const EQUAL: i64 = 0;
    const GREATER: i64 = 1;
    const CREATED: i64 = 1;
    const MODIFIED: i64 = 2;
    let mut message = Writer::default();
    if let Some(condition) = condition {
        // A number that is left out is compared with as 0.
        let (result, target, field, number) = match condition {
            Condition::ModRevision(revision) => (EQUAL, MODIFIED, 6, revision),
            Condition::Exists => (GREATER, CREATED, 5, 0),
        };
        let compare = Writer::default().number(1, result).number(2, target);
        message = message.message(1, compare.bytes(3, key.as_bytes()).number(field, number));
    }
    let keys = Keys::one(key);
    let range = |without_values| Range { keys: keys.clone(), without_values, ..Range::default() };
    let operation = |field, body| Writer::default().message(field, body);
    match change {
        Change::Put(value) => {
            let put = Writer::default().bytes(1, key.as_bytes()).bytes(2, &value);
            message = message.message(2, operation(2, put));
            message = message.message(2, operation(1, range(true).write()));
        }
        Change::Delete => {
            message = message.message(2, operation(3, keys.write().flag(3, true)));
        }
    }
    message.message(3, operation(1, range(false).write())).finish()
}

pub(super) fn compaction(revision: i64) -> Bytes {
    Writer::default().number(1, revision).finish()
}

pub(super) fn start_watch(keys: &Keys, from: i64) -> Bytes {
    let create = keys.write().number(3, from).flag(6, true);
    Writer::default().message(1, create).finish()
}

pub(super) fn ask_for_progress() -> Bytes {
    Writer::default().message(3, Writer::default()).finish()
}

/// A key as etcd has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) key: Bytes,
    pub(super) value: Bytes,
    pub(super) create_revision: i64,
    pub(super) mod_revision: i64,
    pub(super) version: i64,
}

impl Pair {
    fn read(message: Bytes) -> Result<Self, Malformed> {
        let mut pair = Self::default();
        read(message, |field, content| {
            match field {
                1 => pair.key = content.bytes(),
                2 => pair.create_revision = content.number(),
                3 => pair.mod_revision = content.number(),
                4 => pair.version = content.number(),
                5 => pair.value = content.bytes(),
                _ => {}
            }
            Ok(())
        })?;
        Ok(pair)
    }

    pub(super) fn key(&self) -> Result<&str, Malformed> {
        std::str::from_utf8(&self.key).map_err(|_| Malformed("a key is not UTF-8"))
    }
}

/// The revision of the cluster that every answer carries.
fn read_header(content: Content) -> Result<i64, Malformed> {
    let mut revision = 0;
    read(content.bytes(), |field, content| {
        if field == 3 {
            revision = content.number();
        }
        Ok(())
    })?;
    Ok(revision)
}

#[derive(Debug, Default)]
pub(super) struct RangeAnswer {
    pub(super) revision: i64,
    pub(super) pairs: Vec<Pair>,
    pub(super) more: bool,
    pub(super) count: i64,
}

impl RangeAnswer {
    pub(super) fn read(message: Bytes) -> Result<Self, Malformed> {
        let mut answer = Self::default();
        read(message, |field, content| {
            match field {
                1 => answer.revision = read_header(content)?,
                2 => answer.pairs.push(Pair::read(content.bytes())?),
                3 => answer.more = content.flag(),
                4 => answer.count = content.number(),
                _ => {}
            }
            Ok(())
        })?;
        Ok(answer)
    }
}

#[derive(Debug, Default)]
pub(super) struct TxnAnswer {
    pub(super) revision: i64,
    pub(super) succeeded: bool,
    /// The pairs read or deleted on the way.
    pub(super) pairs: Vec<Pair>,
}

impl TxnAnswer {
    pub(super) fn read(message: Bytes) -> Result<Self, Malformed> {
        let mut answer = Self::default();
        read(message, |field, content| {
            match field {
                1 => answer.revision = read_header(content)?,
                2 => answer.succeeded = content.flag(),
                3 => answer.take_operation(content.bytes())?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(answer)
    }

    fn take_operation(&mut self, message: Bytes) -> Result<(), Malformed> {
        read(message, |field, content| {
            match field {
                1 => self.pairs.extend(RangeAnswer::read(content.bytes())?.pairs),
                3 => read(content.bytes(), |field, content| {
                    if field == 3 {
                        self.pairs.push(Pair::read(content.bytes())?);
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })
    }
}

#[derive(Debug)]
pub(super) struct Happened {
    pub(super) kind: EventKind,
    pub(super) pair: Pair,
    pub(super) prev: Option<Pair>,
}

impl Happened {
    fn read(message: Bytes) -> Result<Self, Malformed> {
        let mut event = Self { kind: EventKind::Put, pair: Pair::default(), prev: None };
        read(message, |field, content| {
            match field {
                1 if content.flag() => event.kind = EventKind::Delete,
                2 => event.pair = Pair::read(content.bytes())?,
                3 => event.prev = Some(Pair::read(content.bytes())?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(event)
    }
}

#[derive(Debug, Default)]
pub(super) struct WatchAnswer {
    pub(super) revision: i64,
    pub(super) created: bool,
    pub(super) canceled: bool,
    pub(super) compact_revision: i64,
    pub(super) cancel_reason: String,
    pub(super) events: Vec<Happened>,
}

impl WatchAnswer {
    pub(super) fn read(message: Bytes) -> Result<Self, Malformed> {
        let mut answer = Self::default();
        read(message, |field, content| {
            match field {
                1 => answer.revision = read_header(content)?,
                3 => answer.created = content.flag(),
                4 => answer.canceled = content.flag(),
                5 => answer.compact_revision = content.number(),
                6 => answer.cancel_reason = String::from_utf8_lossy(&content.bytes()).into_owned(),
                11 => answer.events.push(Happened::read(content.bytes())?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(answer)
    }
}

#[derive(Debug, Default)]
pub(super) struct StatusAnswer {
    pub(super) revision: i64,
    pub(super) version: Arc<str>,
}

impl StatusAnswer {
    pub(super) fn read(message: Bytes) -> Result<Self, Malformed> {
        let mut answer = Self::default();
        read(message, |field, content| {
            match field {
                1 => answer.revision = read_header(content)?,
                2 => answer.version = String::from_utf8_lossy(&content.bytes()).into(),
                _ => {}
            }
            Ok(())
        })?;
        Ok(answer)
    }
}

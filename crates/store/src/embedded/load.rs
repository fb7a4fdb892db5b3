//! Reads the whole store file into an index when it is opened, on all processors, and checks every
//! record on the way.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::{Connection, OpenFlags};

use super::disk::{checksum, connect_with, explain};
use crate::index::{Index, by_key};
use crate::{Error, Event, EventKind, KeyValue, Packed, Pattern, Result};

/// In how many parts the file is read. Old records lie far apart and new ones close together, so that parts
/// differ in size.
const PARTS: i64 = 64;

/// Parts that span fewer revisions are not worth a second thread.
const SMALL_PART: i64 = 32;

/// How many threads read at most.
const READERS: usize = 8;

/// Reads what the file holds through a connection and as many others as it takes, and which patterns that takes.
/// Nobody writes to it meanwhile.
pub(super) fn load(
    conn: &Connection,
    path: &Path,
    may_be_packed: bool,
) -> Result<(Index, HashSet<i64>)> {
    let file = File::survey(conn, path, may_be_packed)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let helpers = if file.share < SMALL_PART { 0 } else { processors.min(READERS) - 1 };
    let Part { resting, mut history, used } = std::thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(|| file.help())).collect();
        let mut all = file.read(conn)?;
        for helper in helpers {
            let whole = |panic| std::panic::resume_unwind(panic);
            let mut part = helper.join().unwrap_or_else(whole)?;
            all.resting.append(&mut part.resting);
            all.history.append(&mut part.history);
            all.used.extend(part.used);
        }
        Ok::<_, Error>(all)
    })?;
    history.sort_by_key(|(_, kv)| kv.mod_revision);
    let mut index = Index::resting_at(file.compacted, resting);
    for (kind, kv) in history {
        let expected = index.revision() + 1;
        if kv.mod_revision != expected {
            return Err(file.damaged(format!("the record of revision {expected} is missing")));
        }
        let prev = index.latest(&kv.key);
        index.apply(Arc::new(Event { kind, kv, prev }));
    }
    Ok((index, used))
}

/// A file that several threads read, and how far they are.
struct File<'a> {
    path: &'a Path,
    compacted: i64,
    first: i64,
    last: i64,
    /// How many revisions a part spans.
    share: i64,
    /// The number of the next part to read.
    next: AtomicI64,
    patterns: Option<HashMap<i64, Arc<Pattern>>>,
}

/// What one thread has read.
#[derive(Default)]
struct Part {
    /// The states of keys that have not been written since the last compaction, by their keys.
    resting: Vec<KeyValue>,
    /// Everything since.
    history: Vec<(EventKind, KeyValue)>,
    /// The patterns something is packed by.
    used: HashSet<i64>,
}

impl<'a> File<'a> {
    fn survey(conn: &Connection, path: &'a Path, may_be_packed: bool) -> Result<Self> {
        let sql = "SELECT number, (SELECT min(rev) FROM log), (SELECT max(rev) FROM log) \
                   FROM meta WHERE name = 'compacted'";
        let numbers = conn.query_row(sql, [], |row| {
            let last: Option<i64> = row.get(2)?;
            Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(1), last.unwrap_or(0)))
        });
        let (compacted, first, last) =
            numbers.map_err(|error| explain(path, "read the store file", error))?;
        let share = last.saturating_sub(first) / PARTS + 1;
        let patterns = may_be_packed.then(|| read_patterns(conn, path)).transpose()?;
        Ok(Self { path, compacted, first, last, share, next: AtomicI64::new(0), patterns })
    }

    /// Reads through a connection of its own.
    fn help(&self) -> Result<Part> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        self.read(&connect_with(self.path, flags)?)
    }

    /// Reads until nothing is left.
    fn read(&self, conn: &Connection) -> Result<Part> {
        let mut part = Part::default();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let from = self.first.saturating_add(self.share.saturating_mul(number));
            if from > self.last {
                break;
            }
            self.read_some(conn, from, &mut part)?;
        }
        // What is sorted here need only be merged by the one thread that puts all of it together.
        part.resting.sort_by(by_key);
        Ok(part)
    }

    fn read_some(&self, conn: &Connection, from: i64, part: &mut Part) -> Result<()> {
        let failed = |error| explain(self.path, "read the store file", error);
        let sql = match &self.patterns {
            Some(_) => {
                "SELECT rev, key, created, version, value, sum, pattern FROM log \
                 WHERE rev BETWEEN ?1 AND ?2 ORDER BY rev"
            }
            None => {
                "SELECT rev, key, created, version, value, sum, NULL FROM log \
                 WHERE rev BETWEEN ?1 AND ?2 ORDER BY rev"
            }
        };
        let to = from.saturating_add(self.share - 1);
        let mut statement = conn.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([from, to]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let id: Option<i64> = row.get(6).map_err(failed)?;
            let pattern = id.map(|id| self.pattern(id)).transpose()?;
            part.used.extend(id);
            let Record { kv, kind, sum } = Record::read(row, pattern).map_err(failed)?;
            let revision = kv.mod_revision;
            if sum != checksum(&kv, kind == EventKind::Delete) {
                return Err(self.damaged(format!("the record of revision {revision} was altered")));
            }
            if revision <= self.compacted {
                part.resting.push(kv);
            } else {
                part.history.push((kind, kv));
            }
        }
        Ok(())
    }

    fn pattern(&self, id: i64) -> Result<Arc<Pattern>> {
        let known = self.patterns.as_ref().and_then(|patterns| patterns.get(&id)).cloned();
        known.ok_or_else(|| self.damaged(format!("the pattern {id:x} is missing")))
    }

    fn damaged(&self, reason: String) -> Error {
        damaged(self.path, reason)
    }
}

fn damaged(path: &Path, reason: String) -> Error {
    Error::Damaged { path: path.to_owned(), reason }
}

fn read_patterns(conn: &Connection, path: &Path) -> Result<HashMap<i64, Arc<Pattern>>> {
    let failed = |error| explain(path, "read the store file", error);
    let mut statement = conn.prepare("SELECT id, text FROM patterns").map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut patterns = HashMap::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let id = row.get(0).map_err(failed)?;
        let text: Vec<u8> = row.get(1).map_err(failed)?;
        let altered = || damaged(path, format!("the pattern {id:x} was altered"));
        patterns.insert(id, Arc::new(Pattern::known(id, &text).ok_or_else(altered)?));
    }
    Ok(patterns)
}

/// A row of the log.
struct Record {
    kv: KeyValue,
    kind: EventKind,
    sum: i64,
}

impl Record {
    fn read(row: &rusqlite::Row<'_>, pattern: Option<Arc<Pattern>>) -> rusqlite::Result<Self> {
        let key: Arc<str> = row.get_ref(1)?.as_str()?.into();
        let value = row.get_ref(4)?.as_blob_or_null()?;
        let value = value.map(|data| Packed::from_parts(data, pattern));
        Ok(Self {
            kind: if value.is_some() { EventKind::Put } else { EventKind::Delete },
            kv: KeyValue {
                key,
                value: value.unwrap_or_default(),
                create_revision: row.get(2)?,
                mod_revision: row.get(0)?,
                version: row.get(3)?,
            },
            sum: row.get(5)?,
        })
    }
}

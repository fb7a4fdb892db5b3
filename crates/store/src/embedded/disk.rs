//! The file of the embedded store: one append-only table in SQLite, one record per revision.
//!
//! All reading happens when the store is opened. Superseded records are removed by compaction, so
//! below the compacted revision the table holds the newest record of each key and nothing else.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::Crc;
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, TransactionBehavior, params};

use super::checkpoint::wal_path;
use super::load;
use crate::index::{Index, Step};
use crate::{Error, Event, EventKind, FIRST_REVISION, KeyValue, Pattern, Result};

/// The name of the store file inside its directory.
pub const STORE_FILE: &str = "store.db";

/// The layout described in this file. It is raised when an older program could misread the file.
const FORMAT: i64 = 2;

/// The layout before values were packed. Such a file is read as it is, and made the present one before it is written.
const UNPACKED: i64 = 1;

/// Marks the file as ours in its SQLite header.
const APPLICATION_ID: i64 = 0x6b72_6d64;

pub(super) const PAGE_SIZE: u32 = 4096;

const SCHEMA: &str = "
    CREATE TABLE log (
        rev INTEGER PRIMARY KEY,
        key TEXT NOT NULL,
        created INTEGER NOT NULL,
        version INTEGER NOT NULL,
        value BLOB,
        sum INTEGER NOT NULL,
        pattern INTEGER
    ) STRICT;
    CREATE TABLE patterns (id INTEGER PRIMARY KEY, text BLOB NOT NULL) STRICT;
    CREATE TABLE meta (name TEXT PRIMARY KEY, number INTEGER NOT NULL) STRICT;";

/// How long the log is from the begin on.
const LOG_BYTES: u64 = 4 << 20;

const PACKED: &str = "
    ALTER TABLE log ADD COLUMN pattern INTEGER;
    CREATE TABLE patterns (id INTEGER PRIMARY KEY, text BLOB NOT NULL) STRICT;";

const INSERT: &str = "INSERT INTO log (rev, key, created, version, value, sum, pattern) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

#[derive(Debug)]
pub(super) struct Disk {
    conn: Connection,
    path: PathBuf,
    format: i64,
    /// The patterns the file holds.
    patterns: HashSet<i64>,
}

impl Disk {
    /// Opens the store in `dir`, making it if there is none. `max_bytes` bounds the file.
    pub(super) fn open(dir: &Path, max_bytes: Option<u64>) -> Result<Self> {
        let path = dir.join(STORE_FILE);
        if !path.exists() {
            create(dir, &path)?;
        }
        let mut disk = Self::over(connect(&path)?, path)?;
        disk.bring_up_to_date()?;
        disk.run("set up the store file", |conn| {
            // A store that was made as a whole is not in this mode yet.
            conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            conn.pragma_update(None, "synchronous", "FULL")?;
            // Checkpoints run beside the writer, see `checkpoint`.
            conn.pragma_update(None, "wal_autocheckpoint", 0)?;
            // Everything is read once at the start; a large page cache would only cost memory.
            conn.pragma_update(None, "cache_size", -8 * 1024)?;
            conn.pragma_update(None, "temp_store", "MEMORY")?;
            if let Some(max_bytes) = max_bytes {
                let pages = i64::try_from(max_bytes / u64::from(PAGE_SIZE)).unwrap_or(i64::MAX);
                conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
            }
            Ok(())
        })?;
        disk.lengthen_log();
        Ok(disk)
    }

    /// Gives the log some length before it is written. A flush of a file that grows has to write its new length
    /// too, which takes half as long again. Zeros behind the end of a log are no part of it.
    fn lengthen_log(&self) {
        let Ok(log) = OpenOptions::new().write(true).open(wal_path(&self.path)) else { return };
        let Ok(length) = log.metadata().map(|metadata| metadata.len()) else { return };
        let zeros = vec![0; LOG_BYTES.saturating_sub(length) as usize];
        if log.write_all_at(&zeros, length).is_err() {
            // It was for speed alone: a disk without room for it has better use for what is left.
            drop(log.set_len(length));
        }
    }

    /// Opens a file that nobody writes to, without changing anything.
    pub(super) fn open_to_read(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Self::over(connect_with(path, flags)?, path.to_owned())
    }

    /// Takes over an open file if it is one of ours.
    fn over(conn: Connection, path: PathBuf) -> Result<Self> {
        let mut disk = Self { conn, path, format: FORMAT, patterns: HashSet::new() };
        disk.format = disk.check_header()?;
        Ok(disk)
    }

    /// Makes of an older file one of today, and finds out which patterns it holds.
    fn bring_up_to_date(&mut self) -> Result<()> {
        if self.format == UNPACKED {
            self.transact("bring the store file up to date", |conn| {
                conn.execute_batch(PACKED)?;
                conn.pragma_update(None, "user_version", FORMAT)
            })?;
            self.format = FORMAT;
        }
        self.patterns = self.run("read the store file", |conn| {
            let mut statement = conn.prepare("SELECT id FROM patterns")?;
            let ids = statement.query_map([], |row| row.get(0))?;
            ids.collect()
        })?;
        Ok(())
    }

    /// Makes an empty store hold these keys; history begins at `revision`, which none is newer than.
    pub(super) fn fill(&mut self, revision: i64, items: &[KeyValue]) -> Result<()> {
        self.transact("write to the store file", |conn| {
            conn.execute("UPDATE meta SET number = ?1 WHERE name = 'compacted'", [revision])?;
            let mut insert = conn.prepare_cached(INSERT)?;
            for kv in items {
                // Such a file is for other programs too, and shows nothing but what it holds.
                let kv = KeyValue { value: kv.value.to_bytes().into(), ..kv.clone() };
                insert_record(&mut insert, &kv, false)?;
            }
            Ok(())
        })
    }

    /// Closes the file such that there is nothing beside it.
    pub(super) fn close_as_one_file(self) -> Result<()> {
        self.run("close the store file", |conn| {
            conn.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()))
        })?;
        let path = self.path;
        self.conn.close().map_err(|(_, error)| explain(&path, "close the store file", error))
    }

    /// The layout of the file, if this program can read it.
    fn check_header(&self) -> Result<i64> {
        let application = self.pragma("application_id")?;
        if application != APPLICATION_ID {
            return Err(self.damaged("it is a database of another program"));
        }
        let found = self.pragma("user_version")?;
        if ![UNPACKED, FORMAT].contains(&found) {
            return Err(Error::Format { path: self.path.clone(), found, supported: FORMAT });
        }
        Ok(found)
    }

    /// Reads the whole file into an index.
    pub(super) fn load(&self) -> Result<Index> {
        Ok(self.read_all()?.0)
    }

    /// The same for a file that is written to from now on: patterns that nothing is packed by go, and with them
    /// what they say of objects that are gone.
    pub(super) fn load_and_tidy(&mut self) -> Result<Index> {
        let (index, used) = self.read_all()?;
        let unused: Vec<i64> = self.patterns.difference(&used).copied().collect();
        if !unused.is_empty() {
            self.transact("remove what the store file no longer needs", |conn| {
                let mut delete = conn.prepare_cached("DELETE FROM patterns WHERE id = ?1")?;
                unused.iter().try_for_each(|id| delete.execute([id]).map(drop))
            })?;
            self.patterns.retain(|id| used.contains(id));
        }
        Ok(index)
    }

    fn read_all(&self) -> Result<(Index, HashSet<i64>)> {
        load::load(&self.conn, &self.path, self.format == FORMAT)
    }

    /// Returns the revision of the last record.
    pub(super) fn last_revision(&self) -> Result<i64> {
        self.run("read the store file", |conn| {
            let sql = "SELECT max(coalesce((SELECT max(rev) FROM log), 0), number) \
                       FROM meta WHERE name = 'compacted'";
            conn.query_row(sql, [], |row| row.get(0))
        })
    }

    /// Writes the events in one transaction. When it returns, they are on the disk; when it
    /// fails, none of them is stored, unless the disk itself failed.
    pub(super) fn append(&mut self, events: &[Arc<Event>]) -> Result<()> {
        let used = events.iter().filter_map(|event| event.kv.value.parts().1);
        let new: Vec<&Arc<Pattern>> =
            used.filter(|pattern| !self.patterns.contains(&pattern.id())).collect();
        self.transact("write to the store file", |conn| {
            for pattern in &new {
                let sql = "INSERT OR IGNORE INTO patterns (id, text) VALUES (?1, ?2)";
                conn.prepare_cached(sql)?.execute(params![pattern.id(), pattern.text()])?;
            }
            let mut insert = conn.prepare_cached(INSERT)?;
            for event in events {
                insert_record(&mut insert, &event.kv, event.kind == EventKind::Delete)?;
            }
            Ok(())
        })?;
        self.patterns.extend(new.iter().map(|pattern| pattern.id()));
        Ok(())
    }

    /// Removes what a step of compaction made unreachable. The new beginning of the history and
    /// the removal are one transaction: a file never holds garbage or a hole.
    pub(super) fn compact(&mut self, step: &Step) -> Result<()> {
        self.transact("compact the store file", |conn| {
            conn.execute("UPDATE meta SET number = ?1 WHERE name = 'compacted'", [step.compacted])?;
            let mut delete = conn.prepare_cached("DELETE FROM log WHERE rev = ?1")?;
            for victim in &step.victims {
                delete.execute([victim])?;
            }
            Ok(())
        })
    }

    /// Gives back up to `pages` unused pages if a quarter of the file is unused, and says whether
    /// it did.
    pub(super) fn shrink(&self, pages: u32) -> Result<bool> {
        let unused = self.pragma("freelist_count")?;
        if unused < i64::from(pages) || unused * 4 < self.pragma("page_count")? {
            return Ok(false);
        }
        self.run("shrink the store file", |conn| {
            let mut statement = conn.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            Ok(true)
        })
    }

    fn transact(
        &mut self,
        attempt: &str,
        body: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let done = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).and_then(
            |transaction| {
                body(&transaction)?;
                transaction.commit()
            },
        );
        done.map_err(|error| self.explain(attempt, error))
    }

    fn pragma(&self, name: &str) -> Result<i64> {
        self.run("read the store file", |conn| {
            conn.pragma_query_value(None, name, |row| row.get(0))
        })
    }

    fn run<T>(
        &self,
        attempt: &str,
        body: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        body(&self.conn).map_err(|error| self.explain(attempt, error))
    }

    fn explain(&self, attempt: &str, error: rusqlite::Error) -> Error {
        explain(&self.path, attempt, error)
    }

    fn damaged(&self, reason: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.clone(), reason: reason.into() }
    }
}

fn insert_record(insert: &mut Statement<'_>, kv: &KeyValue, deleted: bool) -> rusqlite::Result<()> {
    let (value, pattern) = kv.value.parts();
    insert.execute(params![
        kv.mod_revision,
        &*kv.key,
        kv.create_revision,
        kv.version,
        (!deleted).then_some(value),
        checksum(kv, deleted),
        pattern.map(|pattern| pattern.id()),
    ])?;
    Ok(())
}

/// SQLite does not notice a flipped bit inside a value; this does.
pub(super) fn checksum(kv: &KeyValue, deleted: bool) -> i64 {
    let mut crc = Crc::new();
    for number in [kv.mod_revision, kv.create_revision, kv.version, i64::from(deleted)] {
        crc.update(&number.to_le_bytes());
    }
    crc.update(kv.key.as_bytes());
    let (value, pattern) = kv.value.parts();
    crc.update(value);
    if let Some(pattern) = pattern {
        crc.update(&pattern.id().to_le_bytes());
    }
    i64::from(crc.sum())
}

/// Connects to an existing store file.
pub(super) fn connect(path: &Path) -> Result<Connection> {
    connect_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

pub(super) fn connect_with(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let opened = Connection::open_with_flags(path, flags).and_then(|conn| {
        conn.busy_timeout(Duration::from_secs(60))?;
        // The first access shows whether the file is a database at all.
        conn.pragma_update(None, "trusted_schema", false)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(conn)
    });
    opened.map_err(|error| explain(path, "open the store file", error))
}

/// Makes an empty store under another name and puts it into place when it is whole, so that a file
/// with the right name and no content is known to be damaged.
fn create(dir: &Path, path: &Path) -> Result<()> {
    let temporary = dir.join(format!("{STORE_FILE}.new"));
    let failed = |error| explain(path, "create the store file", error);
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let leftover = dir.join(format!("{STORE_FILE}.new{suffix}"));
        if leftover.exists() {
            fs::remove_file(&leftover)
                .map_err(|error| Error::io("remove a half-made store", error))?;
        }
    }
    let conn = Connection::open(&temporary).map_err(failed)?;
    let made = (|| {
        conn.pragma_update(None, "page_size", PAGE_SIZE)?;
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
        conn.execute_batch(SCHEMA)?;
        conn.execute("INSERT INTO meta VALUES ('compacted', ?1)", [FIRST_REVISION])?;
        conn.pragma_update(None, "user_version", FORMAT)?;
        conn.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
    })();
    made.map_err(failed)?;
    conn.close().map_err(|(_, error)| failed(error))?;
    let placed = fs::rename(&temporary, path).and_then(|()| File::open(dir)?.sync_all());
    placed.map_err(|error| Error::io(format!("put {} into place", path.display()), error))
}

/// Tells apart what a person has to do about an error of SQLite.
pub(super) fn explain(path: &Path, attempt: &str, error: rusqlite::Error) -> Error {
    let reason = error.to_string();
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full { path },
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            Error::ReadOnly { path, reason }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Damaged { path, reason }
        }
        // The tables are ours: a missing or misshapen one was not made by this program.
        None if matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::QueryReturnedNoRows
        ) =>
        {
            Error::Damaged { path, reason }
        }
        Some(ErrorCode::Unknown) => Error::Damaged { path, reason },
        _ => Error::io(format!("{attempt} {}", path.display()), error),
    }
}

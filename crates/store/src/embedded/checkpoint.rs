//! Moves what the write-ahead log has gathered into the store file, beside the writer. Only when
//! the log has grown out of hand, or nothing is going on, the writer may have to wait for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tracing::warn;

use super::disk::{PAGE_SIZE, STORE_FILE, connect};
use crate::{Error, Result};

/// How much is written between two checkpoints.
const EVERY_BYTES: usize = 4 << 20;

/// A log that holds more than this begins anew even if the writer has to wait for the rest of it. It keeps
/// its length: giving back that much took the writer forty milliseconds, and it would only grow again.
const FULL_BYTES: u64 = 64 << 20;

/// How long nothing was asked for before everything is moved, and a log longer than [`KEPT_BYTES`] is cut.
const IDLE: Duration = Duration::from_secs(30);

/// A log is written from its begin again once it is moved, in place, which is quicker than letting it grow.
const KEPT_BYTES: u64 = 16 << 20;

/// The writer's handle to the checkpoint thread.
#[derive(Debug)]
pub(super) struct Checkpoints {
    requests: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    written: usize,
}

impl Checkpoints {
    pub(super) fn start(dir: &Path) -> Result<Self> {
        let path = dir.join(STORE_FILE);
        let conn = connect(&path)?;
        let (requests, inbox) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || run(&conn, &wal_path(&path), &inbox))
            .map_err(|error| Error::io("start the checkpoint thread", error))?;
        Ok(Self { requests: Some(requests), thread: Some(thread), written: 0 })
    }

    /// Counts what the writer has written and asks for a checkpoint when it is time.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written < EVERY_BYTES {
            return;
        }
        if let Some(requests) = &self.requests {
            // One waiting request is as good as two.
            if !matches!(requests.try_send(()), Err(TrySendError::Disconnected(()))) {
                self.written = 0;
            }
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.requests = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the checkpoint thread panicked");
        }
    }
}

/// Where the log of the store file is.
pub(super) fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

fn run(conn: &Connection, wal: &Path, inbox: &Receiver<()>) {
    loop {
        let length = || fs::metadata(wal).map_or(0, |metadata| metadata.len());
        let done = match inbox.recv_timeout(IDLE) {
            Ok(()) => checkpoint(conn, "PASSIVE").and_then(|held| {
                if held > FULL_BYTES { checkpoint(conn, "RESTART") } else { Ok(held) }
            }),
            Err(RecvTimeoutError::Timeout) => checkpoint(conn, "PASSIVE").and_then(|held| {
                if length() > KEPT_BYTES { checkpoint(conn, "TRUNCATE") } else { Ok(held) }
            }),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let Err(error) = done {
            // Nothing is lost: the log keeps what could not be moved.
            warn!(%error, "the store's log could not be moved into its file");
        }
    }
}

/// Moves what it can and says how many bytes the log holds, moved or not.
fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<u64> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        // Less than nothing where there is no log.
        let frames: i64 = row.get(1)?;
        Ok(u64::try_from(frames).unwrap_or_default() * u64::from(PAGE_SIZE))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(conn: &Connection, count: usize) {
        for _ in 0..count {
            conn.execute("INSERT INTO t VALUES (zeroblob(20000))", []).expect("it writes");
        }
    }

    #[test]
    fn a_log_that_begins_anew_keeps_its_length_and_loses_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(STORE_FILE);
        let writer = Connection::open(&path).expect("it opens");
        writer.pragma_update(None, "journal_mode", "wal").expect("it has a log");
        writer.pragma_update(None, "wal_autocheckpoint", 0).expect("it waits");
        writer.execute_batch("CREATE TABLE t (it BLOB)").expect("a table");
        append(&writer, 50);
        let other = Connection::open(&path).expect("it opens twice");
        let length = || fs::metadata(wal_path(&path)).expect("there is a log").len();
        let (grown, held) = (length(), checkpoint(&other, "PASSIVE").expect("it moves"));
        assert!(held > 50 * 20_000 && held <= grown, "{held} of {grown}");

        checkpoint(&other, "RESTART").expect("it begins anew");
        append(&writer, 1);
        assert_eq!(length(), grown, "it is written in place");
        let held = checkpoint(&other, "PASSIVE").expect("it moves");
        assert!(held < 20 * u64::from(PAGE_SIZE), "what was moved is not held any more: {held}");

        checkpoint(&other, "TRUNCATE").expect("it is cut");
        assert_eq!(length(), 0);
        let kept: i64 =
            other.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("it reads");
        assert_eq!(kept, 51);
    }
}

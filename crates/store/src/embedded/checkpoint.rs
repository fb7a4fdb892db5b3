//! Moves what the write-ahead log has gathered into the store file, beside the writer. Only when
//! the log has grown out of hand, or nothing is going on, the writer may have to wait for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;
use tracing::warn;

use super::disk::{STORE_FILE, connect};
use crate::{Error, Result};

/// How much is written between two checkpoints.
const EVERY_BYTES: usize = 4 << 20;

/// A log longer than this is cut even if the writer has to wait for it.
const CUT_BYTES: u64 = 64 << 20;

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
            Ok(()) => checkpoint(conn, "PASSIVE").and_then(|()| {
                if length() > CUT_BYTES { checkpoint(conn, "TRUNCATE") } else { Ok(()) }
            }),
            Err(RecvTimeoutError::Timeout) => checkpoint(conn, "PASSIVE").and_then(|()| {
                if length() > KEPT_BYTES { checkpoint(conn, "TRUNCATE") } else { Ok(()) }
            }),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if let Err(error) = done {
            // Nothing is lost: the log keeps what could not be moved.
            warn!(%error, "the store's log could not be moved into its file");
        }
    }
}

fn checkpoint(conn: &Connection, mode: &str) -> rusqlite::Result<()> {
    conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
}

//! Keeps a directory to one process. The lock goes with the process, however it ends; the pid in
//! the file is only there to tell people who holds it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The name of the lock file inside the directory it keeps.
pub const LOCK_FILE: &str = "karmada.lock";

/// A directory held by this process until the value is dropped.
#[derive(Debug)]
pub struct DirLock {
    file: File,
    path: PathBuf,
}

impl DirLock {
    /// Makes the directory if need be and takes it, or says which process has it.
    pub fn acquire(dir: &Path) -> Result<Self> {
        make_private_dir(dir)?;
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| not_writable(dir, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse { path: dir.to_owned(), holder: read_holder(&mut file) });
            }
            Err(TryLockError::Error(error)) => {
                return Err(Error::io(format!("lock {}", path.display()), error));
            }
        }
        let note = format!("process {} ({})\n", std::process::id(), command());
        let written = file.set_len(0).and_then(|()| file.rewind());
        written
            .and_then(|()| file.write_all(note.as_bytes()))
            .map_err(|error| not_writable(dir, error))?;
        Ok(Self { file, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Closing would not do: a process that is being started elsewhere in this one has a copy of
        // the file until its program runs.
        let _ = self.file.unlock();
    }
}

fn read_holder(file: &mut File) -> String {
    let mut note = String::new();
    let read = file.take(200).read_to_string(&mut note);
    match note.trim() {
        "" => "another process".to_owned(),
        _ if read.is_err() => "another process".to_owned(),
        holder => holder.to_owned(),
    }
}

/// The program and its subcommand, without anything that could be secret.
fn command() -> String {
    let mut args = std::env::args();
    let program = args.next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
    match args.next().filter(|arg| !arg.starts_with('-')) {
        Some(subcommand) => format!("{program} {subcommand}"),
        None => program.into_owned(),
    }
}

pub(crate) fn make_private_dir(dir: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| not_writable(dir, error))
}

fn not_writable(dir: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Error::Full { path: dir.to_owned() }
        }
        _ => Error::ReadOnly { path: dir.to_owned(), reason: error.to_string() },
    }
}

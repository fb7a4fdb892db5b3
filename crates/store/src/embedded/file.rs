//! Store files made and read as a whole: the state of one revision, without history. A backup is
//! such a file, and so is a store that was moved here.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::disk::{Disk, STORE_FILE};
use crate::{Error, KeyValue, RangeQuery, Result};

/// Makes a store in a directory that does not exist yet. Its history begins at `revision`.
pub(crate) fn make_store(dir: &Path, revision: i64, items: &[KeyValue]) -> Result<()> {
    let parts = beside(dir, "part");
    remove(&parts)?;
    fill(&parts, revision, items)?;
    let placed = fs::rename(&parts, dir).and_then(|()| sync_parent(dir));
    placed.map_err(|error| Error::io(format!("put {} into place", dir.display()), error))
}

/// Writes one file that holds everything, readable by its owner alone; one that is there is
/// replaced when the new one is whole.
pub(crate) fn write_file(path: &Path, revision: i64, items: &[KeyValue]) -> Result<()> {
    let parts = beside(path, "part");
    remove(&parts)?;
    fill(&parts, revision, items)?;
    let made = parts.join(STORE_FILE);
    let placed = File::open(&made)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&made, path))
        .and_then(|()| fs::remove_dir(&parts))
        .and_then(|()| sync_parent(path));
    placed.map_err(|error| Error::io(format!("put {} into place", path.display()), error))
}

/// Reads the newest state of a store file that no process writes to.
pub(crate) fn read_file(path: &Path) -> Result<(i64, Vec<KeyValue>)> {
    let index = Disk::open_to_read(path)?.load()?;
    let all = index.range(&RangeQuery::prefix(""))?;
    Ok((all.revision, all.items))
}

fn fill(dir: &Path, revision: i64, items: &[KeyValue]) -> Result<()> {
    crate::lock::make_private_dir(dir)?;
    let mut disk = Disk::open(dir, None)?;
    disk.fill(revision, items)?;
    disk.close_as_one_file()?;
    set_private(&dir.join(STORE_FILE))
}

fn set_private(path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(path, mode)
            .map_err(|error| Error::io(format!("make {} private", path.display()), error))?;
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", dir.display()), error))
        }
        _ => Ok(()),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{suffix}"));
    path.with_file_name(name)
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

//! The file the audit log is written to: a line an event, set aside when it grows too large.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Where the log goes and when it is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// A file, or `-` for standard output.
    pub path: PathBuf,
    /// A file larger than this is set aside; 0 never.
    pub max_bytes: u64,
    /// How many files set aside are kept; 0 keeps all.
    pub max_backups: usize,
    /// How long files set aside are kept; zero keeps them for good.
    pub max_age: SignedDuration,
}

pub struct Log {
    settings: LogSettings,
    open: Mutex<Option<Open>>,
}

struct Open {
    file: File,
    written: u64,
}

impl Log {
    /// Opens the file, or fails where it cannot be written.
    pub fn open(settings: LogSettings) -> io::Result<Self> {
        let open = match settings.path.as_os_str() == "-" {
            true => None,
            false => Some(open(&settings.path)?),
        };
        Ok(Self { settings, open: Mutex::new(open) })
    }

    /// Writes one line. The request waits for it: what is answered was logged.
    pub(crate) fn write(&self, line: &[u8], now: Timestamp) -> io::Result<()> {
        let mut open = self.open.lock();
        let Some(current) = open.as_mut() else { return io::stdout().lock().write_all(line) };
        let max = self.settings.max_bytes;
        if max > 0 && current.written > 0 && current.written + line.len() as u64 > max {
            *current = self.set_aside(now)?;
        }
        current.file.write_all(line)?;
        current.written += line.len() as u64;
        Ok(())
    }

    fn set_aside(&self, now: Timestamp) -> io::Result<Open> {
        let path = &self.settings.path;
        std::fs::rename(path, free_name(path, now))?;
        let fresh = open(path)?;
        if let Err(error) = self.remove_old(now) {
            tracing::warn!(%error, "remove old audit logs");
        }
        Ok(fresh)
    }

    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let LogSettings { path, max_backups, max_age, .. } = &self.settings;
        let backups = backups(path)?;
        for (age, backup) in backups.iter().rev().enumerate() {
            let modified = Timestamp::try_from(std::fs::metadata(backup)?.modified()?);
            let old = modified.is_ok_and(|modified| now.duration_since(modified) > *max_age);
            let too_many = *max_backups > 0 && age >= *max_backups;
            if too_many || (max_age.is_positive() && old) {
                std::fs::remove_file(backup)?;
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<Open> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent)?;
    }
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let written = file.metadata()?.len();
    Ok(Open { file, written })
}

/// The parts of a file's name that a moment is put between: `audit`, `.log`.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| {
        part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let extension = text(path.extension());
    let end = if extension.is_empty() { extension } else { format!(".{extension}") };
    (text(path.file_stem()), end)
}

/// A name nobody has yet, that sorts by time.
fn free_name(path: &Path, now: Timestamp) -> PathBuf {
    let (stem, end) = parts(path);
    let mut moment = now;
    loop {
        let stamp = moment.strftime("%Y-%m-%dT%H-%M-%S%.3f");
        let name = path.with_file_name(format!("{stem}-{stamp}{end}"));
        if !name.exists() {
            return name;
        }
        moment += SignedDuration::from_millis(1);
    }
}

/// The files set aside, oldest first.
fn backups(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stem, end) = parts(path);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(parent.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let stamp = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&end));
        // Only what was named by us: 2026-01-02T03-04-05.678
        if stamp.is_some_and(|stamp| stamp.len() == 23 && stamp.as_bytes()[10] == b'T') {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    // Shows: LOG-1
    #[test]
    fn a_full_file_is_set_aside_and_only_so_many_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let stranger = dir.path().join("audit-of-2025.log");
        std::fs::write(&stranger, "not ours").unwrap();
        let log = Log::open(LogSettings {
            path: dir.path().join("audit.log"),
            max_bytes: 10,
            max_backups: 2,
            max_age: SignedDuration::ZERO,
        })
        .unwrap();
        let mut now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "a very long line\n", "six\n"] {
            log.write(line.as_bytes(), now).unwrap();
            now += SignedDuration::from_millis(1);
        }
        assert_eq!(
            names(dir.path()),
            [
                "audit-2026-01-02T03-04-05.004.log",
                "audit-2026-01-02T03-04-05.005.log",
                "audit-of-2025.log",
                "audit.log"
            ]
        );
        assert_eq!(std::fs::read_to_string(dir.path().join("audit.log")).unwrap(), "six\n");
    }

    #[test]
    fn a_log_is_continued_by_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let settings = LogSettings {
            path: dir.path().join("logs/audit.log"),
            max_bytes: 0,
            max_backups: 0,
            max_age: SignedDuration::ZERO,
        };
        for line in ["one\n", "two\n"] {
            Log::open(settings.clone())
                .unwrap()
                .write(line.as_bytes(), Timestamp::UNIX_EPOCH)
                .unwrap();
        }
        assert_eq!(std::fs::read_to_string(&settings.path).unwrap(), "one\ntwo\n");
    }
}

//! Text that is edited by a person before it is used: opened in `$KUBE_EDITOR`, `$EDITOR` or vi, and read back.

use std::process::Command;

use crate::error::{Error, Result};

/// What stands above objects that are edited.
pub(crate) const HEADER: &str = "\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

/// Said when nothing was changed.
pub(crate) const CANCELLED: &str = "Edit cancelled, no changes made.";

/// A file of one's own that is gone when the editing is over.
pub(crate) struct Draft {
    path: std::path::PathBuf,
    windows_line_endings: bool,
}

impl Draft {
    pub(crate) fn new(extension: &str, windows_line_endings: bool) -> Self {
        let name = format!("karmadactl-edit-{}.{extension}", std::process::id());
        Self { path: std::env::temp_dir().join(name), windows_line_endings }
    }

    /// What becomes of a text in the editor.
    pub(crate) fn edit(&self, text: &str) -> Result<String> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let text = match self.windows_line_endings {
            true => text.replace('\n', "\r\n"),
            false => text.to_owned(),
        };
        let mut options = std::fs::OpenOptions::new();
        // Objects may hold secrets.
        options.write(true).create(true).truncate(true).mode(0o600);
        std::io::Write::write_all(&mut options.open(&self.path)?, text.as_bytes())?;
        let from_env = |name: &str| std::env::var(name).ok().filter(|editor| !editor.is_empty());
        let editor = from_env("KUBE_EDITOR")
            .or_else(|| from_env("EDITOR"))
            .unwrap_or_else(|| "vi".to_owned());
        let status = Command::new("sh")
            .args(["-c", &format!("{editor} \"$0\"")])
            .arg(&self.path)
            .status()
            .map_err(|error| format!("unable to launch the editor \"{editor}\": {error}"))?;
        if !status.success() {
            return Err(Error::Message(format!(
                "there was a problem with the editor \"{editor}\""
            )));
        }
        Ok(std::fs::read_to_string(&self.path)?.replace("\r\n", "\n"))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It may never have been written.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The text without the lines that are not part of it.
pub(crate) fn content(edited: &str) -> String {
    let lines = edited.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect()
}

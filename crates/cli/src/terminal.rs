//! The user's terminal as a remote program wants it: every key passed on as it is typed, nothing echoed here.
//! `stty` does the work, which every system with terminals has.

use std::io::IsTerminal as _;
use std::process::{Command, Stdio};

/// A terminal that was given away; as it was before when dropped.
pub(crate) struct Raw {
    before: String,
}

pub(crate) fn is_terminal() -> bool {
    std::io::stdin().is_terminal()
}

impl Raw {
    /// Gives the terminal away, if stdin is one and it can be.
    pub(crate) fn enter() -> Option<Self> {
        let before = stty(&["-g"]).filter(|_| is_terminal())?;
        stty(&["raw", "-echo"])?;
        Some(Self { before: before.trim().to_owned() })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        stty(&[&self.before]);
    }
}

/// Columns and rows.
pub(crate) fn size() -> Option<(u16, u16)> {
    let text = stty(&["size"])?;
    let (rows, columns) = text.trim().split_once(' ')?;
    Some((columns.parse().ok()?, rows.parse().ok()?))
}

fn stty(arguments: &[&str]) -> Option<String> {
    let output = Command::new("stty")
        .args(arguments)
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

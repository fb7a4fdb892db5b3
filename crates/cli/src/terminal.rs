//! The user's terminal as a remote program wants it: every key passed on as it is typed, nothing echoed here.
//! `stty` does the work, which every system with terminals has.

use std::io::IsTerminal as _;
use std::process::{Command, Stdio};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::signal::unix::{Signal, SignalKind, signal};

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

/// Changes of the size of the window, where they can be followed.
pub(crate) fn size_changes() -> Option<Signal> {
    signal(SignalKind::window_change()).ok()
}

/// Waits until somebody asks this program to end, and returns the number of the signal.
pub(crate) async fn told_to_end() -> i32 {
    let kinds = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
    let mut waiting: FuturesUnordered<_> = kinds
        .into_iter()
        .filter_map(|kind| Some((kind, signal(kind).ok()?)))
        .map(|(kind, mut signals)| async move {
            signals.recv().await;
            kind.as_raw_value()
        })
        .collect();
    match waiting.next().await {
        Some(signal) => signal,
        // They cannot be heard here; then they end the program by themselves.
        None => std::future::pending().await,
    }
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

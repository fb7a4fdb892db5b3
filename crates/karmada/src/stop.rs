//! The wish of others that the process end.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears of Ctrl-C and of SIGTERM from the moment it is made. A program makes it before it says that it
/// serves: whoever reads that may ask for the end at once.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Waits until the process is asked to end.
    pub(crate) async fn requested(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

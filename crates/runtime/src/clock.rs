//! The time of day. Waiting is done with tokio's timer; a virtual clock follows that timer, so
//! with tokio's time paused a test decides how late it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the time of day comes from.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    virtual_start: Option<(Timestamp, Instant)>,
    /// Milliseconds somebody moved the hands by.
    moved: Arc<AtomicI64>,
}

impl Clock {
    /// The clock of the machine.
    pub fn real() -> Self {
        Self::default()
    }

    /// A clock that shows `start` now and goes as tokio's timer goes.
    pub fn virtual_from(start: Timestamp) -> Self {
        Self { virtual_start: Some((start, Instant::now())), ..Self::default() }
    }

    pub fn now(&self) -> Timestamp {
        match self.virtual_start {
            None => Timestamp::now(),
            Some((start, at)) => {
                let gone = SignedDuration::try_from(at.elapsed()).unwrap_or(SignedDuration::MAX);
                let moved = SignedDuration::from_millis(self.moved.load(Ordering::Relaxed));
                let gone = gone.saturating_add(moved);
                start.checked_add(gone).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Moves the hands of a virtual clock, as when a machine's time is set right; timers that run go
    /// on as before. Clones move along.
    pub fn jump(&self, by: SignedDuration) {
        let by = i64::try_from(by.as_millis()).unwrap_or_default();
        self.moved.fetch_add(by, Ordering::Relaxed);
    }

    /// Returns how long ago `then` was; the future is no time ago.
    pub fn since(&self, then: Timestamp) -> Duration {
        self.now().duration_since(then).try_into().unwrap_or_default()
    }

    /// Returns how long it is until `then`; the past is now.
    pub fn until(&self, then: Timestamp) -> Duration {
        then.duration_since(self.now()).try_into().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_goes_as_the_timer_goes() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let clock = Clock::virtual_from(start);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-02T04:04:05Z");
        assert_eq!(clock.since(start), Duration::from_secs(3600));
        assert_eq!(clock.until(start), Duration::ZERO);
        clock.clone().jump(SignedDuration::from_mins(-30));
        assert_eq!(clock.now().to_string(), "2026-01-02T03:34:05Z");
    }
}

//! Says on a terminal what is being waited for, once that takes more than a second. The line is taken away again
//! before anything else is printed; pipes and files never see it.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What takes less is not worth a word, and how often the line is renewed.
const NOTABLE: Duration = Duration::from_secs(1);

static WAITS: Mutex<Waits> = Mutex::new(Waits { open: Vec::new(), next: 0, is_shown: false });

struct Waits {
    open: Vec<Wait>,
    next: u64,
    /// Whether a line stands on the terminal.
    is_shown: bool,
}

struct Wait {
    id: u64,
    what: String,
    since: Instant,
}

/// Something that is being waited for; over when dropped.
#[must_use = "it is over when dropped"]
pub(crate) struct Waiting(u64);

fn waits() -> MutexGuard<'static, Waits> {
    // A list is as good after a panic as before.
    WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to wait for something, such as `an answer of member1`.
pub(crate) fn wait_for(what: impl Into<String>) -> Waiting {
    let mut waits = waits();
    let id = waits.next;
    waits.next += 1;
    waits.open.push(Wait { id, what: what.into(), since: Instant::now() });
    Waiting(id)
}

impl Drop for Waiting {
    fn drop(&mut self) {
        waits().open.retain(|wait| wait.id != self.0);
    }
}

/// The line to show: the longest wait, if it is worth a word.
fn line(open: &[Wait], now: Instant) -> Option<String> {
    let oldest = open.iter().min_by_key(|wait| wait.since)?;
    let waited = now.duration_since(oldest.since);
    let others = match open.len() {
        1 => String::new(),
        many => format!(" and {} more", many - 1),
    };
    (waited >= NOTABLE)
        .then(|| format!("waiting for {}{others} ({} s)", oldest.what, waited.as_secs()))
}

/// Keeps the line up to date for as long as it is polled; without a terminal there is nothing to do.
pub(crate) async fn show() {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(NOTABLE).await;
        let mut waits = waits();
        match line(&waits.open, Instant::now()) {
            Some(line) => {
                put(&format!("\r\x1b[K{line}"));
                waits.is_shown = true;
            }
            None => erase(&mut waits),
        }
    }
}

/// Makes room for what is printed next.
pub(crate) fn clear() {
    erase(&mut waits());
}

fn erase(waits: &mut Waits) {
    if std::mem::take(&mut waits.is_shown) {
        put("\r\x1b[K");
    }
}

fn put(text: &str) {
    let mut err = std::io::stderr().lock();
    // Nothing can be told to someone whose stderr is gone.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_waits_are_worth_a_word() {
        let now = Instant::now();
        let wait = |what: &str, age: u64| Wait {
            id: age,
            what: what.to_owned(),
            since: now.checked_sub(Duration::from_millis(age)).unwrap_or(now),
        };
        assert_eq!(line(&[], now), None);
        assert_eq!(line(&[wait("an answer", 900)], now), None);
        let two = [wait("an answer", 2100), wait("the end of pod/a", 500)];
        assert_eq!(line(&two, now).as_deref(), Some("waiting for an answer and 1 more (2 s)"));
    }
}

//! Failures that people have been told of in events: one that goes on with every retry is told once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use karmada_client::Object;
use karmada_runtime::Recorder;
use parking_lot::Mutex;

/// How many failures are remembered.
const MEMORY: usize = 1 << 16;

/// The last message about each subject, both as digests: the words would take more memory than the events.
#[derive(Default)]
pub(crate) struct Failures {
    told: Mutex<HashMap<u64, u64>>,
}

impl Failures {
    /// Whether something else was told last, or nothing. From now on this was.
    pub(crate) fn is_news(&self, subject: impl Hash, message: &str) -> bool {
        let (subject, message) = (digest(subject), digest(message));
        let mut told = self.told.lock();
        if told.len() >= MEMORY && !told.contains_key(&subject) {
            // Starting over costs an event written twice.
            told.clear();
        }
        told.insert(subject, message) != Some(message)
    }

    /// Forgets what was told, for it works now. Returns whether anything had been.
    pub(crate) fn is_over(&self, subject: impl Hash) -> bool {
        self.told.lock().remove(&digest(subject)).is_some()
    }

    /// Warns about an object, unless the same was said last.
    pub(crate) fn warn(&self, events: &Recorder, about: &Object, reason: &str, message: &str) {
        if self.is_news((reason, about.uid()), message) {
            events.warning(about, reason, message);
        }
    }

    /// Forgets what [`Failures::warn`] said for this reason. Returns whether it said anything.
    pub(crate) fn recovered(&self, about: &Object, reason: &str) -> bool {
        self.is_over((reason, about.uid()))
    }
}

fn digest(words: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    words.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_until_it_was_told_and_again_once_it_is_over() {
        let failures = Failures::default();
        assert!(failures.is_news("a", "no route"));
        assert!(!failures.is_news("a", "no route"));
        assert!(failures.is_news("b", "no route"), "each subject has its own");
        assert!(failures.is_news("a", "refused"), "another reason is told");
        assert!(failures.is_news("a", "no route"), "and so is the way back");
        assert!(failures.is_over("a"));
        assert!(!failures.is_over("a"));
        assert!(failures.is_news("a", "no route"));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let failures = Failures::default();
        for subject in 0..3 * MEMORY {
            failures.is_news(subject, "no route");
        }
        assert!(failures.told.lock().len() <= MEMORY);
    }
}

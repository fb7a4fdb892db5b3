//! A question that many ask at the same time and one answer serves.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;

/// Asks once for all who wait for the answer.
#[derive(Debug)]
pub(crate) struct AskedOnce<T> {
    arrivals: AtomicU64,
    /// Up to which arrival the answer holds.
    answer: tokio::sync::Mutex<Option<(u64, Result<T>)>>,
}

impl<T> Default for AskedOnce<T> {
    fn default() -> Self {
        Self { arrivals: AtomicU64::new(0), answer: tokio::sync::Mutex::new(None) }
    }
}

impl<T: Clone> AskedOnce<T> {
    /// Whoever comes while others wait shares the answer to a question asked after all of them
    /// have come.
    pub(crate) async fn ask<F>(&self, question: impl FnOnce() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let turn = self.arrivals.fetch_add(1, Ordering::AcqRel) + 1;
        let mut answer = self.answer.lock().await;
        if let Some((_, told)) = answer.as_ref().filter(|(upto, _)| *upto >= turn) {
            return told.clone();
        }
        let upto = self.arrivals.load(Ordering::Acquire);
        let told = question().await;
        *answer = Some((upto, told.clone()));
        told
    }
}

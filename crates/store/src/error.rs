//! What can go wrong in a store, told apart by what the caller can do about it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::KeyValue;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The key is not as the writer expected; `current` is how it is.
    #[error("the stored value is not the expected one")]
    Conflict { current: Option<Box<KeyValue>> },

    #[error("revision {requested} is gone, history begins at {compacted}")]
    Compacted { requested: i64, compacted: i64 },

    #[error("revision {requested} is not reached yet, the store is at {current}")]
    FutureRevision { requested: i64, current: i64 },

    #[error("the store is closed")]
    Closed,

    /// Writes fail until space is freed; reads go on.
    #[error("no space left for the store in {path}", path = path.display())]
    Full { path: PathBuf },

    /// Writes fail until the directory is writable again; reads go on.
    #[error("the store in {path} cannot be written: {reason}", path = path.display())]
    ReadOnly { path: PathBuf, reason: String },

    #[error(
        "the store file {path} is damaged ({reason}); it was left as it is, restore it from a backup",
        path = path.display()
    )]
    Damaged { path: PathBuf, reason: String },

    #[error("{path} is in use by {holder}; only one process can have it open", path = path.display())]
    InUse { path: PathBuf, holder: String },

    #[error(
        "the store file {path} has format {found}, this program reads format {supported}",
        path = path.display()
    )]
    Format { path: PathBuf, found: i64, supported: i64 },

    /// Nothing was done: the same request may go through a little later.
    #[error("the store cannot be reached: {reason}")]
    Unavailable { reason: String },

    /// A plugin that guards keys gives none: nothing was done, and the same request may go through later.
    #[error("the kms provider {provider:?} at {endpoint} cannot be used: {reason}")]
    KeyService { provider: String, endpoint: String, reason: String },

    /// A write may have been made or may still be. Only reading tells.
    #[error("it is not known whether the write was made: {reason}")]
    Ambiguous { reason: String },

    #[error("{reason}")]
    TooLarge { reason: String },

    #[error("{attempt}")]
    Io { attempt: String, source: Arc<dyn std::error::Error + Send + Sync> },
}

impl Error {
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    pub fn is_compacted(&self) -> bool {
        matches!(self, Self::Compacted { .. })
    }

    pub(crate) fn io(
        attempt: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Io { attempt: attempt.into(), source: Arc::new(source) }
    }

    pub(crate) fn conflict(current: Option<KeyValue>) -> Self {
        Self::Conflict { current: current.map(Box::new) }
    }
}

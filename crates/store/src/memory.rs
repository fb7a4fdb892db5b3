//! The store without a disk: for simulated members and tests.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, ready};

use crate::index::{Stage, Write};
use crate::shared::Shared;
use crate::{Event, Expect, KeyValue, Packed, RangeQuery, RangeResult, Result, Store, WatchStream};

/// A store that is gone when the process is.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

impl Memory {
    pub fn new() -> Self {
        Self::default()
    }

    /// A store of its own with what this one holds now, history included: a backup.
    pub fn fork(&self) -> Self {
        let index = self.shared.read().index.clone();
        Self { shared: Arc::new(Shared::new(index)) }
    }

    fn write(&self, write: Write) -> Result<Arc<Event>> {
        self.shared.apply_with(|index| {
            let mut stage = Stage::default();
            let outcome = stage.add(index, write);
            (stage.events, outcome)
        })
    }
}

impl Store for Memory {
    fn revision(&self) -> i64 {
        self.shared.read().index.revision()
    }

    fn compacted_revision(&self) -> i64 {
        self.shared.read().index.compacted()
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<i64>) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        ready(self.shared.read().index.get(key, at)).boxed()
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<RangeResult>> {
        ready(self.shared.read().index.range(&query)).boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Packed,
        expect: Expect,
    ) -> BoxFuture<'a, Result<KeyValue>> {
        // Nothing is written before the future runs, as with the other backends.
        async move {
            let event = self.write(Write::Put { key: key.into(), value, expect })?;
            Ok(event.kv.clone())
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> BoxFuture<'a, Result<Arc<Event>>> {
        async move { self.write(Write::Delete { key: key.into(), expect }) }.boxed()
    }

    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, Result<WatchStream>> {
        ready(self.shared.watch(prefix, after)).boxed()
    }

    fn request_progress(&self) {
        self.shared.request_progress();
    }

    fn crowded(&self, bytes: usize) -> BoxFuture<'_, i64> {
        self.shared.crowded(bytes).boxed()
    }

    fn compact(&self, revision: i64) -> BoxFuture<'_, Result<()>> {
        async move {
            self.shared.compact(revision);
            Ok(())
        }
        .boxed()
    }
}

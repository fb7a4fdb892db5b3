//! A store in memory whose writes fail now and then as they do where others write too: with a
//! conflict although nobody was in the way, or with an answer that is lost after the write.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use karmada_store::{
    Error, Event, Expect, KeyValue, Memory, RangeQuery, RangeResult, Result, Store, WatchStream,
};

type Later<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The store of a control plane. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Contended {
    pub(crate) memory: Memory,
    permille: Arc<AtomicU32>,
    draws: Arc<AtomicU64>,
}

impl Contended {
    pub(crate) fn new(memory: Memory, seed: u64) -> Self {
        let draws = Arc::new(AtomicU64::new(seed));
        Self { memory, permille: Arc::default(), draws }
    }

    /// Something that lives as long as anybody has this store.
    pub(crate) fn sign_of_life(&self) -> Weak<AtomicU32> {
        Arc::downgrade(&self.permille)
    }

    /// How many of a thousand writes fail.
    pub(crate) fn contend(&self, permille: u32) {
        self.permille.store(permille, Ordering::Relaxed);
    }

    pub(crate) fn contention(&self) -> u32 {
        self.permille.load(Ordering::Relaxed)
    }

    /// Draws whether a write fails; the second is whether it happened all the same.
    fn draw(&self) -> (bool, bool) {
        let permille = self.permille.load(Ordering::Relaxed);
        if permille == 0 {
            return (false, false);
        }
        // The finaliser of splitmix64.
        let mut x = self.draws.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        (x % 1000 < u64::from(permille), (x >> 32).is_multiple_of(4))
    }
}

fn lost() -> Error {
    let source = Arc::new(std::io::Error::other("the answer was lost"));
    Error::Io { attempt: "write".to_owned(), source }
}

impl Store for Contended {
    fn revision(&self) -> i64 {
        self.memory.revision()
    }

    fn compacted_revision(&self) -> i64 {
        self.memory.compacted_revision()
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<i64>) -> Later<'a, Result<Option<KeyValue>>> {
        self.memory.get(key, at)
    }

    fn range(&self, query: RangeQuery) -> Later<'_, Result<RangeResult>> {
        self.memory.range(query)
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: karmada_store::Packed,
        expect: Expect,
    ) -> Later<'a, Result<KeyValue>> {
        Box::pin(async move {
            match self.draw() {
                (true, false) => {
                    let current = self.memory.get(key, None).await?.map(Box::new);
                    Err(Error::Conflict { current })
                }
                (true, true) => {
                    self.memory.put(key, value, expect).await?;
                    Err(lost())
                }
                _ => self.memory.put(key, value, expect).await,
            }
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> Later<'a, Result<Arc<Event>>> {
        Box::pin(async move {
            let deleted = self.memory.delete(key, expect).await?;
            if self.draw() == (true, true) { Err(lost()) } else { Ok(deleted) }
        })
    }

    fn watch(&self, prefix: &str, after: i64) -> Later<'_, Result<WatchStream>> {
        self.memory.watch(prefix, after)
    }

    fn request_progress(&self) {
        self.memory.request_progress();
    }

    fn compact(&self, revision: i64) -> Later<'_, Result<()>> {
        self.memory.compact(revision)
    }
}

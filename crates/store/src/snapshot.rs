//! Everything a store holds at one revision, taken while others write: for backups, and for moving
//! between backends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;

use crate::embedded::file;
use crate::{Error, Expect, KeyValue, Packed, RangeQuery, Result, Store};

/// How often the state is taken anew when compaction overtakes it.
const ATTEMPTS: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub revision: i64,
    /// In the order of their keys.
    pub items: Vec<KeyValue>,
}

/// What it took to make a store hold what a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    pub written: usize,
    pub deleted: usize,
}

impl Snapshot {
    /// Takes the newest state. Writers are not held up.
    pub async fn of(store: &dyn Store) -> Result<Self> {
        let mut attempts = 0;
        loop {
            let revision = store.current().await?;
            attempts += 1;
            match store.range(RangeQuery::prefix("").at(revision)).await {
                Ok(all) => return Ok(Self { revision, items: all.items }),
                Err(Error::Compacted { .. }) if attempts < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads a file that [`Self::write`] has made, and checks every record of it.
    pub fn read(path: &Path) -> Result<Self> {
        let (revision, items) = file::read_file(path)?;
        Ok(Self { revision, items })
    }

    /// Writes one file, readable by its owner alone.
    pub fn write(&self, path: &Path) -> Result<()> {
        file::write_file(path, self.revision, &self.items)
    }

    /// Makes an embedded store in a directory that does not exist yet. All that was ever read
    /// elsewhere up to `revision` is history that is gone, so that watches begin anew.
    pub fn make_store(&self, dir: &Path, revision: i64) -> Result<()> {
        file::make_store(dir, revision.max(self.revision), &self.items)
    }

    /// Adds a key as if it had been written last.
    pub fn add(&mut self, key: &str, value: Packed) {
        self.take(key);
        self.revision += 1;
        let revision = self.revision;
        let kv = KeyValue {
            key: key.into(),
            value,
            create_revision: revision,
            mod_revision: revision,
            version: 1,
        };
        let place = self.items.partition_point(|other| *other.key < *key);
        self.items.insert(place, kv);
    }

    /// Takes a key out.
    pub fn take(&mut self, key: &str) -> Option<KeyValue> {
        let place = self.items.iter().position(|kv| *kv.key == *key)?;
        Some(self.items.remove(place))
    }

    /// Makes a store hold what the snapshot holds, by as few ordinary writes as that takes: whoever
    /// watches it sees them. Keys that begin with one of `kept` are left as they are.
    pub async fn apply(&self, store: &dyn Store, kept: &[&str]) -> Result<Applied> {
        let present = Self::of(store).await?;
        let mut present: BTreeMap<Arc<str>, KeyValue> =
            present.items.into_iter().map(|kv| (kv.key.clone(), kv)).collect();
        let is_kept = |key: &str| kept.iter().any(|prefix| key.starts_with(prefix));
        let mut changed = Vec::new();
        for kv in self.items.iter().filter(|kv| !is_kept(&kv.key)) {
            let same = present.remove(&kv.key).is_some_and(|present| present.value == kv.value);
            if !same {
                changed.push(kv);
            }
        }
        let put = |kv: &KeyValue| {
            let (key, value) = (kv.key.clone(), kv.value.clone());
            async move { store.put(&key, value, Expect::Any).await.map(drop) }
        };
        let written = at_once(changed.into_iter().map(put)).await?;
        let surplus = present.into_keys().filter(|key| !is_kept(key));
        let delete = |key: Arc<str>| async move {
            match store.delete(&key, Expect::Any).await {
                // Somebody else has deleted it.
                Err(Error::Conflict { .. }) => Ok(()),
                outcome => outcome.map(drop),
            }
        };
        let deleted = at_once(surplus.map(delete)).await?;
        let applied = Applied { written, deleted };
        Ok(applied)
    }
}

/// Runs writes, many at a time, and counts them.
async fn at_once<F: Future<Output = Result<()>>>(writes: impl Iterator<Item = F>) -> Result<usize> {
    let mut writes = futures::stream::iter(writes).buffer_unordered(64);
    let mut count = 0;
    while let Some(written) = writes.next().await {
        written?;
        count += 1;
    }
    Ok(count)
}

/// Writes a key again and again until the store is at `revision`, so that versions which clients
/// have read elsewhere are not given out a second time. The key is gone afterwards.
pub async fn raise_revision(store: &dyn Store, key: &str, revision: i64) -> Result<()> {
    let missing = revision - store.current().await?;
    if missing <= 0 {
        return Ok(());
    }
    let write = |_| async {
        match store.put(key, "-".into(), Expect::Any).await {
            // One more or one less does not matter.
            Err(Error::Ambiguous { .. }) => Ok(()),
            written => written.map(drop),
        }
    };
    // The deletion is a revision of its own.
    at_once((0..(missing - 1).max(1)).map(write)).await?;
    store.delete(key, Expect::Any).await?;
    Ok(())
}

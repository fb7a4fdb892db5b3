//! Reads every change from the store and hands it to the cache of its resource.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use karmada_signal::Signal;
use karmada_store::{RangeQuery, Store, Update};
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Cache, Reading};
use crate::config::History;

/// How much history a cache reads at its start.
const REPLAYED: i64 = 20_000;

/// How often the store is asked how far it is while somebody waits for that.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// All caches of a server.
pub struct Caches {
    store: Arc<dyn Store>,
    history: History,
    by_prefix: RwLock<BTreeMap<String, Arc<Cache>>>,
    /// Held while events are handed out, so that a new cache starts between two of them.
    gate: Mutex<()>,
    /// The revision up to which every cache has seen everything.
    progress: Signal<i64>,
}

impl Caches {
    /// Starts dispatching; it ends with `stop`.
    pub fn start(store: Arc<dyn Store>, history: History, stop: CancellationToken) -> Arc<Self> {
        let after = store.revision();
        let caches = Arc::new(Self {
            store,
            history,
            by_prefix: RwLock::default(),
            gate: Mutex::default(),
            progress: Signal::new(after),
        });
        let dispatching = caches.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = dispatching.run(after) => {}
            }
        });
        caches
    }

    async fn run(&self, mut after: i64) {
        loop {
            match self.follow(after).await {
                Ok(()) => tracing::warn!("the store ended the watch, reading all objects again"),
                Err(karmada_store::Error::Closed) => return,
                Err(error) => tracing::warn!(%error, "watch the store, reading all objects again"),
            }
            match self.reload().await {
                Ok(revision) => after = revision,
                Err(karmada_store::Error::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "read all objects");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    async fn follow(&self, after: i64) -> karmada_store::Result<()> {
        let mut updates = self.store.watch("", after).await?.ready_chunks(64);
        while let Some(chunk) = updates.next().await {
            let _handing_out = self.gate.lock().await;
            let mut reached = None;
            for update in chunk {
                match update? {
                    Update::Event(event) => {
                        if let Some(cache) = self.cache_of(&event.kv.key) {
                            cache.apply(&event);
                        }
                        reached = Some(event.revision());
                    }
                    Update::Progress(revision) => reached = Some(revision),
                }
            }
            if let Some(revision) = reached {
                self.progress.set(revision);
            }
        }
        Ok(())
    }

    async fn reload(&self) -> karmada_store::Result<i64> {
        let _handing_out = self.gate.lock().await;
        let caches: Vec<Arc<Cache>> = self.by_prefix.read().values().cloned().collect();
        let revision = self.store.current().await?;
        for cache in caches {
            let list =
                self.store.range(RangeQuery::prefix(cache.prefix.as_str()).at(revision)).await?;
            cache.replace(&list.items, revision);
        }
        self.progress.set(revision);
        Ok(revision)
    }

    fn cache_of(&self, key: &str) -> Option<Arc<Cache>> {
        let caches = self.by_prefix.read();
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let (prefix, cache) = caches.range::<str, _>(up_to).next_back()?;
        key.starts_with(prefix.as_str()).then(|| cache.clone())
    }

    /// Opens the cache of a resource, filled with what is stored; an older one of the same prefix is closed.
    pub async fn open(&self, prefix: &str, reading: Reading) -> karmada_store::Result<Arc<Cache>> {
        let _between_events = self.gate.lock().await;
        let cache = Arc::new(Cache::new(prefix.to_owned(), reading, self.history));
        self.fill(&cache).await?;
        if let Some(older) = self.by_prefix.write().insert(prefix.to_owned(), cache.clone()) {
            older.close();
        }
        Ok(cache)
    }

    /// Fills a new cache with what is stored and, after a restart, with the history the store still
    /// has: clients go on from where they were.
    async fn fill(&self, cache: &Cache) -> karmada_store::Result<()> {
        let prefix = cache.prefix.as_str();
        let list = self.store.range(RangeQuery::prefix(prefix)).await?;
        let mut history = Vec::new();
        let oldest = self.store.compacted_revision().max(list.revision - REPLAYED);
        if !self.store.replays_cheaply() || oldest >= list.revision {
            cache.fill(&list.items, list.revision, (list.revision, &history));
            return Ok(());
        }
        let mut updates = self.store.watch(prefix, oldest).await?;
        self.store.request_progress();
        while let Some(update) = updates.next().await {
            match update? {
                Update::Event(event) if event.revision() <= list.revision => history.push(event),
                Update::Progress(revision) if revision < list.revision => {}
                Update::Event(_) | Update::Progress(_) => break,
            }
        }
        cache.fill(&list.items, list.revision, (oldest, &history));
        Ok(())
    }

    /// Forgets a resource.
    pub fn shut(&self, prefix: &str) {
        if let Some(cache) = self.by_prefix.write().remove(prefix) {
            cache.close();
        }
    }

    /// The revision up to which every cache has seen everything.
    pub fn progress(&self) -> i64 {
        self.progress.get()
    }

    /// Waits until all caches have reached a revision; false if that took too long.
    pub async fn reach(&self, revision: i64, patience: Duration) -> bool {
        if self.progress() >= revision {
            return true;
        }
        let deadline = Instant::now() + patience;
        let mut reached = pin!(self.progress.until(|reached| *reached >= revision));
        loop {
            let again = deadline.min(Instant::now() + ASK_AGAIN);
            tokio::select! {
                biased;
                _ = &mut reached => return true,
                () = tokio::time::sleep_until(again) => {}
            }
            if Instant::now() >= deadline {
                return false;
            }
            // The revision may be that of a change no cache is told of.
            self.store.request_progress();
        }
    }

    /// Waits until the caches know everything committed before this call, by whichever process;
    /// returns the revision they had to reach, and whether they did.
    pub async fn catch_up(&self) -> karmada_store::Result<(i64, bool)> {
        let revision = self.store.current().await?;
        let reached = self.reach(revision, Duration::from_secs(3)).await;
        if !reached {
            tracing::warn!(revision, progress = self.progress(), "caches lag behind the store");
        }
        Ok((revision, reached))
    }
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::Value;
    use karmada_store::{Expect, Memory};

    use super::super::Next;
    use super::*;

    type Told = (i64, bool, Value, Option<i64>);

    fn told(cache: &Arc<Cache>, after: i64) -> Vec<Told> {
        let mut watcher = cache.watch_after(after).unwrap_or_else(|since| panic!("since {since}"));
        let mut told = Vec::new();
        while let Some(Next::Changes(changes)) = watcher.poll() {
            told.extend(changes.iter().map(|change| {
                let previous = change.previous.as_ref().map(|previous| previous.revision);
                (change.revision, change.deleted, change.object.to_value(), previous)
            }));
        }
        told
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_comes_late_knows_what_one_knows_that_was_there() {
        let store = Memory::new();
        let open = async || {
            let stop = CancellationToken::new();
            let caches = Caches::start(Arc::new(store.clone()), History::default(), stop);
            (caches.open("/things/", Reading::default()).await.unwrap(), caches)
        };
        let put = async |key: &str, text: String| {
            store.put(key, text.into(), Expect::Any).await.unwrap().mod_revision
        };
        let text = |n: usize| format!(r#"{{"kind":"Thing","metadata":{{"name":"a"}},"n":{n}}}"#);
        put("/things/old", text(0)).await;
        let begin = put("/things/gone", text(1)).await;
        let (early, caches) = open().await;
        for round in 0..3 {
            put("/things/a", text(round)).await;
            put("/others/a", text(round)).await;
            put("/things/old", text(round)).await;
            put("/things/a", "no object".to_owned()).await;
            put("/things/a", text(round + 1)).await;
            store.delete("/things/a", Expect::Any).await.unwrap();
        }
        store.delete("/things/gone", Expect::Any).await.unwrap();
        let last = put("/things/b", text(7)).await;
        assert!(caches.reach(last, Duration::from_secs(60)).await);
        let (late, _) = open().await;
        let known = told(&early, begin);
        assert_eq!(known.len(), 3 * 4 + 2);
        assert_eq!(told(&late, begin), known);
        let objects = |cache: &Cache| -> Vec<_> {
            cache.list("").iter().map(|object| (object.key.clone(), object.to_value())).collect()
        };
        assert_eq!(objects(&late), objects(&early));
        assert_eq!(objects(&late).len(), 2);
    }
}

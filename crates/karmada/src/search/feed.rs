//! One kind across the clusters that keep it: their caches, and the changes of all of them in one row
//! that watches follow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_client::Object;
use karmada_runtime::{Change, Informer, ObjectKey, Subscription};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::row::{self, Row, TooOld};
use super::versions::Versions;

/// Changes remembered for watches that come back.
const REMEMBERED: usize = 4096;
/// Changes a watch may lag behind before it is ended; it can come back for the rest.
const LAG: usize = 1024;

pub(super) type Event = row::Event<Change>;

/// An object and the cluster it is in.
pub(super) type Found = (Arc<str>, Arc<Object>);

/// What a cluster contributes.
struct Source {
    id: u64,
    informers: Vec<Arc<Informer>>,
    _subscriptions: Vec<Subscription>,
}

impl Source {
    fn list(&self, namespace: &str) -> Vec<Arc<Object>> {
        let caches = self.informers.iter().map(|informer| informer.cache());
        caches
            .flat_map(|cache| match namespace {
                "" => cache.list(),
                namespace => cache.list_namespace(namespace),
            })
            .collect()
    }
}

/// The version up to which everything is in the caches.
fn version_of(informers: &[Arc<Informer>]) -> u64 {
    let versions = informers.iter().map(|informer| informer.version().parse().unwrap_or_default());
    versions.min().unwrap_or_default()
}

struct Inner {
    sources: BTreeMap<Arc<str>, Source>,
    row: Row<Change>,
    watchers: Vec<mpsc::Sender<Arc<Event>>>,
}

impl Inner {
    fn versions(&self) -> Versions {
        let mut versions = Versions::default();
        for (cluster, source) in &self.sources {
            versions.set(cluster, &version_of(&source.informers).to_string());
        }
        versions
    }
}

/// One kind in all clusters. It must have no cluster left when it is dropped: its informers would have
/// to be told while they tell it something.
pub(super) struct Feed {
    pub(super) gvr: Gvr,
    pub(super) gvk: Gvk,
    inner: Mutex<Inner>,
    next_id: AtomicU64,
}

/// How a watch begins: what it has not seen yet, the versions known before, and what comes next.
pub(super) struct Start {
    pub(super) objects: Vec<Found>,
    pub(super) missed: Vec<Arc<Event>>,
    pub(super) versions: Versions,
    pub(super) events: mpsc::Receiver<Arc<Event>>,
}

impl Feed {
    pub(super) fn new(gvr: Gvr, gvk: Gvk) -> Self {
        let inner =
            Inner { sources: BTreeMap::new(), row: Row::new(REMEMBERED), watchers: Vec::new() };
        Self { gvr, gvk, inner: Mutex::new(inner), next_id: AtomicU64::new(0) }
    }

    /// Adds what a cluster has. The informers must be in sync. Open watches end, so that their clients
    /// come back and learn of it.
    pub(super) fn add(self: &Arc<Self>, cluster: &Arc<str>, informers: Vec<Arc<Informer>>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let subscribe = |informer: &Arc<Informer>| {
            let (feed, cluster) = (Arc::downgrade(self), cluster.clone());
            informer.subscribe(move |change| {
                if let Some(feed) = feed.upgrade() {
                    feed.tell(&cluster, id, change);
                }
            })
        };
        // What is told before the source is known is in the caches by then.
        let subscriptions = informers.iter().map(subscribe).collect();
        let mut inner = self.inner.lock();
        inner.row.begin(cluster, version_of(&informers));
        let source = Source { id, informers, _subscriptions: subscriptions };
        let before = inner.sources.insert(cluster.clone(), source);
        inner.watchers.clear();
        drop(inner);
        // Informers call back under a lock of theirs, so they are left without ours.
        drop(before);
    }

    /// Leaves out a cluster. Open watches end; their clients are told to read everything again.
    pub(super) fn remove(&self, cluster: &str) {
        let mut inner = self.inner.lock();
        let before = inner.sources.remove(cluster);
        if before.is_some() {
            inner.row.forget(cluster);
            inner.watchers.clear();
        }
        drop(inner);
        drop(before);
    }

    pub(super) fn has(&self, cluster: &str) -> bool {
        self.inner.lock().sources.contains_key(cluster)
    }

    fn tell(&self, cluster: &Arc<str>, id: u64, change: &Change) {
        let version = change.object().resource_version().parse().unwrap_or_default();
        let mut inner = self.inner.lock();
        if inner.sources.get(cluster).is_none_or(|source| source.id != id) {
            return;
        }
        let Some(event) = inner.row.push(cluster, version, change.clone()) else { return };
        inner.watchers.retain(|watcher| watcher.try_send(event.clone()).is_ok());
    }

    /// The clusters that contribute, with the version each has reached.
    pub(super) fn versions(&self) -> Versions {
        self.inner.lock().versions()
    }

    pub(super) fn clusters(&self) -> Vec<Arc<str>> {
        self.inner.lock().sources.keys().cloned().collect()
    }

    /// The object of this name in every cluster that has one.
    pub(super) fn get(&self, key: &ObjectKey) -> Vec<Found> {
        let inner = self.inner.lock();
        let in_cluster = |(cluster, source): (&Arc<str>, &Source)| {
            let mut caches = source.informers.iter().map(|informer| informer.cache());
            Some((cluster.clone(), caches.find_map(|cache| cache.get(key))?))
        };
        inner.sources.iter().filter_map(in_cluster).collect()
    }

    /// The objects of a cluster in the order of their keys; of all namespaces for an empty one.
    pub(super) fn list(&self, cluster: &str, namespace: &str) -> Vec<Arc<Object>> {
        let inner = self.inner.lock();
        inner.sources.get(cluster).map(|source| source.list(namespace)).unwrap_or_default()
    }

    /// Begins a watch behind the versions given; clusters they do not name are told from the beginning.
    pub(super) fn watch(&self, from: &Versions, namespace: &str) -> Result<Start, TooOld> {
        let mut inner = self.inner.lock();
        if from.clusters().any(|cluster| !inner.sources.contains_key(cluster)) {
            return Err(TooOld);
        }
        let mut versions = inner.versions();
        let (mut objects, mut known) = (Vec::new(), BTreeMap::new());
        for (cluster, source) in &inner.sources {
            match from.get(cluster).filter(|version| *version != "0") {
                None => {
                    let own = source.list(namespace).into_iter();
                    objects.extend(own.map(|object| (cluster.clone(), object)));
                }
                Some(version) => {
                    known.insert(cluster.clone(), version.parse().map_err(|_| TooOld)?);
                    versions.set(cluster, version);
                }
            }
        }
        let missed = inner.row.after(&known)?;
        let (sender, events) = mpsc::channel(LAG);
        inner.watchers.push(sender);
        Ok(Start { objects, missed, versions, events })
    }
}

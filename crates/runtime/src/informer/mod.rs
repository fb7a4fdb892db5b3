//! Shared informers: one list and watch per resource, server and selector, whatever number of
//! consumers there is. Consumers read the cache and are told what changes in it.

mod cache;
mod reflector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use karmada_apimachinery::gvk::Gvr;
use karmada_client::{Client, Object};
use karmada_signal::Signal;
use parking_lot::Mutex;
use tokio::sync::mpsc;

pub use cache::Cache;

use crate::{ObjectKey, Queue, Shutdown};

/// Which objects an informer follows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InformerSpec {
    pub gvr: Gvr,
    /// Empty for all namespaces.
    pub namespace: String,
    pub label_selector: String,
    pub field_selector: String,
    /// Follows the metadata alone and keeps what ownership is read from: names, uid, owners,
    /// finalizers, the time of deletion.
    pub metadata_only: bool,
    /// Leaves the record of who wrote which field out of what servers of other processes tell.
    pub slim: bool,
}

impl InformerSpec {
    pub fn all(gvr: Gvr) -> Self {
        Self {
            gvr,
            namespace: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
            metadata_only: false,
            slim: false,
        }
    }

    pub fn namespaced(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    pub fn labelled(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    pub fn with_fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }

    pub fn slim(mut self) -> Self {
        self.slim = true;
        self
    }

    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }
}

/// A change of the cache, told after it has happened there.
#[derive(Debug, Clone)]
pub enum Change {
    Applied {
        /// What stood there before; for a late subscriber, and for a new object, nothing.
        old: Option<Arc<Object>>,
        new: Arc<Object>,
    },
    /// The last state the cache has seen.
    Deleted(Arc<Object>),
}

impl Change {
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Applied { new, .. } => new,
            Self::Deleted(object) => object,
        }
    }
}

type Handler = Arc<dyn Fn(&Change) + Send + Sync>;
type AfterList = Box<dyn Fn() + Send + Sync>;

/// One list and watch, with its cache and its consumers.
pub struct Informer {
    spec: InformerSpec,
    cache: Cache,
    handlers: Mutex<Vec<(u64, Handler)>>,
    next_handler: AtomicU64,
    after_lists: Mutex<Vec<AfterList>>,
    synced: Signal<bool>,
    version: Mutex<String>,
    stop: Shutdown,
}

impl Informer {
    fn new(spec: InformerSpec, stop: Shutdown) -> Self {
        Self {
            spec,
            cache: Cache::default(),
            handlers: Mutex::default(),
            next_handler: AtomicU64::new(0),
            after_lists: Mutex::default(),
            synced: Signal::new(false),
            version: Mutex::default(),
            stop,
        }
    }

    pub fn spec(&self) -> &InformerSpec {
        &self.spec
    }

    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    pub fn is_synced(&self) -> bool {
        self.synced.get()
    }

    /// The version up to which the server has told of changes: all of them are in the cache, and every
    /// handler was called for them. Empty before the first list.
    pub fn version(&self) -> String {
        self.version.lock().clone()
    }

    /// Waits until the cache holds everything that existed when the informer began.
    pub async fn wait_synced(&self) {
        self.synced.until(|synced| *synced).await;
    }

    /// Calls the function for every object of the cache and then for every change, one after the
    /// other, until the subscription is dropped. It must be quick and must not subscribe itself.
    pub fn subscribe(
        self: &Arc<Self>,
        handler: impl Fn(&Change) + Send + Sync + 'static,
    ) -> Subscription {
        let id = self.next_handler.fetch_add(1, Ordering::Relaxed);
        // Changes wait for this lock, so none is missed and none comes twice.
        let mut handlers = self.handlers.lock();
        for new in self.cache.list() {
            handler(&Change::Applied { old: None, new });
        }
        handlers.push((id, Arc::new(handler)));
        Subscription { informer: self.clone(), id }
    }

    /// Calls the function whenever everything was read and is in the cache. What never was in the
    /// cache is not there for sure then, though no change told of its end. It must be quick.
    pub fn after_every_list(&self, handler: impl Fn() + Send + Sync + 'static) {
        self.after_lists.lock().push(Box::new(handler));
    }

    /// Delivers the objects of the cache and all changes through a channel.
    pub fn changes(self: &Arc<Self>) -> (mpsc::UnboundedReceiver<Change>, Subscription) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let subscription = self.subscribe(move |change| {
            // The receiver may be gone before the subscription is.
            drop(sender.send(change.clone()));
        });
        (receiver, subscription)
    }

    /// Adds the key of every object that changes to the queue.
    pub fn feed(self: &Arc<Self>, queue: &Queue<ObjectKey>) -> Subscription {
        let queue = queue.clone();
        self.subscribe(move |change| queue.add(ObjectKey::of(change.object())))
    }

    fn apply(&self, object: Arc<Object>) {
        let object = if self.spec.metadata_only { object.into_bare() } else { object };
        let handlers = self.handlers.lock();
        let old = self.cache.apply(object.clone());
        // A relist brings most objects back as they were.
        let same = |old: &Arc<Object>| {
            old.uid() == object.uid() && old.resource_version() == object.resource_version()
        };
        if !old.as_ref().is_some_and(same) {
            tell(&handlers, &Change::Applied { old, new: object });
        }
    }

    fn delete(&self, key: &ObjectKey, last: Option<Arc<Object>>) {
        let handlers = self.handlers.lock();
        if let Some(cached) = self.cache.remove(key) {
            tell(&handlers, &Change::Deleted(last.unwrap_or(cached)));
        }
    }

    fn reached(&self, version: &str) {
        let mut reached = self.version.lock();
        reached.clear();
        reached.push_str(version);
    }

    /// Makes the cache hold exactly these objects, which are all there were at this version.
    fn replace(&self, objects: Vec<Arc<Object>>, version: &str) {
        let present: std::collections::BTreeSet<_> =
            objects.iter().map(|object| ObjectKey::of(object)).collect();
        for key in self.cache.keys() {
            if !present.contains(&key) {
                self.delete(&key, None);
            }
        }
        for object in objects {
            // An object made anew under the same name is another one.
            let key = ObjectKey::of(&object);
            let other = |cached: Arc<Object>| cached.uid() != object.uid();
            if self.cache.get(&key).is_some_and(other) {
                self.delete(&key, None);
            }
            self.apply(object);
        }
        self.reached(version);
        self.synced.set(true);
        self.after_lists.lock().iter().for_each(|handler| handler());
    }
}

/// An informer that is being followed. Once it is not, it lets everybody go who listened: they hold the informer, and
/// would hold each other for ever.
struct Followed(Arc<Informer>);

impl Drop for Followed {
    fn drop(&mut self) {
        // Whoever goes with them may end subscriptions of their own, so no lock is held.
        let handlers = std::mem::take(&mut *self.0.handlers.lock());
        let after_lists = std::mem::take(&mut *self.0.after_lists.lock());
        drop((handlers, after_lists));
    }
}

fn tell(handlers: &[(u64, Handler)], change: &Change) {
    handlers.iter().for_each(|(_, handler)| handler(change));
}

/// Keeps a handler subscribed until it is dropped.
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    informer: Arc<Informer>,
    id: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut handlers = self.informer.handlers.lock();
        let place = handlers.iter().position(|(id, _)| *id == self.id);
        let handler = place.map(|place| handlers.remove(place));
        drop(handlers);
        // What it holds may hold further subscriptions.
        drop(handler);
    }
}

/// The informers of one server. Clones share them.
#[derive(Clone)]
pub struct Informers {
    client: Client,
    running: Arc<Mutex<BTreeMap<InformerSpec, Arc<Informer>>>>,
    shutdown: Shutdown,
    wary: bool,
    /// What `all` stands for, where that is not everything.
    narrow: Option<Arc<Narrow>>,
}

type Narrow = dyn Fn(Gvr) -> InformerSpec + Send + Sync;

impl Informers {
    pub fn new(client: Client, shutdown: Shutdown) -> Self {
        Self { client, running: Arc::default(), shutdown, wary: false, narrow: None }
    }

    /// For those whom only a part concerns: what they call all objects of a resource is what the function
    /// makes of it.
    pub fn narrowed(self, narrow: impl Fn(Gvr) -> InformerSpec + Send + Sync + 'static) -> Self {
        Self { narrow: Some(Arc::new(narrow)), ..self }
    }

    /// For servers of others: whenever a watch of one ends, everything is read again, since it may
    /// not have told the truth until then.
    pub fn wary(self) -> Self {
        Self { wary: true, ..self }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the informer of these objects, starting it if it does not run yet.
    pub fn get(&self, spec: InformerSpec) -> Arc<Informer> {
        let mut running = self.running.lock();
        if let Some(informer) = running.get(&spec) {
            return informer.clone();
        }
        let informer = Arc::new(Informer::new(spec.clone(), self.shutdown.child()));
        let (client, followed) = (self.client.clone(), Followed(informer.clone()));
        let wary = self.wary;
        informer.stop.spawn_until(async move {
            let followed = followed;
            reflector::run(client, followed.0.clone(), wary).await;
        });
        running.insert(spec, informer.clone());
        informer
    }

    /// Returns the informer of these objects if it runs already.
    pub fn running(&self, spec: &InformerSpec) -> Option<Arc<Informer>> {
        self.running.lock().get(spec).cloned()
    }

    /// Follows all objects of a resource.
    pub fn all(&self, gvr: &Gvr) -> Arc<Informer> {
        let gvr = gvr.clone();
        self.get(match &self.narrow {
            Some(narrow) => narrow(gvr),
            None => InformerSpec::all(gvr),
        })
    }

    /// Stops an informer, for a resource that is no longer served. Its cache stays as it is.
    pub fn stop(&self, spec: &InformerSpec) {
        if let Some(informer) = self.running.lock().remove(spec) {
            informer.stop.trigger();
        }
    }

    /// Waits until all informers that run now are in sync.
    pub async fn wait_synced(&self) {
        let running: Vec<_> = self.running.lock().values().cloned().collect();
        for informer in running {
            informer.wait_synced().await;
        }
    }
}

//! The bindings of one scope: their cache, what was written and has not come back yet, and the last
//! decisions for whoever asks why.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use karmada_api::scopes::Binding;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::{Api, Client};
use karmada_runtime::{Informer, Manager, ObjectKey};
use karmada_scheduler_core::snapshot::Snapshot;
use karmada_scheduler_core::trigger::Trigger;
use parking_lot::Mutex;

/// How many decisions are kept.
const REMEMBERED: usize = 1024;

pub(crate) struct Lane<B> {
    pub(crate) informer: Arc<Informer>,
    client: Client,
    gvr: Gvr,
    written: Mutex<HashMap<ObjectKey, Written<B>>>,
    decisions: Mutex<Decisions<B>>,
}

/// What we wrote last, until the cache has seen all of it.
struct Written<B> {
    uid: String,
    generation: i64,
    object: Arc<B>,
}

/// What a decision was made from.
pub(crate) struct Decided<B> {
    /// Nothing for one that was made with its placement: it is what it was then, but for the clusters.
    pub(crate) binding: Option<Arc<B>>,
    pub(crate) trigger: Trigger,
    /// Old snapshots are not kept alive by decisions.
    pub(crate) snapshot: Weak<Snapshot>,
}

impl<B> Clone for Decided<B> {
    fn clone(&self) -> Self {
        let Self { binding, trigger, snapshot } = self;
        Self { binding: binding.clone(), trigger: *trigger, snapshot: snapshot.clone() }
    }
}

struct Decisions<B> {
    by_key: HashMap<ObjectKey, Decided<B>>,
    order: VecDeque<ObjectKey>,
}

impl<B: Binding> Lane<B> {
    pub(crate) fn new(manager: &Manager) -> Self {
        let gvr = Gvr::new(B::GROUP, B::VERSION, B::PLURAL);
        Self {
            informer: manager.informers.all(&gvr),
            client: manager.client.clone(),
            gvr,
            written: Mutex::default(),
            decisions: Mutex::new(Decisions { by_key: HashMap::new(), order: VecDeque::new() }),
        }
    }

    pub(crate) fn api(&self, key: &ObjectKey) -> Api {
        self.client.api(&self.gvr).namespaced(&key.namespace)
    }

    /// The newest state known: the cached one, or what we wrote if that is not cached yet.
    pub(crate) fn latest(&self, key: &ObjectKey) -> Option<Arc<B>> {
        let cached = self.informer.cache().get(key)?;
        let cached = match cached.typed_for_now::<B>() {
            Ok(binding) => binding,
            Err(error) => {
                tracing::warn!(binding = %key, %error, "a binding could not be read");
                return None;
            }
        };
        let written = self.written.lock();
        let newer = written.get(key).filter(|written| {
            let metadata = cached.metadata();
            written.uid == metadata.uid && written.generation > metadata.generation
        });
        Some(newer.map_or(cached, |written| written.object.clone()))
    }

    /// Whether this state of the binding is our own work, in which there is nothing new for us.
    pub(crate) fn is_own(&self, binding: &B) -> bool {
        let metadata = binding.metadata();
        let key = ObjectKey::new(&metadata.namespace, &metadata.name);
        self.written.lock().get(&key).is_some_and(|written| {
            written.uid == metadata.uid && written.generation == metadata.generation
        })
    }

    pub(crate) fn wrote(&self, key: &ObjectKey, object: Arc<B>) {
        let metadata = object.metadata();
        let (uid, generation) = (metadata.uid.clone(), metadata.generation);
        self.written.lock().insert(key.clone(), Written { uid, generation, object });
    }

    /// Lets go of what the cache has seen completely.
    pub(crate) fn seen(&self, key: &ObjectKey, cached: &B) {
        let metadata = cached.metadata();
        let complete = cached.status().scheduler_observed_generation == metadata.generation;
        let mut written = self.written.lock();
        let done = written.get(key).is_some_and(|written| {
            written.uid != metadata.uid
                || written.generation < metadata.generation
                || (written.generation == metadata.generation && complete)
        });
        if done {
            written.remove(key);
        }
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.written.lock().remove(key);
        // Its place in the order is left to run out.
        self.decisions.lock().by_key.remove(key);
    }

    pub(crate) fn remember(&self, key: &ObjectKey, decided: Decided<B>) {
        let mut decisions = self.decisions.lock();
        if decisions.by_key.insert(key.clone(), decided).is_none() {
            decisions.order.push_back(key.clone());
            if decisions.order.len() > REMEMBERED
                && let Some(oldest) = decisions.order.pop_front()
            {
                decisions.by_key.remove(&oldest);
            }
        }
    }

    pub(crate) fn decided(&self, key: &ObjectKey) -> Option<Decided<B>> {
        self.decisions.lock().by_key.get(key).cloned()
    }
}

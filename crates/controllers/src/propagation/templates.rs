//! Templates as the caches of the control plane have them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::work::ObjectReference;
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_client::{ApiResource, Object};
use karmada_runtime::{Informer, Manager, ObjectKey};
use parking_lot::RwLock;
use tokio::time::{Instant, timeout};

/// How long a kind that is not served is not asked for again.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);

/// How long it is waited for the objects of a kind to be read at the start. Those who come later wait no more.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// The finalizer of objects that were deleted with `--cascade=orphan`.
const ORPHANING: &str = "orphan";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// In the words of client-go's mapper, because they reach conditions and events.
    #[error("no matches for kind \"{}\" in version \"{}\"", .0.kind, .0.api_version())]
    UnknownKind(Gvk),
    #[error("find the resource of {gvk}")]
    Discover { gvk: Gvk, source: karmada_client::Error },
    #[error("read {kind} {key}")]
    Read { kind: String, key: ObjectKey, source: karmada_client::Error },
    #[error("read all objects of the kind {0}, which takes long")]
    NotRead(Gvk),
    #[error("understand {kind} {key}")]
    Decode { kind: String, key: ObjectKey, source: serde_json::Error },
}

/// Which resource of the control plane a kind is. Every kind is asked for once.
pub(crate) struct Kinds {
    manager: Manager,
    known: RwLock<HashMap<Gvk, Result<Arc<ApiResource>, Instant>>>,
    /// Kinds that were waited for in vain.
    late: RwLock<HashSet<Gvk>>,
}

impl Kinds {
    pub(crate) fn new(manager: &Manager) -> Arc<Self> {
        Arc::new(Self {
            manager: manager.clone(),
            known: RwLock::default(),
            late: RwLock::default(),
        })
    }

    /// What is known without asking.
    pub(crate) fn known(&self, gvk: &Gvk) -> Option<Arc<ApiResource>> {
        self.known.read().get(gvk)?.as_ref().ok().cloned()
    }

    pub(crate) async fn resource_of(&self, gvk: &Gvk) -> Result<Arc<ApiResource>, Error> {
        match self.known.read().get(gvk) {
            Some(Ok(resource)) => return Ok(resource.clone()),
            Some(Err(since)) if since.elapsed() < UNKNOWN_FOR => {
                return Err(Error::UnknownKind(gvk.clone()));
            }
            _ => {}
        }
        let found = self.manager.discovery.resource_of(gvk).await;
        let found = found.map_err(|source| Error::Discover { gvk: gvk.clone(), source })?;
        let entry = found.map(Arc::new).ok_or_else(Instant::now);
        self.known.write().insert(gvk.clone(), entry.clone());
        entry.map_err(|_| Error::UnknownKind(gvk.clone()))
    }

    /// The informer of a kind once it has read everything. What somebody reads alone before and what changes
    /// then, before everything is read, would look like one and the same, and the change would be lost.
    async fn read(&self, gvk: &Gvk, gvr: &Gvr) -> Result<Arc<Informer>, Error> {
        let informer = self.manager.informers.all(gvr);
        if !informer.is_synced() {
            let is_late = self.late.read().contains(gvk);
            let waiting = timeout(READ_WITHIN, informer.wait_synced());
            if is_late || waiting.await.is_err() {
                self.late.write().insert(gvk.clone());
                return Err(Error::NotRead(gvk.clone()));
            }
        }
        Ok(informer)
    }

    pub(crate) async fn gvr_of(&self, gvk: &Gvk) -> Result<Gvr, Error> {
        Ok(self.resource_of(gvk).await?.gvr.clone())
    }
}

pub(crate) fn gvk_of(reference: &ObjectReference) -> Gvk {
    let version = GroupVersion::parse(&reference.api_version).unwrap_or_default();
    version.with_kind(reference.kind.as_str())
}

fn key_of(reference: &ObjectReference) -> ObjectKey {
    ObjectKey::new(reference.namespace.as_str(), reference.name.as_str())
}

/// Returns the template; nothing if there is none any more.
pub(crate) async fn find(
    kinds: &Kinds,
    reference: &ObjectReference,
) -> Result<Option<Arc<Object>>, Error> {
    let gvk = gvk_of(reference);
    let gvr = kinds.gvr_of(&gvk).await?;
    let templates = kinds.read(&gvk, &gvr).await?;
    let cached = templates.cache().get(&key_of(reference));
    if cached.as_ref().is_some_and(|cached| is_older(cached, reference)) {
        return find_live(kinds, reference).await;
    }
    Ok(cached)
}

/// Returns the template as the API server has it now.
pub(crate) async fn find_live(
    kinds: &Kinds,
    reference: &ObjectReference,
) -> Result<Option<Arc<Object>>, Error> {
    let gvr = kinds.gvr_of(&gvk_of(reference)).await?;
    let key = key_of(reference);
    let api = kinds.manager.client.api(&gvr).namespaced(&key.namespace);
    let kind = || reference.kind.clone();
    let found = api.find(&key.name).await;
    let found = found.map_err(|source| Error::Read { kind: kind(), key: key.clone(), source })?;
    let object = found.map(|value| Object::from_value(&value).map(Arc::new)).transpose();
    object.map_err(|source| Error::Decode { kind: kind(), key, source })
}

/// Whether the template goes and leaves its dependents behind. A binding that is tied to it now would
/// be taken for one that goes along, and with it everything in the members.
pub(crate) fn leaves_orphans(template: &Object) -> bool {
    template.meta().finalizers.iter().any(|finalizer| finalizer == ORPHANING)
}

/// Whether the cache has not yet seen the version that the reference was made from.
fn is_older(cached: &Object, reference: &ObjectReference) -> bool {
    let version = |text: &str| text.parse::<u64>().ok();
    let (cached, wanted) =
        (version(cached.resource_version()), version(&reference.resource_version));
    matches!((cached, wanted), (Some(cached), Some(wanted)) if cached < wanted)
}

/// Returns the template if a cache has it already.
pub(crate) fn cached(kinds: &Kinds, reference: &ObjectReference) -> Option<Arc<Object>> {
    let resource = kinds.known(&gvk_of(reference))?;
    kinds.manager.informers.all(&resource.gvr).cache().get(&key_of(reference))
}

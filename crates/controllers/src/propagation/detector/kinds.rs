//! The kinds whose objects can be propagated. They are found by discovery and followed one shared
//! informer each; kinds come and go with their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::labels;
use karmada_apimachinery::gvk::{GroupVersion, Gvk, Gvr};
use karmada_client::{ApiResource, Discovery, Edition, Object};
use karmada_runtime::{
    Change, Informer, InformerSpec, Informers, Manager, ObjectKey, Subscription,
};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::skip::SkippedApis;

/// How often to ask which kinds there are, should no definition announce them.
const PERIOD: Duration = Duration::from_secs(30);

/// Definitions often come in groups; what they define is served a moment later.
const SETTLE: Duration = Duration::from_millis(100);

/// The index of templates by the permanent id of the policy that claims them.
const BY_POLICY: &str = "claimed-by-policy";

/// A kind that is followed.
#[derive(Clone)]
pub(crate) struct Kind {
    pub(crate) resource: ApiResource,
    pub(crate) informer: Arc<Informer>,
}

type Handler = Arc<dyn Fn(&Gvk, &Change) + Send + Sync>;

/// All kinds that can be propagated. Clones share them.
#[derive(Clone)]
pub(crate) struct Kinds {
    inner: Arc<Inner>,
}

struct Inner {
    informers: Informers,
    discovery: Discovery,
    skipped: SkippedApis,
    served: RwLock<BTreeMap<Gvk, Kind>>,
    /// Every informer ever asked for. One whose kind is gone waits for it to come back.
    followed: RwLock<BTreeMap<Gvr, (Kind, Subscription)>>,
    /// What is served was read from this.
    seen: RwLock<Option<Edition>>,
    handler: Handler,
}

impl Kinds {
    /// `handler` is told of every change once the kinds are followed.
    pub(crate) fn new(
        manager: &Manager,
        skipped: SkippedApis,
        handler: impl Fn(&Gvk, &Change) + Send + Sync + 'static,
    ) -> Self {
        let inner = Inner {
            informers: manager.informers.clone(),
            discovery: manager.discovery.clone(),
            skipped,
            served: RwLock::default(),
            followed: RwLock::default(),
            seen: RwLock::default(),
            handler: Arc::new(handler),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Follows the kinds for as long as the manager runs.
    pub(crate) fn start(&self, manager: &Manager) {
        let changed = Arc::new(Notify::new());
        for announcing in [
            Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            Gvr::new("apiregistration.k8s.io", "v1", "apiservices"),
        ] {
            let changed = changed.clone();
            let informer = manager.informers.get(InformerSpec::all(announcing).metadata_only());
            manager.keep(informer.subscribe(move |_| changed.notify_one()));
        }
        let own = self.clone();
        manager.shutdown.spawn_until(async move {
            loop {
                let pause = if own.sync().await { PERIOD } else { SETTLE };
                tokio::select! {
                    biased;
                    () = changed.notified() => tokio::time::sleep(SETTLE).await,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        });
    }

    pub(crate) fn get(&self, gvk: &Gvk) -> Option<Kind> {
        self.inner.served.read().get(gvk).cloned()
    }

    pub(crate) fn find(&self, gvk: &Gvk, key: &ObjectKey) -> Option<Arc<Object>> {
        self.inner.served.read().get(gvk)?.informer.cache().get(key)
    }

    /// The templates that carry the permanent id of a policy.
    pub(crate) fn claimed_by(&self, permanent_id: &str) -> Vec<(Gvk, Arc<Object>)> {
        let served = self.inner.served.read();
        let claimed = served.iter().flat_map(|(gvk, kind)| {
            let objects = kind.informer.cache().by_index(BY_POLICY, permanent_id);
            objects.into_iter().map(move |object| (gvk.clone(), object))
        });
        claimed.collect()
    }

    /// Whether all objects of these kinds have been read, as far as they are served.
    pub(crate) fn are_synced(&self, kinds: &BTreeSet<Gvk>) -> bool {
        let served = self.inner.served.read();
        self.inner.seen.read().is_some()
            && kinds.iter().filter_map(|gvk| served.get(gvk)).all(|kind| kind.informer.is_synced())
    }

    /// Returns false if the server could not be asked.
    async fn sync(&self) -> bool {
        let read = async {
            let edition = self.inner.discovery.refresh().await?;
            if self.inner.seen.read().as_ref() == Some(&edition) {
                return Ok(None);
            }
            Ok(Some((edition, self.inner.discovery.preferred().await?)))
        };
        let (edition, (resources, failed)) = match read.await {
            Ok(Some(read)) => read,
            Ok(None) => return true,
            Err::<_, karmada_client::Error>(error) => {
                warn!(%error, "the kinds to propagate could not be read");
                return false;
            }
        };
        let failed: BTreeSet<GroupVersion> =
            failed.into_iter().map(|(version, _)| version).collect();
        let mut served = BTreeMap::new();
        for resource in resources {
            let verbs = ["delete", "list", "watch"];
            if verbs.iter().all(|verb| resource.supports(verb))
                && !self.inner.skipped.skips(&resource)
            {
                served.insert(resource.gvk(), self.follow(resource));
            }
        }
        let mut known = self.inner.served.write();
        for (gvk, kind) in std::mem::take(&mut *known) {
            // A group that cannot be read now is not gone.
            if failed.contains(&gvk.group_version()) {
                served.entry(gvk).or_insert(kind);
            }
        }
        *known = served;
        *self.inner.seen.write() = Some(edition);
        true
    }

    fn follow(&self, resource: ApiResource) -> Kind {
        if let Some((kind, _)) = self.inner.followed.read().get(&resource.gvr) {
            return kind.clone();
        }
        debug!(resource = %resource.gvr.group_resource(), "followed");
        let (gvr, gvk) = (resource.gvr.clone(), resource.gvk());
        let informer = self.inner.informers.all(&gvr);
        informer.cache().add_index(BY_POLICY, policy_ids);
        let kind = Kind { resource, informer: informer.clone() };
        // Whoever is told of an object must find it.
        self.inner.served.write().insert(gvk.clone(), kind.clone());
        let handler = self.inner.handler.clone();
        let subscription = informer.subscribe(move |change| handler(&gvk, change));
        self.inner.followed.write().insert(gvr, (kind.clone(), subscription));
        kind
    }
}

/// The permanent ids of the policies that claim an object or binding.
pub(crate) fn policy_ids(object: &Object) -> Vec<String> {
    let marks =
        [labels::PROPAGATION_POLICY_PERMANENT_ID, labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID];
    let ids = marks.iter().filter_map(|mark| object.meta().labels.get(mark));
    ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

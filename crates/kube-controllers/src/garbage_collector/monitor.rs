//! Follows the metadata of every kind that can be deleted and keeps the graph up to date. Kinds
//! come and go with their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_client::{ApiResource, Discovery, Edition};
use karmada_runtime::{Change, Informer, InformerSpec, Informers, Queue, Subscription};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tracing::{debug, warn};

use super::graph::{Graph, Node};
use crate::Plane;

/// How often to ask which kinds there are, should no definition announce them.
const PERIOD: Duration = Duration::from_secs(30);

/// Definitions often come in groups; what they define is served a moment later.
const SETTLE: Duration = Duration::from_millis(250);

/// How long to wait at the start for kinds that cannot be read.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Monitor {
    informers: Informers,
    discovery: Discovery,
    graph: Arc<RwLock<Graph>>,
    look: Queue<String>,
    followed: BTreeMap<Gvr, (Arc<Informer>, Subscription)>,
    /// What is followed now was read from this.
    seen: Option<Edition>,
    definitions: Arc<Notify>,
    _definitions: Vec<Subscription>,
}

impl Monitor {
    pub(super) fn new(plane: &Plane, graph: Arc<RwLock<Graph>>, look: Queue<String>) -> Self {
        let definitions = Arc::new(Notify::new());
        let announcing = [
            Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
            Gvr::new("apiregistration.k8s.io", "v1", "apiservices"),
        ];
        let subscribe = |gvr: Gvr| {
            let changed = definitions.clone();
            let informer = plane.informers.get(InformerSpec::all(gvr).metadata_only());
            informer.subscribe(move |_| changed.notify_one())
        };
        let subscriptions = announcing.into_iter().map(subscribe).collect();
        Self {
            informers: plane.informers.clone(),
            discovery: plane.discovery.clone(),
            graph,
            look,
            followed: BTreeMap::new(),
            seen: None,
            definitions,
            _definitions: subscriptions,
        }
    }

    /// Reads all kinds there are. What cannot be read in time is followed nevertheless.
    pub(super) async fn begin(&mut self) {
        while !self.sync().await {
            tokio::time::sleep(SETTLE).await;
        }
        let all = async {
            for (informer, _) in self.followed.values() {
                informer.wait_synced().await;
            }
        };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            warn!("some kinds cannot be read; garbage is collected without them");
        }
    }

    /// Follows kinds that come and lets go of those that go.
    pub(super) async fn follow(&mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.definitions.notified() => tokio::time::sleep(SETTLE).await,
                () = tokio::time::sleep(PERIOD) => {}
            }
            self.sync().await;
        }
    }

    async fn sync(&mut self) -> bool {
        let read = async {
            let edition = self.discovery.refresh().await?;
            if self.seen.as_ref() == Some(&edition) {
                return Ok(None);
            }
            Ok(Some((edition, self.discovery.preferred().await?)))
        };
        let (edition, (resources, failed)) = match read.await {
            Ok(Some(read)) => read,
            Ok(None) => return true,
            Err::<_, karmada_client::Error>(error) => {
                warn!(%error, "the kinds to follow could not be read");
                return false;
            }
        };
        let wanted: BTreeMap<Gvr, ApiResource> = resources
            .into_iter()
            .filter(is_followed)
            .map(|resource| (resource.gvr.clone(), resource))
            .collect();
        if wanted.is_empty() {
            return false;
        }
        let failed: BTreeSet<GroupVersion> =
            failed.into_iter().map(|(version, _)| version).collect();
        // A group that cannot be read now is not gone.
        let gone =
            |gvr: &&Gvr| !wanted.contains_key(*gvr) && !failed.contains(&gvr.group_version());
        let gone: Vec<Gvr> = self.followed.keys().filter(gone).cloned().collect();
        for gvr in gone {
            debug!(resource = %gvr.group_resource(), "no longer followed");
            if let Some((informer, _subscription)) = self.followed.remove(&gvr)
                && informer.spec().metadata_only
            {
                self.informers.stop(informer.spec());
            }
            self.graph.write().forget(&gvr);
        }
        for (gvr, resource) in wanted {
            if !self.followed.contains_key(&gvr) {
                let followed = self.start(&resource);
                self.followed.insert(gvr, followed);
            }
        }
        self.seen = Some(edition);
        true
    }

    fn start(&self, resource: &ApiResource) -> (Arc<Informer>, Subscription) {
        // Where somebody follows the whole objects, their metadata need not be kept twice.
        let whole = InformerSpec::all(resource.gvr.clone());
        let informer = match self.informers.running(&whole) {
            Some(running) => running,
            None => self.informers.get(whole.metadata_only()),
        };
        let (graph, look) = (self.graph.clone(), self.look.clone());
        let (gvr, kind) = (Arc::new(resource.gvr.clone()), Arc::from(resource.kind.as_str()));
        let subscription = informer.subscribe(move |change| {
            let uids = match change {
                Change::Applied { new, .. } if graph.read().knows(new) => return,
                Change::Applied { new, .. } => graph.write().apply(Node::new(&gvr, &kind, new)),
                Change::Deleted(object) => graph.write().remove(object.uid()),
            };
            uids.into_iter().for_each(|uid| look.add(uid));
        });
        (informer, subscription)
    }
}

/// Events are many, belong to nobody and go by themselves.
fn is_followed(resource: &ApiResource) -> bool {
    let is_event = resource.gvr.resource == "events"
        && matches!(resource.gvr.group.as_str(), "" | "events.k8s.io");
    !is_event && ["delete", "list", "watch"].iter().all(|verb| resource.supports(verb))
}

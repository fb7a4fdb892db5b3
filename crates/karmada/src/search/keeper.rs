//! Keeps the caches that the registries ask for: follows registries, clusters and the kinds of the
//! control plane, opens and closes informers of members, and shows a cluster once it can be believed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::meta::Kind;
use karmada_api::search::ResourceRegistry;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apiserver::Handle;
use karmada_client::Object;
use karmada_controllers::members::{Dial, Limits, Member, Members};
use karmada_runtime::{Informer, InformerSpec, Manager};
use parking_lot::RwLock;
use tokio::sync::Notify;

use super::feed::Feed;
use super::selection::{Namespaces, Wanted, select};

/// Clusters tell of themselves every few seconds; what follows from it can wait this long.
const PAUSE: Duration = Duration::from_millis(200);

/// What is kept, as requests see it. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Caches {
    feeds: Arc<RwLock<BTreeMap<Gvr, Arc<Feed>>>>,
}

impl Caches {
    /// The objects of a resource that a registry names.
    pub(super) fn find(&self, gvr: &Gvr) -> Option<Arc<Feed>> {
        self.feeds.read().get(gvr).cloned()
    }
}

/// A kind that is followed in a member.
struct Followed {
    member: Arc<Member>,
    namespaces: Namespaces,
    informers: Vec<Arc<Informer>>,
}

impl Followed {
    fn start(member: Arc<Member>, gvr: &Gvr, namespaces: Namespaces, wake: &Arc<Notify>) -> Self {
        let names = namespaces.names();
        let spec = |name: String| InformerSpec::all(gvr.clone()).namespaced(name);
        let informers: Vec<_> =
            names.into_iter().map(|name| member.informers.get(spec(name))).collect();
        for informer in informers.clone() {
            let wake = wake.clone();
            member.shutdown.spawn_until(async move {
                informer.wait_synced().await;
                wake.notify_one();
            });
        }
        Self { member, namespaces, informers }
    }

    fn is_synced(&self) -> bool {
        self.informers.iter().all(|informer| informer.is_synced())
    }

    fn stop(self) {
        for informer in self.informers {
            self.member.informers.stop(informer.spec());
        }
    }
}

/// Whoever keeps the caches.
pub(super) struct Keeper {
    manager: Manager,
    server: Handle,
    dial: Arc<dyn Dial>,
    caches: Caches,
    wake: Arc<Notify>,
    /// Members are connected to once there is something to keep of them.
    members: Option<Members>,
    followed: BTreeMap<(String, Gvr), Followed>,
}

impl Keeper {
    pub(super) fn start(manager: Manager, server: Handle, dial: Arc<dyn Dial>) -> Caches {
        let caches = Caches::default();
        let keeper = Self {
            manager: manager.clone(),
            server,
            dial,
            caches: caches.clone(),
            wake: Arc::default(),
            members: None,
            followed: BTreeMap::new(),
        };
        manager.shutdown.spawn_until(keeper.run());
        caches
    }

    async fn run(mut self) {
        let registries = self.follow::<ResourceRegistry>();
        registries.wait_synced().await;
        // Without a registry nothing else is worth following.
        while registries.cache().is_empty() {
            self.wake.notified().await;
        }
        let clusters = self.follow::<Cluster>();
        clusters.wait_synced().await;
        let mut kinds = self.server.registry().changes();
        loop {
            let wanted = self.wanted(&registries, &clusters);
            self.keep(wanted);
            tokio::time::sleep(PAUSE).await;
            tokio::select! {
                () = self.wake.notified() => {}
                () = async { kinds.moved().await; } => {}
            }
        }
    }

    /// Follows a kind of the control plane and wakes the keeper with every change.
    fn follow<K: karmada_api::Kind>(&self) -> Arc<Informer> {
        let informer = self.manager.informers.all(&Gvr::new(K::GROUP, K::VERSION, K::PLURAL));
        let wake = self.wake.clone();
        self.manager.keep(informer.subscribe(move |_| wake.notify_one()));
        informer
    }

    fn wanted(&self, registries: &Informer, clusters: &Informer) -> Wanted {
        let kinds = self.server.registry().snapshot();
        let plane = |gvk: &Gvk| Some(kinds.find_kind(gvk)?.plural.clone());
        select(&typed::<ResourceRegistry>(registries), &typed::<Cluster>(clusters), plane)
    }

    fn keep(&mut self, wanted: Wanted) {
        self.register(&wanted);
        self.end_unwanted(&wanted);
        if wanted.caches.is_empty() {
            return;
        }
        let members = self.connected();
        for ((cluster, gvr), cached) in wanted.caches {
            let Some(feed) = self.caches.find(&gvr) else { continue };
            let Ok(member) = members.get(&cluster) else {
                feed.remove(&cluster);
                continue;
            };
            let place = (cluster.clone(), gvr.clone());
            let known = self.followed.get(&place).is_some_and(|followed| {
                Arc::ptr_eq(&followed.member, &member) && followed.namespaces == cached.namespaces
            });
            if !known {
                feed.remove(&cluster);
                if let Some(former) = self.followed.remove(&place) {
                    former.stop();
                }
                let followed = Followed::start(member, &gvr, cached.namespaces, &self.wake);
                self.followed.insert(place.clone(), followed);
            }
            let Some(followed) = self.followed.get(&place) else { continue };
            match (cached.ready && followed.is_synced(), feed.has(&cluster)) {
                (true, false) => {
                    tracing::debug!(cluster, resource = %gvr.group_resource(), "cluster is searched");
                    feed.add(&cluster.into(), followed.informers.clone());
                }
                (false, true) => feed.remove(&cluster),
                _ => {}
            }
        }
    }

    /// Offers what the registries name, and nothing else.
    fn register(&self, wanted: &Wanted) {
        let mut feeds = self.caches.feeds.write();
        let gone: Vec<Arc<Feed>> = feeds
            .extract_if(.., |gvr, _| !wanted.registered.contains_key(gvr))
            .map(|(_, feed)| feed)
            .collect();
        for (gvr, gvk) in &wanted.registered {
            feeds
                .entry(gvr.clone())
                .or_insert_with(|| Arc::new(Feed::new(gvr.clone(), gvk.clone())));
        }
        drop(feeds);
        for feed in gone {
            feed.clusters().iter().for_each(|cluster| feed.remove(cluster));
        }
    }

    fn end_unwanted(&mut self, wanted: &Wanted) {
        let unwanted: Vec<_> = self
            .followed
            .keys()
            .filter(|place| !wanted.caches.contains_key(place))
            .cloned()
            .collect();
        for place in unwanted {
            if let Some(feed) = self.caches.find(&place.1) {
                feed.remove(&place.0);
            }
            if let Some(followed) = self.followed.remove(&place) {
                followed.stop();
            }
        }
    }

    fn connected(&mut self) -> Members {
        let members = self.members.get_or_insert_with(|| {
            let limits = Limits { qps: 1000.0, burst: 2000.0, ..Limits::default() };
            let members = Members::start(&self.manager, self.dial.clone(), limits);
            let wake = self.wake.clone();
            members.subscribe(move |_| wake.notify_one());
            members
        });
        members.clone()
    }
}

/// Everything an informer has, as its type. What cannot be read is nobody's wish.
fn typed<K: Kind>(informer: &Informer) -> Vec<Arc<K>> {
    let read = |object: Arc<Object>| object.typed::<K>().ok();
    informer.cache().list().into_iter().filter_map(read).collect()
}

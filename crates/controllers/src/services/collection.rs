//! Follows the endpoint slices of members and keeps a Work for each that is wanted, in the execution namespace of
//! the member. Two controllers ask for it: `endpointsliceCollect`, for services that a MultiClusterService
//! exposes, and `serviceExport`, for those that a ServiceExport in the member does. It decides for both, because
//! they share the Works.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use karmada_api::cluster::Cluster;
use karmada_api::features::Gate;
use karmada_api::meta::find_condition;
use karmada_api::multicluster::ServiceExport;
use karmada_api::work::Work;
use karmada_api::{Kind as _, annotations, conditions, labels, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Client, Object};
use karmada_propagation::services::slices::{self, Claim, Claims, Collector, Slice};
use karmada_runtime::{Action, Change, Informer, InformerSpec, ObjectKey, Queue, Subscription};
use parking_lot::Mutex;

use super::{
    AGAIN, BY_PLACE, Role, collected_key, gvr, named_service, place, role_of, works_of_services,
};
use crate::context::{Context, Options};
use crate::members::{Member, MemberChange};
use crate::propagation::works;

const NAME: &str = "endpointslice-collect-controller";
const WORKERS: usize = 3;

/// Index of the slices of a member by their service.
const OF_SERVICE: &str = "slice-service";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the work of the slice")]
    Decode(#[from] serde_json::Error),
    #[error("write the work of the slice")]
    Write(#[from] works::WriteError),
    #[error("delete the work of the slice")]
    Delete(#[source] karmada_client::Error),
}

/// The collection of a process, started by whichever controller needs it first.
#[derive(Clone, Default)]
pub(crate) struct Collection {
    switches: Arc<Switches>,
}

#[derive(Default)]
struct Switches {
    /// Whether slices are collected for MultiClusterServices: the controller `endpointsliceCollect`.
    for_services: AtomicBool,
    /// Whether they are for ServiceExports: the controller `serviceExport`.
    for_exports: AtomicBool,
    is_running: AtomicBool,
}

/// Starts collecting what MultiClusterServices expose.
pub(crate) fn start_for_services(context: &Context) {
    if context.gates.is_on(Gate::MultiClusterService) {
        context.collection.switches.for_services.store(true, Ordering::Relaxed);
        context.collection.run(context);
    }
}

/// Starts collecting what ServiceExports expose.
pub(crate) fn start_for_exports(context: &Context) {
    context.collection.switches.for_exports.store(true, Ordering::Relaxed);
    context.collection.run(context);
}

impl Collection {
    fn run(&self, context: &Context) {
        if self.switches.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let controller = context.controller(NAME).workers(WORKERS);
        let running = Arc::new(Running {
            client: context.client.clone(),
            options: context.options.clone(),
            works: works_of_services(context),
            clusters: context.informers.all(&gvr::<Cluster>()),
            switches: self.switches.clone(),
            queue: controller.queue().clone(),
            sites: Mutex::default(),
        });
        let own = running.clone();
        context.keep(running.works.subscribe(move |change| own.on_work(change)));
        let own = running.clone();
        context.members.subscribe(move |change| match change {
            MemberChange::Joined(member) => own.join(member.clone()),
            MemberChange::Left(member) => own.leave(member),
            // Its informers go on by themselves.
            MemberChange::Returned(_) => {}
        });
        let inputs = vec![running.works.clone(), running.clusters.clone()];
        let own = running.clone();
        context.start(controller, inputs, move |key| reconcile(key, own.clone()));
        context.shutdown.at_end(move || drop(std::mem::take(&mut *running.sites.lock())));
    }
}

/// A slice of a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SliceKey {
    cluster: Arc<str>,
    slice: ObjectKey,
}

impl fmt::Display for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.slice, self.cluster)
    }
}

struct Running {
    client: Client,
    options: Arc<Options>,
    works: Arc<Informer>,
    clusters: Arc<Informer>,
    switches: Arc<Switches>,
    queue: Queue<SliceKey>,
    sites: Mutex<BTreeMap<String, Arc<Site>>>,
}

/// A member, and what is followed of it.
struct Site {
    member: Arc<Member>,
    cluster: Arc<str>,
    slices: Mutex<Option<Followed>>,
    exports: Mutex<Option<Followed>>,
}

struct Followed {
    informer: Arc<Informer>,
    _subscription: Subscription,
}

/// The cache of what is followed, once it holds everything.
fn known(followed: &Mutex<Option<Followed>>) -> Option<Arc<Informer>> {
    let informer = followed.lock().as_ref().map(|followed| followed.informer.clone())?;
    informer.is_synced().then_some(informer)
}

async fn reconcile(key: SliceKey, running: Arc<Running>) -> Result<Action, Error> {
    if !running.works_for(&key.cluster) {
        return Ok(Action::AwaitChange);
    }
    let object = running.works.cache().get(&collected_key(&key.cluster, &key.slice));
    let work: Option<Work> = object.as_ref().map(|work| work.read()).transpose()?;
    let site = running.site(&key.cluster);
    let slices = site.as_ref().and_then(|site| known(&site.slices));
    let found = slices.as_ref().map(|slices| slices.cache().get(&key.slice));
    let value = found.as_ref().and_then(Option::as_ref).map(|slice| slice.content());
    let slice = match (&found, &value) {
        (_, Some(value)) => Slice::There(value),
        (Some(_), None) => Slice::Gone,
        (None, None) => Slice::Unknown,
    };
    let service = service_of(&key.slice, value.as_ref(), object.as_deref());
    let claims = running.claims(&key.cluster, site.as_deref(), service.as_ref());
    match slices::collect(&key.cluster, slice, &claims, work.as_ref()) {
        slices::Collection::Keep(change) => {
            match works::send_whole(&running.client, change).await {
                Err(error) if error.is_lost_race() => return Ok(Action::Requeue(AGAIN)),
                sent => drop(sent?),
            }
        }
        slices::Collection::Delete => {
            if let Some(object) = &object {
                works::delete(&running.client, object).await.map_err(Error::Delete)?;
            }
        }
    }
    Ok(Action::AwaitChange)
}

/// The service of a slice: as the slice names it, or, where nothing is known of that, its Work.
fn service_of(key: &ObjectKey, slice: Option<&Value>, work: Option<&Object>) -> Option<ObjectKey> {
    if let Some(slice) = slice {
        let name = slice.label(labels::SLICE_SERVICE_NAME)?;
        return Some(ObjectKey::new(key.namespace.clone(), name));
    }
    Collector::ALL.into_iter().find_map(|collector| named_service(work?, collector))
}

impl Running {
    /// Whether the slices of a cluster are collected by this process.
    fn works_for(&self, cluster: &str) -> bool {
        let cluster = self.clusters.cache().get(&ObjectKey::cluster(cluster));
        let cluster = cluster.and_then(|cluster| cluster.typed::<Cluster>().ok());
        cluster.is_some_and(|cluster| self.options.serves(&cluster))
    }

    fn site(&self, cluster: &str) -> Option<Arc<Site>> {
        self.sites.lock().get(cluster).cloned()
    }

    fn claims(&self, cluster: &str, site: Option<&Site>, service: Option<&ObjectKey>) -> Claims {
        let wanted = |is_wanted: bool| if is_wanted { Claim::Wanted } else { Claim::Unwanted };
        let multi_cluster_service = match service {
            _ if !self.switches.for_services.load(Ordering::Relaxed) => Claim::Unsaid,
            Some(service) => wanted(self.is_exposed(cluster, service)),
            None => Claim::Unwanted,
        };
        let exports = site.and_then(|site| known(&site.exports));
        let service_export = match (service, exports) {
            _ if !self.switches.for_exports.load(Ordering::Relaxed) => Claim::Unsaid,
            (Some(service), Some(exports)) => wanted(exports.cache().get(service).is_some()),
            (None, _) => Claim::Unwanted,
            (Some(_), None) => Claim::Unsaid,
        };
        Claims { multi_cluster_service, service_export }
    }

    /// Whether a MultiClusterService wants the slices of its service from the cluster.
    fn is_exposed(&self, cluster: &str, service: &ObjectKey) -> bool {
        let term = place(&names::execution_space(cluster), service);
        let works = self.works.cache().by_index(BY_PLACE, &term);
        works.iter().any(|work| !work.is_being_deleted() && role_of(work) == Some(Role::Service))
    }

    fn join(self: &Arc<Self>, member: Arc<Member>) {
        let site = Arc::new(Site {
            cluster: member.name.as_str().into(),
            member,
            slices: Mutex::default(),
            exports: Mutex::default(),
        });
        let before = self.sites.lock().insert(site.member.name.clone(), site.clone());
        drop(before);
        let space = names::execution_space(&site.member.name);
        for work in self.works.cache().list_namespace(&space) {
            self.look_at(&work);
        }
    }

    fn leave(&self, member: &Arc<Member>) {
        let mut sites = self.sites.lock();
        if sites.get(&member.name).is_some_and(|site| Arc::ptr_eq(&site.member, member)) {
            let left = sites.remove(&member.name);
            drop(sites);
            drop(left);
        }
    }

    fn on_work(self: &Arc<Self>, change: &Change) {
        // What a Work was about until now may have to go.
        if let Change::Applied { old: Some(old), new } = change
            && (old.meta().labels != new.meta().labels
                || old.is_being_deleted() != new.is_being_deleted())
        {
            self.look_at(old);
        }
        self.look_at(change.object());
    }

    /// Follows what a Work asks for, and looks at the slices it concerns.
    fn look_at(self: &Arc<Self>, work: &Object) {
        let Some(cluster) = names::cluster_of_execution_space(work.namespace()) else { return };
        if self.switches.for_exports.load(Ordering::Relaxed) && brings_export(work) {
            self.follow(cluster, Collector::ServiceExport);
            return;
        }
        match role_of(work) {
            None => {}
            Some(Role::Service) => {
                self.follow(cluster, Collector::MultiClusterService);
                let service = named_service(work, Collector::MultiClusterService);
                service.iter().for_each(|service| self.look_at_service(cluster, service));
            }
            Some(Role::Collected { slice }) => {
                for collector in Collector::ALL {
                    if named_service(work, collector).is_some() {
                        self.follow(cluster, collector);
                    }
                }
                self.queue.add(SliceKey { cluster: cluster.into(), slice });
            }
            // Until it goes it may stand where the Work of a slice of this cluster should.
            Some(Role::Dispatched { slice, .. }) => {
                self.queue.add(SliceKey { cluster: cluster.into(), slice });
            }
        }
    }

    /// Looks at every slice of a service in a cluster, there or collected once.
    fn look_at_service(&self, cluster: &str, service: &ObjectKey) {
        let look = |slice| self.queue.add(SliceKey { cluster: cluster.into(), slice });
        let term = place(&names::execution_space(cluster), service);
        for work in self.works.cache().by_index(BY_PLACE, &term) {
            if let Some(Role::Collected { slice }) = role_of(&work) {
                look(slice);
            }
        }
        let slices = self.site(cluster).and_then(|site| known(&site.slices));
        for slice in
            slices.iter().flat_map(|i| i.cache().by_index(OF_SERVICE, &service.to_string()))
        {
            look(ObjectKey::of(&slice));
        }
    }

    /// Looks at every slice of a cluster, there or collected once.
    fn look_at_all(&self, site: &Site) {
        let look = |slice| self.queue.add(SliceKey { cluster: site.cluster.clone(), slice });
        let space = names::execution_space(&site.cluster);
        for work in self.works.cache().list_namespace(&space) {
            if let Some(Role::Collected { slice }) = role_of(&work) {
                look(slice);
            }
        }
        let slices = known(&site.slices);
        slices.iter().flat_map(|slices| slices.cache().keys()).for_each(look);
    }

    /// Follows the slices of a member, and its ServiceExports if it is these that say which are wanted.
    fn follow(self: &Arc<Self>, cluster: &str, collector: Collector) {
        let is_on = match collector {
            Collector::MultiClusterService => &self.switches.for_services,
            Collector::ServiceExport => &self.switches.for_exports,
        };
        let site = self.site(cluster).filter(|_| self.works_for(cluster));
        let Some(site) = site.filter(|_| is_on.load(Ordering::Relaxed)) else { return };
        self.follow_slices(&site);
        if collector == Collector::ServiceExport {
            self.follow_exports(&site);
        }
    }

    fn follow_slices(self: &Arc<Self>, site: &Arc<Site>) {
        // What came from other clusters goes to no further one.
        let [imported, dispatched] =
            [labels::SLICE_MANAGED_BY_IMPORT, labels::SLICE_MANAGED_BY_DISPATCH];
        let foreign = format!("{} notin ({imported},{dispatched})", labels::SLICE_MANAGED_BY);
        let spec = InformerSpec::all(super::slices()).labelled(foreign).slim();
        self.follow_in(site, &site.slices, spec, |informer| {
            informer.cache().add_index(OF_SERVICE, |slice| {
                let service = slice.meta().labels.get(labels::SLICE_SERVICE_NAME);
                let service = service.map(|name| ObjectKey::new(slice.namespace(), name));
                service.map(|service| service.to_string()).into_iter().collect()
            });
            let (queue, cluster) = (self.queue.clone(), site.cluster.clone());
            informer.subscribe(move |change| {
                let slice = ObjectKey::of(change.object());
                queue.add(SliceKey { cluster: cluster.clone(), slice });
            })
        });
    }

    fn follow_exports(self: &Arc<Self>, site: &Arc<Site>) {
        let spec = InformerSpec::all(gvr::<ServiceExport>()).slim();
        self.follow_in(site, &site.exports, spec, |informer| {
            let (running, cluster) = (Arc::downgrade(self), site.cluster.clone());
            informer.subscribe(move |change| {
                if let Some(running) = running.upgrade() {
                    running.look_at_service(&cluster, &ObjectKey::of(change.object()));
                }
            })
        });
    }

    /// Follows objects of a member, if that is not done yet.
    fn follow_in(
        self: &Arc<Self>,
        site: &Arc<Site>,
        place: &Mutex<Option<Followed>>,
        spec: InformerSpec,
        subscribe: impl FnOnce(&Arc<Informer>) -> Subscription,
    ) {
        let mut followed = place.lock();
        if followed.is_some() {
            return;
        }
        let informer = site.member.informers.get(spec);
        let subscription = subscribe(&informer);
        *followed = Some(Followed { informer: informer.clone(), _subscription: subscription });
        drop(followed);
        // What ended while nobody looked is found out once everything is known that there is.
        let (running, own) = (Arc::downgrade(self), Arc::downgrade(site));
        informer.after_every_list(move || {
            if let (Some(running), Some(site)) = (running.upgrade(), own.upgrade()) {
                running.look_at_all(&site);
            }
        });
        if informer.is_synced() {
            self.look_at_all(site);
        }
    }
}

/// Whether a Work has brought a ServiceExport to its member.
fn brings_export(work: &Object) -> bool {
    // The name of its binding ends with the kind, so that few Works are looked into.
    let binding = work.meta().annotations.get(annotations::RESOURCE_BINDING_NAME);
    if !binding.is_some_and(|name| name.ends_with("-serviceexport")) {
        return false;
    }
    let Ok(view) = works::view(work) else { return false };
    let exports = |version: &str, kind: &str| {
        version == ServiceExport::api_version() && kind == ServiceExport::KIND
    };
    let mut manifests = view.spec.workload.manifests.iter();
    let applied = find_condition(&view.status.conditions, conditions::work::APPLIED);
    manifests.any(|head| exports(&head.api_version, &head.kind))
        && applied.is_some_and(|applied| applied.is_true())
}

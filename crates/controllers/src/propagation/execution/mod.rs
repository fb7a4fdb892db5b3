//! Delivers Works to the members and brings back what became of them. Every cluster has a lane of
//! its own: a queue, workers, caches and a memory, so that a slow one holds up nobody else.

mod farewell;
mod lane;
mod member;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use karmada_api::Kind as _;
use karmada_api::cluster::Cluster;
use karmada_api::conditions::cluster as condition;
use karmada_api::meta::find_condition;
use karmada_api::names;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Object;
use karmada_runtime::{Change, Informer, ObjectKey, Priority, Recorder};
use parking_lot::Mutex;

use crate::context::Context;
use crate::members::MemberChange;
use crate::propagation::metrics::{Durations, Traffic};
use crate::propagation::templates::Kinds;
use crate::propagation::works;
use lane::Lane;

/// The lanes of a process, started by whichever controller needs them first.
#[derive(Clone, Default)]
pub struct Lanes {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Whether Works are delivered: the controller `execution`.
    delivers: AtomicBool,
    /// Whether their state is brought back: the controller `workStatus`.
    reports: AtomicBool,
    /// Those who are told of Works and members hold what runs.
    is_running: AtomicBool,
}

/// What all lanes share.
struct Running {
    context: Context,
    works: Arc<Informer>,
    clusters: Arc<Informer>,
    kinds: Arc<Kinds>,
    events: Recorder,
    status_events: Recorder,
    durations: Durations,
    traffic: Traffic,
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
}

pub(crate) fn start(context: &Context) {
    context.lanes.inner.delivers.store(true, Ordering::Relaxed);
    context.lanes.run(context);
}

/// Starts bringing back the state of what was delivered.
pub(crate) fn start_reports(context: &Context) {
    context.lanes.inner.reports.store(true, Ordering::Relaxed);
    context.lanes.run(context);
}

impl Lanes {
    fn run(&self, context: &Context) {
        if self.inner.is_running.swap(true, Ordering::Relaxed) {
            return;
        }
        let clusters =
            context.informers.all(&Gvr::new(Cluster::GROUP, Cluster::VERSION, Cluster::PLURAL));
        // Compat: agents do not show this.
        let traffic = match context.options.agent_of {
            Some(_) => Traffic::default(),
            None => Traffic::new(&context.metrics),
        };
        let running = Arc::new(Running {
            context: context.clone(),
            works: works::informer(context),
            clusters,
            kinds: Kinds::new(context),
            events: context.recorder("execution-controller"),
            status_events: context.recorder("work-status-controller"),
            durations: Durations::of_works(&context.metrics),
            traffic,
            lanes: Mutex::default(),
        });
        running.follow();
        // A lane has what it shares with the others; they end together.
        context.shutdown.at_end(move || {
            let lanes = std::mem::take(&mut *running.lanes.lock());
            drop(lanes);
        });
    }

    fn deliver(&self) -> bool {
        self.inner.delivers.load(Ordering::Relaxed)
    }

    fn report(&self) -> bool {
        self.inner.reports.load(Ordering::Relaxed)
    }
}

impl Running {
    fn follow(self: &Arc<Self>) {
        let own = self.clone();
        self.context.keep(self.works.subscribe(move |change| own.on_work(change)));
        let own = self.clone();
        self.context.keep(self.clusters.subscribe(move |change| own.on_cluster(change)));
        let own = self.clone();
        self.context.members.subscribe(move |change| match change {
            MemberChange::Joined(member) => own.lane(&member.name).attach(member.clone()),
            // It can be reached again: nobody needs to wait for the next try.
            MemberChange::Returned(member) => own.lane(&member.name).wake(),
            MemberChange::Left(member) => {
                if let Some(lane) = own.lanes.lock().get(&member.name) {
                    lane.detach(member);
                }
            }
        });
    }

    /// The lane of a cluster, opened if there is none yet.
    fn lane(self: &Arc<Self>, cluster: &str) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(cluster.to_owned()).or_insert_with(|| Lane::open(self, cluster));
        lane.clone()
    }

    fn on_work(self: &Arc<Self>, change: &Change) {
        let work = change.object();
        let Some(cluster) = names::cluster_of_execution_space(work.namespace()) else { return };
        // Works may outlast their cluster. For one that comes, all of them are looked at then.
        let is_known = self.clusters.cache().get(&ObjectKey::cluster(cluster)).is_some();
        if self.clusters.is_synced() && !is_known {
            return;
        }
        let (key, lane) = (ObjectKey::of(work), self.lane(cluster));
        match change {
            Change::Applied { old: None, .. } => {
                let live = self.works.is_synced();
                let priority = if live { Priority::Normal } else { Priority::Low };
                lane.deliver(key, priority);
            }
            // Our own writes of the status come back here and mean nothing.
            Change::Applied { old: Some(old), new } => {
                lane.note_cached(&key, new);
                if old.meta().generation != new.meta().generation
                    || old.is_being_deleted() != new.is_being_deleted()
                {
                    lane.deliver(key, Priority::Normal);
                }
            }
            Change::Deleted(_) => lane.deliver(key, Priority::Normal),
        }
    }

    fn on_cluster(self: &Arc<Self>, change: &Change) {
        match change {
            Change::Applied { old, new } => {
                let stands = |object: &Arc<Object>| (is_ready(object), object.is_being_deleted());
                if old.as_ref().map(stands) != Some(stands(new)) {
                    self.lane(new.name()).wake();
                }
            }
            Change::Deleted(cluster) => {
                let closed = self.lanes.lock().remove(cluster.name());
                if let Some(lane) = closed {
                    lane.close();
                }
            }
        }
    }

    fn cluster(&self, name: &str) -> Option<Arc<Cluster>> {
        let cluster: Arc<Cluster> =
            self.clusters.cache().get(&ObjectKey::cluster(name))?.typed().ok()?;
        self.context.options.serves(&cluster).then_some(cluster)
    }
}

fn is_ready(cluster: &Object) -> bool {
    cluster.typed::<Cluster>().is_ok_and(|cluster| ready(&cluster))
}

fn ready(cluster: &Cluster) -> bool {
    find_condition(&cluster.status.conditions, condition::READY).is_some_and(|c| c.is_true())
}

//! Brings slices that were collected for a MultiClusterService to its consumers: one Work in the execution namespace
//! of each, named after provider and slice. Works under the name that the original gives them are replaced.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::conditions::multi_cluster_service::{ENDPOINT_SLICE_DISPATCHED, reason};
use karmada_api::conditions::work::{APPLIED, DISPATCHING};
use karmada_api::features::Gate;
use karmada_api::meta::{Condition, find_condition};
use karmada_api::networking::MultiClusterService;
use karmada_api::work::Work;
use karmada_api::{annotations, event_reason, finalizers, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::json;
use karmada_client::{Client, Object};
use karmada_propagation::services::clusters_of;
use karmada_propagation::services::slices::{Collector, ENDPOINT_SLICE, dispatched_work, slice_of};
use karmada_propagation::work;
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Queue, Recorder};
use parking_lot::Mutex;

use super::multi_cluster_service::{changes_standing, informer, services_in};
use super::{
    AGAIN, BY_SERVICE, BY_SOURCE, Role, Standing, all_clusters, chain, condition, drop_finalizer,
    gvr, named_service, role_of, source_of, standing_in, tell_skipped, works_of_services,
    write_condition,
};
use crate::context::Context;
use crate::propagation::detector::matters;
use crate::propagation::works;

const NAME: &str = "endpointslice-dispatch-controller";
const WORKERS: usize = 5;
const DISPATCHED: &str = "EndpointSlice are dispatched successfully";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the service or its works")]
    Decode(#[from] serde_json::Error),
    #[error("write the slice for cluster {cluster}")]
    Write { cluster: String, source: works::WriteError },
    #[error(
        "the work {work} brings a slice of {holder} to where that of {provider} belongs; rename one of the slices"
    )]
    Taken { work: ObjectKey, holder: String, provider: String },
    #[error("suspend the work {work}")]
    Suspend { work: ObjectKey, source: karmada_client::Error },
    #[error("delete the work {work}")]
    Delete { work: ObjectKey, source: karmada_client::Error },
    #[error("remove the finalizer")]
    Finalizer(#[source] karmada_client::Error),
    #[error("write the status")]
    Status(#[source] karmada_client::Error),
}

impl Error {
    /// Whether somebody else was faster: another look at the caches is all it takes.
    fn is_lost_race(&self) -> bool {
        match self {
            Self::Write { source, .. } => source.is_lost_race(),
            Self::Finalizer(error) | Self::Status(error) => error.is_conflict(),
            _ => false,
        }
    }
}

struct Ctx {
    client: Client,
    clock: Clock,
    events: Recorder,
    services: Arc<Informer>,
    works: Arc<Informer>,
    clusters: Arc<Informer>,
    /// Collected Works about which there is something to tell even if nothing has to be written.
    touched: Mutex<HashSet<ObjectKey>>,
    /// Collected Works, by their service, that could not be dispatched.
    failed: Mutex<BTreeMap<ObjectKey, BTreeSet<ObjectKey>>>,
}

pub(crate) fn start(context: &Context) {
    if !context.gates.is_on(Gate::MultiClusterService) {
        return;
    }
    let controller = context.controller(NAME).workers(WORKERS);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        clock: context.clock.clone(),
        events: context.recorder(NAME),
        services: informer(context),
        works: works_of_services(context),
        clusters: context.informers.all(&gvr::<Cluster>()),
        touched: Mutex::default(),
        failed: Mutex::default(),
    });
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.works.subscribe(move |change| own.on_work(change, &queue)));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.services.subscribe(move |change| match change {
        Change::Applied { old: Some(old), new } if !matters(old, new) => {}
        change => own.touch(&own.services, change.object(), &queue),
    }));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.clusters.subscribe(move |change| {
        if changes_standing(change) {
            for service in services_in(&own.services, change.object().name()) {
                own.touch(&own.clusters, &service, &queue);
            }
        }
    }));
    let inputs = vec![ctx.services.clone(), ctx.works.clone(), ctx.clusters.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let source = ctx.works.cache().get(&key);
    let dispatched = ctx.works.cache().by_index(BY_SOURCE, &key.to_string());
    let service = source.as_deref().filter(|work| !work.is_being_deleted()).and_then(service_of);
    let result = match (source, service) {
        (Some(source), Some(service)) => ctx.dispatch(&key, &source, &service, &dispatched).await,
        (source, _) => ctx.withdraw(&key, source.as_deref(), &dispatched).await,
    };
    match result {
        Err(error) if error.is_lost_race() => Ok(Action::Requeue(AGAIN)),
        done => done.map(|()| Action::AwaitChange),
    }
}

/// The MultiClusterService a collected Work is for.
fn service_of(work: &Object) -> Option<ObjectKey> {
    let is_collected = matches!(role_of(work), Some(Role::Collected { .. }));
    named_service(work, Collector::MultiClusterService).filter(|_| is_collected)
}

/// What is to be done about one slice.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    /// Consumers that are to have it.
    send: Vec<String>,
    /// Consumers that cannot, and why.
    skipped: Vec<(String, Standing)>,
    /// Works under another name, which are to be delivered no more.
    suspend: Vec<ObjectKey>,
    /// Works under another name whose object is the business of the right one.
    replaced: Vec<ObjectKey>,
    /// Works that are no longer needed.
    delete: Vec<ObjectKey>,
}

/// A Work that brings the slice somewhere.
struct Parcel {
    key: ObjectKey,
    is_applied: bool,
    delivery: Delivery,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Open,
    /// It was asked to be delivered no more.
    Suspended,
    /// Who delivers it has said so.
    Ended,
}

/// Decides where the slice of a provider goes. `name` is what its Works are called. One under another name brings
/// the same object: it ends first, so that both never write it, and goes when the right one is applied, so that no
/// consumer is without it.
fn plan(
    provider: &str,
    name: &str,
    consumers: &BTreeSet<String>,
    standing: impl Fn(&str) -> Standing,
    parcels: &[Parcel],
) -> Plan {
    let mut plan = Plan::default();
    for consumer in consumers.iter().filter(|consumer| *consumer != provider) {
        match standing(consumer) {
            Standing::Fit => {}
            why => {
                plan.skipped.push((consumer.clone(), why));
                continue;
            }
        }
        let space = names::execution_space(consumer);
        let there = || parcels.iter().filter(|parcel| *parcel.key.namespace == *space);
        let is_applied = there().any(|parcel| &*parcel.key.name == name && parcel.is_applied);
        let mut is_free = true;
        for other in there().filter(|parcel| &*parcel.key.name != name) {
            match other.delivery {
                Delivery::Open => plan.suspend.push(other.key.clone()),
                Delivery::Ended if is_applied => plan.replaced.push(other.key.clone()),
                _ => {}
            }
            is_free &= other.delivery == Delivery::Ended;
        }
        if is_free {
            plan.send.push(consumer.clone());
        }
    }
    for parcel in parcels {
        let cluster = names::cluster_of_execution_space(&parcel.key.namespace).unwrap_or_default();
        if cluster == provider || !consumers.contains(cluster) {
            plan.delete.push(parcel.key.clone());
        }
    }
    plan
}

impl Ctx {
    fn on_work(&self, change: &Change, queue: &Queue<ObjectKey>) {
        let work = change.object();
        if let Some(source) = source_of(work) {
            return queue.add(source);
        }
        let old = match change {
            Change::Applied { old, .. } => old.as_deref(),
            Change::Deleted(_) => None,
        };
        // One that lost its label is cleaned up after.
        if service_of(work).or_else(|| service_of(old?)).is_some() || has_finalizer(work) {
            let key = ObjectKey::of(work);
            if self.works.is_synced() && old.is_none() {
                self.touched.lock().insert(key.clone());
            }
            queue.add(key);
        }
    }

    /// Queues the collected slices of a service, about which there is something to tell if its cause is news.
    fn touch(&self, cause: &Informer, service: &Object, queue: &Queue<ObjectKey>) {
        let service = ObjectKey::of(service);
        for work in self.works.cache().by_index(BY_SERVICE, &service.to_string()) {
            if service_of(&work).is_some() {
                let key = ObjectKey::of(&work);
                if cause.is_synced() {
                    self.touched.lock().insert(key.clone());
                }
                queue.add(key);
            }
        }
    }

    /// Brings the slice of a collected Work to the consumers of its service.
    async fn dispatch(
        &self,
        key: &ObjectKey,
        source: &Object,
        service: &ObjectKey,
        dispatched: &[Arc<Object>],
    ) -> Result<(), Error> {
        // Without the service, or when it goes, its controller takes the slices back.
        let object = self.services.cache().get(service).filter(|o| !o.is_being_deleted());
        let Some(object) = object else { return Ok(()) };
        let touched = self.touched.lock().remove(key);
        let sent = self.send(source, &object, dispatched, touched).await;
        if sent.as_ref().is_err_and(Error::is_lost_race) {
            // Whatever was done until then is told when all is done.
            self.touched.lock().insert(key.clone());
            return sent.map(drop);
        }
        let is_well = self.note_outcome(service, key, sent.is_ok());
        let new = match &sent {
            Ok(_) if !is_well => return Ok(()),
            Ok(_) => {
                let reason = reason::ENDPOINT_SLICE_DISPATCHED_SUCCEED;
                condition(ENDPOINT_SLICE_DISPATCHED, true, reason, DISPATCHED)
            }
            Err(error) => {
                let reason = reason::ENDPOINT_SLICE_DISPATCHED_FAILED;
                condition(ENDPOINT_SLICE_DISPATCHED, false, reason, &chain(error))
            }
        };
        let written = write_condition(&self.client, &object, new, self.clock.now().into()).await;
        let is_news = touched || matches!(sent, Ok(true));
        if let Err(error) = written {
            // It is told when the condition says so.
            self.touched.lock().extend(is_news.then(|| key.clone()));
            return Err(Error::Status(error));
        }
        match &sent {
            Ok(_) if is_news => {
                let reason = event_reason::DISPATCH_ENDPOINT_SLICE_SUCCEED;
                self.events.normal(&*object, reason, DISPATCHED);
            }
            Ok(_) => {}
            Err(error) => {
                let reason = event_reason::DISPATCH_ENDPOINT_SLICE_FAILED;
                self.events.warning(&*object, reason, chain(error));
            }
        }
        sent.map(drop)
    }

    /// Notes whether a slice could be dispatched; returns whether all of the service could.
    fn note_outcome(&self, service: &ObjectKey, work: &ObjectKey, is_well: bool) -> bool {
        let mut failed = self.failed.lock();
        let of_service = failed.entry(service.clone()).or_default();
        if is_well {
            of_service.remove(work);
        } else {
            of_service.insert(work.clone());
        }
        let all_well = of_service.is_empty();
        if all_well {
            failed.remove(service);
        }
        all_well
    }

    /// Writes the Works of a slice. Returns whether any had to be changed.
    async fn send(
        &self,
        source: &Object,
        service: &Object,
        dispatched: &[Arc<Object>],
        touched: bool,
    ) -> Result<bool, Error> {
        let work: Work = source.read()?;
        let (Some(slice), Some(provider)) =
            (slice_of(&work), names::cluster_of_execution_space(source.namespace()))
        else {
            return Ok(false);
        };
        let typed = service.typed::<MultiClusterService>()?;
        let all = || all_clusters(&self.clusters);
        let consumers = clusters_of(&typed.spec.consumer_clusters, all);
        let parcels: Vec<Parcel> = dispatched.iter().map(|work| parcel(work)).collect();
        let name = work_name(provider, slice);
        let standing = |cluster: &str| standing_in(&self.clusters, cluster);
        let plan = plan(provider, &name, &consumers, standing, &parcels);
        if touched {
            tell_skipped(&self.events, service, &plan.skipped, ("Consumer", ENDPOINT_SLICE));
        }
        let mut changed = false;
        for consumer in &plan.send {
            let place = ObjectKey::new(names::execution_space(consumer), name.as_str());
            let existing = self.works.cache().get(&place);
            if let Some(existing) = &existing {
                check_provider(existing, provider)?;
            }
            let existing: Option<Work> = existing.map(|work| work.read()).transpose()?;
            let desired =
                dispatched_work(slice, service.name(), provider, consumer, existing.as_ref());
            let change = work::reconcile(existing.as_ref(), desired);
            let written = works::send(&self.client, existing.as_ref(), change).await;
            changed |=
                written.map_err(|source| Error::Write { cluster: consumer.clone(), source })?;
        }
        let listed = |list: &[ObjectKey], work: &Object| list.contains(&ObjectKey::of(work));
        for work in dispatched.iter().filter(|work| listed(&plan.suspend, work)) {
            self.suspend(work).await?;
            changed = true;
        }
        for work in dispatched.iter().filter(|work| listed(&plan.replaced, work)) {
            // The object stays: nobody is to take it from the member in the name of this one.
            let dropped = drop_finalizer(&self.client, work, finalizers::EXECUTION).await;
            dropped.map_err(Error::Finalizer)?;
            changed |= self.delete(work).await?;
        }
        for work in dispatched.iter().filter(|work| listed(&plan.delete, work)) {
            changed |= self.delete(work).await?;
        }
        Ok(changed)
    }

    async fn delete(&self, work: &Object) -> Result<bool, Error> {
        let deleted = works::delete(&self.client, work).await;
        deleted.map_err(|source| Error::Delete { work: ObjectKey::of(work), source })
    }

    async fn suspend(&self, work: &Object) -> Result<(), Error> {
        let patch = json!({"spec": {"suspendDispatching": true}});
        let api = self.client.api(&works::gvr()).namespaced(work.namespace());
        match api.merge_patch(work.name(), patch).await {
            Err(source) if !source.is_not_found() => {
                Err(Error::Suspend { work: ObjectKey::of(work), source })
            }
            _ => Ok(()),
        }
    }

    /// Takes a slice back from everywhere, and lets its collected Work go.
    async fn withdraw(
        &self,
        key: &ObjectKey,
        source: Option<&Object>,
        dispatched: &[Arc<Object>],
    ) -> Result<(), Error> {
        self.touched.lock().remove(key);
        self.failed.lock().retain(|_, works| {
            works.remove(key);
            !works.is_empty()
        });
        for work in dispatched {
            self.delete(work).await?;
        }
        let Some(source) = source else { return Ok(()) };
        let own = finalizers::ENDPOINT_SLICE_DISPATCH;
        drop_finalizer(&self.client, source, own).await.map_err(Error::Finalizer)
    }
}

fn work_name(provider: &str, slice: &Value) -> String {
    use karmada_apimachinery::object::ObjectExt as _;
    names::dispatched_endpoint_slice_work(provider, slice.name(), slice.namespace())
}

/// A name that ends with another one's beginning may stand for two slices; the first one keeps it.
fn check_provider(existing: &Object, provider: &str) -> Result<(), Error> {
    let holder = existing.meta().annotations.get(annotations::PROVISION_CLUSTER);
    if holder == Some(provider) {
        return Ok(());
    }
    let holder = holder.unwrap_or("the cluster itself").to_owned();
    Err(Error::Taken { work: ObjectKey::of(existing), holder, provider: provider.to_owned() })
}

fn parcel(work: &Object) -> Parcel {
    let view = works::view(work).unwrap_or_default();
    let conditions = &view.status.conditions;
    let is_applied = find_condition(conditions, APPLIED).is_some_and(Condition::is_true);
    let has_ended = find_condition(conditions, DISPATCHING).is_some_and(Condition::is_false);
    let delivery = match view.spec.suspend_dispatching {
        Some(true) if has_ended => Delivery::Ended,
        Some(true) => Delivery::Suspended,
        _ => Delivery::Open,
    };
    Parcel { key: ObjectKey::of(work), is_applied, delivery }
}

fn has_finalizer(work: &Object) -> bool {
    work.meta().finalizers.iter().any(|name| name == finalizers::ENDPOINT_SLICE_DISPATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "m1-web-x-hash";

    type There = (&'static str, &'static str, bool, Delivery);

    fn decide(consumers: &[&str], there: &[There]) -> Plan {
        let parcel = |(cluster, name, is_applied, delivery): &There| Parcel {
            key: ObjectKey::new(names::execution_space(cluster), *name),
            is_applied: *is_applied,
            delivery: *delivery,
        };
        let parcels: Vec<Parcel> = there.iter().map(parcel).collect();
        let consumers = consumers.iter().map(|name| (*name).to_owned()).collect();
        let standing = |cluster: &str| match cluster {
            "lost" => Standing::NotReady,
            "nowhere" => Standing::Missing,
            _ => Standing::Fit,
        };
        plan("m1", NAME, &consumers, standing, &parcels)
    }

    #[test]
    fn a_slice_goes_to_every_consumer_that_can_take_it_but_not_home() {
        let plan = decide(&["m1", "m2", "lost", "nowhere"], &[]);
        assert_eq!(plan.send, ["m2"]);
        let skipped = [("lost", Standing::NotReady), ("nowhere", Standing::Missing)];
        assert_eq!(plan.skipped, skipped.map(|(name, why)| (name.to_owned(), why)));
        assert!(plan.delete.is_empty());
    }

    #[test]
    fn works_go_with_their_consumer_and_old_names_give_way_step_by_step() {
        use Delivery::{Ended, Open, Suspended};
        const OLD: &str = "web-x-hash";
        /// What happens to which names.
        #[derive(Debug, Default, PartialEq)]
        struct Steps {
            send: bool,
            suspend: &'static [&'static str],
            replaced: &'static [&'static str],
            delete: &'static [&'static str],
        }
        let nothing = Steps::default;
        let send = || Steps { send: true, ..Steps::default() };
        let cases: [(&str, &str, &[There], Steps); 9] = [
            ("stays", "m2", &[("m2", NAME, true, Open)], send()),
            (
                "a former consumer",
                "m3",
                &[("m2", NAME, true, Open)],
                Steps { delete: &[NAME], ..send() },
            ),
            (
                "a former consumer, old name",
                "m3",
                &[("m2", OLD, true, Open)],
                Steps { delete: &[OLD], ..send() },
            ),
            ("a consumer that is lost", "lost", &[("lost", NAME, true, Open)], nothing()),
            ("lost, with an old name", "lost", &[("lost", OLD, true, Open)], nothing()),
            (
                "an old name",
                "m2",
                &[("m2", OLD, true, Open)],
                Steps { suspend: &[OLD], ..nothing() },
            ),
            ("it may still be on its way", "m2", &[("m2", OLD, true, Suspended)], nothing()),
            (
                "the right one is not there yet",
                "m2",
                &[("m2", OLD, true, Ended), ("m2", NAME, false, Open)],
                send(),
            ),
            (
                "the right one is there",
                "m2",
                &[("m2", OLD, true, Ended), ("m2", NAME, true, Open)],
                Steps { replaced: &[OLD], ..send() },
            ),
        ];
        for (title, consumer, there, expected) in cases {
            let plan = decide(&[consumer], there);
            let names = |keys: &[ObjectKey]| -> Vec<String> {
                keys.iter().map(|key| key.name.to_string()).collect()
            };
            assert_eq!(!plan.send.is_empty(), expected.send, "{title}");
            assert_eq!(names(&plan.suspend), expected.suspend, "{title}");
            assert_eq!(names(&plan.replaced), expected.replaced, "{title}");
            assert_eq!(names(&plan.delete), expected.delete, "{title}");
        }
    }
}

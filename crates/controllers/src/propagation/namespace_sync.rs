//! Brings every namespace to every cluster, so that what is propagated finds its place there.
//! Namespaces of the system and those that people keep at home stay.

use std::fmt;
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::policy::ClusterOverridePolicy;
use karmada_api::work::Work;
use karmada_api::{Kind, OverridingPolicy, labels, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_client::{Client, Object};
use karmada_propagation::claim;
use karmada_propagation::overrides::{OverrideError, OverrideIndex, Overrides};
use karmada_propagation::work;
use karmada_runtime::{Action, Change, Informer, ObjectKey, Priority, Queue};
use parking_lot::RwLock;

use super::detector::SkippedNamespaces;
use super::works;
use crate::context::Context;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand an object")]
    Decode(#[from] serde_json::Error),
    #[error("apply overrides for cluster {cluster}")]
    Override { cluster: String, source: OverrideError },
    #[error("write the work for cluster {cluster}")]
    Write { cluster: String, source: works::WriteError },
}

/// A namespace and a cluster it goes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Trip {
    namespace: String,
    cluster: String,
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.namespace, self.cluster)
    }
}

struct Ctx {
    client: Client,
    skipped: SkippedNamespaces,
    namespaces: Arc<Informer>,
    clusters: Arc<Informer>,
    works: Arc<Informer>,
    overrides: RwLock<OverrideIndex>,
    queue: Queue<Trip>,
}

pub(crate) fn start(context: &Context) {
    let skipped = context.options.skipped_propagating_namespaces.clone();
    let controller =
        context.controller("namespace-sync-controller").workers(context.options.workers);
    let gvr_of_clusters = Gvr::new(Cluster::GROUP, Cluster::VERSION, Cluster::PLURAL);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        skipped,
        namespaces: context.informers.all(&Gvr::new("", "v1", "namespaces")),
        clusters: context.informers.all(&gvr_of_clusters),
        works: works::informer(context),
        overrides: RwLock::default(),
        queue: controller.queue().clone(),
    });
    let overrides = context.informers.all(&Gvr::new(
        ClusterOverridePolicy::GROUP,
        ClusterOverridePolicy::VERSION,
        ClusterOverridePolicy::PLURAL,
    ));
    let own = ctx.clone();
    context.keep(overrides.subscribe(move |change| own.override_changed(change)));
    let own = ctx.clone();
    context.keep(ctx.namespaces.subscribe(move |change| own.namespace_changed(change)));
    let own = ctx.clone();
    context.keep(ctx.clusters.subscribe(move |change| {
        if let Change::Applied { old: None, new } = change {
            own.queue_cluster(new.name());
        }
    }));
    let own = ctx.clone();
    context.keep(ctx.works.subscribe(move |change| {
        if let Change::Deleted(work) = change
            && let Some(cluster) = names::cluster_of_execution_space(work.namespace())
            && let Some(owner) =
                work.meta().owner_references.iter().find(|owner| owner.kind == "Namespace")
        {
            own.queue.add(Trip { namespace: owner.name.clone(), cluster: cluster.to_owned() });
        }
    }));
    let inputs = vec![ctx.namespaces.clone(), ctx.clusters.clone(), ctx.works.clone(), overrides];
    context.start(controller, inputs, move |trip| reconcile(trip, ctx.clone()));
}

impl Ctx {
    fn stays(&self, namespace: &str) -> bool {
        namespace == "default" || self.skipped.skips(namespace)
    }

    fn namespace_changed(&self, change: &Change) {
        let Change::Applied { old, new } = change else { return };
        if let Some(cluster) = names::cluster_of_execution_space(new.name()) {
            // The place for the Works of a new cluster is there.
            if old.is_none() {
                self.queue_cluster(cluster);
            }
            return;
        }
        let is_same = |old: &Arc<Object>| !claim::update_matters(&old.value(), &new.value());
        if self.stays(new.name()) || old.as_ref().is_some_and(is_same) {
            return;
        }
        let priority = if self.namespaces.is_synced() { Priority::Normal } else { Priority::Low };
        for cluster in self.clusters.cache().keys() {
            let trip = Trip { namespace: new.name().to_owned(), cluster: cluster.name.into() };
            self.queue.add_with_priority(trip, priority);
        }
    }

    fn queue_cluster(&self, cluster: &str) {
        for namespace in self.namespaces.cache().keys() {
            if !self.stays(&namespace.name) {
                let trip = Trip { namespace: namespace.name.into(), cluster: cluster.to_owned() };
                self.queue.add_with_priority(trip, Priority::Low);
            }
        }
    }

    fn override_changed(&self, change: &Change) {
        let mut concerned = false;
        let old = match change {
            Change::Applied { old, .. } => old.as_ref(),
            Change::Deleted(_) => None,
        };
        for policy in old.into_iter().chain([change.object()]) {
            let Ok(policy) = policy.typed::<ClusterOverridePolicy>() else { continue };
            let selectors = &policy.spec().resource_selectors;
            // The original forgets policies without selectors here although they apply.
            concerned |= selectors.is_empty()
                || selectors.iter().any(|s| s.api_version == "v1" && s.kind == "Namespace");
        }
        match change {
            Change::Applied { new, .. } => {
                if let Ok(policy) = new.typed::<ClusterOverridePolicy>() {
                    self.overrides.write().insert(&*policy);
                }
            }
            Change::Deleted(policy) => self.overrides.write().remove("", policy.name()),
        }
        if concerned && self.namespaces.is_synced() {
            self.clusters.cache().keys().iter().for_each(|key| self.queue_cluster(&key.name));
        }
    }
}

async fn reconcile(trip: Trip, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(namespace) = ctx.namespaces.cache().get(&ObjectKey::cluster(&*trip.namespace)) else {
        return Ok(Action::AwaitChange);
    };
    let keeps_home = namespace
        .meta()
        .labels
        .get(labels::SKIP_AUTO_PROPAGATION)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    if namespace.is_being_deleted() || keeps_home || ctx.stays(&trip.namespace) {
        return Ok(Action::AwaitChange);
    }
    let Some(cluster) = ctx.clusters.cache().get(&ObjectKey::cluster(&*trip.cluster)) else {
        return Ok(Action::AwaitChange);
    };
    let place = names::execution_space(&trip.cluster);
    let is_usable = |place: Arc<Object>| !place.is_being_deleted();
    // The cluster controller makes the place; its appearance brings everybody back.
    let has_place = ctx.namespaces.cache().get(&ObjectKey::cluster(&*place)).is_some_and(is_usable);
    if cluster.is_being_deleted() || !has_place {
        return Ok(Action::AwaitChange);
    }
    let name = names::work("Namespace", &trip.namespace, "");
    let existing = ctx.works.cache().get(&ObjectKey::new(&*place, &*name));
    let existing: Option<Work> = existing.map(|work| work.read()).transpose()?;
    let value = namespace.value();
    let overrides = Overrides::find(&ctx.overrides.read(), &OverrideIndex::default(), &value);
    let desired =
        work::namespace_work(&value, &overrides, &*cluster.typed::<Cluster>()?, existing.as_ref())
            .map_err(|source| Error::Override { cluster: trip.cluster.clone(), source })?;
    works::write(&ctx.client, existing.as_ref(), desired)
        .await
        .map_err(|source| Error::Write { cluster: trip.cluster, source })?;
    Ok(Action::AwaitChange)
}

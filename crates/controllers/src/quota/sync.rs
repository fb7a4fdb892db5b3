//! Gives each cluster with a static assignment its part of a FederatedResourceQuota: a Work with a
//! ResourceQuota of the same name. Works of clusters that lost their assignment go.

use std::collections::HashSet;
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::policy::FederatedResourceQuota;
use karmada_api::work::Work;
use karmada_api::{Kind, event_reason, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_client::{Client, DeleteOptions, Object};
use karmada_propagation::work;
use karmada_runtime::{Action, Change, Informer, ObjectKey, Queue, Recorder};
use parking_lot::Mutex;

use super::{BY_QUOTA, informer, quota_of, works_by_quota};
use crate::context::Context;
use crate::propagation::works;

const NAME: &str = "federated-resource-quota-sync-controller";

/// Index of quotas by the clusters they have assignments for.
const BY_CLUSTER: &str = "assigned-cluster";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the quota or its works")]
    Decode(#[from] serde_json::Error),
    #[error("write the work for cluster {cluster}")]
    Write { cluster: String, source: works::WriteError },
    #[error("delete the work {work}")]
    Delete { work: ObjectKey, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    quotas: Arc<Informer>,
    clusters: Arc<Informer>,
    works: Arc<Informer>,
    events: Recorder,
    /// Quotas that somebody changed: the outcome is told even if nothing had to be written. After a
    /// restart nobody has.
    touched: Mutex<HashSet<ObjectKey>>,
}

pub(crate) fn start(context: &Context) {
    let controller = context.controller(NAME);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        quotas: informer(context),
        clusters: context.informers.all(&Gvr::new(
            Cluster::GROUP,
            Cluster::VERSION,
            Cluster::PLURAL,
        )),
        works: works_by_quota(context),
        events: context.recorder(NAME),
        touched: Mutex::default(),
    });
    ctx.quotas
        .cache()
        .add_index(BY_CLUSTER, |quota| assigned_clusters(quota).into_iter().collect());
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.quotas.subscribe(move |change| own.on_quota(change, &queue)));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.clusters.subscribe(move |change| {
        if let Change::Applied { old: None, new } = change {
            let quotas = own.quotas.cache().by_index(BY_CLUSTER, new.name());
            quotas.iter().for_each(|quota| queue.add(ObjectKey::of(quota)));
        }
    }));
    let queue = controller.queue().clone();
    context.keep(ctx.works.subscribe(move |change| {
        if let Change::Deleted(work) = change
            && let Some(quota) = quota_of(work)
        {
            queue.add(quota);
        }
    }));
    let inputs = vec![ctx.quotas.clone(), ctx.clusters.clone(), ctx.works.clone()];
    let queue = controller.queue().clone();
    let works = ctx.works.clone();
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
    // A quota that was deleted while nobody looked has left its Works behind.
    context.shutdown.spawn_until(async move {
        works.wait_synced().await;
        let left = works.cache().list();
        left.iter().filter_map(|work| quota_of(work)).for_each(|quota| queue.add(quota));
    });
}

fn assigned_clusters(quota: &Object) -> HashSet<String> {
    let quota = quota.typed::<FederatedResourceQuota>();
    let assignments = quota.map(|quota| quota.spec.static_assignments.clone()).unwrap_or_default();
    assignments.into_iter().map(|assignment| assignment.cluster_name).collect()
}

impl Ctx {
    fn on_quota(&self, change: &Change, queue: &Queue<ObjectKey>) {
        let key = ObjectKey::of(change.object());
        if let Change::Applied { old: Some(old), new } = change
            && old.meta().generation == new.meta().generation
        {
            return;
        }
        if self.quotas.is_synced() {
            self.touched.lock().insert(key.clone());
        }
        queue.add(key);
    }

    fn works_of(&self, key: &ObjectKey) -> Vec<Arc<Object>> {
        self.works.cache().by_index(BY_QUOTA, &key.to_string())
    }

    async fn delete(&self, work: &Object) -> Result<(), Error> {
        if work.is_being_deleted() {
            return Ok(());
        }
        let api = self.client.api(&works::gvr()).namespaced(work.namespace());
        match api.delete(work.name(), &DeleteOptions::default()).await {
            Err(source) if !source.is_not_found() => {
                Err(Error::Delete { work: ObjectKey::of(work), source })
            }
            _ => Ok(()),
        }
    }

    /// Brings the Works of a quota to where they should be. Returns whether any had to be changed.
    async fn bring_works(&self, quota: &FederatedResourceQuota) -> Result<bool, Error> {
        let mut changed = false;
        let key = ObjectKey::new(&*quota.metadata.namespace, &*quota.metadata.name);
        for work in self.works_of(&key) {
            let cluster = names::cluster_of_execution_space(work.namespace()).unwrap_or_default();
            let mut assignments = quota.spec.static_assignments.iter();
            if !assignments.any(|assignment| assignment.cluster_name == cluster) {
                self.delete(&work).await?;
                changed = true;
            }
        }
        for assignment in &quota.spec.static_assignments {
            let cluster = &assignment.cluster_name;
            // Clusters that are not there yet get their part when they join.
            if self.clusters.cache().get(&ObjectKey::cluster(cluster.as_str())).is_none() {
                continue;
            }
            let name = names::work("ResourceQuota", &key.name, &key.namespace);
            let place = ObjectKey::new(names::execution_space(cluster), name);
            let existing = self.works.cache().get(&place);
            let existing: Option<Work> = existing.map(|work| work.read()).transpose()?;
            let desired = work::quota_work(quota, assignment, existing.as_ref());
            changed |= works::write(&self.client, existing.as_ref(), desired)
                .await
                .map_err(|source| Error::Write { cluster: cluster.clone(), source })?;
        }
        Ok(changed)
    }
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.quotas.cache().get(&key).filter(|quota| !quota.is_being_deleted());
    let Some(object) = object else {
        ctx.touched.lock().remove(&key);
        for work in ctx.works_of(&key) {
            ctx.delete(&work).await?;
        }
        return Ok(Action::AwaitChange);
    };
    let quota = object.typed::<FederatedResourceQuota>()?;
    match ctx.bring_works(&quota).await {
        Ok(changed) => {
            if ctx.touched.lock().remove(&key) || changed {
                let note = format!("Sync works for FederatedResourceQuota({key}) succeed.");
                ctx.events.normal(&*object, event_reason::SYNC_WORK_SUCCEED, note);
            }
            Ok(Action::AwaitChange)
        }
        Err(error) => {
            let reason = event_reason::SYNC_WORK_FAILED;
            ctx.events.warning(&*object, reason, error.to_string());
            Err(error)
        }
    }
}

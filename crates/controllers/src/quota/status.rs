//! Gathers what the ResourceQuotas in the clusters report into the status of the
//! FederatedResourceQuota they were made for.

use std::collections::HashSet;
use std::sync::Arc;

use karmada_api::conditions::work as work_condition;
use karmada_api::core::ResourceList;
use karmada_api::features::Gate;
use karmada_api::meta::find_condition;
use karmada_api::policy::{
    ClusterQuotaStatus, FederatedResourceQuota, FederatedResourceQuotaStatus,
};
use karmada_api::{event_reason, names};
use karmada_client::{Client, Object};
use karmada_runtime::{Action, Change, Informer, ObjectKey, Queue, Recorder};
use parking_lot::Mutex;
use serde::Deserialize;

use super::{BY_QUOTA, informer, quota_of, works_by_quota, write_status};
use crate::context::Context;
use crate::propagation::works;

const NAME: &str = "federated-resource-quota-status-controller";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the quota or its works")]
    Decode(#[from] serde_json::Error),
    #[error("write the status of the quota")]
    Write(#[source] karmada_client::Error),
}

struct Ctx {
    client: Client,
    quotas: Arc<Informer>,
    works: Arc<Informer>,
    events: Recorder,
    /// Whether somebody else counts what is used in all.
    is_enforced: bool,
    /// Quotas that somebody changed: the outcome is told even if nothing had to be written.
    touched: Mutex<HashSet<ObjectKey>>,
}

pub(crate) fn start(context: &Context) {
    let controller = context.controller(NAME);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        quotas: informer(context),
        works: works_by_quota(context),
        events: context.recorder(NAME),
        is_enforced: context.gates.is_on(Gate::FederatedQuotaEnforcement),
        touched: Mutex::default(),
    });
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.quotas.subscribe(move |change| own.on_quota(change, &queue)));
    let queue = controller.queue().clone();
    context.keep(ctx.works.subscribe(move |change| {
        if let Some(quota) = quota_of(change.object()) {
            queue.add(quota);
        }
    }));
    let inputs = vec![ctx.quotas.clone(), ctx.works.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

impl Ctx {
    fn on_quota(&self, change: &Change, queue: &Queue<ObjectKey>) {
        let key = ObjectKey::of(change.object());
        match change {
            Change::Deleted(_) => {
                self.touched.lock().remove(&key);
                return;
            }
            Change::Applied { old, new } => {
                let is_new = |old: &Arc<Object>| old.meta().generation != new.meta().generation;
                if self.quotas.is_synced() && old.as_ref().is_none_or(is_new) {
                    self.touched.lock().insert(key.clone());
                }
            }
        }
        queue.add(key);
    }
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.quotas.cache().get(&key).filter(|quota| !quota.is_being_deleted());
    let Some(object) = object else { return Ok(Action::AwaitChange) };
    let quota = object.typed::<FederatedResourceQuota>()?;
    let works = ctx.works.cache().by_index(BY_QUOTA, &key.to_string());
    let mut status = quota.status.clone();
    status.aggregated_status = gather(&works)?;
    if !ctx.is_enforced {
        sum_up(&quota, &mut status);
    }
    let is_new = status != quota.status;
    if is_new && let Err(error) = write_status(&ctx.client, &object, &quota.status, &status).await {
        // Whoever wrote between will be seen, and the quota looked at again.
        if error.is_conflict() {
            return Ok(Action::AwaitChange);
        }
        let reason = event_reason::AGGREGATE_STATUS_FAILED;
        ctx.events.warning(&*object, reason, error.to_string());
        return Err(Error::Write(error));
    }
    if ctx.touched.lock().remove(&key) || is_new {
        let note = format!("Collect status of FederatedResourceQuota({key}) succeed.");
        ctx.events.normal(&*object, event_reason::AGGREGATE_STATUS_SUCCEED, note);
    }
    Ok(Action::AwaitChange)
}

/// What a ResourceQuota reports.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reported {
    hard: ResourceList,
    used: ResourceList,
}

/// What the clusters report, by their names.
fn gather(works: &[Arc<Object>]) -> Result<Vec<ClusterQuotaStatus>, serde_json::Error> {
    let mut reports = Vec::new();
    for work in works {
        let view = works::view(work)?;
        let applied = find_condition(&view.status.conditions, work_condition::APPLIED);
        if applied.is_none_or(|condition| condition.status != "True") {
            continue;
        }
        let reported =
            view.status.manifest_statuses.iter().find_map(|manifest| manifest.status.as_ref());
        let cluster = names::cluster_of_execution_space(work.namespace());
        if let (Some(reported), Some(cluster)) = (reported, cluster) {
            let Reported { hard, used } = Reported::deserialize(reported)?;
            reports.push(ClusterQuotaStatus { cluster_name: cluster.to_owned(), hard, used });
        }
    }
    reports.sort_by(|a, b| a.cluster_name.cmp(&b.cluster_name));
    Ok(reports)
}

/// The limits in force, and what all clusters use together.
fn sum_up(quota: &FederatedResourceQuota, status: &mut FederatedResourceQuotaStatus) {
    status.overall = quota.spec.overall.clone();
    status.overall_used = ResourceList::new();
    for (resource, used) in status.aggregated_status.iter().flat_map(|report| &report.used) {
        let sum = status.overall_used.entry(resource.clone());
        sum.and_modify(|sum| *sum += used).or_insert_with(|| used.clone());
    }
}

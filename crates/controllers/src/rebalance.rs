//! Serves WorkloadRebalancers: asks the scheduler once to place the named workloads anew, and says
//! what became of it. A finished request removes itself after its time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::apps::{
    ObjectReference, ObservedWorkload, REASON_REFERENCED_BINDING_NOT_FOUND, RebalanceResult,
    WorkloadRebalancer, WorkloadRebalancerStatus,
};
use karmada_api::wire::Time;
use karmada_api::work::{ClusterResourceBinding, ResourceBinding};
use karmada_api::{Binding, Kind, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::patch::merge;
use karmada_client::{Client, DeleteOptions, Object, Patch, PatchOptions};
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey};

use crate::context::Context;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the rebalancer or a binding")]
    Decode(#[from] serde_json::Error),
    #[error("ask for {0} workloads again")]
    Unfinished(usize),
    #[error("write the status of the rebalancer")]
    Write(#[source] karmada_client::Error),
    #[error("delete the finished rebalancer")]
    Delete(#[source] karmada_client::Error),
}

struct Ctx {
    client: Client,
    clock: Clock,
    rebalancers: Arc<Informer>,
    bindings: Arc<Informer>,
    cluster_bindings: Arc<Informer>,
}

fn gvr<K: Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

pub(crate) fn start(context: &Context) {
    let controller = context.controller("workload-rebalancer");
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        clock: context.clock.clone(),
        rebalancers: context.informers.all(&gvr::<WorkloadRebalancer>()),
        bindings: context.informers.all(&gvr::<ResourceBinding>()),
        cluster_bindings: context.informers.all(&gvr::<ClusterResourceBinding>()),
    });
    let queue = controller.queue().clone();
    context.keep(ctx.rebalancers.subscribe(move |change| {
        let Change::Applied { old, new } = change else { return };
        if old.as_ref().is_none_or(|old| old.meta().generation != new.meta().generation) {
            queue.add(ObjectKey::of(new));
        }
    }));
    let inputs = vec![ctx.rebalancers.clone(), ctx.bindings.clone(), ctx.cluster_bindings.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.rebalancers.cache().get(&key).filter(|object| !object.is_being_deleted());
    let Some(object) = object else { return Ok(Action::AwaitChange) };
    let rebalancer = object.typed::<WorkloadRebalancer>()?;
    let mut status = WorkloadRebalancerStatus {
        observed_workloads: workloads_to_show(&rebalancer),
        observed_generation: object.meta().generation,
        finish_time: rebalancer.status.finish_time,
    };
    let asked_at = rebalancer.metadata.creation_timestamp.unwrap_or_else(|| ctx.clock.now().into());
    let mut unfinished = 0;
    for entry in status.observed_workloads.iter_mut().filter(|entry| entry.result.is_unset()) {
        match ctx.ask(&entry.workload, asked_at).await {
            Ok(true) => entry.result = RebalanceResult::Successful,
            Ok(false) => {
                entry.result = RebalanceResult::Failed;
                REASON_REFERENCED_BINDING_NOT_FOUND.clone_into(&mut entry.reason);
            }
            Err(error) => {
                tracing::warn!(%error, workload = entry.workload.name, "not asked");
                unfinished += 1;
            }
        }
    }
    if status != rebalancer.status {
        if unfinished == 0 {
            status.finish_time = Some(ctx.clock.now().into());
        }
        ctx.write_status(&object, &rebalancer.status, &status).await?;
    }
    if unfinished > 0 {
        return Err(Error::Unfinished(unfinished));
    }
    ctx.remove_in_time(&object, &rebalancer, &status).await
}

/// The workloads of the request in their order of names, with what is known about them; those that
/// were taken from the request stay if they were served.
fn workloads_to_show(rebalancer: &WorkloadRebalancer) -> Vec<ObservedWorkload> {
    let order = |workload: &ObjectReference| {
        let ObjectReference { api_version, kind, name, namespace } = workload;
        format!("{api_version} {kind} {namespace} {name}")
    };
    let wanted = &rebalancer.spec.workloads;
    let new = wanted.iter().map(|workload| ObservedWorkload {
        workload: workload.clone(),
        ..ObservedWorkload::default()
    });
    let mut shown: BTreeMap<String, ObservedWorkload> =
        new.map(|entry| (order(&entry.workload), entry)).collect();
    for entry in &rebalancer.status.observed_workloads {
        if wanted.contains(&entry.workload) || entry.result == RebalanceResult::Successful {
            shown.insert(order(&entry.workload), entry.clone());
        }
    }
    shown.into_values().collect()
}

impl Ctx {
    /// Asks for a workload to be placed anew. Returns whether it has a binding.
    async fn ask(
        &self,
        workload: &ObjectReference,
        at: Time,
    ) -> Result<bool, karmada_client::Error> {
        let name = names::binding(&workload.kind, &workload.name);
        if workload.namespace.is_empty() {
            let key = ObjectKey::cluster(name);
            self.trigger::<ClusterResourceBinding>(&self.cluster_bindings, &key, at).await
        } else {
            let key = ObjectKey::new(workload.namespace.as_str(), name);
            self.trigger::<ResourceBinding>(&self.bindings, &key, at).await
        }
    }

    async fn trigger<B: Binding>(
        &self,
        bindings: &Informer,
        key: &ObjectKey,
        at: Time,
    ) -> Result<bool, karmada_client::Error> {
        let Some(object) = bindings.cache().get(key) else { return Ok(false) };
        let binding = object.typed_for_now::<B>().ok();
        let triggered = binding.as_ref().and_then(|b| b.spec().reschedule_triggered_at);
        // Compat: a request that is older than the last one changes nothing, and counts as served.
        if triggered.is_some_and(|before| before >= at) {
            return Ok(true);
        }
        // Times are in seconds: a decision of the same second would count as the answer to this request.
        let scheduled = binding.and_then(|b| b.status().last_scheduled_time);
        let at = if scheduled == Some(at) { Time(at.0 + Duration::from_secs(1)) } else { at };
        let patch = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "spec": {"rescheduleTriggeredAt": at},
        });
        let api = self.client.api(&gvr::<B>()).namespaced(&key.namespace);
        match api.merge_patch(&key.name, patch).await {
            Err(error) if error.is_not_found() => Ok(false),
            patched => patched.map(|_| true),
        }
    }

    async fn write_status(
        &self,
        object: &Object,
        from: &WorkloadRebalancerStatus,
        to: &WorkloadRebalancerStatus,
    ) -> Result<(), Error> {
        let (from, to) =
            (karmada_apimachinery::to_value(from)?, karmada_apimachinery::to_value(to)?);
        let diff = match (from.as_object(), to.as_object()) {
            (Some(from), Some(to)) => merge::diff(from, to),
            _ => return Ok(()),
        };
        let api = self.client.api(&gvr::<WorkloadRebalancer>());
        let (patch, options) = (Patch::Merge(json!({"status": diff})), PatchOptions::default());
        match api.patch_subresource(object.name(), "status", &patch, &options).await {
            Err(error) if !error.is_not_found() => Err(Error::Write(error)),
            _ => Ok(()),
        }
    }

    /// Deletes a finished request whose time is over, or comes back when it is.
    async fn remove_in_time(
        &self,
        object: &Object,
        rebalancer: &WorkloadRebalancer,
        status: &WorkloadRebalancerStatus,
    ) -> Result<Action, Error> {
        let (Some(seconds), Some(finished)) =
            (rebalancer.spec.ttl_seconds_after_finished, status.finish_time)
        else {
            return Ok(Action::AwaitChange);
        };
        let ttl = Duration::from_secs(seconds.max(0).unsigned_abs().into());
        let left = ttl.saturating_sub(self.clock.since(finished.0));
        if !left.is_zero() {
            return Ok(Action::Requeue(left));
        }
        // One that was changed meanwhile asks for something else.
        let current = self.rebalancers.cache().get(&ObjectKey::of(object));
        let Some(current) = current else { return Ok(Action::AwaitChange) };
        if current.meta().generation != object.meta().generation {
            return Ok(Action::AwaitChange);
        }
        let options =
            DeleteOptions { uid: Some(object.uid().to_owned()), ..DeleteOptions::default() };
        match self.client.api(&gvr::<WorkloadRebalancer>()).delete(object.name(), &options).await {
            Err(error) if error.is_conflict() => Ok(Action::AwaitChange),
            Err(error) if !error.is_not_found() => Err(Error::Delete(error)),
            _ => Ok(Action::AwaitChange),
        }
    }
}

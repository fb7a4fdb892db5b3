//! Counts what the bindings of a namespace claim against its FederatedResourceQuotas. Admission counts
//! with every binding it lets through; here the count is set right when a quota or a binding went by
//! unseen.

use std::sync::Arc;
use std::time::Duration;

use karmada_admission::quota_usage;
use karmada_api::core::ResourceList;
use karmada_api::features::Gate;
use karmada_api::policy::FederatedResourceQuota;
use karmada_api::work::ResourceBinding;
use karmada_api::{Kind, event_reason};
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Client;
use karmada_runtime::{Action, Change, Informer, ObjectKey, Recorder};

use super::{informer, write_status};
use crate::context::Context;

const NAME: &str = "federated-resource-quota-enforcement-controller";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the quota or a binding")]
    Decode(#[from] serde_json::Error),
    #[error("write what the quota counts")]
    Write(#[source] karmada_client::Error),
}

struct Ctx {
    client: Client,
    quotas: Arc<Informer>,
    bindings: Arc<Informer>,
    events: Recorder,
    period: Duration,
}

pub(crate) fn start(context: &Context) {
    if !context.gates.is_on(Gate::FederatedQuotaEnforcement) {
        return;
    }
    type Binding = ResourceBinding;
    let controller = context.controller(NAME);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        quotas: informer(context),
        bindings: context.informers.all(&Gvr::new(
            Binding::GROUP,
            Binding::VERSION,
            Binding::PLURAL,
        )),
        events: context.recorder(NAME),
        period: context.options.federated_resource_quota_sync_period,
    });
    let queue = controller.queue().clone();
    context.keep(ctx.quotas.subscribe(move |change| {
        let Change::Applied { old, new } = change else { return };
        let is_same = |generation: i64| generation == new.meta().generation;
        if !old.as_ref().is_some_and(|old| is_same(old.meta().generation)) {
            queue.add(ObjectKey::of(new));
        }
    }));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.bindings.subscribe(move |change| {
        if let Change::Deleted(binding) = change {
            let quotas = own.quotas.cache().list_namespace(binding.namespace());
            quotas.iter().for_each(|quota| queue.add(ObjectKey::of(quota)));
        }
    }));
    let inputs = vec![ctx.quotas.clone(), ctx.bindings.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.quotas.cache().get(&key).filter(|quota| !quota.is_being_deleted());
    let Some(object) = object else { return Ok(Action::AwaitChange) };
    let quota = object.typed::<FederatedResourceQuota>()?;
    let mut status = quota.status.clone();
    status.overall.clone_from(&quota.spec.overall);
    status.overall_used = ctx.count(&quota)?;
    if status != quota.status {
        if let Err(error) = write_status(&ctx.client, &object, &quota.status, &status).await {
            let reason = event_reason::COLLECT_OVERALL_STATUS_FAILED;
            ctx.events.warning(&*object, reason, error.to_string());
            return Err(Error::Write(error));
        }
        // Compat: the words are those of the controller that gathers what the clusters report.
        let note = format!("Collect status of FederatedResourceQuota({key}) succeed.");
        ctx.events.normal(&*object, event_reason::COLLECT_OVERALL_STATUS_SUCCEED, note);
    }
    Ok(Action::Requeue(ctx.period))
}

impl Ctx {
    /// What the bindings of the quota's namespace claim of the resources it limits.
    fn count(&self, quota: &FederatedResourceQuota) -> Result<ResourceList, serde_json::Error> {
        let mut total = ResourceList::new();
        for binding in self.bindings.cache().list_namespace(&quota.metadata.namespace) {
            let binding = binding.typed_for_now::<ResourceBinding>()?;
            for (resource, amount) in quota_usage(&binding) {
                if quota.spec.overall.contains_key(&resource) {
                    let sum = total.entry(resource);
                    sum.and_modify(|sum| *sum += &amount).or_insert(amount);
                }
            }
        }
        Ok(total)
    }
}

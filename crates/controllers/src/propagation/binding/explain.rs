//! Says what overrides change in each cluster and what became of the Works there. Worked out when
//! asked, from what is cached: nothing is kept for it.

use std::marker::PhantomData;
use std::sync::Arc;

use karmada_api::conditions::work as condition;
use karmada_api::explain::{Delivery, Explanation};
use karmada_api::meta::find_condition;
use karmada_api::work::ResourceBindingSpec;
use karmada_api::{Binding, names};
use karmada_client::Object;
use karmada_runtime::ObjectKey;

use super::{Ctx, plan};
use crate::explain::Explainer;
use crate::propagation::{templates, works};

/// Steps an explanation holds at most; a fleet has many clusters and they are much alike.
const SHOWN: usize = 1000;

/// The binding controller of one scope as it explains itself.
pub(super) struct Told<B> {
    pub(super) ctx: Arc<Ctx>,
    pub(super) scope: PhantomData<fn() -> B>,
}

impl<B: Binding> Explainer for Told<B> {
    fn explain(&self, key: &ObjectKey, _: &ResourceBindingSpec, into: &mut Explanation) {
        if key.namespace.is_empty() == B::NAMESPACED {
            return;
        }
        let ctx = &self.ctx;
        let cached = ctx.bindings.cache().get(key);
        let Some(binding) = cached.and_then(|object| object.typed_for_now::<B>().ok()) else {
            return;
        };
        let works = works::of_binding(&ctx.works, binding.permanent_id());
        into.deliveries = works.iter().filter_map(|work| delivery(work)).take(SHOWN).collect();
        let Some(template) = templates::cached(&ctx.kinds, &binding.spec().resource) else {
            return;
        };
        let value = template.value();
        let overrides = ctx.policies.find(&value);
        let targets =
            plan::plan(&*binding, &value, &overrides, &ctx.interpreter, ctx.inject_state, &**ctx);
        for target in targets {
            into.overrides.extend(target.steps);
            // A cluster that gets no Work has nobody else to say so.
            if let Err(failure) = target.outcome {
                into.deliveries.retain(|delivery| delivery.cluster != target.cluster);
                let (cluster, message) = (target.cluster, failure.message);
                into.deliveries.push(Delivery { cluster, message, ..Delivery::default() });
            }
        }
        into.overrides.truncate(SHOWN);
        into.deliveries.truncate(SHOWN);
    }
}

/// What a Work says about its cluster.
fn delivery(work: &Object) -> Option<Delivery> {
    let cluster = names::cluster_of_execution_space(work.namespace())?.to_owned();
    let view = works::view(work).ok()?;
    let applied = find_condition(&view.status.conditions, condition::APPLIED);
    let health = view.status.manifest_statuses.first();
    let health = health.map(|status| status.health.as_str().to_owned()).unwrap_or_default();
    let waiting = || match view.spec.suspend_dispatching {
        Some(true) => "delivery is suspended".to_owned(),
        _ => "not delivered yet".to_owned(),
    };
    Some(Delivery {
        cluster,
        applied: applied.is_some_and(|applied| applied.is_true()),
        message: applied.map_or_else(waiting, |applied| applied.message.clone()),
        health,
    })
}

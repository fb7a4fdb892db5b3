//! Lets Deployments that autoscalers of the members scale say how many replicas there are: what the
//! members run becomes what the template asks for. Only where the replicas are divided; elsewhere the
//! sum of the members is not the number of the template. Off unless `--controllers` names
//! `deploymentReplicasSyncer`.

use std::sync::Arc;

use karmada_api::meta::Kind as _;
use karmada_api::policy::ReplicaSchedulingType;
use karmada_api::work::{AggregatedStatusItem, ResourceBinding};
use karmada_api::{labels, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_runtime::{Action, Change, Informer, ObjectKey, Queue};

use crate::context::Context;

const DEPLOYMENT: &str = "Deployment";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the binding")]
    Decode(#[from] serde_json::Error),
    #[error("write the replicas")]
    Write(#[source] karmada_client::Error),
}

struct Ctx {
    client: Client,
    deployments: Arc<Informer>,
    bindings: Arc<Informer>,
}

fn deployments() -> Gvr {
    Gvr::new("apps", "v1", "deployments")
}

pub(crate) fn start(context: &Context) {
    let bindings =
        Gvr::new(ResourceBinding::GROUP, ResourceBinding::VERSION, ResourceBinding::PLURAL);
    let controller = context.controller("deployment-replicas-syncer");
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        deployments: context.informers.all(&deployments()),
        bindings: context.informers.all(&bindings),
    });
    let queue = controller.queue().clone();
    context.keep(ctx.deployments.subscribe(move |change| follow(change, &queue)));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.bindings.subscribe(move |change| {
        let Change::Applied { new, .. } = change else { return };
        let Ok(binding) = new.typed_for_now::<ResourceBinding>() else { return };
        let resource = &binding.spec.resource;
        let key = ObjectKey::new(resource.namespace.as_str(), resource.name.as_str());
        let is_ours = || own.deployments.cache().get(&key).is_some_and(|known| is_marked(&known));
        if resource.kind == DEPLOYMENT && is_ours() {
            queue.add(key);
        }
    }));
    let inputs = vec![ctx.deployments.clone(), ctx.bindings.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

fn is_marked(deployment: &Object) -> bool {
    let mark = deployment.meta().labels.get(labels::RETAIN_REPLICAS);
    mark.is_some_and(|mark| mark == labels::TRUE)
}

fn follow(change: &Change, queue: &Queue<ObjectKey>) {
    if let Change::Applied { new, .. } = change
        && is_marked(new)
    {
        queue.add(ObjectKey::of(new));
    }
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let deployment = ctx.deployments.cache().get(&key);
    let deployment = deployment.filter(|object| is_marked(object) && !object.is_being_deleted());
    let Some(deployment) = deployment else { return Ok(Action::AwaitChange) };
    let binding = ObjectKey::new(key.namespace.as_str(), names::binding(DEPLOYMENT, &key.name));
    let Some(binding) = ctx.bindings.cache().get(&binding) else {
        return Ok(Action::AwaitChange);
    };
    let Some(replicas) = replicas_to_be(&deployment.value(), &*binding.typed()?) else {
        return Ok(Action::AwaitChange);
    };
    // The version makes sure that what people write meanwhile is not undone.
    let patch = json!({
        "metadata": {"resourceVersion": deployment.resource_version()},
        "spec": {"replicas": replicas},
    });
    let api = ctx.client.api(&deployments()).namespaced(&key.namespace);
    match api.merge_patch(&key.name, patch).await {
        Err(error) if !error.is_not_found() => Err(Error::Write(error)),
        _ => Ok(Action::AwaitChange),
    }
}

/// What the template has to ask for, if that is not what it asks for, and if everybody has told how
/// many there are since the last change.
fn replicas_to_be(deployment: &Value, binding: &ResourceBinding) -> Option<i64> {
    let (spec, status) = (&binding.spec, &binding.status);
    // Row 17 of the quirk register: without a placement nothing is divided.
    let scheduling = spec.placement.as_ref()?.replica_scheduling.as_ref()?;
    let is_divided = scheduling.replica_scheduling_type == ReplicaSchedulingType::Divided;
    let asked = deployment.i64_at(&["spec", "replicas"]).unwrap_or(1);
    let running = deployment.i64_at(&["status", "replicas"]).unwrap_or_default();
    let is_settled = asked == i64::from(spec.replicas)
        && binding.metadata.generation == status.scheduler_observed_generation
        && status.aggregated_status.len() == spec.clusters.len();
    let told = |item: &AggregatedStatusItem| {
        let replicas = item.status.as_ref().and_then(|status| status.i64_at(&["replicas"]));
        replicas.filter(|replicas| *replicas > 0)
    };
    let sum = status.aggregated_status.iter().map(told).sum::<Option<i64>>()?;
    (is_divided && asked != running && is_settled && sum == running).then_some(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(asked: i64, running: i64) -> Value {
        json!({"spec": {"replicas": asked}, "status": {"replicas": running}})
    }

    /// A binding of two replicas that members run as so many.
    fn binding(running: [i64; 2]) -> ResourceBinding {
        let binding = json!({
            "metadata": {"name": "web-deployment", "namespace": "default", "generation": 3},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "replicas": 2,
                "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
                "clusters": [{"name": "m1", "replicas": 1}, {"name": "m2", "replicas": 1}],
            },
            "status": {
                "schedulerObservedGeneration": 3,
                "aggregatedStatus": [
                    {"clusterName": "m1", "status": {"replicas": running[0]}},
                    {"clusterName": "m2", "status": {"replicas": running[1]}},
                ],
            },
        });
        karmada_apimachinery::from_value(binding).unwrap()
    }

    #[test]
    fn the_template_asks_for_what_the_members_run() {
        assert_eq!(replicas_to_be(&deployment(2, 5), &binding([4, 1])), Some(5));
        assert_eq!(replicas_to_be(&deployment(2, 2), &binding([1, 1])), None);
    }

    #[test]
    fn nothing_is_written_before_everybody_has_told() {
        assert_eq!(replicas_to_be(&deployment(2, 5), &binding([3, 1])), None, "sums differ");
        assert_eq!(replicas_to_be(&deployment(2, 4), &binding([4, 0])), None, "m2 runs none yet");
        assert_eq!(replicas_to_be(&deployment(3, 5), &binding([4, 1])), None, "not bound yet");
        let mut early = binding([4, 1]);
        early.status.scheduler_observed_generation = 2;
        assert_eq!(replicas_to_be(&deployment(2, 5), &early), None, "not scheduled yet");
        let mut silent = binding([4, 1]);
        silent.status.aggregated_status.pop();
        assert_eq!(replicas_to_be(&deployment(2, 4), &silent), None, "m2 has not told");
    }

    /// Row 17 of the quirk register: fixed.
    #[test]
    fn without_a_placement_nothing_is_divided() {
        let mut nowhere = binding([4, 1]);
        nowhere.spec.placement = None;
        assert_eq!(replicas_to_be(&deployment(2, 5), &nowhere), None);
        let mut duplicated = binding([4, 1]);
        duplicated.spec.placement = Some(Default::default());
        assert_eq!(replicas_to_be(&deployment(2, 5), &duplicated), None);
    }
}

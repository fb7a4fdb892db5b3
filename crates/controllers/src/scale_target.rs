//! Marks the workloads that a propagated HorizontalPodAutoscaler scales, so that their replicas are
//! left to the members. Off unless `--controllers` names `hpaScaleTargetMarker`.

use std::fmt;
use std::sync::Arc;

use karmada_api::labels;
use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Client, Discovery, Object};
use karmada_runtime::{Action, Change, Informer, Queue};

use crate::context::Context;

/// Autoscalers by what they scale.
const BY_TARGET: &str = "scale-target";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("find {0}")]
    Find(Target, #[source] karmada_client::Error),
    #[error("mark {0}")]
    Mark(Target, #[source] karmada_client::Error),
}

/// What an autoscaler scales.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Target {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}/{}", self.api_version, self.kind, self.namespace, self.name)
    }
}

impl Target {
    fn of(scaler: &Object) -> Self {
        let value = scaler.value();
        let word = |field: &str| {
            value.str_at(&["spec", "scaleTargetRef", field]).unwrap_or_default().to_owned()
        };
        Self {
            api_version: word("apiVersion"),
            kind: word("kind"),
            namespace: scaler.namespace().to_owned(),
            name: word("name"),
        }
    }
}

struct Ctx {
    client: Client,
    discovery: Discovery,
    scalers: Arc<Informer>,
}

pub(crate) fn start(context: &Context) {
    let gvr = Gvr::new("autoscaling", "v2", "horizontalpodautoscalers");
    let scalers = context.informers.all(&gvr);
    scalers.cache().add_index(BY_TARGET, |scaler| vec![Target::of(scaler).to_string()]);
    let controller = context.controller("hpa-scale-target-marker");
    let queue = controller.queue().clone();
    context.keep(scalers.subscribe(move |change| follow(change, &queue)));
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        discovery: context.discovery.clone(),
        scalers: scalers.clone(),
    });
    context.start(controller, vec![scalers], move |target| reconcile(target, ctx.clone()));
}

fn follow(change: &Change, queue: &Queue<Target>) {
    match change {
        Change::Applied { old, new } => {
            if let Some(old) = old.as_ref().map(|old| Target::of(old)) {
                // A workload that is scaled no longer is its template's again.
                if old != Target::of(new) {
                    queue.add(old);
                }
            }
            if is_claimed(new) {
                queue.add(Target::of(new));
            }
        }
        Change::Deleted(scaler) => queue.add(Target::of(scaler)),
    }
}

/// Whether a policy propagates the autoscaler.
fn is_claimed(scaler: &Object) -> bool {
    let labels = &scaler.meta().labels;
    [labels::PROPAGATION_POLICY_PERMANENT_ID, labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID]
        .iter()
        .any(|key| labels.get(key).is_some_and(|id| !id.is_empty()))
}

async fn reconcile(target: Target, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let scalers = ctx.scalers.cache().by_index(BY_TARGET, &target.to_string());
    let is_scaled = scalers.iter().any(|scaler| is_claimed(scaler));
    if !is_scaled && !scalers.is_empty() {
        // Compat: a policy that lets an autoscaler go leaves the mark it led to.
        return Ok(Action::AwaitChange);
    }
    let version = GroupVersion::parse(&target.api_version).unwrap_or_default();
    let found = ctx.discovery.resource_of(&version.with_kind(target.kind.as_str())).await;
    let found = found.map_err(|source| Error::Find(target.clone(), source))?;
    let Some(resource) = found else { return Ok(Action::AwaitChange) };
    let api = ctx.client.api(&resource.gvr).namespaced(&target.namespace);
    let workload = api.find(&target.name).await;
    let Some(workload) = workload.map_err(|source| Error::Find(target.clone(), source))? else {
        return Ok(Action::AwaitChange);
    };
    let is_marked = workload.label(labels::RETAIN_REPLICAS) == Some(labels::TRUE);
    if is_marked == is_scaled {
        return Ok(Action::AwaitChange);
    }
    let mark = is_scaled.then_some(labels::TRUE);
    let patch = json!({"metadata": {"labels": {labels::RETAIN_REPLICAS: mark}}});
    match api.merge_patch(&target.name, patch).await {
        Err(source) if !source.is_not_found() => Err(Error::Mark(target, source)),
        _ => Ok(Action::AwaitChange),
    }
}

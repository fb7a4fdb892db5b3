//! Gives every Cluster its execution namespace, finalizer and the taints its health asks for, and
//! lets it go once nothing of it is left: no Works, no binding that still names it.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::{Cluster, ClusterSyncMode};
use karmada_api::core::{Taint, TaintEffect};
use karmada_api::meta::Kind as _;
use karmada_api::scopes::Binding;
use karmada_api::wire::Time;
use karmada_api::work::{ClusterResourceBinding, ResourceBinding, Work};
use karmada_api::{conditions, event_reason, finalizers, labels, names, taints};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object};
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Recorder};
use serde::Deserialize;

use super::monitor;
use crate::context::Context;
use crate::failover::taint_eviction;

/// How often a cluster that cannot go yet is looked at, should no change wake it.
const RECHECK: Duration = Duration::from_secs(10);
/// How soon a cluster is looked at again whose execution namespace is not known to be there.
const UNSEEN: Duration = Duration::from_secs(1);
/// Bindings by the clusters they are scheduled to.
pub(crate) const BY_CLUSTER: &str = "cluster-lifecycle/targets";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("create the execution namespace of {cluster}")]
    CreateExecutionSpace { cluster: String, source: karmada_client::Error },
    #[error("remove the execution namespace of {cluster}")]
    RemoveExecutionSpace { cluster: String, source: karmada_client::Error },
    #[error("release the works of {cluster}")]
    ReleaseWorks { cluster: String, source: karmada_client::Error },
    #[error("take {cluster} out of the binding {binding}")]
    LeaveBinding { cluster: String, binding: ObjectKey, source: karmada_client::Error },
    #[error("write the cluster {cluster}")]
    Write { cluster: String, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    clock: Clock,
    events: Recorder,
    clusters: Arc<Informer>,
    namespaces: Arc<Informer>,
    works: Arc<Informer>,
    bindings: [Arc<Informer>; 2],
}

pub(crate) fn start(context: &Context) {
    let clusters = super::informer(&context.informers);
    let namespaces = context.informers.all(&Gvr::new("", "v1", "namespaces"));
    let works = context.informers.all(&Gvr::new(Work::GROUP, Work::VERSION, Work::PLURAL));
    let bindings = [gvr::<ResourceBinding>(), gvr::<ClusterResourceBinding>()]
        .map(|gvr| context.informers.all(&gvr));
    let controller = context.controller("cluster-controller").workers(context.options.workers);
    context.keep(clusters.feed(controller.queue()));
    let queue = controller.queue().clone();
    context.keep(namespaces.subscribe(move |change| {
        let owner = names::cluster_of_execution_space(change.object().name());
        if let (Some(cluster), Change::Deleted(_)) = (owner, change) {
            queue.add(ObjectKey::cluster(cluster));
        }
    }));
    for informer in &bindings {
        informer.cache().add_spec_index(BY_CLUSTER, targets);
        let (queue, known) = (controller.queue().clone(), clusters.clone());
        context.keep(informer.subscribe(move |change| {
            // A binding that moves away may be the last that kept a cluster from going.
            let old = match change {
                Change::Applied { old: Some(old), new } => {
                    let (before, after) = (old.meta(), new.meta());
                    // What it reports says nothing about where it is.
                    if before.generation == after.generation && before.labels == after.labels {
                        return;
                    }
                    old
                }
                Change::Deleted(old) => old,
                Change::Applied { .. } => return,
            };
            for cluster in targets(old).into_iter().map(ObjectKey::cluster) {
                if known.cache().get(&cluster).is_some_and(|known| known.is_being_deleted()) {
                    queue.add(cluster);
                }
            }
        }));
    }
    let mut inputs = vec![clusters.clone(), namespaces.clone(), works.clone()];
    inputs.extend(bindings.iter().cloned());
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        clock: context.clock.clone(),
        events: context.recorder("cluster-controller"),
        clusters,
        namespaces,
        works,
        bindings,
    });
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
    monitor::start(context);
    // Compat: `--controllers=-cluster` turns the evictions off too.
    taint_eviction::start(context);
}

fn gvr<K: karmada_api::meta::Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

/// The clusters a binding is scheduled to.
pub(crate) fn targets(binding: &Object) -> Vec<String> {
    /// As much of a binding as it takes, so that one counts even if the rest of it cannot be read.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Bound {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        clusters: Option<Vec<Target>>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Target {
        name: String,
    }
    let bound: Bound = binding.text().with(|text| serde_json::from_slice(text)).unwrap_or_default();
    bound.spec.clusters.into_iter().flatten().map(|cluster| cluster.name).collect()
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.clusters.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let Ok(cluster) = object.typed::<Cluster>() else { return Ok(Action::AwaitChange) };
    if object.is_being_deleted() {
        return remove(&cluster, &object, &ctx).await;
    }
    let is_seen = ensure_execution_space(&cluster, &object, &ctx).await?;
    mark(&cluster, &object, &ctx).await?;
    Ok(if is_seen { Action::AwaitChange } else { Action::Requeue(UNSEEN) })
}

/// Makes the execution namespace unless there is one. Returns whether it was seen: the end of one that never was
/// would be told by nobody.
async fn ensure_execution_space(
    cluster: &Cluster,
    object: &Object,
    ctx: &Ctx,
) -> Result<bool, Error> {
    let name = cluster.metadata.name.clone();
    let space = names::execution_space(&name);
    if ctx.namespaces.cache().get(&ObjectKey::cluster(space.as_str())).is_some() {
        return Ok(true);
    }
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": space, "labels": {labels::SYSTEM: labels::TRUE}},
    });
    match ctx.client.api(&Gvr::new("", "v1", "namespaces")).create(&namespace).await {
        Ok(_) => {
            let note = format!("Created execution space({space}) for cluster({name}).");
            ctx.events.normal(object, event_reason::CREATE_EXECUTION_SPACE_SUCCEED, note);
            Ok(false)
        }
        // It may be an earlier one on its way out.
        Err(error) if error.is_already_exists() => Ok(false),
        Err(source) => {
            let reason = event_reason::CREATE_EXECUTION_SPACE_FAILED;
            ctx.events.warning(object, reason, source.to_string());
            Err(Error::CreateExecutionSpace { cluster: name, source })
        }
    }
}

/// Writes taints and finalizer, in one go.
async fn mark(cluster: &Cluster, object: &Object, ctx: &Ctx) -> Result<(), Error> {
    let wanted = taints_for(cluster, ctx.clock.now().into());
    let has_finalizer = cluster.metadata.finalizers.iter().any(|f| f == finalizers::CLUSTER);
    if wanted.is_none() && has_finalizer {
        return Ok(());
    }
    let mut changed = object.value();
    if let Some(taints) = &wanted {
        changed
            .set(&["spec", "taints"], karmada_apimachinery::to_value(taints).unwrap_or_default());
    }
    if !has_finalizer {
        let mut all = cluster.metadata.finalizers.clone();
        all.push(finalizers::CLUSTER.to_owned());
        changed.set(&["metadata", "finalizers"], all);
    }
    let written = super::api(&ctx.client).update(&changed).await;
    match (&written, &wanted) {
        (Ok(_), Some(taints)) => {
            let note = format!("Taint cluster succeed: {}.", describe(taints));
            ctx.events.normal(object, event_reason::TAINT_CLUSTER_SUCCEED, note);
        }
        (Err(error), Some(_)) if !error.is_conflict() => {
            ctx.events.warning(object, event_reason::TAINT_CLUSTER_FAILED, error.to_string());
        }
        _ => {}
    }
    match written {
        Ok(_) => Ok(()),
        // The newer version comes here as well.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
        Err(source) => Err(Error::Write { cluster: cluster.metadata.name.clone(), source }),
    }
}

/// The taints the Ready condition asks for, if they are not what the cluster has.
fn taints_for(cluster: &Cluster, now: Time) -> Option<Vec<Taint>> {
    let ready = cluster.condition(conditions::cluster::READY);
    let (add, remove): (Option<&str>, &[&str]) = match ready.map(|ready| ready.status.as_str()) {
        Some("True") => (None, &[taints::NOT_READY, taints::UNREACHABLE]),
        Some("Unknown") => (Some(taints::UNREACHABLE), &[taints::NOT_READY]),
        Some(_) => (Some(taints::NOT_READY), &[taints::UNREACHABLE]),
        None => (Some(taints::NOT_READY), &[]),
    };
    let is = |taint: &Taint, key: &str| taint.key == key && taint.effect == TaintEffect::NoSchedule;
    let current = &cluster.spec.taints;
    let mut wanted = current.clone();
    wanted.retain(|taint| !remove.iter().any(|key| is(taint, key)));
    if let Some(key) = add
        && !wanted.iter().any(|taint| is(taint, key))
    {
        wanted.push(Taint {
            key: key.to_owned(),
            effect: TaintEffect::NoSchedule,
            time_added: Some(now),
            ..Taint::default()
        });
    }
    (wanted != *current).then_some(wanted)
}

/// The taints of a cluster, as its events tell them.
pub(crate) fn describe(taints: &[Taint]) -> String {
    if taints.is_empty() {
        return "cluster now does not have taints".to_owned();
    }
    let one = |taint: &Taint| match taint.value.as_str() {
        "" => format!("{{Key:{},Effect:{}}}", taint.key, taint.effect),
        value => format!("{{Key:{},Value:{value},Effect:{}}}", taint.key, taint.effect),
    };
    let all: Vec<_> = taints.iter().map(one).collect();
    format!("cluster now has taints([{}])", all.join(","))
}

async fn remove(cluster: &Cluster, object: &Object, ctx: &Ctx) -> Result<Action, Error> {
    if !cluster.metadata.finalizers.iter().any(|f| f == finalizers::CLUSTER) {
        return Ok(Action::AwaitChange);
    }
    let name = cluster.metadata.name.clone();
    if cluster.spec.sync_mode == ClusterSyncMode::Pull && !cluster.is_ready() {
        release_works(&name, ctx).await?;
    }
    let space = names::execution_space(&name);
    let namespaces = ctx.client.api(&Gvr::new("", "v1", "namespaces"));
    if let Some(namespace) = ctx.namespaces.cache().get(&ObjectKey::cluster(space.as_str())) {
        if !namespace.is_being_deleted() {
            match namespaces.delete(&space, &DeleteOptions::default()).await {
                Ok(_) => {
                    let note = format!("Removed execution space for cluster({name}).");
                    ctx.events.normal(object, event_reason::REMOVE_EXECUTION_SPACE_SUCCEED, note);
                }
                Err(error) if error.is_not_found() || error.is_conflict() => {}
                Err(source) => {
                    let reason = event_reason::REMOVE_EXECUTION_SPACE_FAILED;
                    ctx.events.warning(object, reason, source.to_string());
                    return Err(Error::RemoveExecutionSpace { cluster: name, source });
                }
            }
        }
        return Ok(Action::Requeue(RECHECK));
    }
    let [namespaced, global] = &ctx.bindings;
    let named = leave_bindings::<ResourceBinding>(&name, namespaced, ctx).await?
        | leave_bindings::<ClusterResourceBinding>(&name, global, ctx).await?;
    if named {
        // The scheduler moves the others off.
        return Ok(Action::Requeue(RECHECK));
    }
    let mut released = object.value();
    drop_finalizer(&mut released, finalizers::CLUSTER);
    match super::api(&ctx.client).update(&released).await {
        Ok(_) => Ok(Action::AwaitChange),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(Action::AwaitChange),
        Err(source) => Err(Error::Write { cluster: name, source }),
    }
}

/// Takes the cluster, which has no Works any more, out of the bindings no scheduler would take it out of:
/// those without a policy and those whose scheduling is suspended. Returns whether a binding named it.
async fn leave_bindings<B: Binding>(
    cluster: &str,
    bindings: &Informer,
    ctx: &Ctx,
) -> Result<bool, Error> {
    let naming = bindings.cache().by_index(BY_CLUSTER, cluster);
    for object in &naming {
        let Ok(binding) = object.typed_for_now::<B>() else { continue };
        if binding.has_owner() && !binding.spec().is_scheduling_suspended() {
            continue;
        }
        let kept: Vec<_> = binding.spec().clusters.iter().filter(|t| t.name != cluster).collect();
        let kept = if kept.is_empty() { Value::Null } else { json!(kept) };
        // The version makes sure that a policy which claimed it meanwhile is not overruled.
        let patch = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "spec": {"clusters": kept},
        });
        let api = ctx.client.api(&gvr::<B>()).namespaced(object.namespace());
        match api.merge_patch(object.name(), patch).await {
            Ok(_) => {}
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(source) => {
                let (cluster, binding) = (cluster.to_owned(), ObjectKey::of(object));
                return Err(Error::LeaveBinding { cluster, binding, source });
            }
        }
    }
    Ok(!naming.is_empty())
}

/// Lets the Works of a cluster go whose agent may be gone: nobody else would.
async fn release_works(cluster: &str, ctx: &Ctx) -> Result<(), Error> {
    let api = ctx.client.api(&gvr::<Work>()).namespaced(&names::execution_space(cluster));
    for work in ctx.works.cache().list_namespace(&names::execution_space(cluster)) {
        let mut work = work.value();
        if !work.has_finalizer(finalizers::EXECUTION) {
            continue;
        }
        drop_finalizer(&mut work, finalizers::EXECUTION);
        match api.update(&work).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(source) => {
                return Err(Error::ReleaseWorks { cluster: cluster.to_owned(), source });
            }
        }
    }
    Ok(())
}

fn drop_finalizer(object: &mut Value, finalizer: &str) {
    let kept = object.list_at(&["metadata", "finalizers"]).iter();
    let kept: Vec<Value> = kept.filter(|known| *known != finalizer).cloned().collect();
    object.set(&["metadata", "finalizers"], kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_follow_the_ready_condition_and_leave_others_alone() {
        const OWN: &str = "example.com/own";
        type Keys = &'static [&'static str];
        // (status, taints before, taints after; nothing if they stay)
        let cases: [(Option<&str>, Keys, Option<Keys>); 8] = [
            (None, &[], Some(&[taints::NOT_READY])),
            (None, &[taints::NOT_READY], None),
            (Some("False"), &[taints::UNREACHABLE, OWN], Some(&[OWN, taints::NOT_READY])),
            (Some("Unknown"), &[taints::NOT_READY], Some(&[taints::UNREACHABLE])),
            (Some("True"), &[taints::NOT_READY, OWN], Some(&[OWN])),
            (Some("True"), &[taints::UNREACHABLE], Some(&[])),
            (Some("True"), &[OWN], None),
            (Some("False"), &[taints::NOT_READY], None),
        ];
        let now = Time("2026-01-01T00:00:00Z".parse().unwrap());
        for (status, before, after) in cases {
            let mut cluster = Cluster::default();
            let taint = |key: &&str| Taint { key: (*key).to_owned(), ..Taint::default() };
            cluster.spec.taints = before.iter().map(taint).collect();
            for taint in &mut cluster.spec.taints {
                taint.effect = TaintEffect::NoSchedule;
            }
            cluster.status.conditions = status
                .map(|status| karmada_api::meta::Condition {
                    r#type: conditions::cluster::READY.to_owned(),
                    status: status.to_owned(),
                    ..Default::default()
                })
                .into_iter()
                .collect();
            let found = taints_for(&cluster, now);
            let keys = found.map(|all| all.into_iter().map(|t| t.key).collect::<Vec<_>>());
            let expected = after.map(|all| all.iter().map(|k| (*k).to_owned()).collect::<Vec<_>>());
            assert_eq!(keys, expected, "{status:?} {before:?}");
        }
    }
}

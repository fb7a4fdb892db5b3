//! Empties a namespace that is being deleted, pods first, tells in its conditions how far that has
//! come, and lets it go when nothing is left.

mod conditions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::time::parse_time;
use karmada_client::{
    ApiResource, Client, DeleteOptions, Discovery, ListOptions, Object, Propagation,
};
use karmada_runtime::{Action, Change, Clock, Controller, Informer, ObjectKey};

use self::conditions::Progress;
use crate::Plane;

const FINALIZER: &str = "kubernetes";

/// How long to wait before looking again at what finalizers hold.
const RECHECK: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("find out which resources there are")]
    Discover(#[source] karmada_client::Error),
    #[error("read the namespace {name}")]
    Read { name: String, source: karmada_client::Error },
    #[error("write the status of the namespace {name}")]
    WriteStatus { name: String, source: karmada_client::Error },
    #[error("finalize the namespace {name}")]
    Finalize { name: String, source: karmada_client::Error },
    #[error("{}", .0.join(", "))]
    DeleteContent(Vec<String>),
}

struct Ctx {
    client: Client,
    discovery: Discovery,
    clock: Clock,
    gvr: Gvr,
    namespaces: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let gvr = Gvr::new("", "v1", "namespaces");
    let namespaces = plane.informers.all(&gvr);
    let controller = Controller::new("namespace-controller", &plane.metrics).workers(10);
    let queue = controller.queue().clone();
    plane.keep(namespaces.subscribe(move |change| {
        if let Change::Applied { new, .. } = change
            && new.is_being_deleted()
        {
            queue.add(ObjectKey::of(new));
        }
    }));
    let ctx = Arc::new(Ctx {
        client: plane.client.clone(),
        discovery: plane.discovery.clone(),
        clock: plane.clock.clone(),
        gvr,
        namespaces: namespaces.clone(),
    });
    plane.start(controller, vec![namespaces], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    if ctx.namespaces.cache().get(&key).is_none_or(|cached| !cached.is_being_deleted()) {
        return Ok(Action::AwaitChange);
    }
    let name = String::from(key.name);
    let api = ctx.client.api(&ctx.gvr);
    let read = |source| Error::Read { name: name.clone(), source };
    let Some(namespace) = api.find(&name).await.map_err(read)? else {
        return Ok(Action::AwaitChange);
    };
    let done = namespace.list_at(&["spec", "finalizers"]).is_empty();
    if !namespace.is_being_deleted() || done {
        return Ok(Action::AwaitChange);
    }
    // A kind that came up a moment ago has objects, too.
    ctx.discovery.refresh().await.map_err(Error::Discover)?;
    let (resources, failed) = ctx.discovery.preferred().await.map_err(Error::Discover)?;
    let progress = empty(&ctx, &namespace, &resources, &failed).await;
    write_conditions(&ctx, &namespace, &progress).await?;
    if !progress.errors.is_empty() || !failed.is_empty() {
        return Err(Error::DeleteContent(progress.all_errors()));
    }
    if progress.is_waiting() {
        return Ok(Action::Requeue(RECHECK));
    }
    finalize(&ctx, &name).await?;
    Ok(Action::AwaitChange)
}

/// Deletes what is in the namespace. Nothing else is touched while there are pods: they may need
/// their Secrets, accounts and network rules until they end.
async fn empty(
    ctx: &Ctx,
    namespace: &Value,
    resources: &[ApiResource],
    failed: &[(GroupVersion, String)],
) -> Progress {
    let mut progress = Progress { failed_discovery: failed.to_vec(), ..Progress::default() };
    let is_pods =
        |resource: &&ApiResource| resource.gvr.group.is_empty() && resource.gvr.resource == "pods";
    let deletable = |resource: &&ApiResource| resource.namespaced && resource.supports("delete");
    if let Some(pods) = resources.iter().filter(deletable).find(is_pods) {
        empty_resource(ctx, namespace, pods, &mut progress).await;
        if progress.is_waiting() {
            progress.only_pods = true;
            return progress;
        }
    }
    let others = resources.iter().filter(deletable).filter(|resource| !is_pods(resource));
    for resource in others {
        empty_resource(ctx, namespace, resource, &mut progress).await;
    }
    progress
}

async fn empty_resource(
    ctx: &Ctx,
    namespace: &Value,
    resource: &ApiResource,
    progress: &mut Progress,
) {
    if let Err(error) = try_empty(ctx, namespace, resource, progress).await {
        progress.errors.push(error);
    }
}

async fn try_empty(
    ctx: &Ctx,
    namespace: &Value,
    resource: &ApiResource,
    progress: &mut Progress,
) -> Result<(), String> {
    let name = namespace.name();
    let before = list(ctx, resource, name).await?;
    if before.is_empty() {
        return Ok(());
    }
    let grace = grace_period(ctx, namespace, resource, name).await?;
    delete_all(ctx, resource, name, &before).await?;
    let left = list(ctx, resource, name).await?;
    if left.is_empty() {
        return Ok(());
    }
    progress.remaining.insert(resource.gvr.group_resource(), left.len());
    let mut held = false;
    for finalizer in left.iter().flat_map(|object| &*object.meta().finalizers) {
        held = true;
        *progress.finalizers.entry(finalizer.clone()).or_default() += 1;
    }
    if held || !grace.is_zero() {
        return Ok(());
    }
    // Nothing holds them, and yet they are there.
    let gvr = format!(
        "{}/{}, Resource={}",
        resource.gvr.group, resource.gvr.version, resource.gvr.resource
    );
    Err(format!("unexpected items still remain in namespace: {name} for gvr: {gvr}"))
}

async fn list(
    ctx: &Ctx,
    resource: &ApiResource,
    namespace: &str,
) -> Result<Vec<Arc<Object>>, String> {
    if !resource.supports("list") {
        return Ok(Vec::new());
    }
    let api = ctx.client.api(&resource.gvr).namespaced(namespace).metadata_only();
    match api.list_all(&ListOptions::default()).await {
        Ok(list) => Ok(list.items),
        Err(error) if error.is_not_found() || error.is_method_not_allowed() => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

async fn delete_all(
    ctx: &Ctx,
    resource: &ApiResource,
    namespace: &str,
    objects: &[Arc<Object>],
) -> Result<(), String> {
    let api = ctx.client.api(&resource.gvr).namespaced(namespace);
    let options =
        DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    if resource.supports("deletecollection") {
        match api.delete_collection(&ListOptions::default(), &options).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() || error.is_method_not_allowed() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    for object in objects {
        match api.delete(object.name(), &options).await {
            Ok(_) => {}
            Err(error) if error.is_not_found() || error.is_method_not_allowed() => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Returns how long the pods of the namespace may still take to end.
async fn grace_period(
    ctx: &Ctx,
    namespace: &Value,
    resource: &ApiResource,
    name: &str,
) -> Result<Duration, String> {
    if resource.kind != "Pod" || !resource.gvr.group.is_empty() {
        return Ok(Duration::ZERO);
    }
    let api = ctx.client.api(&resource.gvr).namespaced(name);
    let pods = api.list_all(&ListOptions::default()).await.map_err(|error| error.to_string())?;
    let deleted = namespace.str_at(&["metadata", "deletionTimestamp"]).and_then(parse_time);
    let gone = deleted.map_or(Duration::ZERO, |deleted| ctx.clock.since(deleted));
    let longest = pods.items.iter().filter_map(|pod| pod_grace(&pod.value())).max();
    let longest = Duration::from_secs(longest.unwrap_or_default());
    // Who takes longer than it may is stuck.
    Ok(if gone < longest { longest } else { Duration::ZERO })
}

fn pod_grace(pod: &Value) -> Option<u64> {
    if matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")) {
        return None;
    }
    let own = pod.i64_at(&["metadata", "deletionGracePeriodSeconds"]);
    let seconds = own.or_else(|| pod.i64_at(&["spec", "terminationGracePeriodSeconds"]))?;
    u64::try_from(seconds).ok()
}

async fn write_conditions(ctx: &Ctx, namespace: &Value, progress: &Progress) -> Result<(), Error> {
    let Some(mut changed) = progress.update(namespace, ctx.clock.now()) else { return Ok(()) };
    changed.set(&["status", "phase"], "Terminating");
    match ctx.client.api(&ctx.gvr).update_subresource(&changed, "status").await {
        Ok(_) => Ok(()),
        // The conditions are for people; the next look writes them again.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
        Err(source) => Err(Error::WriteStatus { name: namespace.name().to_owned(), source }),
    }
}

/// Takes our finalizer off; the server removes the namespace when it was the last one.
async fn finalize(ctx: &Ctx, name: &str) -> Result<(), Error> {
    let failed = |source| Error::Finalize { name: name.to_owned(), source };
    let api = ctx.client.api(&ctx.gvr);
    loop {
        let Some(mut namespace) = api.find(name).await.map_err(failed)? else { return Ok(()) };
        if !namespace.is_being_deleted() {
            return Ok(());
        }
        let finalizers = namespace.list_at(&["spec", "finalizers"]).iter();
        let kept: Vec<Value> =
            finalizers.filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        namespace.set(&["spec", "finalizers"], kept);
        match api.update_subresource(&namespace, "finalize").await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Counts by name, in the order of the names.
type Counts<K> = BTreeMap<K, usize>;

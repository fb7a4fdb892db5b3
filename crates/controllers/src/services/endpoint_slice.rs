//! Shows slices that were collected for ServiceExports in the control plane, as slices of the service that stands for
//! the import. From there they follow the ServiceImport.

use std::sync::Arc;

use karmada_api::work::Work;
use karmada_api::{annotations, finalizers, labels};
use karmada_apimachinery::Value;
use karmada_client::{Api, Client, DeleteOptions, Object};
use karmada_propagation::services::imports::imported_slice;
use karmada_propagation::services::slices::Collector;
use karmada_runtime::{Action, Change, Informer, ObjectKey, Queue};

use super::{AGAIN, Role, drop_finalizer, named_service, role_of, slices, works_of_services};
use crate::context::Context;

const NAME: &str = "endpointslice-controller";
const WORKERS: usize = 5;

/// Index of imported slices by the Work they were made of.
const BY_WORK: &str = "imported-from-work";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the work")]
    Decode(#[from] serde_json::Error),
    #[error("write the imported slice {slice}")]
    Write { slice: ObjectKey, source: karmada_client::Error },
    #[error("delete the imported slice {slice}")]
    Delete { slice: ObjectKey, source: karmada_client::Error },
    #[error("remove the finalizer")]
    Finalizer(#[source] karmada_client::Error),
}

impl Error {
    /// Whether somebody else was faster: another look at the caches is all it takes.
    fn is_lost_race(&self) -> bool {
        match self {
            Self::Write { source, .. } => source.is_conflict() || source.is_already_exists(),
            Self::Finalizer(error) => error.is_conflict(),
            _ => false,
        }
    }
}

struct Ctx {
    client: Client,
    works: Arc<Informer>,
    slices: Arc<Informer>,
}

pub(crate) fn start(context: &Context) {
    let controller = context.controller(NAME).workers(WORKERS);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        works: works_of_services(context),
        slices: context.informers.all(&slices()),
    });
    ctx.slices.cache().add_index(BY_WORK, |slice| {
        work_of(slice).map(|work| work.to_string()).into_iter().collect()
    });
    let queue = controller.queue().clone();
    context.keep(ctx.works.subscribe(move |change| follow(change, &queue)));
    // What somebody did to an imported slice is undone, and what was left behind goes.
    let queue = controller.queue().clone();
    context.keep(ctx.slices.subscribe(move |change| {
        if let Some(work) = work_of(change.object()) {
            queue.add(work);
        }
    }));
    let inputs = vec![ctx.works.clone(), ctx.slices.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

/// The Work an imported slice was made of.
fn work_of(slice: &Object) -> Option<ObjectKey> {
    let meta = slice.meta();
    if meta.labels.get(labels::SLICE_MANAGED_BY) != Some(labels::SLICE_MANAGED_BY_IMPORT) {
        return None;
    }
    let namespace = meta.annotations.get(annotations::WORK_NAMESPACE)?;
    Some(ObjectKey::new(namespace, meta.annotations.get(annotations::WORK_NAME)?))
}

fn follow(change: &Change, queue: &Queue<ObjectKey>) {
    let work = change.object();
    if is_exported(work) || has_finalizer(work) {
        queue.add(ObjectKey::of(work));
    }
}

/// Whether a Work holds a slice that was collected for a ServiceExport.
fn is_exported(work: &Object) -> bool {
    named_service(work, Collector::ServiceExport).is_some()
        && matches!(role_of(work), Some(Role::Collected { .. }))
}

fn has_finalizer(work: &Object) -> bool {
    work.meta().finalizers.iter().any(|name| name == finalizers::ENDPOINT_SLICE)
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let work = ctx.works.cache().get(&key);
    let is_shown = |work: &Object| !work.is_being_deleted() && is_exported(work);
    let result = match work {
        Some(work) if is_shown(&work) => ctx.show(&work).await,
        work => ctx.withdraw(&key, work.as_deref()).await,
    };
    match result {
        Err(error) if error.is_lost_race() => Ok(Action::Requeue(AGAIN)),
        done => done.map(|()| Action::AwaitChange),
    }
}

impl Ctx {
    fn api(&self, namespace: &str) -> Api {
        self.client.api(&slices()).namespaced(namespace)
    }

    async fn show(&self, object: &Object) -> Result<(), Error> {
        let work: Work = object.read()?;
        let Some(new) = imported_slice(&work, None) else { return Ok(()) };
        let key = ObjectKey::of_value(&new);
        let written = match self.slices.cache().get(&key).map(|slice| slice.value()) {
            None => self.api(&key.namespace).create(&new).await,
            Some(existing) => {
                let wanted: Option<Value> = imported_slice(&work, Some(&existing));
                let Some(wanted) = wanted.filter(|wanted| *wanted != existing) else {
                    return Ok(());
                };
                self.api(&key.namespace).update(&wanted).await
            }
        };
        match written {
            // It comes with its namespace, or not at all.
            Err(error) if error.is_namespace_terminating() => Ok(()),
            Err(source) => Err(Error::Write { slice: key, source }),
            Ok(_) => Ok(()),
        }
    }

    /// Takes back what was made of a Work, and lets the Work go.
    async fn withdraw(&self, key: &ObjectKey, work: Option<&Object>) -> Result<(), Error> {
        for slice in self.slices.cache().by_index(BY_WORK, &key.to_string()) {
            let options =
                DeleteOptions { uid: Some(slice.uid().to_owned()), ..DeleteOptions::default() };
            match self.api(slice.namespace()).delete(slice.name(), &options).await {
                Err(source) if !source.is_not_found() && !source.is_conflict() => {
                    return Err(Error::Delete { slice: ObjectKey::of(&slice), source });
                }
                _ => {}
            }
        }
        let Some(work) = work else { return Ok(()) };
        let own = finalizers::ENDPOINT_SLICE;
        drop_finalizer(&self.client, work, own).await.map_err(Error::Finalizer)
    }
}

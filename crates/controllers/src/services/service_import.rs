//! Gives every ServiceImport of type ClusterSetIP a service that stands for it, with the ports of the import. Service and
//! import reach the importing clusters by the policy of the import.

use std::collections::HashSet;
use std::sync::Arc;

use karmada_api::multicluster::ServiceImport;
use karmada_api::{event_reason, names};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions, Object};
use karmada_propagation::services::imports;
use karmada_runtime::{Action, Change, Informer, ObjectKey, Queue, Recorder};
use parking_lot::Mutex;

use super::{AGAIN, gvr};
use crate::context::Context;
use crate::propagation::detector::matters;

const NAME: &str = "service-import-controller";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the import")]
    Decode(#[from] serde_json::Error),
    #[error("write the derived service")]
    Write(#[source] karmada_client::Error),
    #[error("write the addresses of the derived service")]
    Status(#[source] karmada_client::Error),
    #[error("delete the derived service")]
    Delete(#[source] karmada_client::Error),
}

impl Error {
    /// Whether somebody else was faster: another look at the caches is all it takes.
    fn is_lost_race(&self) -> bool {
        match self {
            Self::Write(error) | Self::Status(error) => {
                error.is_conflict() || error.is_already_exists()
            }
            _ => false,
        }
    }

    /// Whether the server refuses what the import asks for, so that only another import helps.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Write(error) | Self::Status(error) if error.is_invalid())
    }
}

struct Ctx {
    client: Client,
    events: Recorder,
    imports: Arc<Informer>,
    services: Arc<Informer>,
    /// Imports that somebody changed. What the server refused is tried again for these alone.
    touched: Mutex<HashSet<ObjectKey>>,
}

pub(crate) fn start(context: &Context) {
    let controller = context.controller(NAME);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        events: context.recorder(NAME),
        imports: context.informers.all(&gvr::<ServiceImport>()),
        services: context.informers.all(&services()),
        touched: Mutex::default(),
    });
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.imports.subscribe(move |change| own.on_import(change, &queue)));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.services.subscribe(move |change| {
        let service = change.object();
        let import = service.name().strip_prefix(&names::derived_service(""));
        let import = import.map(|name| ObjectKey::new(service.namespace(), name));
        if let Some(import) = import.filter(|import| own.imports.cache().get(import).is_some()) {
            queue.add(import);
        }
    }));
    let inputs = vec![ctx.imports.clone(), ctx.services.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

fn services() -> Gvr {
    Gvr::new("", "v1", "services")
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.imports.cache().get(&key) else {
        ctx.touched.lock().remove(&key);
        ctx.withdraw(&key).await?;
        return Ok(Action::AwaitChange);
    };
    let import = object.typed::<ServiceImport>()?;
    if object.is_being_deleted() || !imports::is_derived(&import) {
        return Ok(Action::AwaitChange);
    }
    match ctx.derive(&key, &import).await {
        Ok(changed) => {
            if changed {
                let note = format!("Sync derived service for serviceImport({}) succeed.", key.name);
                ctx.events.normal(&*object, event_reason::SYNC_DERIVED_SERVICE_SUCCEED, note);
            }
            Ok(Action::AwaitChange)
        }
        Err(error) if error.is_lost_race() => Ok(Action::Requeue(AGAIN)),
        Err(error) => {
            ctx.tell_failure(&object, &error);
            if error.is_refusal() { Ok(Action::AwaitChange) } else { Err(error) }
        }
    }
}

impl Ctx {
    fn on_import(&self, change: &Change, queue: &Queue<ObjectKey>) {
        if let Change::Applied { old: Some(old), new } = change
            && !matters(old, new)
        {
            return;
        }
        let key = ObjectKey::of(change.object());
        if self.imports.is_synced() {
            self.touched.lock().insert(key.clone());
        }
        queue.add(key);
    }

    fn api(&self, namespace: &str) -> Api {
        self.client.api(&services()).namespaced(namespace)
    }

    fn derived(&self, import: &ObjectKey) -> Option<Arc<Object>> {
        let name = names::derived_service(&import.name);
        self.services.cache().get(&ObjectKey::new(import.namespace.clone(), name))
    }

    /// Brings the service to where the import wants it. Returns whether that took a write.
    async fn derive(&self, key: &ObjectKey, import: &ServiceImport) -> Result<bool, Error> {
        let touched = self.touched.lock().remove(key);
        let api = self.api(&key.namespace);
        let existing = self.derived(key).map(|service| service.value());
        let wanted = imports::derived_service(import, existing.as_ref());
        let mut changed = wanted.is_some();
        let service: Value = match (wanted, existing) {
            (None, Some(existing)) => existing,
            (None, None) => return Ok(false),
            (Some(new), None) => api.create(&new).await.map_err(Error::Write)?,
            (Some(updated), Some(_)) => api.update(&updated).await.map_err(Error::Write)?,
        };
        if let Some(ingress) = imports::derived_addresses(import, &service)
            && (touched || changed)
        {
            let patch = json!({"status": {"loadBalancer": {"ingress": ingress}}});
            api.merge_patch_status(service.name(), patch).await.map_err(Error::Status)?;
            changed = true;
        }
        Ok(changed)
    }

    async fn withdraw(&self, key: &ObjectKey) -> Result<(), Error> {
        let Some(service) = self.derived(key) else { return Ok(()) };
        let options =
            DeleteOptions { uid: Some(service.uid().to_owned()), ..DeleteOptions::default() };
        match self.api(&key.namespace).delete(service.name(), &options).await {
            Err(error) if !error.is_not_found() && !error.is_conflict() => {
                Err(Error::Delete(error))
            }
            _ => Ok(()),
        }
    }

    fn tell_failure(&self, import: &Object, error: &Error) {
        let reason = event_reason::SYNC_DERIVED_SERVICE_FAILED;
        self.events.warning(import, reason, super::chain(error));
    }
}

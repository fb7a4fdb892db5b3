//! Gives every namespace its `default` service account, again if somebody deletes it.

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::Client;
use karmada_runtime::{Action, Change, Controller, Informer, ObjectKey};

use crate::Plane;

const NAME: &str = "default";

#[derive(Debug, thiserror::Error)]
#[error("create the default service account of {namespace}")]
struct Error {
    namespace: String,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    accounts: Gvr,
    namespaces: Arc<Informer>,
    present: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let accounts = Gvr::new("", "v1", "serviceaccounts");
    let namespaces = plane.informers.all(&Gvr::new("", "v1", "namespaces"));
    let present = plane.informers.all(&accounts);
    let controller = Controller::new("serviceaccount-controller", &plane.metrics).workers(2);
    plane.keep(namespaces.feed(controller.queue()));
    let queue = controller.queue().clone();
    plane.keep(present.subscribe(move |change| {
        if let Change::Deleted(account) = change
            && account.name() == NAME
        {
            queue.add(ObjectKey::cluster(account.namespace()));
        }
    }));
    let inputs = vec![namespaces.clone(), present.clone()];
    let ctx = Arc::new(Ctx { client: plane.client.clone(), accounts, namespaces, present });
    plane.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(namespace: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let active =
        ctx.namespaces.cache().get(&namespace).is_some_and(|object| is_active(&object.value()));
    let key = ObjectKey::new(namespace.name.as_str(), NAME);
    if !active || ctx.present.cache().get(&key).is_some() {
        return Ok(Action::AwaitChange);
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": namespace.name}});
    let api = ctx.client.api(&ctx.accounts).namespaced(&namespace.name);
    match api.create(&account).await {
        Ok(_) => {}
        // Made by somebody else, or nothing can be made there any more.
        Err(error) if error.is_already_exists() => {}
        Err(error) if error.is_namespace_terminating() || error.is_not_found() => {}
        Err(source) => return Err(Error { namespace: namespace.name.into(), source }),
    }
    Ok(Action::AwaitChange)
}

/// Whether objects can still be made in a namespace.
pub(super) fn is_active(namespace: &Value) -> bool {
    !namespace.is_being_deleted() && namespace.str_at(&["status", "phase"]) != Some("Terminating")
}

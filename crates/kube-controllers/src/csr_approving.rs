//! Approves the certificate requests that need no human: a node's for its own client certificate,
//! if the requester may make them.

use std::sync::Arc;

use karmada_client::Client;
use karmada_runtime::{Action, Clock, Controller, Informer, ObjectKey};

use crate::{Keys, Plane, csr};

#[derive(Debug, thiserror::Error)]
#[error("approve {request}")]
struct Error {
    request: ObjectKey,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    keys: Arc<dyn Keys>,
    clock: Clock,
    requests: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let requests = plane.informers.all(&csr::gvr());
    let name = "certificatesigningrequest-approving-controller";
    let controller = Controller::new(name, &plane.metrics);
    plane.keep(requests.feed(controller.queue()));
    let (client, keys, clock) = (plane.client.clone(), plane.keys.clone(), plane.clock.clone());
    let ctx = Arc::new(Ctx { client, keys, clock, requests: requests.clone() });
    plane.start(controller, vec![requests], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(cached) = ctx.requests.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let mut request = cached.value();
    let decided =
        ["Approved", "Denied"].iter().any(|kind| csr::condition(&request, kind).is_some());
    if decided || csr::is_issued(&request) {
        return Ok(Action::AwaitChange);
    }
    let Some(message) = ctx.keys.auto_approval(&request) else { return Ok(Action::AwaitChange) };
    csr::add_condition(&mut request, "Approved", "AutoApproved", &message, ctx.clock.now());
    match ctx.client.api(&csr::gvr()).update_subresource(&request, "approval").await {
        Ok(_) => Ok(Action::AwaitChange),
        // The change that came between wakes us again.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(Action::AwaitChange),
        Err(source) => Err(Error { request: key, source }),
    }
}

//! Has approved certificate requests signed and puts the certificate, or why there is none, into
//! their status.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::object::ObjectMutExt;
use karmada_client::Client;
use karmada_runtime::{Action, Clock, Controller, Informer, ObjectKey};

use crate::{Keys, Plane, Signing, csr};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("sign {request}")]
    Sign { request: ObjectKey, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("write the certificate of {request}")]
    Write { request: ObjectKey, source: karmada_client::Error },
}

struct Ctx {
    client: Client,
    keys: Arc<dyn Keys>,
    clock: Clock,
    requests: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let requests = plane.informers.all(&csr::gvr());
    let name = "certificatesigningrequest-signing-controller";
    let controller = Controller::new(name, &plane.metrics).workers(2);
    plane.keep(requests.feed(controller.queue()));
    let (client, keys, clock) = (plane.client.clone(), plane.keys.clone(), plane.clock.clone());
    let ctx = Arc::new(Ctx { client, keys, clock, requests: requests.clone() });
    plane.start(controller, vec![requests], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(cached) = ctx.requests.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let mut request = cached.value();
    let signed = ctx.keys.sign(&request);
    match signed.map_err(|source| Error::Sign { request: key.clone(), source })? {
        Signing::NotDue => return Ok(Action::AwaitChange),
        Signing::Issued(pem) => {
            request.set(&["status", "certificate"], STANDARD.encode(pem));
        }
        Signing::Refused { reason, message } => {
            csr::add_condition(&mut request, "Failed", &reason, &message, ctx.clock.now());
        }
    }
    match ctx.client.api(&csr::gvr()).update_subresource(&request, "status").await {
        Ok(_) => Ok(Action::AwaitChange),
        // The change that came between wakes us again.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(Action::AwaitChange),
        Err(source) => Err(Error::Write { request: key, source }),
    }
}

//! Deletes bootstrap tokens when they end.

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_client::{Client, DeleteOptions};
use karmada_runtime::{Action, Clock, Controller, Informer, ObjectKey};

use crate::{Plane, bootstrap_token};

#[derive(Debug, thiserror::Error)]
#[error("delete the expired bootstrap token {secret}")]
struct Error {
    secret: ObjectKey,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    clock: Clock,
    tokens: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let tokens = plane.informers.get(bootstrap_token::secrets());
    let controller = Controller::new("token-cleaner-controller", &plane.metrics);
    plane.keep(tokens.feed(controller.queue()));
    let (client, clock) = (plane.client.clone(), plane.clock.clone());
    let ctx = Arc::new(Ctx { client, clock, tokens: tokens.clone() });
    plane.start(controller, vec![tokens], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(secret) = ctx.tokens.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let Some(end) = bootstrap_token::expiration(&secret.value()) else {
        return Ok(Action::AwaitChange);
    };
    let left = ctx.clock.until(end);
    if !left.is_zero() {
        return Ok(Action::Requeue(left));
    }
    let options = DeleteOptions { uid: Some(secret.uid().to_owned()), ..DeleteOptions::default() };
    let api = ctx.client.api(&Gvr::new("", "v1", "secrets")).namespaced(&key.namespace);
    match api.delete(&key.name, &options).await {
        Ok(_) => Ok(Action::AwaitChange),
        // Gone, or another one under the same name, which comes here by itself.
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(Action::AwaitChange),
        Err(source) => Err(Error { secret: key, source }),
    }
}

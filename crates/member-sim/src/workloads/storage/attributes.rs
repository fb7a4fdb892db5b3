//! Lets a VolumeAttributesClass go once no claim and no volume uses it.

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_client::Client;
use karmada_runtime::{Action, Controller, Informer, Manager, ObjectKey};

use super::claims::protection;
use super::{claims_gvr, volumes_gvr};
use crate::workloads::status::{Error, settle};

const PROTECTION: &str = "kubernetes.io/vac-protection";

struct Ctx {
    client: Client,
    classes: Arc<Informer>,
    users: [Arc<Informer>; 2],
}

fn classes() -> Gvr {
    Gvr::new("storage.k8s.io", "v1", "volumeattributesclasses")
}

pub(crate) fn start(manager: &Manager) {
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        classes: manager.informers.all(&classes()),
        users: [claims_gvr(), volumes_gvr()].map(|gvr| manager.informers.all(&gvr)),
    });
    let controller = Controller::new("vac_protection", &manager.metrics);
    manager.keep(ctx.classes.feed(controller.queue()));
    for users in &ctx.users {
        let (queue, classes) = (controller.queue().clone(), ctx.classes.clone());
        manager.keep(users.subscribe(move |_| {
            // Classes are few, and those that wait to go fewer.
            let waiting = classes.cache().list().into_iter().filter(|c| c.is_being_deleted());
            waiting.for_each(|class| queue.add(ObjectKey::of(&class)));
        }));
    }
    let mut inputs = vec![ctx.classes.clone()];
    inputs.extend(ctx.users.iter().cloned());
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(class) = ctx.classes.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let places = [
        &["spec", "volumeAttributesClassName"][..],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let used = ctx.users.iter().flat_map(|users| users.cache().list()).any(|user| {
        let user = user.value();
        places.iter().any(|place| user.str_at(place) == Some(key.name.as_str()))
    });
    let mut value = class.value();
    if let Some(finalizers) = protection(&value, PROTECTION, used) {
        value.set(&["metadata", "finalizers"], finalizers);
        let written = settle(ctx.client.api(&classes()).update(&value).await);
        written.map_err(|source| Error::new("VolumeAttributesClass", &key, source))?;
    }
    Ok(Action::AwaitChange)
}

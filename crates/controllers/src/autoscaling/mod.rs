//! Scaling over all clusters: at set times (`cron`) and by metrics (`hpa`).

pub(crate) mod cron;
pub(crate) mod hpa;
mod metrics;
mod target;

use std::sync::Arc;
use std::time::Duration;

use karmada_api::Kind;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_runtime::{Change, Informer, ObjectKey, Queue, Subscription};
use serde::Serialize;

fn gvr<K: Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

/// Asks for a look, after a while, whenever something else is wanted of a scaler, or it is another one, or gone.
fn ask_on_change(
    scalers: &Arc<Informer>,
    queue: &Queue<ObjectKey>,
    after: Duration,
) -> Subscription {
    let queue = queue.clone();
    scalers.subscribe(move |change| match change {
        Change::Applied { old: Some(old), new }
            if old.meta().generation == new.meta().generation && old.uid() == new.uid() => {}
        change => queue.add_after(ObjectKey::of(change.object()), after),
    })
}

/// Writes what differs, unless the object changed since it was read.
async fn write_status<K: Kind>(
    client: &Client,
    object: &Object,
    status: &impl Serialize,
) -> karmada_client::Result<()> {
    // Compared as stored: a status that is not there yet lacks even what is zero in the new one.
    let stored = object.value().map_at(&["status"]).cloned().unwrap_or_default();
    let status = karmada_apimachinery::to_value(status).unwrap_or_default();
    let Some(status) = status.as_object() else { return Ok(()) };
    let diff = Value::Object(merge::diff(&stored, status));
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version()},
        "status": diff,
    });
    let api = client.api(&gvr::<K>()).namespaced(object.namespace());
    match api.merge_patch_status(object.name(), patch).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

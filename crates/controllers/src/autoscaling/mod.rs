//! Scaling over all clusters: at set times (`cron`).

pub(crate) mod cron;
mod metrics;
mod target;

use karmada_api::Kind;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use serde::Serialize;

fn gvr<K: Kind>() -> Gvr {
    Gvr::new(K::GROUP, K::VERSION, K::PLURAL)
}

/// Writes what differs, unless the object changed since it was read.
async fn write_status<K: Kind>(
    client: &Client,
    object: &Object,
    from: &impl Serialize,
    to: &impl Serialize,
) -> karmada_client::Result<()> {
    let from = karmada_apimachinery::to_value(from).unwrap_or_default();
    let to = karmada_apimachinery::to_value(to).unwrap_or_default();
    let diff = match (from.as_object(), to.as_object()) {
        (Some(from), Some(to)) => Value::Object(merge::diff(from, to)),
        _ => return Ok(()),
    };
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

//! FederatedResourceQuota: the part of each cluster goes there as a ResourceQuota, what the clusters
//! use comes back, and, where it is enforced, what bindings claim is counted.

pub(crate) mod enforcement;
pub(crate) mod status;
pub(crate) mod sync;

use std::sync::Arc;

use karmada_api::policy::{FederatedResourceQuota, FederatedResourceQuotaStatus};
use karmada_api::{Kind, labels};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::patch::merge;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object, Patch, PatchOptions};
use karmada_runtime::{Informer, Manager, ObjectKey};

use crate::propagation::works;

/// Index of Works by the quota they were made for.
const BY_QUOTA: &str = "federated-quota";

fn gvr() -> Gvr {
    type Quota = FederatedResourceQuota;
    Gvr::new(Quota::GROUP, Quota::VERSION, Quota::PLURAL)
}

fn informer(manager: &Manager) -> Arc<Informer> {
    manager.informers.all(&gvr())
}

/// The informer of Works, indexed by quota too.
fn works_by_quota(manager: &Manager) -> Arc<Informer> {
    let works = works::informer(manager);
    works.cache().add_index(BY_QUOTA, |work| {
        quota_of(work).map(|key| key.to_string()).into_iter().collect()
    });
    works
}

/// The quota a Work was made for.
fn quota_of(work: &Object) -> Option<ObjectKey> {
    let labels = &work.meta().labels;
    let namespace = labels.get(labels::FEDERATED_RESOURCE_QUOTA_NAMESPACE)?;
    let name = labels.get(labels::FEDERATED_RESOURCE_QUOTA_NAME)?;
    Some(ObjectKey::new(namespace, name))
}

/// Writes what differs, unless the quota changed since it was read.
async fn write_status(
    client: &Client,
    object: &Object,
    from: &FederatedResourceQuotaStatus,
    to: &FederatedResourceQuotaStatus,
) -> karmada_client::Result<()> {
    let tree = |status: &FederatedResourceQuotaStatus| karmada_apimachinery::to_value(status).ok();
    let (from, to) = (tree(from).unwrap_or_default(), tree(to).unwrap_or_default());
    let diff = match (from.as_object(), to.as_object()) {
        (Some(from), Some(to)) => Value::Object(merge::diff(from, to)),
        _ => json!({}),
    };
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": object.resource_version()},
        "status": diff,
    }));
    let api = client.api(&gvr()).namespaced(object.namespace());
    let options = PatchOptions::default();
    match api.patch_subresource(object.name(), "status", &patch, &options).await {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

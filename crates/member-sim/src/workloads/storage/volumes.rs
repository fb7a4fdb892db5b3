//! Follows what becomes of volumes: free, bound, or left behind by a claim that is gone, and then
//! kept or deleted as their policy says.

use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_client::{DeleteOptions, Result as ClientResult};
use karmada_runtime::{Action, Controller, Manager, ObjectKey};

use super::claims::protection;
use super::{PROVISIONED_BY, PROVISIONER, Storage, VOLUME_PROTECTION, volumes_gvr};
use crate::workloads::status::{Error, settle};

pub(crate) fn start(manager: &Manager) {
    let storage = Arc::new(Storage::new(manager));
    let controller = Controller::new("volumes", &manager.metrics);
    manager.keep(storage.volumes.feed(controller.queue()));
    let queue = controller.queue().clone();
    manager.keep(storage.claims.subscribe(move |change| {
        let claim = change.object().value();
        if let Some(volume) = claim.str_at(&["spec", "volumeName"]) {
            queue.add(ObjectKey::cluster(volume));
        }
    }));
    let inputs = storage.inputs();
    manager.start(controller, inputs, move |key| reconcile(key, storage.clone()));
}

async fn reconcile(key: ObjectKey, storage: Arc<Storage>) -> Result<Action, Error> {
    let Some(volume) = storage.volumes.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let value = volume.value();
    let claim = owner_of(&value).and_then(|(key, _)| storage.claims.cache().get(&key));
    let claim = claim.map(|claim| claim.value());
    let synced = sync(&storage, value, claim.as_ref()).await;
    synced.map_err(|source| Error::new("PersistentVolume", &key, source))?;
    Ok(Action::AwaitChange)
}

async fn sync(storage: &Storage, mut volume: Value, claim: Option<&Value>) -> ClientResult<()> {
    let api = storage.client.api(&volumes_gvr());
    let phase = phase_of(&volume, claim);
    if let Some(finalizers) = protection(&volume, VOLUME_PROTECTION, phase == "Bound") {
        volume.set(&["metadata", "finalizers"], finalizers);
        return settle(api.update(&volume).await).map(drop);
    }
    if volume.str_at(&["status", "phase"]) != Some(phase) {
        volume.set(&["status", "phase"], phase);
        match settle(api.update_subresource(&volume, "status").await)? {
            Some(updated) => volume = updated,
            None => return Ok(()),
        }
    }
    let ours = volume.annotation(PROVISIONED_BY) == Some(PROVISIONER);
    let policy = volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]);
    if phase == "Released" && policy == Some("Delete") && ours && !volume.is_being_deleted() {
        settle(api.delete(volume.name(), &DeleteOptions::default()).await)?;
    }
    Ok(())
}

fn owner_of(volume: &Value) -> Option<(ObjectKey, String)> {
    let owner = volume.at(&["spec", "claimRef"]).filter(|owner| !owner.is_null())?;
    let text = |field: &str| owner.str_at(&[field]).unwrap_or_default();
    Some((ObjectKey::new(text("namespace"), text("name")), text("uid").to_owned()))
}

fn phase_of(volume: &Value, claim: Option<&Value>) -> &'static str {
    let Some((_, uid)) = owner_of(volume) else { return "Available" };
    // Set aside for a claim that may come.
    if uid.is_empty() {
        return "Available";
    }
    match claim {
        Some(claim) if claim.uid() == uid => {
            let named = claim.str_at(&["spec", "volumeName"]) == Some(volume.name());
            let before = volume.str_at(&["status", "phase"]);
            if named || before == Some("Bound") { "Bound" } else { "Available" }
        }
        _ => "Released",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_volume_is_released_when_its_claim_is_gone() {
        let volume = |owner: Value| json!({"metadata": {"name": "v"}, "spec": {"claimRef": owner}});
        let claim = json!({"metadata": {"uid": "u"}, "spec": {"volumeName": "v"}});
        let owned = volume(json!({"namespace": "x", "name": "c", "uid": "u"}));
        assert_eq!(phase_of(&volume(Value::Null), None), "Available");
        assert_eq!(phase_of(&volume(json!({"namespace": "x", "name": "c"})), None), "Available");
        assert_eq!(phase_of(&owned, Some(&claim)), "Bound");
        assert_eq!(phase_of(&owned, None), "Released");
        let other = json!({"metadata": {"uid": "other"}});
        assert_eq!(phase_of(&owned, Some(&other)), "Released");
    }
}

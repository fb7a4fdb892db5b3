//! Binds claims to volumes, has volumes made for them, and lets a claim go once no pod uses it.

use std::sync::Arc;

use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::{Object, Result as ClientResult};
use karmada_runtime::{Action, Change, Controller, Manager, ObjectKey, Recorder};

use super::matching::{claim_reference, class_of, is_for, pick, provision};
use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, CLAIM_PROTECTION, PROVISIONER, Storage, claims_gvr,
    claims_of_pod, default_class, ensure_default_class, volumes_gvr,
};
use crate::workloads::pods::Pod;
use crate::workloads::status::{Error, settle};

struct Ctx {
    storage: Storage,
    recorder: Recorder,
}

pub(crate) fn start(manager: &Manager) {
    let recorder = manager.recorder("persistentvolume-controller");
    let ctx = Arc::new(Ctx { storage: Storage::new(manager), recorder });
    manager.shutdown.spawn_until(ensure_default_class(manager.client.clone()));
    let controller = Controller::new("claims", &manager.metrics);
    manager.keep(ctx.storage.claims.feed(controller.queue()));
    let (queue, claims) = (controller.queue().clone(), ctx.storage.claims.clone());
    let wake_unbound = move || {
        for claim in claims.cache().list() {
            if !claim.meta().annotations.contains_key(BIND_COMPLETED) {
                queue.add(ObjectKey::of(&claim));
            }
        }
    };
    // A new volume or class may be what a claim waits for.
    let wake = wake_unbound.clone();
    manager.keep(ctx.storage.classes.subscribe(move |_| wake()));
    let queue = controller.queue().clone();
    manager.keep(ctx.storage.volumes.subscribe(move |change| {
        let owner = change.object().value();
        if let Some(owner) = owner.at(&["spec", "claimRef"]) {
            let text = |field: &str| owner.str_at(&[field]).unwrap_or_default().to_owned();
            queue.add(ObjectKey::new(text("namespace"), text("name")));
        }
        if !matches!(change, Change::Deleted(_)) {
            wake_unbound();
        }
    }));
    let queue = controller.queue().clone();
    manager.keep(ctx.storage.pods.subscribe(move |change| {
        for claim in claims_of_pod(change.object()) {
            let (namespace, name) = claim.split_once('/').unwrap_or_default();
            queue.add(ObjectKey::new(namespace, name));
        }
    }));
    let inputs = ctx.storage.inputs();
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(claim) = ctx.storage.claims.cache().get(&key) else {
        return Ok(Action::AwaitChange);
    };
    ctx.sync(&claim, &key)
        .await
        .map_err(|source| Error::new("PersistentVolumeClaim", &key, source))?;
    Ok(Action::AwaitChange)
}

impl Ctx {
    async fn sync(&self, claim: &Object, key: &ObjectKey) -> ClientResult<()> {
        let api = self.storage.client.api(&claims_gvr()).namespaced(&key.namespace);
        let mut value = claim.value();
        let used = self.storage.users_of(key).iter().any(|pod| !Pod::of(pod).is_finished());
        if let Some(finalizers) = protection(&value, CLAIM_PROTECTION, used) {
            value.set(&["metadata", "finalizers"], finalizers);
            return settle(api.update(&value).await).map(drop);
        }
        if claim.is_being_deleted() {
            return Ok(());
        }
        if value.str_at(&["spec", "volumeName"]).unwrap_or_default().is_empty() {
            return self.find_volume(claim, value, !self.storage.users_of(key).is_empty()).await;
        }
        let name = value.str_at(&["spec", "volumeName"]).unwrap_or_default().to_owned();
        match self.storage.volumes.cache().get(&ObjectKey::cluster(name)) {
            Some(volume) => self.bind(claim, value, &volume.value()).await,
            None if value.annotation(BIND_COMPLETED).is_some() => self.lose(claim, value).await,
            None => self.set_phase(value, "Pending").await,
        }
    }

    /// Finds a volume for a claim that has none, or has one made.
    async fn find_volume(&self, claim: &Object, mut value: Value, used: bool) -> ClientResult<()> {
        let unclassed = value.at(&["spec", "storageClassName"]).is_none_or(Value::is_null)
            && class_of(&value).is_empty();
        if unclassed && let Some(class) = default_class(&self.storage.classes.cache().list()) {
            value.set(&["spec", "storageClassName"], class);
            let api = self.storage.client.api(&claims_gvr()).namespaced(claim.namespace());
            return settle(api.update(&value).await).map(drop);
        }
        let class = self.storage.classes.cache().get(&ObjectKey::cluster(class_of(&value)));
        let class = class.map(|class| class.value());
        let waits = class.as_ref().and_then(|class| class.str_at(&["volumeBindingMode"]))
            == Some("WaitForFirstConsumer");
        let volumes: Vec<_> =
            self.storage.volumes.cache().list().iter().map(|volume| volume.value()).collect();
        if waits && !used && !volumes.iter().any(|volume| is_for(volume, &value)) {
            let message = "waiting for first consumer to be created before binding";
            self.recorder.normal(claim, "WaitForFirstConsumer", message);
            return self.set_phase(value, "Pending").await;
        }
        if let Some(volume) = pick(&value, &volumes) {
            return self.bind(claim, value, volume).await;
        }
        let provisioner = class.as_ref().and_then(|class| class.str_at(&["provisioner"]));
        match (class.as_ref(), provisioner) {
            (Some(class), Some(PROVISIONER)) => self.make_volume(claim, value, class).await,
            (Some(_), Some(provisioner)) if provisioner != "kubernetes.io/no-provisioner" => {
                let message = format!(
                    "Waiting for a volume to be created either by the external provisioner \
                     '{provisioner}' or manually by the system administrator. If volume creation \
                     is delayed, please verify that the provisioner is running and correctly \
                     registered."
                );
                self.recorder.normal(claim, "ExternalProvisioning", message);
                self.set_phase(value, "Pending").await
            }
            _ => {
                let (reason, message) = match class_of(&value) {
                    "" => (
                        "FailedBinding",
                        "no persistent volumes available for this claim and no storage class is \
                         set"
                        .to_owned(),
                    ),
                    class
                        if self
                            .storage
                            .classes
                            .cache()
                            .get(&ObjectKey::cluster(class))
                            .is_none() =>
                    {
                        let missing = format!("storageclass.storage.k8s.io \"{class}\" not found");
                        ("ProvisioningFailed", missing)
                    }
                    _ => ("FailedBinding", "no persistent volumes available".to_owned()),
                };
                if reason == "ProvisioningFailed" {
                    self.recorder.warning(claim, reason, message);
                } else {
                    self.recorder.normal(claim, reason, message);
                }
                self.set_phase(value, "Pending").await
            }
        }
    }

    async fn make_volume(&self, claim: &Object, value: Value, class: &Value) -> ClientResult<()> {
        let volume = provision(&value, class);
        let api = self.storage.client.api(&volumes_gvr());
        match api.create(&volume).await {
            Ok(volume) => {
                let message = format!("Successfully provisioned volume {}", volume.name());
                self.recorder.normal(claim, "ProvisioningSucceeded", message);
                self.bind(claim, value, &volume).await
            }
            Err(error) if error.is_already_exists() => {
                let volume = api.get(volume.name()).await?;
                self.bind(claim, value, &volume).await
            }
            Err(error) => Err(error),
        }
    }

    /// Makes both sides name each other: the volume first, so that no two claims get it.
    async fn bind(&self, claim: &Object, mut value: Value, volume: &Value) -> ClientResult<()> {
        let taken = volume.at(&["spec", "claimRef"]).is_some_and(|owner| !owner.is_null());
        if taken && !is_for(volume, &value) {
            return self.set_phase(value, "Pending").await;
        }
        let linked = volume.str_at(&["spec", "claimRef", "uid"]) == Some(claim.uid());
        if !linked {
            let mut volume = volume.clone();
            volume.set(&["spec", "claimRef"], claim_reference(&value));
            volume.set(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes");
            if settle(self.storage.client.api(&volumes_gvr()).update(&volume).await)?.is_none() {
                return Ok(());
            }
        }
        let api = self.storage.client.api(&claims_gvr()).namespaced(claim.namespace());
        let named = value.str_at(&["spec", "volumeName"]) == Some(volume.name());
        if !named || value.annotation(BIND_COMPLETED).is_none() {
            if !named {
                value.set(&["spec", "volumeName"], volume.name());
                value.set(&["metadata", "annotations", BOUND_BY_CONTROLLER], "yes");
            }
            value.set(&["metadata", "annotations", BIND_COMPLETED], "yes");
            match settle(api.update(&value).await)? {
                Some(updated) => value = updated,
                None => return Ok(()),
            }
        }
        let bound = json!({"phase": "Bound",
            "accessModes": volume.at(&["spec", "accessModes"]),
            "capacity": volume.at(&["spec", "capacity"])});
        self.merge_status(value, bound).await
    }

    async fn lose(&self, claim: &Object, value: Value) -> ClientResult<()> {
        if value.str_at(&["status", "phase"]) != Some("Lost") {
            let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            self.recorder.warning(claim, "ClaimLost", message);
        }
        self.set_phase(value, "Lost").await
    }

    async fn set_phase(&self, value: Value, phase: &str) -> ClientResult<()> {
        self.merge_status(value, json!({"phase": phase})).await
    }

    async fn merge_status(&self, mut value: Value, fields: Value) -> ClientResult<()> {
        let before = value.get("status").cloned();
        for (field, content) in fields.as_object().into_iter().flatten() {
            value.set(&["status", field], content.clone());
        }
        if before.as_ref() == value.get("status") {
            return Ok(());
        }
        let api = self.storage.client.api(&claims_gvr()).namespaced(value.namespace());
        settle(api.update_subresource(&value, "status").await).map(drop)
    }
}

/// The finalizers an object should have, if they differ: protected while it lives or is used.
pub(super) fn protection(object: &Value, finalizer: &str, used: bool) -> Option<Vec<Value>> {
    let protected = object.has_finalizer(finalizer);
    let wanted = !object.is_being_deleted() || used;
    if protected == wanted || (!protected && object.is_being_deleted()) {
        return None;
    }
    let mut finalizers = object.list_at(&["metadata", "finalizers"]).to_vec();
    finalizers.retain(|other| other.as_str() != Some(finalizer));
    if wanted {
        finalizers.push(finalizer.into());
    }
    Some(finalizers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protection_lasts_as_long_as_the_use() {
        let object = |finalizers: Value, deleted: bool| {
            let mut object = json!({"metadata": {"finalizers": finalizers}});
            if deleted {
                object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            object
        };
        let cases = [
            (json!([]), false, false, Some(vec![json!("p")])),
            (json!(["p"]), false, false, None),
            (json!(["a", "p"]), true, true, None),
            (json!(["a", "p"]), true, false, Some(vec![json!("a")])),
            (json!(["a"]), true, true, None),
        ];
        for (finalizers, deleted, used, expected) in cases {
            let object = object(finalizers, deleted);
            assert_eq!(protection(&object, "p", used), expected, "{object} {used}");
        }
    }
}

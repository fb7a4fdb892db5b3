//! Storage without disks: claims are bound to volumes that match, volumes are made for claims of
//! classes that make them, and both are kept as long as somebody uses them.

pub(crate) mod attributes;
pub(crate) mod claims;
mod matching;
pub(crate) mod volumes;

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_client::{Client, Object};
use karmada_runtime::{Informer, Manager, ObjectKey};

use super::pods::claims_of;

/// Who makes the volumes of the default class.
pub(super) const PROVISIONER: &str = "simulated.karmada.io/volumes";
const DEFAULT_CLASS: &str = "standard";
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(super) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
pub(super) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Pods by the claims they mount.
const PODS_BY_CLAIM: &str = "claims";

pub(super) fn claims_gvr() -> Gvr {
    Gvr::new("", "v1", "persistentvolumeclaims")
}

pub(super) fn volumes_gvr() -> Gvr {
    Gvr::new("", "v1", "persistentvolumes")
}

pub(super) fn classes_gvr() -> Gvr {
    Gvr::new("storage.k8s.io", "v1", "storageclasses")
}

/// What both controllers read.
pub(super) struct Storage {
    pub(super) client: Client,
    pub(super) claims: Arc<Informer>,
    pub(super) volumes: Arc<Informer>,
    pub(super) classes: Arc<Informer>,
    pub(super) pods: Arc<Informer>,
}

impl Storage {
    fn new(manager: &Manager) -> Self {
        let pods = manager.informers.all(&Gvr::new("", "v1", "pods"));
        pods.cache().add_index(PODS_BY_CLAIM, claims_of_pod);
        Self {
            client: manager.client.clone(),
            claims: manager.informers.all(&claims_gvr()),
            volumes: manager.informers.all(&volumes_gvr()),
            classes: manager.informers.all(&classes_gvr()),
            pods,
        }
    }

    fn inputs(&self) -> Vec<Arc<Informer>> {
        vec![self.claims.clone(), self.volumes.clone(), self.classes.clone(), self.pods.clone()]
    }

    pub(super) fn users_of(&self, claim: &ObjectKey) -> Vec<Arc<Object>> {
        self.pods.cache().by_index(PODS_BY_CLAIM, &claim.to_string())
    }
}

/// The claims a pod mounts, as they are indexed by.
pub(super) fn claims_of_pod(pod: &Object) -> Vec<String> {
    let claims = claims_of(pod).into_iter();
    claims.map(|claim| ObjectKey::new(pod.namespace(), claim).to_string()).collect()
}

/// Makes the class that claims without one get, unless somebody made it before.
pub(super) async fn ensure_default_class(client: Client) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": DEFAULT_CLASS, "annotations": {IS_DEFAULT: "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true,
    });
    let api = client.api(&classes_gvr());
    match api.find(DEFAULT_CLASS).await {
        Ok(Some(_)) => {}
        Ok(None) => {
            if let Err(error) = api.create(&class).await {
                tracing::warn!(%error, "the default storage class was not made");
            }
        }
        Err(error) => tracing::warn!(%error, "the default storage class could not be read"),
    }
}

/// The class that is the default; of several the youngest.
pub(super) fn default_class(classes: &[Arc<Object>]) -> Option<String> {
    let is_default = |class: &&Arc<Object>| {
        class.meta().annotations.get(IS_DEFAULT).is_some_and(|value| value == "true")
    };
    let mut defaults: Vec<_> = classes.iter().filter(is_default).collect();
    defaults.sort_by(|a, b| b.meta().creation_timestamp.cmp(&a.meta().creation_timestamp));
    defaults.first().map(|class| class.name().to_owned())
}

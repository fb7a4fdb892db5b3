//! Argo: workflows.

use karmada_api::config::DependentObjectReference;
use karmada_api::work::ReplicaRequirements;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use super::blocks::keep_field;
use crate::Gates;
use crate::error::Result;
use crate::fields::{list, map, replicas, text, walk};
use crate::pod::{self, References};
use crate::rules::Replicas;

/// Pods are described step by step, so only where they may run is known as a whole.
pub(super) fn workflow_replicas(object: &Value, _: Gates) -> Result<Replicas> {
    let requirements = match walk(object, &["spec"])? {
        Some(spec) => pod::node_claim(spec).map_err(|e| e.under("spec"))?,
        None => None,
    };
    let requirements = requirements
        .map(|claim| ReplicaRequirements { node_claim: Some(claim), ..Default::default() });
    Ok(Replicas { replicas: replicas(object, &["spec", "parallelism"], 1)?, requirements })
}

pub(super) fn workflow_health(object: &Value) -> Result<bool> {
    map(object, &["status"])?;
    Ok(!matches!(text(object, &["status", "phase"])?, "" | "Error" | "Failed"))
}

/// The member's controller keeps its progress in the status.
pub(super) fn retain_workflow(desired: &mut Value, observed: &Value) -> Result<()> {
    keep_field(desired, observed, &["spec", "suspend"])?;
    keep_field(desired, observed, &["status"])
}

pub(super) fn workflow_dependencies(object: &Value) -> Result<Vec<DependentObjectReference>> {
    let mut references = References::default();
    references.add("ServiceAccount", object, &["spec", "executor", "serviceAccountName"])?;
    references.add_service_account(object, &["spec", "serviceAccountName"])?;
    for claim in list(object, &["spec", "volumeClaimTemplates"])? {
        references.add("PersistentVolumeClaim", claim, &["metadata", "name"])?;
    }
    for secret in list(object, &["spec", "imagePullSecrets"])? {
        references.add("Secret", secret, &["name"])?;
    }
    for (index, volume) in list(object, &["spec", "volumes"])?.iter().enumerate() {
        references
            .add_volume(volume)
            .and_then(|()| references.add("Secret", volume, &["secret", "name"]))
            .map_err(|e| e.under(&format!("spec.volumes[{index}]")))?;
    }
    Ok(references.into_list(object.namespace()))
}

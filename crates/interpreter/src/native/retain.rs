//! Which fields of the object in a member outlive the desired state.

use karmada_api::labels;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};

use crate::error::{Error, Result};
use crate::fields::{int, list, make_map, map, set, string_map, text, walk};

/// An autoscaler in the member owns the number of replicas if a label says so.
pub(super) fn deployment(desired: &mut Value, observed: &Value) -> Result<()> {
    if desired.label(labels::RETAIN_REPLICAS) != Some("true") {
        return Ok(());
    }
    let path = &["spec", "replicas"];
    let replicas = int(observed, path)?.ok_or_else(|| Error::missing(path))?;
    set(desired, path, replicas)
}

/// The member's scheduler and admission have filled in places that cannot change any more.
pub(super) fn pod(desired: &mut Value, observed: &Value) -> Result<()> {
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        copy_or_clear(desired, observed, &["spec", field])?;
    }
    for class in ["containers", "initContainers"] {
        for container in list(observed, &["spec", class])? {
            let name = text(container, &["name"])?;
            let wanted = desired.list_at_mut(&["spec", class]);
            if let Some(wanted) = wanted.iter_mut().find(|c| c.str_at(&["name"]) == Some(name)) {
                copy_or_clear(wanted, container, &["volumeMounts"])?;
            }
        }
    }
    Ok(())
}

pub(super) fn service(desired: &mut Value, observed: &Value) -> Result<()> {
    let port = &["spec", "healthCheckNodePort"];
    if let Some(number) = int(observed, port)?.filter(|number| *number > 0) {
        set(desired, port, number)?;
    }
    copy_text(desired, observed, &["spec", "clusterIP"])
}

/// Tokens and pull secrets that the member added stay, behind the desired ones.
pub(super) fn service_account(desired: &mut Value, observed: &Value) -> Result<()> {
    for field in ["secrets", "imagePullSecrets"] {
        let mut union = list(desired, &[field])?.to_vec();
        for entry in list(observed, &[field])? {
            let name = text(entry, &["name"])?;
            if !union.iter().any(|known| known.str_at(&["name"]).unwrap_or_default() == name) {
                union.push(entry.clone());
            }
        }
        // Compat: the field is written even if nobody set it.
        let union = if union.is_empty() { Value::Null } else { Value::Array(union.into()) };
        set(desired, &[field], union)?;
    }
    Ok(())
}

pub(super) fn persistent_volume_claim(desired: &mut Value, observed: &Value) -> Result<()> {
    copy_text(desired, observed, &["spec", "volumeName"])
}

pub(super) fn persistent_volume(desired: &mut Value, observed: &Value) -> Result<()> {
    let path = &["spec", "claimRef"];
    match walk(observed, path)? {
        Some(claim) => set(desired, path, claim.clone()),
        None => Ok(()),
    }
}

/// The member generated the selector and the labels that belong to it.
pub(super) fn job(desired: &mut Value, observed: &Value) -> Result<()> {
    let places: [&[&str]; 2] =
        [&["spec", "selector", "matchLabels"], &["spec", "template", "metadata", "labels"]];
    for path in places {
        if let Some(labels) = string_map(observed, path)? {
            set(desired, path, labels.clone())?;
        }
    }
    Ok(())
}

/// Tokens are issued by the member.
pub(super) fn secret(desired: &mut Value, observed: &Value) -> Result<()> {
    if desired.str_at(&["type"]) != Some("kubernetes.io/service-account-token") {
        return Ok(());
    }
    match map(observed, &["data"])? {
        Some(data) => set(desired, &["data"], data.clone()),
        None => Ok(()),
    }
}

fn copy_text(desired: &mut Value, observed: &Value, path: &[&str]) -> Result<()> {
    match text(observed, path)? {
        "" => Ok(()),
        value => set(desired, path, value),
    }
}

/// Makes a field what it is in the member, also if it is not there.
fn copy_or_clear(desired: &mut Value, observed: &Value, path: &[&str]) -> Result<()> {
    let Some((last, parents)) = path.split_last() else { return Ok(()) };
    match walk(observed, path)? {
        Some(value) => set(desired, path, value.clone()),
        None => {
            make_map(desired, parents)?.remove(*last);
            Ok(())
        }
    }
}

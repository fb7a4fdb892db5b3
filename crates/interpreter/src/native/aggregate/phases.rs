//! Kinds whose members report a phase: the most worrying one wins.

use std::collections::BTreeSet;

use karmada_apimachinery::{Map, Value, json};

use super::replace_status;
use crate::error::Result;
use crate::fields::{flag, list, text, walk};
use crate::rules::Members;

pub(crate) fn pod(object: &mut Value, members: &Members<'_>) -> Result<()> {
    // Nothing was reported yet: the status stays as the API server made it.
    if members.len() == 0 {
        return Ok(());
    }
    let mut status = Map::new();
    if let Some(phase) = worst(members, &["Failed", "Pending", "Running", "Succeeded"])? {
        status.insert("phase", Value::from(phase));
    }
    for class in ["containerStatuses", "initContainerStatuses"] {
        let mut containers = Vec::new();
        members.each(|_, reported| {
            for container in list(reported, &[class])? {
                containers.push(container_status(container)?);
            }
            Ok(())
        })?;
        if !containers.is_empty() {
            status.insert(class.to_owned(), containers.into());
        }
    }
    replace_status(object, status)
}

/// Readiness and state of a container; the rest is blank, as the names of members would collide.
fn container_status(container: &Value) -> Result<Value> {
    Ok(json!({
        "image": "",
        "imageID": "",
        "lastState": {},
        "name": "",
        "ready": flag(container, &["ready"])?.unwrap_or(false),
        "restartCount": 0,
        "state": walk(container, &["state"])?.cloned().unwrap_or_else(|| json!({})),
    }))
}

pub(crate) fn persistent_volume(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let phases = &["Failed", "Pending", "Available", "Bound", "Released"];
    let status = worst(members, phases)?.map(|phase| ("phase", Value::from(phase)));
    replace_status(object, status.into_iter().collect())
}

/// The first phase of the list that some member is in; a member that reports nothing is pending.
fn worst(members: &Members<'_>, worst_first: &[&'static str]) -> Result<Option<&'static str>> {
    let mut seen = BTreeSet::new();
    members.each(|_, status| {
        seen.insert(text(status, &["phase"])?.to_owned());
        Ok(())
    })?;
    if members.reported().count() < members.len() {
        seen.insert("Pending".to_owned());
    }
    Ok(worst_first.iter().copied().find(|phase| seen.contains(*phase)))
}

/// Bound unless a member says otherwise; a lost claim settles it.
pub(crate) fn persistent_volume_claim(object: &mut Value, members: &Members<'_>) -> Result<()> {
    let mut phase = "Bound".to_owned();
    members.each(|_, status| {
        let reported = text(status, &["phase"])?;
        if phase != "Lost" && reported != "Bound" {
            phase = reported.to_owned();
        }
        Ok(())
    })?;
    let status = (!phase.is_empty()).then(|| ("phase", Value::from(phase)));
    replace_status(object, status.into_iter().collect())
}

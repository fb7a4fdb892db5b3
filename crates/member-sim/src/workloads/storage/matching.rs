//! Which volume a claim gets, and what a volume made for it looks like.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::{Value, json};

use super::{PROVISIONED_BY, PROVISIONER};

pub(super) fn class_of(object: &Value) -> &str {
    object
        .annotation("volume.beta.kubernetes.io/storage-class")
        .or(object.str_at(&["spec", "storageClassName"]))
        .unwrap_or_default()
}

fn amount(value: Option<&Value>) -> i128 {
    value.and_then(|value| Quantity::from_value(value).ok()).map_or(0, |amount| amount.nanos())
}

/// Whether a volume is meant for the claim, or already its own.
pub(super) fn is_for(volume: &Value, claim: &Value) -> bool {
    let Some(owner) = volume.at(&["spec", "claimRef"]).filter(|owner| !owner.is_null()) else {
        return false;
    };
    let text = |field: &str| owner.str_at(&[field]).unwrap_or_default();
    let same = text("namespace") == claim.namespace() && text("name") == claim.name();
    same && (text("uid").is_empty() || text("uid") == claim.uid())
}

/// Picks the smallest free volume that is good enough; one set aside for the claim comes first.
pub(super) fn pick<'a>(claim: &Value, volumes: &'a [Value]) -> Option<&'a Value> {
    if let Some(own) = volumes.iter().find(|volume| is_for(volume, claim)) {
        return Some(own);
    }
    let size = |volume: &Value| amount(volume.at(&["spec", "capacity", "storage"]));
    volumes.iter().filter(|volume| fits(volume, claim)).min_by_key(|volume| size(volume))
}

fn fits(volume: &Value, claim: &Value) -> bool {
    let taken = volume.at(&["spec", "claimRef"]).is_some_and(|owner| !owner.is_null());
    let mode =
        |object: &Value| object.str_at(&["spec", "volumeMode"]).unwrap_or("Filesystem").to_owned();
    let modes = volume.list_at(&["spec", "accessModes"]);
    let wanted = claim.list_at(&["spec", "accessModes"]);
    let selector = claim.at(&["spec", "selector"]).filter(|selector| !selector.is_null());
    let selected = selector.is_none_or(|selector| {
        LabelSelector::from_object(Some(selector)).is_ok_and(|s| s.matches_object(volume))
    });
    let (has, wants) = (
        amount(volume.at(&["spec", "capacity", "storage"])),
        amount(claim.at(&["spec", "resources", "requests", "storage"])),
    );
    !taken
        && !volume.is_being_deleted()
        && volume.str_at(&["status", "phase"]) == Some("Available")
        && class_of(volume) == class_of(claim)
        && mode(volume) == mode(claim)
        && wanted.iter().all(|mode| modes.contains(mode))
        && has >= wants
        && selected
}

/// The reference a volume carries to its claim.
pub(super) fn claim_reference(claim: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim.name(),
        "namespace": claim.namespace(), "uid": claim.uid(),
        "resourceVersion": claim.resource_version()})
}

/// A volume made for the claim.
pub(super) fn provision(claim: &Value, class: &Value) -> Value {
    let name = format!("pvc-{}", claim.uid());
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": claim.at(&["spec", "resources", "requests", "storage"])},
            "accessModes": claim.at(&["spec", "accessModes"]),
            "persistentVolumeReclaimPolicy":
                class.str_at(&["reclaimPolicy"]).unwrap_or("Delete"),
            "storageClassName": class.name(),
            "volumeMode": claim.str_at(&["spec", "volumeMode"]).unwrap_or("Filesystem"),
            "csi": {"driver": PROVISIONER.replace('/', "."), "volumeHandle": name},
            "claimRef": claim_reference(claim),
        },
    });
    if let Some(options) = class.at(&["mountOptions"]).filter(|options| !options.is_null()) {
        volume["spec"]["mountOptions"] = options.clone();
    }
    volume
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, size: &str, extra: Value) -> Value {
        let mut volume = json!({"metadata": {"name": name, "labels": {"l": name}},
            "spec": {"capacity": {"storage": size}, "storageClassName": "gold",
                "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]},
            "status": {"phase": "Available"}});
        for (field, value) in extra.as_object().into_iter().flatten() {
            volume["spec"][field] = value.clone();
        }
        volume
    }

    #[test]
    fn the_smallest_volume_that_is_good_enough_wins() {
        let claim = json!({"metadata": {"name": "c", "namespace": "x", "uid": "u"}, "spec": {
            "storageClassName": "gold", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}}}});
        let mut volumes = vec![
            volume("small", "1Gi", json!({})),
            volume("big", "50Gi", json!({})),
            volume("right", "8Gi", json!({})),
            volume("taken", "5Gi", json!({"claimRef": {"namespace": "x", "name": "other"}})),
            volume("silver", "5Gi", json!({"storageClassName": "silver"})),
            volume("block", "5Gi", json!({"volumeMode": "Block"})),
            volume("shared", "5Gi", json!({"accessModes": ["ReadOnlyMany"]})),
        ];
        let picked =
            |claim: &Value, volumes: &[Value]| pick(claim, volumes).map(|v| v.name().to_owned());
        assert_eq!(picked(&claim, &volumes).as_deref(), Some("right"));
        let mut labelled = claim.clone();
        labelled["spec"]["selector"] = json!({"matchLabels": {"l": "big"}});
        assert_eq!(picked(&labelled, &volumes).as_deref(), Some("big"));
        volumes.push(volume("mine", "1Gi", json!({"claimRef": {"namespace": "x", "name": "c"}})));
        assert_eq!(picked(&claim, &volumes).as_deref(), Some("mine"));
    }
}

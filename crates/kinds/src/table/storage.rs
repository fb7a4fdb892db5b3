//! Rows of volumes, storage classes and devices.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::network::default_name;
use super::row::{Row, amount, or_none};

/// Ways to mount a volume and their short names, in the order they are shown.
const MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

fn access_modes(row: &Row<'_>, path: &[&str]) -> String {
    let given = row.texts(path);
    let shown = MODES.iter().filter(|mode| given.contains(&mode.0)).map(|mode| mode.1);
    shown.collect::<Vec<_>>().join(",")
}

fn phase(row: &Row<'_>) -> Value {
    if row.object.is_being_deleted() {
        "Terminating".into()
    } else {
        row.text(&["status", "phase"])
    }
}

fn class(row: &Row<'_>) -> Value {
    let old = row.object.annotation("volume.beta.kubernetes.io/storage-class");
    old.map_or_else(|| row.text(&["spec", "storageClassName"]), Value::from)
}

pub(super) fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = row.object.at(&["spec", "claimRef"]).filter(|claim| claim.is_object());
    let claim = claim.map(|claim| {
        let text = |field: &str| claim.str_at(&[field]).unwrap_or_default();
        format!("{}/{}", text("namespace"), text("name"))
    });
    vec![
        row.name(),
        amount(row.object.at(&["spec", "capacity", "storage"])).into(),
        access_modes(row, &["spec", "accessModes"]).into(),
        row.text(&["spec", "persistentVolumeReclaimPolicy"]),
        phase(row),
        claim.unwrap_or_default().into(),
        class(row),
        row.text_or(&["spec", "volumeAttributesClassName"], "<unset>"),
        row.text(&["status", "reason"]),
        row.age(),
        row.text_or(&["spec", "volumeMode"], "<unset>"),
    ]
}

pub(super) fn claim(row: &Row<'_>) -> Vec<Value> {
    let is_bound = !row.str(&["spec", "volumeName"]).is_empty();
    let (capacity, modes) = if is_bound {
        let capacity = amount(row.object.at(&["status", "capacity", "storage"]));
        (capacity, access_modes(row, &["status", "accessModes"]))
    } else {
        (String::new(), String::new())
    };
    vec![
        row.name(),
        phase(row),
        row.text(&["spec", "volumeName"]),
        capacity.into(),
        modes.into(),
        class(row),
        row.text_or(&["spec", "volumeAttributesClassName"], "<unset>"),
        row.age(),
        row.text_or(&["spec", "volumeMode"], "<unset>"),
    ]
}

pub(super) fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let is_default = marks.iter().any(|mark| row.object.annotation(mark) == Some("true"));
    vec![
        default_name(row, is_default),
        row.text(&["provisioner"]),
        row.text_or(&["reclaimPolicy"], "Delete"),
        row.text_or(&["volumeBindingMode"], "Immediate"),
        row.flag(&["allowVolumeExpansion"], false),
        row.age(),
    ]
}

pub(super) fn volume_attributes_class(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.text(&["driverName"]), row.age()]
}

pub(super) fn volume_attachment(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text(&["spec", "attacher"]),
        row.text(&["spec", "source", "persistentVolumeName"]),
        row.text(&["spec", "nodeName"]),
        row.flag(&["status", "attached"], false),
        row.age(),
    ]
}

pub(super) fn csi_node(row: &Row<'_>) -> Vec<Value> {
    vec![row.name(), row.count(&["spec", "drivers"]).into(), row.age()]
}

pub(super) fn csi_driver(row: &Row<'_>) -> Vec<Value> {
    let requests = row.object.at(&["spec", "tokenRequests"]).and_then(Value::as_array);
    let audiences = requests.map_or_else(
        || "<unset>".to_owned(),
        |requests| {
            let audiences = requests.iter().map(|r| r.str_at(&["audience"]).unwrap_or_default());
            audiences.collect::<Vec<_>>().join(",")
        },
    );
    vec![
        row.name(),
        row.flag(&["spec", "attachRequired"], true),
        row.flag(&["spec", "podInfoOnMount"], false),
        row.flag(&["spec", "storageCapacity"], false),
        audiences.into(),
        row.flag(&["spec", "requiresRepublish"], false),
        or_none(&row.texts(&["spec", "volumeLifecycleModes"]).join(",")).into(),
        row.age(),
    ]
}

pub(super) fn resource_claim(row: &Row<'_>) -> Vec<Value> {
    let is_allocated = row.object.map_at(&["status", "allocation"]).is_some();
    let is_deleted = row.object.is_being_deleted();
    let is_reserved = is_allocated && row.count(&["status", "reservedFor"]) > 0;
    let states = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    let states = states.into_iter().filter(|state| state.0).map(|state| state.1);
    vec![row.name(), states.collect::<Vec<_>>().join(",").into(), row.age()]
}

pub(super) fn resource_slice(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.text(&["spec", "nodeName"]),
        row.text(&["spec", "driver"]),
        row.text(&["spec", "pool", "name"]),
        row.age(),
    ]
}

//! Defaults of volumes, claims and the kinds that provide them.

use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::{Value, json};

use super::{amount, is_empty_list, made, present, text};

pub(super) fn volume(volume: &mut Value) {
    text(made(volume, "status"), "phase", "Pending");
    let spec = made(volume, "spec");
    text(spec, "persistentVolumeReclaimPolicy", "Retain");
    spec.set_default(&["volumeMode"], "Filesystem");
    if let Some(capacity) = present(spec, "capacity") {
        amount::round_list(capacity);
    }
    shared_sources(spec);
}

pub(super) fn claim(claim: &mut Value) {
    text(made(claim, "status"), "phase", "Pending");
    claim_spec(made(claim, "spec"));
}

pub(super) fn claim_spec(spec: &mut Value) {
    spec.set_default(&["volumeMode"], "Filesystem");
    amount::round_resources(made(spec, "resources"));
}

/// Defaults of the sources that pods and persistent volumes both know.
pub(super) fn shared_sources(holder: &mut Value) {
    if let Some(source) = present(holder, "hostPath") {
        source.set_default(&["type"], "");
    }
    if let Some(source) = present(holder, "iscsi") {
        text(source, "iscsiInterface", "default");
    }
    if let Some(source) = present(holder, "rbd") {
        text(source, "pool", "rbd");
        text(source, "user", "admin");
        text(source, "keyring", "/etc/ceph/keyring");
    }
    if let Some(source) = present(holder, "azureDisk") {
        source.set_default(&["cachingMode"], "ReadWrite");
        source.set_default(&["fsType"], "ext4");
        source.set_default(&["readOnly"], false);
        source.set_default(&["kind"], "Shared");
    }
    if let Some(source) = present(holder, "scaleIO") {
        text(source, "storageMode", "ThinProvisioned");
        text(source, "fsType", "xfs");
    }
}

pub(super) fn storage_class(class: &mut Value) {
    class.set_default(&["reclaimPolicy"], "Delete");
    class.set_default(&["volumeBindingMode"], "Immediate");
}

pub(super) fn csi_driver(driver: &mut Value) {
    let spec = made(driver, "spec");
    spec.set_default(&["attachRequired"], true);
    spec.set_default(&["fsGroupPolicy"], "ReadWriteOnceWithFSType");
    for off in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        spec.set_default(&[off], false);
    }
    if is_empty_list(spec, "volumeLifecycleModes") {
        spec.set(&["volumeLifecycleModes"], json!(["Persistent"]));
    }
}

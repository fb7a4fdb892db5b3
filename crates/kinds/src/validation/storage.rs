//! Group `storage.k8s.io`: classes, attachments, CSI drivers, nodes and capacities.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::{Value, names};

use super::core::{persistent, resources, volumes::check_driver_name};
use super::meta::{self, Scope};
use super::place::{At, Errors, FIELD_IMMUTABLE, same};
use super::selectors;

const KIB_256: usize = 256 * 1024;

pub(crate) fn class_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    check_provisioner(&object.field("provisioner"), errs);
    check_parameters(&object.field("parameters"), errs);
    let policy = object.field("reclaimPolicy");
    if !policy.is_empty() {
        errs.one_of(&policy, &["Delete", "Retain"]);
    }
    let mode = object.field("volumeBindingMode");
    if mode.is_set() {
        errs.one_of(&mode, &["Immediate", "WaitForFirstConsumer"]);
    } else {
        errs.required(&mode, "");
    }
    check_topologies(&object.field("allowedTopologies"), errs);
}

pub(crate) fn class_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    class_create(new, errs);
    meta::update(new, old, errs);
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        errs.immutable(&new.field(field), &old.field(field));
    }
}

fn check_provisioner(name: &At<'_>, errs: &mut Errors) {
    if errs.required_text(name) {
        let lower = name.text().to_lowercase();
        errs.messages_for(name, &lower, &names::qualified_name(&lower));
    }
}

fn check_parameters(parameters: &At<'_>, errs: &mut Errors) {
    if parameters.len() > 512 {
        return errs.too_long(parameters, 512);
    }
    let mut size = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            errs.invalid(parameters, key, "field can not be empty.");
        }
        size += key.len() + value.len();
    }
    if size > KIB_256 {
        errs.too_long(parameters, KIB_256);
    }
}

fn check_topologies(topologies: &At<'_>, errs: &mut Errors) {
    // Compat: the list of terms seen starts with one empty term per term given.
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = vec![BTreeMap::new(); topologies.len()];
    for term in topologies.items() {
        let expressions = term.field("matchLabelExpressions");
        let mut keys: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for expression in expressions.items() {
            let (key, values) = (expression.field("key"), expression.field("values"));
            if values.is_empty() {
                errs.required(&values, "");
            }
            let mut set = BTreeSet::new();
            for value in values.items() {
                if !set.insert(value.text()) {
                    errs.duplicate(&value);
                }
            }
            errs.messages(&key, &names::qualified_name(key.text()));
            if keys.insert(key.text(), set).is_some() {
                errs.push(FieldError::duplicate(&key.path, key.text()));
            }
        }
        for _ in seen.iter().filter(|other| **other == keys) {
            errs.push(FieldError::duplicate(&expressions.path, ""));
        }
        seen.push(keys);
    }
}

pub(crate) fn attributes_class_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    check_provisioner(&object.field("driverName"), errs);
    let parameters = object.field("parameters");
    check_parameters(&parameters, errs);
    if parameters.is_empty() {
        errs.required(&parameters, "must contain at least one key/value pair");
    }
}

pub(crate) fn attributes_class_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    for field in ["driverName", "parameters"] {
        if !same(new.field(field).value, old.field(field).value) {
            errs.forbidden(&new.field(field), format!("updates to {field} are forbidden."));
        }
    }
    attributes_class_create(new, errs);
}

pub(crate) fn attachment_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let spec = object.field("spec");
    check_driver_name(&spec.field("attacher"), errs);
    let source = spec.field("source");
    let (inline, name) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
    const ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline.is_set(), name.is_set()) {
        (false, false) => errs.required(&source, ONE),
        (true, true) => errs.forbidden(&source, ONE),
        (false, true) if name.is_empty() => {
            errs.required(&name, "must specify non empty persistentVolumeName");
        }
        (false, true) => {}
        (true, false) => persistent::check_volume_spec(&inline, None, errs),
    }
    let node = spec.field("nodeName");
    errs.messages(&node, &names::dns1123_subdomain(node.text()));
    check_attachment_status(&object.field("status"), errs);
    if name.is_set() {
        errs.messages(&name, &names::dns1123_subdomain(name.text()));
    }
}

fn check_attachment_status(status: &At<'_>, errs: &mut Errors) {
    let metadata = status.field("attachmentMetadata");
    let size: usize = metadata.entries().map(|(key, value)| key.len() + value.len()).sum();
    if size > KIB_256 {
        errs.too_long(&metadata, KIB_256);
    }
    for error in [status.field("attachError"), status.field("detachError")] {
        if error.field("message").len() > 1024 {
            // Compat: the limit named is not the one enforced.
            errs.too_long(&error.field("message"), KIB_256);
        }
        if error.field("errorCode").int() < 0 {
            errs.in_range(&error.field("errorCode"), 0, i64::from(i32::MAX));
        }
    }
}

pub(crate) fn attachment_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    attachment_create(new, errs);
    errs.immutable(&new.field("spec"), &old.field("spec"));
}

pub(crate) fn csi_node_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let mut seen = BTreeSet::new();
    for driver in object.at(&["spec", "drivers"]).items() {
        let (name, id) = (driver.field("name"), driver.field("nodeID"));
        check_driver_name(&name, errs);
        errs.required_text(&id);
        if id.len() > 256 {
            errs.invalid_text(&id, "must be 256 characters or less");
        }
        errs.non_negative(&driver.at(&["allocatable", "count"]));
        if !seen.insert(name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        let mut keys = BTreeSet::new();
        for key in driver.field("topologyKeys").texts() {
            if key.is_empty() {
                errs.required(&driver, "");
            }
            if !keys.insert(key) {
                errs.push(FieldError::duplicate(&driver.path, key));
            }
            errs.messages_for(&driver, key, &names::qualified_name(key));
        }
    }
}

pub(crate) fn csi_node_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    csi_node_create(new, errs);
    let without_count = |driver: &At<'_>| {
        let mut driver = driver.value.clone();
        if let Some(map) = driver.as_object_mut() {
            map.remove("allocatable");
        }
        driver
    };
    let drivers = new.at(&["spec", "drivers"]);
    for before in old.at(&["spec", "drivers"]).items() {
        let name = before.field("name").text();
        for after in drivers.items().filter(|driver| driver.field("name").text() == name) {
            if !same(&without_count(&after), &without_count(&before)) {
                errs.invalid(&drivers, without_count(&after), FIELD_IMMUTABLE);
            }
        }
    }
}

pub(crate) fn csi_driver_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    check_csi_driver(&object.field("spec"), errs);
}

fn check_csi_driver(spec: &At<'_>, errs: &mut Errors) {
    for (field, reported) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.field(field).is_set() {
            errs.required(&spec.renamed(field, reported), "");
        }
    }
    errs.one_of(&spec.field("fsGroupPolicy"), &["File", "None", "ReadWriteOnceWithFSType"]);
    let mut audiences = BTreeSet::new();
    for request in spec.field("tokenRequests").items() {
        let (audience, expiration) =
            (request.field("audience"), request.field("expirationSeconds"));
        if !audiences.insert(audience.text()) {
            errs.push(FieldError::duplicate(&audience.path, audience.text()));
        } else if expiration.is_set() {
            check_token_age(&expiration, errs);
        }
    }
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.texts().filter(|mode| !["Persistent", "Ephemeral"].contains(mode)) {
        let supported = ["Persistent", "Ephemeral"];
        errs.push(FieldError::not_supported(&modes.path, mode, &supported));
    }
    if !spec.field("seLinuxMount").is_set() {
        errs.required(&spec.field("seLinuxMount"), "");
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.number().is_some_and(|seconds| seconds < 10) {
        errs.invalid_int(&period, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && spec.field("tokenRequests").is_empty() {
        errs.invalid_value(
            &in_secrets,
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

/// Tokens live between ten minutes and 2^32 seconds.
pub(crate) fn check_token_age(seconds: &At<'_>, errs: &mut Errors) {
    if seconds.int() < 600 {
        errs.invalid_int(seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds.int() > 1 << 32 {
        errs.invalid_int(seconds, "may not specify a duration larger than 2^32 seconds");
    }
}

pub(crate) fn csi_driver_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    let (spec, before) = (new.field("spec"), old.field("spec"));
    check_csi_driver(&spec, errs);
    errs.immutable(
        &spec.renamed("attachRequired", "attachedRequired"),
        &before.field("attachRequired"),
    );
    errs.immutable(&spec.field("volumeLifecycleModes"), &before.field("volumeLifecycleModes"));
}

pub(crate) fn capacity_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    selectors::check(&object.field("nodeTopology"), errs);
    let class = object.field("storageClassName");
    errs.messages(&class, &names::dns1123_subdomain(class.text()));
    resources::check_not_negative(&object.field("capacity"), errs);
}

pub(crate) fn capacity_update(_: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    capacity_create(new, errs);
    meta::update(new, old, errs);
    let topology = new.field("nodeTopology");
    let shown = selectors::shown(topology.value);
    errs.immutable_shown(&topology, &old.field("nodeTopology"), shown);
    errs.immutable(&new.field("storageClassName"), &old.field("storageClassName"));
}

/// Mount options belong to few volume types when given as annotation.
pub(crate) fn check_mount_annotation(volume: &Value, errs: &mut Errors) {
    const KEY: &str = "volume.beta.kubernetes.io/mount-options";
    const SUPPORTED: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let spec = At::root(volume).field("spec");
    let supported = SUPPORTED.iter().any(|field| spec.field(field).is_set());
    if meta::annotation(volume, KEY).is_some() && !supported {
        let path = Path::new("metadata").child("annotations").child(KEY);
        let detail = "may not specify mount options for this volume type";
        errs.push(FieldError::forbidden(&path, detail));
    }
}

//! PersistentVolumes and PersistentVolumeClaims.

use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::names;
use karmada_apimachinery::{Value, json};

use super::resources::{self, quantity};
use super::scheduling::check_node_selector;
use super::volumes::{self, ONE_TYPE_ONLY, Source, source};
use crate::validation::meta::{self, Scope, annotation};
use crate::validation::place::{At, Errors, same};
use crate::validation::selectors;
use crate::validation::storage::check_mount_annotation;

const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

static SOURCES: [Source; 22] = [
    source("hostPath", volumes::check_host_path),
    Source { reported: "persistentDisk", ..source("gcePersistentDisk", volumes::check_gce_disk) },
    source("awsElasticBlockStore", volumes::check_aws_disk),
    source("glusterfs", check_glusterfs),
    source("flocker", volumes::check_flocker),
    source("nfs", volumes::check_nfs),
    source("rbd", volumes::check_rbd),
    source("quobyte", volumes::check_quobyte),
    Source { surplus: "cephFS", ..source("cephfs", volumes::check_ceph) },
    source("iscsi", |_, _| {}),
    source("cinder", check_cinder),
    source("fc", volumes::check_fibre_channel),
    source("flexVolume", volumes::check_flex),
    source("azureFile", check_azure_file),
    source("vsphereVolume", volumes::check_vsphere),
    source("photonPersistentDisk", volumes::check_photon),
    source("portworxVolume", volumes::check_portworx),
    source("azureDisk", volumes::check_azure_disk),
    source("scaleIO", volumes::check_scale_io),
    source("local", check_local),
    source("storageos", check_storage_os),
    source("csi", check_csi),
];

fn check_glusterfs(at: &At<'_>, errs: &mut Errors) {
    volumes::check_glusterfs(at, errs);
    let namespace = at.field("endpointsNamespace");
    if namespace.is_set() && namespace.is_empty() {
        let detail = "if the endpointnamespace is set, it must be a valid namespace name";
        errs.invalid_text(&namespace, detail);
    } else if namespace.is_set() {
        errs.messages(&namespace, &names::dns1123_label(namespace.text()));
    }
}

fn check_cinder(at: &At<'_>, errs: &mut Errors) {
    volumes::check_cinder(at, errs);
    check_secret_namespace(at, errs);
}

fn check_secret_namespace(at: &At<'_>, errs: &mut Errors) {
    let secret = at.field("secretRef");
    if secret.is_set() {
        errs.required_text(&secret.field("namespace"));
    }
}

fn check_azure_file(at: &At<'_>, errs: &mut Errors) {
    volumes::check_azure_file(at, errs);
    let namespace = at.field("secretNamespace");
    if namespace.is_set() {
        errs.required_text(&namespace);
    }
}

fn check_storage_os(at: &At<'_>, errs: &mut Errors) {
    volumes::check_storage_os(at, errs);
    check_secret_namespace(at, errs);
}

fn check_local(at: &At<'_>, errs: &mut Errors) {
    let path = at.field("path");
    if errs.required_text(&path) {
        volumes::check_no_backsteps(&path, errs);
    }
}

fn check_csi(at: &At<'_>, errs: &mut Errors) {
    volumes::check_driver_name(&at.field("driver"), errs);
    errs.required_text(&at.field("volumeHandle"));
    for secret in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if at.field(secret).is_set() {
            volumes::check_secret_reference(&at.field(secret), errs);
        }
    }
}

pub(crate) fn volume_create(object: &At<'_>, errs: &mut Errors) {
    check_volume(object, errs);
    check_mount_annotation(object.value, errs);
}

fn check_volume(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Cluster, names::subdomain_name, errs);
    let name = object.at(&["metadata", "name"]);
    check_volume_spec(&object.field("spec"), Some(name.text()), errs);
}

/// Checks the spec of a persistent volume; without a name it stands inside a VolumeAttachment.
pub(crate) fn check_volume_spec(spec: &At<'_>, name: Option<&str>, errs: &mut Errors) {
    const INLINE: &str = "may not be specified in the context of inline volumes";
    let inline = name.is_none();
    let capacity = spec.field("capacity");
    if inline {
        if spec.field("claimRef").is_set() {
            errs.forbidden(&spec.field("claimRef"), INLINE);
        }
        if !capacity.is_empty() {
            errs.forbidden(&capacity, INLINE);
        }
        if !spec.field("csi").is_set() {
            let detail = "has to be specified in the context of inline volumes";
            errs.required(&spec.field("csi"), detail);
        }
    }
    check_access_modes(&spec.field("accessModes"), "", errs);
    if !inline {
        check_capacity(&capacity, errs);
    }
    let policy = spec.field("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && inline && policy.text() != "Retain" {
        errs.forbidden(&policy, "may only be Retain in the context of inline volumes");
    } else if !policy.is_empty() && !inline {
        errs.one_of(&policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = spec.field("nodeAffinity");
    if affinity.is_set() && inline {
        errs.forbidden(&affinity, INLINE);
    } else if affinity.is_set() && affinity.field("required").is_set() {
        check_node_selector(&affinity.field("required"), errs);
    } else if affinity.is_set() {
        errs.required(&affinity.field("required"), "must specify required node constraints");
    }
    check_volume_source(spec, name.unwrap_or_default(), errs);
    check_volume_class(spec, inline, errs);
}

fn check_capacity(capacity: &At<'_>, errs: &mut Errors) {
    if capacity.is_empty() {
        errs.required(capacity, "");
    }
    if !capacity.field("storage").is_set() || capacity.len() > 1 {
        let supported = ["storage"];
        errs.push(FieldError::not_supported(&capacity.path, capacity.shown(), &supported));
    }
    for (_, amount) in capacity.entries() {
        resources::check_basic(&amount, errs);
        resources::check_positive(&amount, errs);
    }
}

fn check_volume_source(spec: &At<'_>, name: &str, errs: &mut Errors) {
    let mut found = false;
    for source in &SOURCES {
        let at = spec.renamed(source.field, source.reported);
        if !at.is_set() {
            continue;
        }
        // Compat: a flex volume counts, but is never itself reported as one too many.
        if found && source.field != "flexVolume" {
            errs.forbidden(&spec.field(source.surplus), ONE_TYPE_ONLY);
            continue;
        }
        found = true;
        (source.check)(&at, errs);
        if source.field == "iscsi" {
            volumes::check_iscsi_persistent(&at, name, errs);
        }
        if source.field == "local" && !spec.field("nodeAffinity").is_set() {
            let detail = "Local volume requires node affinity";
            errs.required(&spec.field("nodeAffinity"), detail);
        }
    }
    if !found {
        errs.required(spec, "must specify a volume type");
    }
}

fn check_volume_class(spec: &At<'_>, inline: bool, errs: &mut Errors) {
    let policy = spec.field("persistentVolumeReclaimPolicy");
    let host_path = spec.at(&["hostPath", "path"]);
    let is_root = host_path.text().starts_with('/')
        && host_path.text().split('/').all(|part| matches!(part, "" | "."));
    if is_root && policy.text() == "Recycle" {
        errs.forbidden(&policy, "may not be 'recycle' for a hostPath mount of '/'");
    }
    let class = spec.field("storageClassName");
    if !class.is_empty() && inline {
        errs.forbidden(&class, "may not be specified in the context of inline volumes");
    } else if !class.is_empty() {
        errs.messages(&class, &names::dns1123_subdomain(class.text()));
    }
    let mode = spec.field("volumeMode");
    if inline && mode.is_set() && mode.text() != "Filesystem" {
        errs.forbidden(
            &mode,
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        );
    } else if !inline {
        errs.one_of(&mode, &VOLUME_MODES);
    }
    let attributes = spec.field("volumeAttributesClassName");
    if attributes.is_set() {
        if attributes.is_empty() {
            errs.required(&attributes, "an empty string is disallowed");
        } else {
            errs.messages(&attributes, &names::dns1123_subdomain(attributes.text()));
        }
        if !spec.field("csi").is_set() {
            let detail = "has to be specified when using volumeAttributesClassName";
            errs.required(&spec.field("csi"), detail);
        }
    }
}

fn check_access_modes(modes: &At<'_>, missing: &str, errs: &mut Errors) {
    if modes.is_empty() {
        errs.required(modes, missing);
    }
    check_access_mode_values(modes, errs);
}

fn check_access_mode_values(modes: &At<'_>, errs: &mut Errors) {
    for mode in modes.texts() {
        if !ACCESS_MODES.contains(&mode) {
            errs.push(FieldError::not_supported(&modes.path, mode, &ACCESS_MODES));
        }
    }
    let mut known = modes.texts().filter(|mode| ACCESS_MODES.contains(mode));
    if modes.has_text("ReadWriteOncePod") && known.any(|mode| mode != "ReadWriteOncePod") {
        errs.forbidden(modes, "may not use ReadWriteOncePod with other access modes");
    }
}

/// The fields of a persistent volume's spec that are not its source.
const NOT_A_SOURCE: [&str; 10] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
    "",
];

fn source_of(spec: &At<'_>) -> Value {
    let mut source = spec.value.clone();
    if let Some(map) = source.as_object_mut() {
        map.retain(|key, _| !NOT_A_SOURCE.contains(&key.as_str()));
    }
    source
}

pub(crate) fn volume_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    if subresource == "status" {
        return meta::update(new, old, errs);
    }
    // Compat: the object is checked by the strategy and again as part of the update.
    volume_create(new, errs);
    check_volume(new, errs);
    let (new_spec, old_spec) = (new.field("spec"), old.field("spec"));
    let (mut after, before) = (source_of(&new_spec), source_of(&old_spec));
    let expand = "controllerExpandSecretRef";
    if old_spec.field("csi").is_set() && !old_spec.at(&["csi", expand]).is_set() {
        // Adding the secret for expansion is the one change allowed.
        if let Some(csi) = after.get_mut("csi").and_then(Value::as_object_mut) {
            csi.remove(expand);
        }
    }
    if !same(&after, &before) {
        let path = Path::new("spec").child("persistentvolumesource");
        let detail = "spec.persistentvolumesource is immutable after creation";
        errs.push(FieldError::forbidden(&path, detail));
    }
    let reported = |name: &str| new_spec.field(name).reported_at(Path::new(name));
    errs.immutable(&reported("volumeMode"), &old_spec.field("volumeMode"));
    let affinity = old_spec.field("nodeAffinity");
    if affinity.is_set() && !same(new_spec.field("nodeAffinity").value, affinity.value) {
        let detail = "field is immutable, except for updating from beta label to GA";
        errs.invalid_value(&reported("nodeAffinity"), detail);
    }
    let class = new_spec.field("volumeAttributesClassName");
    if old_spec.field("volumeAttributesClassName").is_set() && !class.is_set() {
        errs.forbidden(&class, "update from non-nil value to nil is forbidden");
    }
}

pub(crate) fn claim_create(object: &At<'_>, errs: &mut Errors) {
    meta::check(object, Scope::Namespaced, names::subdomain_name, errs);
    check_claim_spec(&object.field("spec"), true, errs);
}

/// A claim template of an ephemeral volume.
pub(crate) fn check_claim_template(template: &At<'_>, errs: &mut Errors) {
    meta::template(&template.field("metadata"), errs);
    check_claim_spec(&template.field("spec"), true, errs);
}

pub(crate) fn check_claim_spec(spec: &At<'_>, check_groups: bool, errs: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errs.required(&modes, "at least 1 access mode is required");
    }
    selectors::check(&spec.field("selector"), errs);
    check_access_mode_values(&modes, errs);
    let storage = At::new(
        spec.path.child("resources").key("storage"),
        spec.at(&["resources", "requests", "storage"]).value,
    );
    if storage.is_set() {
        resources::check_positive(&storage, errs);
    } else {
        errs.required(&storage, "");
    }
    let class = spec.field("storageClassName");
    if !class.is_empty() {
        errs.messages(&class, &names::dns1123_subdomain(class.text()));
    }
    errs.one_of(&spec.field("volumeMode"), &VOLUME_MODES);
    check_data_sources(spec, check_groups, errs);
    let attributes = spec.field("volumeAttributesClassName");
    if !attributes.is_empty() {
        errs.messages(&attributes, &names::dns1123_subdomain(attributes.text()));
    }
}

fn check_data_sources(spec: &At<'_>, check_groups: bool, errs: &mut Errors) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for at in [&source, &reference].into_iter().filter(|at| at.is_set()) {
        errs.required_text(&at.field("name"));
        errs.required_text(&at.field("kind"));
        let group = at.field("apiGroup");
        if group.is_empty() && at.field("kind").text() != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errs.invalid(at, at.field("kind").text(), detail);
        }
        if !group.is_empty() && check_groups {
            errs.messages(&group, &names::dns1123_subdomain(group.text()));
        }
    }
    let namespace = reference.field("namespace");
    if !namespace.is_empty() {
        errs.messages(&namespace, &names::dns1123_label(namespace.text()));
    }
    // Compat: the value shown is the path of the field, which prints as an empty structure.
    if !namespace.is_empty() && source.is_set() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errs.invalid(spec, Shown::Verbatim("{}".to_owned()), detail);
    } else if source.is_set() && reference.is_set() {
        let agree = ["apiGroup", "kind", "name"]
            .iter()
            .all(|field| source.field(field).value == reference.field(field).value);
        if !agree {
            errs.invalid(spec, Shown::Verbatim("{}".to_owned()), "must match dataSourceRef");
        }
    }
}

pub(crate) fn claim_update(subresource: &str, new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    meta::update(new, old, errs);
    if subresource == "status" {
        return check_claim_status(new, errs);
    }
    let group_given = ["dataSource", "dataSourceRef"]
        .iter()
        .any(|field| old.at(&["spec", field, "apiGroup"]).is_set());
    meta::check(new, Scope::Namespaced, names::subdomain_name, errs);
    check_claim_spec(&new.field("spec"), !group_given, errs);
    check_claim_changes(new, old, errs);
}

fn check_claim_changes(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    const REQUESTED: [&str; 3] = ["resources", "requests", "storage"];
    let (new_spec, old_spec) = (new.field("spec"), old.field("spec"));
    let mut after = new_spec.value.clone();
    let keep = |after: &mut Value, field: &str| {
        if let Some(map) = after.as_object_mut() {
            map.insert(field.to_owned(), old_spec.field(field).value.clone());
        }
    };
    let class = "storageClassName";
    let (old_class, new_class) = (old_spec.field(class), new_spec.field(class));
    let (old_beta, new_beta) =
        (annotation(old.value, BETA_CLASS), annotation(new.value, BETA_CLASS));
    let moved_to_field = !old_class.is_set()
        && old_beta.is_some()
        && new_class.value.as_str() == old_beta
        && (new_beta.is_none() || new_beta == old_beta);
    if moved_to_field {
        keep(&mut after, class);
    } else {
        if old_beta.unwrap_or_default() != new_beta.unwrap_or_default() {
            let path = Path::new("metadata").child("annotations").child(BETA_CLASS);
            let detail = "field is immutable";
            errs.push(FieldError::invalid(&path, new_beta.unwrap_or_default(), detail));
        }
        let agrees = old_beta.is_none_or(|beta| new_class.text() == beta);
        if new_class.is_set() && !old_class.is_set() && agrees {
            keep(&mut after, class);
        }
    }
    if old_spec.field("volumeName").is_empty() {
        keep(&mut after, "volumeName");
    }
    if new.at(&["status", "phase"]).text() == "Bound" {
        let requested = old_spec.at(&REQUESTED).value.clone();
        if let Some(requests) = after.pointer_mut("/resources/requests") {
            requests["storage"] = requested;
        }
        keep(&mut after, "volumeAttributesClassName");
    }
    if !same(&after, old_spec.value) {
        errs.forbidden(&new_spec, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims");
    }
    let amount = |at: At<'_>| {
        quantity(&at).unwrap_or_else(|| karmada_apimachinery::quantity::Quantity::from_millis(0))
    };
    let (new_size, old_size) = (amount(new_spec.at(&REQUESTED)), amount(old_spec.at(&REQUESTED)));
    if new_size < old_size && new_size <= amount(old.at(&["status", "capacity", "storage"])) {
        errs.forbidden(&new_spec.at(&REQUESTED), "field can not be less than status.capacity");
    }
    errs.immutable(
        &new_spec.field("volumeMode").reported_at(Path::new("volumeMode")),
        &old_spec.field("volumeMode"),
    );
    check_attributes_class_change(new, old, errs);
}

fn check_attributes_class_change(new: &At<'_>, old: &At<'_>, errs: &mut Errors) {
    let path = ["spec", "volumeAttributesClassName"];
    let class = new.at(&path);
    let current = old.at(&["status", "currentVolumeAttributesClassName"]);
    if class.value == old.at(&path).value || !current.is_set() {
        return;
    }
    if !class.is_set() {
        errs.forbidden(
            &class,
            "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
        );
    } else if class.is_empty() {
        errs.forbidden(&class, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil");
    }
}

fn check_claim_status(new: &At<'_>, errs: &mut Errors) {
    const STATES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
        "NodeResizePending",
    ];
    if new.at(&["spec", "accessModes"]).is_empty() {
        errs.push(FieldError::required(&Path::new("Spec").child("accessModes"), ""));
    }
    let status = new.field("status");
    for (_, amount) in status.field("capacity").entries() {
        resources::check_basic(&amount, errs);
    }
    let states = status.field("allocatedResourceStatuses");
    for (name, state) in states.entries() {
        check_claim_resource(&states, name, errs);
        if !STATES.contains(&state.text()) {
            errs.push(FieldError::not_supported(&states.path, name, &STATES));
        }
    }
    let allocated = status.field("allocatedResources");
    for (name, amount) in allocated.entries() {
        if check_claim_resource(&allocated, name, errs) {
            resources::check_basic(&amount, errs);
        }
    }
}

fn check_claim_resource(at: &At<'_>, name: &str, errs: &mut Errors) -> bool {
    let messages = names::qualified_name(name);
    errs.messages_for(at, name, &messages);
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    if messages.is_empty() && native && name != "storage" {
        errs.push(FieldError::not_supported(&at.path, name, &["storage"]));
        return false;
    }
    messages.is_empty()
}

/// The claim a StatefulSet's template turns into, as a volume of its pods.
pub(crate) fn volume_for_template(name: &str) -> Value {
    json!({"name": name, "persistentVolumeClaim": {"claimName": name}})
}

//! Volumes of a pod and the volume sources they share with persistent volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;
use regex::Regex;

use super::container::check_pull_policy;
use super::persistent::check_claim_template;
use super::projected::{check_downward_api, check_projected};
use super::resources::quantity;
use crate::validation::place::{At, Errors};

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

pub(crate) const ONE_TYPE_ONLY: &str = "may not specify more than 1 volume type";

const ISCSI_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// One kind of volume: its field, the names Kubernetes reports it under, and its check.
pub(crate) struct Source {
    pub(crate) field: &'static str,
    /// The name in "more than 1 volume type".
    pub(crate) surplus: &'static str,
    /// The name under which its own errors are reported.
    pub(crate) reported: &'static str,
    pub(crate) check: fn(&At<'_>, &mut Errors),
}

pub(crate) const fn source(field: &'static str, check: fn(&At<'_>, &mut Errors)) -> Source {
    Source { field, surplus: field, reported: field, check }
}

static SOURCES: [Source; 29] = [
    source("hostPath", check_host_path),
    source("gitRepo", check_git_repo),
    Source { reported: "persistentDisk", ..source("gcePersistentDisk", check_gce_disk) },
    source("awsElasticBlockStore", check_aws_disk),
    source("secret", check_secret),
    source("nfs", check_nfs),
    source("iscsi", check_iscsi),
    source("glusterfs", check_glusterfs),
    source("flocker", check_flocker),
    source("persistentVolumeClaim", check_claim),
    source("rbd", check_rbd),
    source("cinder", check_cinder),
    Source { surplus: "cephFS", ..source("cephfs", check_ceph) },
    source("quobyte", check_quobyte),
    Source { surplus: "downwarAPI", ..source("downwardAPI", check_downward_api) },
    source("fc", check_fibre_channel),
    source("flexVolume", check_flex),
    source("configMap", check_config_map),
    source("azureFile", check_azure_file),
    source("vsphereVolume", check_vsphere),
    source("photonPersistentDisk", check_photon),
    source("portworxVolume", check_portworx),
    source("azureDisk", check_azure_disk),
    source("storageos", check_storage_os),
    source("projected", check_projected),
    source("scaleIO", check_scale_io),
    source("csi", check_csi),
    source("ephemeral", check_ephemeral),
    source("image", check_image),
];

/// Checks the volumes of a pod and returns those without fault by name.
pub(crate) fn check<'a>(
    volumes: &At<'a>,
    pod_name: &str,
    is_pod: bool,
    errs: &mut Errors,
) -> BTreeMap<&'a str, At<'a>> {
    let mut sound = BTreeMap::new();
    let created: BTreeSet<String> = volumes
        .items()
        .filter(|volume| !pod_name.is_empty() && volume.field("ephemeral").is_set())
        .map(|volume| format!("{pod_name}-{}", volume.field("name").text()))
        .collect();
    for volume in volumes.items() {
        let mut own = Errors::default();
        check_volume(&volume, pod_name, is_pod, &mut own);
        let name = volume.field("name");
        if own.required_text(&name) {
            own.messages(&name, &names::dns1123_label(name.text()));
        }
        if sound.contains_key(name.text()) {
            own.duplicate(&name);
        }
        if own.is_empty() {
            sound.insert(name.text(), volume.clone());
        }
        errs.extend(own);
        let claim = volume.at(&["persistentVolumeClaim", "claimName"]);
        if created.contains(claim.text()) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errs.invalid_text(&claim, detail);
        }
    }
    sound
}

fn check_volume(volume: &At<'_>, pod_name: &str, is_pod: bool, errs: &mut Errors) {
    let name = volume.field("name");
    let empty_dir = volume.field("emptyDir");
    let mut found = empty_dir.is_set();
    let limit = empty_dir.field("sizeLimit");
    if quantity(&limit).is_some_and(|limit| limit.signum() < 0) {
        errs.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
    }
    for source in &SOURCES {
        let at = volume.renamed(source.field, source.reported);
        if !at.is_set() {
            continue;
        }
        if found {
            errs.forbidden(&volume.field(source.surplus), ONE_TYPE_ONLY);
        } else {
            found = true;
            if source.field == "image" && is_pod {
                errs.required_text(&at.field("reference"));
            }
            (source.check)(&at, errs);
            if source.field == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
                let claim = format!("{pod_name}-{}", name.text());
                for message in names::dns1123_subdomain(&claim) {
                    errs.invalid_text(&name, format!("PVC name \"{claim}\": {message}"));
                }
            }
        }
        if source.field == "iscsi"
            && at.field("initiatorName").is_set()
            && name.len() + 1 + at.field("targetPortal").len() > 64
        {
            errs.invalid_text(&name, ISCSI_TOO_LONG);
        }
    }
    if !found {
        errs.required(volume, "must specify a volume type");
    }
}

/// A path free of `..`.
pub(crate) fn check_no_backsteps(path: &At<'_>, errs: &mut Errors) {
    if path.text().split('/').any(|part| part == "..") {
        errs.invalid_text(path, "must not contain '..'");
    }
}

/// A relative path that stays below where it starts.
pub(crate) fn check_descending_path(path: &At<'_>, errs: &mut Errors) {
    check_descending_text(path, path.text(), errs);
}

pub(crate) fn check_descending_text(at: &At<'_>, path: &str, errs: &mut Errors) {
    if path.starts_with('/') {
        errs.invalid(at, path, "must be a relative path");
    }
    if path.split('/').any(|part| part == "..") {
        errs.invalid(at, path, "must not contain '..'");
    }
}

/// A descending path whose first name does not start with two dots.
pub(crate) fn check_unreserved_path(path: &At<'_>, errs: &mut Errors) {
    check_descending_path(path, errs);
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        errs.invalid_text(path, "must not start with '..'");
    }
}

pub(crate) fn check_mode(mode: &At<'_>, errs: &mut Errors) {
    if mode.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errs.invalid_int(mode, FILE_MODE);
    }
}

/// Fields that must be there and not empty.
pub(crate) fn check_required(at: &At<'_>, fields: &[&str], errs: &mut Errors) {
    for field in fields {
        if at.field(field).is_empty() {
            errs.required(&at.field(field), "");
        }
    }
}

pub(crate) fn check_host_path(at: &At<'_>, errs: &mut Errors) {
    let path = at.field("path");
    if !errs.required_text(&path) {
        return;
    }
    check_no_backsteps(&path, errs);
    errs.one_of(&at.field("type"), &HOST_PATH_TYPES);
}

fn check_git_repo(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["repository"], errs);
    check_descending_path(&at.field("directory"), errs);
}

pub(crate) fn check_gce_disk(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["pdName"], errs);
    check_partition(at, errs);
}

pub(crate) fn check_aws_disk(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["volumeID"], errs);
    check_partition(at, errs);
}

fn check_partition(at: &At<'_>, errs: &mut Errors) {
    let partition = at.field("partition");
    if !(0..=255).contains(&partition.int()) {
        errs.invalid_int(&partition, "must be between 1 and 255, inclusive");
    }
}

fn check_secret(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["secretName"], errs);
    check_keys(at, errs);
}

fn check_config_map(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["name"], errs);
    check_keys(at, errs);
}

fn check_keys(at: &At<'_>, errs: &mut Errors) {
    check_mode(&at.field("defaultMode"), errs);
    for item in at.field("items").items() {
        check_key_to_path(&item, errs);
    }
}

pub(crate) fn check_key_to_path(item: &At<'_>, errs: &mut Errors) {
    check_required(item, &["key", "path"], errs);
    check_unreserved_path(&item.field("path"), errs);
    check_mode(&item.field("mode"), errs);
}

pub(crate) fn check_nfs(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["server", "path"], errs);
    if !at.field("path").text().starts_with('/') {
        errs.invalid_text(&at.field("path"), "must be an absolute path");
    }
}

static IQN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"iqn\.\d{4}-\d{2}\.([[:alnum:]\-.]+)(:[^,;*&$|\s]+)$").expect("a constant pattern")
});

fn is_iscsi_name(name: &str) -> bool {
    let tail = |prefix: &str, length: usize| {
        name.strip_prefix(prefix).is_some_and(|rest| {
            rest.chars().count() == length + 1
                && rest.chars().skip(1).all(|c| c.is_ascii_alphanumeric())
        })
    };
    match name.get(..3) {
        Some("iqn") => IQN.is_match(name),
        Some("eui") => tail("eui", 16),
        Some("naa") => tail("naa", 32),
        _ => false,
    }
}

fn has_iscsi_prefix(name: &str) -> bool {
    ["iqn", "eui", "naa"].iter().any(|prefix| name.starts_with(prefix))
}

fn check_iscsi(at: &At<'_>, errs: &mut Errors) {
    check_iscsi_common(at, "must be valid format starting with iqn, eui, or naa", errs);
}

/// The iSCSI source of a persistent volume of the given name.
pub(crate) fn check_iscsi_persistent(at: &At<'_>, name: &str, errs: &mut Errors) {
    let portal = at.field("targetPortal");
    if at.field("initiatorName").is_set()
        && !portal.is_empty()
        && name.len() + 1 + portal.len() > 64
    {
        errs.invalid_text(&at.renamed("targetPortal", "targetportal"), ISCSI_TOO_LONG);
    }
    check_iscsi_common(at, "must be valid format", errs);
    if at.field("secretRef").is_set() {
        check_required(&at.field("secretRef"), &["name"], errs);
    }
}

fn check_iscsi_common(at: &At<'_>, unknown_prefix: &str, errs: &mut Errors) {
    check_required(at, &["targetPortal"], errs);
    let iqn = at.field("iqn");
    if errs.required_text(&iqn) {
        if !has_iscsi_prefix(iqn.text()) {
            errs.invalid_text(&iqn, unknown_prefix);
        } else if !is_iscsi_name(iqn.text()) {
            errs.invalid_text(&iqn, "must be valid format");
        }
    }
    errs.in_range(&at.field("lun"), 0, 255);
    let chap = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|f| at.field(f).is_true());
    if chap && !at.field("secretRef").is_set() {
        errs.required(&at.field("secretRef"), "");
    }
    let initiator = at.renamed("initiatorName", "initiatorname");
    if initiator.is_set() {
        if !has_iscsi_prefix(initiator.text()) {
            errs.invalid_text(&initiator, unknown_prefix);
        } else if !is_iscsi_name(initiator.text()) {
            errs.invalid_text(&initiator, "must be valid format");
        }
    }
}

pub(crate) fn check_glusterfs(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["endpoints", "path"], errs);
}

pub(crate) fn check_flocker(at: &At<'_>, errs: &mut Errors) {
    let (name, uuid) = (at.field("datasetName"), at.field("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errs.required(at, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errs.invalid(at, "resource", detail);
    }
    if name.text().contains('/') {
        errs.invalid_text(&name, "must not contain '/'");
    }
}

fn check_claim(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["claimName"], errs);
}

pub(crate) fn check_rbd(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["monitors", "image"], errs);
}

pub(crate) fn check_cinder(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["volumeID"], errs);
    if at.field("secretRef").is_set() {
        check_required(&at.field("secretRef"), &["name"], errs);
    }
}

pub(crate) fn check_ceph(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["monitors"], errs);
}

pub(crate) fn check_quobyte(at: &At<'_>, errs: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = at.field("registry");
    if registry.is_empty() {
        errs.required(&registry, PAIRS);
    } else if at.field("tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errs.required(&at.field("tenant"), detail);
    } else {
        for pair in registry.text().split(',') {
            if !is_host_port(pair) {
                errs.invalid_text(&registry, PAIRS);
            }
        }
    }
    check_required(at, &["volume"], errs);
}

fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.starts_with(':'),
        None => pair.matches(':').count() == 1,
    }
}

pub(crate) fn check_fibre_channel(at: &At<'_>, errs: &mut Errors) {
    let (targets, ids) = (at.field("targetWWNs"), at.field("wwids"));
    if targets.is_empty() && ids.is_empty() {
        errs.required(&targets, "must specify either targetWWNs or wwids, but not both");
    }
    if targets.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errs.invalid_value(&targets, detail);
    }
    let lun = at.field("lun");
    if lun.is_set() {
        errs.in_range(&lun, 0, 255);
    } else {
        errs.required(&lun, "lun is required if targetWWNs is specified");
    }
}

pub(crate) fn check_flex(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["driver"], errs);
    for (key, entry) in at.field("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let dotted = format!(".{}", namespace.to_lowercase());
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            errs.invalid(&entry, key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

pub(crate) fn check_azure_file(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["secretName", "shareName"], errs);
}

pub(crate) fn check_azure_disk(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["diskName", "diskURI"], errs);
    errs.one_of(&at.field("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    let (kind, uri) = (at.field("kind"), at.field("diskURI"));
    errs.one_of(&kind, &["Dedicated", "Managed", "Shared"]);
    let managed = kind.text() == "Managed";
    if kind.is_set() && managed && !uri.text().starts_with("/subscriptions/") {
        errs.unsupported(&uri, &["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"]);
    }
    if kind.is_set() && !managed && !uri.text().starts_with("https://") {
        errs.unsupported(
            &uri,
            &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"],
        );
    }
}

pub(crate) fn check_vsphere(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["volumePath"], errs);
}

pub(crate) fn check_photon(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["pdID"], errs);
}

pub(crate) fn check_portworx(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["volumeID"], errs);
}

pub(crate) fn check_scale_io(at: &At<'_>, errs: &mut Errors) {
    check_required(at, &["gateway", "system", "volumeName"], errs);
}

pub(crate) fn check_storage_os(at: &At<'_>, errs: &mut Errors) {
    let name = at.field("volumeName");
    if errs.required_text(&name) {
        errs.messages(&name, &names::dns1123_label(name.text()));
    }
    let namespace = at.field("volumeNamespace");
    if !namespace.is_empty() {
        errs.messages(&namespace, &names::dns1123_label(namespace.text()));
    }
    if at.field("secretRef").is_set() {
        check_required(&at.field("secretRef"), &["name"], errs);
    }
}

/// The name of a CSI driver: a subdomain in any case, at most 63 bytes.
pub(crate) fn check_driver_name(name: &At<'_>, errs: &mut Errors) {
    if !errs.required_text(name) {
        return;
    }
    if name.len() > 63 {
        errs.too_long(name, 63);
    }
    errs.messages(name, &names::dns1123_subdomain(&name.text().to_lowercase()));
}

fn check_csi(at: &At<'_>, errs: &mut Errors) {
    check_driver_name(&at.field("driver"), errs);
    let secret = at.field("nodePublishSecretRef");
    if !secret.is_set() {
        return;
    }
    let name = secret.field("name");
    if errs.required_text(&name) {
        let reported = name.reported_at(at.path.child("name"));
        errs.messages(&reported, &names::dns1123_subdomain(name.text()));
    }
}

fn check_ephemeral(at: &At<'_>, errs: &mut Errors) {
    let template = at.field("volumeClaimTemplate");
    if template.is_set() {
        check_claim_template(&template, errs);
    } else {
        errs.required(&template, "");
    }
}

fn check_image(at: &At<'_>, errs: &mut Errors) {
    check_pull_policy(&at.field("pullPolicy"), errs);
}

/// Reference to a secret in any namespace, as persistent volumes use it.
pub(crate) fn check_secret_reference(at: &At<'_>, errs: &mut Errors) {
    let name = at.field("name");
    if errs.required_text(&name) {
        errs.messages(&name, &names::dns1123_subdomain(name.text()));
    }
    let namespace = at.field("namespace");
    if errs.required_text(&namespace) {
        errs.messages(&namespace, &names::dns1123_label(namespace.text()));
    }
}

/// Two claims of one pod may not share a name, and each refers to exactly one thing.
pub(crate) fn check_resource_claims<'a>(claims: &At<'a>, errs: &mut Errors) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for claim in claims.items() {
        let name = claim.field("name");
        if name.is_empty() {
            errs.required(&name, "");
        } else if !seen.insert(name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        } else {
            errs.messages(&name, &names::dns1123_label(name.text()));
        }
        let (direct, template) =
            (claim.field("resourceClaimName"), claim.field("resourceClaimTemplateName"));
        if direct.is_set() && template.is_set() {
            errs.invalid_value(&claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified");
        }
        if !direct.is_set() && !template.is_set() {
            errs.invalid_value(
                &claim,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            );
        }
        for name in [direct, template].iter().filter(|name| name.is_set()) {
            errs.messages(name, &names::dns1123_subdomain(name.text()));
        }
    }
    seen
}

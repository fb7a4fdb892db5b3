//! Volumes nobody provides any more, claims with odd sizes, files that land on top of each other.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{Path, quote};
use karmada_apimachinery::object::ObjectExt as _;

use super::{Warnings, pod};

const SOURCES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The sources a persistent volume is warned about, in their order.
const VOLUME_SOURCES: [&str; 6] =
    ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];

fn source_warning(found: &mut Warnings, path: &Path, source: &str) {
    // Compat: the path spells this source as the Go field, not as the JSON one.
    let shown = if source == "storageos" { "storageOS" } else { source };
    if let Some((_, why)) = SOURCES.iter().find(|(name, _)| *name == source) {
        found.at(&path.child(shown), why);
    }
}

/// Volumes of a pod.
pub(super) fn sources(found: &mut Warnings, path: &Path, volumes: &[Value]) {
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        for (source, _) in SOURCES {
            if volume.get(*source).is_some_and(Value::is_object) {
                source_warning(found, &path, source);
            }
        }
        let template = path.child("ephemeral").child("volumeClaimTemplate").child("spec");
        claim_spec(found, &template, volume.at(&["ephemeral", "volumeClaimTemplate", "spec"]));
    }
    for volume in volumes {
        overlaps(found, volume);
    }
}

pub(super) fn volume(found: &mut Warnings, volume: &Value) {
    let annotations = Path::new("metadata").child("annotations");
    for (key, why) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            "volume.beta.kubernetes.io/mount-options",
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if volume.annotation(key).is_some() {
            found.at(&annotations.key(key), why);
        }
    }
    let spec = Path::new("spec");
    if volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == Some("Recycle") {
        found.at(&spec.child("persistentVolumeReclaimPolicy"), "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.");
    }
    let terms = volume.list_at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    let path = spec.child("nodeAffinity").child("required").child("nodeSelectorTerms");
    for (index, term) in terms.iter().enumerate() {
        pod::node_term(found, &path.index(index), term);
    }
    for source in VOLUME_SOURCES {
        if volume.at(&["spec", source]).is_some_and(Value::is_object) {
            source_warning(found, &spec, source);
        }
    }
}

pub(super) fn claim(found: &mut Warnings, claim: &Value) {
    const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    if claim.annotation(CLASS).is_some() {
        let path = Path::new("metadata").child("annotations").key(CLASS);
        found.at(&path, "deprecated since v1.8; use \"storageClassName\" attribute instead");
    }
    claim_spec(found, &Path::new("spec"), claim.get("spec"));
}

pub(super) fn claim_spec(found: &mut Warnings, path: &Path, spec: Option<&Value>) {
    let Some(spec) = spec else { return };
    for list in ["requests", "limits"] {
        let path = path.child("resources").child(list).key("storage");
        found.fractional_bytes(&path, spec.at(&["resources", list, "storage"]));
    }
}

pub(super) fn storage_class(found: &mut Warnings, class: &Value) {
    for (i, topology) in class.list_at(&["allowedTopologies"]).iter().enumerate() {
        let path = Path::new("allowedTopologies").index(i).child("matchLabelExpressions");
        for (j, term) in topology.list_at(&["matchLabelExpressions"]).iter().enumerate() {
            let key = term.str_at(&["key"]).unwrap_or_default();
            if let Some(why) = pod::deprecated_label(key) {
                found.at(&path.index(j).child("key"), why);
            }
        }
    }
}

/// A file a volume makes, and where it comes from.
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        let path = quote(&self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }

    fn collides(&self, other: &Self) -> bool {
        let (a, b) = (format!("{}/", self.path), format!("{}/", other.path));
        !self.path.is_empty() && !other.path.is_empty() && (a.starts_with(&b) || b.starts_with(&a))
    }
}

fn overlaps(found: &mut Warnings, volume: &Value) {
    let named =
        |source: &str, field: &str| quote(volume.str_at(&[source, field]).unwrap_or_default());
    for (source, described) in [
        ("configMap", format!("ConfigMap {}", named("configMap", "name"))),
        ("secret", format!("Secret {}", named("secret", "secretName"))),
        ("downwardAPI", "DownwardAPI".to_owned()),
    ] {
        let files = files(volume.list_at(&[source, "items"]), "");
        report(found, volume, &described, files);
    }
    let mut all = Vec::new();
    for source in volume.list_at(&["projected", "sources"]) {
        if source.as_object().is_some_and(|source| source.is_empty()) {
            let name = quote(volume.str_at(&["name"]).unwrap_or_default());
            found.add(format!("volume {name} (Projected) has no sources provided"));
        }
        all.extend(projected_files(source));
    }
    report(found, volume, "Projected", all);
}

fn files(items: &[Value], source: &str) -> Vec<File> {
    let path =
        |item: &Value| item.str_at(&["path"]).unwrap_or_default().trim_end_matches('/').to_owned();
    items.iter().map(|item| File { path: path(item), source: source.to_owned() }).collect()
}

fn projected_files(source: &Value) -> Vec<File> {
    for (key, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        if let Some(projection) = source.get(key).filter(|p| p.get("items").is_some()) {
            let name = quote(projection.str_at(&["name"]).unwrap_or_default());
            return files(projection.list_at(&["items"]), &format!("{kind} {name}"));
        }
    }
    if source.at(&["downwardAPI", "items"]).is_some() {
        return files(source.list_at(&["downwardAPI", "items"]), "DownwardAPI");
    }
    if let Some(token) = source.get("serviceAccountToken") {
        return files(std::slice::from_ref(token), "ServiceAccountToken");
    }
    if let Some(bundle) = source.get("clusterTrustBundle") {
        let name = bundle.str_at(&["name"]).or_else(|| bundle.str_at(&["signerName"]));
        let described = format!("ClusterTrustBundle {}", quote(name.unwrap_or_default()));
        return files(std::slice::from_ref(bundle), &described);
    }
    Vec::new()
}

fn report(found: &mut Warnings, volume: &Value, described: &str, files: Vec<File>) {
    let name = quote(volume.str_at(&["name"]).unwrap_or_default());
    for (index, file) in files.iter().enumerate() {
        for other in files[..index].iter().filter(|other| file.collides(other)) {
            found.add(format!(
                "volume {name} ({described}): overlapping paths: {} with {}",
                file.shown(),
                other.shown()
            ));
        }
    }
}

//! What volumes are made of, in pods and as PersistentVolumes, in words as kubectl 1.36 writes them.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::access;
use super::tabs::{Text, plain};

/// How the value of a field is shown, and what stands for one that is absent.
#[derive(Debug, Clone, Copy)]
enum Shown {
    Text,
    Flag,
    Number,
    /// `<none>` where it is absent.
    OrNone,
    /// `<unset>` where it is absent.
    OrUnset,
    /// `[a b]`.
    Words,
    /// `a, b`.
    Listed,
    /// `map[a:b]`.
    Options,
    /// Compat: the object as Go prints it; `nil` where it is absent.
    Reference,
}

/// A heading, the path of its field, and how that is shown.
type Detail = (&'static str, &'static [&'static str], Shown);

/// The field of a source, what it is in words, and what says which one it is.
type Source = (&'static str, &'static str, &'static [Detail]);

use Shown::{Flag, Listed, Number, Options, OrNone, OrUnset, Reference, Text as Plain, Words};

/// In the order in which a volume is looked at.
const SOURCES: &[Source] = &[
    (
        "hostPath",
        "HostPath (bare host directory volume)",
        &[("Path:", &["path"], Plain), ("HostPathType:", &["type"], OrNone)],
    ),
    (
        "emptyDir",
        "EmptyDir (a temporary directory that shares a pod's lifetime)",
        &[("Medium:", &["medium"], Plain), ("SizeLimit:", &["sizeLimit"], OrUnset)],
    ),
    (
        "gcePersistentDisk",
        "GCEPersistentDisk (a Persistent Disk resource in Google Compute Engine)",
        &[
            ("PDName:", &["pdName"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("Partition:", &["partition"], Number),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "awsElasticBlockStore",
        "AWSElasticBlockStore (a Persistent Disk resource in AWS)",
        &[
            ("VolumeID:", &["volumeID"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("Partition:", &["partition"], Number),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "gitRepo",
        "GitRepo (a volume that is pulled from git when the pod is created)",
        &[("Repository:", &["repository"], Plain), ("Revision:", &["revision"], Plain)],
    ),
    (
        "secret",
        "Secret (a volume populated by a Secret)",
        &[("SecretName:", &["secretName"], Plain), ("Optional:", &["optional"], Flag)],
    ),
    (
        "configMap",
        "ConfigMap (a volume populated by a ConfigMap)",
        &[("Name:", &["name"], Plain), ("Optional:", &["optional"], Flag)],
    ),
    (
        "nfs",
        "NFS (an NFS mount that lasts the lifetime of a pod)",
        &[
            ("Server:", &["server"], Plain),
            ("Path:", &["path"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "iscsi",
        "ISCSI (an ISCSI Disk resource that is attached to a kubelet's host machine and then exposed to the pod)",
        &[
            ("TargetPortal:", &["targetPortal"], Plain),
            ("IQN:", &["iqn"], Plain),
            ("Lun:", &["lun"], Number),
            // Compat: this one has no colon.
            ("ISCSIInterface", &["iscsiInterface"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
            ("Portals:", &["portals"], Words),
            ("DiscoveryCHAPAuth:", &["chapAuthDiscovery"], Flag),
            ("SessionCHAPAuth:", &["chapAuthSession"], Flag),
            ("SecretRef:", &["secretRef"], Reference),
            ("InitiatorName:", &["initiatorName"], OrNone),
        ],
    ),
    (
        "glusterfs",
        "Glusterfs (a Glusterfs mount on the host that shares a pod's lifetime)",
        &[
            ("EndpointsName:", &["endpoints"], Plain),
            ("Path:", &["path"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "persistentVolumeClaim",
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        &[("ClaimName:", &["claimName"], Plain), ("ReadOnly:", &["readOnly"], Flag)],
    ),
    (
        "ephemeral",
        "EphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)",
        &[],
    ),
    (
        "rbd",
        "RBD (a Rados Block Device mount on the host that shares a pod's lifetime)",
        &[
            ("CephMonitors:", &["monitors"], Words),
            ("RBDImage:", &["image"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("RBDPool:", &["pool"], Plain),
            ("RadosUser:", &["user"], Plain),
            ("Keyring:", &["keyring"], Plain),
            ("SecretRef:", &["secretRef"], Reference),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "quobyte",
        "Quobyte (a Quobyte mount on the host that shares a pod's lifetime)",
        &[
            ("Registry:", &["registry"], Plain),
            ("Volume:", &["volume"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    ("downwardAPI", "DownwardAPI (a volume populated by information about the pod)", &[]),
    (
        "azureDisk",
        "AzureDisk (an Azure Data Disk mount on the host and bind mount to the pod)",
        &[
            ("DiskName:", &["diskName"], Plain),
            ("DiskURI:", &["diskURI"], Plain),
            // Compat: the blank behind the colon.
            ("Kind: ", &["kind"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("CachingMode:", &["cachingMode"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "vsphereVolume",
        "vSphereVolume (a Persistent Disk resource in vSphere)",
        &[
            ("VolumePath:", &["volumePath"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("StoragePolicyName:", &["storagePolicyName"], Plain),
        ],
    ),
    (
        "cinder",
        "Cinder (a Persistent Disk resource in OpenStack)",
        &[
            ("VolumeID:", &["volumeID"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
            ("SecretRef:", &["secretRef"], Reference),
        ],
    ),
    (
        "photonPersistentDisk",
        "PhotonPersistentDisk (a Persistent Disk resource in photon platform)",
        &[("PdID:", &["pdID"], Plain), ("FSType:", &["fsType"], Plain)],
    ),
    (
        "portworxVolume",
        "PortworxVolume (a Portworx Volume resource)",
        &[("VolumeID:", &["volumeID"], Plain)],
    ),
    (
        "scaleIO",
        "ScaleIO (a persistent volume backed by a block device in ScaleIO)",
        &[
            ("Gateway:", &["gateway"], Plain),
            ("System:", &["system"], Plain),
            ("Protection Domain:", &["protectionDomain"], Plain),
            ("Storage Pool:", &["storagePool"], Plain),
            ("Storage Mode:", &["storageMode"], Plain),
            ("VolumeName:", &["volumeName"], Plain),
            ("SecretName:", &["secretRef", "name"], Plain),
            ("SecretNamespace:", &["secretRef", "namespace"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "local",
        "LocalVolume (a persistent volume backed by local storage on a node)",
        &[("Path:", &["path"], Plain)],
    ),
    (
        "cephfs",
        "CephFS (a CephFS mount on the host that shares a pod's lifetime)",
        &[
            ("Monitors:", &["monitors"], Words),
            ("Path:", &["path"], Plain),
            ("User:", &["user"], Plain),
            ("SecretFile:", &["secretFile"], Plain),
            ("SecretRef:", &["secretRef"], Reference),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "storageos",
        "StorageOS (a StorageOS Persistent Disk resource)",
        &[
            ("VolumeName:", &["volumeName"], Plain),
            ("VolumeNamespace:", &["volumeNamespace"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "fc",
        "FC (a Fibre Channel disk)",
        &[
            ("TargetWWNs:", &["targetWWNs"], Listed),
            ("LUN:", &["lun"], OrNone),
            ("FSType:", &["fsType"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "azureFile",
        "AzureFile (an Azure File Service mount on the host and bind mount to the pod)",
        &[
            ("SecretName:", &["secretName"], Plain),
            ("SecretNamespace:", &["secretNamespace"], Plain),
            ("ShareName:", &["shareName"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "flexVolume",
        "FlexVolume (a generic volume resource that is provisioned/attached using an exec based plugin)",
        &[
            ("Driver:", &["driver"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("SecretRef:", &["secretRef"], Reference),
            ("ReadOnly:", &["readOnly"], Flag),
            ("Options:", &["options"], Options),
        ],
    ),
    (
        "flocker",
        "Flocker (a Flocker volume mounted by the Flocker agent)",
        &[("DatasetName:", &["datasetName"], Plain), ("DatasetUUID:", &["datasetUUID"], Plain)],
    ),
    ("projected", "Projected (a volume that contains injected data from multiple sources)", &[]),
    (
        "csi",
        "CSI (a Container Storage Interface (CSI) volume source)",
        &[
            ("Driver:", &["driver"], Plain),
            ("FSType:", &["fsType"], Plain),
            ("VolumeHandle:", &["volumeHandle"], Plain),
            ("ReadOnly:", &["readOnly"], Flag),
        ],
    ),
    (
        "image",
        "Image (a container image or OCI artifact)",
        &[("Reference:", &["reference"], Plain), ("PullPolicy:", &["pullPolicy"], Plain)],
    ),
];

/// Who holds a source. Some say more of it in a PersistentVolume than in a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Pod,
    PersistentVolume,
}

/// Headings only PersistentVolumes have.
const OF_VOLUMES: [(&str, &str); 4] = [
    ("scaleIO", "SecretName:"),
    ("scaleIO", "SecretNamespace:"),
    ("azureFile", "SecretNamespace:"),
    ("csi", "VolumeHandle:"),
];

/// Writes what a volume is made of.
pub(super) fn source(out: &mut Text, volume: &Value, holder: Holder) {
    let Some((field, kind, details)) =
        SOURCES.iter().find(|(field, ..)| volume.get(field).is_some())
    else {
        return out.line(1, "<unknown>");
    };
    let own = volume.get(field).unwrap_or(&Value::Null);
    out.field(2, "Type", kind);
    for (heading, path, shown) in *details {
        let of_volumes = OF_VOLUMES.contains(&(field, heading));
        if of_volumes && holder == Holder::Pod {
            continue;
        }
        out.line(2, &format!("{heading}\t{}", show(own.at(path), *shown, holder)));
        if *field == "glusterfs" && *heading == "EndpointsName:" && holder != Holder::Pod {
            let namespace = own.str_at(&["endpointsNamespace"]).unwrap_or("<unset>");
            out.line(2, &format!("EndpointsNamespace:\t{namespace}"));
        }
    }
    match *field {
        "projected" => projected(out, own.list_at(&["sources"])),
        "downwardAPI" => downward(out, own.list_at(&["items"])),
        "ephemeral" => {
            if let Some(claim) = own.at(&["volumeClaimTemplate"]) {
                access::claim_template(out, claim);
            }
        }
        "csi" => {
            // Compat: these are indented once more.
            let attributes = own.map_at(&["volumeAttributes"]).into_iter().flatten();
            let pairs: Vec<String> =
                attributes.map(|(key, value)| format!("    {key}={}", plain(value))).collect();
            out.many(2, "VolumeAttributes", &pairs);
        }
        _ => {}
    }
}

fn show(value: Option<&Value>, shown: Shown, holder: Holder) -> String {
    let words = || -> Vec<String> {
        value.and_then(Value::as_array).into_iter().flatten().map(plain).collect()
    };
    let or = |absent: &str| value.map_or_else(|| absent.to_owned(), plain);
    match shown {
        Shown::Text => or(""),
        Shown::Flag => or("false"),
        Shown::Number => or("0"),
        Shown::OrNone => or("<none>"),
        Shown::OrUnset => or("<unset>"),
        Shown::Words => format!("[{}]", words().join(" ")),
        Shown::Listed => words().join(", "),
        Shown::Options => {
            let pairs = value.and_then(Value::as_object).into_iter().flatten();
            let pairs: Vec<String> =
                pairs.map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        Shown::Reference => {
            let Some(value) = value else { return "nil".to_owned() };
            let part = |field: &str| value.str_at(&[field]).unwrap_or_default();
            match holder {
                Holder::Pod => format!("&LocalObjectReference{{Name:{},}}", part("name")),
                Holder::PersistentVolume => format!(
                    "&SecretReference{{Name:{},Namespace:{},}}",
                    part("name"),
                    part("namespace")
                ),
            }
        }
    }
}

/// What a projected volume is made of.
fn projected(out: &mut Text, sources: &[Value]) {
    for source in sources {
        let optional =
            |field: &str| source.bool_at(&[field, "optional"]).unwrap_or_default().to_string();
        for (field, heading) in [("secret", "SecretName"), ("configMap", "ConfigMapName")] {
            if source.at(&[field]).is_some() {
                out.field(2, heading, source.str_at(&[field, "name"]).unwrap_or_default());
                out.field(2, "Optional", optional(field));
            }
        }
        if source.at(&["downwardAPI"]).is_some() {
            out.field(2, "DownwardAPI", "true");
        }
        if let Some(seconds) = source.i64_at(&["serviceAccountToken", "expirationSeconds"]) {
            out.field(2, "TokenExpirationSeconds", seconds.to_string());
        }
    }
}

/// `metadata.labels -> labels`.
fn downward(out: &mut Text, items: &[Value]) {
    out.line(2, "Items:");
    for item in items {
        let path = item.str_at(&["path"]).unwrap_or_default();
        for from in [["fieldRef", "fieldPath"], ["resourceFieldRef", "resource"]] {
            if let Some(what) = item.str_at(&from) {
                out.line(3, &format!("{what} -> {path}"));
            }
        }
    }
}

/// The volumes of a pod or of a template of pods.
pub(super) fn list(out: &mut Text, spec: &Value, level: usize) {
    let volumes = spec.list_at(&["volumes"]);
    if volumes.is_empty() {
        return out.field(level, "Volumes", "");
    }
    out.line(level, "Volumes:");
    for volume in volumes {
        // Compat: a blank more where the list itself is indented.
        let indent = if level > 0 { " " } else { "" };
        out.line(1, &format!("{indent}{}:", volume.str_at(&["name"]).unwrap_or_default()));
        source(out, volume, Holder::Pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn a_source_says_what_its_holder_says() {
        let volume =
            json!({"scaleIO": {"gateway": "g", "secretRef": {"name": "s", "namespace": "d"}}});
        let text = |holder| {
            let mut out = Text::default();
            source(&mut out, &volume, holder);
            out.align()
        };
        let of_volume = text(Holder::PersistentVolume);
        assert!(of_volume.contains("    SecretName:         s\n"), "{of_volume}");
        assert!(!text(Holder::Pod).contains("SecretName"));
        let reference = json!({"rbd": {"monitors": ["a", "b"], "secretRef": {"name": "s"}}});
        let mut out = Text::default();
        source(&mut out, &reference, Holder::Pod);
        let text = out.align();
        for line in ["CephMonitors:  [a b]", "SecretRef:     &LocalObjectReference{Name:s,}"] {
            assert!(text.contains(line), "no {line:?} in\n{text}");
        }
        let mut out = Text::default();
        source(&mut out, &json!({"never": {}}), Holder::Pod);
        assert_eq!(out.align(), "  <unknown>\n");
    }
}

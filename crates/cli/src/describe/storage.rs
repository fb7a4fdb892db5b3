//! Volumes and what they are made by, in words as kubectl 1.36 writes them.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::access::{modes, storage_class};
use super::tabs::{Text, on_one_line, plain};
use super::volumes::{self, Holder};
use super::{moment, terminating};

pub(super) fn volume(object: &Value) -> Text {
    let mut out = Text::default();
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    let list = |path: &[&str], by: &str| -> String {
        object.list_at(path).iter().map(plain).collect::<Vec<_>>().join(by)
    };
    out.line(0, &format!("Finalizers:\t[{}]", list(&["metadata", "finalizers"], " ")));
    out.line(0, &format!("StorageClass:\t{}", storage_class(object)));
    let phase = match object.is_being_deleted() {
        true => terminating(object),
        false => text(&["status", "phase"]).to_owned(),
    };
    out.line(0, &format!("Status:\t{phase}"));
    let claim = object.at(&["spec", "claimRef"]).map(|claim| {
        let part = |field| claim.str_at(&[field]).unwrap_or_default();
        format!("{}/{}", part("namespace"), part("name"))
    });
    out.line(0, &format!("Claim:\t{}", claim.unwrap_or_default()));
    let policy = text(&["spec", "persistentVolumeReclaimPolicy"]);
    out.line(0, &format!("Reclaim Policy:\t{policy}"));
    out.line(0, &format!("Access Modes:\t{}", modes(object.list_at(&["spec", "accessModes"]))));
    out.field_if_any(0, "VolumeMode", object.str_at(&["spec", "volumeMode"]));
    let capacity = object.at(&["spec", "capacity", "storage"]).map_or("0".to_owned(), plain);
    out.line(0, &format!("Capacity:\t{capacity}"));
    node_affinity(&mut out, object);
    out.line(0, &format!("Message:\t{}", text(&["status", "message"])));
    out.line(0, "Source:");
    volumes::source(
        &mut out,
        object.at(&["spec"]).unwrap_or(&Value::Null),
        Holder::PersistentVolume,
    );
    out
}

fn node_affinity(out: &mut Text, volume: &Value) {
    let Some(required) = volume.at(&["spec", "nodeAffinity", "required"]) else {
        return out.field(0, "Node Affinity", "");
    };
    out.line(0, "Node Affinity:\t");
    let terms = required.list_at(&["nodeSelectorTerms"]);
    if terms.is_empty() {
        return out.field(1, "Required Terms", "");
    }
    out.line(1, "Required Terms:\t");
    for (place, term) in terms.iter().enumerate() {
        let wanted: Vec<String> =
            term.list_at(&["matchExpressions"]).iter().map(expression).collect();
        out.many(2, &format!("Term {place}"), &wanted);
    }
}

/// `zone in [a, b]`.
fn expression(expression: &Value) -> String {
    let part = |field| expression.str_at(&[field]).unwrap_or_default();
    let operator = match part("operator") {
        "" => "in".to_owned(),
        operator => operator.to_lowercase(),
    };
    let values: Vec<String> = expression.list_at(&["values"]).iter().map(plain).collect();
    match values.is_empty() {
        true => format!("{} {operator}", part("key")),
        false => format!("{} {operator} [{}]", part("key"), values.join(", ")),
    }
}

pub(super) fn class(object: &Value) -> Text {
    const DEFAULT: [&str; 2] = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    let is_default = DEFAULT.iter().any(|key| object.annotation(key) == Some("true"));
    out.field(0, "IsDefaultClass", if is_default { "Yes" } else { "No" });
    out.field(0, "Annotations", on_one_line(object.map_at(&["metadata", "annotations"])));
    out.line(0, &format!("Provisioner:\t{}", object.str_at(&["provisioner"]).unwrap_or_default()));
    out.field(0, "Parameters", on_one_line(object.map_at(&["parameters"])));
    let expands = object.bool_at(&["allowVolumeExpansion"]);
    let expands = expands.map(|on| if on { "True" } else { "False" });
    out.field(0, "AllowVolumeExpansion", expands.unwrap_or("<unset>"));
    let options = object.list_at(&["mountOptions"]);
    if options.is_empty() {
        out.field(0, "MountOptions", "");
    } else {
        out.line(0, "MountOptions:");
        options.iter().for_each(|option| out.line(1, &plain(option)));
    }
    out.field_if_any(0, "ReclaimPolicy", object.str_at(&["reclaimPolicy"]));
    out.field_if_any(0, "VolumeBindingMode", object.str_at(&["volumeBindingMode"]));
    if object.at(&["allowedTopologies"]).is_some() {
        out.line(0, "AllowedTopologies:\t");
        for (place, term) in object.list_at(&["allowedTopologies"]).iter().enumerate() {
            let wanted = term.list_at(&["matchLabelExpressions"]).iter();
            let wanted: Vec<String> = wanted.map(expression).collect();
            out.many(1, &format!("Term {place}"), &wanted);
        }
    }
    out
}

pub(super) fn attributes_class(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Annotations", on_one_line(object.map_at(&["metadata", "annotations"])));
    out.field(0, "DriverName", object.str_at(&["driverName"]).unwrap_or_default());
    out.field(0, "Parameters", on_one_line(object.map_at(&["parameters"])));
    out
}

/// The drivers of a node.
pub(super) fn node_drivers(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    let created = moment(object, &["metadata", "creationTimestamp"]);
    out.field(0, "CreationTimestamp", created.unwrap_or_default());
    out.line(0, "Spec:");
    let drivers = object.list_at(&["spec", "drivers"]);
    if object.at(&["spec", "drivers"]).is_some() {
        out.line(1, "Drivers:");
    }
    for driver in drivers {
        out.line(2, &format!("{}:", driver.str_at(&["name"]).unwrap_or_default()));
        out.field(3, "Node ID", driver.str_at(&["nodeID"]).unwrap_or_default());
        if let Some(count) = driver.i64_at(&["allocatable", "count"]) {
            out.line(3, "Allocatables:");
            out.field(4, "Count", count.to_string());
        }
        if driver.at(&["topologyKeys"]).is_some_and(Value::is_array) {
            let keys: Vec<String> = driver.list_at(&["topologyKeys"]).iter().map(plain).collect();
            out.field(3, "Topology Keys", format!("[{}]", keys.join(" ")));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn volumes_and_classes_read_as_kubectl_shows_them() {
        let disk = json!({
            "metadata": {"name": "disk", "finalizers": ["kubernetes.io/pv-protection"]},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast", "local": {"path": "/mnt"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}},
            "status": {"phase": "Available"}});
        let expected = "\
Name:              disk
Labels:            <none>
Annotations:       <none>
Finalizers:        [kubernetes.io/pv-protection]
StorageClass:      fast
Status:            Available
Claim:             \n\
Reclaim Policy:    Retain
Access Modes:      RWO
VolumeMode:        Filesystem
Capacity:          1Gi
Node Affinity:     \n  Required Terms:  \n    Term 0:        zone in [a, b]
Message:           \n\
Source:
    Type:  LocalVolume (a persistent volume backed by local storage on a node)
    Path:  /mnt
";
        assert_eq!(volume(&disk).align(), expected);
        let fast = json!({
            "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "example.com/disk", "parameters": {"type": "ssd"}, "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate", "mountOptions": ["noatime"]});
        let expected = "\
Name:                  fast
IsDefaultClass:        Yes
Annotations:           storageclass.kubernetes.io/is-default-class=true
Provisioner:           example.com/disk
Parameters:            type=ssd
AllowVolumeExpansion:  <unset>
MountOptions:
  noatime
ReclaimPolicy:      Delete
VolumeBindingMode:  Immediate
";
        assert_eq!(class(&fast).align(), expected);
    }
}

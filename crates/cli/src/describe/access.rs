//! ServiceAccounts, bindings of roles and claims of volumes in words, as kubectl 1.36 writes them.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::ListOptions;

use super::tabs::{Text, plain};
use crate::context::Server;

pub(super) fn service_account(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    let secrets = object.list_at(&["imagePullSecrets"]).iter();
    let secrets: Vec<String> =
        secrets.filter_map(|secret| secret.str_at(&["name"]).map(str::to_owned)).collect();
    out.many(0, "Image pull secrets", &secrets);
    out
}

/// RoleBindings and ClusterRoleBindings.
pub(super) fn role_binding(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.line(0, "Role:");
    for (heading, field) in [("Kind", "kind"), ("Name", "name")] {
        out.field(1, heading, object.str_at(&["roleRef", field]).unwrap_or_default());
    }
    out.line(0, "Subjects:");
    out.line(1, "Kind\tName\tNamespace");
    out.line(1, "----\t----\t---------");
    for subject in object.list_at(&["subjects"]) {
        let part = |field: &str| subject.str_at(&[field]).unwrap_or_default();
        out.line(1, &format!("{}\t{}\t{}", part("kind"), part("name"), part("namespace")));
    }
    out
}

/// The pods that mount a claim.
pub(super) async fn users_of(server: &Server, claim: &Value) -> Vec<String> {
    let pods = server.client.api(&Gvr::new("", "v1", "pods")).namespaced(claim.namespace());
    let pods =
        pods.list_all(&ListOptions::default()).await.map(|list| list.items).unwrap_or_default();
    let mounts = |pod: &Value| {
        let named = ["persistentVolumeClaim", "claimName"];
        let mut volumes = pod.list_at(&["spec", "volumes"]).iter();
        volumes.any(|volume| volume.str_at(&named) == Some(claim.name()))
    };
    let users = pods.iter().filter(|pod| mounts(&pod.value()));
    users.map(|pod| pod.name().to_owned()).collect()
}

pub(super) fn volume_claim(object: &Value, users: &[String]) -> Text {
    let mut out = Text::default();
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    out.line(0, &format!("StorageClass:\t{}", storage_class(object)));
    let phase = match object.is_being_deleted() {
        true => super::terminating(object),
        false => text(&["status", "phase"]).to_owned(),
    };
    out.line(0, &format!("Status:\t{phase}"));
    out.line(0, &format!("Volume:\t{}", text(&["spec", "volumeName"])));
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    let finalizers: Vec<String> =
        object.list_at(&["metadata", "finalizers"]).iter().map(plain).collect();
    out.line(0, &format!("Finalizers:\t[{}]", finalizers.join(" ")));
    claimed(&mut out, object, 0);
    out.many(0, "Used By", users);
    let conditions = object.list_at(&["status", "conditions"]);
    if !conditions.is_empty() {
        out.line(0, "Conditions:");
        out.line(1, "Type\tStatus\tLastProbeTime\tLastTransitionTime\tReason\tMessage");
        out.line(1, "----\t------\t-----------------\t------------------\t------\t-------");
    }
    for condition in conditions {
        let part = |field: &str| condition.str_at(&[field]).unwrap_or_default();
        let at = |field| super::moment(condition, &[field]).unwrap_or_else(|| NEVER.to_owned());
        // Compat: the blanks behind all but the last.
        out.line(
            1,
            &format!(
                "{} \t{} \t{} \t{} \t{} \t{}",
                part("type"),
                part("status"),
                at("lastProbeTime"),
                at("lastTransitionTime"),
                part("reason"),
                part("message")
            ),
        );
    }
    out
}

/// Compat: a moment nobody noted is the first of all.
pub(super) const NEVER: &str = "Mon, 01 Jan 0001 00:00:00 +0000";

/// The class of a volume or a claim; long ago it was an annotation.
pub(super) fn storage_class(object: &Value) -> &str {
    let old = object.annotation("volume.beta.kubernetes.io/storage-class");
    old.or_else(|| object.str_at(&["spec", "storageClassName"])).unwrap_or_default()
}

/// What a claim has got, and from where it was filled.
fn claimed(out: &mut Text, claim: &Value, level: usize) {
    let is_bound = claim.str_at(&["spec", "volumeName"]).is_some_and(|name| !name.is_empty());
    let capacity = claim.at(&["status", "capacity", "storage"]).map_or("0".to_owned(), plain);
    let capacity = if is_bound { capacity } else { String::new() };
    out.line(level, &format!("Capacity:\t{capacity}"));
    let modes = modes(claim.list_at(&["status", "accessModes"]));
    out.line(level, &format!("Access Modes:\t{}", if is_bound { modes } else { String::new() }));
    out.field_if_any(level, "VolumeMode", claim.str_at(&["spec", "volumeMode"]));
    if let Some(source) = claim.at(&["spec", "dataSource"]) {
        out.line(level, "DataSource:");
        for (heading, field) in [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")] {
            out.field_if_any(level + 1, heading, source.str_at(&[field]));
        }
    }
}

/// The claim a pod brings with it.
pub(super) fn claim_template(out: &mut Text, claim: &Value) {
    out.line(2, &format!("StorageClass:\t{}", storage_class(claim)));
    out.line(2, &format!("Volume:\t{}", claim.str_at(&["spec", "volumeName"]).unwrap_or_default()));
    for (heading, field, by) in [("Labels", "labels", "="), ("Annotations", "annotations", ": ")] {
        let pairs = claim.map_at(&["metadata", field]).into_iter().flatten();
        let mut pairs: Vec<String> = pairs
            .flat_map(|(key, value)| super::pair(key, value.as_str().unwrap_or_default(), by))
            .collect();
        if pairs.is_empty() {
            pairs.push("<none>".to_owned());
        }
        // Compat: these are indented once more.
        let pairs: Vec<String> = pairs.iter().map(|pair| format!("    {pair}")).collect();
        out.many(2, heading, &pairs);
    }
    claimed(out, claim, 2);
}

/// `RWO,RWX`.
pub(super) fn modes(modes: &[Value]) -> String {
    modes.iter().map(short).collect::<Vec<_>>().join(",")
}

/// `ReadWriteOnce` as `RWO`.
fn short(mode: &Value) -> &'static str {
    match mode.as_str().unwrap_or_default() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn bindings_accounts_and_claims_read_as_kubectl_shows_them() {
        let binding = json!({
            "metadata": {"name": "reading", "namespace": "default"},
            "roleRef": {"kind": "Role", "name": "reader"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
                {"kind": "User", "name": "ada"}]});
        let expected = "\
Name:         reading
Labels:       <none>
Annotations:  <none>
Role:
  Kind:  Role
  Name:  reader
Subjects:
  Kind            Name   Namespace
  ----            ----   ---------
  ServiceAccount  robot  default
  User            ada    \n";
        assert_eq!(role_binding(&binding).align(), expected);

        let account = json!({"metadata": {"name": "robot", "namespace": "default"}});
        let expected = "\
Name:                robot
Namespace:           default
Labels:              <none>
Annotations:         <none>
Image pull secrets:  <none>
";
        assert_eq!(service_account(&account).align(), expected);

        let claim = json!({
            "metadata": {
                "name": "data-db-0", "namespace": "default", "labels": {"app": "db"},
                "finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {"storageClassName": "standard", "volumeName": "pvc-1", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
        let expected = "\
Name:          data-db-0
Namespace:     default
StorageClass:  standard
Status:        Bound
Volume:        pvc-1
Labels:        app=db
Annotations:   <none>
Finalizers:    [kubernetes.io/pvc-protection]
Capacity:      1Gi
Access Modes:  RWO
VolumeMode:    Filesystem
Used By:       db-0
";
        assert_eq!(volume_claim(&claim, &["db-0".to_owned()]).align(), expected);
    }
}

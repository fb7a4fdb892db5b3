//! Built-in admission steps as functions of the object they change and of what they look up. A
//! refusal is the reason after `pods "x" is forbidden:`; which steps run is the server's choice.

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};

const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const TOKEN_VOLUME: &str = "kube-api-access-";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The service account a new pod runs as; looked up by the server for [`service_account`].
pub fn service_account_name(pod: &Value) -> &str {
    let name = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default();
    if name.is_empty() { "default" } else { name }
}

/// Lets a new pod act as its service account: names it, mounts its token, takes over its pull
/// secrets. `account` is the stored ServiceAccount, `suffix` five random characters.
pub fn service_account(
    pod: &mut Value,
    account: Option<&Value>,
    suffix: &str,
) -> Result<(), String> {
    if pod.annotation(MIRROR).is_some() {
        return check_mirror(pod);
    }
    let name = service_account_name(pod).to_owned();
    let Some(account) = account else {
        let namespace = pod.namespace();
        return Err(format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        ));
    };
    pod.set(&["spec", "serviceAccountName"], name.as_str());
    pod.set(&["spec", "serviceAccount"], name);
    let automount = pod
        .bool_at(&["spec", "automountServiceAccountToken"])
        .or_else(|| account.bool_at(&["automountServiceAccountToken"]));
    if automount != Some(false) {
        mount_token(pod, suffix);
    }
    let secrets = account.list_at(&["imagePullSecrets"]);
    if pod.list_at(&["spec", "imagePullSecrets"]).is_empty() && !secrets.is_empty() {
        let names = secrets.iter().map(|secret| json!({"name": secret.get("name")}));
        pod.set(&["spec", "imagePullSecrets"], names.collect::<Vec<_>>());
    }
    if account.annotation("kubernetes.io/enforce-mountable-secrets") == Some("true") {
        return check_secrets(pod, account);
    }
    Ok(())
}

/// A mirror of a node's own pod has no identity in the cluster.
fn check_mirror(pod: &Value) -> Result<(), String> {
    if !pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default().is_empty() {
        return Err("a mirror pod may not reference service accounts".into());
    }
    for volume in pod.list_at(&["spec", "volumes"]) {
        if volume.get("secret").is_some() {
            return Err("a mirror pod may not reference secrets".into());
        }
        let sources = volume.list_at(&["projected", "sources"]);
        if sources.iter().any(|source| source.get("serviceAccountToken").is_some()) {
            return Err("a mirror pod may not use ServiceAccountToken volume projections".into());
        }
    }
    Ok(())
}

fn mount_token(pod: &mut Value, suffix: &str) {
    let existing = pod
        .list_at(&["spec", "volumes"])
        .iter()
        .filter_map(|volume| volume.str_at(&["name"]))
        .find(|name| name.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| format!("{TOKEN_VOLUME}{suffix}"));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in pod.list_at_mut(&["spec", list]) {
            let mut mounts = container.list_at(&["volumeMounts"]).to_vec();
            if mounts.iter().any(|mount| mount.str_at(&["mountPath"]) == Some(TOKEN_MOUNT)) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_MOUNT}));
            container.set(&["volumeMounts"], mounts);
            mounted = true;
        }
    }
    if mounted && existing.is_none() {
        let mut volumes = pod.list_at(&["spec", "volumes"]).to_vec();
        volumes.push(json!({"name": name, "projected": token_source()}));
        pod.set(&["spec", "volumes"], volumes);
    }
}

fn token_source() -> Value {
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({
        "defaultMode": 0o644,
        "sources": [
            // Seven seconds over the hour tell this token from one a user asked for.
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {
                "name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }},
            {"downwardAPI": {"items": [{"fieldRef": namespace, "path": "namespace"}]}},
        ],
    })
}

/// An account may be limited to the secrets it lists.
fn check_secrets(pod: &Value, account: &Value) -> Result<(), String> {
    let owner = account.name();
    let lists = |list: &str, secret: &str| {
        account.list_at(&[list]).iter().any(|entry| entry.str_at(&["name"]) == Some(secret))
    };
    let refuse = |what: String, kind: &str| {
        Err(format!(
            "{what} is not allowed because service account {owner} does not reference that {kind}"
        ))
    };
    for volume in pod.list_at(&["spec", "volumes"]) {
        if let Some(secret) = volume.str_at(&["secret", "secretName"])
            && !lists("secrets", secret)
        {
            return refuse(format!("volume with secret.secretName=\"{secret}\""), "secret");
        }
    }
    for (list, role) in [("initContainers", "init container"), ("containers", "container")] {
        for container in pod.list_at(&["spec", list]) {
            let name = container.str_at(&["name"]).unwrap_or_default();
            for variable in container.list_at(&["env"]) {
                if let Some(secret) = variable.str_at(&["valueFrom", "secretKeyRef", "name"])
                    && !lists("secrets", secret)
                {
                    let variable = variable.str_at(&["name"]).unwrap_or_default();
                    let what = format!(
                        "{role} {name} with envVar {variable} referencing secret.secretName=\"{secret}\""
                    );
                    return refuse(what, "secret");
                }
            }
            for source in container.list_at(&["envFrom"]) {
                if let Some(secret) = source.str_at(&["secretRef", "name"])
                    && !lists("secrets", secret)
                {
                    let what = format!(
                        "{role} {name} with envFrom referencing secret.secretName=\"{secret}\""
                    );
                    return refuse(what, "secret");
                }
            }
        }
    }
    for (index, secret) in pod.list_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
        let secret = secret.str_at(&["name"]).unwrap_or_default();
        if !lists("imagePullSecrets", secret) {
            return refuse(
                format!("imagePullSecrets[{index}].name=\"{secret}\""),
                "imagePullSecret",
            );
        }
    }
    Ok(())
}

/// Lets a pod stay five minutes on a node that is lost, unless it says otherwise.
pub fn default_tolerations(pod: &mut Value) {
    const PLACE: &[&str] = &["spec", "tolerations"];
    let given = pod.list_at(PLACE).to_vec();
    let mut tolerations = given.clone();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = given.iter().any(|toleration| {
            ["", key].contains(&toleration.str_at(&["key"]).unwrap_or_default())
                && ["", "NoExecute"].contains(&toleration.str_at(&["effect"]).unwrap_or_default())
        });
        if !tolerates {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    if tolerations.len() > given.len() {
        pod.set(PLACE, tolerations);
    }
}

/// Resolves the priority of a new pod. `class` is the PriorityClass it names, or the cluster's
/// default class where it names none.
pub fn priority(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let named = pod.str_at(&["spec", "priorityClassName"]).unwrap_or_default().to_owned();
    if class.is_none() && !named.is_empty() {
        return Err(format!("no PriorityClass with name {named} was found"));
    }
    let value = class.and_then(|class| class.i64_at(&["value"])).unwrap_or_default();
    let policy = class
        .and_then(|class| class.str_at(&["preemptionPolicy"]))
        .unwrap_or("PreemptLowerPriority");
    if let Some(given) = pod.i64_at(&["spec", "priority"]).filter(|given| *given != value) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    if let Some(given) = pod.str_at(&["spec", "preemptionPolicy"]).filter(|given| *given != policy)
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some(class) = class {
        pod.set(&["spec", "priorityClassName"], class.name());
    }
    pod.set(&["spec", "priority"], value);
    pod.set(&["spec", "preemptionPolicy"], policy);
    Ok(())
}

/// An updated pod keeps its priority where the writer left it out.
pub fn keep_priority(new: &mut Value, old: &Value) {
    for field in ["priority", "preemptionPolicy"] {
        if let Some(value) = old.at(&["spec", field]) {
            new.set_default(&["spec", field], value.clone());
        }
    }
}

/// Applies the overhead and the node constraints of the RuntimeClass a new pod names.
pub fn runtime_class(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let named = pod.str_at(&["spec", "runtimeClassName"]).unwrap_or_default();
    let overhead = pod.map_at(&["spec", "overhead"]).filter(|overhead| !overhead.is_empty());
    let Some(class) = class else {
        return match (named, overhead) {
            ("", Some(_)) => Err(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                    .into(),
            ),
            ("", None) => Ok(()),
            _ => Err(format!("pod rejected: RuntimeClass \"{named}\" not found")),
        };
    };
    match (class.map_at(&["overhead", "podFixed"]), overhead) {
        (Some(fixed), Some(given)) if fixed != given => {
            return Err(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into(),
            );
        }
        (None, Some(_)) => {
            return Err(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                    .into(),
            );
        }
        (Some(fixed), _) => pod.set(&["spec", "overhead"], fixed.clone()),
        (None, None) => {}
    }
    for (key, value) in class.map_at(&["scheduling", "nodeSelector"]).into_iter().flatten() {
        let wanted = value.as_str().unwrap_or_default();
        match pod.str_at(&["spec", "nodeSelector", key]) {
            Some(given) if given != wanted => {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {given}"
                ));
            }
            _ => pod.set(&["spec", "nodeSelector", key], wanted),
        }
    }
    let added = class.list_at(&["scheduling", "tolerations"]);
    if !added.is_empty() {
        let mut tolerations = pod.list_at(&["spec", "tolerations"]).to_vec();
        tolerations
            .extend(added.iter().filter(|t| !tolerations.contains(t)).cloned().collect::<Vec<_>>());
        pod.set(&["spec", "tolerations"], tolerations);
    }
    Ok(())
}

/// A new node takes no pods until it reports ready.
pub fn taint_new_node(node: &mut Value) {
    const KEY: &str = "node.kubernetes.io/not-ready";
    let mut taints = node.list_at(&["spec", "taints"]).to_vec();
    let is_tainted = taints.iter().any(|taint| {
        taint.str_at(&["key"]) == Some(KEY) && taint.str_at(&["effect"]) == Some("NoSchedule")
    });
    if !is_tainted {
        taints.push(json!({"key": KEY, "effect": "NoSchedule"}));
        node.set(&["spec", "taints"], taints);
    }
}

/// Holds new volumes, claims and volume classes until nobody uses them any more.
pub fn protect_storage(kind: &str, object: &mut Value) {
    let finalizer = match kind {
        "PersistentVolume" => "kubernetes.io/pv-protection",
        "PersistentVolumeClaim" => "kubernetes.io/pvc-protection",
        "VolumeAttributesClass" => "kubernetes.io/vac-protection",
        _ => return,
    };
    if !object.has_finalizer(finalizer) {
        let mut finalizers = object.list_at(&["metadata", "finalizers"]).to_vec();
        finalizers.push(finalizer.into());
        object.set(&["metadata", "finalizers"], finalizers);
    }
}

/// Gives a new claim or Ingress without a class the default one. `classes` are all StorageClasses
/// or IngressClasses; of several defaults the newest wins, then the first by name.
pub fn default_class(kind: &str, object: &mut Value, classes: &[Value]) {
    let (field, marks): (&[&str], &[&str]) = match kind {
        "PersistentVolumeClaim" => (
            &["spec", "storageClassName"],
            &[
                "storageclass.kubernetes.io/is-default-class",
                "storageclass.beta.kubernetes.io/is-default-class",
            ],
        ),
        "Ingress" => {
            (&["spec", "ingressClassName"], &["ingressclass.kubernetes.io/is-default-class"])
        }
        _ => return,
    };
    let old_marks = ["volume.beta.kubernetes.io/storage-class", "kubernetes.io/ingress.class"];
    let is_classed = object.at(field).is_some_and(|class| !class.is_null())
        || old_marks.iter().any(|mark| object.annotation(mark).is_some());
    if is_classed {
        return;
    }
    let default = classes
        .iter()
        .filter(|class| marks.iter().any(|mark| class.annotation(mark) == Some("true")))
        .max_by(|a, b| {
            let created =
                |class: &Value| class.str_at(&["metadata", "creationTimestamp"]).map(str::to_owned);
            created(a).cmp(&created(b)).then_with(|| b.name().cmp(a.name()))
        });
    if let Some(class) = default {
        object.set(field, class.name());
    }
}

#[cfg(test)]
mod tests;

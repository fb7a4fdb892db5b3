//! What a pod or pod template says that has no effect, or soon will not.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{Path, quote};
use karmada_apimachinery::names::label_value;
use karmada_apimachinery::object::ObjectExt as _;

use super::{Warnings, address, ports, volume};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

const ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";

pub(super) fn deprecated_label(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, why)| *why)
}

pub(super) fn template(found: &mut Warnings, path: &Path, template: Option<&Value>) {
    if let Some(template) = template {
        pod(found, path, template);
    }
}

/// Looks at a pod or a template; `path` is the root for a pod.
pub(super) fn pod(found: &mut Warnings, path: &Path, pod: &Value) {
    let spec = path.child("spec");
    scheduling(found, &spec, pod);
    let annotations = path.child("metadata").child("annotations");
    for (key, why) in ANNOTATIONS {
        if pod.annotation(key).is_some() {
            found.at(&annotations.key(key), why);
        }
    }
    volume::sources(found, &spec.child("volumes"), pod.list_at(&["spec", "volumes"]));
    repeats(found, &spec, pod);
    for name in ["memory", "ephemeral-storage"] {
        let amount = pod.at(&["spec", "overhead", name]);
        found.fractional_bytes(&spec.child("overhead").key(name), amount);
    }
    const POD_SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
    if pod.at(&["spec", "securityContext", "seccompProfile"]).is_none()
        && pod.annotation(POD_SECCOMP).is_some()
    {
        found.at(&annotations.key(POD_SECCOMP), SECCOMP);
    }
    let containers = containers(&spec, pod);
    for (path, container) in &containers {
        container_warnings(found, path, container, pod, &annotations);
    }
    ports::ports(found, &containers);
    let grace = pod.i64_at(&["spec", "terminationGracePeriodSeconds"]);
    if grace.is_some_and(|seconds| seconds < 0) {
        let why = "must be >= 0; negative values are invalid and will be treated as 1";
        found.at(&spec.child("terminationGracePeriodSeconds"), why);
    }
    affinity(found, &spec, pod);
    let servers = pod.list_at(&["spec", "dnsConfig", "nameservers"]);
    address::list(found, &spec.child("dnsConfig").child("nameservers"), servers);
    for (index, alias) in pod.list_at(&["spec", "hostAliases"]).iter().enumerate() {
        let path = spec.child("hostAliases").index(index).child("ip");
        address::address(found, &path, alias.str_at(&["ip"]).unwrap_or_default());
    }
}

/// All containers with their places, those that run first to start.
fn containers<'a>(spec: &Path, pod: &'a Value) -> Vec<(Path, &'a Value)> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let all = lists.into_iter().flat_map(|list| {
        let path = spec.child(list);
        let containers = pod.list_at(&["spec", list]).iter().enumerate();
        containers.map(move |(index, container)| (path.index(index), container))
    });
    all.collect()
}

fn scheduling(found: &mut Warnings, spec: &Path, pod: &Value) {
    for (key, _) in pod.map_at(&["spec", "nodeSelector"]).into_iter().flatten() {
        if let Some(why) = deprecated_label(key) {
            found.at(&spec.child("nodeSelector").key(key), why);
        }
    }
    let path = spec.child("affinity").child("nodeAffinity");
    let node = ["spec", "affinity", "nodeAffinity"];
    let required = [&node[..], &[REQUIRED, "nodeSelectorTerms"]].concat();
    for (index, term) in pod.list_at(&required).iter().enumerate() {
        let path = path.child(REQUIRED).child("nodeSelectorTerms").index(index);
        node_term(found, &path, term);
    }
    for (index, term) in pod.list_at(&[&node[..], &[PREFERRED]].concat()).iter().enumerate() {
        let path = path.child(PREFERRED).index(index).child("preference");
        if let Some(term) = term.get("preference") {
            node_term(found, &path, term);
            label_values(found, &path, term);
        }
    }
    for (index, constraint) in
        pod.list_at(&["spec", "topologySpreadConstraints"]).iter().enumerate()
    {
        let path = spec.child("topologySpreadConstraints").index(index);
        let key = constraint.str_at(&["topologyKey"]).unwrap_or_default();
        if let Some(why) = deprecated_label(key) {
            found.at(&path.child("topologyKey"), format!("{key} is {why}"));
        }
        matches_nothing(found, &path.child("labelSelector"), constraint);
    }
}

fn matches_nothing(found: &mut Warnings, path: &Path, holder: &Value) {
    if !holder.get("labelSelector").is_some_and(Value::is_object) {
        found.at(path, "a null labelSelector results in matching no pod");
    }
}

/// Labels of nodes that have newer names.
pub(super) fn node_term(found: &mut Warnings, path: &Path, term: &Value) {
    for (index, expression) in term.list_at(&["matchExpressions"]).iter().enumerate() {
        let key = expression.str_at(&["key"]).unwrap_or_default();
        if let Some(why) = deprecated_label(key) {
            let path = path.child("matchExpressions").index(index).child("key");
            found.at(&path, format!("{key} is {why}"));
        }
    }
}

fn label_values(found: &mut Warnings, path: &Path, term: &Value) {
    for (index, expression) in term.list_at(&["matchExpressions"]).iter().enumerate() {
        let path = path.child("matchExpressions").index(index).child("values");
        for (at, value) in expression.list_at(&["values"]).iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for why in label_value(value) {
                found.at(&path.index(at), format!("{value} is invalid, {why}"));
            }
        }
    }
}

/// Entries that say the same thing twice.
fn repeats(found: &mut Warnings, spec: &Path, pod: &Value) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let entries = pod.list_at(&["spec", list]);
        let text = |entry: &Value| entry.str_at(&[field]).unwrap_or_default().to_owned();
        for (index, entry) in entries.iter().enumerate() {
            let value = text(entry);
            if entries[..index].iter().any(|other| text(other) == value) {
                let path = spec.child(list).index(index).child(field);
                found.at(&path, format!("duplicate {field} {}", quote(&value)));
            }
        }
    }
    for (index, secret) in pod.list_at(&["spec", "imagePullSecrets"]).iter().enumerate() {
        if secret.str_at(&["name"]).unwrap_or_default().is_empty() {
            let path = spec.child("imagePullSecrets").index(index).child("name");
            found.at(&path, "invalid empty name \"\"");
        }
    }
}

fn container_warnings(
    found: &mut Warnings,
    path: &Path,
    container: &Value,
    pod: &Value,
    annotations: &Path,
) {
    let name = container.str_at(&["name"]).unwrap_or_default();
    let context = |field: &str| container.at(&["securityContext", field]).is_some();
    let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
    if !context("seccompProfile") && pod.annotation(&key).is_some() {
        found.at(&annotations.key(&key), SECCOMP);
    }
    let key = format!("container.apparmor.security.beta.kubernetes.io/{name}");
    if !context("appArmorProfile") && pod.annotation(&key).is_some() {
        let why = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
        found.at(&annotations.key(&key), why);
    }
    for resource in ["memory", "ephemeral-storage"] {
        for list in ["limits", "requests"] {
            let path = path.child("resources").child(list).key(resource);
            found.fractional_bytes(&path, container.at(&["resources", list, resource]));
        }
    }
    let variables = container.list_at(&["env"]);
    let name_of = |variable: &Value| variable.str_at(&["name"]).unwrap_or_default().to_owned();
    for (index, variable) in variables.iter().enumerate() {
        let name = name_of(variable);
        let is_repeat = variables[..index].iter().any(|other| name_of(other) == name);
        // Extending the earlier value by referring to it is a known idiom.
        let reference = format!("$({name})");
        let value = variable.str_at(&["value"]).unwrap_or_default();
        let extends =
            variable.get("valueFrom").is_none() && value != reference && value.contains(&reference);
        if is_repeat && !extends {
            let shown = quote(&name);
            found.at(
                &path.child("env").index(index),
                format!(
                    "hides previous definition of {shown}, which may be dropped when using apply"
                ),
            );
        }
    }
}

fn affinity(found: &mut Warnings, spec: &Path, pod: &Value) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let path = spec.child("affinity").child(kind);
        for (index, term) in pod.list_at(&["spec", "affinity", kind, REQUIRED]).iter().enumerate() {
            let path = path.child(REQUIRED).index(index).child("labelSelector");
            matches_nothing(found, &path, term);
        }
        for (index, term) in pod.list_at(&["spec", "affinity", kind, PREFERRED]).iter().enumerate()
        {
            let path = path.child(PREFERRED).index(index).child("podAffinityTerm");
            let term = term.get("podAffinityTerm").unwrap_or(&Value::Null);
            matches_nothing(found, &path.child("labelSelector"), term);
        }
    }
}

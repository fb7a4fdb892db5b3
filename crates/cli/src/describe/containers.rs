//! Containers and volumes of pods and pod templates.

use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;

use super::moment;
use super::tabs::{Text, plain};

/// What a list of containers is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within<'a> {
    Template,
    /// A pod, whose containers have a state.
    Pod(&'a Value),
}

/// `Init Containers` and `Containers`.
pub(super) fn lists(out: &mut Text, spec: &Value, within: Within<'_>) {
    for (field, statuses, heading) in [
        ("initContainers", "initContainerStatuses", "Init Containers"),
        ("containers", "containerStatuses", "Containers"),
    ] {
        let list = spec.list_at(&[field]);
        if list.is_empty() {
            continue;
        }
        let level = usize::from(within == Within::Template);
        out.line(level, &format!("{heading}:"));
        for container in list {
            let name = container.str_at(&["name"]).unwrap_or_default();
            let status = match within {
                Within::Template => None,
                Within::Pod(pod) => {
                    let list = pod.list_at(&["status", statuses]).iter();
                    list.into_iter().find(|status| status.str_at(&["name"]) == Some(name))
                }
            };
            // Compat: a blank more where the list itself is indented.
            let indent = if within == Within::Template { " " } else { "" };
            out.line(1, &format!("{indent}{name}:"));
            one(out, container, status);
        }
    }
}

fn one(out: &mut Text, container: &Value, status: Option<&Value>) {
    let text = |field: &str| container.str_at(&[field]).unwrap_or_default();
    if let Some(status) = status {
        out.line(
            2,
            &format!("Container ID:\t{}", status.str_at(&["containerID"]).unwrap_or_default()),
        );
    }
    out.line(2, &format!("Image:\t{}", text("image")));
    if let Some(status) = status {
        out.line(2, &format!("Image ID:\t{}", status.str_at(&["imageID"]).unwrap_or_default()));
    }
    let ports = container.list_at(&["ports"]);
    for (field, one, many) in
        [("containerPort", "Port", "Ports"), ("hostPort", "Host Port", "Host Ports")]
    {
        let shown: Vec<String> = ports
            .iter()
            .map(|port| {
                let protocol = port.str_at(&["protocol"]).unwrap_or("TCP");
                format!("{}/{protocol}", port.i64_at(&[field]).unwrap_or_default())
            })
            .collect();
        out.field(2, if shown.len() > 1 { many } else { one }, shown.join(", "));
    }
    for (field, heading) in [("command", "Command"), ("args", "Args")] {
        let words = container.list_at(&[field]);
        if !words.is_empty() {
            out.line(2, &format!("{heading}:"));
            words
                .iter()
                .flat_map(|word| plain(word).lines().map(str::to_owned).collect::<Vec<_>>())
                .for_each(|word| out.line(3, &word));
        }
    }
    if let Some(status) = status {
        states(out, status);
    }
    for (field, heading) in [("limits", "Limits"), ("requests", "Requests")] {
        if let Some(amounts) = container.map_at(&["resources", field]).filter(|map| !map.is_empty())
        {
            out.line(2, &format!("{heading}:"));
            amounts.iter().for_each(|(name, amount)| out.field(3, name, plain(amount)));
        }
    }
    environment(out, container);
    mounts(out, container);
}

fn states(out: &mut Text, status: &Value) {
    for (field, heading) in [("state", "State"), ("lastState", "Last State")] {
        let Some((kind, state)) = status.map_at(&[field]).and_then(|map| map.iter().next()) else {
            if field == "state" {
                out.field(2, heading, "Waiting");
            }
            continue;
        };
        let name = match kind.as_str() {
            "running" => "Running",
            "terminated" => "Terminated",
            _ => "Waiting",
        };
        out.field(2, heading, name);
        out.field_if_any(3, "Reason", state.str_at(&["reason"]));
        out.field_if_any(3, "Message", state.str_at(&["message"]));
        if kind == "terminated" {
            let code = state.i64_at(&["exitCode"]).unwrap_or_default();
            out.field(3, "Exit Code", code.to_string());
        }
        for (field, heading) in [("startedAt", "Started"), ("finishedAt", "Finished")] {
            if let Some(at) = moment(state, &[field]) {
                out.field(3, heading, at);
            }
        }
    }
    let ready = if status.bool_at(&["ready"]) == Some(true) { "True" } else { "False" };
    out.field(2, "Ready", ready);
    out.field(2, "Restart Count", status.i64_at(&["restartCount"]).unwrap_or_default().to_string());
}

/// Values that come from elsewhere are named, not looked up: nothing secret is shown.
fn environment(out: &mut Text, container: &Value) {
    let sources = container.list_at(&["envFrom"]);
    if !sources.is_empty() {
        out.line(2, "Environment Variables from:");
        for source in sources {
            let part = |field: &str| source.str_at(&[field, "name"]);
            let (name, kind) = match (part("configMapRef"), part("secretRef")) {
                (Some(name), _) => (name, "ConfigMap"),
                (_, Some(name)) => (name, "Secret"),
                _ => continue,
            };
            out.line(3, &format!("{name}\t{kind}\tOptional: false"));
        }
    }
    let variables = container.list_at(&["env"]);
    if variables.is_empty() {
        return out.field(2, "Environment", "");
    }
    out.line(2, "Environment:");
    for variable in variables {
        let name = variable.str_at(&["name"]).unwrap_or_default();
        let from = |path: &[&str]| variable.str_at(&[&["valueFrom"], path].concat());
        let value = match variable.str_at(&["value"]) {
            Some(value) => value.to_owned(),
            None => match (from(&["secretKeyRef", "name"]), from(&["configMapKeyRef", "name"])) {
                (Some(secret), _) => {
                    let key = from(&["secretKeyRef", "key"]).unwrap_or_default();
                    format!("<set to the key '{key}' in secret '{secret}'>\tOptional: false")
                }
                (_, Some(map)) => {
                    let key = from(&["configMapKeyRef", "key"]).unwrap_or_default();
                    format!("<set to the key '{key}' of config map '{map}'>\tOptional: false")
                }
                _ => match from(&["fieldRef", "fieldPath"]) {
                    Some(path) => {
                        format!("({}:{path})", from(&["fieldRef", "apiVersion"]).unwrap_or("v1"))
                    }
                    None => String::new(),
                },
            },
        };
        out.line(3, &format!("{name}:\t{value}"));
    }
}

fn mounts(out: &mut Text, container: &Value) {
    let mounts = container.list_at(&["volumeMounts"]);
    if mounts.is_empty() {
        return out.field(2, "Mounts", "");
    }
    out.line(2, "Mounts:");
    for mount in mounts {
        let part = |field: &str| mount.str_at(&[field]).unwrap_or_default();
        let mode = if mount.bool_at(&["readOnly"]) == Some(true) { "ro" } else { "rw" };
        let path = match part("subPath") {
            "" => String::new(),
            path => format!(",path=\"{path}\""),
        };
        out.line(3, &format!("{} from {} ({mode}{path})", part("mountPath"), part("name")));
    }
}

/// The field of a kind of volume, what it is in words, and the headings and fields that say which one it is.
type Volume = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const VOLUMES: &[Volume] = &[
    (
        "emptyDir",
        "EmptyDir (a temporary directory that shares a pod's lifetime)",
        &[("Medium", "medium"), ("SizeLimit", "sizeLimit")],
    ),
    (
        "hostPath",
        "HostPath (bare host directory volume)",
        &[("Path", "path"), ("HostPathType", "type")],
    ),
    (
        "configMap",
        "ConfigMap (a volume populated by a ConfigMap)",
        &[("Name", "name"), ("Optional", "optional")],
    ),
    (
        "secret",
        "Secret (a volume populated by a Secret)",
        &[("SecretName", "secretName"), ("Optional", "optional")],
    ),
    (
        "persistentVolumeClaim",
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        &[("ClaimName", "claimName"), ("ReadOnly", "readOnly")],
    ),
    ("projected", "Projected (a volume that contains injected data from multiple sources)", &[]),
    ("downwardAPI", "DownwardAPI (a volume populated by information about the pod)", &[]),
    (
        "nfs",
        "NFS (an NFS mount that lasts the lifetime of a pod)",
        &[("Server", "server"), ("Path", "path"), ("ReadOnly", "readOnly")],
    ),
    ("csi", "CSI (a Container Storage Interface (CSI) volume source)", &[("Driver", "driver")]),
];

pub(super) fn volumes(out: &mut Text, spec: &Value, level: usize) {
    let volumes = spec.list_at(&["volumes"]);
    if volumes.is_empty() {
        return out.field(level, "Volumes", "");
    }
    out.line(level, "Volumes:");
    for volume in volumes {
        // Compat: a blank more where the list itself is indented.
        let indent = if level > 0 { " " } else { "" };
        out.line(1, &format!("{indent}{}:", volume.str_at(&["name"]).unwrap_or_default()));
        let known = VOLUMES.iter().find(|(field, ..)| volume.get(field).is_some());
        let Some((field, kind, details)) = known else {
            out.field(2, "Type", "<unknown>");
            continue;
        };
        out.field(2, "Type", kind);
        for (heading, part) in *details {
            let value = volume.at(&[field, part]).map(plain);
            let value = value.unwrap_or_else(|| match *part {
                "optional" | "readOnly" => "false".to_owned(),
                "sizeLimit" => "<unset>".to_owned(),
                _ => String::new(),
            });
            out.line(2, &format!("{heading}:\t{value}"));
        }
    }
}

pub(super) fn selectors_and_tolerations(out: &mut Text, spec: &Value, level: usize) {
    let selectors = spec.map_at(&["nodeSelector"]).into_iter().flatten();
    let selectors: Vec<String> =
        selectors.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    out.many(level, "Node-Selectors", &selectors);
    let tolerations: Vec<String> = spec.list_at(&["tolerations"]).iter().map(toleration).collect();
    out.many(level, "Tolerations", &tolerations);
}

fn toleration(toleration: &Value) -> String {
    let part = |field: &str| toleration.str_at(&[field]).unwrap_or_default();
    let with = |mark: &str, text: &str| {
        if text.is_empty() { String::new() } else { format!("{mark}{text}") }
    };
    let exists = match (part("operator"), part("key")) {
        ("Exists", "") => "op=Exists",
        ("Exists", _) => " op=Exists",
        _ => "",
    };
    let seconds = toleration.i64_at(&["tolerationSeconds"]);
    let seconds = seconds.map_or_else(String::new, |seconds| format!(" for {seconds}s"));
    format!(
        "{}{}{}{exists}{seconds}",
        part("key"),
        with("=", part("value")),
        with(":", part("effect"))
    )
}

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
            let pod = match within {
                Within::Template => None,
                Within::Pod(pod) => Some(pod),
            };
            one(out, container, status, pod);
        }
    }
}

fn one(out: &mut Text, container: &Value, status: Option<&Value>, pod: Option<&Value>) {
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
                let name = port.str_at(&["name"]).filter(|name| !name.is_empty());
                let name = name.map_or_else(String::new, |name| format!(" ({name})"));
                format!("{}/{protocol}{name}", port.i64_at(&[field]).unwrap_or_default())
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
    for (field, heading) in [
        ("livenessProbe", "Liveness"),
        ("readinessProbe", "Readiness"),
        ("startupProbe", "Startup"),
    ] {
        if let Some(own) = container.at(&[field]) {
            out.field(2, heading, probe(own));
        }
    }
    sources(out, container);
    environment(out, container, pod);
    mounts(out, container);
}

/// `http-get http://:80/healthz delay=0s timeout=1s period=10s #success=1 #failure=3`.
fn probe(probe: &Value) -> String {
    let number = |field: &str| probe.i64_at(&[field]).unwrap_or_default();
    let how = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number("initialDelaySeconds"),
        number("timeoutSeconds"),
        number("periodSeconds"),
        number("successThreshold"),
        number("failureThreshold")
    );
    let text = |path: &[&str]| probe.at(path).map(plain).unwrap_or_default();
    if probe.at(&["exec"]).is_some() {
        let words: Vec<String> = probe.list_at(&["exec", "command"]).iter().map(plain).collect();
        return format!("exec [{}] {how}", words.join(" "));
    }
    if probe.at(&["httpGet"]).is_some() {
        let part = |field| text(&["httpGet", field]);
        let scheme = part("scheme").to_lowercase();
        let path = match part("path") {
            path if path.is_empty() || path.starts_with('/') => path,
            path => format!("/{path}"),
        };
        return format!("http-get {scheme}://{}:{}{path} {how}", part("host"), part("port"));
    }
    if probe.at(&["tcpSocket"]).is_some() {
        let part = |field| text(&["tcpSocket", field]);
        return format!("tcp-socket {}:{} {how}", part("host"), part("port"));
    }
    if probe.at(&["grpc"]).is_some() {
        return format!(
            "grpc <pod>:{} {} {how}",
            text(&["grpc", "port"]),
            text(&["grpc", "service"])
        );
    }
    format!("unknown {how}")
}

/// What a container is told by whole ConfigMaps and Secrets.
fn sources(out: &mut Text, container: &Value) {
    let sources = container.list_at(&["envFrom"]);
    if sources.is_empty() {
        return;
    }
    out.line(2, "Environment Variables from:");
    for source in sources {
        let named = [("configMapRef", "ConfigMap"), ("secretRef", "Secret")];
        let Some((field, kind)) = named.iter().find(|(field, _)| source.at(&[field]).is_some())
        else {
            continue;
        };
        let name = source.str_at(&[field, "name"]).unwrap_or_default();
        let prefix = source.str_at(&["prefix"]).filter(|prefix| !prefix.is_empty());
        let prefix = prefix.map_or_else(String::new, |prefix| format!(" with prefix '{prefix}'"));
        let optional = source.bool_at(&[field, "optional"]).unwrap_or_default();
        out.line(3, &format!("{name}\t{kind}{prefix}\tOptional: {optional}"));
    }
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
fn environment(out: &mut Text, container: &Value, pod: Option<&Value>) {
    let variables = container.list_at(&["env"]);
    if variables.is_empty() {
        return out.field(2, "Environment", "");
    }
    out.line(2, "Environment:");
    for variable in variables {
        let name = variable.str_at(&["name"]).unwrap_or_default();
        let from = variable.at(&["valueFrom"]);
        let value = match from {
            None => variable.str_at(&["value"]).unwrap_or_default().to_owned(),
            Some(from) => reference(from, pod),
        };
        let mut lines = value.split('\n');
        out.line(3, &format!("{name}:\t{}", lines.next().unwrap_or_default()));
        lines.for_each(|line| out.line(3, &format!("\t{line}")));
    }
}

/// Where a variable gets its value from.
fn reference(from: &Value, pod: Option<&Value>) -> String {
    let text = |path: &[&str]| from.str_at(path).unwrap_or_default();
    for (field, of) in [("secretKeyRef", "in secret"), ("configMapKeyRef", "of config map")] {
        if from.at(&[field]).is_some() {
            let (key, name) = (text(&[field, "key"]), text(&[field, "name"]));
            let optional = from.bool_at(&[field, "optional"]).unwrap_or_default();
            return format!("<set to the key '{key}' {of} '{name}'>\tOptional: {optional}");
        }
    }
    if from.at(&["fieldRef"]).is_some() {
        let (version, path) = (text(&["fieldRef", "apiVersion"]), text(&["fieldRef", "fieldPath"]));
        let steps: Vec<&str> = path.split('.').collect();
        let value = pod.and_then(|pod| pod.str_at(&steps)).unwrap_or_default();
        return format!("{value} ({version}:{path})");
    }
    format!(" ({})", text(&["resourceFieldRef", "resource"]))
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
        if *field == "projected" {
            projected(out, volume.list_at(&["projected", "sources"]));
        }
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

//! Containers of pods and pod templates, and what says where pods may run.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::quantity::Quantity;
use karmada_apimachinery::{Value, selector::LabelSelector};

use super::access::NEVER;
use super::moment;
use super::tabs::{Text, plain};

/// What a list of containers is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Within<'a> {
    Template,
    /// A pod, whose containers have a state.
    Pod(&'a Value),
}

/// `Init Containers`, `Containers` and, of pods, `Ephemeral Containers`.
pub(super) fn lists(out: &mut Text, spec: &Value, within: Within<'_>) {
    for (field, statuses, heading) in [
        ("initContainers", "initContainerStatuses", "Init Containers"),
        ("containers", "containerStatuses", "Containers"),
        ("ephemeralContainers", "ephemeralContainerStatuses", "Ephemeral Containers"),
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
    if let Some(profile) = container.at(&["securityContext", "seccompProfile"]) {
        seccomp(out, profile, 2, 3);
    }
    for (field, heading) in [("command", "Command"), ("args", "Args")] {
        let words = container.list_at(&[field]);
        if !words.is_empty() {
            out.line(2, &format!("{heading}:"));
            for word in words {
                plain(word).split('\n').for_each(|line| out.line(3, line));
            }
        }
    }
    if let Some(status) = status {
        states(out, status);
    }
    resources(out, container, 2);
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

/// The profile that limits system calls.
pub(super) fn seccomp(out: &mut Text, profile: &Value, level: usize, below: usize) {
    let kind = profile.str_at(&["type"]).unwrap_or_default();
    out.field(level, "SeccompProfile", kind);
    if kind == "Localhost" {
        let file = profile.str_at(&["localhostProfile"]).unwrap_or_default();
        out.field(below, "LocalhostProfile", file);
    }
}

/// What a container, or a pod as a whole, may use and is promised.
pub(super) fn resources(out: &mut Text, of: &Value, level: usize) {
    for (field, heading) in [("limits", "Limits"), ("requests", "Requests")] {
        if let Some(amounts) = of.map_at(&["resources", field]).filter(|map| !map.is_empty()) {
            out.line(level, &format!("{heading}:"));
            amounts.iter().for_each(|(name, amount)| out.field(level + 1, name, plain(amount)));
        }
    }
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
        let path = match escaped(&part("path")) {
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

/// A path as it stands in an address.
fn escaped(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            byte if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
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
    state(out, "State", status.at(&["state"]).unwrap_or(&Value::Null));
    if let Some(last) = status.at(&["lastState"]).filter(|last| last.get("terminated").is_some()) {
        state(out, "Last State", last);
    }
    let ready = if status.bool_at(&["ready"]) == Some(true) { "True" } else { "False" };
    out.field(2, "Ready", ready);
    out.field(2, "Restart Count", status.i64_at(&["restartCount"]).unwrap_or_default().to_string());
}

fn state(out: &mut Text, heading: &str, state: &Value) {
    let at = |of: &Value, field: &str| moment(of, &[field]).unwrap_or_else(|| NEVER.to_owned());
    if let Some(running) = state.get("running") {
        out.field(2, heading, "Running");
        return out.field(3, "Started", at(running, "startedAt"));
    }
    let Some(ended) = state.get("terminated") else {
        out.field(2, heading, "Waiting");
        return out.field_if_any(3, "Reason", state.str_at(&["waiting", "reason"]));
    };
    out.field(2, heading, "Terminated");
    out.field_if_any(3, "Reason", ended.str_at(&["reason"]));
    out.field_if_any(3, "Message", ended.str_at(&["message"]));
    out.field(3, "Exit Code", ended.i64_at(&["exitCode"]).unwrap_or_default().to_string());
    if let Some(signal) = ended.i64_at(&["signal"]).filter(|signal| *signal > 0) {
        out.field(3, "Signal", signal.to_string());
    }
    out.field(3, "Started", at(ended, "startedAt"));
    out.field(3, "Finished", at(ended, "finishedAt"));
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
            Some(from) => reference(from, container, pod),
        };
        let mut lines = value.split('\n');
        out.line(3, &format!("{name}:\t{}", lines.next().unwrap_or_default()));
        lines.for_each(|line| out.line(3, &format!("\t{line}")));
    }
}

/// Where a variable gets its value from.
fn reference(from: &Value, container: &Value, pod: Option<&Value>) -> String {
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
        let value = match (pod, path) {
            (Some(pod), "metadata.name") => pod.name(),
            (Some(pod), "metadata.namespace") => pod.namespace(),
            // Compat: other fields are named, not looked up.
            _ => "",
        };
        return format!("{value} ({version}:{path})");
    }
    let resource = text(&["resourceFieldRef", "resource"]);
    let value = match amount(from.at(&["resourceFieldRef"]).unwrap_or(&Value::Null), container) {
        Some(0) if ["limits.cpu", "limits.memory"].contains(&resource) => {
            "node allocatable".to_owned()
        }
        value => value.map(|value| value.to_string()).unwrap_or_default(),
    };
    format!("{value} ({resource})")
}

/// An amount of a container in the unit a reference asks for, rounded up.
fn amount(reference: &Value, container: &Value) -> Option<i128> {
    let (list, resource) = reference.str_at(&["resource"])?.split_once('.')?;
    let unit = reference.at(&["divisor"]).and_then(|unit| Quantity::from_value(unit).ok());
    let unit = unit.filter(|unit| !unit.is_zero()).unwrap_or_else(|| Quantity::from_millis(1000));
    let own = container.at(&["resources", list, resource]);
    let own = own.and_then(|own| Quantity::from_value(own).ok()).map_or(0, |own| own.nanos());
    Some((own + unit.nanos() - 1).div_euclid(unit.nanos()))
}

fn mounts(out: &mut Text, container: &Value) {
    let mounts = container.list_at(&["volumeMounts"]);
    if mounts.is_empty() {
        out.field(2, "Mounts", "");
        return devices(out, container);
    }
    out.line(2, "Mounts:");
    let mut mounts: Vec<&Value> = mounts.iter().collect();
    mounts.sort_by_key(|mount| mount.str_at(&["mountPath"]));
    for mount in mounts {
        let part = |field: &str| mount.str_at(&[field]).unwrap_or_default();
        let mode = if mount.bool_at(&["readOnly"]) == Some(true) { "ro" } else { "rw" };
        let path = match part("subPath") {
            "" => String::new(),
            path => format!(",path=\"{path}\""),
        };
        out.line(3, &format!("{} from {} ({mode}{path})", part("mountPath"), part("name")));
    }
    devices(out, container);
}

/// Volumes a container uses without a file system.
fn devices(out: &mut Text, container: &Value) {
    let mut devices: Vec<&Value> = container.list_at(&["volumeDevices"]).iter().collect();
    if devices.is_empty() {
        return;
    }
    // Compat: `<none>` is said of mounts, and comes again here.
    let none = if container.list_at(&["volumeMounts"]).is_empty() { "\t<none>" } else { "" };
    out.line(2, &format!("Devices:{none}"));
    devices.sort_by_key(|device| device.str_at(&["devicePath"]));
    for device in devices {
        let part = |field: &str| device.str_at(&[field]).unwrap_or_default();
        out.line(3, &format!("{} from {}", part("devicePath"), part("name")));
    }
}

/// How pods are spread, by the key they are spread over.
pub(super) fn spread(out: &mut Text, spec: &Value, level: usize) {
    let mut constraints: Vec<&Value> =
        spec.list_at(&["topologySpreadConstraints"]).iter().collect();
    if constraints.is_empty() {
        return;
    }
    let part = |of: &Value, field: &str| of.str_at(&[field]).unwrap_or_default().to_owned();
    constraints.sort_by_key(|own| part(own, "topologyKey"));
    let lines: Vec<String> = constraints
        .into_iter()
        .map(|own| {
            let selector = own.at(&["labelSelector"]).map(|selector| {
                let selector = LabelSelector::from_object(Some(selector));
                let selector = selector.map(|own| own.to_string()).unwrap_or_default();
                let selector = if selector.is_empty() { "<none>" } else { &selector };
                format!(" for selector {selector}")
            });
            format!(
                "{}:{} when max skew {} is exceeded{}",
                part(own, "topologyKey"),
                part(own, "whenUnsatisfiable"),
                own.i64_at(&["maxSkew"]).unwrap_or_default(),
                selector.unwrap_or_default()
            )
        })
        .collect();
    out.many(level, "Topology Spread Constraints", &lines);
}

/// The group a pod is scheduled with.
pub(super) fn scheduling_group(out: &mut Text, spec: &Value, level: usize) {
    if let Some(group) = spec.at(&["schedulingGroup"]) {
        out.line(level, "SchedulingGroup:");
        out.field(1, "PodGroupName", group.str_at(&["podGroupName"]).unwrap_or_default());
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

//! Containers of a pod: names, images, ports, environment, mounts, probes and lifecycle.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names;

use super::resources::{self, NameKind};
use super::{security, volumes};
use crate::validation::place::{At, Errors};

/// What containers are checked against: facts of the pod they belong to.
pub(crate) struct Surroundings<'a> {
    pub(crate) spec: At<'a>,
    /// Volumes that are valid themselves, by name.
    pub(crate) volumes: BTreeMap<&'a str, At<'a>>,
    pub(crate) claims: BTreeSet<&'a str>,
}

impl<'a> Surroundings<'a> {
    fn grace(&self) -> Option<i64> {
        self.spec.field("terminationGracePeriodSeconds").number()
    }

    fn uses_host_users(&self) -> bool {
        self.spec.field("hostUsers").flag() != Some(false)
    }

    fn os(&self) -> At<'a> {
        self.spec.field("os")
    }
}

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];

/// All containers of a pod in the order Kubernetes visits them.
pub(crate) fn visit<'a>(spec: &At<'a>) -> Vec<At<'a>> {
    ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| spec.field(list).items())
        .collect()
}

pub(crate) fn check_regular(pod: &Surroundings<'_>, errs: &mut Errors) {
    let containers = pod.spec.field("containers");
    if containers.is_empty() {
        return errs.required(&containers, "");
    }
    let mut names = BTreeSet::new();
    for container in containers.items() {
        check_common(&container, pod, errs);
        let name = container.field("name");
        if !names.insert(name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        check_lifecycle_and_probes(&container, pod, errs);
        check_restart_policy(&container, errs);
    }
    check_host_ports(containers.items(), errs);
}

pub(crate) fn check_init(pod: &Surroundings<'_>, errs: &mut Errors) {
    let mut names: BTreeSet<&str> =
        pod.spec.field("containers").items().map(|c| c.field("name").text()).collect();
    let containers = pod.spec.field("initContainers");
    for container in containers.items() {
        check_common(&container, pod, errs);
        let policy = container.field("restartPolicy");
        if policy.is_set() {
            check_restart_policy(&container, errs);
        } else if !container.field("restartPolicyRules").is_empty() {
            errs.required(&policy, "must specify restartPolicy when restart rules are used");
        }
        let name = container.field("name");
        if names.contains(name.text()) {
            errs.duplicate(&name);
        } else if !name.is_empty() {
            names.insert(name.text());
        }
        // Compat: conflicts inside one init container are reported at the list's first index.
        let alone = At::new(containers.path.index(0), container.value);
        check_host_ports(std::iter::once(alone), errs);
        let sidecar = policy.text() == "Always";
        if sidecar {
            check_lifecycle_and_probes(&container, pod, errs);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if container.field(field).is_set() {
                    let detail = "may not be set for init containers without restartPolicy=Always";
                    errs.forbidden(&container.field(field), detail);
                }
            }
            for resize in container.field("resizePolicy").items() {
                let policy = resize.field("restartPolicy");
                if policy.text() == "RestartContainer" {
                    let detail =
                        "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    errs.invalid_text(&policy, detail);
                }
            }
        }
    }
}

/// Fields an ephemeral container must leave alone.
const NOT_FOR_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

pub(crate) fn check_ephemeral(pod: &Surroundings<'_>, errs: &mut Errors) {
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod.spec.field(list).items())
        .map(|container| container.field("name").text())
        .collect();
    let mut names = others.clone();
    for container in pod.spec.field("ephemeralContainers").items() {
        check_common(&container, pod, errs);
        check_image_of_pod(&container, errs);
        let name = container.field("name");
        if !names.insert(name.text()) {
            errs.duplicate(&name);
        }
        let target = container.field("targetContainerName");
        if !target.is_empty() && !others.contains(target.text()) {
            errs.not_found(&target);
        }
        for field in NOT_FOR_EPHEMERAL {
            let at = container.field(field);
            if at.is_set() && !at.is_empty() {
                errs.forbidden(&at, "cannot be set for an Ephemeral Container");
            }
        }
        for mount in container.field("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                if !mount.field(field).is_empty() {
                    errs.forbidden(&mount.field(field), "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// Images of pods, other than of templates, must be free of surrounding blanks.
pub(crate) fn check_image_of_pod(container: &At<'_>, errs: &mut Errors) {
    let image = container.field("image");
    if image.text().trim().len() != image.len() {
        errs.invalid_text(&image, "must not have leading or trailing whitespace");
    }
}

fn check_common(container: &At<'_>, pod: &Surroundings<'_>, errs: &mut Errors) {
    let name = container.field("name");
    if errs.required_text(&name) {
        errs.messages(&name, &names::dns1123_label(name.text()));
    }
    errs.required_text(&container.field("image"));
    let policy = container.field("terminationMessagePolicy");
    errs.required_one_of(&policy, &["File", "FallbackToLogsOnError"]);
    check_ports(&container.field("ports"), errs);
    check_env(&container.field("env"), errs);
    check_env_from(&container.field("envFrom"), errs);
    check_mounts(container, pod, errs);
    check_devices(container, pod, errs);
    check_pull_policy(&container.field("imagePullPolicy"), errs);
    resources::check_requirements(
        &container.field("resources"),
        NameKind::Container,
        &pod.claims,
        errs,
    );
    check_resize_policy(container, pod, errs);
    security::check_container(&container.field("securityContext"), pod.uses_host_users(), errs);
}

pub(crate) fn check_pull_policy(policy: &At<'_>, errs: &mut Errors) {
    errs.required_one_of(policy, &PULL_POLICIES);
}

fn check_ports(ports: &At<'_>, errs: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            let messages = names::port_name(name.text());
            if messages.is_empty() && !names.insert(name.text()) {
                errs.duplicate(&name);
            }
            errs.messages(&name, &messages);
        }
        let number = port.field("containerPort");
        if number.int() == 0 {
            errs.required(&number, "");
        } else {
            errs.in_range(&number, 1, 65535);
        }
        if port.field("hostPort").int() != 0 {
            errs.in_range(&port.field("hostPort"), 1, 65535);
        }
        errs.required_one_of(&port.field("protocol"), &PROTOCOLS);
    }
}

fn check_host_ports<'a>(containers: impl Iterator<Item = At<'a>>, errs: &mut Errors) {
    let mut taken = BTreeSet::new();
    for port in containers.flat_map(|container| container.field("ports").items()) {
        let host_port = port.field("hostPort");
        if host_port.int() == 0 {
            continue;
        }
        let key = format!(
            "{}/{}/{}",
            port.field("protocol").text(),
            port.field("hostIP").text(),
            host_port.int()
        );
        if taken.contains(&key) {
            errs.push(FieldError::duplicate(&host_port.path, key));
        } else {
            taken.insert(key);
        }
    }
}

fn check_env(env: &At<'_>, errs: &mut Errors) {
    for variable in env.items() {
        let name = variable.field("name");
        if errs.required_text(&name) {
            errs.messages(&name, &names::env_name(name.text()));
        }
        check_value_from(&variable, errs);
    }
}

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn check_value_from(variable: &At<'_>, errs: &mut Errors) {
    let from = variable.field("valueFrom");
    if !from.is_set() {
        return;
    }
    let field = from.field("fieldRef");
    if field.is_set() {
        check_field_ref(&field, &ENV_FIELDS, errs);
    }
    let resource = from.field("resourceFieldRef");
    if resource.is_set() {
        check_resource_field_ref(&resource, false, errs);
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        if from.field(source).is_set() {
            check_key_ref(&from.field(source), errs);
        }
    }
    if from.field("fileKeyRef").is_set() {
        check_file_key_ref(&from.field("fileKeyRef"), errs);
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let count = sources.iter().filter(|source| from.field(source).is_set()).count();
    if count == 0 {
        errs.invalid(&from, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
    } else if !variable.field("value").is_empty() {
        errs.invalid(&from, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errs.invalid(&from, "", "may not have more than one field specified at a time");
    }
}

/// A reference to a field of the pod, with an optional `['key']` subscript.
pub(crate) fn check_field_ref(reference: &At<'_>, supported: &[&str], errs: &mut Errors) {
    if reference.field("apiVersion").is_empty() {
        return errs.required(&reference.field("apiVersion"), "");
    }
    let path = reference.field("fieldPath");
    if path.is_empty() {
        return errs.required(&path, "");
    }
    let (field, subscript) = split_subscript(path.text());
    if reference.field("apiVersion").text() != "v1" {
        let detail = format!(
            "error converting fieldPath: unsupported pod version: {}",
            reference.field("apiVersion").text()
        );
        return errs.invalid_text(&path, detail);
    }
    if !is_known_field(field, subscript.is_some()) {
        let detail =
            format!("error converting fieldPath: field label not supported: {}", path.text());
        return errs.invalid_text(&path, detail);
    }
    match (subscript, field) {
        (Some(key), "metadata.annotations") => {
            let key = key.to_lowercase();
            errs.messages_for(reference, &key, &names::qualified_name(&key));
        }
        (Some(key), "metadata.labels") => {
            errs.messages_for(reference, key, &names::qualified_name(key));
        }
        (Some(_), _) => errs.invalid(reference, field, "does not support subscript"),
        (None, _) if !supported.contains(&field) => {
            errs.push(FieldError::not_supported(&path.path, field, supported));
        }
        (None, _) => {}
    }
}

fn split_subscript(path: &str) -> (&str, Option<&str>) {
    let split = path.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match split {
        Some((field, key)) if !field.is_empty() => (field, Some(key)),
        _ => (path, None),
    }
}

fn is_known_field(field: &str, subscripted: bool) -> bool {
    const PLAIN: [&str; 14] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if subscripted {
        matches!(field, "metadata.annotations" | "metadata.labels")
    } else {
        PLAIN.contains(&field) || field == "spec.host"
    }
}

const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A reference to a resource of a container; volumes must name the container.
pub(crate) fn check_resource_field_ref(reference: &At<'_>, in_volume: bool, errs: &mut Errors) {
    let resource = reference.field("resource");
    let huge_pages = ["requests.hugepages-", "limits.hugepages-"]
        .iter()
        .any(|prefix| resource.text().starts_with(prefix));
    if in_volume && reference.field("containerName").is_empty() {
        errs.required(&reference.field("containerName"), "");
    } else if resource.is_empty() {
        errs.required(&resource, "");
    } else if !RESOURCE_FIELDS.contains(&resource.text()) && !huge_pages {
        errs.unsupported(&resource, &RESOURCE_FIELDS);
    }
    check_divisor(reference, resource.text(), huge_pages, errs);
}

fn check_divisor(reference: &At<'_>, resource: &str, huge_pages: bool, errs: &mut Errors) {
    const SIZES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let divisor = reference.field("divisor");
    let text = divisor.text();
    if text.is_empty() || text == "0" {
        return;
    }
    let what = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") if !["1m", "1"].contains(&text) => {
            let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
            return errs.invalid(&divisor, resource, detail);
        }
        Some("memory") => "memory",
        Some("ephemeral-storage") => "local ephemeral storage",
        _ if huge_pages => "hugepages",
        _ => return,
    };
    if !SIZES.contains(&text) {
        errs.invalid(&divisor, resource, format!("only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the {what} resource"));
    }
}

fn check_key_ref(reference: &At<'_>, errs: &mut Errors) {
    let name = reference.field("name");
    errs.messages(&name, &names::dns1123_subdomain(name.text()));
    let key = reference.field("key");
    if errs.required_text(&key) {
        errs.messages(&key, &names::config_map_key(key.text()));
    }
}

fn check_file_key_ref(reference: &At<'_>, errs: &mut Errors) {
    let key = reference.field("key");
    if errs.required_text(&key) {
        errs.messages(&key, &names::env_name(key.text()));
    }
    let volume = reference.field("volumeName");
    if errs.required_text(&volume) {
        errs.messages(&volume, &names::dns1123_label(volume.text()));
    }
    let path = reference.field("path");
    if errs.required_text(&path) {
        volumes::check_no_backsteps(&path, errs);
    }
}

fn check_env_from(sources: &At<'_>, errs: &mut Errors) {
    for source in sources.items() {
        let prefix = source.field("prefix");
        if !prefix.is_empty() {
            errs.messages(&prefix, &names::env_name(prefix.text()));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.field(kind);
            if !reference.is_set() {
                continue;
            }
            count += 1;
            let name = reference.field("name");
            if errs.required_text(&name) {
                errs.messages(&name, &names::subdomain_name(name.text(), true));
            }
        }
        // Compat: these two are reported at the list, not at its element.
        if count == 0 {
            errs.invalid(sources, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errs.invalid(sources, "", "may not have more than one field specified at a time");
        }
    }
}

fn check_mounts(container: &At<'_>, pod: &Surroundings<'_>, errs: &mut Errors) {
    let mounts = container.field("volumeMounts");
    let devices = container.field("volumeDevices");
    let mut paths = BTreeSet::new();
    for mount in mounts.items() {
        let name = mount.field("name");
        errs.required_text(&name);
        if !pod.volumes.contains_key(name.text()) {
            errs.not_found(&name);
        }
        let path = mount.field("mountPath");
        errs.required_text(&path);
        if !paths.insert(path.text()) {
            errs.invalid_text(&path, "must be unique");
        }
        if devices.items().any(|device| device.field("name").text() == name.text()) {
            errs.invalid_text(&name, "must not already exist in volumeDevices");
        }
        if devices.items().any(|device| device.field("devicePath").text() == path.text()) {
            errs.invalid_text(&path, "must not already exist as a path in volumeDevices");
        }
        // Compat: the fields below are reported at the list, not at its element.
        let sub_path = mount.field("subPath").reported_at(mounts.path.child("subPath"));
        if !sub_path.is_empty() {
            volumes::check_descending_path(&sub_path, errs);
        }
        let expression = mount.field("subPathExpr");
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errs.invalid_text(&expression, detail);
            }
            let reported = expression.reported_at(mounts.path.child("subPathExpr"));
            volumes::check_descending_path(&reported, errs);
        }
        check_propagation(&mount, container, &mounts.path, errs);
    }
}

fn check_propagation(mount: &At<'_>, container: &At<'_>, list: &Path, errs: &mut Errors) {
    let propagation = mount.field("mountPropagation").reported_at(list.child("mountPropagation"));
    if propagation.is_set() {
        errs.one_of(&propagation, &["Bidirectional", "HostToContainer", "None"]);
        let privileged = container.at(&["securityContext", "privileged"]).is_true();
        if propagation.text() == "Bidirectional" && !privileged {
            errs.forbidden(
                &propagation,
                "Bidirectional mount propagation is available only to privileged containers",
            );
        }
    }
    let read_only = mount.field("recursiveReadOnly").reported_at(list.child("recursiveReadOnly"));
    match read_only.text() {
        _ if !read_only.is_set() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").is_true() {
                errs.forbidden(&read_only, "may only be specified when readOnly is true");
            }
            if propagation.is_set() && propagation.text() != "None" {
                errs.forbidden(
                    &read_only,
                    "may only be specified when mountPropagation is None or not specified",
                );
            }
        }
        _ => errs.unsupported(&read_only, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn check_devices(container: &At<'_>, pod: &Surroundings<'_>, errs: &mut Errors) {
    let mounts = container.field("volumeMounts");
    let mut paths = BTreeSet::new();
    let mut names = BTreeSet::new();
    for device in container.field("volumeDevices").items() {
        let name = device.field("name");
        let path = device.field("devicePath");
        errs.required_text(&name);
        if names.contains(name.text()) {
            errs.invalid_text(&name, "must be unique");
        }
        match pod.volumes.get(name.text()) {
            None => errs.not_found(&name),
            Some(volume)
                if !volume.field("persistentVolumeClaim").is_set()
                    && !volume.field("ephemeral").is_set() =>
            {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errs.invalid_text(&name, detail);
            }
            Some(_) => {}
        }
        errs.required_text(&path);
        if paths.contains(path.text()) {
            errs.invalid_text(&path, "must be unique");
        }
        if path.text().split('/').any(|part| part == "..") {
            errs.invalid_text(&path, "can not contain backsteps ('..')");
        } else {
            paths.insert(path.text());
        }
        if mounts.items().any(|mount| mount.field("name").text() == name.text()) {
            errs.invalid_text(&name, "must not already exist in volumeMounts");
        }
        if mounts.items().any(|mount| mount.field("mountPath").text() == path.text()) {
            errs.invalid_text(&path, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name.text());
        }
    }
}

fn check_resize_policy(container: &At<'_>, pod: &Surroundings<'_>, errs: &mut Errors) {
    let policies = container.field("resizePolicy");
    let never = pod.spec.field("restartPolicy").text() == "Never";
    let mut seen = BTreeSet::new();
    for policy in policies.items() {
        let resource = policy.field("resourceName").reported_at(policies.path.clone());
        if !seen.insert(resource.text()) {
            errs.push(FieldError::duplicate(&policy.path, resource.text()));
        }
        errs.required_one_of(&resource, &["cpu", "memory"]);
        let restart = policy.field("restartPolicy").reported_at(policies.path.clone());
        errs.required_one_of(&restart, &["NotRequired", "RestartContainer"]);
        if never && restart.text() != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errs.invalid_text(&restart, detail);
        }
    }
}

fn check_restart_policy(container: &At<'_>, errs: &mut Errors) {
    let policy = container.field("restartPolicy");
    let rules = container.field("restartPolicyRules");
    if !policy.is_set() {
        if rules.is_empty() {
            return;
        }
        errs.required(&policy, "must specify restartPolicy when restart rules are used");
    }
    errs.one_of(&policy, &RESTART_POLICIES);
    if rules.len() > 20 {
        errs.too_many(&rules, 20);
    }
    for rule in rules.items() {
        let action = rule.field("action");
        if !["Restart", "RestartAllContainers"].contains(&action.text()) {
            errs.unsupported(&action, &["Restart", "RestartAllContainers"]);
        }
        let codes = rule.field("exitCodes");
        if !codes.is_set() {
            errs.required(&codes, "must be specified");
            continue;
        }
        let operator = codes.field("operator");
        if !["In", "NotIn"].contains(&operator.text()) {
            errs.unsupported(&operator, &["In", "NotIn"]);
        }
        if codes.field("values").len() > 255 {
            errs.too_many(&codes.field("values"), 255);
        }
    }
}

fn check_lifecycle_and_probes(container: &At<'_>, pod: &Surroundings<'_>, errs: &mut Errors) {
    let lifecycle = container.field("lifecycle");
    for hook in ["postStart", "preStop"] {
        if lifecycle.field(hook).is_set() {
            check_handler(&lifecycle.field(hook), pod.grace(), errs);
        }
    }
    if lifecycle.field("stopSignal").is_set() {
        check_stop_signal(&lifecycle.field("stopSignal"), &pod.os(), errs);
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(kind);
        if !probe.is_set() {
            continue;
        }
        check_probe(&probe, errs);
        if kind == "readinessProbe" {
            let grace = probe.field("terminationGracePeriodSeconds");
            if grace.is_set() {
                errs.invalid_value(&grace, "must not be set for readinessProbes");
            }
        } else if probe.field("successThreshold").int() != 1 {
            errs.invalid_int(&probe.field("successThreshold"), "must be 1");
        }
    }
}

fn check_probe(probe: &At<'_>, errs: &mut Errors) {
    check_handler(probe, None, errs);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errs.non_negative(&probe.field(field));
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds <= 0) {
        errs.invalid_int(&grace, "must be greater than 0");
    }
}

fn check_handler(handler: &At<'_>, grace: Option<i64>, errs: &mut Errors) {
    let mut found = false;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = handler.field(kind);
        if !action.is_set() {
            continue;
        }
        if found {
            errs.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match kind {
            "exec" => {
                if action.field("command").is_empty() {
                    errs.required(&action.field("command"), "");
                }
            }
            "httpGet" => check_http_get(&action, errs),
            "sleep" => check_sleep(&action, grace, errs),
            _ => check_port_or_name(&action.field("port"), errs),
        }
    }
    if !found {
        errs.required(handler, "must specify a handler type");
    }
}

fn check_sleep(sleep: &At<'_>, grace: Option<i64>, errs: &mut Errors) {
    let seconds = sleep.field("seconds").int();
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errs.invalid(sleep, seconds, detail);
    }
}

fn check_http_get(action: &At<'_>, errs: &mut Errors) {
    errs.required_text(&action.field("path"));
    check_port_or_name(&action.field("port"), errs);
    let scheme = action.field("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme.text()) {
        errs.unsupported(&scheme, &["HTTP", "HTTPS"]);
    }
    let headers = action.field("httpHeaders");
    for header in headers.items() {
        let name = header.field("name").text();
        errs.messages_for(&headers, name, &names::http_header_name(name));
    }
}

/// A port number or a port name.
pub(crate) fn check_port_or_name(port: &At<'_>, errs: &mut Errors) {
    if port.value.is_string() {
        errs.messages(port, &names::port_name(port.text()));
    } else {
        errs.in_range(port, 1, 65535);
    }
}

const SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

fn check_stop_signal(signal: &At<'_>, os: &At<'_>, errs: &mut Errors) {
    match os.field("name").text() {
        _ if !os.is_set() => {
            errs.forbidden(signal, "may not be set for containers with empty `spec.os.name`");
        }
        "windows" => errs.one_of(signal, &["SIGKILL", "SIGTERM"]),
        "linux" => errs.one_of(signal, &SIGNALS),
        _ => {}
    }
}

/// Variables read from files need an emptyDir volume of that name.
pub(crate) fn check_file_key_volumes(spec: &At<'_>, errs: &mut Errors) {
    for variable in visit(spec).iter().flat_map(|container| container.field("env").items()) {
        let reference = variable.at(&["valueFrom", "fileKeyRef"]);
        if !reference.is_set() {
            continue;
        }
        let name = reference.field("volumeName");
        let volume = spec.field("volumes").items().find(|v| v.field("name").text() == name.text());
        match volume {
            None => errs.not_found(&name),
            Some(volume) if !volume.field("emptyDir").is_set() => {
                errs.invalid_text(&name, "referenced volume must be of type emptyDir");
            }
            Some(_) => {}
        }
    }
}

/// On the host's network a container port is the host's port.
pub(crate) fn check_host_network_ports(spec: &At<'_>, is_pod: bool, errs: &mut Errors) {
    if !spec.field("hostNetwork").is_true() {
        return;
    }
    for port in spec.field("containers").items().flat_map(|c| c.field("ports").items()) {
        let host = port.field("hostPort");
        if (is_pod || host.int() != 0) && host.int() != port.field("containerPort").int() {
            errs.invalid_int(&host, "must match `containerPort` when `hostNetwork` is true");
        }
    }
}

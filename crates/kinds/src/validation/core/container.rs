//! Containers of a pod: names, images, ports, mounts, devices and restart rules.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names;

use super::env::{check_env, check_env_from};
use super::probes::check_lifecycle_and_probes;
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
    pub(crate) fn grace(&self) -> Option<i64> {
        self.spec.field("terminationGracePeriodSeconds").number()
    }

    fn uses_host_users(&self) -> bool {
        self.spec.field("hostUsers").flag() != Some(false)
    }

    pub(crate) fn os(&self) -> At<'a> {
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

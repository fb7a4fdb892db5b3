//! Security contexts of pods and containers: users, profiles, sysctls, Windows options.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;
use regex::Regex;

use super::{container, volumes};
use crate::validation::place::{At, Errors};

const MAX_ID: i64 = i32::MAX as i64;

const SYSCTL_PATTERN: &str =
    "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant")
}

static SYSCTL: LazyLock<Regex> = LazyLock::new(|| pattern(SYSCTL_PATTERN));
static NET_BIOS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$"#));
static USER_DOMAIN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
    )
});

/// Checks the security context of a container.
pub(crate) fn check_container(context: &At<'_>, host_users: bool, errs: &mut Errors) {
    if !context.is_set() {
        return;
    }
    for id in ["runAsUser", "runAsGroup"] {
        if context.field(id).is_set() {
            errs.in_range(&context.field(id), 0, MAX_ID);
        }
    }
    let proc_mount = context.field("procMount");
    errs.one_of(&proc_mount, &["Default", "Unmasked"]);
    if host_users && proc_mount.text() == "Unmasked" {
        errs.invalid_text(&proc_mount, "`hostUsers` must be false to use `Unmasked`");
    }
    check_seccomp(&context.field("seccompProfile"), errs);
    if context.field("allowPrivilegeEscalation").flag() == Some(false) {
        if context.field("privileged").is_true() {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errs.invalid_value(context, detail);
        }
        if context.at(&["capabilities", "add"]).has_text("CAP_SYS_ADMIN") {
            errs.invalid_value(context, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    check_windows_options(&context.field("windowsOptions"), errs);
    check_app_armor(&context.field("appArmorProfile"), errs);
}

/// Checks the security context of a pod; some of its parts lie in the pod spec itself.
pub(crate) fn check_pod(spec: &At<'_>, errs: &mut Errors) {
    let context = spec.field("securityContext");
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        if context.field(id).is_set() {
            errs.in_range(&context.field(id), 0, MAX_ID);
        }
    }
    for group in context.field("supplementalGroups").items() {
        errs.in_range(&group, 0, MAX_ID);
    }
    let shared = spec
        .field("shareProcessNamespace")
        .reported_at(context.path.child("shareProcessNamespace"));
    if shared.is_true() && spec.field("hostPID").is_true() {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errs.invalid_value(&shared, detail);
    }
    check_sysctls(spec, &context.field("sysctls"), errs);
    errs.one_of(&context.field("fsGroupChangePolicy"), &["Always", "OnRootMismatch"]);
    check_seccomp(&context.field("seccompProfile"), errs);
    check_windows_options(&context.field("windowsOptions"), errs);
    check_app_armor(&context.field("appArmorProfile"), errs);
    errs.one_of(&context.field("supplementalGroupsPolicy"), &["Merge", "Strict"]);
    errs.one_of(&context.field("seLinuxChangePolicy"), &["Recursive"]);
}

fn check_sysctls(spec: &At<'_>, sysctls: &At<'_>, errs: &mut Errors) {
    let mut seen = BTreeSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        if name.is_empty() {
            errs.required(&name, "");
        } else if name.len() > 253 || !SYSCTL.is_match(name.text()) {
            let detail =
                format!("must have at most 253 characters and match regex {SYSCTL_PATTERN}");
            errs.invalid_text(&name, detail);
        } else if seen.contains(name.text()) {
            errs.duplicate(&name);
        }
        let dotted = name.text().replace('/', ".");
        let of_ipc = ["kernel.sem", "kernel.msg", "kernel.shm", "fs.mqueue."]
            .iter()
            .any(|prefix| dotted.starts_with(prefix));
        if spec.field("hostNetwork").is_true() && dotted.starts_with("net.") {
            errs.invalid_text(&name, "may not be specified when 'hostNetwork' is true");
        } else if spec.field("hostIPC").is_true() && of_ipc {
            errs.invalid_text(&name, "may not be specified when 'hostIPC' is true");
        }
        seen.insert(name.text());
    }
}

fn check_seccomp(profile: &At<'_>, errs: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let kind = profile.field("type");
    if kind.is_empty() {
        errs.required(&kind, "type is required when seccompProfile is set");
    } else {
        errs.one_of(&kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    let local = profile.field("localhostProfile");
    if kind.text() == "Localhost" {
        if local.is_set() {
            volumes::check_descending_path(&local, errs);
        } else {
            errs.required(&local, "must be set when seccomp type is Localhost");
        }
    } else if local.is_set() {
        let detail = "can only be set when seccomp type is Localhost";
        errs.invalid(&local, profile.shown(), detail);
    }
}

fn check_app_armor(profile: &At<'_>, errs: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let local = profile.field("localhostProfile");
    let missing = "must be set when AppArmor type is Localhost";
    match profile.field("type").text() {
        "Localhost" if !local.is_set() => errs.required(&local, missing),
        "Localhost" => {
            if local.text().trim() != local.text() {
                errs.invalid_text(&local, "must not be padded with whitespace");
            } else if local.is_empty() {
                errs.required(&local, missing);
            }
            if local.len() > 4095 {
                errs.too_long(&local, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                errs.invalid_text(&local, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errs.required(&profile.field("type"), "type is required when appArmorProfile is set"),
        _ => {
            errs.unsupported(&profile.field("type"), &["Localhost", "RuntimeDefault", "Unconfined"])
        }
    }
}

fn check_windows_options(options: &At<'_>, errs: &mut Errors) {
    let name = options.field("gmsaCredentialSpecName");
    if name.is_set() {
        errs.messages(&name, &names::dns1123_subdomain(name.text()));
    }
    let spec = options.field("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        errs.invalid_text(&spec, "gmsaCredentialSpec cannot be an empty string");
    } else if spec.len() > 64 * 1024 {
        errs.invalid_text(&spec, "gmsaCredentialSpec size must be under 64 KiB");
    }
    let user = options.field("runAsUserName");
    if user.is_set() {
        for detail in windows_user_problems(user.text()) {
            errs.invalid_text(&user, detail);
        }
    }
}

fn windows_user_problems(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    if name.matches('\\').count() > 1 {
        return vec!["runAsUserName cannot contain more than one backslash"];
    }
    let mut problems = Vec::new();
    let user = match name.split_once('\\') {
        None => name,
        Some((domain, user)) => {
            if domain.len() >= 256 {
                problems.push("runAsUserName's Domain length must be under 256 characters");
            }
            if !NET_BIOS.is_match(domain) && !USER_DOMAIN.is_match(domain) {
                problems
                    .push("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
            }
            user
        }
    };
    if user.is_empty() {
        problems.push("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        problems.push("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        problems.push("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.chars().any(|c| r#""/\:;|=,+*?<>@[]"#.contains(c)) {
        problems.push(
            r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#,
        );
    }
    problems
}

/// Either all containers of a pod are Windows host processes, or none.
pub(crate) fn check_host_process(spec: &At<'_>, errs: &mut Errors) {
    let path = ["securityContext", "windowsOptions", "hostProcess"];
    let of_pod = spec.at(&path).flag();
    let containers = container::visit(spec);
    let mut count = 0;
    for container in &containers {
        let own = container.at(&path);
        if let (Some(pod), Some(own_value)) = (of_pod, own.flag())
            && pod != own_value
        {
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errs.invalid_value(&own, detail);
        }
        count += usize::from(own.flag().or(of_pod) == Some(true));
    }
    if count == 0 {
        return;
    }
    if count != containers.len() {
        errs.invalid(spec, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers");
    }
    if !spec.field("hostNetwork").is_true() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errs.invalid(&spec.field("hostNetwork"), false, detail);
    }
}

/// A pod in a user namespace shares neither network, nor processes, nor IPC with the host.
pub(crate) fn check_host_users(spec: &At<'_>, errs: &mut Errors) {
    if spec.field("hostUsers").flag() != Some(false) {
        return;
    }
    for (field, reported) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if spec.field(field).is_true() {
            errs.forbidden(&spec.renamed(field, reported), "when `hostUsers` is false");
        }
    }
    for container in container::visit(spec) {
        if !container.field("volumeDevices").is_empty() {
            errs.forbidden(&container.field("volumeDevices"), "when `hostUsers` is false");
        }
    }
}

const NOT_FOR_WINDOWS_PODS: [(&str, bool); 15] = [
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];

const NOT_FOR_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Checks `os` and what the named system does not support.
pub(crate) fn check_os(spec: &At<'_>, errs: &mut Errors) {
    let os = spec.field("os");
    let name = os.field("name");
    match name.text() {
        _ if !os.is_set() => {}
        "" => errs.required(&name, ""),
        "linux" => {
            let places = std::iter::once(spec.clone()).chain(container::visit(spec));
            for options in places.map(|at| at.at(&["securityContext", "windowsOptions"])) {
                if options.is_set() {
                    errs.forbidden(&options, "windows options cannot be set for a linux pod");
                }
            }
        }
        "windows" => check_windows(spec, errs),
        other => errs.push(FieldError::not_supported(&os.path, other, &["linux", "windows"])),
    }
}

fn check_windows(spec: &At<'_>, errs: &mut Errors) {
    const DETAIL: &str = "cannot be set for a windows pod";
    let context = spec.field("securityContext");
    for (field, in_context) in NOT_FOR_WINDOWS_PODS {
        let at = if in_context { context.field(field) } else { spec.field(field) };
        let host_flag = matches!(field, "hostPID" | "hostIPC") && !at.is_true();
        if at.is_set() && !host_flag {
            errs.forbidden(&at, DETAIL);
        }
    }
    for container in container::visit(spec) {
        for field in NOT_FOR_WINDOWS_CONTAINERS {
            let at = container.at(&["securityContext", field]);
            if at.is_set() {
                errs.forbidden(&at, DETAIL);
            }
        }
    }
}

/// Profiles given both as annotation and as field must agree.
pub(crate) fn check_profile_annotations(meta: &At<'_>, spec: &At<'_>, errs: &mut Errors) {
    let annotations = meta.field("annotations");
    let annotation = |key: &str| annotations.field(key).value.as_str();
    let profile = spec.at(&["securityContext", "seccompProfile"]);
    if let Some(text) = annotation("seccomp.security.alpha.kubernetes.io/pod") {
        check_agreement(&profile, text, "seccomp", errs);
    }
    for container in container::visit(spec) {
        let key = format!(
            "container.seccomp.security.alpha.kubernetes.io/{}",
            container.field("name").text()
        );
        if let Some(text) = annotation(&key) {
            let profile = container.at(&["securityContext", "seccompProfile"]);
            check_agreement(&profile, text, "seccomp", errs);
        }
    }
    if spec.at(&["os", "name"]).text() == "windows" {
        return;
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
    for container in container::visit(spec) {
        let own = container.at(&["securityContext", "appArmorProfile"]);
        let profile = if own.is_set() { own.clone() } else { of_pod.reported_at(own.path) };
        let key = format!(
            "container.apparmor.security.beta.kubernetes.io/{}",
            container.field("name").text()
        );
        if let Some(text) = annotation(&key) {
            check_agreement(&profile, text, "apparmor", errs);
        }
    }
}

fn check_agreement(profile: &At<'_>, annotation: &str, what: &str, errs: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let defaults: &[&str] = if what == "seccomp" {
        &["runtime/default", "docker/default"]
    } else {
        &["runtime/default"]
    };
    let local = annotation.strip_prefix("localhost/");
    let type_agrees = match profile.field("type").text() {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => defaults.contains(&annotation),
        "Localhost" => local.is_some(),
        _ => return,
    };
    if !type_agrees {
        let detail = format!("{what} type in annotation and field must match");
        errs.forbidden(&profile.field("type"), detail);
    } else if let Some(local) = local
        && profile.field("localhostProfile").value.as_str() != Some(local)
    {
        let detail = format!("{what} profile in annotation and field must match");
        errs.forbidden(&profile.field("localhostProfile"), detail);
    }
}

/// Profiles named in annotations must be well formed and name containers of the pod.
pub(crate) fn check_annotated_profiles(annotations: &At<'_>, spec: &At<'_>, errs: &mut Errors) {
    for (key, _) in annotations.entries() {
        let seccomp = key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/");
        if seccomp {
            check_seccomp_name(&annotations.field(key), errs);
        }
    }
    for (key, value) in annotations.entries() {
        let Some(name) = key.strip_prefix("container.apparmor.security.beta.kubernetes.io/") else {
            continue;
        };
        if !container::visit(spec).iter().any(|c| c.field("name").text() == name) {
            errs.invalid(&value, name, "container not found");
        }
        let known = matches!(value.text(), "" | "runtime/default" | "unconfined")
            || value.text().starts_with("localhost/");
        if !known {
            let quoted = karmada_apimachinery::field::quote(value.text());
            errs.invalid_text(&value, format!("invalid AppArmor profile name: {quoted}"));
        }
    }
}

fn check_seccomp_name(value: &At<'_>, errs: &mut Errors) {
    match value.text() {
        "runtime/default" | "docker/default" | "unconfined" => {}
        text => match text.strip_prefix("localhost/") {
            Some(path) => volumes::check_descending_text(value, path, errs),
            None => errs.invalid_text(value, "must be a valid seccomp profile"),
        },
    }
}

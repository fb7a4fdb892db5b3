//! The rules of pod security, each with the level it belongs to and the version of Kubernetes that began it.

use std::collections::BTreeSet;

use karmada_apimachinery::Value;
use karmada_apimachinery::field::quote;
use karmada_apimachinery::object::ObjectExt as _;

use super::{Level, Violation};

pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) level: Level,
    /// The minor version of Kubernetes that has it first.
    pub(super) since: u32,
    /// Milder rules that are not asked where this one is.
    pub(super) replaces: &'static [&'static str],
    /// Looks at a pod as the minor version of Kubernetes would.
    pub(super) look: fn(&Value, u32) -> Option<Violation>,
}

const fn baseline(
    name: &'static str,
    since: u32,
    look: fn(&Value, u32) -> Option<Violation>,
) -> Check {
    Check { name, level: Level::Baseline, since, replaces: &[], look }
}

const fn restricted(
    name: &'static str,
    since: u32,
    replaces: &'static [&'static str],
    look: fn(&Value, u32) -> Option<Violation>,
) -> Check {
    Check { name, level: Level::Restricted, since, replaces, look }
}

/// In the order their violations are told.
pub(super) const CHECKS: &[Check] = &[
    baseline("appArmorProfile", 0, app_armor),
    baseline("capabilities_baseline", 0, added_capabilities),
    baseline("hostNamespaces", 0, host_namespaces),
    baseline("hostPathVolumes", 0, host_paths),
    baseline("hostPorts", 0, host_ports),
    baseline("hostProbesAndHostLifecycle", 34, probed_hosts),
    baseline("privileged", 0, privileged),
    baseline("procMount", 0, |pod, minor| {
        if minor >= 35 && has_own_users(pod) { None } else { proc_mount(pod, minor) }
    }),
    baseline("seLinuxOptions", 0, se_linux),
    baseline("seccompProfile_baseline", 0, seccomp_baseline),
    baseline("sysctls", 0, sysctls),
    baseline("windowsHostProcess", 0, windows_host_process),
    restricted("allowPrivilegeEscalation", 8, &[], privilege_escalation),
    restricted("capabilities_restricted", 22, &["capabilities_baseline"], capabilities),
    restricted("procMount_restricted", 35, &["procMount"], proc_mount),
    restricted("restrictedVolumes", 0, &["hostPathVolumes"], volumes),
    restricted("runAsNonRoot", 0, &[], run_as_non_root),
    restricted("runAsUser", 23, &[], run_as_user),
    restricted("seccompProfile_restricted", 19, &["seccompProfile_baseline"], seccomp_restricted),
];

fn violation(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| pod.list_at(&["spec", field]))
}

fn name(value: &Value) -> String {
    value.str_at(&["name"]).unwrap_or_default().to_owned()
}

/// The names of the containers that a rule finds fault with.
fn faulty(pod: &Value, mut is_bad: impl FnMut(&Value) -> bool) -> Vec<String> {
    containers(pod).filter(|container| is_bad(container)).map(name).collect()
}

fn quoted<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> String {
    let items: Vec<String> =
        items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

fn counted(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// `container "a"` or `containers "a", "b"`.
fn named(containers: &[String]) -> String {
    format!("{} {}", counted(containers.len(), "container", "containers"), quoted(containers))
}

/// The pod, the containers or both, as the subject of a sentence.
fn setters(pod: bool, containers: &[String]) -> Option<String> {
    match (pod, containers) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, some) => Some(named(some)),
        (true, some) => Some(format!("pod and {}", named(some))),
    }
}

fn is_windows(pod: &Value) -> bool {
    pod.str_at(&["spec", "os", "name"]) == Some("windows")
}

/// Users of such a pod are nobody outside of it.
fn has_own_users(pod: &Value) -> bool {
    pod.bool_at(&["spec", "hostUsers"]) == Some(false)
}

fn pod_context<'a>(pod: &'a Value, field: &str) -> Option<&'a Value> {
    pod.at(&["spec", "securityContext", field]).filter(|value| !value.is_null())
}

fn context<'a>(container: &'a Value, field: &str) -> Option<&'a Value> {
    container.at(&["securityContext", field]).filter(|value| !value.is_null())
}

fn kind_of(profile: &Value) -> &str {
    profile.str_at(&["type"]).unwrap_or_default()
}

fn app_armor(pod: &Value, _minor: u32) -> Option<Violation> {
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let mut values = BTreeSet::new();
    let mut is_bad = |profile: Option<&Value>| {
        let kind = profile.map(kind_of);
        let bad = kind.filter(|kind| !matches!(*kind, "RuntimeDefault" | "Localhost"));
        values.extend(bad.map(str::to_owned));
        bad.is_some()
    };
    let by_pod = is_bad(pod_context(pod, "appArmorProfile"));
    let by_containers = faulty(pod, |container| is_bad(context(container, "appArmorProfile")));
    let mut values: Vec<String> = values.into_iter().collect();
    let mut who: Vec<String> = setters(by_pod, &by_containers).into_iter().collect();
    let annotations = pod.map_at(&["metadata", "annotations"]).into_iter().flatten();
    let mut annotations: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with(ANNOTATION))
        .map(|(key, value)| (key, value.as_str().unwrap_or_default()))
        .filter(|(_, value)| {
            !value.is_empty() && *value != "runtime/default" && !value.starts_with("localhost/")
        })
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .collect();
    if !annotations.is_empty() {
        annotations.sort();
        who.push(counted(annotations.len(), "annotation", "annotations").to_owned());
        values.extend(annotations);
    }
    if who.is_empty() {
        return None;
    }
    violation(
        counted(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values)),
    )
}

/// What a container adds that is not on a list.
fn adds<'a>(container: &'a Value, allowed: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    let added = container.list_at(&["securityContext", "capabilities", "add"]).iter();
    added.filter_map(Value::as_str).filter(|name| !allowed.contains(name)).map(str::to_owned)
}

fn must_not_add(containers: &[String], added: &BTreeSet<String>) -> String {
    let who = named(containers);
    format!("{who} must not include {} in securityContext.capabilities.add", quoted(added))
}

fn added_capabilities(pod: &Value, _minor: u32) -> Option<Violation> {
    const ALLOWED: &[&str] = &[
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let found: BTreeSet<String> = containers(pod).flat_map(|c| adds(c, ALLOWED)).collect();
    let bad = faulty(pod, |container| adds(container, ALLOWED).next().is_some());
    if bad.is_empty() {
        return None;
    }
    violation("non-default capabilities", must_not_add(&bad, &found))
}

fn capabilities(pod: &Value, minor: u32) -> Option<Violation> {
    const ALLOWED: &[&str] = &["NET_BIND_SERVICE"];
    if minor >= 25 && is_windows(pod) {
        return None;
    }
    let keeping = faulty(pod, |container| {
        let dropped = container.list_at(&["securityContext", "capabilities", "drop"]);
        !dropped.iter().any(|name| name == "ALL")
    });
    let adding = faulty(pod, |container| adds(container, ALLOWED).next().is_some());
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = named(&keeping);
        details.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        let added = containers(pod).flat_map(|c| adds(c, ALLOWED)).collect();
        details.push(must_not_add(&adding, &added));
    }
    if details.is_empty() {
        return None;
    }
    violation("unrestricted capabilities", details.join("; "))
}

fn host_namespaces(pod: &Value, _minor: u32) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"];
    let set = fields.into_iter().filter(|field| pod.bool_at(&["spec", field]) == Some(true));
    let set: Vec<String> = set.map(|field| format!("{field}=true")).collect();
    if set.is_empty() {
        return None;
    }
    violation("host namespaces", set.join(", "))
}

fn host_paths(pod: &Value, _minor: u32) -> Option<Violation> {
    let volumes = pod.list_at(&["spec", "volumes"]).iter();
    let bad: Vec<String> =
        volumes.filter(|volume| volume.get("hostPath").is_some()).map(name).collect();
    if bad.is_empty() {
        return None;
    }
    let word = counted(bad.len(), "volume", "volumes");
    violation("hostPath volumes", format!("{word} {}", quoted(&bad)))
}

fn host_ports(pod: &Value, _minor: u32) -> Option<Violation> {
    let ports = |container: &Value| -> Vec<String> {
        let ports = container.list_at(&["ports"]).iter();
        let ports = ports.filter_map(|port| port.i64_at(&["hostPort"]));
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let bad = faulty(pod, |container| !ports(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(pod).flat_map(ports).collect();
    let all: Vec<String> = all.into_iter().collect();
    let verb = counted(bad.len(), "uses", "use");
    let word = counted(all.len(), "hostPort", "hostPorts");
    violation("hostPort", format!("{} {verb} {word} {}", named(&bad), all.join(", ")))
}

fn probed_hosts(pod: &Value, _minor: u32) -> Option<Violation> {
    const HANDLERS: &[&[&str]] = &[
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let hosts = |container: &Value| -> Vec<String> {
        let handlers = HANDLERS.iter().filter_map(|path| container.at(path));
        let hosts = handlers.flat_map(|handler| {
            ["httpGet", "tcpSocket"].into_iter().filter_map(|way| handler.str_at(&[way, "host"]))
        });
        hosts.filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let bad: BTreeSet<String> =
        faulty(pod, |container| !hosts(container).is_empty()).into_iter().collect();
    if bad.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(pod).flat_map(hosts).collect();
    let bad: Vec<String> = bad.into_iter().collect();
    let verb = counted(bad.len(), "uses", "use");
    let word = counted(all.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    violation("probe or lifecycle host", format!("{} {verb} {word} {}", named(&bad), quoted(&all)))
}

fn privileged(pod: &Value, _minor: u32) -> Option<Violation> {
    let bad = faulty(pod, |c| c.bool_at(&["securityContext", "privileged"]) == Some(true));
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} must not set securityContext.privileged=true", named(&bad));
    violation("privileged", detail)
}

fn proc_mount(pod: &Value, _minor: u32) -> Option<Violation> {
    let other = |container: &Value| {
        let kind = container.str_at(&["securityContext", "procMount"]);
        kind.filter(|kind| *kind != "Default").map(str::to_owned)
    };
    let bad = faulty(pod, |container| other(container).is_some());
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = containers(pod).filter_map(other).collect();
    let who = named(&bad);
    violation(
        "procMount",
        format!("{who} must not set securityContext.procMount to {}", quoted(&kinds)),
    )
}

fn se_linux(pod: &Value, minor: u32) -> Option<Violation> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let mut is_bad = |options: Option<&Value>| {
        let Some(options) = options else { return false };
        let text = |field: &str| options.str_at(&[field]).unwrap_or_default();
        let allowed = match text("type") {
            "" | "container_t" | "container_init_t" | "container_kvm_t" => true,
            "container_engine_t" => minor >= 31,
            _ => false,
        };
        if !allowed {
            types.insert(text("type").to_owned());
        }
        user |= !text("user").is_empty();
        role |= !text("role").is_empty();
        !allowed || !text("user").is_empty() || !text("role").is_empty()
    };
    let by_pod = is_bad(pod_context(pod, "seLinuxOptions"));
    let by_containers = faulty(pod, |container| is_bad(context(container, "seLinuxOptions")));
    let who = setters(by_pod, &by_containers)?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", counted(types.len(), "type", "types"), quoted(&types)));
    }
    what.extend(user.then(|| "user may not be set".to_owned()));
    what.extend(role.then(|| "role may not be set".to_owned()));
    let what = what.join("; ");
    violation(
        "seLinuxOptions",
        format!("{who} set forbidden securityContext.seLinuxOptions: {what}"),
    )
}

fn seccomp_baseline(pod: &Value, minor: u32) -> Option<Violation> {
    if minor < 19 {
        return seccomp_annotations(pod);
    }
    let profiles = Seccomp::of(pod);
    profiles.forbidden()
}

/// How profiles were asked for before there was a field.
fn seccomp_annotations(pod: &Value) -> Option<Violation> {
    let of_pod = "seccomp.security.alpha.kubernetes.io/pod".to_owned();
    let of_containers = containers(pod)
        .map(|c| format!("container.seccomp.security.alpha.kubernetes.io/{}", name(c)));
    let forbidden: BTreeSet<String> = std::iter::once(of_pod)
        .chain(of_containers)
        .filter_map(|key| {
            let value = pod.annotation(&key)?;
            let allowed = matches!(value, "runtime/default" | "docker/default")
                || value.starts_with("localhost/");
            (!allowed).then(|| format!("{key}={}", quote(value)))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let word = counted(forbidden.len(), "annotation", "annotations");
    let list: Vec<String> = forbidden.into_iter().collect();
    violation("seccompProfile", format!("forbidden {word} {}", list.join(", ")))
}

struct Seccomp {
    pod_is_bad: bool,
    bad: Vec<String>,
    /// Containers that neither they nor their pod give a profile to.
    without: Vec<String>,
    kinds: BTreeSet<String>,
}

impl Seccomp {
    fn of(pod: &Value) -> Self {
        let is_good = |profile: &Value| matches!(kind_of(profile), "Localhost" | "RuntimeDefault");
        let of_pod = pod_context(pod, "seccompProfile");
        let mut kinds: BTreeSet<String> = BTreeSet::new();
        kinds.extend(of_pod.filter(|p| !is_good(p)).map(|p| kind_of(p).to_owned()));
        let bad = faulty(pod, |container| {
            let profile = context(container, "seccompProfile").filter(|p| !is_good(p));
            kinds.extend(profile.map(|p| kind_of(p).to_owned()));
            profile.is_some()
        });
        let covered = of_pod.is_some_and(is_good);
        let without =
            faulty(pod, |container| !covered && context(container, "seccompProfile").is_none());
        Self { pod_is_bad: of_pod.is_some_and(|p| !is_good(p)), bad, without, kinds }
    }

    fn forbidden(&self) -> Option<Violation> {
        let who = setters(self.pod_is_bad, &self.bad)?;
        let kinds = quoted(&self.kinds);
        violation(
            "seccompProfile",
            format!("{who} must not set securityContext.seccompProfile.type to {kinds}"),
        )
    }
}

fn seccomp_restricted(pod: &Value, minor: u32) -> Option<Violation> {
    if minor >= 25 && is_windows(pod) {
        return None;
    }
    let profiles = Seccomp::of(pod);
    profiles.forbidden().or_else(|| {
        if profiles.without.is_empty() {
            return None;
        }
        let who = named(&profiles.without);
        violation(
            "seccompProfile",
            format!("pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""),
        )
    })
}

fn sysctls(pod: &Value, minor: u32) -> Option<Violation> {
    const ALLOWED: &[(&str, u32)] = &[
        ("kernel.shm_rmid_forced", 0),
        ("net.ipv4.ip_local_port_range", 0),
        ("net.ipv4.tcp_syncookies", 0),
        ("net.ipv4.ping_group_range", 0),
        ("net.ipv4.ip_unprivileged_port_start", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_keepalive_intvl", 29),
        ("net.ipv4.tcp_keepalive_probes", 29),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_wmem", 32),
    ];
    let set = pod.list_at(&["spec", "securityContext", "sysctls"]).iter().map(name);
    let bad: Vec<String> = set
        .filter(|name| !ALLOWED.iter().any(|(known, since)| known == name && *since <= minor))
        .collect();
    if bad.is_empty() {
        return None;
    }
    violation("forbidden sysctls", bad.join(", "))
}

fn windows_host_process(pod: &Value, _minor: u32) -> Option<Violation> {
    let is_set = |options: Option<&Value>| {
        options.and_then(|options| options.bool_at(&["hostProcess"])) == Some(true)
    };
    let bad = faulty(pod, |container| is_set(context(container, "windowsOptions")));
    let who = setters(is_set(pod_context(pod, "windowsOptions")), &bad)?;
    violation(
        "hostProcess",
        format!("{who} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}

fn privilege_escalation(pod: &Value, minor: u32) -> Option<Violation> {
    if minor >= 25 && is_windows(pod) {
        return None;
    }
    let field = &["securityContext", "allowPrivilegeEscalation"];
    let bad = faulty(pod, |container| container.bool_at(field) != Some(false));
    if bad.is_empty() {
        return None;
    }
    violation(
        "allowPrivilegeEscalation != false",
        format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&bad)),
    )
}

fn volumes(pod: &Value, _minor: u32) -> Option<Violation> {
    const ALLOWED: &[&str] = &[
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let source = |volume: &Value| {
        let fields = volume.as_object().into_iter().flatten();
        let mut fields = fields.filter(|(key, value)| *key != "name" && !value.is_null());
        fields.next().map_or_else(|| "unknown".to_owned(), |(key, _)| key.to_string())
    };
    let all = pod.list_at(&["spec", "volumes"]).iter();
    let bad: Vec<&Value> = all.filter(|v| !ALLOWED.contains(&source(v).as_str())).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = bad.iter().map(|volume| source(volume)).collect();
    let names: Vec<String> = bad.iter().map(|volume| name(volume)).collect();
    let volumes = counted(names.len(), "volume", "volumes");
    let verb = counted(names.len(), "uses", "use");
    let word = counted(kinds.len(), "restricted volume type", "restricted volume types");
    violation(
        "restricted volume types",
        format!("{volumes} {} {verb} {word} {}", quoted(&names), quoted(&kinds)),
    )
}

fn run_as_non_root(pod: &Value, minor: u32) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if minor >= 35 && has_own_users(pod) {
        return None;
    }
    let of_pod = pod.bool_at(&["spec", "securityContext", "runAsNonRoot"]);
    let of = |container: &Value| container.bool_at(&["securityContext", "runAsNonRoot"]);
    let bad = faulty(pod, |container| of(container) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &bad) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return violation(REASON, detail);
    }
    let silent = faulty(pod, |container| of_pod != Some(true) && of(container).is_none());
    if silent.is_empty() {
        return None;
    }
    let who = named(&silent);
    violation(REASON, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

fn run_as_user(pod: &Value, minor: u32) -> Option<Violation> {
    if minor >= 35 && has_own_users(pod) {
        return None;
    }
    let is_root = |context: Option<&Value>| context.and_then(Value::as_i64) == Some(0);
    let bad = faulty(pod, |container| is_root(context(container, "runAsUser")));
    let who = setters(is_root(pod_context(pod, "runAsUser")), &bad)?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

//! Pod security: which standard the labels of a namespace ask for, and where a pod falls short of it.

mod checks;

#[cfg(test)]
mod tests;

use std::fmt;

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::object::ObjectExt as _;

const PREFIX: &str = "pod-security.kubernetes.io/";

/// How strict a standard is, from nothing to all rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Self::Privileged),
            "baseline" => Some(Self::Baseline),
            "restricted" => Some(Self::Restricted),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A level as a minor version of Kubernetes defines it; without one as the newest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standard {
    pub level: Level,
    pub minor: Option<u32>,
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor {
            None => write!(f, "{}:latest", self.level.as_str()),
            Some(minor) => write!(f, "{}:v1.{minor}", self.level.as_str()),
        }
    }
}

/// What a namespace asks for: what is refused, what is noted in the audit log, what is warned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standards {
    pub enforce: Standard,
    pub audit: Standard,
    pub warn: Standard,
}

impl Standards {
    /// Reads the labels of a namespace. A label that cannot be read is an error; refusals then follow the
    /// strictest standard, notes and warnings none.
    pub fn of(namespace: &Value) -> (Self, Vec<FieldError>) {
        let mut errors = Vec::new();
        let enforce = standard(namespace, "enforce", Level::Restricted, &mut errors);
        let audit = standard(namespace, "audit", Level::Privileged, &mut errors);
        let mut warn = standard(namespace, "warn", Level::Privileged, &mut errors);
        let label = |name: &str| namespace.label(&format!("{PREFIX}{name}"));
        // What is refused for pods is warned of for what makes pods, unless a label says how much.
        let readable = label("enforce").and_then(Level::parse);
        if label("warn").is_none() && readable.is_some_and(|level| level > warn.level) {
            warn.level = enforce.level;
            if label("warn-version").is_none() {
                warn.minor = enforce.minor;
            }
        }
        (Self { enforce, audit, warn }, errors)
    }
}

fn standard(
    namespace: &Value,
    mode: &str,
    unreadable: Level,
    errors: &mut Vec<FieldError>,
) -> Standard {
    let mut refuse = |label: &str, value: &str, why: &str| {
        let path = Path::new("metadata").child("labels").key(label);
        errors.push(FieldError::invalid(&path, value, why));
    };
    let label = format!("{PREFIX}{mode}");
    let level = namespace.label(&label).map_or(Level::Privileged, |text| {
        Level::parse(text).unwrap_or_else(|| {
            refuse(&label, text, "must be one of privileged, baseline, restricted");
            unreadable
        })
    });
    let label = format!("{PREFIX}{mode}-version");
    let minor = namespace.label(&label).filter(|text| *text != "latest").and_then(|text| {
        let minor = minor_of(text);
        if minor.is_none() {
            refuse(&label, text, "must be \"latest\" or \"v1.x\"");
        }
        minor
    });
    Standard { level, minor }
}

fn minor_of(version: &str) -> Option<u32> {
    let digits = version.strip_prefix("v1.")?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    plain.then(|| digits.parse().ok())?
}

/// A rule that a pod breaks.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    pub reason: &'static str,
    pub detail: String,
}

/// All rules of a standard that a pod breaks, in the order Kubernetes tells them. `pod` has the metadata and
/// the spec of a pod; it may be a template.
pub fn violations(standard: Standard, pod: &Value) -> Vec<Violation> {
    let minor = standard.minor.unwrap_or(u32::MAX);
    if standard.level == Level::Privileged {
        return Vec::new();
    }
    let in_force = |check: &checks::Check| check.level <= standard.level && check.since <= minor;
    let replaced: Vec<&str> = checks::CHECKS
        .iter()
        .filter(|check| in_force(check))
        .flat_map(|c| c.replaces)
        .copied()
        .collect();
    let applicable = checks::CHECKS.iter().filter(|c| in_force(c) && !replaced.contains(&c.name));
    applicable.filter_map(|check| (check.look)(pod, minor)).collect()
}

/// The rules with what breaks them, as one text.
pub fn details(violations: &[Violation]) -> String {
    let texts: Vec<String> =
        violations.iter().map(|v| format!("{} ({})", v.reason, v.detail)).collect();
    texts.join(", ")
}

/// The rules alone, as one text.
pub fn reasons(violations: &[Violation]) -> String {
    let texts: Vec<&str> = violations.iter().map(|v| v.reason).collect();
    texts.join(", ")
}

/// Where the pod is in an object of a kind that is one or makes some.
pub fn pod_of<'a>(group: &str, resource: &str, object: &'a Value) -> Option<&'a Value> {
    match (group, resource) {
        ("", "pods") => Some(object),
        ("", "podtemplates") => object.at(&["template"]),
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => object.at(&["spec", "template"]),
        ("batch", "cronjobs") => object.at(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

/// Whether an update of a pod touches what the rules are about: images, and containers that come or go.
pub fn concerns(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value, field: &str| -> Vec<String> {
        let containers = pod.list_at(&["spec", field]).iter();
        containers.map(|c| c.str_at(&["image"]).unwrap_or_default().to_owned()).collect()
    };
    let debugging = |pod: &Value, container: &Value| {
        let mut others = pod.list_at(&["spec", "ephemeralContainers"]).iter();
        others.any(|other| {
            other.get("name") == container.get("name")
                && other.get("image") == container.get("image")
        })
    };
    ["containers", "initContainers"].iter().any(|field| images(new, field) != images(old, field))
        || new.list_at(&["spec", "ephemeralContainers"]).iter().any(|c| !debugging(old, c))
}

/// What to tell whoever makes a namespace stricter than pods in it are.
pub fn existing_pods(namespace: &str, enforce: Standard, pods: &[&Value]) -> Vec<String> {
    const LOOKED_AT: usize = 3000;
    let mut groups: Vec<(String, &str, usize)> = Vec::new();
    for pod in pods.iter().take(LOOKED_AT) {
        let found = violations(enforce, pod);
        if found.is_empty() {
            continue;
        }
        let reasons = reasons(&found);
        match groups.iter_mut().find(|(other, _, _)| *other == reasons) {
            Some((_, name, count)) => {
                *name = (*name).min(pod.name());
                *count += 1;
            }
            None => groups.push((reasons, pod.name(), 1)),
        }
    }
    let mut told = Vec::new();
    if pods.len() > LOOKED_AT {
        let all = pods.len();
        told.push(format!("new PodSecurity enforce level only checked against the first {LOOKED_AT} of {all} existing pods"));
    }
    if !groups.is_empty() {
        told.push(format!("existing pods in namespace \"{namespace}\" violate the new PodSecurity enforce level \"{enforce}\""));
    }
    let mut lines: Vec<String> = groups
        .into_iter()
        .map(|(reasons, name, count)| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            _ => format!("{name} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    lines.sort();
    told.extend(lines);
    told
}

//! Ports of a pod's containers that repeat or contradict each other.

use karmada_apimachinery::Value;
use karmada_apimachinery::field::{Path, quote};
use karmada_apimachinery::object::ObjectExt as _;

use super::Warnings;

/// One port with the place it is defined at.
struct Port<'a> {
    path: Path,
    port: &'a Value,
}

impl Port<'_> {
    fn number(&self, field: &str) -> i64 {
        self.port.i64_at(&[field]).unwrap_or_default()
    }

    fn text(&self, field: &str) -> &str {
        self.port.str_at(&[field]).unwrap_or_default()
    }

    fn is_same_port(&self, other: &Self) -> bool {
        self.number("containerPort") == other.number("containerPort")
            && self.text("protocol") == other.text("protocol")
    }

    /// How this definition relates to an earlier one of the same port.
    fn clash(&self, other: &Self) -> Option<&'static str> {
        let (host, other_host) = (self.text("hostIP"), other.text("hostIP"));
        let (port, other_port) = (self.number("hostPort"), other.number("hostPort"));
        if host == other_host && port == other_port {
            Some("duplicate")
        } else if port == 0 || other_port == 0 {
            Some("overlapping")
        } else if port == other_port && host.is_empty() != other_host.is_empty() {
            Some("dangerously ambiguous")
        } else {
            None
        }
    }
}

pub(super) fn ports(found: &mut Warnings, containers: &[(Path, &Value)]) {
    let mut all: Vec<Port<'_>> = Vec::new();
    for (path, container) in containers {
        for (index, port) in container.list_at(&["ports"]).iter().enumerate() {
            let port = Port { path: path.child("ports").index(index), port };
            if !port.text("hostIP").is_empty() && port.number("hostPort") == 0 {
                found.at(&port.path, format!("hostIP set without hostPort: {}", printed(&port)));
            }
            for other in all.iter().filter(|other| port.is_same_port(other)) {
                if let Some(how) = port.clash(other) {
                    found.at(&port.path, format!("{how} port definition with {}", other.path));
                }
            }
            all.push(port);
        }
    }
    for (index, port) in all.iter().enumerate() {
        let name = port.text("name");
        let first =
            all[..index].iter().find(|other| !name.is_empty() && other.text("name") == name);
        if let Some(other) = first {
            let (shown, other) = (quote(name), &other.path);
            found.at(&port.path, format!(
                "duplicate port name {shown} with {other}, services and probes that select ports by name will use {other}"
            ));
        }
    }
}

/// Compat: the port appears here as Go prints the struct.
fn printed(port: &Port<'_>) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        port.text("name"),
        port.number("hostPort"),
        port.number("containerPort"),
        port.text("protocol"),
        port.text("hostIP")
    )
}

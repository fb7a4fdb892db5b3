//! Addresses of load balancers: all entries of all members, each once, in a fixed order.

use std::collections::{BTreeMap, BTreeSet};

use karmada_apimachinery::{Map, Value, json};

use super::replace_status;
use crate::error::Result;
use crate::fields::{count, list, text};
use crate::rules::Members;

const ENTRIES: &[&str] = &["loadBalancer", "ingress"];

pub(crate) fn service(object: &mut Value, members: &Members<'_>) -> Result<()> {
    if text(object, &["spec", "type"])? != "LoadBalancer" {
        return Ok(());
    }
    aggregate(object, members, true)
}

pub(crate) fn ingress(object: &mut Value, members: &Members<'_>) -> Result<()> {
    aggregate(object, members, false)
}

/// What tells entries apart, in the order they are listed: entries with a host name come first, and
/// those with a mode before those without.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    nameless: bool,
    hostname: String,
    ip: String,
    modeless: bool,
    mode: String,
}

/// A port in the order they are listed; one without an error comes first.
type Port = (i64, String, Option<String>);

fn aggregate(object: &mut Value, members: &Members<'_>, with_mode: bool) -> Result<()> {
    let mut entries: BTreeMap<Key, BTreeSet<Port>> = BTreeMap::new();
    members.each(|_, status| {
        for entry in list(status, ENTRIES)? {
            let hostname = text(entry, &["hostname"])?;
            let mode = if with_mode { text(entry, &["ipMode"])? } else { "" };
            let key = Key {
                nameless: hostname.is_empty(),
                hostname: hostname.to_owned(),
                ip: text(entry, &["ip"])?.to_owned(),
                modeless: mode.is_empty(),
                mode: mode.to_owned(),
            };
            let ports = entries.entry(key).or_default();
            for port in list(entry, &["ports"])? {
                ports.insert(read_port(port)?);
            }
        }
        Ok(())
    })?;
    let entries: Vec<_> = entries.into_iter().map(|(key, ports)| render(key, ports)).collect();
    let addresses = if entries.is_empty() { json!({}) } else { json!({ "ingress": entries }) };
    replace_status(object, Map::from_iter([("loadBalancer".to_owned(), addresses)]))
}

fn read_port(port: &Value) -> Result<Port> {
    let error = text(port, &["error"])?;
    let error = (!error.is_empty()).then(|| error.to_owned());
    Ok((count(port, &["port"])?, text(port, &["protocol"])?.to_owned(), error))
}

fn render(key: Key, ports: BTreeSet<Port>) -> Value {
    let mut entry = Map::new();
    for (field, value) in [("hostname", key.hostname), ("ip", key.ip), ("ipMode", key.mode)] {
        if !value.is_empty() {
            entry.insert(field.to_owned(), value.into());
        }
    }
    if !ports.is_empty() {
        let ports = ports.into_iter().map(|(port, protocol, error)| {
            // Kubernetes never leaves the first two out.
            let mut rendered = json!({ "port": port, "protocol": protocol });
            if let Some(error) = error {
                rendered["error"] = error.into();
            }
            rendered
        });
        entry.insert("ports".to_owned(), ports.collect());
    }
    Value::Object(entry)
}

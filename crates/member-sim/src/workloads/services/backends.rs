//! A Service as the endpoint controllers see it, its pods, and the ports it reaches them at.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::pairs::Pairs;
use karmada_client::Object;
use karmada_runtime::{Change, Informer, Manager, ObjectKey, Queue};
use serde::Deserialize;

use crate::workloads::pods::Pod;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Service {
    pub(super) spec: ServiceSpec,
}

karmada_apimachinery::readable!(Service);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceSpec {
    pub(super) r#type: String,
    pub(super) selector: Option<BTreeMap<String, String>>,
    pub(super) ports: Vec<ServicePort>,
    #[serde(rename = "clusterIP")]
    pub(super) cluster_ip: String,
    pub(super) ip_families: Vec<String>,
    pub(super) publish_not_ready_addresses: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServicePort {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) port: i64,
    pub(super) target_port: Value,
    pub(super) app_protocol: Option<String>,
}

/// A port as endpoints carry it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) port: i64,
    pub(super) protocol: String,
    pub(super) app_protocol: Option<String>,
}

impl Service {
    pub(super) fn of(object: &Object) -> Arc<Self> {
        object.typed().unwrap_or_default()
    }

    /// Whether its endpoints are to be found by us at all.
    pub(super) fn has_pods(&self) -> bool {
        self.spec.type_is_served() && self.spec.selector.is_some()
    }

    pub(super) fn selects(&self, labels: &Pairs) -> bool {
        let Some(selector) = &self.spec.selector else { return false };
        selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    pub(super) fn is_headless(&self) -> bool {
        matches!(self.spec.cluster_ip.as_str(), "None" | "")
    }

    /// The ports under which a pod serves this Service; ports it does not have are left out.
    pub(super) fn ports_of(&self, pod: &Pod) -> Vec<Port> {
        let resolve = |port: &ServicePort| {
            let number = match &port.target_port {
                Value::Number(number) => number.as_i64()?,
                Value::String(name) => named_port(pod, name, &port.protocol)?,
                _ => port.port,
            };
            Some(Port {
                name: port.name.clone(),
                port: number,
                protocol: port.protocol.clone(),
                app_protocol: port.app_protocol.clone(),
            })
        };
        let mut ports: Vec<_> = self.spec.ports.iter().filter_map(resolve).collect();
        ports.sort();
        ports
    }

    /// Whether a pod is to be listed, with or without those on their way out.
    pub(super) fn lists(&self, pod: &Pod, terminating: bool) -> bool {
        let stays = terminating || self.spec.publish_not_ready_addresses || !pod.is_terminating();
        stays && !pod.is_finished() && !pod.status().pod_ip.is_empty()
    }
}

impl ServiceSpec {
    fn type_is_served(&self) -> bool {
        self.r#type != "ExternalName"
    }
}

fn named_port(pod: &Pod, name: &str, protocol: &str) -> Option<i64> {
    let sidecars = pod.spec().init_containers.iter().filter(|c| c.restart_policy == "Always");
    let ports = pod.spec().containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    let own = |protocol: &str| if protocol.is_empty() { "TCP".to_owned() } else { protocol.into() };
    ports
        .filter(|port| port.name == name && own(&port.protocol) == own(protocol))
        .map(|port| port.container_port)
        .next()
}

/// A name of its own for a pod behind a Service.
pub(super) fn hostname<'a>(pod: &'a Pod, service: &Object) -> Option<&'a str> {
    let named =
        pod.spec().subdomain == service.name() && pod.object.namespace() == service.namespace();
    Some(pod.spec().hostname.as_str()).filter(|name| named && !name.is_empty())
}

/// Returns the pods a Service selects, in the order of their names.
pub(super) fn pods_of(service: &Object, spec: &Service, pods: &Informer) -> Vec<Pod> {
    let own = pods.cache().list_namespace(service.namespace());
    own.iter().filter(|pod| spec.selects(&pod.meta().labels)).map(Pod::of).collect()
}

pub(super) fn services() -> Gvr {
    Gvr::new("", "v1", "services")
}

/// Queues the Services whose pods change.
pub(super) fn wake_services(
    manager: &Manager,
    services: &Arc<Informer>,
    pods: &Arc<Informer>,
    queue: &Queue<ObjectKey>,
) {
    manager.keep(services.feed(queue));
    let (services, queue) = (services.clone(), queue.clone());
    manager.keep(pods.subscribe(move |change| {
        let old = match change {
            Change::Applied { old, .. } => old.as_ref(),
            Change::Deleted(_) => None,
        };
        let new = change.object();
        for service in services.cache().list_namespace(new.namespace()) {
            let spec = Service::of(&service);
            let was = old.is_some_and(|old| spec.selects(&old.meta().labels));
            if spec.has_pods() && (was || spec.selects(&new.meta().labels)) {
                queue.add(ObjectKey::of(&service));
            }
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    #[test]
    fn ports_are_found_by_number_or_name() {
        let pod = Pod::from_value(&json!({"metadata": {"name": "a"}, "spec": {
            "containers": [{"ports": [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]}],
            "initContainers": [{"restartPolicy": "Always",
                "ports": [{"name": "side", "containerPort": 99, "protocol": "TCP"}]}]}}));
        let cases = [
            (json!(80), Some(80)),
            (json!("web"), Some(8080)),
            (json!("side"), Some(99)),
            (json!("no"), None),
        ];
        for (target, expected) in cases {
            let service: Service = karmada_apimachinery::from_value(json!({"spec": {"ports": [
                {"name": "p", "port": 1, "protocol": "TCP", "targetPort": target}]}}))
            .unwrap();
            let found = service.ports_of(&pod).first().map(|port| port.port);
            assert_eq!(found, expected, "{target}");
        }
    }

    #[test]
    fn a_service_without_a_selector_selects_nothing() {
        let labels: Pairs = [("a", "b")].into_iter().collect();
        let service = |spec: Value| -> Service {
            karmada_apimachinery::from_value(json!({"spec": spec})).unwrap()
        };
        assert!(!service(json!({})).selects(&labels));
        assert!(service(json!({"selector": {"a": "b"}})).selects(&labels));
        assert!(!service(json!({"selector": {"a": "c"}})).selects(&labels));
    }
}

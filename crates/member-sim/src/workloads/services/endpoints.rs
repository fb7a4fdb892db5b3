//! Keeps the Endpoints of every Service with a selector: the addresses of its pods, ready or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object};
use karmada_runtime::{Action, Controller, Informer, Manager, ObjectKey};

use super::backends::{Port, Service, hostname, pods_of, services, wake_services};
use crate::workloads::pods::Pod;
use crate::workloads::status::{Error, settle};

const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// More addresses than this are cut off.
const CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

struct Ctx {
    client: Client,
    services: Arc<Informer>,
    pods: Arc<Informer>,
    endpoints: Arc<Informer>,
}

fn endpoints() -> Gvr {
    Gvr::new("", "v1", "endpoints")
}

pub(crate) fn start(manager: &Manager) {
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        services: manager.informers.all(&services()),
        pods: manager.informers.all(&Gvr::new("", "v1", "pods")),
        endpoints: manager.informers.all(&endpoints()),
    });
    let controller = Controller::new("endpoint", &manager.metrics).workers(5);
    wake_services(manager, &ctx.services, &ctx.pods, controller.queue());
    // Endpoints that were changed or deleted by somebody are put right again.
    manager.keep(ctx.endpoints.feed(controller.queue()));
    let inputs = vec![ctx.services.clone(), ctx.pods.clone(), ctx.endpoints.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let api = ctx.client.api(&endpoints()).namespaced(&key.namespace);
    let current = ctx.endpoints.cache().get(&key);
    let failed = |source| Error::new("the endpoints of", &key, source);
    let Some(service) = ctx.services.cache().get(&key) else {
        // Endpoints others made are theirs.
        let ours = current.is_some_and(|current| {
            current.meta().labels.get(MANAGED_BY).is_some_and(|manager| manager == MANAGER)
        });
        if ours {
            settle(api.delete(&key.name, &DeleteOptions::default()).await).map_err(failed)?;
        }
        return Ok(Action::AwaitChange);
    };
    let spec = Service::of(&service);
    if !spec.has_pods() || service.is_being_deleted() {
        return Ok(Action::AwaitChange);
    }
    let pods = pods_of(&service, &spec, &ctx.pods);
    let subsets = subsets_of(&service, &spec, &pods);
    let current = current.map(|current| current.value());
    let Some((wanted, exists)) = plan(&service, &spec, subsets, current) else {
        return Ok(Action::AwaitChange);
    };
    let written = if exists { api.update(&wanted).await } else { api.create(&wanted).await };
    match written {
        Err(error) if error.is_already_exists() || error.is_namespace_terminating() => {}
        other => drop(settle(other).map_err(failed)?),
    }
    Ok(Action::AwaitChange)
}

/// The pods of a service, grouped by the ports they share.
fn subsets_of(service: &Object, spec: &Service, pods: &[Pod]) -> Vec<Value> {
    let mut groups: BTreeMap<Vec<Port>, [Vec<Value>; 2]> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| spec.lists(pod, false)) {
        let ports = spec.ports_of(pod);
        if ports.is_empty() && !(spec.spec.ports.is_empty() && spec.is_headless()) {
            continue;
        }
        let ready = pod.is_ready() || spec.spec.publish_not_ready_addresses;
        groups.entry(ports).or_default()[usize::from(!ready)].push(address(service, pod));
    }
    let mut left = CAPACITY;
    let subset = |(ports, [ready, unready]): (Vec<Port>, [Vec<Value>; 2])| {
        let mut subset = json!({});
        for (field, mut addresses) in [("addresses", ready), ("notReadyAddresses", unready)] {
            addresses.sort_by_key(|address| address["ip"].as_str().map(str::to_owned));
            addresses.truncate(left);
            left -= addresses.len();
            if !addresses.is_empty() {
                subset[field] = addresses.into();
            }
        }
        if !ports.is_empty() {
            subset["ports"] = ports.iter().map(port).collect();
        }
        subset
    };
    groups.into_iter().map(subset).collect()
}

fn address(service: &Object, pod: &Pod) -> Value {
    let mut address = json!({
        "ip": pod.status().pod_ip,
        "targetRef": {"kind": "Pod", "namespace": pod.object.namespace(), "name": pod.name(),
            "uid": pod.uid()},
    });
    if !pod.spec().node_name.is_empty() {
        address["nodeName"] = pod.spec().node_name.as_str().into();
    }
    if let Some(hostname) = hostname(pod, service) {
        address["hostname"] = hostname.into();
    }
    address
}

fn port(port: &Port) -> Value {
    let mut value = json!({"port": port.port, "protocol": port.protocol});
    if !port.name.is_empty() {
        value["name"] = port.name.as_str().into();
    }
    if let Some(protocol) = &port.app_protocol {
        value["appProtocol"] = protocol.as_str().into();
    }
    value
}

/// Returns the object to write and whether it exists; nothing if all is well.
fn plan(
    service: &Object,
    spec: &Service,
    subsets: Vec<Value>,
    current: Option<Value>,
) -> Option<(Value, bool)> {
    let exists = current.is_some();
    let mut wanted = current.clone().unwrap_or_else(|| {
        json!({"apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": service.name(), "namespace": service.namespace()}})
    });
    let mut labels = service.meta().labels.to_map();
    if spec.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    wanted.set(&["metadata", "labels"], json!(labels));
    let listed: usize = ["addresses", "notReadyAddresses"]
        .iter()
        .flat_map(|field| subsets.iter().map(|subset| subset.list_at(&[field]).len()))
        .sum();
    if listed >= CAPACITY {
        wanted.set(&["metadata", "annotations", OVER_CAPACITY], "truncated");
    } else if wanted.annotation(OVER_CAPACITY).is_some() {
        wanted.remove_at(&["metadata", "annotations", OVER_CAPACITY]);
    }
    wanted.remove_at(&["subsets"]);
    if !subsets.is_empty() {
        wanted.set(&["subsets"], subsets);
    }
    (current.as_ref() != Some(&wanted)).then_some((wanted, exists))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Object {
        Object::from_value(&json!({
            "metadata": {"name": "web", "namespace": "x", "labels": {"l": "v"}},
            "spec": {"clusterIP": "10.0.0.1", "selector": {"a": "b"}, "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]}}))
        .unwrap()
    }

    fn pod(name: &str, ip: &str, ready: &str, deleted: bool) -> Pod {
        let mut pod = json!({"metadata": {"name": name, "namespace": "x", "uid": name},
            "spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIP": ip,
                "conditions": [{"type": "Ready", "status": ready}]}});
        if deleted {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Pod::from_value(&pod)
    }

    #[test]
    fn ready_and_unready_pods_are_told_apart_and_leaving_ones_left_out() {
        let (service, pods) = (
            service(),
            [
                pod("a", "1.1.1.2", "True", false),
                pod("b", "1.1.1.1", "True", false),
                pod("c", "1.1.1.3", "False", false),
                pod("d", "1.1.1.4", "True", true),
                pod("e", "", "False", false),
            ],
        );
        let spec = Service::of(&service);
        let subsets = subsets_of(&service, &spec, &pods);
        assert_eq!(subsets.len(), 1);
        let ips = |field: &str| -> Vec<_> {
            subsets[0].list_at(&[field]).iter().filter_map(|a| a["ip"].as_str()).collect()
        };
        assert_eq!(ips("addresses"), ["1.1.1.1", "1.1.1.2"]);
        assert_eq!(ips("notReadyAddresses"), ["1.1.1.3"]);
        assert_eq!(subsets[0]["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    }

    #[test]
    fn nothing_is_written_twice() {
        let service = service();
        let spec = Service::of(&service);
        let subsets = subsets_of(&service, &spec, &[pod("a", "1.1.1.2", "True", false)]);
        let (first, exists) = plan(&service, &spec, subsets.clone(), None).unwrap();
        assert!(!exists);
        assert_eq!(first["metadata"]["labels"], json!({"l": "v", MANAGED_BY: MANAGER}));
        assert_eq!(plan(&service, &spec, subsets, Some(first.clone())), None);
        let (empty, exists) = plan(&service, &spec, Vec::new(), Some(first)).unwrap();
        assert!(exists && empty.get("subsets").is_none());
    }
}

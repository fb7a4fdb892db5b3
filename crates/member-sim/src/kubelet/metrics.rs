//! `metrics.k8s.io`: what pods and nodes use. A container uses next to nothing unless an annotation
//! of its pod says otherwise.

use std::sync::Arc;

use futures::FutureExt as _;
use http::{Response, StatusCode};
use karmada_apimachinery::gvk::{GroupResource, Gvk};
use karmada_apimachinery::quantity::{Format, Quantity};
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::connect::{Connected, Connection};
use karmada_apiserver::http::body::{self, Body};
use karmada_apiserver::registry::VersionPlace;
use karmada_apiserver::{Computed, Handle};
use karmada_client::Object;
use karmada_runtime::ObjectKey;

use super::Kubelets;
use crate::workloads::pods::Pod;

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
// Compat: the annotations kwok takes usage from.
const CPU: &str = "kwok.x-k8s.io/usage-cpu";
const MEMORY: &str = "kwok.x-k8s.io/usage-memory";
/// Use of a container that says nothing: a thousandth of a processor and a mebibyte.
const LEAST: Usage = Usage { cpu: 1, memory: 1 << 20 };
/// What the system of a node uses beside its pods.
const SYSTEM: Usage = Usage { cpu: 50, memory: 256 << 20 };

/// Processors in thousandths, memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    cpu: i64,
    memory: i64,
}

impl Usage {
    fn to_value(self) -> Value {
        let cpu = Quantity::from_millis(self.cpu).canonical();
        let kibibytes = format!("{}Ki", self.memory >> 10);
        let memory = Quantity::parse(&kibibytes)
            .unwrap_or_else(|_| Quantity::new(self.memory, Format::BinarySi));
        json!({"cpu": cpu, "memory": memory.canonical()})
    }
}

pub(super) fn serve(handle: &Handle, kubelets: &Kubelets) {
    type Answer = fn(&Kubelets, Connection) -> Result<Response<Body>, Status>;
    let resources: [(&str, &str, bool, Answer); 2] =
        [("NodeMetrics", "nodes", false, nodes), ("PodMetrics", "pods", true, pods)];
    for (kind, plural, namespaced, answer) in resources {
        let own = kubelets.clone();
        let connect = move |connection: Connection| -> Connected {
            futures::future::ready(answer(&own, connection)).boxed()
        };
        handle.compute(Computed {
            gvk: Gvk::new(GROUP, VERSION, kind),
            plural: plural.to_owned(),
            singular: String::new(),
            namespaced,
            place: VersionPlace {
                version: VERSION.to_owned(),
                group_priority: 100,
                version_priority: 100,
            },
            answer: Arc::new(connect),
        });
    }
}

fn usage_of(pod: &Object) -> Usage {
    let read =
        |name: &str| pod.meta().annotations.get(name).and_then(|text| Quantity::parse(text).ok());
    Usage {
        cpu: read(CPU).map_or(LEAST.cpu, |quantity| quantity.milli_value()),
        memory: read(MEMORY).map_or(LEAST.memory, |quantity| quantity.value()),
    }
}

fn runs(pod: &Arc<Object>) -> bool {
    Pod::of(pod).status().phase == "Running" && !pod.is_being_deleted()
}

fn selector_of(connection: &Connection) -> Result<LabelSelector, Status> {
    let text = connection.query().get("labelSelector").unwrap_or_default().to_owned();
    LabelSelector::parse(&text).map_err(|error| Status::bad_request(error.to_string()))
}

fn answer(
    connection: &Connection,
    kind: &str,
    resource: &str,
    mut items: Vec<Value>,
) -> Result<Response<Body>, Status> {
    let api_version = format!("{GROUP}/{VERSION}");
    if connection.name.is_empty() {
        let list = json!({
            "kind": format!("{kind}List"), "apiVersion": api_version, "metadata": {}, "items": items,
        });
        return Ok(body::json(StatusCode::OK, &list));
    }
    let Some(mut item) = items.pop() else {
        let resource = GroupResource::new(GROUP, resource);
        return Err(Status::not_found(&resource, &connection.name));
    };
    item["kind"] = kind.into();
    item["apiVersion"] = api_version.into();
    Ok(body::json(StatusCode::OK, &item))
}

fn pods(kubelets: &Kubelets, connection: Connection) -> Result<Response<Body>, Status> {
    let cache = kubelets.pods.cache();
    let selector = selector_of(&connection)?;
    let (namespace, name) = (connection.namespace.as_str(), connection.name.as_str());
    let found = match (namespace, name) {
        ("", _) => cache.list(),
        (namespace, "") => cache.list_namespace(namespace),
        (namespace, name) => cache.get(&ObjectKey::new(namespace, name)).into_iter().collect(),
    };
    let now = format_time(kubelets.clock.now());
    let wanted = |pod: &&Arc<Object>| runs(pod) && selector.matches_map(&pod.meta().labels);
    let items = found.iter().filter(wanted).map(|object| {
        let usage = usage_of(object).to_value();
        let pod = Pod::of(object);
        let containers = pod.spec().containers.iter();
        let containers: Vec<Value> =
            containers.map(|container| json!({"name": container.name, "usage": usage})).collect();
        json!({
            "metadata": {
                "name": object.name(), "namespace": object.namespace(),
                "creationTimestamp": now, "labels": object.meta().labels,
            },
            "timestamp": now, "window": "15s", "containers": containers,
        })
    });
    answer(&connection, "PodMetrics", "pods", items.collect())
}

fn nodes(kubelets: &Kubelets, connection: Connection) -> Result<Response<Body>, Status> {
    let selector = selector_of(&connection)?;
    let down = kubelets.faults.current();
    let wanted = |node: &&Arc<Object>| {
        (connection.name.is_empty() || node.name() == connection.name)
            && selector.matches_map(&node.meta().labels)
            && !down.nodes_down.contains(node.name())
    };
    let now = format_time(kubelets.clock.now());
    let found = kubelets.nodes.cache().list();
    let items = found.iter().filter(wanted).map(|node| {
        let mut usage = SYSTEM;
        for object in crate::nodes::pods_on(kubelets.pods.cache(), node.name()) {
            if runs(&object) {
                let (own, pod) = (usage_of(&object), Pod::of(&object));
                let containers = i64::try_from(pod.spec().containers.len()).unwrap_or(1);
                usage.cpu += own.cpu * containers;
                usage.memory += own.memory * containers;
            }
        }
        json!({
            "metadata": {
                "name": node.name(), "creationTimestamp": now, "labels": node.meta().labels,
            },
            "timestamp": now, "window": "10s", "usage": usage.to_value(),
        })
    });
    answer(&connection, "NodeMetrics", "nodes", items.collect())
}

//! Keeps the EndpointSlices of every Service with a selector. An endpoint stays in its slice as
//! long as it can, so that a change of one pod rewrites one slice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions, Object, Result as ClientResult};
use karmada_runtime::{Action, Change, Controller, Informer, Manager, ObjectKey};

use super::backends::{Port, Service, hostname, pods_of, services, wake_services};
use crate::workloads::expectations::Expectations;
use crate::workloads::pods::Pod;
use crate::workloads::status::{Error, settle};

pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Slices of one Service, by namespace and name of it.
const BY_SERVICE: &str = "service";
/// Endpoints in one slice.
const SLICE_SIZE: usize = 100;

struct Ctx {
    client: Client,
    services: Arc<Informer>,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    slices: Arc<Informer>,
    expectations: Arc<Expectations>,
}

pub(super) fn slices() -> Gvr {
    Gvr::new("discovery.k8s.io", "v1", "endpointslices")
}

/// Lets slices be found by their Service and manager.
pub(super) fn index_slices(informer: &Informer) {
    informer.cache().add_index(BY_SERVICE, |slice| {
        let labels = &slice.meta().labels;
        let service = labels.get(SERVICE_NAME).zip(labels.get(MANAGED_BY));
        service.map(|(name, by)| term(slice.namespace(), name, by)).into_iter().collect()
    });
}

fn term(namespace: &str, service: &str, manager: &str) -> String {
    format!("{manager} {namespace}/{service}")
}

pub(super) fn slices_of(informer: &Informer, key: &ObjectKey, manager: &str) -> Vec<Arc<Object>> {
    informer.cache().by_index(BY_SERVICE, &term(&key.namespace, &key.name, manager))
}

pub(crate) fn start(manager: &Manager) {
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        services: manager.informers.all(&services()),
        pods: manager.informers.all(&Gvr::new("", "v1", "pods")),
        nodes: manager.informers.all(&Gvr::new("", "v1", "nodes")),
        slices: manager.informers.all(&slices()),
        expectations: Arc::default(),
    });
    index_slices(&ctx.slices);
    let controller = Controller::new("endpoint_slice", &manager.metrics).workers(5);
    let (queue, expectations) = (controller.queue().clone(), ctx.expectations.clone());
    manager.keep(ctx.slices.subscribe(move |change| {
        expectations.see(change.object());
        let slice = change.object();
        let labels = &slice.meta().labels;
        let old = match change {
            Change::Applied { old: Some(old), .. } => old.meta().labels.get(SERVICE_NAME),
            _ => None,
        };
        if labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER) {
            for name in labels.get(SERVICE_NAME).into_iter().chain(old) {
                queue.add(ObjectKey::new(slice.namespace(), name));
            }
        }
    }));
    wake_services(manager, &ctx.services, &ctx.pods, controller.queue());
    let inputs =
        vec![ctx.services.clone(), ctx.pods.clone(), ctx.nodes.clone(), ctx.slices.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let failed = |source| Error::new("the endpoint slices of", &key, source);
    // The slices of a deleted Service go with it.
    let Some(service) = ctx.services.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let spec = Service::of(&service);
    if !spec.has_pods() || service.is_being_deleted() || !ctx.expectations.met(&key) {
        return Ok(Action::AwaitChange);
    }
    let pods = pods_of(&service, &spec, &ctx.pods);
    let zone = |node: &str| {
        let node = ctx.nodes.cache().get(&ObjectKey::cluster(node))?;
        node.meta().labels.get(ZONE).map(str::to_owned)
    };
    let groups = group_endpoints(&service, &spec, &pods, zone);
    let existing: Vec<_> =
        slices_of(&ctx.slices, &key, MANAGER).iter().map(|slice| slice.value()).collect();
    let plan = plan(groups, &labels_of(&service, &spec), existing);
    let api = ctx.client.api(&slices()).namespaced(&key.namespace);
    write(&api, &key, plan, &service, &ctx.expectations).await.map_err(failed)?;
    Ok(Action::AwaitChange)
}

/// Carries out a plan; `owner` is whom the slices are for.
pub(super) async fn write(
    api: &Api,
    key: &ObjectKey,
    plan: Plan,
    owner: &Object,
    expectations: &Expectations,
) -> ClientResult<()> {
    for mut slice in plan.create {
        slice.set(&["metadata", "generateName"], format!("{}-", owner.name()));
        slice.set(&["metadata", "namespace"], owner.namespace());
        let reference = crate::workloads::ownership::controller_reference(owner);
        slice.set(&["metadata", "ownerReferences"], vec![reference]);
        match api.create(&slice).await {
            Ok(created) => expectations.wrote(key, &created),
            Err(error) if error.is_namespace_terminating() => {}
            Err(error) => return Err(error),
        }
    }
    for slice in plan.update {
        if let Some(updated) = settle(api.update(&slice).await)? {
            expectations.wrote(key, &updated);
        }
    }
    for name in plan.delete {
        settle(api.delete(&name, &DeleteOptions::default()).await)?;
    }
    Ok(())
}

/// What endpoints of one slice have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupKey {
    pub(super) address_type: String,
    pub(super) ports: Vec<Port>,
}

/// Endpoints by what identifies them, by group.
pub(super) type Groups = BTreeMap<GroupKey, BTreeMap<String, Value>>;

fn group_endpoints(
    service: &Object,
    spec: &Service,
    pods: &[Pod],
    zone: impl Fn(&str) -> Option<String>,
) -> Groups {
    let mut groups = Groups::new();
    let families = match spec.spec.ip_families.as_slice() {
        [] => vec!["IPv4".to_owned()],
        families => families.to_vec(),
    };
    for family in families {
        let mut any = false;
        for pod in pods.iter().filter(|pod| spec.lists(pod, true)) {
            let Some(ip) = address(pod, &family) else { continue };
            let ports = spec.ports_of(pod);
            if ports.is_empty() && !spec.spec.ports.is_empty() {
                continue;
            }
            any = true;
            let key = GroupKey { address_type: family.clone(), ports };
            let endpoint = endpoint(service, spec, pod, ip, &zone);
            groups.entry(key).or_default().insert(pod.uid().to_owned(), endpoint);
        }
        if !any {
            // A slice without endpoints shows that the Service was looked at.
            let key = GroupKey { address_type: family, ports: Vec::new() };
            groups.entry(key).or_default();
        }
    }
    groups
}

fn address<'a>(pod: &'a Pod, family: &str) -> Option<&'a str> {
    let status = pod.status();
    let ips = status.pod_ips.iter().map(|ip| ip.ip.as_str()).chain([status.pod_ip.as_str()]);
    let mut ips = ips.filter(|ip| !ip.is_empty());
    ips.find(|ip| ip.contains(':') == (family == "IPv6"))
}

fn endpoint(
    service: &Object,
    spec: &Service,
    pod: &Pod,
    ip: &str,
    zone: impl Fn(&str) -> Option<String>,
) -> Value {
    let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
    let ready = spec.spec.publish_not_ready_addresses || (serving && !terminating);
    let mut endpoint = json!({
        "addresses": [ip],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "namespace": pod.object.namespace(), "name": pod.name(),
            "uid": pod.uid()},
    });
    let node = pod.spec().node_name.as_str();
    if !node.is_empty() {
        endpoint["nodeName"] = node.into();
        if let Some(zone) = zone(node) {
            endpoint["zone"] = zone.into();
        }
    }
    if let Some(hostname) = hostname(pod, service) {
        endpoint["hostname"] = hostname.into();
    }
    endpoint
}

fn labels_of(service: &Object, spec: &Service) -> Value {
    let mut labels = service.meta().labels.to_map();
    labels.remove(HEADLESS);
    if spec.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), service.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    json!(labels)
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) create: Vec<Value>,
    pub(super) update: Vec<Value>,
    pub(super) delete: Vec<String>,
}

/// Puts the endpoints into slices, starting from those there are.
pub(super) fn plan(groups: Groups, labels: &Value, existing: Vec<Value>) -> Plan {
    let mut plan = Plan::default();
    let mut by_group: BTreeMap<GroupKey, Vec<Value>> = BTreeMap::new();
    for slice in existing {
        let key = group_of(&slice);
        if groups.contains_key(&key) {
            by_group.entry(key).or_default().push(slice);
        } else {
            plan.delete.push(slice.name().to_owned());
        }
    }
    for (key, endpoints) in groups {
        fill(&key, endpoints, labels, by_group.remove(&key).unwrap_or_default(), &mut plan);
    }
    plan
}

fn fill(
    key: &GroupKey,
    mut endpoints: BTreeMap<String, Value>,
    labels: &Value,
    slices: Vec<Value>,
    plan: &mut Plan,
) {
    let mut kept: Vec<(Value, Vec<Value>)> = Vec::new();
    for slice in slices {
        let ids: Vec<_> = slice.list_at(&["endpoints"]).iter().map(identity).collect();
        let stay: Vec<_> = ids.iter().filter_map(|id| endpoints.remove(id)).collect();
        kept.push((slice, stay));
    }
    let mut rest: Vec<_> = endpoints.into_values().collect();
    for (_, stay) in &mut kept {
        let room = SLICE_SIZE.saturating_sub(stay.len()).min(rest.len());
        stay.extend(rest.drain(..room));
    }
    // An empty slice goes unless it is the only one.
    let used = kept.iter().filter(|(_, stay)| !stay.is_empty()).count();
    let mut placeholder = used == 0 && rest.is_empty();
    for (slice, stay) in kept {
        if stay.is_empty() && !std::mem::take(&mut placeholder) {
            plan.delete.push(slice.name().to_owned());
            continue;
        }
        let mut wanted = slice.clone();
        wanted.set(&["metadata", "labels"], labels.clone());
        wanted.set(&["endpoints"], stay);
        if wanted != slice && !same(&wanted, &slice) {
            plan.update.push(wanted);
        }
    }
    let mut chunks: Vec<Vec<Value>> = rest.chunks(SLICE_SIZE).map(<[Value]>::to_vec).collect();
    if placeholder {
        chunks.push(Vec::new());
    }
    for endpoints in chunks {
        plan.create.push(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"labels": labels},
            "addressType": key.address_type,
            "endpoints": endpoints,
            "ports": key.ports.iter().map(port).collect::<Vec<_>>(),
        }));
    }
}

/// An empty list may be absent or null.
fn same(a: &Value, b: &Value) -> bool {
    let labels = ["metadata", "labels"];
    a.list_at(&["endpoints"]) == b.list_at(&["endpoints"]) && a.at(&labels) == b.at(&labels)
}

/// What makes an endpoint the same one after a change: its pod, or its addresses.
pub(super) fn identity(endpoint: &Value) -> String {
    match endpoint.str_at(&["targetRef", "uid"]) {
        Some(uid) if !uid.is_empty() => uid.to_owned(),
        _ => {
            let addresses: BTreeSet<_> =
                endpoint.list_at(&["addresses"]).iter().filter_map(Value::as_str).collect();
            addresses.into_iter().collect::<Vec<_>>().join(",")
        }
    }
}

fn group_of(slice: &Value) -> GroupKey {
    let port = |port: &Value| Port {
        name: port.str_at(&["name"]).unwrap_or_default().to_owned(),
        port: port.i64_at(&["port"]).unwrap_or_default(),
        protocol: port.str_at(&["protocol"]).unwrap_or_default().to_owned(),
        app_protocol: port.str_at(&["appProtocol"]).map(str::to_owned),
    };
    let mut ports: Vec<_> = slice.list_at(&["ports"]).iter().map(port).collect();
    ports.sort();
    let address_type = slice.str_at(&["addressType"]).unwrap_or_default().to_owned();
    GroupKey { address_type, ports }
}

fn port(port: &Port) -> Value {
    let mut value = json!({"name": port.name, "port": port.port, "protocol": port.protocol});
    if let Some(protocol) = &port.app_protocol {
        value["appProtocol"] = protocol.as_str().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(names: &[&str]) -> Groups {
        let key = GroupKey { address_type: "IPv4".into(), ports: Vec::new() };
        let endpoints = names
            .iter()
            .map(|name| ((*name).to_owned(), json!({"targetRef": {"uid": name}})))
            .collect();
        Groups::from([(key, endpoints)])
    }

    fn slice(name: &str, endpoints: &[&str]) -> Value {
        let endpoints: Vec<_> =
            endpoints.iter().map(|name| json!({"targetRef": {"uid": name}})).collect();
        json!({"metadata": {"name": name, "labels": {}}, "addressType": "IPv4",
            "endpoints": endpoints, "ports": []})
    }

    fn count(slice: &Value) -> usize {
        slice.list_at(&["endpoints"]).len()
    }

    #[test]
    fn endpoints_stay_where_they_are_and_new_ones_find_room() {
        let labels = json!({});
        let existing = vec![slice("one", &["a", "b"]), slice("two", &["c"])];
        assert_eq!(plan(group(&["a", "b", "c"]), &labels, existing.clone()), Plan::default());
        let changed = plan(group(&["a", "b", "c", "d"]), &labels, existing.clone());
        assert_eq!(changed.update.len(), 1);
        assert_eq!(count(&changed.update[0]), 3);
        assert!(changed.create.is_empty() && changed.delete.is_empty());
        let smaller = plan(group(&["a", "b"]), &labels, existing);
        assert_eq!(smaller.delete, ["two"]);
    }

    #[test]
    fn slices_are_bounded_and_an_empty_service_has_one() {
        let names: Vec<_> = (0..250).map(|number| number.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let made = plan(group(&names), &json!({}), Vec::new());
        assert_eq!(made.create.iter().map(count).collect::<Vec<_>>(), [100, 100, 50]);
        let empty = plan(group(&[]), &json!({}), Vec::new());
        assert_eq!(empty.create.len(), 1);
        assert_eq!(plan(group(&[]), &json!({}), vec![slice("one", &[])]), Plan::default());
    }
}

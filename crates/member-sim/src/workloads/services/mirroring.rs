//! Shows Endpoints that people wrote themselves as EndpointSlices too, for everybody who reads
//! nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Object};
use karmada_runtime::{Action, Controller, Informer, Manager, ObjectKey};

use super::backends::{Port, Service, services};
use super::slices::{
    GroupKey, Groups, MANAGED_BY, SERVICE_NAME, identity, index_slices, plan, slices, slices_of,
    write,
};
use crate::workloads::expectations::Expectations;
use crate::workloads::status::{Error, settle};

const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

struct Ctx {
    client: Client,
    services: Arc<Informer>,
    endpoints: Arc<Informer>,
    slices: Arc<Informer>,
    expectations: Arc<Expectations>,
}

pub(crate) fn start(manager: &Manager) {
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        services: manager.informers.all(&services()),
        endpoints: manager.informers.all(&Gvr::new("", "v1", "endpoints")),
        slices: manager.informers.all(&slices()),
        expectations: Arc::default(),
    });
    index_slices(&ctx.slices);
    let controller = Controller::new("endpoint_slice_mirroring", &manager.metrics).workers(2);
    manager.keep(ctx.services.feed(controller.queue()));
    manager.keep(ctx.endpoints.feed(controller.queue()));
    let (queue, expectations) = (controller.queue().clone(), ctx.expectations.clone());
    manager.keep(ctx.slices.subscribe(move |change| {
        let slice = change.object();
        expectations.see(slice);
        let labels = &slice.meta().labels;
        if labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER)
            && let Some(name) = labels.get(SERVICE_NAME)
        {
            queue.add(ObjectKey::new(slice.namespace(), name));
        }
    }));
    let inputs = vec![ctx.services.clone(), ctx.endpoints.clone(), ctx.slices.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let failed = |source| Error::new("the mirrored endpoint slices of", &key, source);
    if !ctx.expectations.met(&key) {
        return Ok(Action::AwaitChange);
    }
    let api = ctx.client.api(&slices()).namespaced(&key.namespace);
    let existing = slices_of(&ctx.slices, &key, MANAGER);
    let endpoints = ctx.endpoints.cache().get(&key).filter(|endpoints| is_mirrored(endpoints));
    let service = ctx.services.cache().get(&key);
    let service = service.filter(|service| Service::of(service).spec.selector.is_none());
    let (Some(endpoints), Some(_)) = (endpoints, service) else {
        for slice in existing {
            settle(api.delete(slice.name(), &DeleteOptions::default()).await).map_err(failed)?;
        }
        return Ok(Action::AwaitChange);
    };
    let existing = existing.iter().map(|slice| slice.value()).collect();
    let plan = plan(mirror(&endpoints.value()), &labels_of(&endpoints), existing);
    write(&api, &key, plan, &endpoints, &ctx.expectations).await.map_err(failed)?;
    Ok(Action::AwaitChange)
}

fn is_mirrored(endpoints: &Object) -> bool {
    let meta = endpoints.meta();
    !endpoints.is_being_deleted()
        && meta.labels.get(SKIP_MIRROR).is_none_or(|skip| skip != "true")
        && !meta.annotations.contains_key(LEADER)
}

fn labels_of(endpoints: &Object) -> Value {
    let mut labels = endpoints.meta().labels.to_map();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    json!(labels)
}

fn mirror(endpoints: &Value) -> Groups {
    let mut groups: Groups = BTreeMap::new();
    for subset in endpoints.list_at(&["subsets"]) {
        let mut ports: Vec<_> = subset.list_at(&["ports"]).iter().map(port).collect();
        ports.sort();
        for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in subset.list_at(&[field]) {
                let ip = address.str_at(&["ip"]).unwrap_or_default();
                let address_type = if ip.contains(':') { "IPv6" } else { "IPv4" }.to_owned();
                let key = GroupKey { address_type, ports: ports.clone() };
                let endpoint = endpoint(address, ip, ready);
                groups.entry(key).or_default().insert(identity(&endpoint), endpoint);
            }
        }
    }
    groups
}

fn endpoint(address: &Value, ip: &str, ready: bool) -> Value {
    let mut endpoint = json!({"addresses": [ip], "conditions": {"ready": ready}});
    for field in ["hostname", "nodeName", "targetRef"] {
        if let Some(value) = address.get(field).filter(|value| !value.is_null()) {
            endpoint[field] = value.clone();
        }
    }
    endpoint
}

fn port(port: &Value) -> Port {
    Port {
        name: port.str_at(&["name"]).unwrap_or_default().to_owned(),
        port: port.i64_at(&["port"]).unwrap_or_default(),
        protocol: port.str_at(&["protocol"]).unwrap_or("TCP").to_owned(),
        app_protocol: port.str_at(&["appProtocol"]).map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_endpoints_by_family_and_ports() {
        let endpoints = json!({"subsets": [{
            "addresses": [{"ip": "10.0.0.1", "hostname": "h"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "10.0.0.2"}],
            "ports": [{"name": "p", "port": 80}],
        }]});
        let groups = mirror(&endpoints);
        let sizes: Vec<_> = groups
            .iter()
            .map(|(key, endpoints)| (key.address_type.as_str(), endpoints.len()))
            .collect();
        assert_eq!(sizes, [("IPv4", 2), ("IPv6", 1)]);
        let first = groups.values().next().and_then(|group| group.get("10.0.0.1"));
        assert_eq!(first.map(|endpoint| &endpoint["hostname"]), Some(&json!("h")));
    }
}

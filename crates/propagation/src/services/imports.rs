//! What other clusters export, as the control plane shows it: the slices of their services, and the service that stands
//! for an import. Both reach the importing clusters as dependencies of the ServiceImport.

use karmada_api::multicluster::{ServiceImport, ServiceImportType};
use karmada_api::work::Work;
use karmada_api::{annotations, labels, names};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};

use super::slices::{Collector, slice_of};

/// The slice of the control plane that shows one that was collected for a ServiceExport; `None` if the Work is for
/// none. What others wrote on an existing one stays.
pub fn imported_slice(work: &Work, existing: Option<&Value>) -> Option<Value> {
    let [_, service] = Collector::ServiceExport.service_labels();
    let service = work.metadata.labels.get(service)?;
    let cluster = names::cluster_of_execution_space(&work.metadata.namespace)?;
    let source = slice_of(work)?;
    let mut slice = existing.cloned().unwrap_or_else(|| {
        json!({
            "apiVersion": source.api_version(),
            "kind": source.kind(),
            "metadata": {
                "name": names::imported_endpoint_slice(cluster, source.name()),
                "namespace": source.namespace(),
                "annotations": {
                    annotations::WORK_NAMESPACE: work.metadata.namespace,
                    annotations::WORK_NAME: work.metadata.name,
                },
            },
        })
    });
    let id = work.metadata.labels.get(labels::WORK_PERMANENT_ID).cloned().unwrap_or_default();
    for (key, value) in [
        (labels::SLICE_SERVICE_NAME, names::derived_service(service)),
        (labels::SLICE_MANAGED_BY, labels::SLICE_MANAGED_BY_IMPORT.to_owned()),
        (labels::WORK_PERMANENT_ID, id),
    ] {
        slice.set(&["metadata", "labels", key], value);
    }
    for field in ["addressType", "endpoints", "ports"] {
        match source.get(field) {
            Some(value) => slice.set(&[field], value.clone()),
            None => drop(slice.remove_at(&[field])),
        }
    }
    Some(slice)
}

/// Whether a service is to stand for the import. One without an address has none.
pub fn is_derived(import: &ServiceImport) -> bool {
    import.spec.r#type == ServiceImportType::ClusterSetIP
}

/// The service that stands for an import; `None` if the existing one does already.
pub fn derived_service(import: &ServiceImport, existing: Option<&Value>) -> Option<Value> {
    let ports: Vec<Value> = import
        .spec
        .ports
        .iter()
        .map(|port| {
            let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
            port_of(&port.name, protocol, i64::from(port.port), port.app_protocol.as_deref())
        })
        .collect();
    let Some(existing) = existing else {
        return Some(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": names::derived_service(&import.metadata.name),
                "namespace": import.metadata.namespace,
            },
            "spec": {"type": "ClusterIP", "ports": ports},
        }));
    };
    let shown: Vec<Value> = existing
        .list_at(&["spec", "ports"])
        .iter()
        .map(|port| {
            let text = |field: &str| port.str_at(&[field]).unwrap_or_default();
            let number = port.i64_at(&["port"]).unwrap_or_default();
            port_of(text("name"), text("protocol"), number, port.str_at(&["appProtocol"]))
        })
        .collect();
    if existing.str_at(&["spec", "type"]) == Some("ClusterIP") && shown == ports {
        return None;
    }
    let mut service = existing.clone();
    service.set(&["spec", "type"], "ClusterIP");
    service.set(&["spec", "ports"], ports);
    Some(service)
}

/// The part of a port that an import has a say in.
fn port_of(name: &str, protocol: &str, number: i64, app_protocol: Option<&str>) -> Value {
    let mut port = json!({"protocol": protocol, "port": number});
    if !name.is_empty() {
        port.set(&["name"], name);
    }
    if let Some(app_protocol) = app_protocol {
        port.set(&["appProtocol"], app_protocol);
    }
    port
}

/// The addresses under which the service of an import is known, unless the service says them already.
pub fn derived_addresses(import: &ServiceImport, service: &Value) -> Option<Vec<Value>> {
    let shown = service.list_at(&["status", "loadBalancer", "ingress"]).iter();
    let shown = shown.map(|entry| entry.str_at(&["ip"]).unwrap_or_default());
    if shown.eq(import.spec.ips.iter().map(String::as_str)) {
        return None;
    }
    Some(import.spec.ips.iter().map(|ip| json!({"ip": ip})).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        karmada_apimachinery::from_value(json!({
            "metadata": {"name": "w", "namespace": "karmada-es-m1", "labels": {
                labels::ENDPOINT_SLICE_NAMESPACE: "ns", labels::ENDPOINT_SLICE_NAME: "web",
                labels::WORK_PERMANENT_ID: "id"}},
            "spec": {"workload": {"manifests": [{
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": "web-x", "namespace": "ns", "labels": {"a": "b"}},
                "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}],
            }]}},
        }))
        .unwrap()
    }

    fn import(spec: Value) -> ServiceImport {
        let metadata = json!({"name": "web", "namespace": "ns"});
        karmada_apimachinery::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn an_imported_slice_is_of_the_derived_service_and_names_its_work() {
        let slice = imported_slice(&work(), None).unwrap();
        assert_eq!(
            slice["metadata"],
            json!({
                "name": "imported-m1-web-x", "namespace": "ns",
                "labels": {
                    "kubernetes.io/service-name": "derived-web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.karmada.io",
                    "work.karmada.io/permanent-id": "id",
                },
                "annotations": {"work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "w"},
            })
        );
        assert_eq!(slice["endpoints"], json!([{"addresses": ["10.0.0.1"]}]));
        let mut existing = slice.clone();
        existing["metadata"]["labels"]["own"] = "1".into();
        assert_eq!(imported_slice(&work(), Some(&existing)).unwrap(), existing);
        existing["endpoints"] = json!([]);
        assert_ne!(imported_slice(&work(), Some(&existing)).unwrap(), existing);
        let mut unexported = work();
        unexported.metadata.labels.remove(labels::ENDPOINT_SLICE_NAME);
        assert_eq!(imported_slice(&unexported, None), None);
    }

    #[test]
    fn a_derived_service_has_the_ports_of_its_import_and_keeps_its_address() {
        let ports = json!([{"name": "http", "port": 80}, {"port": 53, "protocol": "UDP"}]);
        let import = import(json!({"type": "ClusterSetIP", "ports": ports}));
        let service = derived_service(&import, None).unwrap();
        assert_eq!(service.name(), "derived-web");
        let defaulted = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "derived-web", "namespace": "ns", "uid": "u"},
            "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.9", "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80},
                {"port": 53, "protocol": "UDP", "targetPort": 53}]}});
        assert_eq!(derived_service(&import, Some(&defaulted)), None);
        let mut edited = defaulted.clone();
        edited["spec"]["ports"][0]["port"] = 8080.into();
        let mended = derived_service(&import, Some(&edited)).unwrap();
        assert_eq!(mended["spec"]["clusterIP"], "10.96.0.9");
        assert_eq!(
            mended["spec"]["ports"][0],
            json!({"name": "http", "port": 80, "protocol": "TCP"})
        );
    }

    #[test]
    fn addresses_are_written_when_the_service_does_not_say_them() {
        let import = import(json!({"type": "ClusterSetIP", "ports": [], "ips": ["10.0.0.1"]}));
        let shows = |ingress: Value| json!({"status": {"loadBalancer": {"ingress": ingress}}});
        assert_eq!(derived_addresses(&import, &shows(json!([{"ip": "10.0.0.1"}]))), None);
        let wanted = Some(vec![json!({"ip": "10.0.0.1"})]);
        assert_eq!(derived_addresses(&import, &shows(json!([]))), wanted);
        assert_eq!(derived_addresses(&import, &json!({})), wanted);
    }
}

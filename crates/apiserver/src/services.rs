//! Where the programs behind Services are, for the calls this server makes itself.

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use std::sync::Arc;

use crate::auth::Objects;

const NAME_LABEL: &str = "kubernetes.io/service-name";

pub(crate) fn find(objects: &dyn Objects, namespace: &str, name: &str) -> Option<Arc<Value>> {
    objects.get(&GroupResource::new("", "services"), namespace, name)
}

/// The slices that belong to a Service.
pub(crate) fn slices(objects: &dyn Objects, namespace: &str, name: &str) -> Vec<Arc<Value>> {
    let resource = GroupResource::new("discovery.k8s.io", "endpointslices");
    let mut slices = objects.list(&resource, Some(namespace));
    slices.retain(|slice| slice.label(NAME_LABEL) == Some(name));
    slices
}

/// The port of a Service with this number.
pub(crate) fn port_of(service: &Value, port: u16) -> Option<&Value> {
    let ports = service.list_at(&["spec", "ports"]);
    ports.iter().find(|own| own.i64_at(&["port"]) == Some(i64::from(port)))
}

/// The first ready address of a slice and the number of the port with this name.
pub(crate) fn ready(slice: &Value, port_name: &str) -> Option<(String, u16)> {
    let port = slice
        .list_at(&["ports"])
        .iter()
        .find(|port| port.str_at(&["name"]).unwrap_or_default() == port_name)?;
    let port = u16::try_from(port.i64_at(&["port"])?).ok()?;
    let endpoint = slice
        .list_at(&["endpoints"])
        .iter()
        .find(|endpoint| endpoint.bool_at(&["conditions", "ready"]) != Some(false))?;
    let address = endpoint.list_at(&["addresses"]).first()?.as_str()?;
    Some((address.to_owned(), port))
}

/// The address behind a Service: the name it stands for, one of its endpoints, or its own address.
pub(crate) fn resolve(
    objects: &dyn Objects,
    (namespace, name): (&str, &str),
    port: u16,
) -> Result<(String, u16), String> {
    let service =
        find(objects, namespace, name).ok_or_else(|| format!("service \"{name}\" not found"))?;
    if service.str_at(&["spec", "type"]) == Some("ExternalName") {
        let host = service.str_at(&["spec", "externalName"]).unwrap_or_default();
        return Ok((host.to_owned(), port));
    }
    let known = port_of(&service, port)
        .ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    let port_name = known.str_at(&["name"]).unwrap_or_default();
    let slices = slices(objects, namespace, name);
    if let Some(found) = slices.iter().find_map(|slice| ready(slice, port_name)) {
        return Ok(found);
    }
    if let Some(found) = endpoint(objects, (namespace, name), port_name) {
        return Ok(found);
    }
    match service.str_at(&["spec", "clusterIP"]) {
        Some(ip) if !ip.is_empty() && ip != "None" => Ok((ip.to_owned(), port)),
        _ => Err(format!("no endpoints available for service \"{name}\"")),
    }
}

/// The same from the older kind of endpoints.
fn endpoint(
    objects: &dyn Objects,
    (namespace, name): (&str, &str),
    port_name: &str,
) -> Option<(String, u16)> {
    let endpoints = objects.get(&GroupResource::new("", "endpoints"), namespace, name)?;
    endpoints.list_at(&["subsets"]).iter().find_map(|subset| {
        let address = subset.list_at(&["addresses"]).first()?.str_at(&["ip"])?;
        let ports = subset.list_at(&["ports"]);
        let port = ports.iter().find(|p| p.str_at(&["name"]).unwrap_or_default() == port_name)?;
        Some((address.to_owned(), u16::try_from(port.i64_at(&["port"])?).ok()?))
    })
}

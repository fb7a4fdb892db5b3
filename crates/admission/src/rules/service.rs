//! MultiClusterService.

use std::net::IpAddr;

use karmada_api::labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID;
use karmada_api::networking::{
    ClusterSelector, ExposurePort, ExposureType, MultiClusterService, MultiClusterServiceSpec,
};
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names::{
    self, dns1123_label, dns1123_subdomain, port_number, validate_object_meta,
    validate_object_meta_update,
};

use super::{check_cluster_name, each};
use crate::decode::{decode, encode};
use crate::request::{Denial, Environment, Operation, Request, Verdict, refuse_any};
use crate::show::shown;

pub(crate) fn mutate(request: &Request, environment: &dyn Environment) -> Result<Verdict, Denial> {
    let mut service: MultiClusterService = decode(&request.object)?;
    let labels = &mut service.metadata.labels;
    if labels.get(MULTI_CLUSTER_SERVICE_PERMANENT_ID).is_none_or(String::is_empty) {
        labels.insert(MULTI_CLUSTER_SERVICE_PERMANENT_ID.to_owned(), environment.new_id());
    }
    Ok(Verdict { object: Some(encode(&service, &request.object)?), ..Verdict::default() })
}

pub(crate) fn validate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let service: MultiClusterService = decode(&request.object)?;
    let metadata = request.object.get("metadata").unwrap_or(&Value::Null);
    let metadata_path = Path::new("metadata");
    let mut errors = Vec::new();
    let is_update = request.operation == Operation::Update;
    if is_update {
        let old: MultiClusterService = decode(&request.old_object)?;
        let old_metadata = request.old_object.get("metadata").unwrap_or(&Value::Null);
        errors.extend(validate_object_meta_update(metadata, old_metadata, &metadata_path));
        if old.spec.types != service.spec.types {
            let path = Path::new("spec").child("types");
            let message = "MultiClusterService types are immutable";
            errors.push(FieldError::invalid(&path, shown(&old.spec.types), message));
        }
    }
    errors.extend(validate_object_meta(metadata, true, names::dns1035_name, &metadata_path));
    errors.extend(check_spec(&service.spec, &Path::new("spec")));
    if is_update {
        let entries = &service.status.load_balancer.ingress;
        let entries = entries.iter().map(|entry| (&*entry.ip, &*entry.hostname));
        errors.extend(check_load_balancer(entries));
    }
    refuse_any(&errors)?;
    Ok(Verdict::default())
}

fn check_spec(spec: &MultiClusterServiceSpec, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, port) in spec.ports.iter().enumerate() {
        let path = path.child("ports").index(index);
        errors.extend(check_port(port, &spec.ports[..index], &path));
    }
    let types_path = path.child("types");
    for (index, exposure) in spec.types.iter().enumerate() {
        if !matches!(exposure, ExposureType::CrossCluster | ExposureType::LoadBalancer) {
            let path = types_path.index(index);
            errors.push(FieldError::invalid(&path, exposure.as_str(), "ExposureType Error"));
        }
    }
    if spec.types.iter().any(|exposure| *exposure != spec.types[0]) {
        let message = "MultiClusterService types should not contain more than one type";
        errors.push(FieldError::invalid(&types_path, shown(&spec.types), message));
    }
    // Compat: the paths go through `range`, where the lists once were.
    let range_path = path.child("range");
    errors.extend(check_clusters(&spec.provider_clusters, &range_path.child("providerClusters")));
    errors.extend(check_clusters(&spec.consumer_clusters, &range_path.child("consumerClusters")));
    errors
}

fn check_port(port: &ExposurePort, earlier: &[ExposurePort], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !port.name.is_empty() {
        let path = path.child("name");
        errors.extend(each(&path, &port.name, dns1123_label(&port.name)));
        if earlier.iter().any(|other| other.name == port.name) {
            errors.push(FieldError::duplicate(&path, &*port.name));
        }
    }
    for problem in port_number(i64::from(port.port)) {
        errors.push(FieldError::invalid(&path.child("port"), port.port, problem));
    }
    errors
}

fn check_clusters(clusters: &[ClusterSelector], path: &Path) -> Vec<FieldError> {
    clusters
        .iter()
        .enumerate()
        .filter_map(|(index, cluster)| check_cluster_name(&cluster.name, &path.index(index)))
        .collect()
}

/// Checks addresses and host names of `status.loadBalancer.ingress`.
pub(crate) fn check_load_balancer<'a>(
    entries: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<FieldError> {
    let list_path = Path::new("status").child("loadBalancer").child("ingress");
    let mut errors = Vec::new();
    for (index, (address, host)) in entries.enumerate() {
        let path = list_path.index(index);
        if !address.is_empty() && !is_ip(address) {
            let message = "must be a valid IP address";
            errors.push(FieldError::invalid(&path.child("ip"), address, message));
        }
        if !host.is_empty() {
            let path = path.child("hostname");
            errors.extend(each(&path, host, dns1123_subdomain(host)));
            errors.extend(refuse_ip(host, &path));
        }
    }
    errors
}

pub(crate) fn refuse_ip(host: &str, path: &Path) -> Option<FieldError> {
    let message = "must be a DNS name, not an IP address";
    is_ip(host).then(|| FieldError::invalid(path, host, message))
}

/// Leading zeros in the parts of an IPv4 address are let through, as Kubernetes does.
fn is_ip(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_part = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && part.trim_start_matches('0').len() <= 3
            && part.parse::<u32>().is_ok_and(|number| number <= 255)
    };
    (parts.len() == 4 && parts.iter().all(is_part)) || text.parse::<IpAddr>().is_ok()
}

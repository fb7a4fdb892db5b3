//! MultiClusterIngress.

use karmada_api::ingress::{
    HTTPIngressPath, HTTPIngressRuleValue, IngressBackend, IngressRule, IngressServiceBackend,
    IngressSpec, IngressTLS, PathType, TypedLocalObjectReference,
};
use karmada_api::networking::MultiClusterIngress;
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::names::{
    self, dns1035_label, dns1123_subdomain, path_segment, port_name, port_number,
    validate_object_meta, validate_object_meta_update, wildcard_dns1123_subdomain,
};
use karmada_apimachinery::object::ObjectExt;

use super::each;
use super::service::{check_load_balancer, refuse_ip};
use crate::decode::decode;
use crate::request::{Denial, Environment, Operation, Request, Verdict, refuse_any};

const FORBIDDEN_IN_PATHS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const FORBIDDEN_AT_END: [&str; 2] = ["/..", "/."];

pub(crate) fn validate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let ingress: MultiClusterIngress = decode(&request.object)?;
    let metadata = request.object.get("metadata").unwrap_or(&Value::Null);
    let metadata_path = Path::new("metadata");
    let is_update = request.operation == Operation::Update;
    let mut errors = Vec::new();
    if is_update {
        let old = request.old_object.get("metadata").unwrap_or(&Value::Null);
        errors.extend(validate_object_meta_update(metadata, old, &metadata_path));
    }
    errors.extend(validate_object_meta(metadata, true, names::subdomain_name, &metadata_path));
    let rules = request.object.at(&["spec", "rules"]).cloned().unwrap_or_default();
    errors.extend(check_spec(&ingress.spec, rules, &Path::new("spec")));
    if is_update {
        let entries = &ingress.status.load_balancer.ingress;
        let entries = entries.iter().map(|entry| (&*entry.ip, &*entry.hostname));
        errors.extend(check_load_balancer(entries));
    }
    refuse_any(&errors)?;
    Ok(Verdict::default())
}

fn check_spec(spec: &IngressSpec, given_rules: Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if spec.rules.is_empty() && spec.default_backend.is_none() {
        let message = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(path, Shown::Json(given_rules), message));
    }
    if let Some(backend) = &spec.default_backend {
        errors.extend(check_backend(backend, &path.child("defaultBackend")));
    }
    for (index, rule) in spec.rules.iter().enumerate() {
        errors.extend(check_rule(rule, &path.child("rules").index(index)));
    }
    for (index, tls) in spec.tls.iter().enumerate() {
        errors.extend(check_tls(tls, &path.child("tls").index(index)));
    }
    if let Some(class) = &spec.ingress_class_name {
        errors.extend(each(&path.child("ingressClassName"), class, dns1123_subdomain(class)));
    }
    errors
}

fn check_backend(backend: &IngressBackend, path: &Path) -> Vec<FieldError> {
    let refuse = |message: &str| vec![FieldError::invalid(path, "", message)];
    match (&backend.resource, &backend.service) {
        (Some(_), Some(_)) => refuse("cannot set both resource and service backends"),
        (Some(resource), None) => check_resource(resource, &path.child("resource")),
        (None, Some(service)) => check_service(service, path),
        (None, None) => refuse("resource or service backend is required"),
    }
}

// Compat: problems with the choice of port are reported at the backend.
fn check_service(service: &IngressServiceBackend, path: &Path) -> Vec<FieldError> {
    let service_path = path.child("service");
    let name_path = service_path.child("name");
    let mut errors = Vec::new();
    if service.name.is_empty() {
        errors.push(FieldError::required(&name_path, ""));
    } else {
        errors.extend(each(&name_path, &service.name, dns1035_label(&service.name)));
    }
    let port = &service.port;
    let port_path = service_path.child("port");
    match (port.name.is_empty(), port.number == 0) {
        (false, false) => {
            let message = "cannot set both port name & port number";
            errors.push(FieldError::invalid(path, "", message));
        }
        (false, true) => {
            errors.extend(each(&port_path.child("name"), &port.name, port_name(&port.name)));
        }
        (true, false) => {
            for problem in port_number(i64::from(port.number)) {
                let path = port_path.child("number");
                errors.push(FieldError::invalid(&path, port.number, problem));
            }
        }
        (true, true) => {
            errors.push(FieldError::required(path, "port name or number is required"));
        }
    }
    errors
}

fn check_resource(resource: &TypedLocalObjectReference, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(group) = &resource.api_group {
        errors.extend(each(&path.child("apiGroup"), group, dns1123_subdomain(group)));
    }
    for (field, text) in [("kind", &resource.kind), ("name", &resource.name)] {
        let path = path.child(field);
        if text.is_empty() {
            errors.push(FieldError::required(&path, format!("{field} is required")));
        } else {
            errors.extend(each(&path, text, path_segment(text)));
        }
    }
    errors
}

fn check_host(host: &str, path: &Path) -> Vec<FieldError> {
    let problems =
        if host.contains('*') { wildcard_dns1123_subdomain(host) } else { dns1123_subdomain(host) };
    each(path, host, problems)
}

fn check_rule(rule: &IngressRule, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !rule.host.is_empty() {
        let path = path.child("host");
        errors.extend(refuse_ip(&rule.host, &path));
        errors.extend(check_host(&rule.host, &path));
    }
    if let Some(HTTPIngressRuleValue { paths }) = &rule.http {
        let paths_path = path.child("http").child("paths");
        if paths.is_empty() {
            errors.push(FieldError::required(&paths_path, ""));
        }
        for (index, route) in paths.iter().enumerate() {
            errors.extend(check_route(route, &paths_path.index(index)));
        }
    }
    errors
}

fn check_route(route: &HTTPIngressPath, path: &Path) -> Vec<FieldError> {
    let Some(path_type) = &route.path_type else {
        let message = "pathType must be specified";
        return vec![FieldError::required(&path.child("pathType"), message)];
    };
    let text = &*route.path;
    let text_path = path.child("path");
    let mut errors = Vec::new();
    let mut refuse = |message: String| errors.push(FieldError::invalid(&text_path, text, message));
    let is_absolute = text.starts_with('/');
    match path_type {
        PathType::Exact | PathType::Prefix => {
            if !is_absolute {
                refuse("must be an absolute path".to_owned());
            }
            for part in FORBIDDEN_IN_PATHS.into_iter().filter(|part| text.contains(*part)) {
                refuse(format!("must not contain '{part}'"));
            }
            for end in FORBIDDEN_AT_END.into_iter().filter(|end| text.ends_with(*end)) {
                refuse(format!("cannot end with '{end}'"));
            }
        }
        PathType::ImplementationSpecific => {
            if !text.is_empty() && !is_absolute {
                refuse("must be an absolute path".to_owned());
            }
        }
        other => errors.push(FieldError::not_supported(
            &path.child("pathType"),
            other.as_str(),
            &["Exact", "ImplementationSpecific", "Prefix"],
        )),
    }
    errors.extend(check_backend(&route.backend, &path.child("backend")));
    errors
}

fn check_tls(tls: &IngressTLS, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, host) in tls.hosts.iter().enumerate() {
        errors.extend(check_host(host, &path.child("hosts").index(index)));
    }
    if !tls.secret_name.is_empty() {
        let path = path.child("secretName");
        errors.extend(each(&path, &tls.secret_name, dns1123_subdomain(&tls.secret_name)));
    }
    errors
}

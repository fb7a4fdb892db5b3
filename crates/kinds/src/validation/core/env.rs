//! Environment variables of containers, and references to fields and resources of the pod.

use karmada_apimachinery::field::FieldError;
use karmada_apimachinery::names;

use super::container::visit;
use super::volumes;
use crate::validation::place::{At, Errors};

pub(crate) fn check_env(env: &At<'_>, errs: &mut Errors) {
    for variable in env.items() {
        let name = variable.field("name");
        if errs.required_text(&name) {
            errs.messages(&name, &names::env_name(name.text()));
        }
        check_value_from(&variable, errs);
    }
}

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn check_value_from(variable: &At<'_>, errs: &mut Errors) {
    let from = variable.field("valueFrom");
    if !from.is_set() {
        return;
    }
    let field = from.field("fieldRef");
    if field.is_set() {
        check_field_ref(&field, &ENV_FIELDS, errs);
    }
    let resource = from.field("resourceFieldRef");
    if resource.is_set() {
        check_resource_field_ref(&resource, false, errs);
    }
    for source in ["configMapKeyRef", "secretKeyRef"] {
        if from.field(source).is_set() {
            check_key_ref(&from.field(source), errs);
        }
    }
    if from.field("fileKeyRef").is_set() {
        check_file_key_ref(&from.field("fileKeyRef"), errs);
    }
    let sources = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let count = sources.iter().filter(|source| from.field(source).is_set()).count();
    if count == 0 {
        errs.invalid(&from, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
    } else if !variable.field("value").is_empty() {
        errs.invalid(&from, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errs.invalid(&from, "", "may not have more than one field specified at a time");
    }
}

/// A reference to a field of the pod, with an optional `['key']` subscript.
pub(crate) fn check_field_ref(reference: &At<'_>, supported: &[&str], errs: &mut Errors) {
    if reference.field("apiVersion").is_empty() {
        return errs.required(&reference.field("apiVersion"), "");
    }
    let path = reference.field("fieldPath");
    if path.is_empty() {
        return errs.required(&path, "");
    }
    let (field, subscript) = split_subscript(path.text());
    if reference.field("apiVersion").text() != "v1" {
        let detail = format!(
            "error converting fieldPath: unsupported pod version: {}",
            reference.field("apiVersion").text()
        );
        return errs.invalid_text(&path, detail);
    }
    if !is_known_field(field, subscript.is_some()) {
        let detail =
            format!("error converting fieldPath: field label not supported: {}", path.text());
        return errs.invalid_text(&path, detail);
    }
    match (subscript, field) {
        (Some(key), "metadata.annotations") => {
            let key = key.to_lowercase();
            errs.messages_for(reference, &key, &names::qualified_name(&key));
        }
        (Some(key), "metadata.labels") => {
            errs.messages_for(reference, key, &names::qualified_name(key));
        }
        (Some(_), _) => errs.invalid(reference, field, "does not support subscript"),
        (None, _) if !supported.contains(&field) => {
            errs.push(FieldError::not_supported(&path.path, field, supported));
        }
        (None, _) => {}
    }
}

fn split_subscript(path: &str) -> (&str, Option<&str>) {
    let split = path.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match split {
        Some((field, key)) if !field.is_empty() => (field, Some(key)),
        _ => (path, None),
    }
}

fn is_known_field(field: &str, subscripted: bool) -> bool {
    const PLAIN: [&str; 14] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    if subscripted {
        matches!(field, "metadata.annotations" | "metadata.labels")
    } else {
        PLAIN.contains(&field) || field == "spec.host"
    }
}

const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A reference to a resource of a container; volumes must name the container.
pub(crate) fn check_resource_field_ref(reference: &At<'_>, in_volume: bool, errs: &mut Errors) {
    let resource = reference.field("resource");
    let huge_pages = ["requests.hugepages-", "limits.hugepages-"]
        .iter()
        .any(|prefix| resource.text().starts_with(prefix));
    if in_volume && reference.field("containerName").is_empty() {
        errs.required(&reference.field("containerName"), "");
    } else if resource.is_empty() {
        errs.required(&resource, "");
    } else if !RESOURCE_FIELDS.contains(&resource.text()) && !huge_pages {
        errs.unsupported(&resource, &RESOURCE_FIELDS);
    }
    check_divisor(reference, resource.text(), huge_pages, errs);
}

fn check_divisor(reference: &At<'_>, resource: &str, huge_pages: bool, errs: &mut Errors) {
    const SIZES: [&str; 13] =
        ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let divisor = reference.field("divisor");
    let text = divisor.text();
    if text.is_empty() || text == "0" {
        return;
    }
    let what = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") if !["1m", "1"].contains(&text) => {
            let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
            return errs.invalid(&divisor, resource, detail);
        }
        Some("memory") => "memory",
        Some("ephemeral-storage") => "local ephemeral storage",
        _ if huge_pages => "hugepages",
        _ => return,
    };
    if !SIZES.contains(&text) {
        errs.invalid(&divisor, resource, format!("only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the {what} resource"));
    }
}

fn check_key_ref(reference: &At<'_>, errs: &mut Errors) {
    let name = reference.field("name");
    errs.messages(&name, &names::dns1123_subdomain(name.text()));
    let key = reference.field("key");
    if errs.required_text(&key) {
        errs.messages(&key, &names::config_map_key(key.text()));
    }
}

fn check_file_key_ref(reference: &At<'_>, errs: &mut Errors) {
    let key = reference.field("key");
    if errs.required_text(&key) {
        errs.messages(&key, &names::env_name(key.text()));
    }
    let volume = reference.field("volumeName");
    if errs.required_text(&volume) {
        errs.messages(&volume, &names::dns1123_label(volume.text()));
    }
    let path = reference.field("path");
    if errs.required_text(&path) {
        volumes::check_no_backsteps(&path, errs);
    }
}

pub(crate) fn check_env_from(sources: &At<'_>, errs: &mut Errors) {
    for source in sources.items() {
        let prefix = source.field("prefix");
        if !prefix.is_empty() {
            errs.messages(&prefix, &names::env_name(prefix.text()));
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let reference = source.field(kind);
            if !reference.is_set() {
                continue;
            }
            count += 1;
            let name = reference.field("name");
            if errs.required_text(&name) {
                errs.messages(&name, &names::subdomain_name(name.text(), true));
            }
        }
        // Compat: these two are reported at the list, not at its element.
        if count == 0 {
            errs.invalid(sources, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errs.invalid(sources, "", "may not have more than one field specified at a time");
        }
    }
}

/// Variables read from files need an emptyDir volume of that name.
pub(crate) fn check_file_key_volumes(spec: &At<'_>, errs: &mut Errors) {
    for variable in visit(spec).iter().flat_map(|container| container.field("env").items()) {
        let reference = variable.at(&["valueFrom", "fileKeyRef"]);
        if !reference.is_set() {
            continue;
        }
        let name = reference.field("volumeName");
        let volume = spec.field("volumes").items().find(|v| v.field("name").text() == name.text());
        match volume {
            None => errs.not_found(&name),
            Some(volume) if !volume.field("emptyDir").is_set() => {
                errs.invalid_text(&name, "referenced volume must be of type emptyDir");
            }
            Some(_) => {}
        }
    }
}

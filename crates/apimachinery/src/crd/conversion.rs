//! How versions of a custom resource are converted into each other, as a definition declares it.

use crate::Value;

use crate::field::{FieldError, Path};
use crate::names;
use crate::object::ObjectExt;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate_client(client: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(client) = client else {
        return vec![FieldError::required(path, "required when strategy is set to Webhook")];
    };
    let url = client.str_at(&["url"]);
    let service = client.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            vec![FieldError::required(path, "exactly one of url or service is required")]
        }
        (Some(url), None) => validate_url(url, &path.child("url")),
        (None, Some(service)) => validate_service(service, &path.child("service")),
    }
}

fn validate_url(url: &str, path: &Path) -> Vec<FieldError> {
    let form = "; desired format: https://host[/path]";
    let mut errors = Vec::new();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, query) = rest.split_once(['/', '?', '#']).unwrap_or((rest, ""));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{form}");
        errors.push(FieldError::invalid(path, scheme, detail));
    }
    if authority.is_empty() {
        let detail = format!("host must be specified{form}");
        errors.push(FieldError::invalid(path, authority, detail));
    }
    if let Some((user, _)) = authority.split_once('@') {
        let detail = "user information is not permitted in the URL";
        errors.push(FieldError::invalid(path, user, detail));
    }
    if let Some((_, fragment)) = url.split_once('#').filter(|(_, fragment)| !fragment.is_empty()) {
        let detail = "fragments are not permitted in the URL";
        errors.push(FieldError::invalid(path, fragment, detail));
    }
    let asked = query.split_once('?').map_or("", |(_, asked)| asked);
    let asked =
        if rest.contains('?') && asked.is_empty() && !query.contains('?') { query } else { asked };
    if url.contains('?') && !asked.is_empty() {
        errors.push(FieldError::invalid(
            path,
            asked,
            "query parameters are not permitted in the URL",
        ));
    }
    errors
}

fn validate_service(service: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, detail) in
        [("name", "service name is required"), ("namespace", "service namespace is required")]
    {
        if service.str_at(&[key]).unwrap_or_default().is_empty() {
            errors.push(FieldError::required(&path.child(key), detail));
        }
    }
    if let Some(port) = service.i64_at(&["port"]) {
        for problem in names::port_number(port) {
            let detail = format!("port is not valid: {problem}");
            errors.push(FieldError::invalid(&path.child("port"), port, detail));
        }
    }
    if let Some(url_path) = service.str_at(&["path"]).filter(|p| !p.starts_with('/')) {
        let detail = "must start with a '/'";
        errors.push(FieldError::invalid(&path.child("path"), url_path, detail));
    }
    errors
}

pub(super) fn validate_review_versions(versions: &[Value], path: &Path) -> Vec<FieldError> {
    if versions.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let mut errors = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let name = version.as_str().unwrap_or_default();
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(&path.index(index), name, "duplicate version"));
            continue;
        }
        let problems = names::dns1035_label(name).into_iter();
        errors.extend(problems.map(|detail| FieldError::invalid(&path.index(index), name, detail)));
    }
    if !versions.iter().any(|v| v.as_str().is_some_and(|name| REVIEW_VERSIONS.contains(&name))) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(path, Value::from(versions.to_vec()), detail));
    }
    errors
}

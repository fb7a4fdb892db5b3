//! ResourceInterpreterWebhookConfiguration.

use karmada_api::config::{
    ResourceInterpreterWebhook, ResourceInterpreterWebhookConfiguration, Rule, RuleWithOperations,
};
use karmada_api::core::{ServiceReference, WebhookClientConfig};
use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::names::{dns1035_label, dns1123_label, dns1123_subdomain, port_number};
use serde::Serialize;

use super::each;
use crate::decode::decode;
use crate::request::{Denial, Environment, Request, Verdict, refuse_any};
use crate::show::shown;
use crate::url;

const OPERATIONS: [&str; 9] = [
    "*",
    "AggregateStatus",
    "InterpretComponent",
    "InterpretDependency",
    "InterpretHealth",
    "InterpretReplica",
    "InterpretStatus",
    "Retain",
    "ReviseReplica",
];
const CONTEXT_VERSION: &str = "v1alpha1";
const DEFAULT_PORT: i32 = 443;
const URL_FORM: &str = "; desired format: https://host[/path]";

pub(crate) fn validate(request: &Request, _: &dyn Environment) -> Result<Verdict, Denial> {
    let configuration: ResourceInterpreterWebhookConfiguration = decode(&request.object)?;
    let hooks = &configuration.webhooks;
    let mut errors = Vec::new();
    for (index, hook) in hooks.iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        errors.extend(check_hook(hook, &path));
        if hooks[..index].iter().any(|earlier| earlier.name == hook.name) {
            errors.push(FieldError::duplicate(&path.child("name"), &*hook.name));
        }
    }
    refuse_any(&errors)?;
    Ok(Verdict::default())
}

fn check_hook(hook: &ResourceInterpreterWebhook, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(check_domain(&hook.name, &path.child("name")));
    for (index, rule) in hook.rules.iter().enumerate() {
        errors.extend(check_rule(rule, &path.child("rules").index(index)));
    }
    if let Some(timeout) = hook.timeout_seconds.filter(|timeout| !(1..=30).contains(timeout)) {
        errors.push(FieldError::invalid(
            &path.child("timeoutSeconds"),
            timeout,
            "the timeout value must be between 1 and 30 seconds",
        ));
    }
    errors.extend(check_client(&hook.client_config, &path.child("clientConfig")));
    let versions_path = path.child("interpreterContextVersions");
    errors.extend(check_versions(&hook.interpreter_context_versions, &versions_path));
    errors
}

/// A domain name of two segments or more; the dot at its end may be written.
fn check_domain(name: &str, path: &Path) -> Option<FieldError> {
    if name.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let problems = dns1123_subdomain(name);
    if !problems.is_empty() {
        return Some(FieldError::invalid(path, name, problems.join(",")));
    }
    if !name.contains('.') {
        let message = "should be a domain with at least two segments separated by dots";
        return Some(FieldError::invalid(path, name, message));
    }
    name.split('.').find_map(|label| {
        let problems = dns1123_label(label);
        (!problems.is_empty()).then(|| FieldError::invalid(path, label, problems.join(",")))
    })
}

fn check_rule(rule: &RuleWithOperations, path: &Path) -> Vec<FieldError> {
    let operations: Vec<&str> = rule.operations.iter().map(|op| op.as_str()).collect();
    let operations_path = path.child("operations");
    let mut errors = check_wildcard(&operations, "operations", &operations_path);
    for (index, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(operation) {
            let path = operations_path.index(index);
            errors.push(FieldError::not_supported(&path, *operation, &OPERATIONS));
        }
    }
    let Rule { api_groups, api_versions, kinds } = &rule.rule;
    errors.extend(check_wildcard(api_groups, "API groups", &path.child("apiGroups")));
    let versions_path = path.child("apiVersions");
    errors.extend(check_wildcard(api_versions, "API versions", &versions_path));
    errors.extend(check_not_blank(api_versions, &versions_path));
    let kinds_path = path.child("kinds");
    errors.extend(check_wildcard(kinds, "kinds", &kinds_path));
    errors.extend(check_not_blank(kinds, &kinds_path));
    errors
}

/// Something must be given; the wildcard stands alone.
fn check_wildcard<S>(words: &[S], what: &str, path: &Path) -> Vec<FieldError>
where
    S: AsRef<str> + Serialize,
{
    if words.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    if words.len() > 1 && words.iter().any(|word| word.as_ref() == "*") {
        let message = format!("if '*' is present, must not specify other {what}");
        return vec![FieldError::invalid(path, shown(&words), message)];
    }
    Vec::new()
}

fn check_not_blank(words: &[String], path: &Path) -> Vec<FieldError> {
    words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.is_empty())
        .map(|(index, _)| FieldError::required(&path.index(index), ""))
        .collect()
}

fn check_client(client: &WebhookClientConfig, path: &Path) -> Vec<FieldError> {
    match (&client.url, &client.service) {
        (Some(url), None) => check_url(url, &path.child("url")),
        (None, Some(service)) => check_service(service, &path.child("service")),
        _ => vec![FieldError::required(path, "exactly one of url or service is required")],
    }
}

fn check_url(text: &str, path: &Path) -> Vec<FieldError> {
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(problem) => {
            let message = format!("url must be a valid URL: {problem}{URL_FORM}");
            return vec![FieldError::required(path, message)];
        }
    };
    let mut errors = Vec::new();
    if url.scheme != "https" {
        let message = format!("'https' is the only allowed URL scheme{URL_FORM}");
        errors.push(FieldError::invalid(path, url.scheme, message));
    }
    if url.host.is_empty() {
        errors.push(FieldError::invalid(path, "", format!("host must be specified{URL_FORM}")));
    }
    if let Some(user) = url.user {
        let message = "user information is not permitted in the URL";
        errors.push(FieldError::invalid(path, user, message));
    }
    if !url.fragment.is_empty() {
        let message = "fragments are not permitted in the URL";
        errors.push(FieldError::invalid(path, url.fragment, message));
    }
    if !url.query.is_empty() {
        let message = "query parameters are not permitted in the URL";
        errors.push(FieldError::invalid(path, url.query, message));
    }
    errors
}

fn check_service(service: &ServiceReference, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, text) in [("name", &service.name), ("namespace", &service.namespace)] {
        if text.is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let port = service.port.unwrap_or(DEFAULT_PORT);
    let problems = port_number(i64::from(port));
    if !problems.is_empty() {
        let message = format!("port is not valid: {}", problems.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, message));
    }
    if let Some(text) = &service.path {
        errors.extend(check_path(text, &path.child("path")));
    }
    errors
}

fn check_path(text: &str, path: &Path) -> Vec<FieldError> {
    if text.is_empty() || text == "/" {
        return Vec::new();
    }
    if text == "//" {
        return vec![FieldError::invalid(path, text, "segment[0] may not be empty")];
    }
    let mut errors = Vec::new();
    if !text.starts_with('/') {
        errors.push(FieldError::invalid(path, text, "must start with a '/'"));
    }
    // Compat: the first character is dropped whatever it is.
    let rest = text.char_indices().nth(1).map_or("", |(start, _)| &text[start..]);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            let message = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(path, text, message));
            continue;
        }
        for problem in dns1123_subdomain(segment) {
            let message = format!("segment[{index}]: {problem}");
            errors.push(FieldError::invalid(path, text, message));
        }
    }
    errors
}

fn check_versions(versions: &[String], path: &Path) -> Vec<FieldError> {
    if versions.is_empty() {
        let message = format!("must specify one of {CONTEXT_VERSION}");
        return vec![FieldError::required(path, message)];
    }
    let mut errors = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(&path, &**version, "duplicate version"));
        } else {
            errors.extend(each(&path, version, dns1035_label(version)));
        }
    }
    if !versions.iter().any(|version| version == CONTEXT_VERSION) {
        let message = format!("must include at least one of {CONTEXT_VERSION}");
        errors.push(FieldError::invalid(path, shown(&versions), message));
    }
    errors
}

//! What a Cluster must look like. Errors about the whole spec print it with the names that the original's
//! server uses inside.

use karmada_api::cluster::{
    Cluster, ClusterSpec, LocalSecretReference, ResourceModel, ResourceModelRange,
};
use karmada_api::core::{Quantity, Taint, TaintEffect};
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::names::{
    label_value, qualified_name, validate_object_meta, validate_object_meta_update,
};

use crate::rules::{cluster_name, each};
use crate::show::{go_text, shown};
use crate::url;

const ENDPOINT_FORM: &str = "; desired format: hostname, hostname:port, IP or IP:port";

/// Validates a new cluster.
pub fn validate_create(cluster: &Cluster) -> Vec<FieldError> {
    let metadata = karmada_apimachinery::to_value(&cluster.metadata).unwrap_or_default();
    let rule = |name: &str, _: bool| cluster_name(name);
    let mut errors = validate_object_meta(&metadata, false, rule, &Path::new("metadata"));
    errors.extend(check_spec(&cluster.spec, &Path::new("spec")));
    errors
}

/// Validates a changed cluster.
pub fn validate_update(cluster: &Cluster, old: &Cluster) -> Vec<FieldError> {
    let meta =
        |cluster: &Cluster| karmada_apimachinery::to_value(&cluster.metadata).unwrap_or_default();
    let mut errors =
        validate_object_meta_update(&meta(cluster), &meta(old), &Path::new("metadata"));
    errors.extend(validate_create(cluster));
    errors
}

fn check_spec(spec: &ClusterSpec, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mode_path = path.child("syncMode");
    if spec.sync_mode.is_unset() {
        errors.push(FieldError::required(&mode_path, ""));
    }
    let modes = ["Pull", "Push"];
    if !modes.contains(&spec.sync_mode.as_str()) {
        errors.push(FieldError::not_supported(&mode_path, spec.sync_mode.as_str(), &modes));
    }
    if !spec.api_endpoint.is_empty() {
        errors.extend(check_endpoint(&spec.api_endpoint, &path.child("apiEndpoint")));
    }
    for (field, reference) in
        [("secretRef", &spec.secret_ref), ("impersonatorSecretRef", &spec.impersonator_secret_ref)]
    {
        let Some(reference) = reference else { continue };
        for (part, text) in [("namespace", &reference.namespace), ("name", &reference.name)] {
            if text.is_empty() {
                errors.push(FieldError::required(&path.child(field).child(part), ""));
            }
        }
    }
    if !spec.proxy_url.is_empty() {
        errors.extend(check_proxy(&spec.proxy_url, &path.child("proxyURL")));
    }
    errors.extend(check_places(spec, path));
    errors.extend(check_taints(&spec.taints, &path.child("taints")));
    errors.extend(check_models(&spec.resource_models, &path.child("resourceModels")));
    errors
}

fn check_endpoint(text: &str, path: &Path) -> Vec<FieldError> {
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(problem) => {
            let message = format!("apiEndpoint must be a valid URL: {problem}{ENDPOINT_FORM}");
            return vec![FieldError::invalid(path, text, message)];
        }
    };
    let mut errors = Vec::new();
    if url.host.is_empty() {
        let message = format!("host must be provided{ENDPOINT_FORM}");
        errors.push(FieldError::invalid(path, "", message));
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

fn check_proxy(text: &str, path: &Path) -> Option<FieldError> {
    let message = match url::parse(text) {
        // Compat: the message names the wrong field.
        Err(problem) => format!("apiEndpoint must be a valid URL: {problem}"),
        Ok(url) if ["http", "https", "socks5"].contains(&&*url.scheme) => return None,
        Ok(url) => {
            format!("unsupported scheme \"{}\", must be http, https, or socks5", url.scheme)
        }
    };
    Some(FieldError::invalid(path, text, message))
}

/// Provider, region and zones are matched like labels. Compat: zones are reported in upper case.
fn check_places(spec: &ClusterSpec, path: &Path) -> Vec<FieldError> {
    let check = |field: &str, text: &str| {
        let problems = label_value(text);
        (!problems.is_empty())
            .then(|| FieldError::invalid(&path.child(field), text, problems.join("; ")))
    };
    let mut errors = Vec::new();
    errors.extend(check("provider", &spec.provider));
    errors.extend(check("region", &spec.region));
    if !spec.zone.is_empty() && !spec.zones.is_empty() {
        errors.push(FieldError::type_invalid(
            &path.child("spec"),
            Shown::Verbatim(internal_spec(spec)),
            "Zone and Zones cannot co-exist",
        ));
        return errors;
    }
    if spec.zone.is_empty() {
        errors.extend(spec.zones.iter().filter_map(|zone| check("Zones", zone)));
    } else {
        errors.extend(check("Zone", &spec.zone));
    }
    errors
}

fn check_taints(taints: &[Taint], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        errors.extend(each(&path.child("key"), &taint.key, qualified_name(&taint.key)));
        let problems = label_value(&taint.value);
        if !problems.is_empty() {
            let path = path.child("value");
            errors.push(FieldError::invalid(&path, &*taint.value, problems.join(";")));
        }
        let effect_path = path.child("effect");
        match &taint.effect {
            TaintEffect::NoSchedule | TaintEffect::NoExecute => {}
            TaintEffect::Unset => errors.push(FieldError::required(&effect_path, "")),
            other => errors.push(FieldError::not_supported(
                &effect_path,
                other.as_str(),
                &["NoSchedule", "NoExecute"],
            )),
        }
        if taints[..index].iter().any(|earlier| earlier.is_same(taint)) {
            let mut error = FieldError::duplicate(&path, shown(taint));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
    errors
}

/// The first thing wrong with the classes of node sizes.
fn check_models(models: &[ResourceModel], path: &Path) -> Option<FieldError> {
    let problem = models.iter().enumerate().find_map(|(index, model)| {
        let before = index.checked_sub(1).and_then(|before| models.get(before));
        model_problem(model, before, index + 1 == models.len())
    })?;
    Some(FieldError::invalid(path, Shown::Verbatim(internal_models(models)), problem))
}

fn model_problem(
    model: &ResourceModel,
    before: Option<&ResourceModel>,
    is_last: bool,
) -> Option<&'static str> {
    if let Some(before) = before {
        if model.grade == before.grade {
            return Some("The grade of each models should not be the same");
        }
        if model.ranges.len() != before.ranges.len() {
            return Some("The number of resource types should be the same");
        }
    }
    model.ranges.iter().enumerate().find_map(|(index, range)| {
        if range.max <= range.min {
            return Some("The max value of each resource must be greater than the min value");
        }
        match before.and_then(|before| before.ranges.get(index)) {
            None if !range.min.is_zero() => {
                return Some("The min value of each resource in the first model should be 0");
            }
            Some(earlier) if earlier.name != range.name => {
                return Some("The resource types of each models should be the same");
            }
            Some(earlier) if !is_same_text(&earlier.max, &range.min) => {
                return Some(
                    "Model intervals for resources must be contiguous and non-overlapping",
                );
            }
            _ => {}
        }
        (is_last && range.max.value() != i64::MAX)
            .then_some("The max value of each resource in the last model should be MaxInt64")
    })
}

// Compat: bounds that mean the same but are written differently do not meet.
fn is_same_text(a: &Quantity, b: &Quantity) -> bool {
    a == b && a.to_string() == b.to_string()
}

/// The spec as errors of the original print it: with the names its server uses inside.
fn internal_spec(spec: &ClusterSpec) -> String {
    let mut fields = Vec::new();
    if !spec.id.is_empty() {
        fields.push(format!("\"id\":{}", go_text(&spec.id)));
    }
    let reference = |reference: &Option<LocalSecretReference>| {
        reference.as_ref().map_or("null".to_owned(), |r| {
            format!("{{\"Namespace\":{},\"Name\":{}}}", go_text(&r.namespace), go_text(&r.name))
        })
    };
    let or_null = |is_empty: bool, text: String| if is_empty { "null".to_owned() } else { text };
    for (name, text) in [
        ("SyncMode", go_text(&spec.sync_mode)),
        ("APIEndpoint", go_text(&spec.api_endpoint)),
        ("SecretRef", reference(&spec.secret_ref)),
        ("ImpersonatorSecretRef", reference(&spec.impersonator_secret_ref)),
        ("InsecureSkipTLSVerification", spec.insecure_skip_tls_verification.to_string()),
        ("ProxyURL", go_text(&spec.proxy_url)),
        ("ProxyHeader", or_null(spec.proxy_header.is_empty(), go_text(&spec.proxy_header))),
        ("Provider", go_text(&spec.provider)),
        ("Region", go_text(&spec.region)),
        ("Zone", go_text(&spec.zone)),
        ("zones", go_text(&spec.zones)),
        ("Taints", or_null(spec.taints.is_empty(), go_text(&spec.taints))),
        (
            "ResourceModels",
            or_null(spec.resource_models.is_empty(), internal_models(&spec.resource_models)),
        ),
    ] {
        fields.push(format!("\"{name}\":{text}"));
    }
    format!("{{{}}}", fields.join(","))
}

fn internal_models(models: &[ResourceModel]) -> String {
    let range = |range: &ResourceModelRange| {
        let (name, min, max) = (go_text(&range.name), go_text(&range.min), go_text(&range.max));
        format!("{{\"Name\":{name},\"Min\":{min},\"Max\":{max}}}")
    };
    let model = |model: &ResourceModel| {
        let ranges: Vec<String> = model.ranges.iter().map(range).collect();
        format!("{{\"Grade\":{},\"Ranges\":[{}]}}", model.grade, ranges.join(","))
    };
    let models: Vec<String> = models.iter().map(model).collect();
    format!("[{}]", models.join(","))
}

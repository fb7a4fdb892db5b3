//! `Cluster` as the API server handles it: prepared, validated, brought into canonical form, shown in tables.
//! Writes of the status subresource go through none of this, as in the original.

use jiff::Timestamp;
use karmada_api::cluster::{
    Cluster, ClusterSpec, ClusterStatus, ResourceModel, ResourceModelRange,
};
use karmada_api::conditions;
use karmada_api::core::{Quantity, Taint, TaintEffect};
use karmada_api::features::{Gate, Gates};
use karmada_api::wire::{Time, Uint};
use karmada_apimachinery::Value;
use karmada_apimachinery::field::{FieldError, Path, Shown};
use karmada_apimachinery::names::{
    label_value, qualified_name, validate_object_meta, validate_object_meta_update,
};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::quantity::Format;
use serde_json::json;

use crate::rules::{cluster_name, each};
use crate::show::{go_text, shown};
use crate::url;

const GIB: i64 = 1 << 30;
/// Bounds of the default classes: CPUs, and memory in GiB; the last class has no upper bound.
const DEFAULT_MODELS: [(i64, i64); 9] =
    [(0, 0), (1, 4), (2, 16), (4, 32), (8, 64), (16, 128), (32, 256), (64, 512), (128, 1024)];
const ENDPOINT_FORM: &str = "; desired format: hostname, hostname:port, IP or IP:port";

/// Reads a Cluster; what does not fit the type is named.
pub fn decode(object: &Value) -> Result<Cluster, String> {
    crate::decode::decode(object).map_err(|denial| denial.message)
}

/// Clears what the client may not set and fills in what it left out.
pub fn prepare_create(cluster: &mut Cluster, gates: &Gates) {
    cluster.status = ClusterStatus::default();
    cluster.metadata.generation = 1;
    if !gates.is_on(Gate::CustomizedClusterResourceModeling) {
        return;
    }
    if cluster.spec.resource_models.is_empty() {
        cluster.spec.resource_models = default_models();
    } else {
        close_models(&mut cluster.spec.resource_models);
    }
}

/// Keeps the stored status and counts changes of the spec.
pub fn prepare_update(cluster: &mut Cluster, old: &Cluster, gates: &Gates) {
    cluster.status = old.status.clone();
    if cluster.spec != old.spec {
        cluster.metadata.generation = old.metadata.generation + 1;
    }
    if gates.is_on(Gate::CustomizedClusterResourceModeling) {
        close_models(&mut cluster.spec.resource_models);
    }
}

/// Brings a valid object into the form in which it is stored.
pub fn canonicalize(cluster: &mut Cluster, now: Timestamp) {
    for taint in &mut cluster.spec.taints {
        if taint.effect == TaintEffect::NoExecute {
            taint.time_added.get_or_insert(Time::from(now));
        }
    }
    let spec = &mut cluster.spec;
    if !spec.zone.is_empty() && spec.zones.is_empty() {
        spec.zones.push(std::mem::take(&mut spec.zone));
    }
}

/// The classes of node sizes of a cluster that says nothing about them.
pub fn default_models() -> Vec<ResourceModel> {
    let bound = |index: usize, memory: bool| match DEFAULT_MODELS.get(index) {
        Some((_, gib)) if memory => gib * GIB,
        Some((cpus, _)) => *cpus,
        None => i64::MAX,
    };
    let range = |name: &str, format, index, memory| ResourceModelRange {
        name: name.to_owned(),
        min: Quantity::new(bound(index, memory), format),
        max: Quantity::new(bound(index + 1, memory), format),
    };
    (0..DEFAULT_MODELS.len())
        .map(|index| ResourceModel {
            grade: Uint(index as u64),
            ranges: vec![
                range("cpu", Format::DecimalSi, index, false),
                range("memory", Format::BinarySi, index, true),
            ],
        })
        .collect()
}

/// Sorts the classes; the first starts at nothing, the last has no end.
fn close_models(models: &mut [ResourceModel]) {
    models.sort_by_key(|model| model.grade);
    if let Some(first) = models.first_mut() {
        for range in &mut first.ranges {
            range.min = Quantity::new(0, range.min.format());
        }
    }
    if let Some(last) = models.last_mut() {
        for range in &mut last.ranges {
            range.max = Quantity::new(i64::MAX, range.max.format());
        }
    }
}

/// Validates a new cluster.
pub fn validate_create(cluster: &Cluster) -> Vec<FieldError> {
    let metadata = serde_json::to_value(&cluster.metadata).unwrap_or_default();
    let rule = |name: &str, _: bool| cluster_name(name);
    let mut errors = validate_object_meta(&metadata, false, rule, &Path::new("metadata"));
    errors.extend(check_spec(&cluster.spec, &Path::new("spec")));
    errors
}

/// Validates a changed cluster.
pub fn validate_update(cluster: &Cluster, old: &Cluster) -> Vec<FieldError> {
    let meta = |cluster: &Cluster| serde_json::to_value(&cluster.metadata).unwrap_or_default();
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
    let reference = |reference: &Option<karmada_api::cluster::LocalSecretReference>| {
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

/// Definitions of the columns of a table of clusters: name, priority, description.
pub const COLUMNS: [(&str, i32, &str); 10] = [
    ("Name", 0, "Name of the cluster."),
    ("Version", 0, "Kubernetes version of the cluster."),
    ("Mode", 0, "Who applies Works in the cluster: Push or Pull."),
    ("Ready", 0, "Whether the cluster can take workloads."),
    ("Age", 0, "Time since the cluster was registered."),
    ("Zones", 1, "Failure zones of the cluster."),
    ("Region", 1, "Region of the cluster."),
    ("Provider", 1, "Cloud provider of the cluster."),
    ("API-Endpoint", 1, "URL of the cluster's API server."),
    ("Proxy-URL", 1, "Proxy on the way to the cluster."),
];

/// The column definitions as they stand in a Table.
pub fn column_definitions() -> Vec<Value> {
    COLUMNS
        .iter()
        .map(|(name, priority, description)| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({
                "name": name, "type": "string", "format": format,
                "description": description, "priority": priority,
            })
        })
        .collect()
}

/// The cells of a cluster's row; `age` is the printed age.
pub fn cells(object: &Value, age: &str) -> Vec<Value> {
    let text = |path: &[&str]| object.str_at(path).unwrap_or_default();
    let or_none = |text: &str| if text.is_empty() { "<none>".to_owned() } else { text.to_owned() };
    let is_ready = |condition: &&Value| condition["type"] == conditions::cluster::READY;
    let ready = object
        .list_at(&["status", "conditions"])
        .iter()
        .find(is_ready)
        .and_then(|condition| condition.str_at(&["status"]))
        .unwrap_or("Unknown");
    let zones: Vec<&str> =
        object.list_at(&["spec", "zones"]).iter().filter_map(Value::as_str).collect();
    vec![
        object.name().into(),
        text(&["status", "kubernetesVersion"]).into(),
        text(&["spec", "syncMode"]).into(),
        ready.into(),
        age.into(),
        or_none(&zones.join(",")).into(),
        or_none(text(&["spec", "region"])).into(),
        or_none(text(&["spec", "provider"])).into(),
        text(&["spec", "apiEndpoint"]).into(),
        or_none(text(&["spec", "proxyURL"])).into(),
    ]
}

/// Writes a typed cluster back into the object it was read from, keeping server-owned metadata.
pub fn encode(cluster: &Cluster) -> Value {
    let mut object = serde_json::to_value(cluster).unwrap_or_default();
    object.set(&["apiVersion"], "cluster.karmada.io/v1alpha1");
    object.set(&["kind"], "Cluster");
    object
}

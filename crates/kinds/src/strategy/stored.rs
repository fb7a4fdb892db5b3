//! Steps of single kinds on the way into the store.

use jiff::Timestamp;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Map, Value, json};

/// A namespace is held until its content is gone.
pub(super) fn add_namespace_finalizer(namespace: &mut Value) {
    const PLACE: &[&str] = &["spec", "finalizers"];
    let mut finalizers = namespace.list_at(PLACE).to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == "kubernetes") {
        finalizers.push("kubernetes".into());
        namespace.set(PLACE, finalizers);
    }
}

/// Secret references of a service account keep their names only.
pub(super) fn keep_secret_names(account: &mut Value) {
    for secret in account.list_at_mut(&["secrets"]) {
        if let Some(reference) = secret.as_object_mut() {
            reference.retain(|key, _| key == "name");
        }
    }
}

/// The version objects are stored in is remembered, so that it is not removed while in use.
pub(super) fn record_stored_version(definition: &mut Value) {
    const PLACE: &[&str] = &["status", "storedVersions"];
    let stored = definition
        .list_at(&["spec", "versions"])
        .iter()
        .find(|version| version.bool_at(&["storage"]) == Some(true))
        .and_then(|version| version.get("name").cloned());
    let mut versions = definition.list_at(PLACE).to_vec();
    if let Some(stored) = stored.filter(|stored| !versions.contains(stored)) {
        versions.push(stored);
    }
    definition.set(PLACE, versions);
}

/// A group version without a service is served by this process and always available.
pub(super) fn mark_local_service(service: &mut Value, created: Value) {
    if service.map_at(&["spec", "service"]).is_some() {
        return;
    }
    let condition = json!({
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
        "lastTransitionTime": created,
    });
    service.set(&["status", "conditions"], json!([condition]));
}

/// Where DaemonSets count changes of their template.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const COUNT: &[&str] = &["metadata", "annotations", TEMPLATE_GENERATION];

/// Compat: DaemonSets count changes of their template in an annotation.
pub(super) fn start_template_generation(daemon_set: &mut Value) {
    let count = template_generation(daemon_set).max(1);
    daemon_set.set(COUNT, count.to_string());
}

pub(super) fn count_template_generation(new: &mut Value, old: &Value) {
    const TEMPLATE: &[&str] = &["spec", "template"];
    let changed = new.at(TEMPLATE) != old.at(TEMPLATE);
    let count = template_generation(old).saturating_add(i64::from(changed));
    new.set(COUNT, count.to_string());
}

fn template_generation(daemon_set: &Value) -> i64 {
    daemon_set.str_at(COUNT).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The longest value a label may have.
const MAX_LABEL: usize = 63;

/// A job finds its pods by its own uid unless the author manages the selector.
pub(super) fn generate_selector(job: &mut Value) {
    if job.bool_at(&["spec", "manualSelector"]) == Some(true) {
        return;
    }
    let (name, uid) = (job.name().to_owned(), job.uid().to_owned());
    // Compat: a job without labels of its own carries those of its template, these included. Where
    // the name makes no label, the template is refused anyway. Where the template has none either, the
    // job is stored without labels and completed whenever it is read.
    const TEMPLATE_LABELS: &[&str] = &["spec", "template", "metadata", "labels"];
    let own = job.map_at(&["metadata", "labels"]).filter(|labels| !labels.is_empty());
    let of_template = job.map_at(TEMPLATE_LABELS).filter(|labels| !labels.is_empty());
    let shares_labels = of_template.is_some()
        && own.is_none_or(|own| of_template == Some(own))
        && name.len() <= MAX_LABEL;
    let labels = job.map_at_mut(TEMPLATE_LABELS);
    for (label, value) in [
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
    ] {
        labels.entry(label).or_insert_with(|| value.as_str().into());
    }
    if shares_labels {
        let labels = labels.clone();
        job.set(&["metadata", "labels"], labels);
    }
    job.map_at_mut(&["spec", "selector", "matchLabels"])
        .entry("batch.kubernetes.io/controller-uid")
        .or_insert_with(|| uid.into());
}

pub(super) fn date_device_taints(slice: &mut Value, now: &Value) {
    for device in slice.list_at_mut(&["spec", "devices"]) {
        for taint in device.list_at_mut(&["taints"]) {
            taint.set_default(&["timeAdded"], now.clone());
        }
    }
}

/// The time a volume entered its phase is set by the server unless the writer gives another one.
pub(super) fn date_phase(new: &mut Value, old: &Value, now: Timestamp) {
    const TIME: &[&str] = &["status", "lastPhaseTransitionTime"];
    let same_phase = new.at(&["status", "phase"]) == old.at(&["status", "phase"]);
    let given = new.at(TIME).filter(|time| !time.is_null());
    if same_phase && given.is_none() {
        super::copy(new, old, TIME);
    } else if !same_phase && (given.is_none() || given == old.at(TIME)) {
        new.set(TIME, format_time(now));
    }
}

/// The two ways to name where a claim's content comes from say the same, as far as the old one can.
pub(super) fn agree_on_data_source(claim: &mut Value, old: Option<&Value>) {
    let had_source = old.is_some_and(|old| {
        ["dataSource", "dataSourceRef"].iter().any(|field| old.map_at(&["spec", field]).is_some())
    });
    let spec = claim.map_at_mut(&["spec"]);
    let is_set = |spec: &Map, field: &str| spec.get(field).is_some_and(Value::is_object);
    // Kinds nobody can read from are dropped from the old field, as they always were.
    if !had_source
        && let Some(source) = spec.get("dataSource").filter(|source| source.is_object())
        && !is_set(spec, "dataSourceRef")
        && !is_known_source(source)
    {
        spec.remove("dataSource");
    }
    if let Some(source) = spec.get("dataSource").filter(|s| s.is_object()).cloned() {
        if !is_set(spec, "dataSourceRef") {
            spec.insert("dataSourceRef", source);
        }
    } else if let Some(reference) = spec.get("dataSourceRef").filter(|r| r.is_object()).cloned()
        && reference.get("namespace").is_none_or(Value::is_null)
    {
        spec.insert("dataSource", reference);
    }
}

fn is_known_source(source: &Value) -> bool {
    let group = source.str_at(&["apiGroup"]).unwrap_or_default();
    matches!(
        (group, source.str_at(&["kind"]).unwrap_or_default()),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

//! Rows of the kinds that run pods.

use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::time::{human_duration, parse_time};
use karmada_apimachinery::{Value, gvk::GroupVersion};

use super::row::{Row, amount};
use crate::convert::convert;

const CONTAINERS: &[&str] = &["spec", "template", "spec", "containers"];
const SELECTOR: &[&str] = &["spec", "selector"];

pub(super) fn pod_template(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(&["template", "spec", "containers"]);
    vec![row.name(), names, images, row.labels(&["template", "metadata", "labels"])]
}

fn replicas(row: &Row<'_>, selector: Value) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![
        row.name(),
        row.number(&["spec", "replicas"]),
        row.number(&["status", "replicas"]),
        row.number(&["status", "readyReplicas"]),
        row.age(),
        names,
        images,
        selector,
    ]
}

pub(super) fn replication_controller(row: &Row<'_>) -> Vec<Value> {
    replicas(row, row.labels(SELECTOR))
}

pub(super) fn replica_set(row: &Row<'_>) -> Vec<Value> {
    replicas(row, row.selector(SELECTOR))
}

fn ready(row: &Row<'_>) -> Value {
    let ready = row.int(&["status", "readyReplicas"]);
    format!("{ready}/{}", row.int(&["spec", "replicas"])).into()
}

pub(super) fn deployment(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    // Compat: unlike everywhere else an empty selector stays empty here.
    let selector = LabelSelector::from_object(row.object.at(SELECTOR));
    let selector = selector.map_or_else(|_| "<invalid>".to_owned(), |s| s.to_string());
    vec![
        row.name(),
        ready(row),
        row.number(&["status", "updatedReplicas"]),
        row.number(&["status", "availableReplicas"]),
        row.age(),
        names,
        images,
        selector.into(),
    ]
}

pub(super) fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![row.name(), ready(row), row.age(), names, images]
}

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    vec![
        row.name(),
        row.number(&["status", "desiredNumberScheduled"]),
        row.number(&["status", "currentNumberScheduled"]),
        row.number(&["status", "numberReady"]),
        row.number(&["status", "updatedNumberScheduled"]),
        row.number(&["status", "numberAvailable"]),
        row.labels(&["spec", "template", "spec", "nodeSelector"]),
        row.age(),
        names,
        images,
        row.selector(SELECTOR),
    ]
}

pub(super) fn controller_revision(row: &Row<'_>) -> Vec<Value> {
    let owners = row.object.list_at(&["metadata", "ownerReferences"]);
    let controller = owners.iter().find(|owner| owner.bool_at(&["controller"]) == Some(true));
    let controller = controller.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let text = |field: &str| owner.str_at(&[field]).unwrap_or_default();
            let group = GroupVersion::parse(text("apiVersion")).unwrap_or_default().group;
            let kind = text("kind").to_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text("name"))
        },
    );
    vec![row.name(), controller.into(), row.number(&["revision"]), row.age()]
}

pub(super) fn job(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.containers(CONTAINERS);
    let done = row.int(&["status", "succeeded"]);
    let completions = match row.object.i64_at(&["spec", "completions"]) {
        Some(wanted) => format!("{done}/{wanted}"),
        None => match row.int(&["spec", "parallelism"]) {
            at_once if at_once > 1 => format!("{done}/1 of {at_once}"),
            _ => format!("{done}/1"),
        },
    };
    vec![
        row.name(),
        job_status(row).into(),
        completions.into(),
        job_duration(row).into(),
        row.age(),
        names,
        images,
        row.selector(SELECTOR),
    ]
}

fn job_status(row: &Row<'_>) -> &'static str {
    let ended = ["Complete", "Failed"].into_iter().find(|kind| row.is_true(kind));
    let pending = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    match ended {
        Some(ended) => ended,
        None if row.object.is_being_deleted() => "Terminating",
        None => pending.into_iter().find(|kind| row.is_true(kind)).unwrap_or("Running"),
    }
}

fn job_duration(row: &Row<'_>) -> String {
    let time = |field: &str| row.object.str_at(&["status", field]).and_then(parse_time);
    let Some(start) = time("startTime") else { return String::new() };
    human_duration(time("completionTime").unwrap_or(row.now).duration_since(start))
}

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Value> {
    const TEMPLATE: [&str; 3] = ["spec", "jobTemplate", "spec"];
    let [names, images] =
        row.containers(&[TEMPLATE.as_slice(), &["template", "spec", "containers"]].concat());
    let last = row.object.at(&["status", "lastScheduleTime"]).filter(|time| !time.is_null());
    let last = last.map_or_else(|| "<none>".to_owned(), |time| row.since(Some(time)));
    let suspend = match row.object.bool_at(&["spec", "suspend"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        row.name(),
        row.text(&["spec", "schedule"]),
        row.text_or(&["spec", "timeZone"], "<none>"),
        suspend.into(),
        row.count(&["status", "active"]).into(),
        last.into(),
        row.age(),
        names,
        images,
        row.selector(&[TEMPLATE.as_slice(), &["selector"]].concat()),
    ]
}

pub(super) fn scale(row: &Row<'_>) -> Vec<Value> {
    vec![
        row.name(),
        row.number(&["spec", "replicas"]),
        row.number(&["status", "replicas"]),
        row.age(),
    ]
}

pub(super) fn autoscaler(row: &Row<'_>) -> Vec<Value> {
    let mut object = row.object.clone();
    convert(&mut object, "autoscaling", "v2");
    let row = &Row { object: &object, now: row.now };
    let target = |field: &str| row.str(&["spec", "scaleTargetRef", field]).to_owned();
    let least = row.object.i64_at(&["spec", "minReplicas"]);
    vec![
        row.name(),
        format!("{}/{}", target("kind"), target("name")).into(),
        metrics(row).into(),
        least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string()).into(),
        row.number(&["spec", "maxReplicas"]),
        row.number(&["status", "currentReplicas"]),
        row.age(),
    ]
}

fn metrics(row: &Row<'_>) -> String {
    const SHOWN: usize = 2;
    let specs = row.object.list_at(&["spec", "metrics"]);
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let current = row.object.list_at(&["status", "currentMetrics"]);
    let texts = specs.iter().enumerate().take(SHOWN);
    let texts: Vec<String> = texts.map(|(at, spec)| metric(spec, current.get(at))).collect();
    let shown = texts.join(", ");
    if specs.len() > SHOWN { format!("{shown} + {} more...", specs.len() - SHOWN) } else { shown }
}

/// `cpu: 40%/80%`: where a metric is and where it should be.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (key, is_resource) = match spec.str_at(&["type"]) {
        Some("External") => ("external", false),
        Some("Pods") => ("pods", false),
        Some("Object") => ("object", false),
        Some("Resource") => ("resource", true),
        Some("ContainerResource") => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let target = |field: &str| spec.at(&[key, "target", field]).filter(|v| !v.is_null());
    let status = status.and_then(|status| status.get(key)).filter(|status| status.is_object());
    let current =
        |field: &str| status.and_then(|s| s.at(&["current", field])).filter(|v| !v.is_null());
    let unknown = || "<unknown>".to_owned();
    let name = spec.str_at(&[key, "name"]).unwrap_or_default();
    let percent = |value: &Value| format!("{value}%");
    match (is_resource, target("averageValue")) {
        (true, Some(average)) => {
            let now = status.map_or_else(unknown, |_| amount(current("averageValue")));
            format!("{name}: {now}/{}", amount(Some(average)))
        }
        (true, None) => {
            let now = current("averageUtilization").map_or_else(unknown, percent);
            let wanted = target("averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
            format!("{name}: {now}/{wanted}")
        }
        (false, Some(average)) if key == "pods" => {
            let now = status.map_or_else(unknown, |_| amount(current("averageValue")));
            format!("{now}/{}", amount(Some(average)))
        }
        (false, Some(average)) => {
            let now = current("averageValue").map_or_else(unknown, |now| amount(Some(now)));
            format!("{now}/{} (avg)", amount(Some(average)))
        }
        (false, None) => {
            let now = status.map_or_else(unknown, |_| amount(current("value")));
            format!("{now}/{}", amount(target("value")))
        }
    }
}

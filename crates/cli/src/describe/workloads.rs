//! ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs in words, as kubectl 1.36 writes them.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, selector::LabelSelector, time};
use karmada_client::ListOptions;

use super::access::storage_class;
use super::deployment::{conditions, template};
use super::tabs::{Text, on_one_line, plain};
use super::{controller_of, moment};
use crate::context::Server;

/// How many pods of a workload are in which phase.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pods {
    running: usize,
    waiting: usize,
    succeeded: usize,
    failed: usize,
}

impl Pods {
    /// Counts the pods a workload keeps. Members have pods, the control plane has none: that is no failure.
    pub(super) async fn of(server: &Server, workload: &Value) -> Self {
        let pods = server.client.api(&Gvr::new("", "v1", "pods")).namespaced(workload.namespace());
        let options = ListOptions { label_selector: selector(workload), ..ListOptions::default() };
        let pods = pods.list_all(&options).await.map(|list| list.items).unwrap_or_default();
        let own = pods.iter().filter(|pod| {
            let owners = &pod.meta().owner_references;
            owners.iter().any(|own| own.controller == Some(true) && own.uid == workload.uid())
        });
        let mut counts = Self::default();
        for pod in own {
            match pod.value().str_at(&["status", "phase"]) {
                Some("Running") => counts.running += 1,
                Some("Pending") => counts.waiting += 1,
                Some("Succeeded") => counts.succeeded += 1,
                Some("Failed") => counts.failed += 1,
                _ => {}
            }
        }
        counts
    }

    fn show(self, out: &mut Text) {
        let Self { running, waiting, succeeded, failed } = self;
        let value = format!(
            "{running} Running / {waiting} Waiting / {succeeded} Succeeded / {failed} Failed"
        );
        out.field(0, "Pods Status", value);
    }
}

/// What a workload selects; ReplicationControllers select by labels alone.
fn selector(object: &Value) -> String {
    if object.kind() == "ReplicationController" {
        return on_one_line(object.map_at(&["spec", "selector"]));
    }
    let selector = LabelSelector::from_object(object.at(&["spec", "selector"]));
    selector.map(|selector| selector.to_string()).unwrap_or_default()
}

fn number(object: &Value, path: &[&str]) -> i64 {
    object.i64_at(path).unwrap_or_default()
}

fn pod_template(out: &mut Text, object: &Value, path: &[&str]) {
    template(out, object.at(path).unwrap_or(&Value::Null));
}

pub(super) fn stateful_set(object: &Value, pods: Pods) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    let created = moment(object, &["metadata", "creationTimestamp"]);
    out.field(0, "CreationTimestamp", created.unwrap_or_default());
    out.field(0, "Selector", selector(object));
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    let (desired, total) =
        (number(object, &["spec", "replicas"]), number(object, &["status", "replicas"]));
    out.field(0, "Replicas", format!("{desired} desired | {total} total"));
    let strategy = ["spec", "updateStrategy", "type"];
    out.field(0, "Update Strategy", object.str_at(&strategy).unwrap_or_default());
    if let Some(rolling) = object.at(&["spec", "updateStrategy", "rollingUpdate"]) {
        for (field, heading) in [("partition", "Partition"), ("maxUnavailable", "MaxUnavailable")] {
            out.field_if_any(1, heading, rolling.get(field).map(plain).as_deref());
        }
    }
    pods.show(&mut out);
    pod_template(&mut out, object, &["spec", "template"]);
    claims(&mut out, object.list_at(&["spec", "volumeClaimTemplates"]));
    out
}

fn claims(out: &mut Text, claims: &[Value]) {
    if claims.is_empty() {
        out.field(0, "Volume Claims", "");
        return;
    }
    out.line(0, "Volume Claims:");
    for claim in claims {
        out.field(1, "Name", claim.name());
        out.line(1, &format!("StorageClass:\t{}", storage_class(claim)));
        for (field, heading) in [("labels", "Labels"), ("annotations", "Annotations")] {
            let pairs = claim.map_at(&["metadata", field]).into_iter().flatten();
            let pairs: Vec<String> =
                pairs.map(|(key, value)| format!("{key}={}", plain(value))).collect();
            out.many(1, heading, &pairs);
        }
        let capacity = claim.at(&["spec", "resources", "requests", "storage"]).map(plain);
        out.field(1, "Capacity", capacity.as_deref().unwrap_or("<default>"));
        let modes: Vec<String> =
            claim.list_at(&["spec", "accessModes"]).iter().map(plain).collect();
        out.field(1, "Access Modes", format!("[{}]", modes.join(" ")));
    }
}

/// ReplicaSets and ReplicationControllers.
pub(super) fn replica_set(object: &Value, pods: Pods) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    out.field(0, "Selector", selector(object));
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.field_if_any(0, "Controlled By", controller_of(object).as_deref());
    let (current, desired) =
        (number(object, &["status", "replicas"]), number(object, &["spec", "replicas"]));
    out.field(0, "Replicas", format!("{current} current / {desired} desired"));
    pods.show(&mut out);
    pod_template(&mut out, object, &["spec", "template"]);
    conditions(&mut out, object);
    out
}

pub(super) fn daemon_set(object: &Value, pods: Pods) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    out.field(0, "Selector", selector(object));
    let nodes = object.map_at(&["spec", "template", "spec", "nodeSelector"]).into_iter().flatten();
    let nodes: Vec<String> = nodes.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    out.field(0, "Node-Selector", nodes.join(","));
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    for (heading, field) in [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ] {
        out.line(0, &format!("{heading}: {}", number(object, &["status", field])));
    }
    pods.show(&mut out);
    pod_template(&mut out, object, &["spec", "template"]);
    out
}

pub(super) fn job(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    out.line(0, &format!("Selector:\t{}", selector(object)));
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    out.field_if_any(0, "Controlled By", controller_of(object).as_deref());
    let spec = |field: &str| object.at(&["spec", field]).map(plain);
    out.field_if_any(0, "Parallelism", spec("parallelism").as_deref());
    out.field(0, "Completions", spec("completions").as_deref().unwrap_or("<unset>"));
    for (heading, field) in [
        ("Completion Mode", "completionMode"),
        ("Suspend", "suspend"),
        ("Backoff Limit", "backoffLimit"),
        ("TTL Seconds After Finished", "ttlSecondsAfterFinished"),
    ] {
        out.field_if_any(0, heading, spec(field).as_deref());
    }
    out.field_if_any(0, "Start Time", moment(object, &["status", "startTime"]).as_deref());
    out.field_if_any(0, "Completed At", moment(object, &["status", "completionTime"]).as_deref());
    let at = |field: &str| object.str_at(&["status", field]).and_then(time::parse_time);
    if let (Some(began), Some(ended)) = (at("startTime"), at("completionTime")) {
        out.field(0, "Duration", time::human_duration(ended.duration_since(began)));
    }
    let deadline = spec("activeDeadlineSeconds").map(|seconds| format!("{seconds}s"));
    out.field_if_any(0, "Active Deadline Seconds", deadline.as_deref());
    out.field(0, "Pods Statuses", job_pods(object));
    if spec("completionMode").as_deref() == Some("Indexed") {
        let indexes = object.str_at(&["status", "completedIndexes"]).unwrap_or_default();
        out.field(0, "Completed Indexes", cut(indexes));
    }
    pod_template(&mut out, object, &["spec", "template"]);
    out
}

/// Long lists end at the first comma behind fifty characters.
fn cut(indexes: &str) -> String {
    const SOFT: usize = 50;
    match indexes.get(SOFT..).and_then(|rest| rest.find(',')) {
        Some(comma) => format!("{}...", &indexes[..=SOFT + comma]),
        None => indexes.to_owned(),
    }
}

fn job_pods(job: &Value) -> String {
    let count = |field: &str| number(job, &["status", field]);
    let ready = job.i64_at(&["status", "ready"]).map(|ready| format!(" ({ready} Ready)"));
    format!(
        "{} Active{} / {} Succeeded / {} Failed",
        count("active"),
        ready.unwrap_or_default(),
        count("succeeded"),
        count("failed")
    )
}

pub(super) fn cron_job(object: &Value) -> Text {
    let mut out = Text::default();
    out.field(0, "Name", object.name());
    out.field(0, "Namespace", object.namespace());
    out.pairs("Labels", object, "labels", "=");
    out.pairs("Annotations", object, "annotations", ": ");
    let spec = |path: &[&str]| object.at(&["spec"]).and_then(|spec| spec.at(path)).map(plain);
    let or_unset = |value: Option<String>| value.unwrap_or_else(|| "<unset>".to_owned());
    out.field(0, "Schedule", spec(&["schedule"]).unwrap_or_default());
    out.field(0, "Concurrency Policy", spec(&["concurrencyPolicy"]).unwrap_or_default());
    let suspend = object.bool_at(&["spec", "suspend"]).map(|on| if on { "True" } else { "False" });
    out.field(0, "Suspend", suspend.unwrap_or("<unset>"));
    out.field(0, "Time Zone", or_unset(spec(&["timeZone"])));
    let kept = or_unset(spec(&["successfulJobsHistoryLimit"]));
    out.field(0, "Successful Job History Limit", kept);
    out.field(0, "Failed Job History Limit", or_unset(spec(&["failedJobsHistoryLimit"])));
    let deadline = spec(&["startingDeadlineSeconds"]).map(|seconds| format!("{seconds}s"));
    out.field(0, "Starting Deadline Seconds", or_unset(deadline));
    let job = object.at(&["spec", "jobTemplate"]).cloned().unwrap_or_default();
    let chosen = job.at(&["spec", "selector"]).map(|_| selector(&job));
    out.field(0, "Selector", or_unset(chosen));
    out.field(0, "Parallelism", or_unset(spec(&["jobTemplate", "spec", "parallelism"])));
    out.field(0, "Completions", or_unset(spec(&["jobTemplate", "spec", "completions"])));
    let deadline = spec(&["jobTemplate", "spec", "activeDeadlineSeconds"]);
    let deadline = deadline.map(|seconds| format!("{seconds}s"));
    out.field_if_any(0, "Active Deadline Seconds", deadline.as_deref());
    pod_template(&mut out, object, &["spec", "jobTemplate", "spec", "template"]);
    let last = moment(object, &["status", "lastScheduleTime"]);
    out.field(0, "Last Schedule Time", or_unset(last));
    let active = object.list_at(&["status", "active"]).iter();
    let active: Vec<&str> = active.filter_map(|job| job.str_at(&["name"])).collect();
    out.field(0, "Active Jobs", active.join(", "));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::json;

    fn of(kind: &str) -> Value {
        json!({
            "kind": kind,
            "metadata": {
                "name": "db", "namespace": "default", "labels": {"app": "db"},
                "creationTimestamp": "2026-11-16T11:42:39Z"},
            "spec": {
                "selector": {"matchLabels": {"app": "db"}},
                "template": {
                    "metadata": {"labels": {"app": "db"}},
                    "spec": {"containers": [{"name": "db", "image": "postgres"}]}}},
        })
    }

    const TEMPLATE: &str = "\
Pod Template:
  Labels:  app=db
  Containers:
   db:
    Image:         postgres
    Port:          <none>
    Host Port:     <none>
    Environment:   <none>
    Mounts:        <none>
  Volumes:         <none>
  Node-Selectors:  <none>
  Tolerations:     <none>
";

    #[test]
    fn a_stateful_set_reads_as_kubectl_shows_it() {
        let mut set = of("StatefulSet");
        set["spec"]["replicas"] = 2.into();
        set["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
        set["spec"]["volumeClaimTemplates"] = json!([{
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
        set["status"] = json!({"replicas": 2});
        let pods = Pods { running: 2, ..Pods::default() };
        let expected = format!(
            "\
Name:               db
Namespace:          default
CreationTimestamp:  Mon, 16 Nov 2026 11:42:39 +0000
Selector:           app=db
Labels:             app=db
Annotations:        <none>
Replicas:           2 desired | 2 total
Update Strategy:    RollingUpdate
  Partition:        0
Pods Status:        2 Running / 0 Waiting / 0 Succeeded / 0 Failed
{TEMPLATE}Volume Claims:
  Name:          data
  StorageClass:  \n  Labels:        <none>
  Annotations:   <none>
  Capacity:      1Gi
  Access Modes:  [ReadWriteOnce]
"
        );
        assert_eq!(stateful_set(&set, pods).align(), expected);
    }

    #[test]
    fn a_daemon_set_reads_as_kubectl_shows_it() {
        let mut set = of("DaemonSet");
        set["status"] = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3});
        let expected = format!(
            "\
Name:           db
Namespace:      default
Selector:       app=db
Node-Selector:  <none>
Labels:         app=db
Annotations:    <none>
Desired Number of Nodes Scheduled: 3
Current Number of Nodes Scheduled: 3
Number of Nodes Scheduled with Up-to-date Pods: 0
Number of Nodes Scheduled with Available Pods: 0
Number of Nodes Misscheduled: 0
Pods Status:  0 Running / 3 Waiting / 0 Succeeded / 0 Failed
{TEMPLATE}"
        );
        let pods = Pods { waiting: 3, ..Pods::default() };
        assert_eq!(daemon_set(&set, pods).align(), expected);
    }

    #[test]
    fn a_job_and_its_schedule_read_as_kubectl_shows_them() {
        let mut once = of("Job");
        for (field, value) in [
            ("parallelism", json!(2)),
            ("completions", json!(2)),
            ("completionMode", json!("NonIndexed")),
            ("suspend", json!(false)),
            ("backoffLimit", json!(3)),
        ] {
            once["spec"][field] = value;
        }
        once["status"] = json!({
            "startTime": "2026-11-16T11:41:22Z", "completionTime": "2026-11-16T11:41:23Z",
            "succeeded": 2, "ready": 0});
        let expected = format!(
            "\
Name:             db
Namespace:        default
Selector:         app=db
Labels:           app=db
Annotations:      <none>
Parallelism:      2
Completions:      2
Completion Mode:  NonIndexed
Suspend:          false
Backoff Limit:    3
Start Time:       Mon, 16 Nov 2026 11:41:22 +0000
Completed At:     Mon, 16 Nov 2026 11:41:23 +0000
Duration:         1s
Pods Statuses:    0 Active (0 Ready) / 2 Succeeded / 0 Failed
{TEMPLATE}"
        );
        assert_eq!(job(&once).align(), expected);

        let mut nightly = of("CronJob");
        nightly["spec"] = json!({
            "schedule": "0 3 * * *", "concurrencyPolicy": "Allow", "suspend": false,
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "n", "image": "i"}]}}}}});
        let text = cron_job(&nightly).align();
        for line in [
            "Suspend:                       False",
            "Time Zone:                     <unset>",
            "Starting Deadline Seconds:     <unset>",
            "Completions:                   <unset>",
            "  Labels:  <none>",
            "Last Schedule Time:  <unset>",
            "Active Jobs:         <none>",
        ] {
            assert!(text.lines().any(|one| one == line), "no {line:?} in\n{text}");
        }
    }
}

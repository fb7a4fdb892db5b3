//! What controllers tell of themselves, by the names dashboards know.

use std::time::Duration;

use karmada_apimachinery::json;
use karmada_controllers::context::Options;

use crate::bare;
use crate::plane::{BINDINGS, Plane, config_map, eventually, is};

/// Whether a metric has this type and a row with exactly these labels; its value is given back.
fn value(text: &str, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut wanted: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
    wanted.sort();
    text.lines().find_map(|line| {
        let (row, value) = line.rsplit_once(' ')?;
        let (name, rest) = row.split_once('{').unwrap_or((row, "}"));
        let mut found: Vec<&str> =
            rest.strip_suffix('}')?.split(',').filter(|label| !label.is_empty()).collect();
        found.sort_unstable();
        (name == metric && found == wanted).then(|| value.parse().ok())?
    })
}

fn has_type(text: &str, metric: &str, kind: &str) -> bool {
    text.lines().any(|line| line == format!("# TYPE {metric} {kind}"))
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_to_members_is_counted_by_kind_and_outcome() {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await;
    plane.bind(&template, json!([{"name": "m1"}]), json!({})).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "True")).await;
    let changed = json!({"data": {"a": "2"}});
    let api = plane.api("configmaps").namespaced("ns");
    api.merge_patch("conf", changed).await.unwrap();
    let bindings = plane.api(BINDINGS).namespaced("ns");
    let again = json!({"spec": {"resource": {"resourceVersion": "2"}}});
    bindings.merge_patch("conf-configmap", again).await.unwrap();
    eventually("the member has the change", async || {
        let object = plane.member("m1", "configmaps").get("conf").await.unwrap();
        object["data"]["a"] == "2"
    })
    .await;
    plane.settle().await;
    plane.unbind("conf-configmap").await;
    plane.eventually_no_work("m1").await;

    let text = plane.metrics();
    let of = |metric, own: &[(&str, &str)]| {
        assert!(has_type(&text, metric, "counter"), "{metric}");
        let labels = [("apiversion", "v1"), ("kind", "ConfigMap"), ("member_cluster", "m1")];
        value(&text, metric, &[&labels, own].concat())
    };
    let (ok, created) = (("result", "success"), ("recreate", "false"));
    assert_eq!(of("create_resource_to_cluster", &[ok, created]), Some(1.0));
    let updated = ("operationResult", "updated");
    assert_eq!(of("update_resource_to_cluster", &[ok, updated]), Some(1.0));
    assert_eq!(of("delete_resource_from_cluster", &[ok]), Some(1.0));
    for metric in ["binding_sync_work_duration_seconds", "work_sync_workload_duration_seconds"] {
        assert!(has_type(&text, metric, "histogram"), "{metric}");
        let passes = value(&text, &format!("{metric}_count"), &[ok]).unwrap();
        assert!(passes >= 2.0, "{metric}: {passes}");
        let bounds = text.lines().filter(|line| {
            line.starts_with(metric) && line.contains("_bucket{") && line.contains("\"success\"")
        });
        assert_eq!(bounds.count(), 13, "twelve bounds and none");
    }
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_member_refuses_counts_as_an_error() {
    let plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let foreign = config_map("conf", json!({"a": "0"}));
    plane.member("m1", "configmaps").create(&foreign).await.unwrap();
    let template = plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await;
    plane.bind(&template, json!([{"name": "m1"}]), json!({})).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "False")).await;
    plane.settle().await;
    let text = plane.metrics();
    let labels = [
        ("result", "error"),
        ("apiversion", "v1"),
        ("kind", "ConfigMap"),
        ("member_cluster", "m1"),
        ("recreate", "false"),
    ];
    assert!(value(&text, "create_resource_to_cluster", &labels).is_some(), "{text}");
    let failed = [("result", "error")];
    let passes = value(&text, "work_sync_workload_duration_seconds_count", &failed);
    assert!(passes.is_some_and(|passes| passes >= 1.0));
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn evictions_are_shown_while_they_wait_and_the_pace_is_no_part_of_how_long_they_take() {
    let options = Options {
        enable_no_execute_taint_eviction: true,
        resource_eviction_rate: 0.05,
        ..Options::default()
    };
    let controllers = vec!["cluster".to_owned()];
    let setup = bare::Setup { gates: "Failover=true", options, controllers, ..Default::default() };
    let plane = bare::Plane::with(setup).await;
    plane.namespace("team").await;
    let spec = json!({"syncMode": "Push"});
    plane
        .create(
            "clusters.cluster.karmada.io",
            "",
            json!({"metadata": {"name": "m1"}, "spec": spec}),
        )
        .await;
    for name in ["a", "b", "c"] {
        let placed = json!({"policy.karmada.io/applied-placement": "{}"});
        let binding = json!({
            "metadata": {"name": name, "annotations": placed},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "team"},
                "clusters": [{"name": "m1", "replicas": 1}],
            },
        });
        plane.create("resourcebindings.work.karmada.io", "team", binding).await;
    }
    plane.settle().await;
    let taints = json!({"spec": {"taints": [{"key": "repair", "effect": "NoExecute"}]}});
    plane.patch("clusters.cluster.karmada.io", "", "m1", taints).await;
    plane.settle().await;

    let of = |text: &str, metric: &str, labels: &[(&str, &str)]| value(text, metric, labels);
    let kind = [("member_cluster", "m1"), ("resource_kind", "ResourceBinding")];
    let name = [("name", "binding-eviction")];
    let text = plane.metrics();
    assert!(has_type(&text, "eviction_kind_total", "gauge"), "{text}");
    assert_eq!(of(&text, "eviction_kind_total", &kind), Some(2.0), "one went at once\n{text}");
    assert_eq!(of(&text, "eviction_queue_depth", &name), Some(1.0), "the other one has its turn");

    tokio::time::sleep(Duration::from_secs(60)).await;
    let text = plane.metrics();
    assert_eq!(of(&text, "eviction_kind_total", &kind), Some(0.0));
    assert_eq!(of(&text, "eviction_queue_depth", &name), Some(0.0));
    let done = [name[0], ("result", "success")];
    let looks = of(&text, "eviction_processing_total", &done).unwrap();
    assert!(looks >= 3.0, "{looks}");
    assert_eq!(of(&text, "eviction_processing_latency_seconds_count", &name), Some(looks));
    let took = of(&text, "eviction_processing_latency_seconds_sum", &name).unwrap();
    assert!(took < 1.0, "{took}");
    plane.stop().await;
}

#[tokio::test(start_paused = true)]
async fn looking_at_a_cluster_takes_its_time_however_it_is() {
    let controllers = vec!["clusterStatus".to_owned()];
    let plane = bare::Plane::with(bare::Setup { controllers, ..Default::default() }).await;
    let cluster = json!({
        "metadata": {"name": "m1", "finalizers": ["karmada.io/cluster-controller"]},
        "spec": {"syncMode": "Push", "secretRef": {"namespace": "karmada-cluster", "name": "m1"}},
    });
    plane.create("clusters.cluster.karmada.io", "", cluster).await;
    bare::eventually("the failed look is counted", async || {
        let labels = [("member_cluster", "m1")];
        let looks = value(&plane.metrics(), "cluster_sync_status_duration_seconds_count", &labels);
        looks.is_some_and(|looks| looks >= 1.0)
    })
    .await;
    plane.stop().await;
}

/// The type of a metric and the names of its labels, in order.
fn shape(text: &str, metric: &str) -> Option<(String, Vec<String>)> {
    let family = metric.strip_suffix("_total").unwrap_or(metric);
    let kind = text.lines().find_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        (name == family || name == metric).then_some(kind)
    })?;
    let name = if kind == "histogram" { format!("{metric}_count") } else { metric.to_owned() };
    let labels = text.lines().find_map(|line| {
        let row = line.strip_prefix(&name)?;
        match row.strip_prefix('{') {
            Some(labels) => Some(labels.rsplit_once("} ")?.0),
            None => row.starts_with(' ').then_some(""),
        }
    })?;
    let names = labels.split("\",").filter_map(|label| label.split_once("=\""));
    let mut names: Vec<String> = names.map(|(name, _)| name.to_owned()).collect();
    names.sort();
    Some((kind.to_owned(), names))
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_labels_and_types_that_dashboards_know() {
    let mut plane = Plane::start(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    let template = plane.create("configmaps", "ns", config_map("conf", json!({"a": "1"}))).await;
    plane.bind(&template, json!([{"name": "m1"}]), json!({})).await;
    plane.eventually_work("m1", |work| is(work, "Applied", "True")).await;
    plane.settle().await;
    // A new process compares what is there.
    plane.stop_controllers().await;
    plane.start_controllers();
    plane.settle().await;
    let compared = plane.metrics();
    plane.unbind("conf-configmap").await;
    plane.eventually_no_work("m1").await;
    let text = plane.metrics();
    let unchanged = [
        ("result", "success"),
        ("apiversion", "v1"),
        ("kind", "ConfigMap"),
        ("member_cluster", "m1"),
        ("operationResult", "unchanged"),
    ];
    assert!(value(&compared, "update_resource_to_cluster", &unchanged).is_some(), "{compared}");
    let table: &[(&str, &str, &[&str])] = &[
        ("binding_sync_work_duration_seconds", "histogram", &["result"]),
        ("work_sync_workload_duration_seconds", "histogram", &["result"]),
        (
            "update_resource_to_cluster",
            "counter",
            &["apiversion", "kind", "member_cluster", "operationResult", "result"],
        ),
        (
            "delete_resource_from_cluster",
            "counter",
            &["apiversion", "kind", "member_cluster", "result"],
        ),
        ("workqueue_adds_total", "counter", &["name"]),
        ("workqueue_depth", "gauge", &["name"]),
        ("workqueue_retries_total", "counter", &["name"]),
        ("workqueue_queue_duration_seconds", "histogram", &["name"]),
        ("workqueue_work_duration_seconds", "histogram", &["name"]),
        ("workqueue_unfinished_work_seconds", "gauge", &["name"]),
        ("workqueue_longest_running_processor_seconds", "gauge", &["name"]),
        ("controller_runtime_reconcile_total", "counter", &["controller", "result"]),
        ("controller_runtime_reconcile_errors_total", "counter", &["controller"]),
        ("controller_runtime_reconcile_panics_total", "counter", &["controller"]),
        ("controller_runtime_reconcile_time_seconds", "histogram", &["controller"]),
        ("controller_runtime_active_workers", "gauge", &["controller"]),
        ("controller_runtime_max_concurrent_reconciles", "gauge", &["controller"]),
        ("process_cpu_seconds_total", "counter", &[]),
        ("process_resident_memory_bytes", "gauge", &[]),
        ("process_start_time_seconds", "gauge", &[]),
        ("process_open_fds", "gauge", &[]),
    ];
    for (metric, kind, labels) in table {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        assert_eq!(shape(&text, metric), Some(((*kind).to_owned(), labels)), "{metric}\n{text}");
    }
    plane.stop().await;
}

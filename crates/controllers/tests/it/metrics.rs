//! What controllers tell of themselves, by the names dashboards know.

use karmada_apimachinery::json;

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

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use jiff::Timestamp;
use karmada_apimachinery::{Value, json};
use karmada_client::Body;
use karmada_runtime::Metrics;
use parking_lot::Mutex;

use super::*;

fn pod(cluster: &str, name: &str) -> Pod {
    let id = PodId { cluster: cluster.to_owned(), name: name.to_owned() };
    Pod { id, ..Pod::default() }
}

fn pods() -> Vec<Pod> {
    vec![pod("m1", "web-0"), pod("m2", "web-0"), pod("m1", "web-1")]
}

/// A server with fixed answers, and the paths it was asked for.
fn server(answers: Value) -> (Source, Arc<Mutex<Vec<String>>>) {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    let client = Client::in_process(tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().to_string();
        let plain = request.uri().path().to_owned();
        seen.lock().push(path);
        let (code, body) = match answers.get(plain.as_str()) {
            Some(answer) => (200, answer.to_string()),
            None => (
                404,
                json!({"kind": "Status", "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "not served"})
                .to_string(),
            ),
        };
        let response = Response::builder().status(code).body(Body::from(body.into_bytes()));
        async move { Ok::<_, Infallible>(response.unwrap()) }
    }));
    let discovery = Discovery::new(client.clone());
    (Source::new(client, discovery), asked)
}

async fn read(source: &Source, metric: Value) -> Result<Reading, String> {
    let metric: MetricSpec = from_value(metric).unwrap();
    let (selector, pods) = (LabelSelector::parse("app=web").unwrap(), pods());
    let subject = Subject { namespace: "shop", selector: &selector, pods: &pods };
    let numbers = HpaNumbers::new(&Metrics::default());
    source.read(&[metric], &subject, &numbers).await.0.remove(0)
}

fn values(reading: Result<Reading, String>) -> Vec<(String, i64)> {
    let Reading::Pods(samples) = reading.unwrap() else { panic!("one value for all pods") };
    let name = |id: &PodId| format!("{}/{}", id.cluster, id.name);
    samples.iter().map(|(id, sample)| (name(id), sample.value)).collect()
}

fn expected(values: &[(&str, i64)]) -> Vec<(String, i64)> {
    values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

fn measured(cluster: &str, name: &str, containers: Value) -> Value {
    json!({
        "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
        "metadata": {"name": name, "namespace": "shop",
            "annotations": {"resource.karmada.io/query-from-cluster": cluster}},
        "timestamp": "2026-01-01T00:00:00Z", "window": "30s", "containers": containers,
    })
}

#[tokio::test]
async fn what_pods_use_is_read_for_each_cluster() {
    let containers = json!([
        {"name": "app", "usage": {"cpu": "100m", "memory": "1Ki"}},
        {"name": "proxy", "usage": {"cpu": "50m"}},
    ]);
    let only_app = json!([{"name": "app", "usage": {"cpu": "20m"}}]);
    let list = json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
    "metadata": {}, "items": [
        measured("m1", "web-0", containers.clone()),
        measured("m2", "web-0", only_app),
        measured("m3", "web-0", containers.clone()),
        measured("m1", "other", containers),
    ]});
    let path = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods";
    let (source, asked) = server(json!({path: list}));
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let read_cpu = values(read(&source, cpu).await);
    assert_eq!(read_cpu, expected(&[("m1/web-0", 150), ("m2/web-0", 20)]));
    assert_eq!(asked.lock()[..], [format!("{path}?labelSelector=app%3Dweb")]);
    let memory = json!({"type": "Resource", "resource": {"name": "memory", "target": target}});
    assert_eq!(values(read(&source, memory).await), [], "a part of each pod is unknown");
    let proxy = json!({"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "proxy", "target": target}});
    let problem = read(&source, proxy).await.unwrap_err();
    assert!(problem.contains("container proxy of pod web-0 was not measured"), "{problem}");
}

#[tokio::test]
async fn apis_that_nobody_serves_are_told_of() {
    let (source, _) = server(json!({}));
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let problem = read(&source, cpu).await.unwrap_err();
    assert_eq!(problem, "read metrics.k8s.io/v1beta1: not served");
    let hits = json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": target}});
    let problem = read(&source, hits).await.unwrap_err();
    assert_eq!(problem, "read custom.metrics.k8s.io: not served");
}

/// A custom metrics API with one value for each name.
fn custom(path: &str, names: &[(&str, &str)]) -> Value {
    let item = |(name, value): &(&str, &str)| {
        json!({"describedObject": {"kind": "Pod", "name": name}, "metric": {"name": "hits"},
            "timestamp": "2026-01-01T00:00:00Z", "windowSeconds": 10, "value": value})
    };
    let items: Vec<Value> = names.iter().map(item).collect();
    json!({
        "/apis/custom.metrics.k8s.io": {"kind": "APIGroup", "name": "custom.metrics.k8s.io",
            "versions": [{"version": "v1beta1"}]},
        "/api": {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": ""},
            "versions": [{"version": "v1", "resources": [{"resource": "services",
                "responseKind": {"group": "", "version": "v1", "kind": "Service"},
                "scope": "Namespaced", "verbs": ["get"]}]}]}]},
        "/apis": {"kind": "APIGroupDiscoveryList", "items": []},
        path: {"kind": "MetricValueList", "items": items},
    })
}

#[tokio::test]
async fn custom_metrics_are_asked_for_by_their_paths() {
    let base = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop";
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    let path = format!("{base}/pods/%2A/hits");
    let (source, asked) = server(custom(&path, &[("web-0", "3"), ("web-1", "5")]));
    let hits = json!({"type": "Pods", "pods": {"target": target,
        "metric": {"name": "hits", "selector": {"matchLabels": {"verb": "GET"}}}}});
    let read_hits = values(read(&source, hits).await);
    let shared = [("m1/web-0", 1500), ("m1/web-1", 5000), ("m2/web-0", 1500)];
    assert_eq!(read_hits, expected(&shared), "a value without a cluster is that of all together");
    let question = format!("{path}?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET");
    assert_eq!(asked.lock().last(), Some(&question));

    let object = |kind: &str| {
        json!({"type": "Object", "object": {"target": target, "metric": {"name": "hits"},
            "describedObject": {"apiVersion": "v1", "kind": kind, "name": "web"}}})
    };
    let path = format!("{base}/services/web/hits");
    let (source, _) = server(custom(&path, &[("web", "3")]));
    assert_eq!(read(&source, object("Service")).await, Ok(Reading::Value(3000)));
    let problem = read(&source, object("Nothing")).await.unwrap_err();
    assert!(problem.contains("no kind Nothing is served"), "{problem}");
    let path = format!("{base}/metrics/hits");
    let (source, _) = server(custom(&path, &[("shop", "3")]));
    assert_eq!(read(&source, object("Namespace")).await, Ok(Reading::Value(3000)));
}

/// Row 15 of the quirk register: decided for the right arithmetic.
#[test]
fn what_was_measured_belongs_to_the_pod_of_its_own_cluster() {
    let measure = |cluster: &str, name: &str, value: i64| Measured {
        id: PodId { cluster: cluster.to_owned(), name: name.to_owned() },
        sample: Sample { value, at: Timestamp::UNIX_EPOCH, window: Duration::ZERO },
    };
    let told = |measured: Vec<Measured>| values(Ok(Reading::Pods(attribute(measured, &pods()))));
    let apart = told(vec![measure("m1", "web-0", 10), measure("m2", "web-0", 30)]);
    assert_eq!(apart, expected(&[("m1/web-0", 10), ("m2/web-0", 30)]));
    let strangers = told(vec![measure("m3", "web-0", 10), measure("m1", "other", 30)]);
    assert_eq!(strangers, []);
    let together = told(vec![measure("", "web-0", 40), measure("", "web-1", 5)]);
    assert_eq!(together, expected(&[("m1/web-0", 20), ("m1/web-1", 5), ("m2/web-0", 20)]));
    let twice = told(vec![measure("", "web-0", 10), measure("", "web-0", 30)]);
    assert_eq!(twice, expected(&[("m1/web-0", 20), ("m2/web-0", 20)]));
}

//! Limit ranges and quotas bound what a namespace may hold.

use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};

use crate::server::{admin, get, post, server};

const ROOT: &str = "/api/v1/namespaces/default";

async fn create(server: &Server, path: &str, body: Value) -> (u16, Value) {
    post(server, admin(), path, &body.to_string()).await
}

fn pod(name: &str, resources: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "app", "image": "i", "resources": resources}]},
    })
}

// Shows: RQ-1
#[tokio::test(start_paused = true)]
async fn a_limit_range_completes_pods_and_refuses_what_is_out_of_bounds() {
    let server = server(Config::default()).await;
    let range = json!({"metadata": {"name": "lr"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "10m"},
         "default": {"cpu": "500m", "memory": "64Mi"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Pod", "max": {"memory": "1Gi"}},
    ]}});
    assert_eq!(create(&server, &format!("{ROOT}/limitranges"), range).await.0, 201);
    let pods = format!("{ROOT}/pods?dryRun=All");
    let (code, made) = create(&server, &pods, pod("a", json!({}))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({
            "limits": {"cpu": "500m", "memory": "64Mi"},
            "requests": {"cpu": "100m", "memory": "64Mi"},
        })
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu, memory request for container app; \
         cpu, memory limit for container app"
    );
    for (resources, why) in [
        (json!({"limits": {"cpu": "3"}}), "maximum cpu usage per Container is 2, but limit is 3"),
        (
            json!({"requests": {"cpu": "1m"}}),
            "minimum cpu usage per Container is 10m, but request is 1m",
        ),
    ] {
        let (code, status) = create(&server, &pods, pod("b", resources)).await;
        assert_eq!(code, 403);
        assert_eq!(status["message"], format!("pods \"b\" is forbidden: {why}"));
    }
}

// Shows: RQ-1
#[tokio::test(start_paused = true)]
async fn a_quota_counts_and_refuses() {
    let server = server(Config::default()).await;
    let quota = json!({
        "metadata": {"name": "q"},
        "spec": {"hard": {"count/leases.coordination.k8s.io": "1", "pods": "0"}},
    });
    let quotas = format!("{ROOT}/resourcequotas");
    assert_eq!(create(&server, &quotas, quota).await.0, 201);
    let (code, status) = create(&server, &format!("{ROOT}/pods"), pod("x", json!({}))).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
    );
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(create(&server, leases, json!({"metadata": {"name": "a"}})).await.0, 201);
    let (code, status) = create(&server, leases, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "leases.coordination.k8s.io \"b\" is forbidden: exceeded quota: q, requested: \
         count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=1, limited: \
         count/leases.coordination.k8s.io=1"
    );
    assert_eq!(get(&server, admin(), &format!("{leases}/b")).await.status(), 404);
}

//! Namespaces hold their pods to a standard.

use http::Method;
use http_body_util::{BodyExt as _, Full};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};
use tower::Service as _;

use crate::server::{admin, server};

const PODS: &str = "/api/v1/namespaces/strict/pods";

/// The code, the message of a refusal, and the warnings.
async fn told(server: &Server, (method, path): (Method, &str), body: &Value) -> (u16, String) {
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(Full::new(bytes::Bytes::from(body.to_string()))).unwrap();
    let response = server.handle().acting_as(admin()).call(request).await.unwrap();
    let warnings = response.headers().get_all("warning").iter();
    let warnings: Vec<String> =
        warnings.map(|w| w.to_str().unwrap().replace("\\\"", "'")).collect();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    let message = answer["message"].as_str().unwrap_or_default().replace('"', "'");
    (code, message + &warnings.join("\n"))
}

fn namespace(labels: Value) -> Value {
    json!({"metadata": {"name": "strict", "labels": labels}})
}

fn pod(name: &str, host_network: bool) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"hostNetwork": host_network, "containers": [{"name": "app", "image": "i"}]},
    })
}

// Shows: PSA-1
#[tokio::test]
async fn pods_are_held_to_the_standard_of_their_namespace() {
    let server = server(Config::default()).await;
    let ask = async |method, path: &str, body: Value| told(&server, (method, path), &body).await;
    let labels =
        |name: &str, value: &str| json!({format!("pod-security.kubernetes.io/{name}"): value});
    let namespaces = "/api/v1/namespaces";
    let (code, why) = ask(Method::POST, namespaces, namespace(labels("enforce", "soft"))).await;
    assert_eq!(code, 422);
    assert!(why.contains("'soft': must be one of privileged, baseline, restricted"), "{why}");
    assert_eq!(ask(Method::POST, namespaces, namespace(json!({}))).await.0, 201);
    let lax = ask(Method::POST, PODS, pod("early", true)).await;
    assert_eq!(lax, (201, String::new()));

    let stricter = json!({"metadata": {"labels": labels("enforce", "baseline")}});
    let (code, warned) = ask(Method::PATCH, "/api/v1/namespaces/strict", stricter).await;
    assert_eq!(code, 200);
    assert_eq!(
        warned,
        "299 - \"existing pods in namespace 'strict' violate the new PodSecurity enforce level 'baseline:latest'\"\n\
         299 - \"early: host namespaces\""
    );

    let broken = "PodSecurity 'baseline:latest': host namespaces (hostNetwork=true)";
    let refused = ask(Method::POST, PODS, pod("late", true)).await;
    assert_eq!(refused, (403, format!("pods 'late' is forbidden: violates {broken}")));
    assert_eq!(ask(Method::POST, PODS, pod("fine", false)).await, (201, String::new()));

    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let early = format!("{PODS}/early");
    assert_eq!(ask(Method::PATCH, &early, label).await, (200, String::new()));
    let image = json!({"spec": {"containers": [{"name": "app", "image": "j"}]}});
    let (code, why) = ask(Method::PATCH, &early, image).await;
    assert_eq!(
        (code, why.as_str()),
        (403, format!("pods 'early' is forbidden: violates {broken}").as_str())
    );

    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("", true)["spec"]});
    let set = json!({
        "metadata": {"name": "set"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let sets = "/apis/apps/v1/namespaces/strict/replicasets";
    let warned = ask(Method::POST, sets, set).await;
    assert_eq!(warned, (201, format!("299 - \"would violate {broken}\"")));
}

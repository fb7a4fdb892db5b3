//! Admission webhooks: whom the server asks, what it sends, and what it makes of the answers.

use std::sync::Arc;

use base64::Engine;
use http::Method;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use crate::https::Program;
use crate::server::{admin, get, post, send, server};

/// A webhook that answers by a function and remembers what it was asked.
struct Stub {
    program: Program,
    asked: Arc<Mutex<Vec<Value>>>,
}

type Answer = fn(&str, &Value) -> Value;

impl Stub {
    async fn start(answer: Answer) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let program = Program::start(move |path, review| {
            log.lock().push(review["request"].clone());
            let mut response = answer(path, &review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            json!({
                "kind": "AdmissionReview",
                "apiVersion": "admission.k8s.io/v1",
                "response": response,
            })
        })
        .await;
        Self { program, asked }
    }

    fn client(&self, path: &str) -> Value {
        self.program.client(path)
    }
}

fn hook(name: &str, client: Value) -> Value {
    json!({
        "name": name,
        "clientConfig": client,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }],
    })
}

async fn configure(server: &Server, kind: &str, name: &str, hooks: Vec<Value>) {
    let plural = format!("{}s", kind.to_lowercase());
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    let body = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": hooks,
    });
    let (code, answer) = post(server, admin(), &path, &body.to_string()).await;
    assert_eq!(code, 201, "{answer}");
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn patched(patch: Value) -> Value {
    let patch = base64::engine::general_purpose::STANDARD.encode(patch.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

// Shows: WH-1, WH-3, WH-4
#[tokio::test]
async fn mutating_webhooks_run_in_order_and_see_what_came_before() {
    let server = server(Config::default()).await;
    let stub = Stub::start(|path, request| match path {
        "/first" => patched(json!([{"op": "add", "path": "/data", "value": {"first": "1"}}])),
        "/second" if request["object"]["data"]["first"] == "1" => {
            patched(json!([{"op": "add", "path": "/data/second", "value": "2"}]))
        }
        _ => json!({"allowed": true, "warnings": ["not as expected"]}),
    })
    .await;
    let again = {
        let mut again = hook("first.example.com", stub.client("/first"));
        again["reinvocationPolicy"] = "IfNeeded".into();
        again
    };
    let second = hook("second.example.com", stub.client("/second"));
    configure(&server, "MutatingWebhookConfiguration", "order", vec![again, second]).await;
    let (code, object) = post(&server, admin(), MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    assert_eq!(code, 201, "{object}");
    // Asked again because of the second, the first overwrote what that had added.
    assert_eq!(object["data"], json!({"first": "1"}));
    let asked = stub.asked.lock().clone();
    assert_eq!(asked.len(), 3);
    let first = &asked[0];
    assert_eq!(first["operation"], "CREATE");
    assert_eq!(first["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(first["namespace"], "default");
    assert_eq!(first["name"], "a");
    assert_eq!(first["userInfo"]["username"], "admin");
    assert_eq!(first["oldObject"], Value::Null);
    assert_eq!(first["options"]["kind"], "CreateOptions");
    assert_eq!(first["dryRun"], false);
}

// Shows: WH-1, WH-5
#[tokio::test]
async fn a_denial_is_passed_on_in_the_webhooks_own_words() {
    let server = server(Config::default()).await;
    let stub = Stub::start(|_, request| match request["operation"].as_str() {
        Some("DELETE") => json!({"allowed": false}),
        _ => json!({"allowed": false, "status": {"message": "no", "code": 409, "reason": "Conflict"}}),
    })
    .await;
    let (code, _) = post(&server, admin(), MAPS, r#"{"metadata":{"name":"old"}}"#).await;
    assert_eq!(code, 201);
    let hook = hook("strict.example.com", stub.client("/"));
    configure(&server, "ValidatingWebhookConfiguration", "strict", vec![hook]).await;
    let (code, status) = post(&server, admin(), MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    assert_eq!(code, 409);
    assert_eq!(
        status["message"],
        "admission webhook \"strict.example.com\" denied the request: no"
    );
    assert_eq!(status["reason"], "Conflict");
    let path = format!("{MAPS}/old");
    let (code, status) = send(&server, admin(), (Method::DELETE, &path), "").await;
    assert_eq!(code, 400);
    assert_eq!(
        status["message"],
        "admission webhook \"strict.example.com\" denied the request without explanation"
    );
    assert_eq!(get(&server, admin(), &path).await.status(), 200);
}

// Shows: WH-5
#[tokio::test]
async fn an_unreachable_webhook_fails_the_write_unless_that_is_ignored() {
    let server = server(Config::default()).await;
    let mut refused = hook("gone.example.com", json!({"url": "https://127.0.0.1:1/"}));
    configure(&server, "ValidatingWebhookConfiguration", "gone", vec![refused.clone()]).await;
    let (code, status) = post(&server, admin(), MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "Internal error occurred: failed calling webhook \"gone.example.com\": failed to call webhook: \
         Post \"https://127.0.0.1:1/?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/gone";
    assert_eq!(send(&server, admin(), (Method::DELETE, path), "").await.0, 200);
    refused["failurePolicy"] = "Ignore".into();
    configure(&server, "ValidatingWebhookConfiguration", "lax", vec![refused]).await;
    assert_eq!(post(&server, admin(), MAPS, r#"{"metadata":{"name":"a"}}"#).await.0, 201);
}

// Shows: WH-2, WH-6, VAP-2, WR-4
#[tokio::test]
async fn only_requests_a_webhook_asks_for_reach_it() {
    let server = server(Config::default()).await;
    let stub = Stub::start(|_, _| json!({"allowed": false})).await;
    let mut picky = hook("picky.example.com", stub.client("/"));
    picky["objectSelector"] = json!({"matchLabels": {"judge": "me"}});
    picky["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    picky["matchConditions"] =
        json!([{"name": "x", "expression": "object.metadata.name != 'skip'"}]);
    picky["sideEffects"] = "NoneOnDryRun".into();
    let mut all = picky.clone();
    all["name"] = "all.example.com".into();
    all["rules"][0]["apiGroups"] = json!(["*"]);
    all["rules"][0]["resources"] = json!(["*/*"]);
    configure(&server, "ValidatingWebhookConfiguration", "picky", vec![picky]).await;
    let map = |name: &str, labels: Value| {
        json!({"metadata": {"name": name, "labels": labels}}).to_string()
    };
    let judged = json!({"judge": "me"});
    for (path, body, code) in [
        (MAPS, map("a", json!({})), 201),
        (MAPS, map("b", judged.clone()), 400),
        (MAPS, map("skip", judged.clone()), 201),
        ("/api/v1/namespaces/kube-system/configmaps", map("b", judged.clone()), 201),
        ("/api/v1/namespaces/default/secrets", map("b", judged.clone()), 201),
    ] {
        let (found, answer) = post(&server, admin(), path, &body).await;
        assert_eq!(found, code, "{path} {body} {answer}");
    }
    assert_eq!(stub.asked.lock().len(), 1);
    // Configurations themselves are never judged by webhooks.
    configure(&server, "ValidatingWebhookConfiguration", "all", vec![all]).await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all";
    let relabelled = r#"{"metadata":{"labels":{"judge":"me"}}}"#;
    assert_eq!(send(&server, admin(), (Method::PATCH, path), relabelled).await.0, 200);
    assert_eq!(stub.asked.lock().len(), 1);
}

// Shows: OPS-2
#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_given_up() {
    let limit = std::time::Duration::from_secs(8);
    let server = server(Config { request_timeout: limit, ..Config::default() }).await;
    // Connections are accepted by the system and never answered.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
    let silent = hook("silent.example.com", json!({"url": url}));
    configure(&server, "ValidatingWebhookConfiguration", "silent", vec![silent]).await;
    let (code, status) = post(&server, admin(), MAPS, r#"{"metadata":{"name":"a"}}"#).await;
    assert_eq!(code, 504, "{status}");
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(get(&server, admin(), &format!("{MAPS}/a")).await.status(), 404);
}

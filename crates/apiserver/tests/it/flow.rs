//! Bookmarks, concurrency caps and the way a server stops.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::{Config, Server};
use karmada_store::Memory;
use tower::Service;

use crate::server::{admin, builder, get, post, server};

// Shows: WATCH-6
#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_told_the_revision_every_minute() {
    let server = server(Config::default()).await;
    let path = "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=0&timeoutSeconds=600&labelSelector=none%3Dmatch";
    let mut response = get(&server, admin(), path).await;
    let mut kinds = Vec::new();
    while kinds.len() < 3 {
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        let Ok(data) = frame.into_data() else { continue };
        for line in data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            assert!(event["object"]["metadata"]["resourceVersion"].is_string(), "{event}");
            kinds.push(event["type"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(kinds, ["BOOKMARK"; 3]);
}

// Shows: OPS-3
#[tokio::test(start_paused = true)]
async fn a_full_server_turns_users_away_and_keeps_serving_operators() {
    let server = server(Config { max_in_flight: (0, 0), ..Config::default() }).await;
    let account = || Identity::new("system:kube-controller-manager", ["system:authenticated"]);
    let refused = get(&server, account(), "/api/v1/namespaces").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(get(&server, admin(), "/api/v1/namespaces").await.status(), 200);
    assert_eq!(get(&server, account(), "/readyz").await.status(), 200);
    let watch = get(&server, account(), "/api/v1/namespaces?watch=true").await;
    assert_eq!(watch.status(), 200);
}

// Shows: OPS-4, HLT-1
#[tokio::test(start_paused = true)]
async fn a_stopping_server_is_not_ready_and_ends_its_watches() {
    let server = server(Config::default()).await;
    let mut watch = get(&server, admin(), "/api/v1/configmaps?watch=true&resourceVersion=0").await;
    assert_eq!(get(&server, admin(), "/readyz").await.status(), 200);
    server.stop();
    assert_eq!(get(&server, admin(), "/readyz").await.status(), 500);
    while let Some(frame) = watch.body_mut().frame().await {
        frame.unwrap();
    }
}

// Shows: OPS-5, APF-1
#[tokio::test(start_paused = true)]
async fn places_are_given_before_permissions_are_looked_up() {
    let server = server(Config { max_in_flight: (0, 0), ..Config::default() }).await;
    let stranger = Identity::new("stranger", ["system:authenticated"]);
    assert_eq!(get(&server, stranger, "/api/v1/secrets").await.status(), 429);
    let path = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/workload-low";
    assert_eq!(get(&server, admin(), path).await.status(), 200);
}

/// Asks as somebody, with a header.
async fn ask(server: &Server, user: Option<Identity>, path: &str, header: (&str, &str)) -> u16 {
    let request = Request::get(path).header(header.0, header.1);
    let request = request.body(Full::new(Bytes::new())).unwrap();
    match user {
        Some(user) => server.handle().acting_as(user).call(request).await.unwrap().status(),
        None => {
            let request = request.map(|body| {
                body.map_err(|never: std::convert::Infallible| match never {}).boxed_unsync()
            });
            server.handle().answer(request).await.status()
        }
    }
    .as_u16()
}

/// Each refusal hides those that would come behind it.
// Shows: OPS-5
#[tokio::test(start_paused = true)]
async fn filters_come_in_the_order_of_kubernetes() {
    let full = server(Config { max_in_flight: (0, 0), ..Config::default() }).await;
    let stranger = || Some(Identity::new("stranger", ["system:authenticated"]));
    let (missing, as_root) =
        ("/apis/apps/v1/namespaces/x/deployments/y", ("impersonate-user", "root"));
    let nothing = ("x-nothing", "");
    // Who are you: before all else.
    assert_eq!(ask(&full, None, missing, ("authorization", "Bearer nonsense")).await, 401);
    // May you be somebody else: before a place is given.
    assert_eq!(ask(&full, stranger(), missing, as_root).await, 403);
    // Is there a place: before permissions.
    assert_eq!(ask(&full, stranger(), missing, nothing).await, 429);
    // May you: before it is looked whether there is anything.
    let free = server(Config::default()).await;
    assert_eq!(ask(&free, stranger(), missing, nothing).await, 403);
    assert_eq!(ask(&free, Some(admin()), missing, nothing).await, 404);
}

async fn dangling(server: &Server, name: &str) -> Value {
    let path = format!("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{name}");
    loop {
        let found = get(server, admin(), &path).await.into_body().collect().await.unwrap();
        let found: Value = serde_json::from_slice(&found.to_bytes()).unwrap();
        let condition = found["status"]["conditions"][0].clone();
        if condition.is_object() {
            return condition;
        }
        tokio::task::yield_now().await;
    }
}

// Shows: APF-1
#[tokio::test(start_paused = true)]
async fn flow_schemas_say_whether_their_level_exists() {
    let store = Arc::new(Memory::new());
    let first = builder(Config::default(), store.clone()).start().await.unwrap();
    let schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let schema = json!({
        "metadata": {"name": "lost"}, "spec": {"priorityLevelConfiguration": {"name": "nowhere"}},
    });
    let (code, answer) = post(&first, admin(), schemas, &schema.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(dangling(&first, "lost").await["status"], "True");
    for name in ["exempt", "probes", "global-default", "catch-all"] {
        assert_eq!(dangling(&first, name).await["reason"], "Found");
    }
    first.stop();
    // A restart finds everything said already.
    let before = karmada_store::Store::revision(&*store);
    let second = builder(Config::default(), store.clone()).start().await.unwrap();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(dangling(&second, "lost").await["reason"], "NotFound");
    assert_eq!(karmada_store::Store::revision(&*store), before);
}

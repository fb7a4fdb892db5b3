//! Bookmarks, concurrency caps and the way a server stops.

use http_body_util::BodyExt;
use karmada_apimachinery::Value;
use karmada_apiserver::Config;
use karmada_apiserver::auth::Identity;

use crate::server::{admin, get, server};

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

//! What clients find after a restart.

use std::sync::Arc;

use http_body_util::BodyExt;
use karmada_apimachinery::Value;
use karmada_apiserver::Config;
use karmada_store::Memory;

use crate::server::{admin, builder, get, post};

// Shows: WATCH-2, META-3
#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_after_a_restart() {
    let store = Arc::new(Memory::new());
    let before = builder(Config::default(), store.clone()).start().await.unwrap();
    let path = "/api/v1/namespaces/default/configmaps";
    let (_, first) = post(&before, admin(), path, r#"{"metadata":{"name":"a"}}"#).await;
    let (_, second) = post(&before, admin(), path, r#"{"metadata":{"name":"b"}}"#).await;
    before.stop();
    let after = builder(Config::default(), store).start().await.unwrap();
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=5");
    let mut response = get(&after, admin(), &watch).await;
    let event: Value = loop {
        let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        if !frame.is_empty() {
            break serde_json::from_slice(&frame).unwrap();
        }
    };
    assert_eq!(event["type"], "ADDED", "{event}");
    assert_eq!(event["object"]["metadata"]["uid"], second["metadata"]["uid"]);
}

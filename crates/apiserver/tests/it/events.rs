//! Events end after their time.

use std::sync::Arc;
use std::time::Duration;

use karmada_apiserver::Config;
use karmada_store::Memory;

use crate::server::{admin, builder, get, post};

const EVENT: &str = r#"{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"},"reason":"r","message":"m","type":"Normal"}"#;

// Shows: KIND-2
#[tokio::test(start_paused = true)]
async fn events_end_after_their_time() {
    let begin = tokio::time::Instant::now();
    let epoch: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(move || epoch + begin.elapsed());
    let config = Config { event_ttl: Duration::from_secs(600), ..Config::default() };
    let server = builder(config, Arc::new(Memory::new())).clock(clock).start().await.unwrap();
    let path = "/api/v1/namespaces/default/events";
    assert_eq!(post(&server, admin(), path, EVENT).await.0, 201);
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(get(&server, admin(), &format!("{path}/e")).await.status(), 200);
    tokio::time::sleep(Duration::from_secs(200)).await;
    assert_eq!(get(&server, admin(), &format!("{path}/e")).await.status(), 404);
}

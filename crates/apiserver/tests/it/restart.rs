//! What clients find after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use http_body_util::BodyExt;
use karmada_apimachinery::Value;
use karmada_apiserver::Config;
use karmada_store::{Event, Expect, KeyValue, Memory, RangeQuery, RangeResult, Store, WatchStream};

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

/// A store that is away for a moment now and then.
struct Hiccups {
    store: Memory,
    calls: AtomicUsize,
}

impl Hiccups {
    fn away(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % 7 == 3
    }
}

fn unavailable<T: Send + 'static>() -> BoxFuture<'static, karmada_store::Result<T>> {
    Box::pin(async { Err(karmada_store::Error::Unavailable { reason: "a hiccup".to_owned() }) })
}

impl Store for Hiccups {
    fn revision(&self) -> i64 {
        self.store.revision()
    }

    fn compacted_revision(&self) -> i64 {
        self.store.compacted_revision()
    }

    fn get<'a>(
        &'a self,
        key: &'a str,
        at: Option<i64>,
    ) -> BoxFuture<'a, karmada_store::Result<Option<KeyValue>>> {
        if self.away() { unavailable() } else { self.store.get(key, at) }
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, karmada_store::Result<RangeResult>> {
        if self.away() { unavailable() } else { self.store.range(query) }
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: karmada_store::Packed,
        expect: Expect,
    ) -> BoxFuture<'a, karmada_store::Result<KeyValue>> {
        if self.away() { unavailable() } else { self.store.put(key, value, expect) }
    }

    fn delete<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
    ) -> BoxFuture<'a, karmada_store::Result<Arc<Event>>> {
        if self.away() { unavailable() } else { self.store.delete(key, expect) }
    }

    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, karmada_store::Result<WatchStream>> {
        self.store.watch(prefix, after)
    }

    fn request_progress(&self) {
        self.store.request_progress();
    }

    fn compact(&self, revision: i64) -> BoxFuture<'_, karmada_store::Result<()>> {
        self.store.compact(revision)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_moment_does_not_end_the_start() {
    let store = Arc::new(Hiccups { store: Memory::new(), calls: AtomicUsize::new(0) });
    let server = builder(Config::default(), store.clone()).start().await.unwrap();
    assert!(store.calls.load(Ordering::Relaxed) > 100);
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node";
    for path in [roles, "/readyz"] {
        // The store may be away at this very moment, but not twice.
        let first = get(&server, admin(), path).await.status();
        let second = get(&server, admin(), path).await.status();
        assert!(first == 200 || second == 200, "{path}: {first}, then {second}");
    }
}

//! A store whose disk takes seconds or minutes for one write: requests wait for it or say that they did not finish, reads
//! go on, and nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use karmada_apiserver::Config;
use karmada_store::{
    Event, Expect, KeyValue, Memory, RangeQuery, RangeResult, Result, Store, WatchStream,
};
use tokio::time::Instant;

use crate::server::{admin, builder, get, post};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Takes its time for every write. Like a disk it goes on when nobody waits any more.
struct Slow {
    store: Arc<Memory>,
    seconds: AtomicU64,
}

impl Slow {
    /// Waits for a write that nothing stops.
    fn begun<T: Send + 'static>(
        &self,
        write: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let delay = Duration::from_secs(self.seconds.load(Ordering::Relaxed));
        let task = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            write.await
        });
        Box::pin(async move { task.await.expect("the write ends") })
    }
}

impl Store for Slow {
    fn revision(&self) -> i64 {
        self.store.revision()
    }

    fn compacted_revision(&self) -> i64 {
        self.store.compacted_revision()
    }

    fn get<'a>(&'a self, key: &'a str, at: Option<i64>) -> BoxFuture<'a, Result<Option<KeyValue>>> {
        self.store.get(key, at)
    }

    fn range(&self, query: RangeQuery) -> BoxFuture<'_, Result<RangeResult>> {
        self.store.range(query)
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: karmada_store::Packed,
        expect: Expect,
    ) -> BoxFuture<'a, Result<KeyValue>> {
        let (store, key) = (self.store.clone(), key.to_owned());
        self.begun(async move { store.put(&key, value, expect).await })
    }

    fn delete<'a>(&'a self, key: &'a str, expect: Expect) -> BoxFuture<'a, Result<Arc<Event>>> {
        let (store, key) = (self.store.clone(), key.to_owned());
        self.begun(async move { store.delete(&key, expect).await })
    }

    fn watch(&self, prefix: &str, after: i64) -> BoxFuture<'_, Result<WatchStream>> {
        self.store.watch(prefix, after)
    }

    fn request_progress(&self) {
        self.store.request_progress();
    }

    fn compact(&self, revision: i64) -> BoxFuture<'_, Result<()>> {
        self.store.compact(revision)
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_makes_writers_wait_and_loses_nothing() {
    let store = Arc::new(Slow { store: Arc::new(Memory::new()), seconds: AtomicU64::new(0) });
    let config = Config { request_timeout: Duration::from_secs(60), ..Config::default() };
    let server = builder(config, store.clone()).start().await.unwrap();
    // Seconds are waited for.
    store.seconds.store(7, Ordering::Relaxed);
    let began = Instant::now();
    let (code, made) = post(&server, admin(), MAPS, r#"{"metadata":{"name":"late"}}"#).await;
    assert_eq!(code, 201, "{made}");
    assert!(began.elapsed() >= Duration::from_secs(7));
    assert_eq!(get(&server, admin(), &format!("{MAPS}/late")).await.status(), 200);
    // Minutes are not: whoever asked is told, and others are served all the while.
    store.seconds.store(90, Ordering::Relaxed);
    let began = Instant::now();
    let writing = post(&server, admin(), MAPS, r#"{"metadata":{"name":"later"}}"#);
    let reading = async {
        let status = get(&server, admin(), &format!("{MAPS}/late")).await.status();
        (status, began.elapsed())
    };
    let ((code, refused), (status, waited)) = tokio::join!(writing, reading);
    assert_eq!((code, status.as_u16()), (504, 200), "{refused}");
    assert!(waited < Duration::from_secs(1), "a read waited for {waited:?}");
    let message = "Timeout: request did not complete within the allotted timeout";
    assert_eq!(refused["message"], message, "{refused}");
    // What was on its way arrives, and is there once.
    tokio::time::sleep(Duration::from_secs(60)).await;
    store.seconds.store(0, Ordering::Relaxed);
    assert_eq!(get(&server, admin(), &format!("{MAPS}/later")).await.status(), 200);
    let (code, again) = post(&server, admin(), MAPS, r#"{"metadata":{"name":"later"}}"#).await;
    assert_eq!(code, 409, "{again}");
}

//! One suite for all backends: each promise is a function of a store, and the macro at the end
//! runs every promise against every backend.

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use karmada_store::{
    Embedded, Error, Event, EventKind, Expect, FIRST_REVISION, KeyValue, Memory, RangeQuery, Store,
    Update, WatchStream,
};

async fn put(store: &dyn Store, key: &str, value: &str) -> KeyValue {
    store.put(key, value.to_owned().into(), Expect::Any).await.unwrap()
}

async fn delete(store: &dyn Store, key: &str) -> Arc<Event> {
    store.delete(key, Expect::Any).await.unwrap()
}

async fn next_event(stream: &mut WatchStream) -> Arc<Event> {
    match stream.next().await.unwrap().unwrap() {
        Update::Event(event) => event,
        Update::Progress(revision) => panic!("progress {revision} instead of an event"),
    }
}

fn text(kv: &KeyValue) -> String {
    format!("{}={}", kv.key, String::from_utf8_lossy(&kv.value.to_bytes()))
}

async fn list(store: &dyn Store, query: RangeQuery) -> Vec<String> {
    store.range(query).await.unwrap().items.iter().map(text).collect()
}

async fn every_write_takes_the_next_revision(store: Arc<dyn Store>) {
    assert_eq!(store.revision(), FIRST_REVISION);
    let first = put(&*store, "/a", "1").await;
    assert_eq!((first.create_revision, first.mod_revision, first.version), (2, 2, 1));
    let second = put(&*store, "/a", "2").await;
    assert_eq!((second.create_revision, second.mod_revision, second.version), (2, 3, 2));
    let deleted = delete(&*store, "/a").await;
    assert_eq!((deleted.kind, deleted.revision()), (EventKind::Delete, 4));
    assert_eq!(deleted.prev.as_ref(), Some(&second));
    let again = put(&*store, "/a", "3").await;
    assert_eq!((again.create_revision, again.mod_revision, again.version), (5, 5, 1));
    assert_eq!(store.revision(), 5);
}

async fn a_write_goes_through_only_if_what_it_expects_is_so(store: Arc<dyn Store>) {
    let attempt = async |key: &str, expect| store.put(key, "x".into(), expect).await;
    let stored = attempt("/a", Expect::Absent).await.unwrap();
    for expect in [Expect::Absent, Expect::ModRevision(1), Expect::ModRevision(99)] {
        let refused = attempt("/a", expect).await.unwrap_err();
        let Error::Conflict { current } = refused else { panic!("{refused:?}") };
        assert_eq!(current.as_deref(), Some(&stored), "{expect:?}");
        assert!(store.delete("/a", expect).await.unwrap_err().is_conflict(), "{expect:?}");
    }
    let refused = attempt("/b", Expect::ModRevision(2)).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { current: None }));
    let refused = store.delete("/b", Expect::Any).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { current: None }));
    assert_eq!(store.revision(), stored.mod_revision, "a refused write takes no revision");
    let replaced = attempt("/a", Expect::ModRevision(stored.mod_revision)).await.unwrap();
    assert_eq!(replaced.version, 2);
    store.delete("/a", Expect::ModRevision(replaced.mod_revision)).await.unwrap();
    assert_eq!(store.get("/a", None).await.unwrap(), None);
}

async fn ranges_are_ordered_and_paged(store: Arc<dyn Store>) {
    for key in ["/p/c", "/p/a", "/q/x", "/p/b", "/p", "/p/aa"] {
        put(&*store, key, "1").await;
    }
    assert_eq!(
        list(&*store, RangeQuery::prefix("/p/")).await,
        ["/p/a=1", "/p/aa=1", "/p/b=1", "/p/c=1"]
    );
    assert_eq!(store.range(RangeQuery::prefix("")).await.unwrap().count, 6);
    assert_eq!(store.range(RangeQuery::prefix("/r")).await.unwrap().count, 0);
    let page = store.range(RangeQuery::prefix("/p/").limit(2)).await.unwrap();
    assert_eq!((page.items.len(), page.more, page.count), (2, true, 4));
    put(&*store, "/p/ab", "later").await;
    let rest = RangeQuery::prefix("/p/").after("/p/aa").at(page.revision);
    let rest = store.range(rest).await.unwrap();
    assert_eq!(rest.items.iter().map(text).collect::<Vec<_>>(), ["/p/b=1", "/p/c=1"]);
    assert_eq!((rest.more, rest.count, rest.revision), (false, 2, page.revision));
    let upside_down = RangeQuery { end: Some("/a".into()), ..RangeQuery::prefix("/p") };
    assert_eq!(store.range(upside_down).await.unwrap().count, 0);
}

async fn the_past_can_be_read(store: Arc<dyn Store>) {
    put(&*store, "/a", "1").await;
    put(&*store, "/b", "1").await;
    put(&*store, "/a", "2").await;
    delete(&*store, "/b").await;
    put(&*store, "/b", "3").await;
    let expected: [&[&str]; 6] =
        [&[], &["/a=1"], &["/a=1", "/b=1"], &["/a=2", "/b=1"], &["/a=2"], &["/a=2", "/b=3"]];
    for (revision, expected) in (FIRST_REVISION..).zip(expected) {
        let query = RangeQuery::prefix("/").at(revision);
        assert_eq!(list(&*store, query).await, expected, "at {revision}");
    }
    let ahead = store.get("/a", Some(7)).await.unwrap_err();
    assert!(matches!(ahead, Error::FutureRevision { requested: 7, current: 6 }), "{ahead:?}");
}

async fn a_watch_delivers_history_then_changes_in_order(store: Arc<dyn Store>) {
    put(&*store, "/a/1", "1").await;
    put(&*store, "/b/1", "1").await;
    put(&*store, "/a/1", "2").await;
    let mut from_start = store.watch("/a/", FIRST_REVISION).await.unwrap();
    let mut from_now = store.watch("/a/", store.revision()).await.unwrap();
    delete(&*store, "/a/1").await;
    put(&*store, "/b/1", "2").await;
    put(&*store, "/a/2", "1").await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let event = next_event(&mut from_start).await;
        let prev = event.prev.as_ref().map(|kv| kv.mod_revision);
        seen.push((event.revision(), event.kind, prev));
    }
    let (put, gone) = (EventKind::Put, EventKind::Delete);
    assert_eq!(seen, [(2, put, None), (4, put, Some(2)), (5, gone, Some(4)), (7, put, None)]);
    assert_eq!(next_event(&mut from_now).await.revision(), 5);
    assert_eq!(next_event(&mut from_now).await.revision(), 7);
    assert!(from_now.next().now_or_never().is_none());
}

async fn a_watch_from_the_future_waits_for_it(store: Arc<dyn Store>) {
    let mut stream = store.watch("/", 3).await.unwrap();
    for value in ["1", "2", "3"] {
        put(&*store, "/a", value).await;
    }
    assert_eq!(next_event(&mut stream).await.revision(), 4);
}

async fn a_watch_wakes_whoever_waits_for_it(store: Arc<dyn Store>) {
    let mut stream = store.watch("/a", store.revision()).await.unwrap();
    let waiting = tokio::spawn(async move { next_event(&mut stream).await.revision() });
    tokio::task::yield_now().await;
    put(&*store, "/b", "1").await;
    put(&*store, "/a", "1").await;
    assert_eq!(waiting.await.unwrap(), 3);
}

async fn progress_is_reported_behind_the_events(store: Arc<dyn Store>) {
    let mut idle = store.watch("/idle/", store.revision()).await.unwrap();
    let mut busy = store.watch("/busy/", store.revision()).await.unwrap();
    put(&*store, "/busy/1", "1").await;
    store.request_progress();
    assert_eq!(idle.next().await.unwrap().unwrap(), Update::Progress(2));
    assert_eq!(next_event(&mut busy).await.revision(), 2);
    assert_eq!(busy.next().await.unwrap().unwrap(), Update::Progress(2));
    assert!(busy.next().now_or_never().is_none(), "one request, one answer");
}

async fn compaction_takes_the_history_and_leaves_the_state(store: Arc<dyn Store>) {
    for key in ["/a", "/b", "/c"] {
        put(&*store, key, "1").await;
    }
    put(&*store, "/a", "2").await;
    delete(&*store, "/b").await;
    put(&*store, "/b", "2").await;
    delete(&*store, "/c").await;
    let mut behind = store.watch("/", 4).await.unwrap();
    let mut current = store.watch("/", 8).await.unwrap();
    store.compact(6).await.unwrap();
    assert_eq!(store.compacted_revision(), 6);
    assert_eq!(list(&*store, RangeQuery::prefix("/").at(6)).await, ["/a=2", "/c=1"]);
    assert_eq!(list(&*store, RangeQuery::prefix("/")).await, ["/a=2", "/b=2"]);
    let gone = store.range(RangeQuery::prefix("/").at(5)).await.unwrap_err();
    assert!(matches!(gone, Error::Compacted { requested: 5, compacted: 6 }), "{gone:?}");
    assert!(store.get("/a", Some(2)).await.unwrap_err().is_compacted());
    assert!(store.watch("/", 5).await.err().unwrap().is_compacted());
    overtaken_or_told_everything(&mut behind, 5..=8).await;
    let mut resumed = store.watch("/", 6).await.unwrap();
    assert_eq!(next_event(&mut resumed).await.revision(), 7);
    store.compact(3).await.unwrap();
    assert_eq!(store.compacted_revision(), 6, "compaction never goes back");
    store.compact(i64::MAX).await.unwrap();
    assert_eq!(store.compacted_revision(), store.revision());
    put(&*store, "/d", "1").await;
    assert_eq!(next_event(&mut current).await.revision(), 9, "an idle watch outlives compaction");
}

/// A watch that compaction meets on its way has been sent everything, or says that it has not.
async fn overtaken_or_told_everything(stream: &mut WatchStream, wanted: RangeInclusive<i64>) {
    for revision in wanted {
        match stream.next().await.unwrap() {
            Ok(update) => {
                let Update::Event(event) = update else { panic!("{update:?}") };
                assert_eq!(event.revision(), revision);
            }
            Err(error) => {
                assert!(error.is_compacted(), "{error}");
                assert!(stream.next().await.is_none(), "a watch ends after its error");
                return;
            }
        }
    }
}

async fn an_idle_watch_is_not_overtaken_by_writes_elsewhere(store: Arc<dyn Store>) {
    let mut stream = store.watch("/idle/", store.revision()).await.unwrap();
    for number in 0..5_000 {
        put(&*store, "/busy", &number.to_string()).await;
    }
    store.compact(store.revision()).await.unwrap();
    let written = put(&*store, "/idle/1", "1").await;
    assert_eq!(next_event(&mut stream).await.revision(), written.mod_revision);
}

async fn the_newest_revision_is_known_without_reading(store: Arc<dyn Store>) {
    assert_eq!(store.current().await.unwrap(), FIRST_REVISION);
    put(&*store, "/a", "1").await;
    let asked = futures::future::join_all((0..50).map(|_| store.current())).await;
    assert!(asked.into_iter().all(|revision| revision.unwrap() == 2));
}

async fn large_ranges_and_values_are_read_whole(store: Arc<dyn Store>) {
    let value = "x".repeat(700_000);
    put(&*store, "/large", &value).await;
    let writes = (0..2_500).map(|number| {
        let store = store.clone();
        async move { put(&*store, &format!("/many/{number:04}"), "1").await }
    });
    let written = futures::stream::iter(writes).buffer_unordered(64).count().await;
    assert_eq!(store.get("/large", None).await.unwrap().unwrap().value, &*value);
    let all = store.range(RangeQuery::prefix("/many/")).await.unwrap();
    assert_eq!((all.items.len(), all.more, all.count), (written, false, written));
    assert!(all.items.is_sorted_by(|a, b| a.key < b.key));
    let most = store.range(RangeQuery::prefix("/many/").limit(2_400)).await.unwrap();
    assert_eq!((most.items.len(), most.more, most.count), (2_400, true, written));
}

async fn concurrent_writers_agree_on_one_order(store: Arc<dyn Store>) {
    let mut stream = store.watch("/", store.revision()).await.unwrap();
    let writers = (0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut won = 0;
            for _ in 0..50 {
                // All race for one counter; who loses reads again.
                let current = store.get("/counter", None).await.unwrap();
                let expect = current
                    .as_ref()
                    .map_or(Expect::Absent, |kv| Expect::ModRevision(kv.mod_revision));
                let value = writer.to_string().into();
                won += i64::from(store.put("/counter", value, expect).await.is_ok());
            }
            won
        })
    });
    let won: i64 = futures::future::join_all(writers).await.into_iter().map(Result::unwrap).sum();
    let counter = store.get("/counter", None).await.unwrap().unwrap();
    assert_eq!(counter.version, won, "every success was one version");
    for revision in 2..=store.revision() {
        assert_eq!(next_event(&mut stream).await.revision(), revision);
    }
}

macro_rules! promises {
    ($($promise:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(std::sync::Arc::new(super::Memory::new())).await;
            })*
        }
        mod embedded {
            $(#[tokio::test]
            async fn $promise() {
                let dir = tempfile::tempdir().unwrap();
                let store = super::Embedded::open(dir.path()).unwrap();
                super::$promise(std::sync::Arc::new(store)).await;
            })*
        }
        mod etcd {
            $(#[tokio::test]
            async fn $promise() {
                let Some(servers) = crate::servers::Servers::start(1) else { return };
                let store = servers.store("/conformance").await;
                super::$promise(std::sync::Arc::new(store)).await;
            })*
        }
    };
}

promises![
    every_write_takes_the_next_revision,
    a_write_goes_through_only_if_what_it_expects_is_so,
    ranges_are_ordered_and_paged,
    the_past_can_be_read,
    a_watch_delivers_history_then_changes_in_order,
    a_watch_from_the_future_waits_for_it,
    a_watch_wakes_whoever_waits_for_it,
    progress_is_reported_behind_the_events,
    compaction_takes_the_history_and_leaves_the_state,
    an_idle_watch_is_not_overtaken_by_writes_elsewhere,
    the_newest_revision_is_known_without_reading,
    large_ranges_and_values_are_read_whole,
    concurrent_writers_agree_on_one_order,
];

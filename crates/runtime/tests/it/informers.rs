//! A cache equals the server, whatever happens on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_runtime::{Change, Informer, Informers, ObjectKey, Shutdown, Subscription};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::fake_server::FakeServer;

fn things() -> Gvr {
    Gvr::new("", "v1", "things")
}

/// Long enough for every pause between attempts to be over.
const PATIENCE: Duration = Duration::from_secs(600);

fn cached(informer: &Informer) -> Vec<Value> {
    informer.cache().list().iter().map(|object| object.value()).collect()
}

/// What somebody knows who listens to the changes only.
type Replayed = Arc<Mutex<BTreeMap<ObjectKey, Value>>>;

fn replay(informer: &Arc<Informer>) -> (Replayed, Subscription) {
    let known = Replayed::default();
    let own = known.clone();
    let subscription = informer.subscribe(move |change| {
        let key = ObjectKey::of(change.object());
        let mut known = own.lock();
        match change {
            Change::Applied { old, new } => {
                let before = known.insert(key, new.value());
                if let Some(old) = old {
                    assert_eq!(before, Some(old.value()), "the old state was told before");
                }
            }
            Change::Deleted(_) => assert!(known.remove(&key).is_some(), "deleted twice"),
        }
    });
    (known, subscription)
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    Delete(u8),
    Cut { broken: bool },
    Expire,
    Forget,
    Refuse(u8),
    Bookmark,
    Wait(u16),
    Subscribe,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6u8).prop_map(Step::Put),
        3 => (0..6u8).prop_map(Step::Delete),
        2 => any::<bool>().prop_map(|broken| Step::Cut { broken }),
        1 => Just(Step::Expire),
        1 => Just(Step::Forget),
        1 => (1..4u8).prop_map(Step::Refuse),
        1 => Just(Step::Bookmark),
        4 => (0..3000u16).prop_map(Step::Wait),
        1 => Just(Step::Subscribe),
    ]
}

async fn run(server: FakeServer, steps: Vec<Step>) {
    let shutdown = Shutdown::new();
    let informers = Informers::new(server.client(), shutdown.clone());
    let informer = informers.all(&things());
    let mut listeners = vec![replay(&informer)];
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Put(name) => server.put(&format!("n{name}"), number as u64),
            Step::Delete(name) => server.delete(&format!("n{name}")),
            Step::Cut { broken } => server.cut_watches(broken),
            Step::Expire => server.expire_watches(),
            Step::Forget => server.forget_history(),
            Step::Refuse(requests) => server.refuse(requests.into()),
            Step::Bookmark => server.bookmark(),
            Step::Wait(millis) => tokio::time::sleep(Duration::from_millis(millis.into())).await,
            Step::Subscribe => listeners.push(replay(&informer)),
        }
    }
    tokio::time::sleep(PATIENCE).await;
    assert!(informer.is_synced());
    assert_eq!(cached(&informer), server.objects());
    for (known, _subscription) in &listeners {
        let known: Vec<_> = known.lock().values().cloned().collect();
        assert_eq!(known, server.objects(), "what listeners know");
    }
    shutdown.finish(Duration::from_secs(1)).await;
}

fn paused(future: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_cache_equals_the_server_after_any_faults(
        steps in prop::collection::vec(step(), 1..60),
        streams_lists in any::<bool>(),
    ) {
        let server = FakeServer::default();
        let server = if streams_lists { server } else { server.without_initial_events() };
        paused(run(server, steps));
    }
}

#[tokio::test(start_paused = true)]
async fn all_consumers_share_one_list_and_watch() {
    let server = FakeServer::default();
    server.put("a", 1);
    let shutdown = Shutdown::new();
    let informers = Informers::new(server.client(), shutdown.clone());
    let first = informers.all(&things());
    first.wait_synced().await;
    let second = informers.all(&things());
    assert!(Arc::ptr_eq(&first, &second));
    let (known, _late) = replay(&second);
    assert_eq!(known.lock().len(), 1, "a late subscriber gets what is there");
    server.put("b", 2);
    server.delete("a");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let names: Vec<_> = known.lock().keys().map(|key| key.name.clone()).collect();
    assert_eq!(names, ["b"], "and what changes, deletions included");
    assert_eq!((server.requests("list"), server.requests("watch")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_resumes_without_reading_everything_again() {
    let server = FakeServer::default().without_initial_events();
    let informers = Informers::new(server.client(), Shutdown::new());
    let informer = informers.all(&things());
    informer.wait_synced().await;
    server.put("a", 1);
    server.cut_watches(true);
    server.put("b", 2);
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(cached(&informer), server.objects());
    assert_eq!(server.requests("list"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_did_not_change_is_not_told_again_after_a_relist() {
    let server = FakeServer::default();
    server.put("a", 1);
    let informers = Informers::new(server.client(), Shutdown::new());
    let informer = informers.all(&things());
    informer.wait_synced().await;
    let (mut changes, _subscription) = informer.changes();
    assert!(changes.recv().await.is_some());
    server.put("b", 2);
    server.expire_watches();
    tokio::time::sleep(PATIENCE).await;
    let told: Vec<_> = std::iter::from_fn(|| changes.try_recv().ok())
        .map(|change| change.object().name().to_owned())
        .collect();
    assert_eq!(told, ["b"]);
}

/// Listeners hold the informer and what they tell it to; at the end they let each other go.
#[tokio::test(start_paused = true)]
async fn nothing_of_an_informer_survives_its_end() {
    let server = FakeServer::default();
    server.put("a", 1);
    let shutdown = Shutdown::new();
    let informers = Informers::new(server.client(), shutdown.clone());
    let informer = informers.all(&things());
    let held = Arc::new(Mutex::new(Vec::new()));
    let (own, others) = (informer.clone(), held.clone());
    let listening = informer.subscribe(move |_| assert!(!others.is_locked() || own.is_synced()));
    held.lock().push(listening);
    let (own, others) = (informer.clone(), held.clone());
    informer.after_every_list(move || assert!(!others.is_locked() || own.is_synced()));
    informer.wait_synced().await;
    let signs = (Arc::downgrade(&informer), Arc::downgrade(&held));
    drop((informers, informer, held));
    assert!(signs.0.upgrade().is_some() && signs.1.upgrade().is_some());
    shutdown.trigger();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(signs.0.upgrade().is_none() && signs.1.upgrade().is_none());
}

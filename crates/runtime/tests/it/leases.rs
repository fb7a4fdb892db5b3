//! One leader at a time, and a new one soon after the old one is gone.

use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Client;
use karmada_runtime::{Clock, Elector, LeaseConfig, Shutdown};
use parking_lot::Mutex;

use crate::fake_server::FakeServer;

type Journal = Arc<Mutex<Vec<String>>>;

/// A candidate that notes when it begins and ends to lead.
fn candidate(client: &Client, name: &'static str, journal: &Journal) -> Shutdown {
    let shutdown = Shutdown::new();
    let config = LeaseConfig::new("ns", "things", name);
    let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
    let elector = Elector::new(client, config, clock);
    let (own, journal) = (shutdown.clone(), journal.clone());
    shutdown.spawn(async move {
        let lead = |leading: Shutdown| async move {
            journal.lock().push(format!("{name} leads"));
            leading.triggered().await;
            journal.lock().push(format!("{name} ends"));
        };
        elector.run(&own, lead).await;
    });
    shutdown
}

/// The fake server calls every resource `things`; this one is as good as a lease.
fn client(server: &FakeServer) -> Client {
    let inner = server.client();
    Client::in_process(tower::service_fn(
        move |mut request: http::Request<karmada_client::Body>| {
            let inner = inner.clone();
            let text = request.uri().to_string().replace("/leases", "/things");
            *request.uri_mut() = text.parse().unwrap();
            async move { inner.kube().send(request).await }
        },
    ))
}

// Shows: OPS-1
#[tokio::test(start_paused = true)]
async fn a_lease_given_up_is_taken_at_the_next_attempt() {
    let server = FakeServer::default();
    let (client, journal) = (client(&server), Journal::default());
    let first = candidate(&client, "first", &journal);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = candidate(&client, "second", &journal);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(*journal.lock(), ["first leads"]);
    first.finish(Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*journal.lock(), ["first leads", "first ends", "second leads"]);
    let lease = client.api(&Gvr::new("", "v1", "leases")).get("things").await.unwrap();
    assert_eq!(lease.str_at(&["spec", "holderIdentity"]), Some("second"));
    assert_eq!(lease.i64_at(&["spec", "leaseTransitions"]), Some(1));
    second.finish(Duration::from_secs(1)).await;
}

// Shows: OPS-1
#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_ends_before_another_begins() {
    let server = FakeServer::default();
    let journal = Journal::default();
    let (cut, whole) = (FakeServer::clone(&server), client(&server));
    // The first candidate's requests fail from a minute on.
    let inner = client(&cut);
    let start = tokio::time::Instant::now();
    let failing = Client::in_process(tower::service_fn(move |request| {
        let inner = inner.clone();
        async move {
            if start.elapsed() > Duration::from_secs(60) {
                std::future::pending::<()>().await;
            }
            inner.kube().send(request).await
        }
    }));
    let _first = candidate(&failing, "first", &journal);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = candidate(&whole, "second", &journal);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(*journal.lock(), ["first leads", "first ends", "second leads"]);
    second.finish(Duration::from_secs(1)).await;
}

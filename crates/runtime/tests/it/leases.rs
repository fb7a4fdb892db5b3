//! One leader at a time, and a new one soon after the old one is gone.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Client;
use karmada_runtime::{Clock, Elector, LeaseConfig, Shutdown};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::fake_server::FakeServer;

const MINUTE: Duration = Duration::from_secs(60);

const BEGIN: &str = "2026-01-01T00:00:00Z";

type Journal = Arc<Mutex<Vec<String>>>;

/// A candidate that notes when it begins and ends to lead.
fn candidate(client: &Client, name: &'static str, journal: &Journal) -> Shutdown {
    let shutdown = Shutdown::new();
    let config = LeaseConfig::new("ns", "things", name);
    let clock = Clock::virtual_from(BEGIN.parse().unwrap());
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

/// A client whose requests are never answered from a minute after `start` on.
fn cut_off(server: &FakeServer, start: Instant) -> Client {
    let inner = client(server);
    Client::in_process(tower::service_fn(move |request| {
        let inner = inner.clone();
        async move {
            if start.elapsed() > MINUTE {
                std::future::pending::<()>().await;
            }
            inner.kube().send(request).await
        }
    }))
}

// Shows: OPS-1
#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_ends_before_another_begins() {
    let server = FakeServer::default();
    let journal = Journal::default();
    let failing = cut_off(&server, Instant::now());
    let _first = candidate(&failing, "first", &journal);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = candidate(&client(&server), "second", &journal);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(*journal.lock(), ["first leads", "first ends", "second leads"]);
    second.finish(Duration::from_secs(1)).await;
}

/// When work that a leader has begun was told to end, and when it was gone.
#[derive(Default)]
struct Work {
    told: Option<Instant>,
    gone: Option<Instant>,
}

/// Notes when it is dropped.
struct Stubborn(Arc<Mutex<Work>>);

impl Drop for Stubborn {
    fn drop(&mut self) {
        self.0.lock().gone = Some(Instant::now());
    }
}

/// Leads until the lease is lost, with work that does not end by itself.
async fn lead_stubbornly(client: &Client, config: &LeaseConfig) -> Arc<Mutex<Work>> {
    let clock = Clock::virtual_from(BEGIN.parse().unwrap());
    let work = Arc::new(Mutex::new(Work::default()));
    let own = work.clone();
    let lead = |leading: Shutdown| async move {
        let stubborn = Stubborn(own.clone());
        leading.triggered().await;
        own.lock().told = Some(Instant::now());
        std::future::pending::<()>().await;
        drop(stubborn);
    };
    Elector::new(client, config.clone(), clock).run(&Shutdown::new(), lead).await;
    work
}

// Shows: OPS-1
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_at_its_deadline_and_its_work_before_the_lease_ends() {
    let (server, start) = (FakeServer::default(), Instant::now());
    let config = LeaseConfig::new("ns", "things", "first");
    let work = lead_stubbornly(&cut_off(&server, start), &config).await;
    let Work { told, gone } = &*work.lock();
    // The last attempt that worked was the one at a minute.
    let renewed = start + MINUTE;
    assert_eq!(*told, Some(renewed + config.renew_deadline));
    assert!(gone.is_some_and(|gone| gone <= renewed + config.duration), "{gone:?}");
}

// Shows: OPS-1
#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_when_a_renewal_was_begun() {
    let (server, start) = (FakeServer::default(), Instant::now());
    let inner = cut_off(&server, start);
    // The server acts at once and answers late.
    let slow = Client::in_process(tower::service_fn(move |request| {
        let inner = inner.clone();
        async move {
            let answer = inner.kube().send(request).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            answer
        }
    }));
    let config = LeaseConfig::new("ns", "things", "first");
    let work = lead_stubbornly(&slow, &config).await;
    let lease = client(&server).api(&Gvr::new("", "v1", "leases")).get("things").await.unwrap();
    let renewed: Timestamp = lease.str_at(&["spec", "renewTime"]).unwrap().parse().unwrap();
    let after = renewed.duration_since(BEGIN.parse().unwrap()).unsigned_abs();
    let told = work.lock().told.unwrap();
    assert_eq!(told, start + after + config.renew_deadline);
}

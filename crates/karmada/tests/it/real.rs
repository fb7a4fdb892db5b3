//! What our client and runtime rely on, shown against a real Kubernetes. Run by `./test real` with
//! `KARMADA_TEST_KUBECONFIGS` naming kubeconfigs of clusters made for tests.

use std::path::Path;
use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions};
use karmada_runtime::{Clock, Elector, InformerSpec, Informers, LeaseConfig, ObjectKey, Shutdown};
use tokio::sync::mpsc;

use crate::server::PATIENCE;

#[tokio::test]
async fn real_servers_feed_our_informers_and_leases() {
    let Ok(kubeconfigs) = std::env::var("KARMADA_TEST_KUBECONFIGS") else {
        eprintln!("SKIPPED real Kubernetes: KARMADA_TEST_KUBECONFIGS is not set");
        return;
    };
    for kubeconfig in kubeconfigs.split(':').filter(|path| !path.is_empty()) {
        let client = Client::from_kubeconfig(Path::new(kubeconfig), None).await.expect("connect");
        let namespaces = client.api(&Gvr::new("", "v1", "namespaces"));
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "generateName": "karmada-real-" },
        });
        let namespace = namespaces.create(&namespace).await.expect("create a namespace");
        informer_equals_the_server(&client, namespace.name()).await;
        leadership_moves_on(&client, namespace.name()).await;
        let deleted = namespaces.delete(namespace.name(), &DeleteOptions::default()).await;
        deleted.expect("delete the namespace");
    }
}

async fn informer_equals_the_server(client: &Client, namespace: &str) {
    let gvr = Gvr::new("", "v1", "configmaps");
    let maps = client.api(&gvr).namespaced(namespace);
    write(&maps, "early", "0").await;
    let shutdown = Shutdown::new();
    let informers = Informers::new(client.clone(), shutdown.clone());
    let spec = InformerSpec::all(gvr).namespaced(namespace).labelled("mine");
    let informer = informers.get(spec);
    let (mut changes, _subscription) = informer.changes();
    informer.wait_synced().await;
    write(&maps, "late", "1").await;
    maps.merge_patch("late", json!({ "data": { "n": "2" } })).await.expect("patch");
    maps.delete("early", &DeleteOptions::default()).await.expect("delete");
    let expected = vec![("late".to_owned(), "2".to_owned())];
    let state = || -> Vec<(String, String)> {
        let values = informer.cache().list();
        values.iter().map(|object| (object.name().to_owned(), content(&object.value()))).collect()
    };
    let arrived = tokio::time::timeout(PATIENCE, async {
        while state() != expected {
            changes.recv().await.expect("an informer never ends");
        }
    });
    assert!(arrived.await.is_ok(), "wanted {expected:?}, have {:?}", state());
    let late = ObjectKey::new(namespace, "late");
    assert!(informer.cache().get(&late).is_some(), "not found by key");
    shutdown.trigger();
}

async fn leadership_moves_on(client: &Client, namespace: &str) {
    let (sender, mut leaders) = mpsc::unbounded_channel();
    let sender = Arc::new(sender);
    let candidate = |identity: &'static str| {
        let config = LeaseConfig::new(namespace, "leader", identity);
        let elector = Elector::new(client, config, Clock::real());
        let (stop, sender) = (Shutdown::new(), sender.clone());
        let own = stop.clone();
        let task = tokio::spawn(async move {
            let lead = |leading: Shutdown| async move {
                // The receiver outlives every candidate.
                let _ = sender.send(identity);
                leading.triggered().await;
            };
            elector.run(&own, lead).await;
        });
        (stop, task)
    };
    let (stop_first, first) = candidate("first");
    assert_eq!(leaders.recv().await, Some("first"));
    let (stop_second, second) = candidate("second");
    stop_first.trigger();
    first.await.expect("the first ends");
    let next = tokio::time::timeout(PATIENCE, leaders.recv()).await;
    assert_eq!(next.expect("someone leads"), Some("second"));
    stop_second.trigger();
    second.await.expect("the second ends");
}

async fn write(maps: &Api, name: &str, content: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "mine": "" } },
        "data": { "n": content },
    });
    maps.create(&map).await.expect("create");
}

fn content(map: &Value) -> String {
    map.str_at(&["data", "n"]).unwrap_or_default().to_owned()
}

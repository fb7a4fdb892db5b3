//! The same client and informers over TLS, as components of their own use them.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apiserver::auth::token::{self, TokenIssuer};
use karmada_apiserver::pki::{Pki, Settings};
use karmada_apiserver::{Config, Server, Trust};
use karmada_client::{Client, Discovery};
use karmada_runtime::{Informers, ObjectKey, Shutdown};
use karmada_store::Memory;
use tokio::net::TcpListener;

use crate::cluster::eventually;

async fn server(pki: &Pki, store: Memory) -> Server {
    let key = pki.service_account_key().unwrap();
    let trust = Trust {
        client_certs: Some(pki.client_certs().unwrap()),
        front_proxy: None,
        tokens: Arc::new(TokenIssuer::new(token::DEFAULT_ISSUER, key, Vec::new())),
        allow_anonymous: false,
        client_ca_pem: pki.authority().certificate_pem(),
        front_proxy_ca_pem: pki.front_proxy_authority().certificate_pem(),
    };
    Server::builder(Config::default(), Arc::new(store), trust).start().await.unwrap()
}

#[tokio::test]
async fn informers_follow_a_remote_server_across_its_restart() {
    let dir = tempfile::tempdir().unwrap();
    let loopback = "127.0.0.1".parse().unwrap();
    let settings =
        Settings::new(Some(dir.path().to_owned()), SignedDuration::from_hours(1), [], [loopback]);
    let pki = Pki::open(settings, Timestamp::now()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let kubeconfig = dir.path().join("admin.config");
    let text = pki.admin_kubeconfig("admin", &format!("https://{address}"));
    std::fs::write(&kubeconfig, text).unwrap();
    let tls = Arc::new(ArcSwap::new(pki.server_config().unwrap()));
    let store = Memory::new();
    let first = Arc::new(server(&pki, store.clone()).await);
    let (own, own_tls) = (first.clone(), tls.clone());
    let serving = tokio::spawn(async move { own.serve(listener, own_tls).await });

    let client = Client::from_kubeconfig(&kubeconfig, None).await.unwrap();
    let deployments = Discovery::new(client.clone()).resources().await.unwrap();
    assert!(deployments.iter().any(|resource| resource.kind == "Deployment"));
    let shutdown = Shutdown::new();
    let config_maps = Gvr::new("", "v1", "configmaps");
    let informer = Informers::new(client.clone(), shutdown.clone()).all(&config_maps);
    informer.wait_synced().await;
    let create = async |name: &str| {
        let api = client.api(&config_maps).namespaced("default");
        api.create(&json!({"metadata": {"name": name}})).await.is_ok()
    };
    let cached =
        async |name: &str| informer.cache().get(&ObjectKey::new("default", name)).is_some();
    assert!(create("before").await);
    eventually("the object is cached", async || cached("before").await).await;

    first.stop();
    serving.await.unwrap();
    let second = server(&pki, store).await;
    // For a moment somebody else may have been given the port.
    let bound = std::cell::RefCell::new(None);
    eventually("the port is free again", async || {
        let listener = TcpListener::bind(address).await.ok();
        listener.map(|listener| bound.replace(Some(listener))).is_some()
    })
    .await;
    let listener = bound.take().unwrap();
    let handle = tokio::spawn(async move { second.serve(listener, tls).await });
    eventually("the server is back", async || create("after").await).await;
    eventually("the object is cached", async || cached("after").await).await;
    shutdown.finish(Duration::from_secs(5)).await;
    handle.abort();
}

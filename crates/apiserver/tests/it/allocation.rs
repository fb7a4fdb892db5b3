//! Addresses and node ports of Services on one store that several servers share.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};
use karmada_store::{Memory, Store};

use crate::server::{admin, builder, get, post, send};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

/// A range with room for few.
fn config() -> Config {
    Config {
        service_cidr: ([10, 96, 0, 0].into(), 26),
        node_ports: 30000..=30063,
        ..Config::default()
    }
}

async fn pair() -> (Arc<Memory>, [Arc<Server>; 2]) {
    let store = Arc::new(Memory::new());
    let first = builder(config(), store.clone()).start().await.unwrap();
    let second = builder(config(), store.clone()).start().await.unwrap();
    (store, [Arc::new(first), Arc::new(second)])
}

async fn read(server: &Server, path: &str) -> (u16, Value) {
    let response = get(server, admin(), path).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

fn service(name: &str, kind: &str) -> String {
    json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}}).to_string()
}

// Shows: KIND-6, SVM-1
#[tokio::test(start_paused = true)]
async fn servers_on_one_store_never_give_away_the_same_thing() {
    let (_, servers) = pair().await;
    // 60 of 61 addresses and 60 of 64 ports, asked for at the same time through both.
    let asked = (0..60).map(|number| {
        let server = servers[number % 2].clone();
        tokio::spawn(async move {
            let body = service(&format!("s{number}"), "NodePort");
            post(&server, admin(), SERVICES, &body).await
        })
    });
    let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
    for answer in futures::future::join_all(asked).await {
        let (code, made) = answer.unwrap();
        assert_eq!(code, 201, "{made}");
        addresses.insert(made["spec"]["clusterIP"].as_str().unwrap().to_owned());
        ports.insert(made["spec"]["ports"][0]["nodePort"].as_i64().unwrap());
    }
    assert_eq!((addresses.len(), ports.len()), (60, 60));
    // What one gave away the other refuses.
    let (code, first) = read(&servers[0], &format!("{SERVICES}/s0")).await;
    assert_eq!(code, 200);
    let address = first["spec"]["clusterIP"].as_str().unwrap();
    let same = json!({
        "metadata": {"name": "same"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]},
    });
    let (code, refused) = post(&servers[1], admin(), SERVICES, &same.to_string()).await;
    assert_eq!(code, 422);
    let why = format!("failed to allocate IP {address}: provided IP is already allocated");
    assert!(refused["message"].as_str().unwrap().contains(&why), "{refused}");
    // What one gives back the other may give away.
    let path = format!("{SERVICES}/s0");
    assert_eq!(send(&servers[1], admin(), (Method::DELETE, &path), "").await.0, 200);
    let (code, made) = post(&servers[0], admin(), SERVICES, &same.to_string()).await;
    assert_eq!(code, 201, "{made}");
}

// Shows: KIND-6, SVM-1
#[tokio::test(start_paused = true)]
async fn an_address_is_held_by_an_object_that_goes_with_the_service() {
    let (store, [server, _]) = pair().await;
    let (code, made) = post(&server, admin(), SERVICES, &service("web", "ClusterIP")).await;
    assert_eq!(code, 201);
    let path = format!("{ADDRESSES}/{}", made["spec"]["clusterIP"].as_str().unwrap());
    let (code, held) = read(&server, &path).await;
    assert_eq!(code, 200);
    let parent = json!({"resource": "services", "namespace": "default", "name": "web"});
    assert_eq!(held["spec"]["parentRef"], parent);
    // Neither a dry run nor a refused write leaves anything behind.
    let revision = store.revision();
    let dry = format!("{SERVICES}?dryRun=All");
    assert_eq!(post(&server, admin(), &dry, &service("dry", "NodePort")).await.0, 201);
    assert_eq!(store.revision(), revision);
    assert_eq!(post(&server, admin(), SERVICES, &service("web", "NodePort")).await.0, 409);
    // The server has a Service of its own.
    let is_ours = |held: &&Value| held["spec"]["parentRef"]["name"] != "kubernetes";
    let count = || async {
        read(&server, ADDRESSES).await.1.list_at(&["items"]).iter().filter(is_ours).count()
    };
    // What the refused write took is given back behind its answer.
    for _ in 0..1_000 {
        if count().await == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(count().await, 1);
    // A Service that needs no address any more gives it back.
    let external = r#"{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":"","clusterIPs":null}}"#;
    let (code, changed) =
        send(&server, admin(), (Method::PATCH, &format!("{SERVICES}/web")), external).await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(count().await, 0);
}

// Shows: KIND-6
#[tokio::test(start_paused = true)]
async fn what_does_not_agree_is_put_right() {
    let (store, [server, other]) = pair().await;
    let (_, made) = post(&server, admin(), SERVICES, &service("web", "NodePort")).await;
    let own = format!("{ADDRESSES}/{}", made["spec"]["clusterIP"].as_str().unwrap());
    // Somebody deletes what holds an address; an address is left of a Service that is not there.
    assert_eq!(send(&server, admin(), (Method::DELETE, &own), "").await.0, 200);
    let left = json!({
        "metadata": {
            "name": "10.96.0.9",
            "labels": {
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                "ipaddress.kubernetes.io/ip-family": "IPv4",
            },
        },
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "gone"}},
    });
    let (code, answer) = post(&server, admin(), ADDRESSES, &left.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    server.stop();
    other.stop();
    // The clock of these servers is real, so what is older than a request takes is left of long ago.
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(10);
    let third = builder(config(), store.clone()).clock(Arc::new(move || later));
    let third = third.start().await.unwrap();
    assert_eq!(read(&third, &own).await.0, 200);
    assert_eq!(read(&third, &format!("{ADDRESSES}/10.96.0.9")).await.0, 404);
    // Nothing more is to be done.
    let revision = store.revision();
    third.stop();
    builder(config(), store.clone()).start().await.unwrap();
    assert_eq!(store.revision(), revision);
}

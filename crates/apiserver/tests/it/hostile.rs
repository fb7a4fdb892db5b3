//! Clients that misbehave: whatever they do, others are answered and nothing piles up.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::connect::{Connected, Connection};
use karmada_apiserver::http::listener::Patience;
use karmada_apiserver::{Config, Server};
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::aggregation::{listen, pki, serving_with};
use crate::server::{admin, get, post, send, server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

const PATIENCE: Duration = Duration::from_secs(300);

/// How many idle watches are opened; more by `KARMADA_IDLE_WATCHES`.
const WATCHES: usize = 1_000;
/// What one of them may cost at most, whatever it is measured with.
const WATCH_BYTES: usize = 128 << 10;

/// A server on a port, and how an administrator connects to it.
struct Open {
    port: u16,
    tls: TlsConnector,
}

async fn open(alpn: &[&[u8]]) -> Open {
    let own = pki("front");
    let short = Duration::from_secs(5);
    let patience = Patience { handshake: short, head: short };
    let config = Config { patience, request_timeout: short, ..Config::default() };
    let (port, _) = listen(serving_with(config, &own, None).await, &own).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.authority().certificate().clone()).unwrap();
    let leaf = own.admin();
    let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![leaf.certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Open { port, tls: TlsConnector::from(Arc::new(config)) }
}

impl Open {
    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        loop {
            // On a machine that has other things to do, even a handshake may come too late.
            let name = ServerName::try_from("localhost").unwrap();
            if let Ok(stream) = self.tls.connect(name, self.tcp().await).await {
                return stream;
            }
        }
    }
}

/// Reads until the server closes the connection, and returns what it said before.
async fn until_closed(mut stream: impl AsyncRead + Unpin) -> String {
    let mut said = Vec::new();
    // Being cut off without a farewell is an end too.
    let reading = async { stream.read_to_end(&mut said).await };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    assert!(ended.is_ok(), "the connection stays open");
    String::from_utf8_lossy(&said).into_owned()
}

/// Says something after the handshake and waits for the end.
async fn saying(server: &Open, text: &[u8]) -> String {
    let mut stream = server.connect().await;
    // Whoever is late has been cut off already.
    let _ = stream.write_all(text).await;
    until_closed(stream).await
}

/// The same for what is answered before the end, unless this machine was too busy to say it in time.
async fn answered(server: &Open, text: &[u8]) -> String {
    let began = Instant::now();
    loop {
        let said = saying(server, text).await;
        if !said.is_empty() || began.elapsed() > PATIENCE {
            return said;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_never_go_on_are_cut_off() {
    let server = open(&[b"http/1.1"]).await;
    let garbage = async {
        let mut stream = server.tcp().await;
        stream.write_all(&[0x42; 2048]).await.unwrap();
        until_closed(stream).await
    };
    let half_a_body = format!(
        "POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    );
    let (_, _, _, _, kept, body) = tokio::join!(
        // Nothing at all, and bytes that are no handshake.
        async { until_closed(server.tcp().await).await },
        garbage,
        // A handshake and then nothing, and a head that never ends.
        saying(&server, b""),
        saying(&server, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nX-A: "),
        // A connection that is kept for nothing, and a body that never comes.
        answered(&server, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        answered(&server, half_a_body.as_bytes()),
    );
    assert!(kept.starts_with("HTTP/1.1 200"), "{kept}");
    assert!(body.starts_with("HTTP/1.1 504"), "{body}");
    let two = open(&[b"h2"]).await;
    tokio::join!(saying(&two, b""), saying(&two, b"PRI * HTTP/2.0\r\n"));
}

/// Sends a body as it is.
async fn raw(
    server: &Server,
    method: Method,
    kind: &str,
    path: &str,
    body: Vec<u8>,
) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = server.handle().acting_as(admin()).call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

// Shows: NEG-7
#[tokio::test(start_paused = true)]
async fn bodies_that_are_too_deep_or_too_large_are_refused() {
    let server = server(Config::default()).await;
    let (json_type, yaml) = ("application/json", "application/yaml");
    for (kind, open, close) in
        [(json_type, "[", "]"), (json_type, "{\"a\":", "}"), (yaml, "[", "]")]
    {
        for depth in [200, 100_000] {
            let body = format!("{}1{}", open.repeat(depth), close.repeat(depth));
            let (code, status) = raw(&server, Method::POST, kind, MAPS, body.into_bytes()).await;
            assert!((400..500).contains(&code), "{kind} {depth}: {code} {status}");
        }
    }
    let deep = "[".repeat(100_000);
    for kind in [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ] {
        let path = format!("{MAPS}/m?fieldManager=x");
        assert_eq!(
            post(&server, admin(), MAPS, r#"{"metadata":{"name":"m"}}"#).await.0 / 100 % 2,
            0
        );
        let (code, status) =
            raw(&server, Method::PATCH, kind, &path, deep.clone().into_bytes()).await;
        assert!((400..500).contains(&code), "{kind}: {code} {status}");
    }
    let large = vec![b' '; (3 << 20) + 1];
    assert_eq!(raw(&server, Method::POST, json_type, MAPS, large).await.0, 413);
}

// Shows: NEG-7
#[tokio::test(start_paused = true)]
async fn patches_have_a_number_of_operations_at_most() {
    let server = server(Config::default()).await;
    assert_eq!(
        post(&server, admin(), MAPS, r#"{"metadata":{"name":"m"},"data":{"a":"b"}}"#).await.0,
        201
    );
    let operations = |count: usize| {
        let one =
            |number: usize| json!({"op": "add", "path": format!("/data/k{number}"), "value": "v"});
        Value::from((0..count).map(one).collect::<Vec<_>>()).to_string().into_bytes()
    };
    let (path, kind) = (format!("{MAPS}/m"), "application/json-patch+json");
    let (code, status) = raw(&server, Method::PATCH, kind, &path, operations(10_001)).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    let (code, made) = raw(&server, Method::PATCH, kind, &path, operations(10_000)).await;
    assert_eq!(code, 200);
    assert_eq!(made["data"].as_object().unwrap().len(), 10_001);
}

fn fall_over(_: Connection) -> Connected {
    async { panic!("this connector falls over") }.boxed()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_panics_is_answered_and_counted() {
    let server = server(Config::default()).await;
    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}"#;
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(post(&server, admin(), pods, pod).await.0, 201);
    server.handle().connect(("", "pods", "log"), Arc::new(fall_over));
    for _ in 0..3 {
        let path = format!("{pods}/p/log");
        let (code, status) = send(&server, admin(), (Method::GET, &path), "").await;
        assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    }
    let metrics = get(&server, admin(), "/metrics").await;
    let metrics = metrics.into_body().collect().await.unwrap().to_bytes();
    let metrics = String::from_utf8_lossy(&metrics);
    assert!(metrics.contains("\napiserver_panics_total 3\n"), "{metrics}");
    assert!(metrics.contains("apiserver_current_inflight_requests{request_kind=\"mutating\"} 0"));
    assert_eq!(post(&server, admin(), MAPS, r#"{"metadata":{"name":"m"}}"#).await.0, 201);
}

/// What this process has in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// In a process of its own: what other tests have in memory does not count.
#[test]
fn idle_watches_cost_little_and_hold_nobody_up() {
    let alone = "hostile::idle_watches_alone";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--ignored", "--exact", alone, "--nocapture"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by idle_watches_cost_little_and_hold_nobody_up"]
async fn idle_watches_alone() {
    let wanted = std::env::var("KARMADA_IDLE_WATCHES").ok().and_then(|text| text.parse().ok());
    let wanted: usize = wanted.unwrap_or(WATCHES);
    let server = open(&[b"h2"]).await;
    let before = resident();
    let mut senders = Vec::new();
    for _ in 0..wanted.div_ceil(500) {
        let stream = TokioIo::new(server.connect().await);
        let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        senders.push(sender);
    }
    let ask = |sender: &hyper::client::conn::http2::SendRequest<Empty<Bytes>>, path: String| {
        let request = Request::get(format!("https://localhost{path}")).body(Empty::new()).unwrap();
        let mut sender = sender.clone();
        async move {
            sender.ready().await.unwrap();
            sender.send_request(request).await.unwrap()
        }
    };
    let mut watches = Vec::new();
    for number in 0..wanted {
        let path = format!("{MAPS}?watch=true&timeoutSeconds=3600&resourceVersion=0");
        let watch = ask(&senders[number / 500], path).await;
        assert_eq!(watch.status(), 200);
        watches.push(watch);
    }
    let each = resident().saturating_sub(before) / wanted;
    eprintln!("{wanted} idle watches, {each} bytes each, both ends in this process");
    assert!(each < WATCH_BYTES, "{each} bytes for each of {wanted} watches");
    let answer = ask(&senders[0], "/api/v1/namespaces".to_owned()).await;
    assert_eq!(answer.status(), 200);
    drop(watches);
    // Whoever left is forgotten.
    let began = Instant::now();
    loop {
        let metrics = ask(&senders[0], "/metrics".to_owned()).await;
        let metrics = metrics.into_body().collect().await.unwrap().to_bytes();
        if String::from_utf8_lossy(&metrics)
            .contains("apiserver_longrunning_requests{verb=\"WATCH\"} 0\n")
        {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "watches are not forgotten");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

//! Another API server behind this one: found, described, asked as whoever asks, and survived whatever
//! it does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base64::Engine;
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::TokenIssuer;
use karmada_apiserver::pki::{Pki, Settings, TokenKey};
use karmada_apiserver::{Config, Server};
use karmada_store::Memory;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tower::Service;

use crate::https::identity;
use crate::server::{admin, get, post, send};

const PATIENCE: Duration = Duration::from_secs(120);
const GROUP: &str = "wardle.example.com";
const ROOT: &str = "/apis/wardle.example.com/v1alpha1";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

pub(crate) fn pki(name: &str) -> Arc<Pki> {
    let settings = Settings::new(None, SignedDuration::from_hours(24), [name.to_owned()], []);
    let settings = Settings { token_key: TokenKey::Ecdsa, ..settings };
    Arc::new(Pki::open(settings, Timestamp::now()).unwrap())
}

/// A server with certificates of its own; `front` may say who asks.
pub(crate) async fn serving(own: &Arc<Pki>, front: Option<&Pki>) -> Server {
    serving_with(Config::default(), own, front).await
}

pub(crate) async fn serving_with(config: Config, own: &Arc<Pki>, front: Option<&Pki>) -> Server {
    let tokens = TokenIssuer::new("test", own.service_account_key().unwrap(), Vec::new());
    let mut trust = own.trust(Arc::new(tokens)).unwrap();
    if let (Some(proxy), Some(front)) = (&mut trust.front_proxy, front) {
        proxy.authorities = front.front_proxy_certs().unwrap();
    }
    let client = own.clone();
    Server::builder(config, Arc::new(Memory::new()), trust)
        .proxy_client(Arc::new(move || Some(client.front_proxy_client())))
        .start()
        .await
        .unwrap()
}

/// Lets a server listen; returns its port.
pub(crate) async fn listen(server: Server, own: &Pki) -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = Arc::new(ArcSwap::new(own.server_config().unwrap()));
    (port, tokio::spawn(async move { server.serve(listener, tls).await }))
}

async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn read(server: &Server, user: Identity, path: &str) -> (u16, String) {
    let response = get(server, user, path).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for an answer: what a condition says holds for requests a moment later.
async fn answers(server: &Server, path: &str, code: u16, text: &str) {
    eventually(&format!("{path} answers {code} {text}"), || async {
        let (found, said) = read(server, admin(), path).await;
        (found == code && said == text).then_some(())
    })
    .await;
}

async fn json_of(server: &Server, path: &str) -> Value {
    let (code, text) = read(server, admin(), path).await;
    assert_eq!(code, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Registers a group version behind a Service that leads to a port of this machine.
async fn register(front: &Server, (group, service): (&str, &str), port: u16, trust: Value) {
    let object = json!({
        "metadata": {"name": service},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    });
    let (code, answer) = post(front, admin(), SERVICES, &object.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    let mut spec = json!({
        "group": group, "version": "v1alpha1", "groupPriorityMinimum": 1500, "versionPriority": 15,
        "service": {"namespace": "default", "name": service, "port": port},
    });
    for (key, value) in trust.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let object = json!({"metadata": {"name": format!("v1alpha1.{group}")}, "spec": spec});
    let (code, answer) = post(front, admin(), API_SERVICES, &object.to_string()).await;
    assert_eq!(code, 201, "{answer}");
}

/// The reason of the condition `Available`, once it is there and as wanted.
async fn condition(front: &Server, group: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{API_SERVICES}/v1alpha1.{group}");
    let began = Instant::now();
    loop {
        let service = json_of(front, &path).await;
        let found = service.list_at(&["status", "conditions"]).first().cloned().unwrap_or_default();
        if found.is_object() && wanted(&found) {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "the condition of {group} is {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn definition() -> Value {
    json!({
        "metadata": {"name": format!("flunders.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "flunders", "kind": "Flunder", "shortNames": ["fl"]},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                }}},
            }],
        },
    })
}

// Shows: AGG-1, AGG-2, AGG-3, AGG-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_answers_for_its_group() {
    let (own, other) = (pki("front"), pki("ext.default.svc"));
    let front = serving(&own, None).await;
    let back = serving(&other, Some(&own)).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(post(&back, admin(), definitions, &definition().to_string()).await.0, 201);
    eventually("the kind is served", || async {
        (get(&back, admin(), &format!("{ROOT}/flunders")).await.status() == 200).then_some(())
    })
    .await;
    let (port, listening) = listen(back, &other).await;
    let pem = other.authority().certificate_pem();
    let bundle = base64::engine::general_purpose::STANDARD.encode(pem);
    register(&front, (GROUP, "ext"), port, json!({"caBundle": bundle})).await;
    let passed = condition(&front, GROUP, |condition| condition["status"] == "True").await;
    assert_eq!(
        (&passed["reason"], &passed["message"]),
        (&json!("Passed"), &json!("all checks passed"))
    );

    eventually("requests are passed on", || async {
        (get(&front, admin(), ROOT).await.status() == 200).then_some(())
    })
    .await;
    it_is_described(&front).await;
    it_is_asked_as_whoever_asks(&front).await;
    watches_pass_through(&front).await;

    // Gone: the next look finds nobody.
    listening.abort();
    let _ = listening.await;
    let touched = json!({"metadata": {"labels": {"touched": "yes"}}}).to_string();
    let path = format!("{SERVICES}/ext");
    assert_eq!(send(&front, admin(), (Method::PATCH, &path), &touched).await.0, 200);
    let url = format!("https://localhost:{port}{ROOT}");
    // Which address a name leads to first is the machine's to say.
    let begins = format!("failing or missing response from {url}: Get \"{url}\": dial tcp ");
    let ends = format!(":{port}: connect: connection refused");
    // A look that was under way may have found the end of a connection instead.
    let gone = condition(&front, GROUP, |condition| {
        let message = condition["message"].as_str().unwrap_or_default();
        message.starts_with(&begins) && message.ends_with(&ends)
    })
    .await;
    assert_eq!(
        (&gone["status"], &gone["reason"]),
        (&json!("False"), &json!("FailedDiscoveryCheck"))
    );
    answers(&front, &format!("{ROOT}/namespaces/default/flunders"), 503, "service unavailable\n")
        .await;
    let version = aggregated(&front).await;
    assert_eq!((&version["freshness"], version.get("resources")), (&json!("Stale"), None));
    // And nothing of it is left once it is not registered any more.
    let path = format!("{API_SERVICES}/v1alpha1.{GROUP}");
    assert_eq!(send(&front, admin(), (Method::DELETE, &path), "").await.0, 200);
    eventually("the group is gone", || async {
        (get(&front, admin(), ROOT).await.status() == 404).then_some(())
    })
    .await;
}

/// The version of the group as aggregated discovery lists it.
async fn aggregated(front: &Server) -> Value {
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = Request::get("/apis").header("accept", accept);
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let response = front.handle().acting_as(admin()).call(request).await.unwrap();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let all: Value = serde_json::from_slice(&bytes).unwrap();
    let group = all.list_at(&["items"]).iter().find(|item| item.name() == GROUP).cloned();
    group.expect("the group is listed")["versions"][0].clone()
}

async fn it_is_described(front: &Server) {
    let version = aggregated(front).await;
    assert_eq!(version["freshness"], "Current");
    let resource = &version["resources"][0];
    assert_eq!(resource["resource"], "flunders");
    assert_eq!(resource["shortNames"], json!(["fl"]));
    assert_eq!(resource["subresources"][0]["subresource"], "status");
    let groups = json_of(front, "/apis").await;
    let own = groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == GROUP);
    assert_eq!(own.unwrap()["preferredVersion"]["version"], "v1alpha1");
    assert_eq!(json_of(front, &format!("/apis/{GROUP}")).await["kind"], "APIGroup");
    let list = json_of(front, ROOT).await;
    assert_eq!(list["resources"][0]["name"], "flunders");
    let index = json_of(front, "/openapi/v3").await;
    let url = index["paths"][&ROOT[1..]]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = json_of(front, &url).await;
    assert!(document["components"]["schemas"]["com.example.wardle.v1alpha1.Flunder"].is_object());
    let swagger = json_of(front, "/openapi/v2").await;
    let path = format!("{ROOT}/namespaces/{{namespace}}/flunders");
    assert!(swagger["paths"][&path].is_object());
    assert!(swagger["definitions"]["com.example.wardle.v1alpha1.Flunder"].is_object());
    assert!(swagger["definitions"]["io.k8s.api.apps.v1.Deployment"].is_object());
    let config = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let config = json_of(front, config).await;
    assert_eq!(config["data"]["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    let authority = config["data"]["requestheader-client-ca-file"].as_str().unwrap();
    assert!(authority.contains("BEGIN CERTIFICATE"));
}

async fn it_is_asked_as_whoever_asks(front: &Server) {
    let flunders = format!("{ROOT}/namespaces/default/flunders");
    let object = json!({
        "apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder",
        "metadata": {"name": "a"}, "spec": {"size": 1},
    });
    let (code, made) = post(front, admin(), &flunders, &object.to_string()).await;
    assert_eq!((code, &made["spec"]["size"]), (201, &json!(1)), "{made}");
    let one = format!("{flunders}/a");
    let (code, changed) =
        send(front, admin(), (Method::PATCH, &one), r#"{"spec":{"size":2}}"#).await;
    assert_eq!((code, &changed["spec"]["size"]), (200, &json!(2)));
    let (code, text) = read(front, admin(), &format!("{flunders}/b")).await;
    assert_eq!(code, 404);
    assert!(text.contains("flunders.wardle.example.com \\\"b\\\" not found"), "{text}");
    // The front lets her through; the server behind knows her name and has no role for her.
    let role = json!({
        "metadata": {"name": "ann"},
        "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(post(front, admin(), roles, &role.to_string()).await.0, 201);
    let binding = json!({
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ann"},
        "subjects": [{"kind": "User", "name": "ann"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(post(front, admin(), bindings, &binding.to_string()).await.0, 201);
    let spoofed = Request::get(&flunders)
        .header("x-remote-user", "root")
        .header("x-remote-group", "system:masters");
    let spoofed = spoofed.body(Full::new(Bytes::new())).unwrap();
    let ann = Identity::new("ann", ["system:authenticated"]);
    let response = front.handle().acting_as(ann).call(spoofed).await.unwrap();
    assert_eq!(response.status(), 403);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text);
    let expected =
        "flunders.wardle.example.com is forbidden: User \\\"ann\\\" cannot list resource";
    assert!(text.contains(expected), "{text}");
    // Others are not even let through.
    let bob = Identity::new("bob", ["system:authenticated"]);
    let (code, text) = read(front, bob, &flunders).await;
    assert!(code == 403 && text.contains("bob"), "{code} {text}");
}

async fn watches_pass_through(front: &Server) {
    let flunders = format!("{ROOT}/namespaces/default/flunders");
    let mut watch = get(front, admin(), &format!("{flunders}?watch=true&resourceVersion=0")).await;
    assert_eq!(watch.status(), 200);
    let object = json!({
        "apiVersion": "wardle.example.com/v1alpha1", "kind": "Flunder", "metadata": {"name": "seen"},
    });
    assert_eq!(post(front, admin(), &flunders, &object.to_string()).await.0, 201);
    let mut text = String::new();
    while !text.contains("\"seen\"") {
        let frame = watch.body_mut().frame().await.expect("the watch goes on").unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
    }
}

/// What a hostile server does.
#[derive(Clone, Copy, PartialEq)]
enum Trick {
    /// Takes the request and never answers.
    Silence,
    /// Never stops answering.
    Flood,
    /// Answers what is asked for health and sends everybody else elsewhere.
    Redirect,
    /// Does not speak TLS at all.
    Garbage,
}

async fn hostile(trick: Trick) -> (u16, String) {
    let (acceptor, bundle) = identity();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if trick == Trick::Garbage {
                    let _ = stream.write_all(&[0xff; 4096]).await;
                    return;
                }
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request| deceive(trick, request));
                let builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (port, bundle)
}

type Deceit = http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>;

async fn deceive(
    trick: Trick,
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Deceit>, std::convert::Infallible> {
    let whole = |text: &str| Full::new(Bytes::from(text.to_owned())).boxed_unsync();
    Ok(match trick {
        Trick::Silence => std::future::pending().await,
        Trick::Flood => {
            let chunk = Bytes::from(vec![b'['; 1 << 16]);
            let endless = futures::stream::repeat(chunk);
            let endless = endless.map(|chunk| Ok(http_body::Frame::data(chunk)));
            Response::new(StreamBody::new(endless).boxed_unsync())
        }
        _ if request.uri().path().ends_with("/v1alpha1") => Response::new(whole("{}")),
        _ => {
            let moved = Response::builder().status(302).header("location", "https://evil.example/");
            moved.body(whole("elsewhere")).unwrap()
        }
    })
}

// Shows: AGG-1, AGG-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hostile_server_gets_nowhere() {
    let front = serving(&pki("front"), None).await;
    let tricks = [
        ("silence", Trick::Silence, "context deadline exceeded"),
        ("flood", Trick::Flood, "the answer is larger than"),
        ("garbage", Trick::Garbage, "tls: "),
    ];
    for (name, trick, _) in tricks {
        let (port, bundle) = hostile(trick).await;
        let group = format!("{name}.example.com");
        register(&front, (&group, name), port, json!({"caBundle": bundle})).await;
    }
    let (port, bundle) = hostile(Trick::Redirect).await;
    register(&front, ("redirect.example.com", "redirect"), port, json!({"caBundle": bundle})).await;
    // Nobody else waits for them: everything is answered while they are being looked at.
    for path in ["/apis", "/openapi/v2", "/openapi/v3", "/api/v1/namespaces", "/readyz"] {
        assert_eq!(get(&front, admin(), path).await.status(), 200, "{path}");
    }
    for (name, _, why) in tricks {
        let group = format!("{name}.example.com");
        // The first look may come too early or take too long for the reason.
        let says_why = |found: &Value| found["message"].as_str().is_some_and(|m| m.contains(why));
        let found = condition(&front, &group, says_why).await;
        assert_eq!(found["reason"], "FailedDiscoveryCheck", "{found}");
        let path = format!("/apis/{group}/v1alpha1/things");
        answers(&front, &path, 503, "service unavailable\n").await;
    }
    condition(&front, "redirect.example.com", |found| found["status"] == "True").await;
    let text = "the backend attempted to redirect this request, which is not permitted";
    answers(&front, "/apis/redirect.example.com/v1alpha1/things", 502, text).await;
    // A certificate of somebody else is not believed.
    let (port, _) = hostile(Trick::Redirect).await;
    let (_, foreign) = identity();
    register(&front, ("foreign.example.com", "foreign"), port, json!({"caBundle": foreign})).await;
    condition(&front, "foreign.example.com", |found| {
        found["message"].as_str().is_some_and(|text| text.contains("tls: failed to verify"))
    })
    .await;
}

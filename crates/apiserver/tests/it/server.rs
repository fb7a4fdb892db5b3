//! A server for tests, and requests to it.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use karmada_apimachinery::Value;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::{self, SigningKey, TokenIssuer};
use karmada_apiserver::pki::certificate::Authority;
use karmada_apiserver::{Builder, Config, Server, Trust};
use karmada_store::Memory;
use tower::Service;

pub(crate) async fn server(config: Config) -> Server {
    builder(config, Arc::new(Memory::new())).start().await.unwrap()
}

pub(crate) fn builder(config: Config, store: Arc<dyn karmada_store::Store>) -> Builder {
    // A server that starts again has the keys it had.
    static AUTHORITY: OnceLock<(String, Authority)> = OnceLock::new();
    let (key, authority) = AUTHORITY.get_or_init(|| {
        let key = Authority::generate_key().unwrap();
        let (begin, end) = ("2025-01-01T00:00:00Z".parse(), "2099-01-01T00:00:00Z".parse());
        let authority = Authority::self_signed("test", &key, begin.unwrap(), end.unwrap());
        (key, authority.unwrap())
    });
    let signing = SigningKey::from_pem(key.as_bytes()).unwrap();
    let trust = Trust {
        client_certs: None,
        front_proxy: None,
        tokens: Arc::new(TokenIssuer::new(token::DEFAULT_ISSUER, signing, Vec::new())),
        allow_anonymous: false,
        client_ca_pem: authority.certificate_pem(),
        front_proxy_ca_pem: authority.certificate_pem(),
    };
    Server::builder(config, store, trust)
}

pub(crate) fn admin() -> Identity {
    Identity::new("admin", ["system:masters", "system:authenticated"])
}

pub(crate) async fn get(
    server: &Server,
    identity: Identity,
    path: &str,
) -> http::Response<karmada_apiserver::http::body::Body> {
    let request = Request::get(path).body(Full::new(bytes::Bytes::new())).unwrap();
    server.handle().acting_as(identity).call(request).await.unwrap()
}

/// Sends JSON and returns the code and the parsed answer.
pub(crate) async fn send(
    server: &Server,
    identity: Identity,
    (method, path): (Method, &str),
    content: &str,
) -> (u16, Value) {
    let kind = match method {
        Method::PATCH if path.contains("fieldManager=applier") => "application/apply-patch+yaml",
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(Full::new(Bytes::from(content.to_owned()))).unwrap();
    let response = server.handle().acting_as(identity).call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

pub(crate) async fn post(
    server: &Server,
    identity: Identity,
    path: &str,
    content: &str,
) -> (u16, Value) {
    send(server, identity, (Method::POST, path), content).await
}

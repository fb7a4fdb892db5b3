//! A program of somebody else that the server calls over HTTPS.

use std::sync::Arc;

use base64::Engine;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::pki::certificate::{Authority, LeafRequest, dns_name};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Where it is, and by which authority it can be trusted.
pub(crate) struct Program {
    pub(crate) port: u16,
    pub(crate) bundle: String,
}

type Answer = Arc<dyn Fn(&str, Value) -> Value + Send + Sync>;

impl Program {
    /// Starts a program that answers a path and a JSON body with JSON. It is known as `localhost` and by
    /// the names of Services in the namespace `default`.
    pub(crate) async fn start(
        answer: impl Fn(&str, Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        let (acceptor, bundle) = identity();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener, acceptor, Arc::new(answer)));
        Self { port, bundle }
    }

    /// How a configuration names it.
    pub(crate) fn client(&self, path: &str) -> Value {
        json!({"url": format!("https://localhost:{}{path}", self.port), "caBundle": self.bundle})
    }
}

/// A serving certificate for `localhost` and the Services of the namespace `default`, and the bundle to trust it by.
pub(crate) fn identity() -> (TlsAcceptor, String) {
    let key = Authority::generate_key().unwrap();
    let (begin, end) =
        ("2025-01-01T00:00:00Z".parse().unwrap(), "2099-01-01T00:00:00Z".parse().unwrap());
    let authority = Authority::self_signed("hooks", &key, begin, end).unwrap();
    let names = [dns_name("localhost").unwrap(), dns_name("*.default.svc").unwrap()];
    let leaf = authority
        .issue_leaf(&LeafRequest {
            common_name: "hook",
            organizations: &[],
            usage: der::oid::db::rfc5280::ID_KP_SERVER_AUTH,
            alternative_names: &names,
            not_before: begin,
            not_after: end,
        })
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.certificate.clone()], key)
        .unwrap();
    let bundle = base64::engine::general_purpose::STANDARD.encode(authority.certificate_pem());
    (TlsAcceptor::from(Arc::new(config)), bundle)
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, answer: Answer) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let answer = answer.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let answer = answer(&path, serde_json::from_slice(&body).unwrap());
                    let body = Full::new(Bytes::from(answer.to_string()));
                    Ok::<_, std::convert::Infallible>(Response::new(body))
                }
            });
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

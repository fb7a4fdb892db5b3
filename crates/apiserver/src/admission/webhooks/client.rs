//! Calls to webhooks over HTTPS: a URL or a Service, trusted by the bundle that comes with it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::auth::Objects;
use crate::services;

/// The largest answer that is read.
const MAX_ANSWER: usize = 3 << 20;

/// Calls webhooks. Trust is worked out once per bundle.
#[derive(Default)]
pub(crate) struct Client {
    trust: Mutex<HashMap<String, Arc<ClientConfig>>>,
}

/// Where a webhook is.
struct Endpoint {
    /// The URL as errors show it.
    url: String,
    /// Whom to connect to, and whose certificate to expect.
    address: (String, u16),
    server_name: String,
    path: String,
}

impl Client {
    /// Posts a review and returns the parsed answer; an error is the text that explains it.
    pub(crate) async fn post(
        &self,
        objects: &dyn Objects,
        config: &Value,
        review: &Value,
        limit: Duration,
    ) -> Result<Value, String> {
        let endpoint = endpoint(objects, config)?;
        let sign = if endpoint.path.contains('?') { '&' } else { '?' };
        let timeout = format!("{sign}timeout={}s", limit.as_secs());
        let shown = format!("Post \"{}{timeout}\"", endpoint.url);
        let trust = self.trust(config.str_at(&["caBundle"]).unwrap_or_default())?;
        let path = format!("{}{timeout}", endpoint.path);
        let call = exchange(&endpoint, trust, path, review.to_string());
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => answer.map_err(|why| format!("{shown}: {why}")),
            Err(_) => Err(format!("{shown}: context deadline exceeded")),
        }
    }

    /// How certificates are judged: by a bundle, else by what the machine trusts.
    fn trust(&self, bundle: &str) -> Result<Arc<ClientConfig>, String> {
        if let Some(known) = self.trust.lock().get(bundle) {
            return Ok(known.clone());
        }
        let mut roots = RootCertStore::empty();
        if bundle.is_empty() {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        } else {
            let pem = base64::engine::general_purpose::STANDARD.decode(bundle);
            let pem = pem.map_err(|error| format!("read caBundle: {error}"))?;
            let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
            roots.add_parsable_certificates(certificates);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let config = Arc::new(config);
        self.trust.lock().insert(bundle.to_owned(), config.clone());
        Ok(config)
    }
}

async fn exchange(
    endpoint: &Endpoint,
    trust: Arc<ClientConfig>,
    path: String,
    content: String,
) -> Result<Value, String> {
    let (host, port) = (&endpoint.address.0, endpoint.address.1);
    let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {host}:{port}: {why}")
    })?;
    let name = ServerName::try_from(endpoint.server_name.clone()).map_err(|e| e.to_string())?;
    let stream = TlsConnector::from(trust)
        .connect(name, stream)
        .await
        .map_err(|error| format!("tls: failed to verify certificate: {error}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
    let driver = tokio::spawn(connection);
    let request = Request::post(path)
        .header(HOST, format!("{}:{port}", endpoint.server_name))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(content)))
        .map_err(|error| error.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let code = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let bytes = body.map_err(|error| error.to_string())?.to_bytes();
        if !code.is_success() {
            return Err(format!("the server returned {code}"));
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
    };
    let answer = answer.await;
    driver.abort();
    answer
}

fn endpoint(objects: &dyn Objects, config: &Value) -> Result<Endpoint, String> {
    if let Some(url) = config.str_at(&["url"]) {
        let uri: Uri = url.parse().map_err(|_| format!("invalid URL {url}"))?;
        let host = uri.host().ok_or("the URL has no host")?.trim_matches(['[', ']']).to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let address = (host.clone(), uri.port_u16().unwrap_or(443));
        return Ok(Endpoint { url: url.to_owned(), address, server_name: host, path });
    }
    let service = config.at(&["service"]).ok_or("neither url nor service is given")?;
    let text = |key: &str| service.str_at(&[key]).unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let port = service.i64_at(&["port"]).and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
    let path = if text("path").is_empty() { "/" } else { text("path") };
    let server_name = format!("{name}.{namespace}.svc");
    Ok(Endpoint {
        url: format!("https://{server_name}:{port}{path}"),
        address: services::resolve(objects, (namespace, name), port)?,
        server_name,
        path: path.to_owned(),
    })
}

//! The generator's side of the wire: HTTP/2 over TLS as an administrator, with windows large enough that
//! the servers are measured and not the generator.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(super) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Where a server is, and what proves both sides to each other.
#[derive(Clone)]
pub(super) struct Address {
    port: u16,
    tls: Arc<ClientConfig>,
}

/// One connection. Clones share it.
#[derive(Clone)]
pub(super) struct Wire {
    sender: http2::SendRequest<Full<Bytes>>,
    authority: String,
}

/// How an answer came.
pub(super) struct Answer {
    pub(super) body: Bytes,
    pub(super) first_byte: Duration,
    pub(super) whole: Duration,
}

impl Address {
    /// Reads the administrator's kubeconfig.
    pub(super) fn read(kubeconfig: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let word = |key: &str| {
            let after = text.split_once(&format!("{key}: ")).map(|(_, after)| after);
            let word = after.and_then(|after| after.split_whitespace().next());
            word.with_context(|| format!("find {key} in the kubeconfig"))
        };
        let entry =
            |key: &str| STANDARD.decode(word(key)?).with_context(|| format!("decode {key}"));
        let port = word("server")?.rsplit(':').next().unwrap_or_default();
        let port = port.parse().context("find the port in the kubeconfig")?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&entry("certificate-authority-data")?)?)?;
        let own = CertificateDer::from_pem_slice(&entry("client-certificate-data")?)?;
        let key = PrivateKeyDer::from_pem_slice(&entry("client-key-data")?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![own], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { port, tls: Arc::new(tls) })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Wire> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST));
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        // It ends with its server or with the last sender; requests on it tell which.
        tokio::spawn(connection);
        Ok(Wire { sender, authority: format!("127.0.0.1:{}", self.port) })
    }

    /// Connections for this many clients: a few of them share one, as those of a process do.
    pub(super) async fn connect_for(
        &self,
        clients: usize,
        sharing: usize,
    ) -> anyhow::Result<Vec<Wire>> {
        let mut wires = Vec::new();
        for _ in 0..clients.div_ceil(sharing) {
            wires.push(self.connect().await?);
        }
        Ok((0..clients).map(|client| wires[client % wires.len()].clone()).collect())
    }
}

/// What is asked of a server.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
}

impl Ask {
    pub(super) fn get(path: impl Into<String>) -> Self {
        let (method, content_type, body) = (Method::GET, JSON, Bytes::new());
        Self { method, path: path.into(), content_type, body }
    }

    pub(super) fn post(path: impl Into<String>, body: String) -> Self {
        let (method, content_type) = (Method::POST, JSON);
        Self { method, path: path.into(), content_type, body: body.into() }
    }

    pub(super) fn patch(path: String, content_type: &'static str, body: String) -> Self {
        Self { method: Method::PATCH, path, content_type, body: body.into() }
    }
}

impl Wire {
    /// Sends a request and returns with the head of its answer.
    pub(super) async fn open(&mut self, ask: Ask) -> anyhow::Result<Response<Incoming>> {
        let what = format!("{} {}", ask.method, ask.path);
        let request = Request::builder()
            .method(ask.method)
            .uri(format!("https://{}{}", self.authority, ask.path))
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, ask.content_type)
            .body(Full::new(ask.body))?;
        self.sender.send_request(request).await.with_context(|| what)
    }

    /// Sends a request and reads its answer, which must be a good one.
    pub(super) async fn ask(&mut self, ask: Ask) -> anyhow::Result<Answer> {
        let (what, began) = (format!("{} {}", ask.method, ask.path), Instant::now());
        let response = self.open(ask).await?;
        let status = response.status();
        let (mut first_byte, mut parts) = (None, Vec::new());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            first_byte.get_or_insert_with(|| began.elapsed());
            if let Ok(data) = frame.with_context(|| what.clone())?.into_data() {
                parts.push(data);
            }
        }
        let whole = began.elapsed();
        let body = match parts.len() {
            1 => parts.remove(0),
            _ => parts.concat().into(),
        };
        let text = || String::from_utf8_lossy(&body).into_owned();
        anyhow::ensure!(status.is_success(), "{what}: {status}: {}", text());
        Ok(Answer { body, first_byte: first_byte.unwrap_or(whole), whole })
    }
}

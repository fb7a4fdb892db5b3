//! HTTP/1.1 over TLS, with and without the client certificate.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::server::Server;

const CLIENT: &str = "golden/1.0";
const PATIENCE: Duration = Duration::from_secs(300);

/// A raw answer.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

/// A request as a recording gives it.
pub(super) struct Asked {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
}

pub(super) struct Transport {
    port: u16,
    with_certificate: TlsConnector,
    without: TlsConnector,
    open: [Option<SendRequest<Full<Bytes>>>; 2],
}

impl Transport {
    pub(super) fn new(server: &Server) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        for cert in CertificateDer::pem_slice_iter(server.ca_pem.as_bytes()) {
            roots.add(cert.expect("read the authority")).expect("trust the authority");
        }
        let builder = || {
            rustls::ClientConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .expect("configure TLS")
                .with_root_certificates(roots.clone())
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(server.certificate_pem.as_bytes())
            .collect::<Result<_, _>>()
            .expect("read the client certificate");
        let key = PrivateKeyDer::from_pem_slice(server.key_pem.as_bytes()).expect("read the key");
        let with = builder().with_client_auth_cert(chain, key).expect("use the client certificate");
        let without = builder().with_no_client_auth();
        Self {
            port: server.port,
            with_certificate: TlsConnector::from(Arc::new(with)),
            without: TlsConnector::from(Arc::new(without)),
            open: [None, None],
        }
    }

    async fn connect(&self, anonymous: bool) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("connect");
        let connector = if anonymous { &self.without } else { &self.with_certificate };
        let name = ServerName::try_from("localhost").expect("localhost is a name");
        let stream = connector.connect(name, stream).await.expect("TLS handshake");
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.expect("HTTP handshake");
        tokio::spawn(async move {
            let _ = connection.with_upgrades().await;
        });
        sender
    }

    /// Sends a request and reads the whole answer; a connection the server closed is made anew.
    pub(super) async fn call(&mut self, asked: &Asked, anonymous: bool) -> Answer {
        for attempt in 0..2 {
            let slot = usize::from(anonymous);
            let mut sender = match self.open[slot].take() {
                Some(sender) if !sender.is_closed() => sender,
                _ => self.connect(anonymous).await,
            };
            let sent = tokio::time::timeout(PATIENCE, sender.send_request(request(asked))).await;
            let response = match sent.expect("the server answers in time") {
                Ok(response) => response,
                Err(_) if attempt == 0 => continue,
                Err(error) => panic!("{} {}: {error}", asked.method, asked.path),
            };
            let answer = collect(response).await;
            self.open[slot] = Some(sender);
            return answer;
        }
        unreachable!("the second attempt returns or panics")
    }

    /// Opens a stream on a connection of its own.
    pub(super) async fn stream(
        &self,
        asked: &Asked,
        anonymous: bool,
    ) -> (SendRequest<Full<Bytes>>, Response<Incoming>) {
        let mut sender = self.connect(anonymous).await;
        let response = sender.send_request(request(asked)).await.expect("open a stream");
        (sender, response)
    }
}

pub(super) fn headers_of<B>(response: &Response<B>) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

pub(super) async fn collect(response: Response<Incoming>) -> Answer {
    let (code, headers) = (response.status().as_u16(), headers_of(&response));
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    Answer { code, headers, body }
}

fn request(asked: &Asked) -> Request<Full<Bytes>> {
    let mut builder = Request::builder()
        .method(asked.method.as_str())
        .uri(asked.path.as_str())
        .header("Host", "localhost");
    if !asked.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        builder = builder.header("User-Agent", CLIENT);
    }
    for (name, value) in &asked.headers {
        builder = builder.header(name.as_str(), value.as_bytes());
    }
    let body = asked.body.clone().unwrap_or_default();
    builder.body(Full::new(Bytes::from(body))).expect("a recorded request is valid")
}

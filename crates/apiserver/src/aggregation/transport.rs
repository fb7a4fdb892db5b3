//! Connections to other servers: where their Service leads, with the certificate of the front proxy,
//! trusted by what their APIService says.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::authorities::Authorities;
use super::{headers, refusal, resolver};
use crate::auth::{Identity, Objects};
use crate::http::body;
use crate::http::relay::{self, Way};
use crate::pki::certificate::Leaf;
use crate::registry::Place;
use crate::services;

/// How long a server may take to be reached and to answer a question of this server.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Compat: what is said of a server that does not answer in time, and of one that is not even reached.
const LATE: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
const UNREACHED: &str = "net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)";

/// How many ways of trusting are remembered.
const REMEMBERED: usize = 64;

/// The certificate this server shows to others at present, if it has one.
pub type ProxyClient = Arc<dyn Fn() -> Option<Arc<Leaf>> + Send + Sync>;

/// Bundle, whether certificates are not verified, and the certificate that is shown.
type Trusting = (String, bool, Option<CertificateDer<'static>>);

pub(crate) struct Dialer {
    client: ProxyClient,
    known: Mutex<HashMap<Trusting, Arc<ClientConfig>>>,
}

/// An answer of another server, read whole.
pub(super) struct Fetched {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Bytes,
}

impl Fetched {
    pub(super) fn header(&self, name: http::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn content_type(&self) -> &str {
        self.header(CONTENT_TYPE)
    }

    pub(super) fn tag(&self) -> &str {
        self.header(ETAG)
    }
}

/// A question this server asks on its own behalf.
pub(super) struct Question<'a> {
    pub(super) path: &'a str,
    pub(super) accept: &'static str,
    /// What is known already.
    pub(super) tag: &'a str,
    /// The largest answer that is read.
    pub(super) limit: usize,
    pub(super) patience: Duration,
}

impl Dialer {
    pub(crate) fn new(client: ProxyClient) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// Connects to where a Service leads; errors are the texts people know from Kubernetes.
    pub(super) async fn dial(&self, objects: &dyn Objects, place: &Place) -> Result<Way, String> {
        let (host, port) = services::resolve(objects, (&place.namespace, &place.name), place.port)?;
        let config = self.trust(place)?;
        let stream = connect(&host, port).await?;
        let name = format!("{}.{}.svc", place.name, place.namespace);
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| refusal::in_words(&error))?;
        Way::over(stream, authority(&host, port)).await.map_err(|error| error.to_string())
    }

    /// Asks a server as this server, for a bounded time and size.
    pub(super) async fn ask(
        &self,
        objects: &dyn Objects,
        place: &Place,
        question: &Question<'_>,
    ) -> Result<Fetched, String> {
        let deadline = Instant::now() + question.patience;
        let dialled = tokio::time::timeout_at(deadline, self.dial(objects, place)).await;
        let way = dialled.unwrap_or_else(|_| Err(UNREACHED.to_owned()))?;
        let exchange = async {
            let mut request = Request::new(body::empty());
            *request.uri_mut() = question.path.parse().map_err(|_| "invalid path".to_owned())?;
            let asked = request.headers_mut();
            asked.insert(ACCEPT, HeaderValue::from_static(question.accept));
            if let Ok(tag) = HeaderValue::from_str(question.tag)
                && !question.tag.is_empty()
            {
                asked.insert(IF_NONE_MATCH, tag);
            }
            let own = Identity::new("system:kube-aggregator", ["system:masters"]);
            headers::identify(asked, &own).map_err(|status| status.message)?;
            let response = way.send(request).await.map_err(|error| match error {
                relay::Error::Http(error) if error.is_incomplete_message() => "EOF".to_owned(),
                error => error.to_string(),
            })?;
            let (parts, content) = response.into_parts();
            let bytes = Limited::new(content, question.limit).collect().await.map_err(|error| {
                match error.is::<LengthLimitError>() {
                    true => format!("the answer is larger than {} bytes", question.limit),
                    false => error.to_string(),
                }
            })?;
            let (status, headers) = (parts.status, parts.headers);
            Ok(Fetched { status, headers, bytes: bytes.to_bytes() })
        };
        match tokio::time::timeout_at(deadline, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(LATE.to_owned()),
        }
    }

    fn trust(&self, place: &Place) -> Result<Arc<ClientConfig>, String> {
        let leaf = (self.client)();
        let shown = leaf.as_ref().map(|leaf| leaf.certificate.clone());
        let key = (place.bundle.clone(), place.is_unverified, shown);
        if let Some(known) = self.known.lock().get(&key) {
            return Ok(known.clone());
        }
        let config = Arc::new(configure(place, leaf.as_deref())?);
        let mut known = self.known.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, config.clone());
        Ok(config)
    }
}

/// Connects to the first address of a host that takes connections; the error is that of the first.
async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<SocketAddr> =
        found.map_err(|error| resolver::in_words(host, &error))?.collect();
    let mut refused = None;
    for address in &addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = refused.or(Some((address, error))),
        }
    }
    Err(match refused {
        None => resolver::unknown(host),
        Some((address, error)) => match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("dial tcp {address}: connect: connection refused")
            }
            io::ErrorKind::TimedOut => format!("dial tcp {address}: i/o timeout"),
            _ => format!("dial tcp {address}: {error}"),
        },
    })
}

/// `host:port` with the brackets an IPv6 address needs.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn configure(place: &Place, leaf: Option<&Leaf>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if place.is_unverified {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider)))
    } else if place.bundle.is_empty() {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        builder.with_root_certificates(roots)
    } else {
        let authorities = authorities(&place.bundle, provider)?;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(authorities))
    };
    let mut config = match leaf {
        None => builder.with_no_client_auth(),
        Some(leaf) => {
            let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes())
                .map_err(|error| format!("read the key of the front proxy: {error}"))?;
            builder
                .with_client_auth_cert(vec![leaf.certificate.clone()], key)
                .map_err(|error| error.to_string())?
        }
    };
    // Only HTTP/1.1 connections can be switched to another protocol.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn authorities(bundle: &str, provider: Arc<CryptoProvider>) -> Result<Authorities, String> {
    let pem = base64::engine::general_purpose::STANDARD.decode(bundle);
    let pem = pem.map_err(|error| format!("read caBundle: {error}"))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
    let authorities = Authorities::new(certificates, provider);
    authorities
        .ok_or_else(|| "unable to load root certificates: no certificate in caBundle".to_owned())
}

/// Takes any certificate, as `insecureSkipTLSVerify` asks for.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

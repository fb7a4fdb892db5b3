//! Connections to members for requests that are passed on: one TLS connection per request, with
//! HTTP/1.1 on it so that it can be switched to another protocol.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use karmada_api::cluster::{Cluster, SECRET_CA_BUNDLE_KEY};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::http::body::Body;
use kube::client::ConfigExt as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The longest answer of a proxy to a request for a tunnel.
const TUNNEL_ANSWER: usize = 8 << 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the endpoint {0} is no address")]
    Endpoint(String),
    #[error("certificates: {0}")]
    Certificates(String),
    #[error("dial {address}: {source}")]
    Dial { address: String, source: io::Error },
    #[error("the proxy {proxy} refused the tunnel: {answer}")]
    Tunnel { proxy: String, answer: String },
    #[error("proxies over {0} are not supported")]
    ProxyScheme(String),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("invalid upgrade response: status code {0}")]
    NoUpgrade(u16),
}

/// An open connection to a member.
pub(super) struct Way {
    sender: SendRequest<Body>,
    authority: String,
}

/// Connects to the endpoint of a cluster.
pub(super) async fn open(cluster: &Cluster, secret: Option<&Value>) -> Result<Way, Error> {
    let endpoint = &cluster.spec.api_endpoint;
    let refuse = || Error::Endpoint(endpoint.clone());
    let url: http::Uri = endpoint.parse().map_err(|_| refuse())?;
    let host = url.host().ok_or_else(refuse)?.to_owned();
    let is_plain = url.scheme_str() == Some("http");
    let port = url.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    let authority = format!("{host}:{port}");
    let stream = reach(cluster, &authority).await?;
    let sender = if is_plain {
        shake_hands(stream).await?
    } else {
        let tls = TlsConnector::from(std::sync::Arc::new(tls_config(url, cluster, secret)?));
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|_| refuse())?;
        let dialled = tls.connect(name, stream).await;
        shake_hands(dialled.map_err(|source| Error::Dial { address: authority.clone(), source })?)
            .await?
    };
    Ok(Way { sender, authority })
}

async fn shake_hands<S>(stream: S) -> Result<SendRequest<Body>, Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the exchange it is for.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

fn tls_config(
    url: http::Uri,
    cluster: &Cluster,
    secret: Option<&Value>,
) -> Result<rustls::ClientConfig, Error> {
    let mut config = kube::Config::new(url);
    config.accept_invalid_certs = cluster.spec.insecure_skip_tls_verification;
    let bundle = secret.and_then(|secret| secret.str_at(&["data", SECRET_CA_BUNDLE_KEY]));
    if let Some(pem) = bundle.and_then(|text| BASE64.decode(text).ok()) {
        let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
        config.root_cert = Some(certificates.map(|der| der.as_ref().to_vec()).collect());
    }
    let mut tls =
        config.rustls_client_config().map_err(|error| Error::Certificates(error.to_string()))?;
    // Only HTTP/1.1 connections can be switched to another protocol.
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}

/// Opens the TCP connection, through the proxy of the cluster if it has one.
async fn reach(cluster: &Cluster, authority: &str) -> Result<TcpStream, Error> {
    let dial = async |address: String| {
        let stream = TcpStream::connect(&address).await;
        stream.map_err(|source| Error::Dial { address, source })
    };
    let proxy = &cluster.spec.proxy_url;
    if proxy.is_empty() {
        return dial(authority.to_owned()).await;
    }
    let refuse = || Error::Endpoint(proxy.clone());
    let url: http::Uri = proxy.parse().map_err(|_| refuse())?;
    if url.scheme_str() != Some("http") {
        return Err(Error::ProxyScheme(url.scheme_str().unwrap_or_default().to_owned()));
    }
    let host = url.host().ok_or_else(refuse)?;
    let address = format!("{host}:{}", url.port_u16().unwrap_or(80));
    let mut stream = dial(address.clone()).await?;
    let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    for (name, values) in &cluster.spec.proxy_header {
        for value in values.split(',') {
            head.push_str(&format!("{name}: {}\r\n", value.trim()));
        }
    }
    head.push_str("\r\n");
    let answer = ask_for_tunnel(&mut stream, &head).await;
    let answer = answer.map_err(|source| Error::Dial { address: address.clone(), source })?;
    match answer.split(' ').nth(1) {
        Some(code) if code.starts_with('2') => Ok(stream),
        _ => Err(Error::Tunnel { proxy: proxy.clone(), answer }),
    }
}

/// Returns the first line of the answer.
async fn ask_for_tunnel(stream: &mut TcpStream, head: &str) -> io::Result<String> {
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to the tunnel.
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < TUNNEL_ANSWER {
        answer.push(stream.read_u8().await?);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

/// Sends a request and returns its answer, whose body may take as long as it likes.
pub(super) async fn send(
    mut way: Way,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    address(&mut request, &way.authority);
    for name in [header::CONNECTION, header::UPGRADE, header::TE, header::TRANSFER_ENCODING] {
        request.headers_mut().remove(name);
    }
    let mut response = way.sender.send_request(request).await?.map(relay);
    for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
        response.headers_mut().remove(name);
    }
    Ok(response)
}

/// Switches both connections to the protocol the client asks for, if the member agrees.
pub(super) async fn switch(
    mut way: Way,
    mut request: Request<Body>,
    client: OnUpgrade,
) -> Result<Response<Body>, Error> {
    address(&mut request, &way.authority);
    let mut response = way.sender.send_request(request).await?;
    let status = response.status();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        if status.as_u16() < 400 {
            return Err(Error::NoUpgrade(status.as_u16()));
        }
        return Ok(response.map(relay));
    }
    let member = hyper::upgrade::on(&mut response);
    tokio::spawn(async move {
        let (client, member) = match tokio::try_join!(client, member) {
            Ok(both) => both,
            Err(error) => {
                tracing::debug!(%error, "the connection was not switched");
                return;
            }
        };
        let (mut client, mut member) = (TokioIo::new(client), TokioIo::new(member));
        if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut member).await {
            tracing::debug!(%error, "a switched connection ended");
        }
    });
    let (parts, _) = response.into_parts();
    Ok(Response::from_parts(parts, karmada_apiserver::http::body::empty()))
}

fn address(request: &mut Request<Body>, authority: &str) {
    if let Ok(host) = HeaderValue::from_str(authority) {
        request.headers_mut().insert(header::HOST, host);
    }
    *request.version_mut() = http::Version::HTTP_11;
}

fn relay(body: hyper::body::Incoming) -> Body {
    body.map_err(io::Error::other).boxed_unsync()
}

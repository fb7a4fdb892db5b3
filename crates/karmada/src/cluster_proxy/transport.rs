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
use karmada_client::tunnel::{Channel, Proxy, TunnelError};
use kube::client::ConfigExt as _;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the endpoint {0} is no address")]
    Endpoint(String),
    #[error("certificates: {0}")]
    Certificates(String),
    #[error("dial {address}: {source}")]
    Dial { address: String, source: io::Error },
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
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
    let name = host.trim_matches(['[', ']']).to_owned();
    let stream = reach(cluster, &name, port).await?;
    let sender = if is_plain {
        shake_hands(stream).await?
    } else {
        let tls = TlsConnector::from(std::sync::Arc::new(tls_config(url, cluster, secret)?));
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
async fn reach(cluster: &Cluster, host: &str, port: u16) -> Result<Box<dyn Channel>, Error> {
    let url = &cluster.spec.proxy_url;
    if !url.is_empty() {
        return Ok(Proxy::new(url, &cluster.spec.proxy_header)?.connect(host, port).await?);
    }
    match TcpStream::connect((host, port)).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(source) => Err(Error::Dial { address: format!("{host}:{port}"), source }),
    }
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

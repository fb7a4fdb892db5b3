//! Connections to members for requests that are passed on: one TLS connection per request.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use karmada_api::cluster::{Cluster, SECRET_CA_BUNDLE_KEY};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::http::relay::{self, Way};
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
    #[error(transparent)]
    Relay(#[from] relay::Error),
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
    if is_plain {
        return Ok(Way::over(stream, authority).await?);
    }
    let tls = TlsConnector::from(std::sync::Arc::new(tls_config(url, cluster, secret)?));
    let name = ServerName::try_from(name).map_err(|_| refuse())?;
    let dialled = tls.connect(name, stream).await;
    let dialled = dialled.map_err(|source| Error::Dial { address: authority.clone(), source })?;
    Ok(Way::over(dialled, authority).await?)
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

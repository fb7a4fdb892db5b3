//! The server side of TLS: a certificate that can be swapped while connections come in, and client
//! certificates taken as offered. Whether they are trusted is decided per request, so that a client with a
//! stale certificate and a good token still gets in.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use super::certificate::Leaf;

/// The certificate the server shows, exchangeable at any time.
#[derive(Debug)]
pub struct ServingCertificate {
    current: ArcSwap<CertifiedKey>,
}

impl ServingCertificate {
    pub fn new(leaf: &Leaf) -> Result<Self, rustls::Error> {
        Ok(Self { current: ArcSwap::from_pointee(certified(leaf)?) })
    }

    pub fn replace(&self, leaf: &Leaf) -> Result<(), rustls::Error> {
        self.current.store(Arc::new(certified(leaf)?));
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn certified(leaf: &Leaf) -> Result<CertifiedKey, rustls::Error> {
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.as_bytes())
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    CertifiedKey::from_der(vec![leaf.certificate.clone()], key, &provider())
}

fn provider() -> CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}

/// TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, client certificates optional; `hints` tells clients whose
/// certificates are of use.
pub fn server_config(
    serving: Arc<ServingCertificate>,
    hints: Vec<DistinguishedName>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(provider());
    let offered = Arc::new(OfferedCertificates { provider: provider.clone(), hints });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(offered)
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Takes any client certificate whose key the client proves to hold.
#[derive(Debug)]
struct OfferedCertificates {
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for OfferedCertificates {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

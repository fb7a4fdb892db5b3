//! How a client of etcd proves itself and knows the servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::{Error, Result};

/// Files to prove oneself with and to know servers by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities of the servers' certificates; those of the system without it.
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// Reads the files once; they are read again when the process starts anew.
pub(super) fn configure(files: &TlsFiles) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, error))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::io("configure TLS for etcd", error))?
        .with_root_certificates(roots);
    let mut config = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let private = PrivateKeyDer::from_pem_slice(&content(key)?)
                .map_err(|error| unusable(key, error))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, private)
                .map_err(|error| unusable(certificate, error))?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn content(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io(format!("read {}", path.display()), error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let content = content(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    let certificates = read.map_err(|error| unusable(path, error))?;
    if certificates.is_empty() {
        return Err(unusable(path, std::io::Error::other("there is no certificate in it")));
    }
    Ok(certificates)
}

fn unusable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::io(format!("use {} for connections to etcd", path.display()), error)
}

//! The serving certificate as files that others renew: read anew when they change, kept as it is when the
//! change makes no sense.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// The oldest TLS to speak. Compat: 1.0 and 1.1 may be asked for, but nothing older than 1.2 is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum MinVersion {
    #[value(name = "1.0")]
    Tls10,
    #[value(name = "1.1")]
    Tls11,
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

/// When the files were written last; enough to see that they changed.
type Stamp = [Option<(SystemTime, u64)>; 2];

#[derive(Debug)]
pub(super) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    current: ArcSwap<CertifiedKey>,
    /// Of the last attempt to read, so that files which make no sense are complained about once.
    tried: ArcSwap<Stamp>,
}

impl Certificate {
    pub(super) fn load(chain: PathBuf, key: PathBuf) -> anyhow::Result<Self> {
        let tried = stamp(&chain, &key);
        let current = read(&chain, &key)?;
        Ok(Self {
            chain,
            key,
            current: ArcSwap::from_pointee(current),
            tried: ArcSwap::from_pointee(tried),
        })
    }

    /// Reads the files again if they changed. Called for every connection, which are few and long.
    pub(super) fn refresh(&self) {
        let now = stamp(&self.chain, &self.key);
        if **self.tried.load() == now {
            return;
        }
        self.tried.store(Arc::new(now));
        match read(&self.chain, &self.key) {
            Ok(certificate) => {
                self.current.store(Arc::new(certificate));
                tracing::info!(file = %self.chain.display(), "serving certificate renewed");
            }
            // One file may be written before the other.
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "keep the serving certificate");
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn stamp(chain: &Path, key: &Path) -> Stamp {
    [chain, key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn read(chain: &Path, key: &Path) -> anyhow::Result<CertifiedKey> {
    let certificates: Vec<_> = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect)
        .with_context(|| format!("read the serving certificate {}", chain.display()))?;
    anyhow::ensure!(!certificates.is_empty(), "{} holds no certificate in PEM", chain.display());
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("read the key of the serving certificate {}", key.display()))?;
    CertifiedKey::from_der(certificates, private, &aws_lc_rs::default_provider())
        .with_context(|| format!("use {} with {}", chain.display(), key.display()))
}

/// HTTP/2 and HTTP/1.1 over TLS, without client certificates.
pub(super) fn server_config(
    certificate: Arc<Certificate>,
    oldest: MinVersion,
) -> anyhow::Result<Arc<ServerConfig>> {
    let versions = match oldest {
        MinVersion::Tls13 => vec![&TLS13],
        _ => vec![&TLS13, &TLS12],
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&versions)?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

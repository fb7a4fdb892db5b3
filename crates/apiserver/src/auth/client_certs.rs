//! Client certificates: is the chain signed by a trusted authority for client use, and whom does it name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};

use super::{Identity, PeerCerts, service_account};

/// Subject attribute that carries the user's uid.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// How long an accepted chain is taken as still valid on the same connection.
const TRUST_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read trusted authorities")]
    Authorities(#[source] rustls::Error),
    #[error("build the verifier of client certificates")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
    #[error("no certificate")]
    Missing,
    #[error("verify the client certificate")]
    Untrusted(#[source] rustls::Error),
    #[error("read the client certificate: {0}")]
    Malformed(String),
}

/// The last finding about a connection's chain, and which authorities it was made with.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<Option<(u64, Timestamp, Subject)>>);

/// Whom a certificate names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub uid: String,
    fingerprint: String,
}

impl Subject {
    /// Reads the subject of a certificate without trusting it.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<Self, Error> {
        let malformed = |error: &dyn std::fmt::Display| Error::Malformed(error.to_string());
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|e| malformed(&e))?;
        let (common_name, organizations, uid) = names(parsed.subject())?;
        let digest = Sha256::digest(certificate);
        let fingerprint = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { common_name, organizations, uid, fingerprint })
    }

    fn into_identity(self) -> Identity {
        let credential = format!("X509SHA256={}", self.fingerprint);
        Identity {
            user: self.common_name,
            uid: self.uid,
            groups: self.organizations,
            extra: [(service_account::CREDENTIAL_ID.to_owned(), vec![credential])].into(),
        }
    }
}

/// The common name (the last one counts), the organizations in order, and the uid.
fn names(subject: &X509Name<'_>) -> Result<(String, Vec<String>, String), Error> {
    let (mut common_name, mut organizations, mut uids) = (String::new(), Vec::new(), Vec::new());
    for attribute in subject.iter_attributes() {
        let oid = attribute.attr_type().to_id_string();
        let list: &mut Vec<String> = match oid.as_str() {
            "2.5.4.3" => {
                common_name = text(attribute)?;
                continue;
            }
            "2.5.4.10" => &mut organizations,
            UID_OID => &mut uids,
            _ => continue,
        };
        list.push(text(attribute)?);
    }
    match uids.as_slice() {
        [] => Ok((common_name, organizations, String::new())),
        [uid] if !uid.is_empty() => Ok((common_name, organizations, uid.clone())),
        _ => Err(Error::Malformed("expected one uid that is not empty".to_owned())),
    }
}

fn text(attribute: &x509_parser::x509::AttributeTypeAndValue<'_>) -> Result<String, Error> {
    attribute.as_str().map(str::to_owned).map_err(|error| Error::Malformed(error.to_string()))
}

/// Authorities whose client certificates are accepted.
#[derive(Debug)]
pub struct ClientCerts {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Tells apart which authorities a remembered finding was made with.
    generation: u64,
}

impl ClientCerts {
    pub fn new(authorities: &[CertificateDer<'static>]) -> Result<Self, Error> {
        static GENERATION: AtomicU64 = AtomicU64::new(1);
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority.clone()).map_err(Error::Authorities)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider)
            .build()
            .map_err(Error::Verifier)?;
        Ok(Self { verifier, generation: GENERATION.fetch_add(1, Ordering::Relaxed) })
    }

    /// Returns the subject of the presented certificate once its chain holds at `now`.
    pub fn verify(&self, peer: &PeerCerts, now: Timestamp) -> Result<Subject, Error> {
        let mut memo = peer.verified.0.lock();
        if let Some((generation, until, subject)) = &*memo
            && *generation == self.generation
            && now < *until
        {
            return Ok(subject.clone());
        }
        let (leaf, intermediates) = peer.chain.split_first().ok_or(Error::Missing)?;
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        self.verifier.verify_client_cert(leaf, intermediates, time).map_err(Error::Untrusted)?;
        let subject = Subject::read(leaf)?;
        let until = now.checked_add(TRUST_FOR).unwrap_or(now);
        *memo = Some((self.generation, until, subject.clone()));
        Ok(subject)
    }

    /// The user behind the certificate; none if it has no common name.
    pub fn authenticate(
        &self,
        peer: &PeerCerts,
        now: Timestamp,
    ) -> Result<Option<Identity>, Error> {
        let subject = self.verify(peer, now)?;
        Ok((!subject.common_name.is_empty()).then(|| subject.into_identity()))
    }
}

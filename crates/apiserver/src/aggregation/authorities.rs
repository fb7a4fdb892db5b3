//! The authorities an APIService names, as Kubernetes trusts them: those that are out of date count for
//! nothing, and one whose name is right and whose key is not is mentioned.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

/// Verifies servers by some authorities.
#[derive(Debug)]
pub(super) struct Authorities {
    all: Vec<Authority>,
    /// Trusts all of them.
    whole: Arc<WebPkiServerVerifier>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct Authority {
    certificate: CertificateDer<'static>,
    /// The encoded name.
    subject: Vec<u8>,
    /// What people call it.
    name: String,
    /// What is said when something was not signed with its key.
    mismatch: &'static str,
    not_before: u64,
    not_after: u64,
}

/// Why a certificate is refused, in words of Kubernetes that rustls has none for.
#[derive(Debug, thiserror::Error)]
#[error(
    "certificate signed by unknown authority (possibly because of \"{mismatch}\" while trying to verify candidate authority certificate \"{name}\")"
)]
struct Imitation {
    mismatch: &'static str,
    name: String,
}

impl Authorities {
    /// Nothing if none of the certificates can be used.
    pub(super) fn new(
        certificates: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Option<Self> {
        let all: Vec<Authority> = certificates.into_iter().filter_map(Authority::read).collect();
        let whole = verifier(&all.iter().collect::<Vec<_>>(), &provider)?;
        Some(Self { all, whole, provider })
    }

    fn at(&self, now: UnixTime) -> Option<Arc<WebPkiServerVerifier>> {
        let valid: Vec<&Authority> =
            self.all.iter().filter(|authority| authority.lapse(now).is_none()).collect();
        match valid.len() == self.all.len() {
            true => Some(self.whole.clone()),
            false => verifier(&valid, &self.provider),
        }
    }

    /// Says more of a certificate whose authority is not known, if an authority has the name of its issuer.
    fn explain(&self, error: Error, chain: &[&CertificateDer<'_>], now: UnixTime) -> Error {
        use CertificateError::{BadSignature, UnknownIssuer};
        let (Error::InvalidCertificate(UnknownIssuer) | Error::InvalidCertificate(BadSignature)) =
            error
        else {
            return error;
        };
        let issuers: Vec<Vec<u8>> = chain
            .iter()
            .filter_map(|certificate| X509Certificate::from_der(certificate).ok())
            .map(|(_, certificate)| certificate.issuer().as_raw().to_vec())
            .collect();
        let named = self.all.iter().filter(|authority| issuers.contains(&authority.subject));
        let mut named = named.peekable();
        let Some(first) = named.peek().copied() else { return UnknownIssuer.into() };
        // One that is good today says more than one that was once.
        let Some(current) = named.find(|authority| authority.lapse(now).is_none()) else {
            return first.lapse(now).unwrap_or(UnknownIssuer).into();
        };
        let Authority { mismatch, name, .. } = current;
        let imitation = Imitation { mismatch, name: name.clone() };
        CertificateError::Other(OtherError(Arc::new(imitation))).into()
    }
}

impl Authority {
    fn read(certificate: CertificateDer<'static>) -> Option<Self> {
        let (_, read) = X509Certificate::from_der(&certificate).ok()?;
        let subject = read.subject();
        let text =
            |mut names: Box<dyn Iterator<Item = Option<String>> + '_>| names.next().flatten();
        let common = text(Box::new(subject.iter_common_name().map(owned)));
        let organization = || text(Box::new(subject.iter_organization().map(owned)));
        let name = common.or_else(organization);
        let mismatch = match read.public_key().parsed() {
            Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
            Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
            _ => "x509: Ed25519 verification failure",
        };
        let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp());
        Some(Self {
            subject: subject.as_raw().to_vec(),
            name: name.unwrap_or_else(|| format!("serial:{}", read.serial)),
            mismatch,
            not_before: seconds(read.validity().not_before).unwrap_or_default(),
            not_after: seconds(read.validity().not_after).unwrap_or_default(),
            certificate,
        })
    }

    /// What is wrong with its time, if anything is.
    fn lapse(&self, now: UnixTime) -> Option<CertificateError> {
        let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        if now.as_secs() > self.not_after {
            let not_after = at(self.not_after);
            return Some(CertificateError::ExpiredContext { time: now, not_after });
        }
        let not_before = at(self.not_before);
        (now.as_secs() < self.not_before)
            .then_some(CertificateError::NotValidYetContext { time: now, not_before })
    }
}

fn owned(attribute: &x509_parser::x509::AttributeTypeAndValue<'_>) -> Option<String> {
    attribute.as_str().ok().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn verifier(
    authorities: &[&Authority],
    provider: &Arc<CryptoProvider>,
) -> Option<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().map(|one| one.certificate.clone()));
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok()
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let current = self.at(now);
        let verifier = current.as_ref().unwrap_or(&self.whole);
        let verified = verifier.verify_server_cert(leaf, intermediates, name, ocsp, now);
        let verified = match current {
            Some(_) => verified,
            // What is wrong with the certificate itself is said first.
            None => verified.and(Err(CertificateError::UnknownIssuer.into())),
        };
        let chain: Vec<&CertificateDer<'_>> = [leaf].into_iter().chain(intermediates).collect();
        verified.map_err(|error| self.explain(error, &chain, now))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.whole.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.whole.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.whole.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::refusal::in_words;
    use super::*;
    use crate::pki::certificate::{Authority as Issuer, LeafRequest, SERVER_AUTH, dns_name};

    fn issuer(name: &str, years: [&str; 2]) -> Issuer {
        let key = Issuer::generate_key().unwrap();
        let [begin, end] = years.map(|year| format!("{year}-01-02T03:04:05Z").parse().unwrap());
        Issuer::self_signed(name, &key, begin, end).unwrap()
    }

    fn leaf(issuer: &Issuer) -> CertificateDer<'static> {
        let wanted = LeafRequest {
            common_name: "leaf",
            organizations: &[],
            usage: SERVER_AUTH,
            alternative_names: &[dns_name("a.b.svc").unwrap()],
            not_before: "2020-01-01T00:00:00Z".parse().unwrap(),
            not_after: "2098-01-01T00:00:00Z".parse().unwrap(),
        };
        issuer.issue_leaf(&wanted).unwrap().certificate
    }

    /// What a server of Kubernetes 1.36 says of each of these.
    #[test]
    fn authorities_that_are_out_of_date_or_have_another_key_are_not_trusted() {
        let good = issuer("good", ["2019", "2099"]);
        let imitation = issuer("good", ["2019", "2099"]);
        let stranger = issuer("stranger", ["2019", "2099"]);
        let future = issuer("future", ["2050", "2099"]);
        // A leaf never outlives its issuer, so the same key signs it under a younger certificate.
        let key = Issuer::generate_key().unwrap();
        let of = |begin: &str, end: &str| {
            Issuer::self_signed("old", &key, begin.parse().unwrap(), end.parse().unwrap()).unwrap()
        };
        let old = of("2019-01-02T03:04:05Z", "2021-01-02T03:04:05Z");
        let renewed = of("2019-01-02T03:04:05Z", "2099-01-02T03:04:05Z");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_794_968_704));
        let words = |trusted: &[&Issuer], shown: &Issuer| {
            let certificates = trusted.iter().map(|one| one.certificate().clone()).collect();
            let authorities = Authorities::new(certificates, provider.clone()).unwrap();
            let name = ServerName::try_from("a.b.svc").unwrap();
            let verified = authorities.verify_server_cert(&leaf(shown), &[], &name, &[], now);
            let refused = verified.err().map(|error| in_words(&std::io::Error::other(error)));
            refused.unwrap_or_default()
        };
        const BEGINNING: &str = "tls: failed to verify certificate: x509: certificate ";
        const LATE: &str = "has expired or is not yet valid: current time 2026-11-18T";
        assert_eq!(words(&[&good], &good), "");
        assert_eq!(words(&[&old, &good], &good), "", "one that is of use is enough");
        assert_eq!(words(&[&old, &renewed], &renewed), "");
        for trusted in [vec![&old], vec![&old, &good]] {
            let refused = words(&trusted, &renewed);
            assert!(refused.starts_with(&format!("{BEGINNING}{LATE}")), "{refused}");
            assert!(refused.ends_with("Z is after 2021-01-02T03:04:05Z"), "{refused}");
        }
        assert_eq!(
            words(&[&good, &future], &stranger),
            format!("{BEGINNING}signed by unknown authority")
        );
        assert_eq!(
            words(&[&good], &imitation),
            format!(
                "{BEGINNING}signed by unknown authority (possibly because of \"x509: ECDSA verification failure\" \
                 while trying to verify candidate authority certificate \"good\")"
            )
        );
    }
}

//! Reading certificate requests (PKCS#10): whom they name, and whether their sender holds the key.

use std::collections::BTreeSet;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use der::asn1::{Any, Ia5StringRef, ObjectIdentifier, PrintableStringRef, Utf8StringRef};
use der::{Decode, Encode, Tag, Tagged};
use rustls_pki_types::CertificateSigningRequestDer;
use rustls_pki_types::pem::PemObject;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::request::{CertReq, ExtensionReq};

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotPem,
    #[error("unable to parse certificate request: {0}")]
    Malformed(String),
    #[error("unable to verify certificate request signature")]
    Signature,
}

/// Attributes of a subject that go into a certificate; anything else a requester put there is dropped,
/// so that nobody is given an attribute an approver cannot see.
const KEPT: [&str; 9] = [
    "2.5.4.6",  // country
    "2.5.4.10", // organization
    "2.5.4.11", // organizational unit
    "2.5.4.7",  // locality
    "2.5.4.8",  // province
    "2.5.4.9",  // street
    "2.5.4.17", // postal code
    "2.5.4.3",  // common name
    "2.5.4.5",  // serial number
];

/// A certificate request whose signature holds.
#[derive(Debug, Clone)]
pub struct Request {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub ip_addresses: usize,
    pub emails: usize,
    pub uris: usize,
    /// The names a certificate takes over.
    pub alternative_names: Vec<GeneralName>,
    pub subject: Any,
    pub public_key: Any,
}

impl Request {
    /// Reads a PEM request and verifies its signature.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        let der = CertificateSigningRequestDer::from_pem_slice(text).map_err(|_| Error::NotPem)?;
        Self::from_der(&der)
    }

    pub fn from_der(der: &[u8]) -> Result<Self, Error> {
        let malformed = |error: der::Error| Error::Malformed(error.to_string());
        let parsed = CertReq::from_der(der).map_err(malformed)?;
        // The signature is over the bytes as sent.
        let parts = Vec::<Any>::from_der(der).map_err(malformed)?;
        let signed = parts.first().ok_or(Error::NotPem)?.to_der().map_err(malformed)?;
        let public_key = parsed.info.public_key.to_der().map_err(malformed)?;
        let signature = parsed.signature.as_bytes().ok_or(Error::Signature)?;
        if !verifies(&parsed.algorithm.oid, &public_key, &signed, signature) {
            return Err(Error::Signature);
        }
        let mut request = Self {
            common_name: String::new(),
            organizations: Vec::new(),
            dns_names: Vec::new(),
            ip_addresses: 0,
            emails: 0,
            uris: 0,
            alternative_names: Vec::new(),
            subject: kept_subject(&parsed.info.subject).map_err(malformed)?,
            public_key: Any::from_der(&public_key).map_err(malformed)?,
        };
        for attribute in parsed.info.subject.iter() {
            match attribute.oid.to_string().as_str() {
                "2.5.4.3" => request.common_name = text(&attribute.value)?,
                "2.5.4.10" => request.organizations.push(text(&attribute.value)?),
                _ => {}
            }
        }
        for name in alternative_names(&parsed).map_err(malformed)? {
            match &name {
                GeneralName::DnsName(dns) => request.dns_names.push(dns.as_str().to_owned()),
                GeneralName::IpAddress(_) => request.ip_addresses += 1,
                GeneralName::Rfc822Name(_) => request.emails += 1,
                GeneralName::UniformResourceIdentifier(_) => request.uris += 1,
                _ => continue,
            }
            request.alternative_names.push(name);
        }
        Ok(request)
    }
}

fn kept_subject(subject: &Name) -> Result<Any, der::Error> {
    let kept: BTreeSet<&str> = KEPT.into();
    let mut sequence = RdnSequence::default();
    for rdn in subject.iter_rdn() {
        let mut filtered = RelativeDistinguishedName::default();
        for attribute in rdn.iter().filter(|a| kept.contains(a.oid.to_string().as_str())) {
            filtered.insert(attribute.clone())?;
        }
        if !filtered.is_empty() {
            sequence.push(filtered);
        }
    }
    Any::from_der(&sequence.to_der()?)
}

fn alternative_names(request: &CertReq) -> Result<Vec<GeneralName>, der::Error> {
    let mut names = Vec::new();
    for attribute in request.info.attributes.iter() {
        if attribute.oid != <ExtensionReq as der::oid::AssociatedOid>::OID {
            continue;
        }
        for value in attribute.values.iter() {
            for extension in value.decode_as::<ExtensionReq>()?.0 {
                if extension.extn_id == <SubjectAltName as der::oid::AssociatedOid>::OID {
                    names.extend(SubjectAltName::from_der(extension.extn_value.as_bytes())?.0);
                }
            }
        }
    }
    Ok(names)
}

fn text(value: &Any) -> Result<String, Error> {
    let text = match value.tag() {
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().map(|s| s.to_string()),
        Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().map(|s| s.to_string()),
        _ => value.decode_as::<Utf8StringRef<'_>>().map(|s| s.to_string()),
    };
    text.map_err(|error| Error::Malformed(error.to_string()))
}

fn verifies(algorithm: &ObjectIdentifier, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let candidates: &[&'static dyn VerificationAlgorithm] = match algorithm.to_string().as_str() {
        "1.2.840.113549.1.1.11" => &[&RSA_PKCS1_2048_8192_SHA256],
        "1.2.840.113549.1.1.12" => &[&RSA_PKCS1_2048_8192_SHA384],
        "1.2.840.113549.1.1.13" => &[&RSA_PKCS1_2048_8192_SHA512],
        "1.2.840.10045.4.3.2" => &[&ECDSA_P256_SHA256_ASN1, &ECDSA_P384_SHA256_ASN1],
        "1.2.840.10045.4.3.3" => &[&ECDSA_P384_SHA384_ASN1, &ECDSA_P256_SHA384_ASN1],
        "1.2.840.10045.4.3.4" => &[&ECDSA_P521_SHA512_ASN1],
        "1.3.101.112" => &[&ED25519],
        _ => &[],
    };
    candidates
        .iter()
        .any(|candidate| UnparsedPublicKey::new(*candidate, key).verify(message, signature).is_ok())
}

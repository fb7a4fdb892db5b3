//! Making X.509 certificates: an authority with its key, and what it signs. Names are kept as encoded, so
//! repeated organizations (groups, in Kubernetes) survive.

use std::net::IpAddr;
use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use der::asn1::{
    Any, BitString, GeneralizedTime, Ia5String, Int, ObjectIdentifier, OctetString, SetOfVec,
    UtcTime, Utf8StringRef,
};
use der::oid::AssociatedOid;
use der::{DateTime, Decode, Encode};
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::time::Time;

/// Certificates begin a little in the past, for clients whose clock is behind.
pub const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
pub const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
pub const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("read a key: {0}")]
    Key(String),
    #[error("generate a key")]
    Generate,
    #[error("read a certificate: {0}")]
    Certificate(String),
    #[error("encode a certificate")]
    Encode(#[source] der::Error),
    #[error("sign a certificate")]
    Sign,
    #[error("the authority expired at {0}")]
    Expired(Timestamp),
}

impl From<der::Error> for Error {
    fn from(error: der::Error) -> Self {
        Self::Encode(error)
    }
}

/// What a certificate is to say.
pub struct Template {
    /// The encoded name.
    pub subject: Any,
    /// The encoded SubjectPublicKeyInfo.
    pub public_key: Any,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub key_usages: KeyUsage,
    pub extended_usages: Vec<ObjectIdentifier>,
    pub alternative_names: Vec<GeneralName>,
}

/// A key and a certificate that says whose it is, both also as PEM.
#[derive(Clone)]
pub struct Leaf {
    pub certificate: CertificateDer<'static>,
    pub certificate_pem: String,
    pub key_pem: String,
}

/// Encodes a name of one common name and any number of organizations.
pub fn name(common_name: &str, organizations: &[&str]) -> Result<Any, Error> {
    let organizations = organizations.iter().map(|organization| (ORGANIZATION, *organization));
    let parts = organizations.chain([(COMMON_NAME, common_name)]);
    let mut sequence: Vec<SetOfVec<AttributeTypeAndValue>> = Vec::new();
    for (oid, text) in parts {
        let value = Any::encode_from(&Utf8StringRef::new(text)?)?;
        sequence.push(SetOfVec::try_from(vec![AttributeTypeAndValue { oid, value }])?);
    }
    Ok(Any::encode_from(&sequence)?)
}

/// A DNS name as an alternative name of a subject.
pub fn dns_name(name: &str) -> Result<GeneralName, Error> {
    Ok(GeneralName::DnsName(Ia5String::new(name)?))
}

/// An address as an alternative name of a subject.
pub fn ip_address(address: IpAddr) -> GeneralName {
    GeneralName::from(address)
}

pub fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = STANDARD.encode(der);
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// A private key that can sign certificates.
enum Signer {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    fn from_pem(text: &str) -> Result<Self, Error> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes())
            .map_err(|error| Error::Key(error.to_string()))?;
        let ec = |algorithm| match &key {
            PrivateKeyDer::Sec1(der) => {
                EcdsaKeyPair::from_private_key_der(algorithm, der.secret_sec1_der()).ok()
            }
            PrivateKeyDer::Pkcs8(der) => {
                EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der()).ok()
            }
            _ => None,
        };
        let rsa = || match &key {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok(),
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).ok(),
            _ => None,
        };
        ec(&ECDSA_P256_SHA256_ASN1_SIGNING)
            .map(Self::P256)
            .or_else(|| ec(&ECDSA_P384_SHA384_ASN1_SIGNING).map(Self::P384))
            .or_else(|| rsa().map(Self::Rsa))
            .ok_or_else(|| Error::Key("neither ECDSA P-256, ECDSA P-384 nor RSA".to_owned()))
    }

    fn public_key(&self) -> Result<Any, Error> {
        let der: PublicKeyX509Der<'_> = match self {
            Self::P256(pair) | Self::P384(pair) => pair.public_key().as_der(),
            Self::Rsa(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| Error::Generate)?;
        Ok(Any::from_der(der.as_ref())?)
    }

    fn algorithm(&self) -> AlgorithmIdentifier {
        let (oid, parameters) = match self {
            Self::P256(_) => ("1.2.840.10045.4.3.2", None),
            Self::P384(_) => ("1.2.840.10045.4.3.3", None),
            Self::Rsa(_) => ("1.2.840.113549.1.1.11", Some(Any::null())),
        };
        AlgorithmIdentifier { oid: ObjectIdentifier::new_unwrap(oid), parameters }
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let rng = SystemRandom::new();
        let signed = match self {
            Self::P256(pair) | Self::P384(pair) => {
                pair.sign(&rng, message).map(|signature| signature.as_ref().to_vec())
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &rng, message, &mut signature).map(|()| signature)
            }
        };
        signed.map_err(|_| Error::Sign)
    }
}

#[derive(Clone, der::Sequence)]
struct AlgorithmIdentifier {
    oid: ObjectIdentifier,
    parameters: Option<Any>,
}

#[derive(der::Sequence)]
struct Validity {
    not_before: Time,
    not_after: Time,
}

/// The signed part of a certificate.
#[derive(der::Sequence)]
struct Tbs {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: u8,
    serial: Int,
    signature: AlgorithmIdentifier,
    issuer: Any,
    validity: Validity,
    subject: Any,
    public_key: Any,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

#[derive(der::Sequence)]
struct Signed {
    tbs: Any,
    algorithm: AlgorithmIdentifier,
    signature: BitString,
}

/// A certificate authority.
pub struct Authority {
    certificate: CertificateDer<'static>,
    subject: Any,
    not_after: Timestamp,
    key_id: Vec<u8>,
    key_pem: String,
    signer: Signer,
}

impl Authority {
    /// Makes a private key for an authority or a leaf, as PEM.
    pub fn generate_key() -> Result<String, Error> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING);
        let document = pair.and_then(|pair| pair.to_pkcs8v1()).map_err(|_| Error::Generate)?;
        Ok(pem("PRIVATE KEY", document.as_ref()))
    }

    /// Signs itself with the given key. Done again with the same key it takes its own place: what it
    /// signed before stays valid.
    pub fn self_signed(
        common_name: &str,
        key_pem: &str,
        not_before: Timestamp,
        not_after: Timestamp,
    ) -> Result<Self, Error> {
        let signer = Signer::from_pem(key_pem)?;
        let (subject, public_key) = (name(common_name, &[])?, signer.public_key()?);
        let key_id = key_id(&public_key)?;
        let usages = KeyUsages::DigitalSignature
            | KeyUsages::KeyEncipherment
            | KeyUsages::KeyCertSign
            | KeyUsages::CRLSign;
        let basic = BasicConstraints { ca: true, path_len_constraint: None };
        let extensions = vec![
            extension(true, &KeyUsage(usages))?,
            extension(true, &basic)?,
            extension(false, &SubjectKeyIdentifier(OctetString::new(key_id.clone())?))?,
        ];
        let tbs = Tbs {
            version: 2,
            serial: serial()?,
            signature: signer.algorithm(),
            issuer: subject.clone(),
            validity: validity(not_before, not_after)?,
            subject: subject.clone(),
            public_key,
            extensions,
        };
        let certificate = sign(&tbs, &signer)?;
        Ok(Self { certificate, subject, not_after, key_id, key_pem: key_pem.to_owned(), signer })
    }

    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, Error> {
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|error| Error::Certificate(error.to_string()))?;
        let signer = Signer::from_pem(key_pem)?;
        let read = Read::new(&certificate)?;
        if read.public_key != signer.public_key()?.to_der()? {
            return Err(Error::Certificate("certificate and key do not belong together".into()));
        }
        Ok(Self {
            subject: Any::from_der(&read.subject)?,
            not_after: read.not_after,
            key_id: read.key_id.map_or_else(|| key_id(&signer.public_key()?), Ok)?,
            certificate: certificate.into_owned(),
            key_pem: key_pem.to_owned(),
            signer,
        })
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    pub fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// Whether a certificate of ours names this authority's key as the one that signed it.
    pub fn has_signed(&self, certificate: &CertificateDer<'_>) -> bool {
        Read::new(certificate)
            .is_ok_and(|read| read.authority_key_id.as_ref() == Some(&self.key_id))
    }

    /// Signs a certificate; it never outlives the authority and never is an authority itself.
    pub fn issue(&self, template: Template) -> Result<CertificateDer<'static>, Error> {
        if template.not_before >= self.not_after {
            return Err(Error::Expired(self.not_after));
        }
        let authority = AuthorityKeyIdentifier {
            key_identifier: Some(OctetString::new(self.key_id.clone())?),
            authority_cert_issuer: None,
            authority_cert_serial_number: None,
        };
        let mut extensions = Vec::new();
        if !template.key_usages.0.is_empty() {
            extensions.push(extension(true, &template.key_usages)?);
        }
        if !template.extended_usages.is_empty() {
            extensions.push(extension(false, &ExtendedKeyUsage(template.extended_usages))?);
        }
        let basic = BasicConstraints { ca: false, path_len_constraint: None };
        extensions.push(extension(true, &basic)?);
        extensions.push(extension(false, &authority)?);
        if !template.alternative_names.is_empty() {
            // With nobody named in the subject the alternative names are all there is.
            let critical = template.subject.value().is_empty();
            extensions.push(extension(critical, &SubjectAltName(template.alternative_names))?);
        }
        let tbs = Tbs {
            version: 2,
            serial: serial()?,
            signature: self.signer.algorithm(),
            issuer: self.subject.clone(),
            validity: validity(template.not_before, template.not_after.min(self.not_after))?,
            subject: template.subject,
            public_key: template.public_key,
            extensions,
        };
        sign(&tbs, &self.signer)
    }

    /// Makes a key and a certificate for it.
    pub fn issue_leaf(&self, wanted: &LeafRequest<'_>) -> Result<Leaf, Error> {
        let key_pem = Self::generate_key()?;
        let certificate = self.issue(Template {
            subject: name(wanted.common_name, wanted.organizations)?,
            public_key: Signer::from_pem(&key_pem)?.public_key()?,
            not_before: wanted.not_before,
            not_after: wanted.not_after,
            key_usages: KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment),
            extended_usages: vec![wanted.usage],
            alternative_names: wanted.alternative_names.to_vec(),
        })?;
        Ok(Leaf { certificate_pem: pem("CERTIFICATE", &certificate), certificate, key_pem })
    }
}

/// What a leaf of our own is for.
pub struct LeafRequest<'a> {
    pub common_name: &'a str,
    pub organizations: &'a [&'a str],
    pub usage: ObjectIdentifier,
    pub alternative_names: &'a [GeneralName],
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// The parts of an existing certificate that matter here.
pub struct Read {
    pub subject: Vec<u8>,
    pub public_key: Vec<u8>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub alternative_names: Vec<GeneralName>,
    key_id: Option<Vec<u8>>,
    authority_key_id: Option<Vec<u8>>,
}

impl Read {
    pub fn new(certificate: &CertificateDer<'_>) -> Result<Self, Error> {
        let bad = |error: der::Error| Error::Certificate(error.to_string());
        let parsed = x509_cert::Certificate::from_der(certificate).map_err(bad)?;
        let tbs = parsed.tbs_certificate();
        let time = |time: Time| {
            let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
            Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
        };
        let names = tbs.get_extension::<SubjectAltName>().map_err(bad)?;
        let key_id = tbs.get_extension::<SubjectKeyIdentifier>().map_err(bad)?;
        let authority_key_id = tbs.get_extension::<AuthorityKeyIdentifier>().map_err(bad)?;
        Ok(Self {
            subject: tbs.subject().to_der().map_err(bad)?,
            public_key: tbs.subject_public_key_info().to_der().map_err(bad)?,
            not_before: time(tbs.validity().not_before),
            not_after: time(tbs.validity().not_after),
            alternative_names: names.map(|(_, names)| names.0).unwrap_or_default(),
            key_id: key_id.map(|(_, id)| id.0.as_bytes().to_vec()),
            authority_key_id: authority_key_id
                .and_then(|(_, id)| id.key_identifier)
                .map(|id| id.as_bytes().to_vec()),
        })
    }
}

fn sign(tbs: &Tbs, signer: &Signer) -> Result<CertificateDer<'static>, Error> {
    let tbs = Any::encode_from(tbs)?;
    let signature = signer.sign(&tbs.to_der()?)?;
    let algorithm = signer.algorithm();
    let signed = Signed { tbs, algorithm, signature: BitString::from_bytes(&signature)? };
    Ok(CertificateDer::from(signed.to_der()?))
}

fn extension<E: AssociatedOid + Encode>(critical: bool, value: &E) -> Result<Extension, Error> {
    let extn_value = OctetString::new(value.to_der()?)?;
    Ok(Extension { extn_id: E::OID, critical, extn_value })
}

fn serial() -> Result<Int, Error> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::Generate)?;
    // Positive, and never with leading zeros that DER would not allow.
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(Int::new(&bytes)?)
}

fn validity(not_before: Timestamp, not_after: Timestamp) -> Result<Validity, Error> {
    let time = |at: Timestamp| -> Result<Time, Error> {
        let seconds = u64::try_from(at.as_second()).unwrap_or_default();
        let date = DateTime::from_unix_duration(Duration::from_secs(seconds))?;
        // From 2050 on the two-digit form is ambiguous.
        Ok(if date.year() < 2050 {
            Time::UtcTime(UtcTime::from_date_time(date)?)
        } else {
            Time::GeneralTime(GeneralizedTime::from_date_time(date))
        })
    };
    Ok(Validity { not_before: time(not_before)?, not_after: time(not_after)? })
}

fn key_id(public_key: &Any) -> Result<Vec<u8>, Error> {
    Ok(Sha256::digest(public_key.to_der()?)[..20].to_vec())
}

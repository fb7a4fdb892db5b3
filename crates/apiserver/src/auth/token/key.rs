//! Keys that sign and verify service account tokens: RS256 or ES256, named by the hash of the public key.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use der::asn1::{BitStringRef, UintRef};
use der::{AnyRef, Decode};
use karmada_apimachinery::{Value, json};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("read the key: {0}")]
    Pem(String),
    #[error("the key is neither RSA of 2048 to 8192 bits nor ECDSA P-256")]
    Unsupported,
    #[error("generate a key")]
    Generate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ecdsa(Box<EcdsaKeyPair>),
}

/// A private key that signs tokens.
pub struct SigningKey {
    pair: Pair,
    public: VerifyingKey,
}

/// A public key that verifies tokens.
#[derive(Debug, Clone)]
pub struct VerifyingKey {
    pub(super) algorithm: Algorithm,
    /// SubjectPublicKeyInfo.
    spki: Vec<u8>,
    pub(super) id: String,
}

impl SigningKey {
    /// Makes a new RSA key; returns it as PKCS#8 DER.
    pub fn generate() -> Result<Vec<u8>, KeyError> {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::Generate)?;
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> =
            pair.as_der().map_err(|_| KeyError::Generate)?;
        Ok(der.as_ref().to_vec())
    }

    /// Makes a new ECDSA P-256 key, which takes a thousandth of the time; returns it as PKCS#8 DER.
    pub fn generate_ecdsa() -> Result<Vec<u8>, KeyError> {
        let rng = SystemRandom::new();
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &rng)
            .map_err(|_| KeyError::Generate)?;
        Ok(der.as_ref().to_vec())
    }

    /// Reads a PEM private key in PKCS#8, PKCS#1 or SEC1 form.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|e| KeyError::Pem(e.to_string()))?;
        Self::from_der(&key)
    }

    fn from_der(key: &PrivateKeyDer<'_>) -> Result<Self, KeyError> {
        let ecdsa = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = match key {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()).ok().map(rsa),
            PrivateKeyDer::Sec1(der) => {
                EcdsaKeyPair::from_private_key_der(ecdsa, der.secret_sec1_der()).ok().map(ec)
            }
            PrivateKeyDer::Pkcs8(der) => {
                let der = der.secret_pkcs8_der();
                let as_ec = || EcdsaKeyPair::from_pkcs8(ecdsa, der).ok().map(ec);
                RsaKeyPair::from_pkcs8(der).ok().map(rsa).or_else(as_ec)
            }
            _ => None,
        }
        .ok_or(KeyError::Unsupported)?;
        let public: PublicKeyX509Der<'_> = match &pair {
            Pair::Rsa(pair) => pair.public_key().as_der(),
            Pair::Ecdsa(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| KeyError::Unsupported)?;
        let public = VerifyingKey::from_spki(public.as_ref())?;
        Ok(Self { pair, public })
    }

    pub fn public(&self) -> &VerifyingKey {
        &self.public
    }

    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let rng = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &rng, message, &mut signature).ok()?;
                Some(signature)
            }
            Pair::Ecdsa(pair) => Some(pair.sign(&rng, message).ok()?.as_ref().to_vec()),
        }
    }
}

fn rsa(pair: RsaKeyPair) -> Pair {
    Pair::Rsa(Box::new(pair))
}

fn ec(pair: EcdsaKeyPair) -> Pair {
    Pair::Ecdsa(Box::new(pair))
}

/// The parts of a SubjectPublicKeyInfo that are needed here.
#[derive(der::Sequence)]
struct PublicKeyInfo<'a> {
    algorithm: AnyRef<'a>,
    key: BitStringRef<'a>,
}

#[derive(der::Sequence)]
struct RsaPublicKey<'a> {
    modulus: UintRef<'a>,
    exponent: UintRef<'a>,
}

impl VerifyingKey {
    /// Reads a SubjectPublicKeyInfo.
    pub fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        let info = PublicKeyInfo::from_der(spki).map_err(|_| KeyError::Unsupported)?;
        let key = info.key.raw_bytes();
        // An uncompressed P-256 point is told by its length and first byte.
        let algorithm = if key.len() == 65 && key.first() == Some(&4) {
            Algorithm::Es256
        } else if RsaPublicKey::from_der(key).is_ok() {
            Algorithm::Rs256
        } else {
            return Err(KeyError::Unsupported);
        };
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(spki));
        Ok(Self { algorithm, spki: spki.to_vec(), id })
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self.algorithm {
            Algorithm::Rs256 => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.spki)
                .verify(message, signature)
                .is_ok(),
            Algorithm::Es256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.spki)
                .verify(message, signature)
                .is_ok(),
        }
    }

    /// The key as an entry of a JSON Web Key Set.
    pub fn to_jwk(&self) -> Option<Value> {
        let info = PublicKeyInfo::from_der(&self.spki).ok()?;
        let key = info.key.raw_bytes();
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match self.algorithm {
            Algorithm::Rs256 => {
                let key = RsaPublicKey::from_der(key).ok()?;
                let (n, e) = (key.modulus.as_bytes(), key.exponent.as_bytes());
                json!({"kty": "RSA", "n": number(n), "e": number(e)})
            }
            Algorithm::Es256 => {
                let (x, y) = key.get(1..)?.split_at_checked(32)?;
                json!({"kty": "EC", "crv": "P-256", "x": number(x), "y": number(y)})
            }
        };
        jwk["use"] = "sig".into();
        jwk["kid"] = self.id.as_str().into();
        jwk["alg"] = self.algorithm.name().into();
        Some(jwk)
    }
}

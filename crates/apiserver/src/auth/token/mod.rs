//! Service account tokens: issuing on request, minting for Secrets, verifying with the objects they are
//! bound to, and publishing the keys.

mod key;
mod request;
#[cfg(test)]
mod tests;
mod verify;

pub use key::{KeyError, SigningKey, VerifyingKey};
pub use verify::Verified;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use karmada_apimachinery::{Value, json};

use super::service_account;

pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Mints the tokens kept in Secrets: what the token controller needs and no more.
pub trait TokenSigner: Send + Sync {
    /// A token without expiry that holds as long as the Secret and the account exist.
    fn legacy_token(&self, account: &Account<'_>, secret: &str) -> Option<String>;
}

/// A service account by its names and uid.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// Issues and verifies tokens under one issuer name.
pub struct TokenIssuer {
    issuer: String,
    audiences: Vec<String>,
    signer: SigningKey,
    /// Earlier keys whose tokens still count.
    retired: Vec<VerifyingKey>,
    proven: verify::Proven,
}

impl TokenIssuer {
    /// Tokens are for the issuer itself unless a request names other audiences.
    pub fn new(issuer: impl Into<String>, signer: SigningKey, retired: Vec<VerifyingKey>) -> Self {
        let issuer = issuer.into();
        let proven = verify::Proven::default();
        Self { audiences: vec![issuer.clone()], issuer, signer, retired, proven }
    }

    /// The audiences of the API itself.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    fn keys(&self) -> impl Iterator<Item = &VerifyingKey> {
        std::iter::once(self.signer.public()).chain(&self.retired)
    }

    fn sign(&self, claims: &Value) -> Option<String> {
        let public = self.signer.public();
        let header = json!({"alg": public.algorithm.name(), "kid": public.id}).to_string();
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let signature = self.signer.sign(signed.as_bytes())?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The document at `/.well-known/openid-configuration`.
    pub fn openid_configuration(&self, server: &str) -> Value {
        let mut algorithms: Vec<&str> = self.keys().map(|key| key.algorithm.name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("{}/openid/v1/jwks", server.trim_end_matches('/')),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    /// The document at `/openid/v1/jwks`.
    pub fn key_set(&self) -> Value {
        json!({"keys": self.keys().filter_map(VerifyingKey::to_jwk).collect::<Vec<_>>()})
    }
}

impl TokenSigner for TokenIssuer {
    fn legacy_token(&self, account: &Account<'_>, secret: &str) -> Option<String> {
        let claim = |name: &str| format!("kubernetes.io/serviceaccount/{name}");
        self.sign(&json!({
            "iss": LEGACY_ISSUER,
            "sub": service_account::user_name(account.namespace, account.name),
            claim("namespace"): account.namespace,
            claim("secret.name"): secret,
            claim("service-account.name"): account.name,
            claim("service-account.uid"): account.uid,
        }))
    }
}

//! Who asks, and may they: authentication, RBAC, reviews, tokens and certificate requests.
//!
//! Everything here is a function of a request, of stored objects behind [`Objects`] and of a [`Clock`];
//! nothing waits and nothing writes.

pub mod authenticate;
pub mod authorize;
pub mod bootstrap;
pub mod bootstrap_token;
pub mod client_certs;
pub mod csr;
pub mod escalation;
pub mod guard;
pub mod impersonation;
pub mod rbac;
pub mod review;
pub mod rule;
pub mod service_account;
#[cfg(test)]
pub(crate) mod test_objects;
pub mod token;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::value::Text;
use rustls_pki_types::CertificateDer;

/// The present moment, injected so that tests and simulations decide it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A user as every later step knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub user: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    pub fn new<S: Into<String>>(
        user: impl Into<String>,
        groups: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            user: user.into(),
            groups: groups.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

/// The certificates a client presented in the handshake, leaf first. Nothing about them is trusted yet;
/// what was found out about them is remembered for the life of the connection.
#[derive(Debug, Default)]
pub struct PeerCerts {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    verified: client_certs::Memo,
}

impl PeerCerts {
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self { chain, verified: client_certs::Memo::default() }
    }
}

/// What a request wants to do, in the terms rules are written in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes {
    pub user: Arc<Identity>,
    pub verb: Text,
    pub group: Text,
    pub version: Text,
    pub resource: Text,
    pub subresource: Text,
    pub name: Text,
    pub namespace: Text,
    /// The URL path; decisive only where `is_resource` is false.
    pub path: Text,
    pub is_resource: bool,
}

impl Attributes {
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.as_str(), self.resource.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Deny,
    /// This authorizer does not know; somebody else may.
    NoOpinion,
}

/// A verdict and the words that explain it; the reason may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    pub reason: String,
}

impl Decision {
    pub fn allow(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Allow, reason: reason.into() }
    }

    pub fn deny(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Deny, reason: reason.into() }
    }

    pub fn no_opinion(reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::NoOpinion, reason: reason.into() }
    }

    pub fn is_allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }
}

/// Tells who sent a request; presented but wrong credentials are a 401.
pub trait Authenticator: Send + Sync {
    fn authenticate(
        &self,
        parts: &http::request::Parts,
        peer: Option<&PeerCerts>,
    ) -> Result<Identity, Status>;
}

/// Tells whether a request may proceed.
pub trait Authorizer: Send + Sync {
    fn authorize(&self, attributes: &Attributes) -> Decision;
}

/// An authorizer asked before RBAC whose allow or deny is final: the seam for rules that hold
/// whatever RBAC objects say, such as one identity per member cluster.
pub trait ExtraAuthorizer: Send + Sync {
    fn authorize(&self, attributes: &Attributes) -> Decision;
}

/// Stored objects, read synchronously from memory. Cluster-scoped objects have the empty namespace.
pub trait Objects: Send + Sync {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// The objects of one namespace, or of all.
    fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>>;
    /// The same for those who seldom ask: nothing is kept for the next time.
    fn read(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        self.list(resource, namespace)
    }
    fn exists(&self, resource: &GroupResource, namespace: &str, name: &str) -> bool {
        self.get(resource, namespace, name).is_some()
    }
}

//! The controllers every Kubernetes API needs, whatever it is used for. They know no Karmada kind,
//! and run in a control plane as well as in a simulated member.

mod bootstrap_signer;
mod bootstrap_token;
mod cluster_role_aggregation;
mod csr;
mod csr_approving;
mod csr_cleaner;
mod csr_signing;
mod garbage_collector;
mod namespace;
pub mod registry;
mod root_ca_publisher;
mod service_account;
mod service_account_token;
mod token_cleaner;
mod ttl_after_finished;

use std::error::Error;
use std::ops::Deref;
use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_runtime::Manager;

/// A service account by its names and uid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// What becomes of an approved certificate request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signing {
    /// It is not for us, or already done.
    NotDue,
    /// The certificate as PEM.
    Issued(String),
    Refused {
        reason: String,
        message: String,
    },
}

/// Done by whoever holds the keys; controllers never see them.
pub trait Keys: Send + Sync + 'static {
    /// The certificate clients verify the API server with, as PEM.
    fn root_ca(&self) -> String;

    /// Mints a token that holds as long as the Secret and the account do.
    fn legacy_token(&self, account: Account<'_>, secret: &str) -> Option<String>;

    fn sign(&self, csr: &Value) -> Result<Signing, Box<dyn Error + Send + Sync>>;

    /// Says why a request can be approved without a human, if it can.
    fn auto_approval(&self, csr: &Value) -> Option<String>;
}

/// What the controllers work with. Clones share it.
#[derive(Clone)]
pub struct Plane {
    pub manager: Manager,
    pub keys: Arc<dyn Keys>,
}

impl Plane {
    pub fn new(manager: Manager, keys: Arc<dyn Keys>) -> Self {
        Self { manager, keys }
    }
}

impl Deref for Plane {
    type Target = Manager;

    fn deref(&self) -> &Manager {
        &self.manager
    }
}

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
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use karmada_apimachinery::Value;
use karmada_client::{Client, Discovery};
use karmada_runtime::{
    Action, Clock, Controller, Informer, Informers, Metrics, Recorder, Shutdown, Subscription,
};
use parking_lot::Mutex;

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
    pub client: Client,
    pub informers: Informers,
    pub discovery: Discovery,
    pub keys: Arc<dyn Keys>,
    pub clock: Clock,
    pub metrics: Metrics,
    pub shutdown: Shutdown,
    subscriptions: Arc<Mutex<Vec<Subscription>>>,
}

impl Plane {
    pub fn new(
        client: Client,
        keys: Arc<dyn Keys>,
        clock: Clock,
        metrics: Metrics,
        shutdown: Shutdown,
    ) -> Self {
        Self {
            informers: Informers::new(client.clone(), shutdown.clone()),
            discovery: Discovery::new(client.clone()),
            client,
            keys,
            clock,
            metrics,
            shutdown,
            subscriptions: Arc::default(),
        }
    }

    /// Keeps a subscription for as long as the controllers run.
    fn keep(&self, subscription: Subscription) {
        self.subscriptions.lock().push(subscription);
    }

    fn recorder(&self, component: &str) -> Recorder {
        Recorder::start(&self.client, component, self.clock.clone(), &self.shutdown)
    }

    /// Starts a controller once everything it decides by is known.
    fn start<K, F, R, E>(&self, controller: Controller<K>, inputs: Vec<Arc<Informer>>, reconcile: F)
    where
        K: Clone + Eq + Hash + Display + Send + Sync + 'static,
        F: Fn(K) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send,
        E: Error + Send + 'static,
    {
        let (shutdown, subscriptions) = (self.shutdown.clone(), self.subscriptions.clone());
        self.shutdown.spawn_until(async move {
            // The controllers run on when whoever started them lets go of the plane.
            let _subscriptions = subscriptions;
            for input in inputs {
                input.wait_synced().await;
            }
            controller.start(&shutdown, reconcile);
            shutdown.triggered().await;
        });
    }
}

//! What the controllers of one server share: its client, one cache per kind, clock, metrics and
//! the end of the process.

use std::error::Error;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use karmada_client::{Client, Discovery};
use parking_lot::Mutex;

use crate::controller::{self, Reconcile};
use crate::events::Desk;
use crate::{
    Action, Clock, Controller, EventBudget, Informer, Informers, Metrics, Recorder, Shutdown,
    Subscription,
};

/// What controllers work with. Clones share it.
#[derive(Clone)]
pub struct Manager {
    pub client: Client,
    pub informers: Informers,
    pub discovery: Discovery,
    pub clock: Clock,
    pub metrics: Metrics,
    pub shutdown: Shutdown,
    /// What the components may write about together; each of them, if it is set to anything else.
    pub event_budget: EventBudget,
    desk: Desk,
    subscriptions: Arc<Mutex<Vec<Subscription>>>,
}

impl Manager {
    pub fn new(client: Client, clock: Clock, metrics: Metrics, shutdown: Shutdown) -> Self {
        Self {
            informers: Informers::new(client.clone(), shutdown.clone()),
            discovery: Discovery::new(client.clone()),
            client,
            clock,
            metrics,
            shutdown,
            event_budget: EventBudget::default(),
            desk: Desk::default(),
            subscriptions: Arc::default(),
        }
    }

    /// Keeps a subscription for as long as the controllers run.
    pub fn keep(&self, subscription: Subscription) {
        self.subscriptions.lock().push(subscription);
    }

    pub fn recorder(&self, component: &str) -> Recorder {
        let (desk, clock) = (self.desk.with(self.event_budget), self.clock.clone());
        Recorder::start(&self.client, component, desk, clock, &self.shutdown)
    }

    /// Starts a controller once everything it decides by is known.
    pub fn start<K, F, R, E>(
        &self,
        controller: Controller<K>,
        inputs: Vec<Arc<Informer>>,
        reconcile: F,
    ) where
        K: Clone + Eq + Hash + Display + Send + Sync + 'static,
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: Error + Send + 'static,
    {
        self.start_boxed(controller, inputs, controller::boxed(reconcile));
    }

    fn start_boxed<K>(
        &self,
        controller: Controller<K>,
        inputs: Vec<Arc<Informer>>,
        reconcile: Reconcile<K>,
    ) where
        K: Clone + Eq + Hash + Display + Send + Sync + 'static,
    {
        let (shutdown, subscriptions) = (self.shutdown.clone(), self.subscriptions.clone());
        self.shutdown.spawn_until(async move {
            // The controllers run on when whoever started them lets go of the manager.
            let _subscriptions = subscriptions;
            for input in inputs {
                input.wait_synced().await;
            }
            controller.start_boxed(&shutdown, &reconcile);
            shutdown.triggered().await;
        });
    }
}

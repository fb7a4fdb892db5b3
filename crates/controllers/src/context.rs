//! What Karmada's controllers work with.

use std::fmt::Display;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::{Cluster, ClusterSyncMode};
use karmada_api::features::{Gate, Gates};
use karmada_api::placing::Placer;
use karmada_api::policy::PurgeMode;
use karmada_interpreter::Interpreter;
use karmada_runtime::{Action, Controller, Informer, Manager, RateLimit};

use crate::cluster_api::ClusterApi;
use crate::explain::Explainers;
use crate::interpretation::{Configuration, WebhookCaller};
use crate::members::{Dial, Limits, Members};
use crate::propagation::detector::{SkippedApis, SkippedNamespaces};
use crate::propagation::execution::Lanes;
use crate::services::collection::Collection;

/// What can be set by flags, with upstream's defaults.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--cluster-name` of an agent: the one cluster it works for. Nothing for the controller manager, which
    /// works for all that have no agent.
    pub agent_of: Option<String>,
    /// `--cluster-status-update-frequency`
    pub cluster_status_update_frequency: Duration,
    /// `--cluster-success-threshold`
    pub cluster_success_threshold: Duration,
    /// `--cluster-failure-threshold`
    pub cluster_failure_threshold: Duration,
    /// `--cluster-lease-duration`
    pub cluster_lease_duration: Duration,
    /// `--cluster-lease-renew-interval-fraction`
    pub cluster_lease_renew_interval_fraction: f64,
    /// `--cluster-monitor-period`
    pub cluster_monitor_period: Duration,
    /// `--cluster-monitor-grace-period`
    pub cluster_monitor_grace_period: Duration,
    /// `--cluster-startup-grace-period`
    pub cluster_startup_grace_period: Duration,
    /// `--skipped-propagating-apis`, as given
    pub skipped_propagating_apis: SkippedApis,
    /// `--skipped-propagating-namespaces`: regular expressions
    pub skipped_propagating_namespaces: SkippedNamespaces,
    /// `--enable-cluster-resource-modeling`
    pub enable_cluster_resource_modeling: bool,
    /// `--cluster-cache-sync-timeout`
    pub cluster_cache_sync_timeout: Duration,
    /// `--cluster-api-qps` and `--cluster-api-burst`, for each member
    pub member_limits: Limits,
    /// `--federated-resource-quota-sync-period`
    pub federated_resource_quota_sync_period: Duration,
    /// `--enable-taint-manager`
    pub enable_taint_manager: bool,
    /// `--enable-no-execute-taint-eviction`; needs the gate Failover too
    pub enable_no_execute_taint_eviction: bool,
    /// `--no-execute-taint-eviction-purge-mode`
    pub no_execute_taint_eviction_purge_mode: PurgeMode,
    /// `--resource-eviction-rate`, per second
    pub resource_eviction_rate: f64,
    /// `--graceful-eviction-timeout`
    pub graceful_eviction_timeout: Duration,
    /// `--horizontal-pod-autoscaler-*`
    pub autoscaler: AutoscalerOptions,
    /// `--rate-limiter-*`
    pub rate_limit: RateLimit,
    /// Workers of each controller; each member has as many again for its own work.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            agent_of: None,
            cluster_status_update_frequency: Duration::from_secs(10),
            cluster_success_threshold: Duration::from_secs(30),
            cluster_failure_threshold: Duration::from_secs(30),
            cluster_lease_duration: Duration::from_secs(40),
            cluster_lease_renew_interval_fraction: 0.25,
            cluster_monitor_period: Duration::from_secs(5),
            cluster_monitor_grace_period: Duration::from_secs(40),
            cluster_startup_grace_period: Duration::from_secs(60),
            skipped_propagating_apis: SkippedApis::default(),
            skipped_propagating_namespaces: SkippedNamespaces::default(),
            enable_cluster_resource_modeling: true,
            cluster_cache_sync_timeout: Duration::from_secs(120),
            member_limits: Limits::default(),
            federated_resource_quota_sync_period: Duration::from_secs(300),
            enable_taint_manager: true,
            enable_no_execute_taint_eviction: false,
            no_execute_taint_eviction_purge_mode: PurgeMode::Gracefully,
            resource_eviction_rate: 0.5,
            graceful_eviction_timeout: Duration::from_secs(600),
            autoscaler: AutoscalerOptions::default(),
            rate_limit: RateLimit::default(),
            workers: 5,
        }
    }
}

/// Many writers share one flush of the store, so more of them are better than upstream's five. Those who finish what is begun are
/// the most: the less is under way at a time, the less memory it takes, and what was read a moment ago is still at hand.
impl Options {
    /// How many begin to propagate at the same time.
    pub(crate) fn workers_that_begin(&self) -> usize {
        self.workers.max(1) * 3
    }

    /// How many go on with it.
    pub(crate) fn workers_that_finish(&self) -> usize {
        self.workers.max(1) * 12
    }
}

/// How workloads are scaled by metrics, with upstream's defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoscalerOptions {
    /// `--horizontal-pod-autoscaler-sync-period`
    pub sync_period: Duration,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`
    pub downscale_stabilization: Duration,
    /// `--horizontal-pod-autoscaler-tolerance`
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`
    pub cpu_initialization_period: Duration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`
    pub initial_readiness_delay: Duration,
}

impl Default for AutoscalerOptions {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(15),
            downscale_stabilization: Duration::from_secs(300),
            tolerance: 0.1,
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// Whether a cluster is looked after from here.
    pub(crate) fn serves(&self, cluster: &Cluster) -> bool {
        let is_pull = cluster.spec.sync_mode == ClusterSyncMode::Pull;
        match &self.agent_of {
            None => !is_pull,
            Some(own) => is_pull && cluster.metadata.name == *own,
        }
    }
}

/// What the controllers work with. Clones share it.
#[derive(Clone)]
pub struct Context {
    pub manager: Manager,
    pub members: Members,
    pub interpreter: Arc<Interpreter>,
    /// Whether the interpreter knows all it is configured by.
    pub(crate) interpretation: Configuration,
    pub gates: Gates,
    pub options: Arc<Options>,
    /// The lanes in which Works are delivered.
    pub(crate) lanes: Lanes,
    /// The collection of endpoint slices.
    pub(crate) collection: Collection,
    /// The scheduler, if it runs in this process.
    pub(crate) placer: Option<Arc<dyn Placer>>,
    /// Whose clusters are joined by themselves.
    pub(crate) cluster_api: Option<ClusterApi>,
    /// Everybody who can say why things are as they are.
    pub explainers: Explainers,
}

impl Context {
    /// Follows the members, reached through `dial`, and prepares what controllers ask.
    pub fn start(manager: Manager, dial: Arc<dyn Dial>, gates: Gates, options: Options) -> Self {
        let members = Members::start(&manager, dial, options.member_limits.clone());
        let clock = manager.clock.clone();
        let interpreter_gates =
            karmada_interpreter::Gates { quota_estimate: gates.is_on(Gate::ResourceQuotaEstimate) };
        let interpreter = Interpreter::new(interpreter_gates, Arc::new(move || clock.now()))
            .with_caller(Arc::new(WebhookCaller::new()));
        Self {
            manager,
            members,
            interpreter: Arc::new(interpreter),
            interpretation: Configuration::default(),
            gates,
            options: options.into(),
            explainers: Explainers::default(),
            lanes: Lanes::default(),
            collection: Collection::default(),
            placer: None,
            cluster_api: None,
        }
    }

    /// A controller whose failed work comes back as fast as the flags say.
    pub(crate) fn controller<K>(&self, name: &'static str) -> Controller<K>
    where
        K: Clone + Eq + Hash + Display + Send + Sync + 'static,
    {
        Controller::with_limit(name, &self.metrics, self.options.rate_limit.clone())
    }

    /// Starts a controller that asks the interpreter, once everything it decides by is known, and
    /// everything the interpreter is configured by.
    pub(crate) fn start_interpreting<K, F, R, E>(
        &self,
        controller: Controller<K>,
        inputs: Vec<Arc<Informer>>,
        reconcile: F,
    ) where
        K: Clone + Eq + Hash + Display + Send + Sync + 'static,
        F: Fn(K) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Action, E>> + Send + 'static,
        E: std::error::Error + Send + 'static,
    {
        let (manager, interpretation) = (self.manager.clone(), self.interpretation.clone());
        self.shutdown.spawn_until(async move {
            interpretation.known().await;
            manager.start(controller, inputs, reconcile);
        });
    }

    /// Lets bindings be made with their placement, by a scheduler of this process.
    pub fn with_placer(mut self, placer: Arc<dyn Placer>) -> Self {
        self.placer = Some(placer);
        self
    }

    /// Lets the clusters of a Cluster API be joined by themselves.
    pub fn with_cluster_api(mut self, cluster_api: Option<ClusterApi>) -> Self {
        self.cluster_api = cluster_api;
        self
    }
}

impl Deref for Context {
    type Target = Manager;

    fn deref(&self) -> &Manager {
        &self.manager
    }
}

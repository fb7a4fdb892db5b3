//! The scheduler as a process: queue, cache of clusters, and the writing of results. Decisions are
//! those of `scheduler-core`.
//!
//! | file | what it does |
//! |---|---|
//! | `intake` | which changes put which bindings into the queue, with `placements` and `clusters` |
//! | `queue` | the order of turns, pauses after failures |
//! | `cycle` | one turn: look, decide, remember why |
//! | `write` | the patches, conditions and events |
//! | `lane` | bindings of one scope: cache and own writes |
//! | `birth` | bindings that are made with their placement |
//! | `assumed` | placements that do not show in the clusters' numbers yet |

mod assumed;
mod birth;
mod clusters;
mod cycle;
mod estimator;
mod intake;
mod lane;
mod metrics;
mod placements;
mod queue;
mod write;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::FutureExt;
use karmada_api::cluster::Cluster;
use karmada_api::explain::Scheduling;
use karmada_api::features::{Gate, Gates};
use karmada_api::meta::Kind;
use karmada_api::scopes::Binding;
use karmada_api::work::{ClusterResourceBinding, ResourceBinding, WorkloadAffinityGroups};
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Object;
use karmada_runtime::{Clock, Informer, Manager, ObjectKey, RateLimit, Recorder, Subscription};
use karmada_scheduler_core::snapshot::Snapshot;
use karmada_scheduler_core::{Config, EnabledRules};
use parking_lot::Mutex;
use tracing::{Instrument, error, info_span};

pub use estimator::Estimator;

use assumed::Assumptions;
use birth::Births;
use clusters::Clusters;
use lane::Lane;
use metrics::SchedulerMetrics;
use placements::Placements;
use queue::{BindingQueue, Retries, Turn, Verdict};

/// What can be set by flags, with upstream's defaults.
#[derive(Clone)]
pub struct Options {
    /// `--scheduler-name`: the bindings of other schedulers are left alone.
    pub scheduler_name: String,
    /// `--plugins`
    pub plugins: EnabledRules,
    /// `--enable-empty-workload-propagation`
    pub propagate_empty_workloads: bool,
    /// `--rate-limiter-*`, used with the gate `PriorityBasedScheduling` off.
    pub rate_limit: RateLimit,
    /// How many results may be on their way to the server at the same time.
    pub workers: usize,
    /// `--enable-scheduler-estimator`
    pub estimator: Option<Arc<dyn Estimator>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler_name: intake::DEFAULT_SCHEDULER.to_owned(),
            plugins: EnabledRules::default(),
            propagate_empty_workloads: false,
            rate_limit: RateLimit::default(),
            workers: 16,
            estimator: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Options({})", self.scheduler_name)
    }
}

/// What the workers share.
pub(crate) struct Scheduler {
    namespaced: Lane<ResourceBinding>,
    global: Lane<ClusterResourceBinding>,
    clusters: Clusters,
    placements: Mutex<Placements>,
    queue: BindingQueue,
    assumptions: Assumptions,
    births: Births,
    /// How often clusters changed so that bindings are looked at again.
    epoch: AtomicU64,
    /// Set once all clusters are known.
    ready: AtomicBool,
    /// Where bindings of groups were placed, by decisions that may not be written yet.
    placed: Mutex<HashMap<ObjectKey, Vec<String>>>,
    /// Held while a decision is made that the next one depends on.
    deciding: Mutex<()>,
    recent: Mutex<VecDeque<Arc<Snapshot>>>,
    config: Config,
    /// Gate `SchedulingOvercommitProtection`.
    protects: bool,
    options: Options,
    clock: Clock,
    events: Recorder,
    metrics: SchedulerMetrics,
}

/// A scheduler that runs until the manager is shut down.
#[derive(Clone)]
pub struct SchedulerHandle {
    scheduler: Arc<Scheduler>,
}

impl SchedulerHandle {
    /// Says why the binding was placed as it is; bindings without a namespace are cluster-scoped.
    pub fn explain(&self, binding: &ObjectKey) -> Option<Scheduling> {
        match binding.namespace.as_str() {
            "" => self.scheduler.explain(&self.scheduler.global, binding),
            _ => self.scheduler.explain(&self.scheduler.namespaced, binding),
        }
    }
}

/// Starts scheduling. It begins once bindings and clusters are known.
pub fn start(manager: &Manager, options: Options, gates: &Gates) -> SchedulerHandle {
    let metrics = SchedulerMetrics::new(&manager.metrics);
    let retries = match gates.is_on(Gate::PriorityBasedScheduling) {
        true => Retries::ByReason,
        false => Retries::Legacy(options.rate_limit.clone()),
    };
    let scheduler = Arc::new(Scheduler {
        namespaced: Lane::new(manager),
        global: Lane::new(manager),
        clusters: Clusters::default(),
        placements: Mutex::default(),
        queue: BindingQueue::new(retries, metrics.clone()),
        assumptions: Assumptions::default(),
        births: Births::default(),
        epoch: AtomicU64::new(0),
        ready: AtomicBool::new(false),
        placed: Mutex::default(),
        deciding: Mutex::default(),
        recent: Mutex::default(),
        config: Config {
            rules: options.plugins.clone(),
            resource_models: gates.is_on(Gate::CustomizedClusterResourceModeling),
            multiple_pod_templates: gates.is_on(Gate::MultiplePodTemplatesScheduling),
            workload_affinity: gates.is_on(Gate::WorkloadAffinity),
            propagate_empty_workloads: options.propagate_empty_workloads,
            spread_by_zone_and_provider: gates.is_on(Gate::SpreadByZoneAndProvider),
        },
        protects: gates.is_on(Gate::SchedulingOvercommitProtection),
        clock: manager.clock.clone(),
        events: manager.recorder(&options.scheduler_name),
        metrics,
        options,
    });
    run(manager, &scheduler);
    SchedulerHandle { scheduler }
}

fn run(manager: &Manager, scheduler: &Arc<Scheduler>) {
    let clusters = Gvr::new(Cluster::GROUP, Cluster::VERSION, Cluster::PLURAL);
    let clusters = manager.informers.all(&clusters);
    let (namespaced, global) = (&scheduler.namespaced.informer, &scheduler.global.informer);
    if scheduler.config.workload_affinity {
        index_groups(namespaced);
    }
    let inputs = [clusters.clone(), namespaced.clone(), global.clone()];
    let (own, shutdown) = (scheduler.clone(), manager.shutdown.clone());
    manager.shutdown.spawn_until(async move {
        // Bindings are looked at once all clusters are known, or they would seem to fit nowhere.
        let mut subscriptions: Vec<Subscription> = Vec::new();
        clusters.wait_synced().await;
        let to = own.clone();
        subscriptions.push(clusters.subscribe(move |change| to.cluster_changed(change)));
        let to = own.clone();
        let namespaced = own.namespaced.informer.clone();
        subscriptions
            .push(namespaced.subscribe(move |change| to.binding_changed(&to.namespaced, change)));
        let to = own.clone();
        let global = own.global.informer.clone();
        subscriptions.push(global.subscribe(move |change| to.binding_changed(&to.global, change)));
        for input in &inputs {
            input.wait_synced().await;
        }
        own.ready.store(true, Ordering::Release);
        for _ in 0..own.options.workers.max(1) {
            let own = own.clone();
            shutdown.spawn(async move {
                while let Some(turn) = own.queue.next().await {
                    let verdict = own.safely(&turn).await;
                    own.queue.finish(&turn.key, verdict);
                }
            });
        }
        let _subscriptions = subscriptions;
        std::future::pending::<()>().await;
    });
    let (own, shutdown) = (scheduler.clone(), manager.shutdown.clone());
    manager.shutdown.spawn(async move {
        shutdown.triggered().await;
        own.queue.close();
    });
}

impl Scheduler {
    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// A panic costs one attempt, not the worker.
    async fn safely(&self, turn: &Turn) -> Verdict {
        let span = info_span!("schedule", binding = %turn.key);
        let attempt = AssertUnwindSafe(self.take_turn(turn)).catch_unwind();
        attempt.instrument(span).await.unwrap_or_else(|_| {
            error!(binding = %turn.key, "scheduling panicked");
            Verdict::Failed
        })
    }
}

/// Lists the namespaced bindings by the groups they stay with or away from.
fn index_groups(informer: &Informer) {
    type Group = fn(&WorkloadAffinityGroups) -> &String;
    let indexes: [(&'static str, Group); 2] = [
        (cycle::AFFINITY_GROUP, |groups| &groups.affinity_group),
        (cycle::ANTI_AFFINITY_GROUP, |groups| &groups.anti_affinity_group),
    ];
    for (name, group) in indexes {
        informer.cache().add_spec_index(name, move |object: &Object| {
            let Ok(binding) = object.typed_for_now::<ResourceBinding>() else { return Vec::new() };
            let groups = binding.spec().workload_affinity_groups.as_ref().map(group);
            let groups = groups.filter(|group| !group.is_empty());
            groups.map(|group| format!("{}/{group}", object.namespace())).into_iter().collect()
        });
    }
}

//! Takes workloads off clusters with NoExecute taints that they do not tolerate, or no longer. What a
//! workload tolerates is what it was placed by. The cluster leaves the schedule result and becomes an
//! eviction task; moving the replicas is the scheduler's work, removing the old copy that of
//! [`super::graceful_eviction`]. Serves both binding scopes, at one pace.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::conditions::eviction;
use karmada_api::core::{Taint, TaintEffect, Toleration};
use karmada_api::features::Gate;
use karmada_api::policy::{FailoverBehavior, Placement, PurgeMode};
use karmada_api::wire::Time;
use karmada_api::work::{ClusterResourceBinding, GracefulEvictionTask, ResourceBinding};
use karmada_api::{Binding, annotations};
use karmada_client::{Client, Object};
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Queue, Recorder, Shutdown};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::metrics::Numbers;
use super::{gvr, state, tell_not_evicted, write_evictions};
use crate::cluster::lifecycle::{BY_CLUSTER, targets};
use crate::context::Context;

/// Compat: the pause of the original when nothing is to be evicted at all.
const HARDLY_EVER: Duration = Duration::from_secs(1800);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the binding or its cluster")]
    Decode(#[from] serde_json::Error),
    #[error("understand the placement that was applied")]
    Placement(#[source] serde_json::Error),
    #[error("gather what is handed over")]
    State(#[from] state::Error),
    #[error("write the eviction")]
    Write(#[source] karmada_client::Error),
}

/// One workload on one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stay {
    binding: ObjectKey,
    cluster: String,
}

impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.binding, self.cluster)
    }
}

/// How many workloads may go in which time.
struct Pace {
    pause: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    fn new(per_second: f64) -> Self {
        let pause = if per_second > 0.0 {
            Duration::try_from_secs_f64(per_second.recip()).unwrap_or(HARDLY_EVER)
        } else {
            HARDLY_EVER
        };
        Self { pause, next: Mutex::new(Instant::now()) }
    }

    /// Waits until another one may go; `is_still_due` is asked then, and only a yes counts.
    async fn turn(&self, is_still_due: impl Fn() -> bool) -> bool {
        let mut next = self.next.lock().await;
        tokio::time::sleep_until(*next).await;
        let is_due = is_still_due();
        if is_due {
            *next = Instant::now() + self.pause;
        }
        is_due
    }
}

struct Ctx {
    name: &'static str,
    client: Client,
    clock: Clock,
    bindings: Arc<Informer>,
    clusters: Arc<Informer>,
    events: Recorder,
    numbers: Numbers,
    pace: Arc<Pace>,
    queue: Queue<Stay>,
    /// What is in the queue or worked on, for the numbers.
    queued: parking_lot::Mutex<HashSet<Stay>>,
    shutdown: Shutdown,
    default_purge: PurgeMode,
    hands_over: bool,
}

/// Starts with the controllers of clusters, if that is wanted at all.
pub(crate) fn start(context: &Context) {
    let options = &context.options;
    let is_wanted = options.enable_taint_manager && options.enable_no_execute_taint_eviction;
    if !is_wanted || !context.gates.is_on(Gate::Failover) {
        return;
    }
    // Compat, row 8 of the quirk register: the documented rate, not three times it.
    let pace = Arc::new(Pace::new(options.resource_eviction_rate));
    let numbers = Numbers::new(&context.metrics);
    start_scope::<ResourceBinding>(context, "binding-eviction", &numbers, &pace);
    start_scope::<ClusterResourceBinding>(context, "cluster-binding-eviction", &numbers, &pace);
}

fn start_scope<B: Binding>(
    context: &Context,
    name: &'static str,
    numbers: &Numbers,
    pace: &Arc<Pace>,
) {
    let controller = context.controller(name);
    let ctx = Arc::new(Ctx {
        name,
        client: context.client.clone(),
        clock: context.clock.clone(),
        bindings: context.informers.all(&gvr::<B>()),
        clusters: context.informers.all(&gvr::<Cluster>()),
        events: context.recorder("taint-manager"),
        numbers: numbers.clone(),
        pace: pace.clone(),
        queue: controller.queue().clone(),
        queued: parking_lot::Mutex::default(),
        shutdown: context.shutdown.clone(),
        default_purge: context.options.no_execute_taint_eviction_purge_mode.clone(),
        hands_over: context.gates.is_on(Gate::StatefulFailoverInjection),
    });
    ctx.bindings.cache().add_spec_index(BY_CLUSTER, targets);
    let own = ctx.clone();
    context.keep(ctx.clusters.subscribe(move |change| own.on_cluster::<B>(change)));
    let own = ctx.clone();
    context.keep(ctx.bindings.subscribe(move |change| own.on_binding::<B>(change)));
    let inputs = vec![ctx.bindings.clone(), ctx.clusters.clone()];
    context.start(controller, inputs, move |stay| reconcile::<B>(stay, ctx.clone()));
}

fn expelling(cluster: &Cluster) -> Vec<Taint> {
    let taints = cluster.spec.taints.iter();
    taints.filter(|taint| taint.effect == TaintEffect::NoExecute).cloned().collect()
}

fn expelling_of(object: &Object) -> Vec<Taint> {
    object.typed::<Cluster>().map(|cluster| expelling(&cluster)).unwrap_or_default()
}

async fn reconcile<B: Binding>(stay: Stay, ctx: Arc<Ctx>) -> Result<Action, Error> {
    // One that was put off comes back without having been added.
    ctx.note_queued::<B>(&stay);
    ctx.numbers.waiting(ctx.name, ctx.queue.len());
    let (began, mut waited) = (Instant::now(), Duration::ZERO);
    let result = ctx.look::<B>(&stay, &mut waited).await;
    ctx.numbers.looked(ctx.name, began.elapsed().saturating_sub(waited), result.is_ok());
    ctx.numbers.waiting(ctx.name, ctx.queue.len());
    if result.is_ok() {
        ctx.note_done::<B>(&stay);
    }
    result
}

impl Ctx {
    fn on_cluster<B: Binding>(&self, change: &Change) {
        let Change::Applied { old, new } = change else { return };
        let taints = expelling_of(new);
        if taints.is_empty() || old.as_ref().is_some_and(|old| expelling_of(old) == taints) {
            return;
        }
        for binding in self.bindings.cache().by_index(BY_CLUSTER, new.name()) {
            let (binding, cluster) = (ObjectKey::of(&binding), new.name().to_owned());
            self.add::<B>(Stay { binding, cluster });
        }
    }

    fn on_binding<B: Binding>(&self, change: &Change) {
        let Change::Applied { new, .. } = change else { return };
        let Ok(binding) = new.typed_for_now::<B>() else { return };
        for cluster in binding.spec().clusters.iter().map(|target| &target.name) {
            let known = self.clusters.cache().get(&ObjectKey::cluster(cluster.as_str()));
            if known.is_some_and(|known| !expelling_of(&known).is_empty()) {
                let (binding, cluster) = (ObjectKey::of(new), cluster.clone());
                self.add::<B>(Stay { binding, cluster });
            }
        }
    }

    fn add<B: Binding>(&self, stay: Stay) {
        self.note_queued::<B>(&stay);
        self.queue.add(stay);
        self.numbers.waiting(self.name, self.queue.len());
    }

    fn note_queued<B: Binding>(&self, stay: &Stay) {
        if self.queued.lock().insert(stay.clone()) {
            self.numbers.queued(&stay.cluster, B::KIND);
        }
    }

    fn note_done<B: Binding>(&self, stay: &Stay) {
        if self.queued.lock().remove(stay) {
            self.numbers.done(&stay.cluster, B::KIND);
        }
    }

    /// How long the workload may stay, if it is there at all and has to go one day.
    fn verdict<B: Binding>(&self, stay: &Stay) -> Result<Option<Verdict<B>>, Error> {
        let object = self.bindings.cache().get(&stay.binding);
        let Some(object) = object.filter(|object| !object.is_being_deleted()) else {
            return Ok(None);
        };
        let binding = object.typed_for_now::<B>()?;
        let cluster = self.clusters.cache().get(&ObjectKey::cluster(stay.cluster.as_str()));
        let Some(cluster) = cluster.filter(|_| binding.spec().target_contains(&stay.cluster))
        else {
            return Ok(None);
        };
        let taints = expelling(&*cluster.typed::<Cluster>()?);
        // One that no scheduler has placed yet comes back when it has.
        let applied = binding.metadata().annotations.get(annotations::APPLIED_PLACEMENT);
        let Some(applied) = applied.filter(|_| !taints.is_empty()) else { return Ok(None) };
        let placement: Placement = serde_json::from_str(applied).map_err(Error::Placement)?;
        let now = self.clock.now().into();
        let left = time_left(&taints, &placement.cluster_tolerations, now);
        Ok(left.map(|left| Verdict { object, binding, left }))
    }

    /// Looks at one workload; `waited` is how long others went first.
    async fn look<B: Binding>(&self, stay: &Stay, waited: &mut Duration) -> Result<Action, Error> {
        let Some(verdict) = self.verdict::<B>(stay)? else { return Ok(Action::AwaitChange) };
        if !verdict.left.is_zero() {
            return Ok(Action::Requeue(verdict.left));
        }
        let is_due =
            || self.verdict::<B>(stay).is_ok_and(|verdict| verdict.is_some_and(|v| v.is_due()));
        let asked = Instant::now();
        let goes = tokio::select! {
            goes = self.pace.turn(is_due) => goes,
            () = self.shutdown.triggered() => return Ok(Action::AwaitChange),
        };
        *waited = asked.elapsed();
        match self.verdict::<B>(stay)? {
            Some(verdict) if goes && verdict.is_due() => self.evict(stay, &verdict).await,
            // Things changed while it waited for its turn.
            Some(verdict) => Ok(Action::Requeue(verdict.left)),
            None => Ok(Action::AwaitChange),
        }
    }

    async fn evict<B: Binding>(&self, stay: &Stay, verdict: &Verdict<B>) -> Result<Action, Error> {
        let Verdict { object, binding, .. } = verdict;
        let mut spec = binding.spec().clone();
        let failover = spec.failover.as_ref().and_then(|failover| failover.cluster.as_ref());
        let rules = failover.and_then(|failover| failover.state_preservation.as_ref());
        let rules = rules.filter(|_| self.hands_over);
        let reported = &binding.status().aggregated_status;
        let task = GracefulEvictionTask {
            from_cluster: stay.cluster.clone(),
            purge_mode: purge_mode(spec.failover.as_ref(), &self.default_purge),
            reason: eviction::REASON_TAINT_UNTOLERATED.to_owned(),
            producer: eviction::PRODUCER_TAINT_MANAGER.to_owned(),
            preserved_label_state: state::preserved(rules, reported, &stay.cluster)?,
            ..GracefulEvictionTask::default()
        };
        if !spec.gracefully_evict(task) {
            return Ok(Action::AwaitChange);
        }
        match write_evictions::<B>(&self.client, object, &spec).await {
            Ok(()) => {
                tracing::info!(cluster = stay.cluster, binding = %stay.binding, "evicted by taints");
                Ok(Action::AwaitChange)
            }
            Err(error) if error.is_not_found() => Ok(Action::AwaitChange),
            Err(error) => {
                if !error.is_conflict() {
                    tell_not_evicted(&self.events, object, &**binding, &error.to_string());
                }
                Err(Error::Write(error))
            }
        }
    }
}

struct Verdict<B> {
    object: Arc<Object>,
    binding: Arc<B>,
    left: Duration,
}

impl<B> Verdict<B> {
    fn is_due(&self) -> bool {
        self.left.is_zero()
    }
}

/// What happens to the copy: as the policy says, or else as the flag says.
fn purge_mode(failover: Option<&FailoverBehavior>, default: &PurgeMode) -> PurgeMode {
    match failover.and_then(|failover| failover.cluster.as_ref()) {
        Some(cluster) if cluster.purge_mode.is_unset() => PurgeMode::Gracefully,
        Some(cluster) => cluster.purge_mode.clone(),
        None => default.clone(),
    }
}

/// How long the taints are tolerated from now on; nothing means for ever.
fn time_left(taints: &[Taint], tolerations: &[Toleration], now: Time) -> Option<Duration> {
    taints.iter().filter_map(|taint| taint.tolerated_for(tolerations, now)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::{Value, json};

    fn taint(key: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            effect: TaintEffect::NoExecute,
            time_added: Some(Time("2026-01-01T00:00:00Z".parse().unwrap())),
            ..Taint::default()
        }
    }

    fn toleration(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: key.to_owned(),
            effect: TaintEffect::NoExecute,
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    #[test]
    fn the_shortest_toleration_decides_and_an_untolerated_taint_ends_it() {
        let seconds = Duration::from_secs;
        let now = Time("2026-01-01T00:00:30Z".parse().unwrap());
        let (one, two) = ([taint("a")], [taint("a"), taint("b")]);
        type Tolerations = Vec<Toleration>;
        let cases: [(&[Taint], Tolerations, Option<Duration>); 8] = [
            (&one, vec![], Some(Duration::ZERO)),
            (&one, vec![toleration("b", None)], Some(Duration::ZERO)),
            (&one, vec![toleration("a", None)], None),
            (&one, vec![toleration("a", Some(60))], Some(seconds(30))),
            (&one, vec![toleration("a", Some(10))], Some(Duration::ZERO)),
            (&one, vec![toleration("a", None), toleration("a", Some(40))], Some(seconds(10))),
            (&two, vec![toleration("a", None)], Some(Duration::ZERO)),
            (&two, vec![toleration("a", Some(90)), toleration("b", None)], Some(seconds(60))),
        ];
        for (taints, tolerations, expected) in cases {
            assert_eq!(time_left(taints, &tolerations, now), expected, "{tolerations:?}");
        }
        let mut undated = taint("a");
        undated.time_added = None;
        assert_eq!(time_left(&[undated], &[toleration("a", Some(1))], now), None);
    }

    #[test]
    fn the_policy_says_what_becomes_of_the_copy_or_else_the_flag() {
        let failover = |mode: Value| -> FailoverBehavior {
            karmada_apimachinery::from_value(json!({"cluster": mode})).unwrap()
        };
        let flag = PurgeMode::Directly;
        assert_eq!(purge_mode(None, &flag), PurgeMode::Directly);
        assert_eq!(purge_mode(Some(&FailoverBehavior::default()), &flag), PurgeMode::Directly);
        assert_eq!(purge_mode(Some(&failover(json!({}))), &flag), PurgeMode::Gracefully);
        let direct = failover(json!({"purgeMode": "Directly"}));
        assert_eq!(purge_mode(Some(&direct), &PurgeMode::Gracefully), PurgeMode::Directly);
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_keep_their_pace_and_those_that_are_not_due_take_no_turn() {
        let pace = Pace::new(0.5);
        let began = Instant::now();
        assert!(pace.turn(|| true).await);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(!pace.turn(|| false).await);
        assert!(pace.turn(|| true).await);
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        assert!(pace.turn(|| true).await);
        assert_eq!(began.elapsed(), Duration::from_secs(4));
        assert_eq!(Pace::new(0.0).pause, HARDLY_EVER);
    }
}

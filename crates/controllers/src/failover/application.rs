//! Moves applications that stay unhealthy in a cluster for longer than their policy tolerates. The
//! cluster leaves the schedule result and becomes an eviction task, as with [`super::taint_eviction`].
//! Since when an application has been unhealthy is kept in memory only: after a restart its time
//! begins anew. Serves both binding scopes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use karmada_api::Binding;
use karmada_api::conditions::eviction;
use karmada_api::features::Gate;
use karmada_api::policy::{ApplicationFailoverBehavior, PurgeMode};
use karmada_api::work::{
    ClusterResourceBinding, GracefulEvictionTask, ResourceBinding, ResourceHealth,
};
use karmada_apimachinery::gvk::GroupVersion;
use karmada_client::{Client, Object};
use karmada_interpreter::{Interpreter, Operation};
use karmada_runtime::{Action, Change, Informer, ObjectKey, Priority, Recorder};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{gvr, state, tell_not_evicted, write_evictions};
use crate::context::Context;

/// How long an application may be unhealthy if its policy does not say.
const TOLERATED: Duration = Duration::from_secs(300);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the binding")]
    Decode(#[from] serde_json::Error),
    #[error("gather what is handed over")]
    State(#[from] state::Error),
    #[error("a copy can only be purged Gracefully with the feature gate GracefulEviction")]
    NoGrace,
    #[error("write the evictions")]
    Write(#[source] karmada_client::Error),
}

/// Since when an application has been unhealthy in clusters.
type Since = BTreeMap<String, Instant>;

struct Ctx {
    name: &'static str,
    client: Client,
    bindings: Arc<Informer>,
    interpreter: Arc<Interpreter>,
    events: Recorder,
    unhealthy: Mutex<HashMap<ObjectKey, Since>>,
    /// Compat, row 6 of the quirk register: what has dependencies moves only if these move along.
    needs_dependencies: bool,
    hands_over: bool,
    graceful: bool,
}

pub(crate) fn start(context: &Context) {
    let name = eviction::PRODUCER_RESOURCE_BINDING_FAILOVER;
    start_scope::<ResourceBinding>(context, name, true);
    let name = eviction::PRODUCER_CLUSTER_RESOURCE_BINDING_FAILOVER;
    start_scope::<ClusterResourceBinding>(context, name, false);
}

fn start_scope<B: Binding>(context: &Context, name: &'static str, needs_dependencies: bool) {
    let controller = context.controller(name).workers(context.options.workers);
    let ctx = Arc::new(Ctx {
        name,
        client: context.client.clone(),
        bindings: context.informers.all(&gvr::<B>()),
        interpreter: context.interpreter.clone(),
        events: context.recorder(name),
        unhealthy: Mutex::default(),
        needs_dependencies,
        hands_over: context.gates.is_on(Gate::StatefulFailoverInjection),
        graceful: context.gates.is_on(Gate::GracefulEviction),
    });
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.bindings.subscribe(move |change| {
        let key = ObjectKey::of(change.object());
        // One whose policy no longer asks for it is looked at once more, to forget it.
        let is_known = || own.unhealthy.lock().contains_key(&key);
        let is_asked = match change {
            Change::Applied { new, .. } => {
                new.typed_for_now::<B>().is_ok_and(|b| behavior(&*b).is_some())
            }
            Change::Deleted(_) => false,
        };
        if is_asked || is_known() {
            let is_new = matches!(change, Change::Applied { old: None, .. });
            let priority = if is_new { Priority::Low } else { Priority::Normal };
            queue.add_with_priority(key, priority);
        }
    }));
    let inputs = vec![ctx.bindings.clone()];
    context.start_interpreting(controller, inputs, move |key| reconcile::<B>(key, ctx.clone()));
}

fn behavior<B: Binding>(binding: &B) -> Option<&ApplicationFailoverBehavior> {
    binding.spec().failover.as_ref()?.application.as_ref()
}

async fn reconcile<B: Binding>(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.bindings.cache().get(&key).filter(|object| !object.is_being_deleted());
    let binding = object.as_ref().map(|object| object.typed_for_now::<B>()).transpose()?;
    let moves = binding.as_deref().is_some_and(|binding| ctx.may_move(binding));
    let (Some(object), Some(binding), true) = (object, binding, moves) else {
        ctx.unhealthy.lock().remove(&key);
        return Ok(Action::AwaitChange);
    };
    let plan = {
        let mut unhealthy = ctx.unhealthy.lock();
        let since = unhealthy.remove(&key).unwrap_or_default();
        let (plan, since) = assess(&*binding, since, Instant::now());
        if !since.is_empty() {
            unhealthy.insert(key, since);
        }
        plan
    };
    if !plan.evict.is_empty() {
        ctx.evict(&object, &*binding, &plan.evict).await?;
    }
    Ok(plan.recheck_in.map_or(Action::AwaitChange, Action::Requeue))
}

/// Who has been unhealthy for too long, and when the next one will be.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    evict: Vec<String>,
    recheck_in: Option<Duration>,
}

/// Decides who has to go; the second is what has to be remembered.
fn assess<B: Binding>(binding: &B, mut since: Since, now: Instant) -> (Plan, Since) {
    let mut plan = Plan::default();
    let spec = binding.spec();
    let tolerated = behavior(binding).and_then(|b| b.decision_conditions.toleration_seconds);
    let tolerated = tolerated.map(|seconds| u64::try_from(seconds).unwrap_or_default());
    let tolerated = tolerated.map_or(TOLERATED, Duration::from_secs);
    let reported = &binding.status().aggregated_status;
    let is_healthy = |cluster: &str| {
        let of = |item: &&karmada_api::work::AggregatedStatusItem| item.cluster_name == cluster;
        reported.iter().find(of).is_some_and(|item| item.health == ResourceHealth::Healthy)
    };
    // An unknown state says nothing: neither that the time begins nor that it is over.
    since.retain(|cluster, _| spec.target_contains(cluster) && !is_healthy(cluster));
    let unhealthy = reported.iter().filter(|item| item.health == ResourceHealth::Unhealthy);
    for item in unhealthy {
        let cluster = &item.cluster_name;
        if !spec.target_contains(cluster) || spec.is_evicting(cluster) {
            continue;
        }
        let began = *since.entry(cluster.clone()).or_insert(now);
        let left = tolerated.saturating_sub(now.duration_since(began));
        // Row 22 of the quirk register: who is given no time goes at once.
        if left.is_zero() {
            plan.evict.push(cluster.clone());
        } else {
            plan.recheck_in = Some(plan.recheck_in.map_or(left, |soonest| soonest.min(left)));
        }
    }
    (plan, since)
}

impl Ctx {
    /// Whether the policy asks for it and somebody can tell how the application is.
    fn may_move<B: Binding>(&self, binding: &B) -> bool {
        let spec = binding.spec();
        let group_version = GroupVersion::parse(&spec.resource.api_version).unwrap_or_default();
        let gvk = group_version.with_kind(&spec.resource.kind);
        behavior(binding).is_some()
            && (spec.propagate_deps || !self.needs_dependencies)
            && self.interpreter.hook_enabled(&gvk, Operation::InterpretHealth)
    }

    async fn evict<B: Binding>(
        &self,
        object: &Object,
        binding: &B,
        clusters: &[String],
    ) -> Result<(), Error> {
        let mut spec = binding.spec().clone();
        for cluster in clusters {
            let task = self.task(binding, cluster)?;
            spec.gracefully_evict(task);
        }
        match write_evictions::<B>(&self.client, object, &spec).await {
            Ok(()) => {
                tracing::info!(?clusters, binding = object.name(), "unhealthy for too long");
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                if !error.is_conflict() {
                    tell_not_evicted(&self.events, object, binding, &error.to_string());
                }
                Err(Error::Write(error))
            }
        }
    }

    fn task<B: Binding>(&self, binding: &B, cluster: &str) -> Result<GracefulEvictionTask, Error> {
        let behavior = behavior(binding).cloned().unwrap_or_default();
        let purge_mode = match behavior.purge_mode {
            mode if mode.is_unset() => PurgeMode::Gracefully,
            mode => mode,
        };
        let graceful = purge_mode == PurgeMode::Gracefully;
        if graceful && !self.graceful {
            return Err(Error::NoGrace);
        }
        let rules = behavior.state_preservation.as_ref().filter(|_| self.hands_over);
        let reported = &binding.status().aggregated_status;
        let preserved_label_state = state::preserved(rules, reported, cluster)?;
        let before = binding.spec().clusters.iter().map(|target| target.name.clone());
        let clusters_before_failover =
            if preserved_label_state.is_empty() { Vec::new() } else { before.collect() };
        Ok(GracefulEvictionTask {
            from_cluster: cluster.to_owned(),
            suppress_deletion: (purge_mode == PurgeMode::Never).then_some(true),
            grace_period_seconds: behavior.grace_period_seconds.filter(|_| graceful),
            purge_mode,
            reason: eviction::REASON_APPLICATION_FAILURE.to_owned(),
            producer: self.name.to_owned(),
            preserved_label_state,
            clusters_before_failover,
            ..GracefulEvictionTask::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::{Value, json};

    /// An application in m1 and m2 that is like this there.
    fn binding(health: [&str; 2], more: Value) -> ResourceBinding {
        let mut spec = json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}],
            "failover": {"application": {"decisionConditions": {"tolerationSeconds": 60}}},
        });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let binding = json!({
            "metadata": {"name": "web-deployment", "namespace": "default"},
            "spec": spec,
            "status": {"aggregatedStatus": [
                {"clusterName": "m1", "health": health[0]},
                {"clusterName": "m2", "health": health[1]},
            ]},
        });
        karmada_apimachinery::from_value(binding).unwrap()
    }

    fn plan(evict: &[&str], recheck: Option<u64>) -> Plan {
        let evict = evict.iter().map(|cluster| (*cluster).to_owned()).collect();
        Plan { evict, recheck_in: recheck.map(Duration::from_secs) }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_unhealthy_for_as_long_as_is_tolerated_goes() {
        let began = Instant::now();
        let later = |seconds| began + Duration::from_secs(seconds);
        let ill = binding(["Unhealthy", "Healthy"], json!({}));
        let (first, since) = assess(&ill, Since::new(), began);
        assert_eq!(first, plan(&[], Some(60)));
        let (second, since) = assess(&ill, since, later(45));
        assert_eq!(second, plan(&[], Some(15)));
        let (third, since) = assess(&ill, since, later(60));
        assert_eq!(third, plan(&["m1"], None));
        // Nobody is evicted twice, and who left is forgotten.
        let tasks = json!([{"fromCluster": "m1", "reason": "R", "producer": "p"}]);
        let left = binding(
            ["Unhealthy", "Healthy"],
            json!({"clusters": [{"name": "m2"}], "gracefulEvictionTasks": tasks}),
        );
        assert_eq!(assess(&left, since, later(61)), (plan(&[], None), Since::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_begins_anew_after_health_and_goes_on_through_what_is_unknown() {
        let began = Instant::now();
        let later = |seconds| began + Duration::from_secs(seconds);
        let (ill, unknown) = (["Unhealthy", "Healthy"], ["Unknown", "Healthy"]);
        let (_, since) = assess(&binding(ill, json!({})), Since::new(), began);
        let (told, since) = assess(&binding(unknown, json!({})), since, later(90));
        assert_eq!(told, plan(&[], None), "nobody goes on a state that is not known");
        let (told, since) = assess(&binding(ill, json!({})), since, later(91));
        assert_eq!(told, plan(&["m1"], None));
        let (_, since) = assess(&binding(["Healthy"; 2], json!({})), since, later(92));
        assert_eq!(assess(&binding(ill, json!({})), since, later(93)).0, plan(&[], Some(60)));
    }

    /// Row 22 of the quirk register: fixed.
    #[tokio::test(start_paused = true)]
    async fn who_is_given_no_time_goes_at_the_first_look() {
        let failover = |seconds: Value| {
            let conditions = json!({"tolerationSeconds": seconds});
            json!({"failover": {"application": {"decisionConditions": conditions}}})
        };
        let now = Instant::now();
        let ill = binding(["Unhealthy"; 2], failover(json!(0)));
        assert_eq!(assess(&ill, Since::new(), now).0, plan(&["m1", "m2"], None));
        let ill = binding(["Unhealthy"; 2], failover(Value::Null));
        assert_eq!(assess(&ill, Since::new(), now).0, plan(&[], Some(300)));
    }
}

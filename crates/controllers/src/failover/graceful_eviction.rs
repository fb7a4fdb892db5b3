//! Ends eviction tasks: the old copy may go when every cluster that has the workload now is healthy,
//! or when the grace period is over. The binding controller then removes it. Serves both binding
//! scopes.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::Binding;
use karmada_api::cluster::Cluster;
use karmada_api::features::Gate;
use karmada_api::wire::Time;
use karmada_api::work::{
    AggregatedStatusItem, ClusterResourceBinding, GracefulEvictionTask, ResourceBinding,
    ResourceHealth, TargetCluster,
};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Client;
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Priority, Recorder};

use super::{gvr, tell_evicted, tell_not_evicted};
use crate::context::Context;

/// When to look again after somebody else was faster.
const SOON: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the binding")]
    Decode(#[from] serde_json::Error),
    #[error("write the remaining tasks")]
    Write(#[source] karmada_client::Error),
}

struct Ctx {
    client: Client,
    clock: Clock,
    bindings: Arc<Informer>,
    clusters: Arc<Informer>,
    events: Recorder,
    timeout: Duration,
}

pub(crate) fn start(context: &Context) {
    if context.gates.is_on(Gate::GracefulEviction) {
        start_scope::<ResourceBinding>(context, "resource-binding-graceful-eviction-controller");
        let name = "cluster-resource-binding-graceful-eviction-controller";
        start_scope::<ClusterResourceBinding>(context, name);
    }
}

fn start_scope<B: Binding>(context: &Context, name: &'static str) {
    let controller = context.controller(name).workers(context.options.workers);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        clock: context.clock.clone(),
        bindings: context.informers.all(&gvr::<B>()),
        clusters: context.informers.all(&gvr::<Cluster>()),
        events: context.recorder(name),
        timeout: context.options.graceful_eviction_timeout,
    });
    let queue = controller.queue().clone();
    context.keep(ctx.bindings.subscribe(move |change| {
        let Change::Applied { old, new } = change else { return };
        let has_tasks = new
            .typed_for_now::<B>()
            .is_ok_and(|new| !new.spec().graceful_eviction_tasks.is_empty());
        if has_tasks {
            let priority = if old.is_some() { Priority::Normal } else { Priority::Low };
            queue.add_with_priority(ObjectKey::of(new), priority);
        }
    }));
    let inputs = vec![ctx.bindings.clone(), ctx.clusters.clone()];
    context.start(controller, inputs, move |key| reconcile::<B>(key, ctx.clone()));
}

async fn reconcile<B: Binding>(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.bindings.cache().get(&key).filter(|object| !object.is_being_deleted());
    let Some(object) = object else { return Ok(Action::AwaitChange) };
    let binding = object.typed_for_now::<B>()?;
    let is_ready = |cluster: &str| {
        let known = ctx.clusters.cache().get(&ObjectKey::cluster(cluster));
        known.and_then(|known| known.typed::<Cluster>().ok()).is_some_and(|c| c.is_ready())
    };
    let plan =
        assess(&*binding, is_replaced(&*binding, is_ready), ctx.clock.now().into(), ctx.timeout);
    let tasks = &binding.spec().graceful_eviction_tasks;
    if plan.kept != *tasks {
        let kept = if plan.kept.is_empty() { Value::Null } else { json!(plan.kept) };
        // The version makes sure that a task added meanwhile is not lost.
        let patch = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "spec": {"gracefulEvictionTasks": kept},
        });
        let api = ctx.client.api(&gvr::<B>()).namespaced(object.namespace());
        match api.merge_patch(object.name(), patch).await {
            Ok(_) => {
                for cluster in &plan.evicted {
                    tell_evicted(&ctx.events, &object, &*binding, cluster);
                }
            }
            Err(error) if error.is_not_found() => return Ok(Action::AwaitChange),
            // Somebody wrote between; the cache will show what.
            Err(error) if error.is_conflict() => return Ok(Action::Requeue(SOON)),
            Err(error) => {
                tell_not_evicted(&ctx.events, &object, &*binding, &error.to_string());
                return Err(Error::Write(error));
            }
        }
    }
    Ok(plan.recheck_in.map_or(Action::AwaitChange, Action::Requeue))
}

/// What becomes of the tasks.
#[derive(Debug, Default, PartialEq)]
struct Plan {
    kept: Vec<GracefulEvictionTask>,
    evicted: Vec<String>,
    recheck_in: Option<Duration>,
}

fn assess<B: Binding>(binding: &B, is_replaced: bool, now: Time, timeout: Duration) -> Plan {
    let mut plan = Plan::default();
    for task in &binding.spec().graceful_eviction_tasks {
        let mut task = task.clone();
        let is_new = task.creation_timestamp.is_none();
        // One that begins later than now is from before the clock was set back: it is counted from
        // now, or it would stay until the clock is there again.
        let began = task.creation_timestamp.filter(|began| *began <= now).unwrap_or(now);
        task.creation_timestamp = Some(began);
        let grace = task.grace_period_seconds.and_then(|grace| u64::try_from(grace).ok());
        let grace = grace.map_or(timeout, Duration::from_secs);
        let gone = Duration::try_from(now.0.duration_since(began.0)).unwrap_or_default();
        let left = grace.saturating_sub(gone);
        let goes = match task.suppress_deletion {
            Some(is_suppressed) => !is_suppressed,
            // Compat, row 7 of the quirk register: without any cluster left it goes at once.
            None => left.is_zero() || is_replaced,
        };
        if goes && !is_new {
            plan.evicted.push(task.from_cluster);
            continue;
        }
        if task.suppress_deletion.is_none() {
            plan.recheck_in = Some(plan.recheck_in.map_or(left, |soonest| soonest.min(left)));
        }
        plan.kept.push(task);
    }
    plan
}

/// Whether the scheduler has dealt with the binding as it is, and all its clusters are healthy. What
/// was reported before the move does not count: neither the word of a cluster that cannot be heard
/// any more, nor that of one which had fewer replicas to run.
fn is_replaced<B: Binding>(binding: &B, is_ready: impl Fn(&str) -> bool) -> bool {
    let status = binding.status();
    let is_healthy = |target: &TargetCluster| {
        let of = |item: &&AggregatedStatusItem| item.cluster_name == target.name;
        let Some(item) = status.aggregated_status.iter().find(of) else { return false };
        let reported = item.status.as_ref().and_then(|status| status.i64_at(&["replicas"]));
        item.health == ResourceHealth::Healthy
            && reported.is_none_or(|replicas| replicas >= target.replicas.into())
            && is_ready(&target.name)
    };
    status.scheduler_observed_generation == binding.metadata().generation
        && binding.spec().clusters.iter().all(is_healthy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A binding that moved from m1 to m2 with this task, two minutes after noon.
    fn binding(task: Value, health: &str, observed: i64) -> ResourceBinding {
        let binding = json!({
            "metadata": {"name": "web-deployment", "namespace": "default", "generation": 3},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "clusters": [{"name": "m2", "replicas": 2}],
                "gracefulEvictionTasks": [task],
            },
            "status": {
                "schedulerObservedGeneration": observed,
                "aggregatedStatus": [
                    {"clusterName": "m1", "health": "Unhealthy"},
                    {"clusterName": "m2", "health": health, "status": {"replicas": 2}},
                ],
            },
        });
        karmada_apimachinery::from_value(binding).unwrap()
    }

    fn task(more: Value) -> Value {
        let mut task = json!({"fromCluster": "m1", "reason": "R", "producer": "p",
            "creationTimestamp": "2026-01-01T12:00:00Z"});
        for (key, value) in more.as_object().unwrap() {
            task[key] = value.clone();
        }
        task
    }

    fn assess_at_two_past(binding: &ResourceBinding) -> Plan {
        let now = Time("2026-01-01T12:02:00Z".parse().unwrap());
        assess(binding, is_replaced(binding, |_| true), now, Duration::from_secs(600))
    }

    #[test]
    fn the_old_copy_stays_until_the_new_one_is_healthy_or_the_time_is_over() {
        let seconds = |count| Some(Duration::from_secs(count));
        // What the task says, how the new copy is, which generation was scheduled; whether the old
        // copy goes, and when to look again.
        let cases = [
            (json!({}), "Unhealthy", 3, false, seconds(480)),
            (json!({}), "Unknown", 3, false, seconds(480)),
            (json!({}), "Healthy", 3, true, None),
            (json!({}), "Healthy", 2, false, seconds(480)),
            (json!({"gracePeriodSeconds": 200}), "Unhealthy", 3, false, seconds(80)),
            (json!({"gracePeriodSeconds": 100}), "Unhealthy", 3, true, None),
            (json!({"suppressDeletion": true}), "Healthy", 3, false, None),
            (json!({"suppressDeletion": false}), "Unhealthy", 3, true, None),
        ];
        for (more, health, observed, goes, recheck_in) in cases {
            let plan = assess_at_two_past(&binding(task(more.clone()), health, observed));
            assert_eq!((plan.kept.is_empty(), plan.recheck_in), (goes, recheck_in), "{more}");
            assert_eq!(plan.evicted.len(), usize::from(goes), "{more}");
        }
    }

    #[test]
    fn what_was_reported_before_the_move_does_not_count() {
        let mut moved = binding(task(json!({})), "Healthy", 3);
        assert!(is_replaced(&moved, |_| true));
        assert!(!is_replaced(&moved, |_| false), "nobody hears from m2 any more");
        moved.spec.clusters[0].replicas = 4;
        assert!(!is_replaced(&moved, |_| true), "it was well when it had to run two");
    }

    #[test]
    fn a_new_task_is_dated_first() {
        let mut fresh = task(json!({}));
        fresh.as_object_mut().unwrap().remove("creationTimestamp");
        let plan = assess_at_two_past(&binding(fresh, "Healthy", 3));
        assert!(plan.evicted.is_empty());
        let began = plan.kept[0].creation_timestamp.unwrap();
        assert_eq!(began, Time("2026-01-01T12:02:00Z".parse().unwrap()));
        assert_eq!(plan.recheck_in, Some(Duration::from_secs(600)));
    }

    #[test]
    fn a_task_from_before_the_clock_was_set_back_is_counted_from_now() {
        let later = task(json!({"creationTimestamp": "2026-01-01T14:00:00Z"}));
        let mut binding = binding(later, "Unhealthy", 3);
        let plan = assess_at_two_past(&binding);
        assert_eq!(plan.recheck_in, Some(Duration::from_secs(600)));
        binding.spec.graceful_eviction_tasks = plan.kept;
        let then = Time("2026-01-01T12:12:00Z".parse().unwrap());
        assert_eq!(assess(&binding, false, then, Duration::from_secs(600)).evicted, ["m1"]);
    }

    /// Row 7 of the quirk register: matched.
    #[test]
    fn without_any_cluster_left_the_old_copy_goes_at_once() {
        let mut binding = binding(task(json!({})), "Unhealthy", 3);
        binding.spec.clusters.clear();
        assert_eq!(assess_at_two_past(&binding).evicted, ["m1"]);
    }
}

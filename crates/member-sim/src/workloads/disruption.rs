//! Keeps the status of PodDisruptionBudgets: how many pods are healthy, how many must be, and how
//! many may be disturbed. The eviction of a pod is decided by what stands here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::int_or_string::{Rounding, scaled_value};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::time::{format_time, parse_time};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, OwnerReference};
use karmada_runtime::{
    Action, Change, Clock, Controller, Informer, Manager, ObjectKey, Queue, Recorder,
};

use super::ownership::controller_of;
use super::pods::Pod;
use super::status::{Error, write_status};

/// A pod that was evicted but is still there after this time is not on its way out.
const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// Kinds whose number of replicas is known to be in `spec.replicas`.
const SCALED: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "ReplicationController", "replicationcontrollers"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "Deployment", "deployments"),
];

struct Ctx {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    budgets: Arc<Informer>,
    pods: Arc<Informer>,
    scaled: BTreeMap<&'static str, Arc<Informer>>,
}

fn budgets() -> Gvr {
    Gvr::new("policy", "v1", "poddisruptionbudgets")
}

pub(crate) fn start(manager: &Manager) {
    let follow = |(group, version, kind, plural): &(&'static str, &str, &'static str, &str)| {
        (*kind, manager.informers.all(&Gvr::new(*group, *version, *plural)))
    };
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        recorder: manager.recorder("controllermanager"),
        budgets: manager.informers.all(&budgets()),
        pods: manager.informers.all(&Gvr::new("", "v1", "pods")),
        scaled: SCALED.iter().map(follow).collect(),
    });
    let controller = Controller::new("disruption", &manager.metrics);
    manager.keep(ctx.budgets.feed(controller.queue()));
    let (queue, budgets) = (controller.queue().clone(), ctx.budgets.clone());
    manager.keep(ctx.pods.subscribe(move |change| wake(change, &budgets, &queue)));
    let mut inputs = vec![ctx.budgets.clone(), ctx.pods.clone()];
    inputs.extend(ctx.scaled.values().cloned());
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

fn wake(change: &Change, budgets: &Informer, queue: &Queue<ObjectKey>) {
    let old = match change {
        Change::Applied { old, .. } => old.as_ref(),
        Change::Deleted(_) => None,
    };
    let new = change.object();
    for budget in budgets.cache().list_namespace(new.namespace()) {
        let selector = selector_of(&budget.value());
        let was = old.is_some_and(|old| selector.matches_map(&old.meta().labels));
        if was || selector.matches_map(&new.meta().labels) {
            queue.add(ObjectKey::of(&budget));
        }
    }
}

/// Compat: an empty selector selects everything, none at all nothing.
fn selector_of(budget: &Value) -> LabelSelector {
    match budget.at(&["spec", "selector"]) {
        Some(selector @ Value::Object(_)) => {
            LabelSelector::from_object(Some(selector)).unwrap_or(LabelSelector::nothing())
        }
        _ => LabelSelector::nothing(),
    }
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(budget) = ctx.budgets.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let value = budget.value();
    let selector = selector_of(&value);
    let pods = ctx.pods.cache().list_namespace(&key.namespace);
    let pods: Vec<_> =
        pods.iter().filter(|pod| selector.matches_map(&pod.meta().labels)).map(Pod::of).collect();
    if pods.is_empty() {
        ctx.recorder.normal(&*budget, "NoPods", "No matching pods found");
    }
    let scales = |owner: &OwnerReference| ctx.scale_of(&key.namespace, owner);
    let plan = assess(&value, &pods, &scales, ctx.clock.now());
    if let Err(problem) = &plan.expected {
        let message = format!("Failed to calculate the number of expected pods: {problem}");
        ctx.recorder.warning(&*budget, "CalculateExpectedPodCountFailed", message);
    }
    let api = ctx.client.api(&budgets()).namespaced(&key.namespace);
    let written = write_status(&api, &budget, plan.status).await;
    written.map_err(|source| Error::new("PodDisruptionBudget", &key, source))?;
    Ok(plan.recheck_in.map_or(Action::AwaitChange, Action::Requeue))
}

impl Ctx {
    /// Returns whom an owner stands for and how many replicas that has.
    fn scale_of(&self, namespace: &str, owner: &OwnerReference) -> Option<(String, i64)> {
        let cache = self.scaled.get(owner.kind.as_str())?.cache();
        let found = cache.get(&ObjectKey::new(namespace, owner.name.as_str()))?;
        if found.uid() != owner.uid {
            return None;
        }
        if owner.kind == "ReplicaSet" {
            let above = controller_of(found.meta()).filter(|above| above.kind == "Deployment");
            if let Some(above) = above {
                return self.scale_of(namespace, above);
            }
        }
        Some((owner.uid.clone(), found.value().i64_at(&["spec", "replicas"]).unwrap_or(1)))
    }
}

#[derive(Debug)]
struct Plan {
    expected: Result<i64, String>,
    status: Value,
    recheck_in: Option<Duration>,
}

fn assess(
    budget: &Value,
    pods: &[Pod],
    scales: &dyn Fn(&OwnerReference) -> Option<(String, i64)>,
    now: Timestamp,
) -> Plan {
    let (disrupted, recheck_in) = still_disrupted(budget, pods, now);
    let healthy = pods
        .iter()
        .filter(|pod| !pod.is_terminating() && !disrupted.contains_key(pod.name()))
        .filter(|pod| pod.is_ready())
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let counted = expectation(budget, pods, scales);
    let generation = budget.i64_at(&["metadata", "generation"]).unwrap_or_default();
    let (expected, desired) = match &counted {
        Ok(counts) => *counts,
        Err(_) => (0, 0),
    };
    // Doubt forbids: a budget that cannot be counted lets nobody go.
    let allowed = if counted.is_ok() && expected > 0 { (healthy - desired).max(0) } else { 0 };
    let mut status = match &counted {
        Ok(_) => json!({
            "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
        }),
        Err(_) => {
            let before = |field: &str| budget.i64_at(&["status", field]).unwrap_or_default();
            json!({
                "currentHealthy": before("currentHealthy"),
                "desiredHealthy": before("desiredHealthy"),
                "expectedPods": before("expectedPods"),
            })
        }
    };
    status["disruptionsAllowed"] = allowed.into();
    status["observedGeneration"] = generation.into();
    if !disrupted.is_empty() {
        status["disruptedPods"] = json!(disrupted);
    }
    let problem = counted.as_ref().err().map(String::as_str);
    status["conditions"] = conditions(budget, allowed, problem, generation, now);
    Plan { expected: counted.map(|(expected, _)| expected), status, recheck_in }
}

/// How many pods there should be, and how many of them healthy.
fn expectation(
    budget: &Value,
    pods: &[Pod],
    scales: &dyn Fn(&OwnerReference) -> Option<(String, i64)>,
) -> Result<(i64, i64), String> {
    let total = || -> Result<i64, String> {
        let mut owners = BTreeMap::new();
        for pod in pods {
            // Pods nobody manages have no number to be a share of.
            let Some(owner) = controller_of(pod.object.meta()) else { continue };
            let found = scales(owner);
            let (uid, scale) =
                found.ok_or_else(|| format!("found no controllers for pod {:?}", pod.name()))?;
            owners.insert(uid, scale);
        }
        Ok(owners.values().sum())
    };
    let spec = |field: &str| budget.at(&["spec", field]).filter(|value| !value.is_null());
    if let Some(limit) = spec("maxUnavailable") {
        let total = total()?;
        return Ok((total, (total - scaled_value(limit, total, Rounding::Up)?).max(0)));
    }
    match spec("minAvailable") {
        Some(share @ Value::String(_)) => {
            let total = total()?;
            Ok((total, scaled_value(share, total, Rounding::Up)?))
        }
        Some(number) => {
            let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
            Ok((count, number.as_i64().unwrap_or_default()))
        }
        None => Ok((0, 0)),
    }
}

/// Pods that were evicted and have not begun to go yet, and when to stop waiting for them.
fn still_disrupted(
    budget: &Value,
    pods: &[Pod],
    now: Timestamp,
) -> (BTreeMap<String, String>, Option<Duration>) {
    let (mut left, mut soonest) = (BTreeMap::new(), None::<Duration>);
    let noted = budget.map_at(&["status", "disruptedPods"]);
    for (name, at) in noted.into_iter().flatten() {
        let waiting = pods.iter().any(|pod| pod.name() == name && !pod.is_terminating());
        let Some(at) = at.as_str().filter(|_| waiting) else { continue };
        let due = parse_time(at).and_then(|at| at.checked_add(EVICTION_TIMEOUT).ok());
        let Some(due) = due.filter(|due| *due >= now) else { continue };
        let wait = Duration::try_from(due.duration_since(now)).unwrap_or_default();
        soonest = Some(soonest.map_or(wait, |soonest| soonest.min(wait)));
        left.insert(name.to_string(), at.to_owned());
    }
    (left, soonest)
}

fn conditions(
    budget: &Value,
    allowed: i64,
    problem: Option<&str>,
    generation: i64,
    now: Timestamp,
) -> Value {
    let (status, reason) = match (problem, allowed) {
        (Some(_), _) => ("False", "SyncFailed"),
        (None, 0) => ("False", "InsufficientPods"),
        (None, _) => ("True", "SufficientPods"),
    };
    let known = budget.list_at(&["status", "conditions"]);
    let is_own = |condition: &&Value| condition.str_at(&["type"]) == Some("DisruptionAllowed");
    let own = known.iter().find(is_own);
    let same = own.filter(|own| own.str_at(&["status"]) == Some(status));
    let since = same.and_then(|own| own.str_at(&["lastTransitionTime"]).map(str::to_owned));
    let mut list: Vec<_> = known.iter().filter(|c| !is_own(c)).cloned().collect();
    list.push(json!({
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": problem.unwrap_or_default(),
        "observedGeneration": generation,
        "lastTransitionTime": since.unwrap_or_else(|| format_time(now)),
    }));
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(ready: usize, unready: usize) -> Vec<Pod> {
        let pod = |number: usize| {
            let status = if number < ready { "True" } else { "False" };
            Pod::from_value(&json!({"metadata": {"name": format!("p{number}"),
                "ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "u",
                    "controller": true}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}}))
        };
        (0..ready + unready).map(pod).collect()
    }

    fn status(spec: Value, status: Value, pods: &[Pod]) -> Value {
        let budget = json!({"metadata": {"generation": 1}, "spec": spec, "status": status});
        let scales = |owner: &OwnerReference| Some((owner.uid.clone(), 10));
        assess(&budget, pods, &scales, parse_time("2026-01-01T00:00:00Z").unwrap()).status
    }

    #[test]
    fn the_number_allowed_follows_from_the_budget() {
        let cases = [
            (json!({"minAvailable": 2}), 3, 1, (2, 4, 1)),
            (json!({"minAvailable": 5}), 3, 0, (5, 3, 0)),
            (json!({"minAvailable": "50%"}), 6, 0, (5, 10, 1)),
            (json!({"maxUnavailable": 1}), 10, 0, (9, 10, 1)),
            (json!({"maxUnavailable": "25%"}), 10, 0, (7, 10, 3)),
            (json!({"minAvailable": 0}), 0, 0, (0, 0, 0)),
        ];
        for (spec, ready, unready, (desired, expected, allowed)) in cases {
            let status = status(spec.clone(), json!({}), &pods(ready, unready));
            let number = |field: &str| status[field].as_i64().unwrap();
            let found =
                (number("desiredHealthy"), number("expectedPods"), number("disruptionsAllowed"));
            assert_eq!(found, (desired, expected, allowed), "{spec}");
            let holds = if allowed > 0 { "True" } else { "False" };
            assert_eq!(status["conditions"][0]["status"], holds);
        }
    }

    #[test]
    fn evicted_pods_count_as_gone_for_a_while() {
        let evicted = |at: &str| json!({"disruptedPods": {"p0": at}});
        let spec = || json!({"minAvailable": 2});
        let fresh = status(spec(), evicted("2025-12-31T23:59:00Z"), &pods(3, 0));
        assert_eq!(
            (&fresh["currentHealthy"], &fresh["disruptionsAllowed"]),
            (&json!(2), &json!(0))
        );
        let stale = status(spec(), evicted("2025-12-31T23:50:00Z"), &pods(3, 0));
        assert_eq!(stale["disruptionsAllowed"], 1);
        assert_eq!(stale.get("disruptedPods"), None);
    }

    #[test]
    fn what_cannot_be_counted_lets_nobody_go() {
        let budget = json!({"metadata": {"generation": 1}, "spec": {"maxUnavailable": 1}});
        let plan = assess(&budget, &pods(3, 0), &|_| None, Timestamp::UNIX_EPOCH);
        assert_eq!(plan.status["conditions"][0]["reason"], "SyncFailed");
        assert_eq!(plan.status["disruptionsAllowed"], 0);
    }
}

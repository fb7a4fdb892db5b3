//! Scales workloads by what their simulated pods use, every fifteen seconds.

mod behaviour;
mod metrics;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_apimachinery::gvk::{GroupVersion, Gvr};
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::time::format_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Discovery, Object, Patch, PatchOptions, Result as ClientResult};
use karmada_runtime::{Action, Clock, Controller, Informer, Manager, ObjectKey, Recorder};
use parking_lot::Mutex;

use self::behaviour::Memory;
use self::metrics::{Proposal, propose};
use super::pods::{Pod, selector_of};
use super::status::{Error, write_status};

const PERIOD: Duration = Duration::from_secs(15);

struct Ctx {
    client: Client,
    clock: Clock,
    discovery: Discovery,
    recorder: Recorder,
    scalers: Arc<Informer>,
    pods: Arc<Informer>,
    memory: Mutex<HashMap<ObjectKey, Memory>>,
}

fn scalers() -> Gvr {
    Gvr::new("autoscaling", "v2", "horizontalpodautoscalers")
}

pub(crate) fn start(manager: &Manager) {
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        discovery: manager.discovery.clone(),
        recorder: manager.recorder("horizontal-pod-autoscaler"),
        scalers: manager.informers.all(&scalers()),
        pods: manager.informers.all(&Gvr::new("", "v1", "pods")),
        memory: Mutex::default(),
    });
    let controller = Controller::new("horizontalpodautoscaling", &manager.metrics).workers(5);
    let queue = controller.queue().clone();
    manager.keep(ctx.scalers.subscribe(move |change| {
        // Only the spec is news; the status is our own.
        let same = match change {
            karmada_runtime::Change::Applied { old: Some(old), new } => {
                old.meta().generation == new.meta().generation && old.uid() == new.uid()
            }
            _ => false,
        };
        if !same {
            // A new one is looked at after a period too, as in a real cluster.
            queue.add_after(ObjectKey::of(change.object()), PERIOD);
        }
    }));
    let inputs = vec![ctx.scalers.clone(), ctx.pods.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(scaler) = ctx.scalers.cache().get(&key) else {
        ctx.memory.lock().remove(&key);
        return Ok(Action::AwaitChange);
    };
    if scaler.is_being_deleted() {
        return Ok(Action::AwaitChange);
    }
    let synced = ctx.sync(&scaler, &key).await;
    synced.map_err(|source| Error::new("HorizontalPodAutoscaler", &key, source))?;
    Ok(Action::Requeue(PERIOD))
}

impl Ctx {
    async fn sync(&self, scaler: &Object, key: &ObjectKey) -> ClientResult<()> {
        let value = scaler.value();
        let now = self.clock.now();
        let api = self.client.api(&scalers()).namespaced(&key.namespace);
        let Some((target, gvr)) = self.target_of(&value, &key.namespace).await? else {
            let mut status = value.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
            let named = value.str_at(&["spec", "scaleTargetRef", "name"]).unwrap_or_default();
            let message = format!(
                "the HPA controller was unable to get the target's current scale: {named:?} not \
                 found"
            );
            self.recorder.warning(scaler, "FailedGetScale", message.as_str());
            set_condition(&mut status, "AbleToScale", ("False", "FailedGetScale", &message), now);
            return write_status(&api, scaler, status).await.map(drop);
        };
        let selector = selector_of(&target);
        let pods = self.pods.cache().list_namespace(&key.namespace);
        let pods: Vec<_> = pods
            .iter()
            .filter(|pod| selector.matches_map(&pod.meta().labels))
            .map(Pod::of)
            .collect();
        let current = target.i64_at(&["spec", "replicas"]).unwrap_or(1);
        let plan = {
            let mut memory = self.memory.lock();
            decide(&value, &pods, current, memory.entry(key.clone()).or_default(), now)
        };
        for (reason, message) in &plan.warnings {
            self.recorder.warning(scaler, reason, message.as_str());
        }
        let mut status = plan.status;
        if plan.replicas != current {
            let patch = Patch::Merge(json!({"spec": {"replicas": plan.replicas}}));
            let targets = self.client.api(&gvr).namespaced(&key.namespace);
            let options = PatchOptions::default();
            targets.patch_subresource(target.name(), "scale", &patch, &options).await?;
            let mut memory = self.memory.lock();
            let memory = memory.entry(key.clone()).or_default();
            memory.steps.push((now, plan.replicas - current));
            let message = format!("New size: {}; reason: {}", plan.replicas, plan.reason);
            self.recorder.normal(scaler, "SuccessfulRescale", message);
            status["lastScaleTime"] = format_time(now).into();
            let done = format!(
                "the HPA controller was able to update the target scale to {}",
                plan.replicas
            );
            set_condition(&mut status, "AbleToScale", ("True", "SucceededRescale", &done), now);
        }
        write_status(&api, scaler, status).await.map(drop)
    }

    /// Returns the workload to be scaled and its resource.
    async fn target_of(
        &self,
        scaler: &Value,
        namespace: &str,
    ) -> ClientResult<Option<(Value, Gvr)>> {
        let text = |field: &str| {
            scaler.str_at(&["spec", "scaleTargetRef", field]).unwrap_or_default().to_owned()
        };
        let version = GroupVersion::parse(&text("apiVersion")).unwrap_or_default();
        let found = self.discovery.resource_of(&version.with_kind(text("kind"))).await?;
        let Some(resource) = found else { return Ok(None) };
        let api = self.client.api(&resource.gvr).namespaced(namespace);
        Ok(api.find(&text("name")).await?.map(|target| (target, resource.gvr)))
    }
}

#[derive(Debug)]
struct Plan {
    replicas: i64,
    reason: String,
    status: Value,
    warnings: Vec<(&'static str, String)>,
}

fn decide(scaler: &Value, pods: &[Pod], current: i64, memory: &mut Memory, now: Timestamp) -> Plan {
    let number = |field: &str| scaler.i64_at(&["spec", field]);
    let (least, most) = (number("minReplicas").unwrap_or(1), number("maxReplicas").unwrap_or(1));
    let mut status = scaler.at(&["status"]).cloned().unwrap_or_else(|| json!({}));
    status["observedGeneration"] = scaler.i64_at(&["metadata", "generation"]).unwrap_or(0).into();
    status["currentReplicas"] = current.into();
    let mut plan = Plan { replicas: current, reason: String::new(), status, warnings: Vec::new() };
    let able = (
        "True",
        "SucceededGetScale",
        "the HPA controller was able to get the target's current scale",
    );
    set_condition(&mut plan.status, "AbleToScale", able, now);
    if current == 0 && least != 0 {
        let off = (
            "False",
            "ScalingDisabled",
            "scaling is disabled since the replica count of the target is zero",
        );
        set_condition(&mut plan.status, "ScalingActive", off, now);
        plan.status["desiredReplicas"] = 0.into();
        return plan;
    }
    if current > most || current < least {
        plan.replicas = current.clamp(least, most.max(least));
        let side = if current > most { "above Spec.MaxReplicas" } else { "below Spec.MinReplicas" };
        plan.reason = format!("Current number of replicas {side}");
        plan.status["desiredReplicas"] = plan.replicas.into();
        return plan;
    }
    follow_metrics(scaler, pods, (least, most), current, memory, now, &mut plan);
    plan
}

fn follow_metrics(
    scaler: &Value,
    pods: &[Pod],
    bounds: (i64, i64),
    current: i64,
    memory: &mut Memory,
    now: Timestamp,
    plan: &mut Plan,
) {
    let metrics = scaler.list_at(&["spec", "metrics"]);
    let (mut proposals, mut problem): (Vec<Proposal>, Option<String>) = (Vec::new(), None);
    for metric in metrics {
        match propose(metric, pods, current) {
            Ok(proposal) => proposals.push(proposal),
            Err(message) => problem = problem.or(Some(message)),
        }
    }
    plan.status["currentMetrics"] =
        proposals.iter().map(|proposal| proposal.current.clone()).collect();
    let best = proposals.iter().max_by_key(|proposal| proposal.replicas);
    // With a metric unknown nobody shrinks.
    let best = best.filter(|best| problem.is_none() || best.replicas > current);
    let Some(best) = best else {
        let message = problem.unwrap_or_else(|| "no metrics to scale by".to_owned());
        let said = format!("the HPA was unable to compute the replica count: {message}");
        set_condition(
            &mut plan.status,
            "ScalingActive",
            ("False", "FailedGetResourceMetric", &said),
            now,
        );
        plan.warnings.push(("FailedGetResourceMetric", message.clone()));
        plan.warnings.push((
            "FailedComputeMetricsReplicas",
            format!(
                "invalid metrics (1 invalid out of {}), first error is: {message}",
                metrics.len()
            ),
        ));
        plan.status["desiredReplicas"] = current.into();
        return;
    };
    let found =
        format!("the HPA was able to successfully calculate a replica count from {}", best.name);
    set_condition(&mut plan.status, "ScalingActive", ("True", "ValidMetricFound", &found), now);
    let behaviour = scaler.at(&["spec", "behavior"]);
    let limited = memory.limit(behaviour, bounds, (current, best.replicas), now);
    memory.remember(best.replicas, now);
    let (reason, message) = limited.able;
    set_condition(&mut plan.status, "AbleToScale", ("True", reason, message), now);
    let (state, (reason, message)) = match limited.limited {
        Some(limit) => ("True", limit),
        None => {
            ("False", ("DesiredWithinRange", "the desired count is within the acceptable range"))
        }
    };
    set_condition(&mut plan.status, "ScalingLimited", (state, reason, message), now);
    plan.replicas = limited.replicas;
    plan.reason = if limited.replicas > current {
        format!("{} above target", best.name)
    } else {
        "All metrics below target".to_owned()
    };
    plan.status["desiredReplicas"] = limited.replicas.into();
}

fn set_condition(
    status: &mut Value,
    name: &str,
    (state, reason, message): (&str, &str, &str),
    now: Timestamp,
) {
    let mut list = status.list_at(&["conditions"]).to_vec();
    let place = list.iter().position(|condition| condition.str_at(&["type"]) == Some(name));
    let same = place.and_then(|place| list.get(place));
    let same = same.filter(|condition| condition.str_at(&["status"]) == Some(state));
    let since = same.and_then(|condition| condition.str_at(&["lastTransitionTime"]));
    let since = since.map_or_else(|| format_time(now), str::to_owned);
    let condition = json!({"type": name, "status": state, "reason": reason, "message": message,
        "lastTransitionTime": since});
    match place {
        Some(place) => list[place] = condition,
        None => list.push(condition),
    }
    status["conditions"] = list.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaler() -> Value {
        json!({"metadata": {"generation": 1}, "spec": {"minReplicas": 2, "maxReplicas": 6,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}]}})
    }

    fn condition<'a>(plan: &'a Plan, name: &str) -> &'a Value {
        let list = plan.status.list_at(&["conditions"]);
        list.iter().find(|condition| condition["type"] == name).unwrap()
    }

    #[test]
    fn a_busy_workload_grows_and_says_why() {
        let pods: Vec<_> = (0..2).map(|_| metrics::pod("p", "100m", "100m", true)).collect();
        let plan = decide(&scaler(), &pods, 2, &mut Memory::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(plan.replicas, 4);
        assert_eq!(plan.reason, "cpu resource utilization (percentage of request) above target");
        assert_eq!(condition(&plan, "ScalingActive")["reason"], "ValidMetricFound");
        assert_eq!(
            plan.status["currentMetrics"][0]["resource"]["current"]["averageUtilization"],
            100
        );
    }

    #[test]
    fn bounds_hold_whatever_the_metrics_say() {
        let mut memory = Memory::default();
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(decide(&scaler(), &[], 9, &mut memory, now).replicas, 6);
        assert_eq!(decide(&scaler(), &[], 1, &mut memory, now).replicas, 2);
        let off = decide(&scaler(), &[], 0, &mut memory, now);
        assert_eq!(
            (off.replicas, condition(&off, "ScalingActive")["reason"].as_str()),
            (0, Some("ScalingDisabled"))
        );
    }

    #[test]
    fn without_metrics_nothing_moves() {
        let plan = decide(&scaler(), &[], 3, &mut Memory::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(plan.replicas, 3);
        assert_eq!(condition(&plan, "ScalingActive")["reason"], "FailedGetResourceMetric");
        assert_eq!(plan.warnings.len(), 2);
    }
}

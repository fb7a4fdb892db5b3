//! Lets the taints of clusters follow their conditions, as ClusterTaintPolicies ask. Taints stay when
//! their policy goes, and what people change by hand is not looked at until a condition changes.

use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::core::Taint;
use karmada_api::event_reason;
use karmada_api::features::Gate;
use karmada_api::meta::Condition;
use karmada_api::policy::{
    ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition, MatchConditionOperator,
};
use karmada_api::wire::Time;
use karmada_apimachinery::json;
use karmada_client::{Client, Object};
use karmada_runtime::{Action, Change, Clock, Informer, ObjectKey, Recorder};

use super::gvr;
use crate::cluster::lifecycle::describe;
use crate::context::Context;

const NAME: &str = "cluster-taint-policy-controller";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("understand the cluster")]
    Decode(#[from] serde_json::Error),
    #[error("write the taints")]
    Write(#[source] karmada_client::Error),
}

struct Ctx {
    client: Client,
    clock: Clock,
    events: Recorder,
    clusters: Arc<Informer>,
    policies: Arc<Informer>,
}

pub(crate) fn start(context: &Context) {
    if !context.gates.is_on(Gate::Failover) {
        return;
    }
    let controller = context.controller(NAME).workers(context.options.workers);
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        clock: context.clock.clone(),
        events: context.recorder(NAME),
        clusters: context.informers.all(&gvr::<Cluster>()),
        policies: context.informers.all(&gvr::<ClusterTaintPolicy>()),
    });
    let queue = controller.queue().clone();
    context.keep(ctx.clusters.subscribe(move |change| {
        let Change::Applied { old, new } = change else { return };
        let is_news = |old: &Arc<Object>| conditions(old) != conditions(new);
        if old.as_ref().is_none_or(is_news) {
            queue.add(ObjectKey::of(new));
        }
    }));
    let (own, queue) = (ctx.clone(), controller.queue().clone());
    context.keep(ctx.policies.subscribe(move |change| {
        let Change::Applied { old, new } = change else { return };
        if old.as_ref().is_some_and(|old| old.meta().generation == new.meta().generation) {
            return;
        }
        let Ok(policy) = new.typed::<ClusterTaintPolicy>() else { return };
        for object in own.clusters.cache().list() {
            if object.typed::<Cluster>().is_ok_and(|cluster| targets(&policy.spec, &cluster)) {
                queue.add(ObjectKey::of(&object));
            }
        }
    }));
    let inputs = vec![ctx.clusters.clone(), ctx.policies.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

fn conditions(object: &Object) -> Vec<Condition> {
    object.typed::<Cluster>().map(|cluster| cluster.status.conditions.clone()).unwrap_or_default()
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let object = ctx.clusters.cache().get(&key).filter(|object| !object.is_being_deleted());
    let Some(object) = object else { return Ok(Action::AwaitChange) };
    let cluster = object.typed::<Cluster>()?;
    let listed = ctx.policies.cache().list();
    let mut policies: Vec<Arc<ClusterTaintPolicy>> =
        listed.iter().filter_map(|policy| policy.typed().ok()).collect();
    policies
        .sort_by_key(|policy| (policy.metadata.creation_timestamp, policy.metadata.name.clone()));
    let specs = policies.iter().map(|policy| &policy.spec);
    let Some(taints) = taints_for(&cluster, specs, ctx.clock.now().into()) else {
        return Ok(Action::AwaitChange);
    };
    // The version makes sure that taints somebody else adds meanwhile are not lost.
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version()},
        "spec": {"taints": taints},
    });
    match ctx.client.api(&gvr::<Cluster>()).merge_patch(&key.name, patch).await {
        Ok(_) => {
            let note = format!("Taint cluster succeed: {}.", describe(&taints));
            ctx.events.normal(&*object, event_reason::TAINT_CLUSTER_SUCCEED, note);
            Ok(Action::AwaitChange)
        }
        Err(error) if error.is_not_found() => Ok(Action::AwaitChange),
        Err(error) => {
            if !error.is_conflict() {
                let reason = event_reason::TAINT_CLUSTER_FAILED;
                ctx.events.warning(&*object, reason, error.to_string());
            }
            Err(Error::Write(error))
        }
    }
}

fn targets(policy: &ClusterTaintPolicySpec, cluster: &Cluster) -> bool {
    policy.target_clusters.as_ref().is_none_or(|affinity| affinity.matches(cluster))
}

/// Whether all of them hold. Compat, row 18 of the quirk register: a condition nobody has reported
/// fulfils nothing, not even NotIn.
fn all_hold(wanted: &[MatchCondition], cluster: &Cluster) -> bool {
    let holds = |wanted: &MatchCondition| {
        let Some(condition) = cluster.condition(&wanted.condition_type) else { return false };
        let is_named = wanted.status_values.contains(&condition.status);
        match wanted.operator {
            MatchConditionOperator::In => is_named,
            MatchConditionOperator::NotIn => !is_named,
            _ => false,
        }
    };
    !wanted.is_empty() && wanted.iter().all(holds)
}

/// The taints that the policies, the oldest first, make of those the cluster has; nothing if they
/// stay.
fn taints_for<'a>(
    cluster: &Cluster,
    policies: impl Iterator<Item = &'a ClusterTaintPolicySpec>,
    now: Time,
) -> Option<Vec<Taint>> {
    let mut taints = cluster.spec.taints.clone();
    for policy in policies.filter(|policy| targets(policy, cluster)) {
        if all_hold(&policy.add_on_conditions, cluster) {
            for wanted in &policy.taints {
                let taint = Taint {
                    key: wanted.key.clone(),
                    value: wanted.value.clone(),
                    effect: wanted.effect.clone(),
                    time_added: Some(now),
                };
                if !taints.iter().any(|known| known.is_same(&taint)) {
                    taints.push(taint);
                }
            }
        }
        if all_hold(&policy.remove_on_conditions, cluster) {
            taints.retain(|known| {
                let is_it = |taint: &karmada_api::policy::Taint| {
                    taint.key == known.key && taint.effect == known.effect
                };
                !policy.taints.iter().any(is_it)
            });
        }
    }
    (taints != cluster.spec.taints).then_some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_api::core::TaintEffect;
    use karmada_apimachinery::Value;

    fn cluster(ready: Option<&str>, taints: Value) -> Cluster {
        let conditions: Vec<Value> =
            ready.iter().map(|ready| json!({"type": "Ready", "status": ready})).collect();
        let cluster = json!({
            "metadata": {"name": "m1"}, "spec": {"taints": taints},
            "status": {"conditions": conditions},
        });
        karmada_apimachinery::from_value(cluster).unwrap()
    }

    fn policy(more: Value) -> ClusterTaintPolicySpec {
        let mut policy = json!({
            "taints": [{"key": "lost", "effect": "NoExecute"}],
            "addOnConditions": [
                {"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}],
            "removeOnConditions": [
                {"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
        });
        for (key, value) in more.as_object().unwrap() {
            policy[key] = value.clone();
        }
        karmada_apimachinery::from_value(policy).unwrap()
    }

    fn keys(cluster: &Cluster, policies: &[ClusterTaintPolicySpec]) -> Option<Vec<String>> {
        let now = Time("2026-01-01T00:00:00Z".parse().unwrap());
        let taints = taints_for(cluster, policies.iter(), now)?;
        assert!(
            taints.iter().all(
                |taint| taint.effect != TaintEffect::NoExecute || taint.time_added == Some(now)
            )
        );
        Some(taints.into_iter().map(|taint| taint.key).collect())
    }

    #[test]
    fn taints_come_and_go_with_the_conditions() {
        let lost = json!([{"key": "own", "effect": "NoSchedule"}, {"key": "lost", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]);
        let own = json!([{"key": "own", "effect": "NoSchedule"}]);
        let named = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect());
        let both = [policy(json!({}))];
        assert_eq!(keys(&cluster(Some("False"), own.clone()), &both), named(&["own", "lost"]));
        assert_eq!(keys(&cluster(Some("Unknown"), lost.clone()), &both), None);
        assert_eq!(keys(&cluster(Some("True"), lost.clone()), &both), named(&["own"]));
        assert_eq!(keys(&cluster(Some("True"), own.clone()), &both), None);
        // A value is not compared, and another effect is another taint.
        let other = json!([{"key": "lost", "effect": "NoSchedule"}]);
        assert_eq!(keys(&cluster(Some("False"), other), &both), named(&["lost", "lost"]));
        let never = [policy(json!({"addOnConditions": [], "removeOnConditions": []}))];
        assert_eq!(keys(&cluster(Some("False"), own.clone()), &never), None);
        let elsewhere = [policy(json!({"targetClusters": {"clusterNames": ["m2"]}}))];
        assert_eq!(keys(&cluster(Some("False"), own.clone()), &elsewhere), None);
    }

    /// Row 18 of the quirk register: matched.
    #[test]
    fn a_condition_nobody_has_reported_fulfils_nothing() {
        assert_eq!(keys(&cluster(None, json!([])), &[policy(json!({}))]), None);
    }
}

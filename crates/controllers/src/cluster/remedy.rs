//! Writes into the status of each Cluster what Remedies ask for in its condition. Acting on it is
//! left to others.

use std::collections::BTreeSet;
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::meta::{Condition, Kind as _};
use karmada_api::remedy::{ClusterConditionOperator, DecisionMatch, Remedy};
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Client;
use karmada_runtime::{Action, Informer, ObjectKey};

use crate::context::Context;

#[derive(Debug, thiserror::Error)]
#[error("write the remedies of {cluster}")]
struct Error {
    cluster: String,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    clusters: Arc<Informer>,
    remedies: Arc<Informer>,
}

pub(crate) fn start(context: &Context) {
    let clusters = super::informer(&context.informers);
    let remedies = context.informers.all(&Gvr::new(Remedy::GROUP, Remedy::VERSION, Remedy::PLURAL));
    let controller = context.controller("remedy-controller").workers(context.options.workers);
    // Somebody may have changed what is written, too.
    context.keep(clusters.feed(controller.queue()));
    let (queue, known) = (controller.queue().clone(), clusters.clone());
    context.keep(remedies.subscribe(move |_| {
        // Before or after the change it may have been about any of them.
        known.cache().keys().into_iter().for_each(|key| queue.add(key));
    }));
    let inputs = vec![clusters.clone(), remedies.clone()];
    let ctx = Arc::new(Ctx { client: context.client.clone(), clusters, remedies });
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(object) = ctx.clusters.cache().get(&key) else { return Ok(Action::AwaitChange) };
    if object.is_being_deleted() {
        return Ok(Action::AwaitChange);
    }
    let remedies = ctx.remedies.cache().list();
    let remedies: Vec<Arc<Remedy>> =
        remedies.iter().filter_map(|remedy| remedy.typed::<Remedy>().ok()).collect();
    let written = super::update_status(&ctx.client, &key.name, Some(&object), |cluster| {
        cluster.status.remedy_actions = actions(cluster, &remedies);
    });
    written.await.map_err(|source| Error { cluster: key.name.into(), source })?;
    Ok(Action::AwaitChange)
}

/// The actions of all remedies that are meant for this cluster as it is.
fn actions(cluster: &Cluster, remedies: &[Arc<Remedy>]) -> Vec<String> {
    let applies = |remedy: &&Arc<Remedy>| {
        let spec = &remedy.spec;
        let named = spec
            .cluster_affinity
            .as_ref()
            .is_none_or(|affinity| affinity.cluster_names.contains(&cluster.metadata.name));
        let conditions = &cluster.status.conditions;
        named
            && (spec.decision_matches.is_empty()
                || spec.decision_matches.iter().any(|wanted| is_met(wanted, conditions)))
    };
    let all = remedies.iter().filter(applies).flat_map(|remedy| &remedy.spec.actions);
    all.map(ToString::to_string).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A condition the cluster does not have is neither equal nor unequal to anything.
fn is_met(wanted: &DecisionMatch, conditions: &[Condition]) -> bool {
    let Some(wanted) = &wanted.cluster_condition_match else { return false };
    let kind = wanted.condition_type.to_string();
    conditions.iter().find(|condition| condition.r#type == kind).is_some_and(|condition| {
        let equal = condition.status == wanted.condition_status;
        equal == (wanted.operator == ClusterConditionOperator::Equal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apimachinery::{Value, json};

    #[test]
    fn remedies_apply_to_named_clusters_in_a_matching_condition() {
        let cluster = |conditions: Value| -> Cluster {
            let object = json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"},
                "status": {"conditions": conditions}});
            karmada_apimachinery::from_value(object).unwrap()
        };
        let resolves =
            |status: &str| json!([{"type": "ServiceDomainNameResolutionReady", "status": status}]);
        let rule = |operator: &str| {
            json!([{"clusterConditionMatch": {"conditionType": "ServiceDomainNameResolutionReady",
                "operator": operator, "conditionStatus": "False"}}])
        };
        let affinity = |name: &str| json!({"clusterNames": [name]});
        let cases = [
            (Value::Null, Value::Null, json!([]), 1),
            (affinity("m1"), rule("Equal"), resolves("False"), 1),
            (affinity("m2"), rule("Equal"), resolves("False"), 0),
            (affinity("m1"), rule("Equal"), resolves("True"), 0),
            (affinity("m1"), rule("NotEqual"), resolves("True"), 1),
            (affinity("m1"), rule("NotEqual"), json!([]), 0),
        ];
        for (affinity, rules, conditions, expected) in cases {
            let mut spec = json!({"actions": ["TrafficControl"]});
            for (field, value) in [("clusterAffinity", &affinity), ("decisionMatches", &rules)] {
                if !value.is_null() {
                    spec[field] = value.clone();
                }
            }
            let remedy: Remedy =
                karmada_apimachinery::from_value(json!({"metadata": {"name": "r"}, "spec": spec}))
                    .unwrap();
            let remedy = Arc::new(remedy);
            let found = actions(&cluster(conditions.clone()), &[remedy.clone(), remedy]);
            assert_eq!(found.len(), expected, "{affinity} {rules} {conditions}");
        }
    }
}

//! Fills the rules of aggregated cluster roles from the roles their selectors choose.

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::{Value, json};
use karmada_client::Client;
use karmada_runtime::{Action, Controller, Informer, ObjectKey};

use crate::Plane;

const MANAGER: &str = "clusterrole-aggregation-controller";

/// The index of roles that have an aggregation rule.
const AGGREGATED: &str = "aggregated";

#[derive(Debug, thiserror::Error)]
#[error("write the aggregated rules of {role}")]
struct Error {
    role: ObjectKey,
    source: karmada_client::Error,
}

struct Ctx {
    client: Client,
    gvr: Gvr,
    roles: Arc<Informer>,
}

pub(super) fn start(plane: &Plane) {
    let gvr = Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles");
    let roles = plane.informers.all(&gvr);
    roles.cache().add_index(AGGREGATED, |role| {
        let has_rule = role.value().at(&["aggregationRule"]).is_some_and(|rule| !rule.is_null());
        if has_rule { vec![String::new()] } else { Vec::new() }
    });
    let controller = Controller::new(MANAGER, &plane.metrics).workers(2);
    let (queue, all) = (controller.queue().clone(), Arc::downgrade(&roles));
    // Any role may be part of any other, and aggregated ones are few.
    plane.keep(roles.subscribe(move |_| {
        let Some(all) = all.upgrade() else { return };
        for role in all.cache().by_index(AGGREGATED, "") {
            queue.add(ObjectKey::of(&role));
        }
    }));
    let ctx = Arc::new(Ctx { client: plane.client.clone(), gvr, roles: roles.clone() });
    plane.start(controller, vec![roles], move |key| reconcile(key, ctx.clone()));
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(role) = ctx.roles.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let role = role.value();
    // Few of all roles are chosen; only those are read as a whole.
    let chosen: Vec<Vec<Value>> = selectors(&role)
        .iter()
        .map(|selector| {
            let all = ctx.roles.cache().list();
            let chosen = all.iter().filter(|other| selector.matches_map(&other.meta().labels));
            chosen.map(|other| other.value()).collect()
        })
        .collect();
    let Some(rules) = aggregate(&role, &chosen) else { return Ok(Action::AwaitChange) };
    let wanted = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": key.name}, "rules": rules});
    let applied = ctx.client.api(&ctx.gvr).apply(&wanted, MANAGER).await;
    applied.map_err(|source| Error { role: key, source })?;
    Ok(Action::AwaitChange)
}

fn selectors(role: &Value) -> Vec<LabelSelector> {
    let selectors = role.list_at(&["aggregationRule", "clusterRoleSelectors"]).iter();
    // The server lets no selector in that cannot be read.
    selectors.filter_map(|selector| LabelSelector::from_object(Some(selector)).ok()).collect()
}

/// Returns the rules an aggregated role should have; nothing if it has them. `chosen` are the roles
/// each of its selectors matches, in the order of their names.
fn aggregate(role: &Value, chosen: &[Vec<Value>]) -> Option<Vec<Value>> {
    role.map_at(&["aggregationRule"])?;
    let mut rules: Vec<Value> = Vec::new();
    let others = chosen.iter().flatten().filter(|other| other.name() != role.name());
    for rule in others.flat_map(|other| other.list_at(&["rules"])) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    (rules != role.list_at(&["rules"])).then_some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, labels: Value, verbs: &[&str]) -> Value {
        let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
        json!({"metadata": {"name": name, "labels": labels}, "rules": rules})
    }

    #[test]
    fn rules_are_those_of_the_chosen_roles_each_once() {
        let mut admin = role("admin", json!({"to": "edit"}), &["stale"]);
        admin["aggregationRule"] = json!({"clusterRoleSelectors": [
            {"matchLabels": {"to": "edit"}}, {"matchLabels": {"to": "view"}}]});
        let roles = [
            admin.clone(),
            role("a", json!({"to": "view"}), &["get", "list"]),
            role("b", json!({"to": "edit"}), &["create", "get"]),
            role("c", json!({}), &["escalate"]),
        ];
        let chosen: Vec<Vec<Value>> = selectors(&admin)
            .iter()
            .map(|selector| {
                roles.iter().filter(|role| selector.matches_object(role)).cloned().collect()
            })
            .collect();
        let rules = aggregate(&admin, &chosen).unwrap();
        let verbs: Vec<_> = rules.iter().map(|rule| rule["verbs"][0].as_str().unwrap()).collect();
        assert_eq!(verbs, ["create", "get", "list"]);
        admin["rules"] = rules.into();
        assert_eq!(aggregate(&admin, &chosen), None, "nothing is written twice");
        assert_eq!(aggregate(&roles[1], &chosen), None, "a plain role is left alone");
    }
}

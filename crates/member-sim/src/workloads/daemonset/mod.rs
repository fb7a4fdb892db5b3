//! Keeps one pod of a DaemonSet on every node it may run on.

mod decide;
mod eligibility;

use std::sync::Arc;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object, Result as ClientResult};
use karmada_runtime::{Action, Change, Clock, Controller, Informer, Manager, ObjectKey};

use self::decide::{Known, decide};
use self::eligibility::{Eligibility, eligibility, tolerations_added};
use super::ownership::index_by_controller;
use super::pods::{Pod, Pods, from_template, selector_of};
use super::revision::{History, REVISION_HASH, Revision, revisions};
use super::status::{Error, write_status};

/// Counts the templates of old, for clients of old.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

struct Ctx {
    client: Client,
    clock: Clock,
    gvr: Gvr,
    sets: Arc<Informer>,
    nodes: Arc<Informer>,
    revisions: Arc<Informer>,
    pods: Pods,
}

pub(crate) fn start(manager: &Manager) {
    let gvr = Gvr::new("apps", "v1", "daemonsets");
    let ctx = Arc::new(Ctx {
        client: manager.client.clone(),
        clock: manager.clock.clone(),
        sets: manager.informers.all(&gvr),
        gvr,
        nodes: manager.informers.all(&Gvr::new("", "v1", "nodes")),
        revisions: manager.informers.all(&revisions()),
        pods: Pods::new(manager, "daemonset-controller"),
    });
    index_by_controller(ctx.revisions.cache());
    let controller = Controller::new("daemonset", &manager.metrics).workers(2);
    manager.keep(ctx.sets.feed(controller.queue()));
    ctx.pods.wake_owners(manager, &ctx.sets, "DaemonSet", controller.queue());
    let (queue, sets) = (controller.queue().clone(), ctx.sets.clone());
    manager.keep(ctx.nodes.subscribe(move |change| {
        if node_matters(change) {
            sets.cache().keys().into_iter().for_each(|key| queue.add(key));
        }
    }));
    let inputs =
        vec![ctx.sets.clone(), ctx.nodes.clone(), ctx.pods.informer.clone(), ctx.revisions.clone()];
    manager.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

/// Heartbeats change nothing for a DaemonSet; labels and taints do.
fn node_matters(change: &Change) -> bool {
    let Change::Applied { old: Some(old), new } = change else { return true };
    if old.meta().labels != new.meta().labels {
        return true;
    }
    let taints = |node: &Object| node.value().at(&["spec"]).cloned();
    taints(old) != taints(new)
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let Some(set) = ctx.sets.cache().get(&key) else { return Ok(Action::AwaitChange) };
    if !ctx.pods.expectations.met(&key) || set.is_being_deleted() {
        return Ok(Action::AwaitChange);
    }
    ctx.sync(&set).await.map_err(|source| Error::new("DaemonSet", &key, source))
}

impl Ctx {
    async fn sync(&self, set: &Object) -> ClientResult<Action> {
        let value = set.value();
        let selector = selector_of(&value);
        if selector.is_empty() {
            let message =
                "This daemon set is selecting all pods. A non-empty selector is required.";
            self.pods.recorder.warning(set, "SelectingAll", message);
            return Ok(Action::AwaitChange);
        }
        let pods = self.pods.claim(set, &self.gvr, &selector, None).await?;
        let history =
            History { client: &self.client, owners: &self.gvr, cache: self.revisions.cache() };
        let collisions = value.i64_at(&["status", "collisionCount"]).unwrap_or_default();
        let revisions = history.sync(set, &value["spec"], collisions).await?;
        let hash = hash_of(&revisions.update).to_owned();
        let nodes = self.nodes.cache().list();
        let nodes: Vec<(String, Eligibility)> = nodes
            .iter()
            .map(|node| (node.name().to_owned(), eligibility(&node.value(), &value["spec"])))
            .collect();
        let known = Known {
            set: &value,
            nodes: &nodes,
            pods: &pods,
            hash: &hash,
            collisions: revisions.collisions,
            now: self.clock.now(),
        };
        let plan = decide(&known);
        for pod in &plan.failed {
            self.tell_failed(set, pod);
        }
        self.pods.delete_many(set, &plan.delete).await?;
        let wanted: Vec<_> =
            plan.create.iter().map(|node| render_pod(set, &value, node, &hash)).collect();
        let (_, created) = self.pods.create_many(set, wanted).await;
        let api = self.client.api(&self.gvr).namespaced(set.namespace());
        write_status(&api, set, plan.status).await?;
        match created {
            Err(error) if error.is_namespace_terminating() => return Ok(Action::AwaitChange),
            other => other?,
        }
        let in_use = |revision: &Revision| {
            let hash = hash_of(revision);
            revision.name() == revisions.update.name()
                || pods.iter().any(|pod| pod.label(REVISION_HASH) == Some(hash))
        };
        let limit = value.i64_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
        history.truncate(&revisions.all, in_use, usize::try_from(limit).unwrap_or(0)).await?;
        Ok(plan.recheck_in.map_or(Action::AwaitChange, Action::Requeue))
    }

    fn tell_failed(&self, set: &Object, pod: &Pod) {
        let (namespace, name, node) = (pod.object.namespace(), pod.name(), decide::node_of(pod));
        if pod.status().phase == "Failed" {
            let message = format!(
                "Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
            );
            self.pods.recorder.warning(set, "FailedDaemonPod", message);
        } else {
            let message = format!(
                "Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it"
            );
            self.pods.recorder.normal(set, "SucceededDaemonPod", message);
        }
    }
}

fn hash_of(revision: &Revision) -> &str {
    revision.object.meta().labels.get(REVISION_HASH).unwrap_or_default()
}

/// The pod of one node: bound to it by affinity, for the scheduler to place.
fn render_pod(set: &Object, value: &Value, node: &str, hash: &str) -> Value {
    let mut pod = from_template(&value["spec"]["template"], set);
    pod.set(&["metadata", "labels", REVISION_HASH], hash);
    if let Some(generation) = value.annotation(TEMPLATE_GENERATION) {
        pod.set(&["metadata", "labels", "pod-template-generation"], generation);
    }
    let required =
        ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let field = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let mut terms: Vec<_> = pod
        .at(&required)
        .map_or_else(Vec::new, |selector| selector.list_at(&["nodeSelectorTerms"]).to_vec());
    for term in &mut terms {
        term["matchFields"] = field.clone();
    }
    if terms.is_empty() {
        terms.push(json!({"matchFields": field}));
    }
    pod.set(&required, json!({"nodeSelectorTerms": terms}));
    let mut tolerations = pod.list_at(&["spec", "tolerations"]).to_vec();
    let host_network = pod.bool_at(&["spec", "hostNetwork"]).unwrap_or_default();
    for toleration in tolerations_added(host_network) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    pod.set(&["spec", "tolerations"], tolerations);
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_pod_is_meant_for_its_node_and_keeps_other_terms() {
        let value = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "d", "namespace": "x", "uid": "u"},
            "spec": {"template": {"spec": {"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}}}});
        let set = Object::from_value(&value).unwrap();
        let pod = render_pod(&set, &value, "n1", "h");
        let term = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"][0];
        assert_eq!(term["matchFields"][0]["values"], json!(["n1"]));
        assert_eq!(term["matchExpressions"][0]["key"], "a");
        assert_eq!(pod["metadata"]["labels"][REVISION_HASH], "h");
        assert_eq!(pod["spec"]["tolerations"].as_array().map(|it| it.len()), Some(6));
        assert_eq!(decide::node_of(&Pod::from_value(&pod)), "n1");
    }
}

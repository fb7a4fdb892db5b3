//! Pods as controllers look at them, and how controllers make and delete them: with events, in
//! growing batches, and waking the owner when something happens to one of its pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::selector::LabelSelector;
use karmada_apimachinery::time::parse_time;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions, Object};
use karmada_runtime::{Change, Informer, Manager, ObjectKey, Queue, Recorder};

use super::body::{Body, Condition, PodSpec, PodStatus};
use super::bursts::BURST;
use super::expectations::Expectations;
use super::ownership::{
    Claimer, accepts_all, controller_of, controller_reference, index_by_controller,
};

type Answer<T> = karmada_client::Result<T>;

/// A pod with the parts of it that controllers decide by. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) object: Arc<Object>,
    body: Arc<Body>,
}

/// The node a pod is bound to.
pub(crate) fn node_of(pod: &Object) -> Option<String> {
    let body = pod.typed::<Body>().ok()?;
    Some(body.spec.node_name.clone()).filter(|node| !node.is_empty())
}

/// The claims a pod mounts, those made for its ephemeral volumes too.
pub(crate) fn claims_of(pod: &Object) -> Vec<String> {
    let Ok(body) = pod.typed::<Body>() else { return Vec::new() };
    body.spec.volumes.iter().filter_map(|volume| volume.claim(pod.name())).collect()
}

impl Pod {
    /// Reads a pod; one that cannot be read counts as one that says nothing.
    pub(crate) fn of(object: &Arc<Object>) -> Self {
        Self { object: object.clone(), body: object.typed::<Body>().unwrap_or_default() }
    }

    #[cfg(test)]
    pub(crate) fn from_value(value: &Value) -> Self {
        Self::of(&Arc::new(Object::from_value(value).expect("an object")))
    }

    pub(crate) fn name(&self) -> &str {
        self.object.name()
    }

    pub(crate) fn uid(&self) -> &str {
        self.object.uid()
    }

    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::of(&self.object)
    }

    pub(crate) fn spec(&self) -> &PodSpec {
        &self.body.spec
    }

    pub(crate) fn status(&self) -> &PodStatus {
        &self.body.status
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.object.meta().labels.get(key)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.object.meta().annotations.get(key)
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.object.is_being_deleted()
    }

    pub(crate) fn is_finished(&self) -> bool {
        matches!(&*self.status().phase, "Succeeded" | "Failed")
    }

    /// Neither finished nor on its way out.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_terminating()
    }

    pub(crate) fn condition(&self, name: &str) -> Option<&Condition> {
        self.status().conditions.iter().find(|condition| condition.r#type == name)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Returns since when the pod has been ready.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        self.condition("Ready").filter(|condition| condition.status == "True")?.since
    }

    /// Returns how long the pod still has to stay ready to count as available: nothing left if it
    /// is available, `None` if it is not even ready.
    pub(crate) fn until_available(&self, min_ready: i64, now: Timestamp) -> Option<Duration> {
        if !self.is_ready() {
            return None;
        }
        if min_ready <= 0 {
            return Some(Duration::ZERO);
        }
        let since = self.ready_since()?;
        let due = since.checked_add(SignedDuration::from_secs(min_ready)).ok()?;
        Some(due.duration_since(now).try_into().unwrap_or_default())
    }

    pub(crate) fn is_available(&self, min_ready: i64, now: Timestamp) -> bool {
        self.until_available(min_ready, now) == Some(Duration::ZERO)
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.object.meta().creation_timestamp.as_deref().and_then(parse_time)
    }

    pub(crate) fn restarts(&self) -> i64 {
        let all = self.status().container_statuses.iter();
        all.map(|status| status.restart_count).sum()
    }
}

/// Renders the pod of a template: labels, annotations, finalizers and spec are the template's.
pub(crate) fn from_template(template: &Value, owner: &Object) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner.namespace(),
            "generateName": name_prefix(owner.name()),
            "ownerReferences": [controller_reference(owner)],
        },
    });
    pod["spec"] = template.at(&["spec"]).cloned().unwrap_or_else(|| json!({}));
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template.at(&["metadata", field]).filter(|value| !value.is_null()) {
            pod["metadata"][field] = value.clone();
        }
    }
    pod
}

/// Long names get no dash, as the random part follows a cut anyway.
fn name_prefix(owner: &str) -> String {
    // Compat: the dash is left out where it would make the prefix no valid name.
    if owner.len() + 1 > 253 { owner.to_owned() } else { format!("{owner}-") }
}

/// The pods of a server, as one kind of owner works with them.
pub(crate) struct Pods {
    client: Client,
    pub(crate) informer: Arc<Informer>,
    pub(crate) expectations: Arc<Expectations>,
    pub(crate) recorder: Recorder,
}

impl Pods {
    /// `component` is the name events are recorded under.
    pub(crate) fn new(manager: &Manager, component: &str) -> Self {
        let informer = manager.informers.all(&Gvr::new("", "v1", "pods"));
        index_by_controller(informer.cache());
        Self {
            client: manager.client.clone(),
            informer,
            expectations: Arc::default(),
            recorder: manager.recorder(component),
        }
    }

    pub(crate) fn api(&self, namespace: &str) -> Api {
        self.client.api(&Gvr::new("", "v1", "pods")).namespaced(namespace)
    }

    /// Queues the owner of this kind whenever one of its pods changes, and every owner whose
    /// selector takes a pod that nobody owns.
    pub(crate) fn wake_owners(
        &self,
        manager: &Manager,
        owners: &Arc<Informer>,
        kind: &'static str,
        queue: &Queue<ObjectKey>,
    ) {
        let soon = queue.clone();
        self.tell_owners(manager, owners, (kind, queue), move |owner| soon.add_after(owner, BURST));
    }

    /// The same for owners that `wake` queues in its own time.
    pub(crate) fn tell_owners(
        &self,
        manager: &Manager,
        owners: &Arc<Informer>,
        (kind, queue): (&'static str, &Queue<ObjectKey>),
        wake: impl Fn(ObjectKey) + Send + Sync + 'static,
    ) {
        let (expectations, owners, queue) =
            (self.expectations.clone(), owners.clone(), queue.clone());
        manager.keep(self.informer.subscribe(move |change| {
            expectations.see(change.object());
            let pod = change.object();
            if let Change::Applied { old: Some(old), .. } = change
                && old.meta().owner_references != pod.meta().owner_references
            {
                owner_of(old, kind).into_iter().for_each(&wake);
            }
            match controller_of(pod.meta()) {
                Some(_) => owner_of(pod, kind).into_iter().for_each(&wake),
                None => queue_matching(pod, &owners, &queue),
            }
        }));
    }

    /// Returns the pods of an owner, after adopting and releasing as its selector says.
    pub(crate) async fn claim(
        &self,
        owner: &Object,
        owners: &Gvr,
        selector: &LabelSelector,
        finalizer: Option<&str>,
    ) -> Answer<Vec<Pod>> {
        self.claim_accepted(owner, owners, selector, finalizer, &accepts_all).await
    }

    /// The same for an owner that takes not every pod its selector matches.
    pub(crate) async fn claim_accepted(
        &self,
        owner: &Object,
        owners: &Gvr,
        selector: &LabelSelector,
        finalizer: Option<&str>,
        accepts: &(dyn Fn(&Object) -> bool + Sync),
    ) -> Answer<Vec<Pod>> {
        let claimer = Claimer {
            owners: self.client.api(owners).namespaced(owner.namespace()),
            objects: self.api(owner.namespace()),
            cache: self.informer.cache(),
            finalizer,
            accepts,
        };
        let claimed = claimer.claim(owner, selector).await?;
        Ok(claimed.iter().map(Pod::of).collect())
    }

    /// Creates one pod and tells about it in an event of the owner.
    pub(crate) async fn create(&self, owner: &Object, pod: Value) -> Answer<Value> {
        let created = self.api(owner.namespace()).create_owned(pod).await;
        match &created {
            Ok(created) => {
                self.expectations.wrote(&ObjectKey::of(owner), created);
                let message = format!("Created pod: {}", created.name());
                self.recorder.normal(owner, "SuccessfulCreate", message);
            }
            Err(error) if error.is_namespace_terminating() => {}
            Err(error) => {
                self.recorder.warning(owner, "FailedCreate", format!("Error creating: {error}"));
            }
        }
        created
    }

    /// Creates pods in batches that double in size, and stops at the first batch that fails, so
    /// that a quota is not asked a thousand times. Returns how many there are now.
    pub(crate) async fn create_many(
        &self,
        owner: &Object,
        pods: Vec<Value>,
    ) -> (usize, Answer<()>) {
        let (mut created, mut batch) = (0, 1);
        let mut pods = pods.into_iter();
        while pods.len() > 0 {
            let made = pods.by_ref().take(batch).map(|pod| self.create(owner, pod));
            let results = join_all(made).await;
            let mut failure = None;
            for result in results {
                match result {
                    Ok(_) => created += 1,
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            if let Some(error) = failure {
                return (created, Err(error));
            }
            batch *= 2;
        }
        (created, Ok(()))
    }

    /// Deletes one pod and tells about it in an event of the owner.
    pub(crate) async fn delete(&self, owner: &Object, pod: &Pod) -> Answer<()> {
        let options = DeleteOptions { uid: Some(pod.uid().to_owned()), ..DeleteOptions::default() };
        match self.api(owner.namespace()).delete(pod.name(), &options).await {
            Ok(deleted) => {
                self.expectations.wrote(&ObjectKey::of(owner), &deleted);
                let message = format!("Deleted pod: {}", pod.name());
                self.recorder.normal(owner, "SuccessfulDelete", message);
                Ok(())
            }
            // Gone, or another pod of the same name.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
            Err(error) => {
                self.recorder.warning(owner, "FailedDelete", format!("Error deleting: {error}"));
                Err(error)
            }
        }
    }

    pub(crate) async fn delete_many(&self, owner: &Object, pods: &[Pod]) -> Answer<()> {
        let results = join_all(pods.iter().map(|pod| self.delete(owner, pod))).await;
        results.into_iter().collect()
    }
}

fn owner_of(pod: &Object, kind: &str) -> Option<ObjectKey> {
    let owner = controller_of(pod.meta()).filter(|owner| owner.kind == kind)?;
    Some(ObjectKey::new(pod.namespace(), owner.name.as_str()))
}

fn queue_matching(pod: &Object, owners: &Informer, queue: &Queue<ObjectKey>) {
    if pod.is_being_deleted() {
        return;
    }
    for owner in owners.cache().list_namespace(pod.namespace()) {
        if selector_of(&owner.content()).matches_map(&pod.meta().labels) {
            queue.add(ObjectKey::of(&owner));
        }
    }
}

/// The selector of a workload; one without any selects nothing.
pub(crate) fn selector_of(owner: &Value) -> LabelSelector {
    match owner.at(&["spec", "selector"]) {
        // ReplicationControllers have plain labels.
        Some(Value::Object(labels)) if owner.kind() == "ReplicationController" => {
            LabelSelector::from_set(labels)
        }
        Some(selector @ Value::Object(_)) => {
            LabelSelector::from_object(Some(selector)).unwrap_or(LabelSelector::nothing())
        }
        _ => LabelSelector::nothing(),
    }
}

/// Orders pods by how little is lost when they go: first those that do not run, then those on
/// crowded nodes, then the youngest and the most restarted. `mates` counts pods of the same
/// purpose per node.
pub(crate) fn rank_for_deletion(pods: &mut [Pod], mates: &BTreeMap<String, usize>, now: Timestamp) {
    pods.sort_by_cached_key(|pod| {
        let phase = match &*pod.status().phase {
            "Pending" => 0,
            "Running" => 2,
            _ => 1,
        };
        let cost: i64 = pod
            .annotation("controller.kubernetes.io/pod-deletion-cost")
            .and_then(|cost| cost.parse().ok())
            .unwrap_or_default();
        let crowd = mates.get(&pod.spec().node_name).copied().unwrap_or_default();
        (
            !pod.spec().node_name.is_empty(),
            phase,
            pod.is_ready(),
            cost,
            std::cmp::Reverse(crowd),
            std::cmp::Reverse(pod.ready_since().map(|since| age_bucket(since, now))),
            std::cmp::Reverse(pod.restarts()),
            std::cmp::Reverse(pod.created().map(|created| age_bucket(created, now))),
            pod.uid().to_owned(),
        )
    });
}

/// Ages are compared roughly: pods of about the same age go in any order. Older ones get a
/// smaller number, so that they rank behind when reversed.
fn age_bucket(since: Timestamp, now: Timestamp) -> i64 {
    let seconds = now.duration_since(since).as_secs().max(0);
    -i64::from(64 - seconds.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: &str, phase: &str, ready_since: Option<&str>) -> Pod {
        let status = if ready_since.is_some() { "True" } else { "False" };
        Pod::from_value(&json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": ready_since}]},
        }))
    }

    #[test]
    fn availability_needs_time_in_readiness() {
        let now = parse_time("2026-01-01T00:01:00Z").unwrap();
        let ready = pod("a", "n", "Running", Some("2026-01-01T00:00:40Z"));
        assert_eq!(ready.until_available(0, now), Some(Duration::ZERO));
        assert_eq!(ready.until_available(30, now), Some(Duration::from_secs(10)));
        assert!(ready.is_available(20, now));
        assert_eq!(pod("b", "n", "Running", None).until_available(0, now), None);
    }

    #[test]
    fn what_runs_longest_goes_last() {
        let now = parse_time("2026-01-02T00:00:00Z").unwrap();
        let mut pods = [
            pod("old", "a", "Running", Some("2026-01-01T00:00:40Z")),
            pod("young", "a", "Running", Some("2026-01-01T23:59:00Z")),
            pod("unready", "a", "Running", None),
            pod("pending", "a", "Pending", None),
            pod("unassigned", "", "Pending", None),
            pod("crowded", "b", "Running", Some("2026-01-01T00:00:40Z")),
        ];
        let mates = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 3)]);
        rank_for_deletion(&mut pods, &mates, now);
        let names: Vec<_> = pods.iter().map(Pod::name).collect();
        assert_eq!(names, ["unassigned", "pending", "unready", "crowded", "young", "old"]);
    }

    #[test]
    fn claims_are_named_or_follow_from_the_pod() {
        let volumes = json!([
            {"name": "token", "projected": {"sources": []}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        ]);
        let pod = json!({"metadata": {"name": "a"}, "spec": {"volumes": volumes}});
        assert_eq!(claims_of(&Object::from_value(&pod).unwrap()), ["mine", "a-scratch"]);
        let none = json!({"metadata": {"name": "a"}, "spec": {"volumes": null}});
        assert!(claims_of(&Object::from_value(&none).unwrap()).is_empty());
    }

    #[test]
    fn a_pod_takes_everything_of_its_template() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "x", "uid": "u"}});
        let template = json!({"metadata": {"labels": {"a": "b"}, "creationTimestamp": null},
            "spec": {"containers": []}});
        let pod = from_template(&template, &Object::from_value(&owner).unwrap());
        assert_eq!(pod["metadata"]["generateName"], "web-");
        assert_eq!(pod["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
        assert_eq!(pod["spec"], json!({"containers": []}));
    }
}

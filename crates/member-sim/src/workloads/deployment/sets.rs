//! The ReplicaSets of a Deployment: which one has the present template, which are history, and the
//! annotations they carry.

use std::sync::Arc;

use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::value::Text;
use karmada_apimachinery::{Value, json};
use karmada_client::Object;

use crate::workloads::ownership::controller_reference;
use crate::workloads::revision::template_hash;

use super::rollout;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HASH: &str = "pod-template-hash";
/// Annotations of a Deployment that are not its sets' business.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// A ReplicaSet with what is decided by.
#[derive(Debug, Clone)]
pub(super) struct ReplicaSet {
    pub(super) object: Arc<Object>,
    value: Arc<Value>,
}

impl ReplicaSet {
    pub(super) fn of(object: &Arc<Object>) -> Self {
        Self { object: object.clone(), value: Arc::new(object.content()) }
    }

    fn from_value(value: &Value) -> Option<Self> {
        Object::from_value(value).ok().map(|object| Self::of(&Arc::new(object)))
    }

    pub(super) fn name(&self) -> &str {
        self.object.name()
    }

    pub(super) fn size(&self) -> i64 {
        self.value.i64_at(&["spec", "replicas"]).unwrap_or(1)
    }

    pub(super) fn counted(&self, field: &str) -> i64 {
        self.value.i64_at(&["status", field]).unwrap_or_default()
    }

    pub(super) fn revision(&self) -> i64 {
        self.value.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    pub(super) fn number(&self, annotation: &str) -> Option<i64> {
        self.value.annotation(annotation)?.parse().ok()
    }

    pub(super) fn conditions(&self) -> &[Value] {
        self.value.list_at(&["status", "conditions"])
    }

    pub(super) fn observed(&self) -> bool {
        self.counted("observedGeneration")
            >= self.value.i64_at(&["metadata", "generation"]).unwrap_or_default()
    }

    fn created(&self) -> &str {
        self.object.meta().creation_timestamp.as_deref().unwrap_or_default()
    }
}

/// Whether a set's template is that of the Deployment, the hash label aside.
pub(super) fn same_template(template: Option<&Value>, deployment: &Value) -> bool {
    let plain = |template: Option<&Value>| {
        let mut template = template.cloned().unwrap_or_default();
        template.remove_at(&["metadata", "labels", HASH]);
        template.remove_at(&["metadata", "creationTimestamp"]);
        template
    };
    plain(template) == plain(deployment.at(&["spec", "template"]))
}

/// All sets of a Deployment.
#[derive(Debug, Default)]
pub(super) struct Generations {
    pub(super) new: Option<ReplicaSet>,
    /// The others, oldest first.
    pub(super) old: Vec<ReplicaSet>,
}

impl Generations {
    pub(super) fn sort(deployment: &Value, mut sets: Vec<ReplicaSet>) -> Self {
        sets.sort_by(|a, b| (a.created(), a.name()).cmp(&(b.created(), b.name())));
        // Of several with the same template the oldest is the one.
        let is_new =
            |set: &ReplicaSet| same_template(set.value.at(&["spec", "template"]), deployment);
        let new = sets.iter().position(is_new).map(|at| sets.remove(at));
        Self { new, old: sets }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    pub(super) fn next_revision(&self) -> i64 {
        self.old.iter().map(ReplicaSet::revision).max().unwrap_or_default() + 1
    }

    pub(super) fn adopt_new(&mut self, value: &Value) {
        self.new = ReplicaSet::from_value(value);
    }

    /// Takes what was just written for what is.
    pub(super) fn replace(&mut self, value: &Value) {
        let Some(fresh) = ReplicaSet::from_value(value) else { return };
        let place = self.old.iter_mut().chain(self.new.as_mut()).find(|s| s.name() == fresh.name());
        if let Some(place) = place {
            *place = fresh;
        }
    }

    /// Unused old sets beyond the number that is kept, oldest revisions first.
    pub(super) fn beyond(&self, limit: usize) -> Vec<&ReplicaSet> {
        let is_idle = |set: &&ReplicaSet| {
            set.size() == 0
                && set.counted("replicas") == 0
                && set.observed()
                && !set.object.is_being_deleted()
        };
        let mut idle: Vec<&ReplicaSet> = self.old.iter().filter(is_idle).collect();
        idle.sort_by_key(|set| set.revision());
        idle.truncate(self.old.len().min(idle.len()).saturating_sub(limit));
        idle
    }
}

/// The annotations that tell a set how large the whole is, for scaling in proportion.
pub(super) fn size_annotations(deployment: &Value) -> Value {
    let desired = rollout::desired(deployment);
    let most = desired + rollout::limits(deployment).surge;
    json!({DESIRED: desired.to_string(), MAX: most.to_string()})
}

fn copied(deployment: &Value) -> impl Iterator<Item = (&Text, &Value)> {
    let all = deployment.map_at(&["metadata", "annotations"]).into_iter().flatten();
    all.filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()))
}

/// The annotations a set with the present template still lacks, if any.
pub(super) fn due_annotations(deployment: &Value, set: &ReplicaSet, number: i64) -> Option<Value> {
    let mut due = json!({});
    for (key, value) in copied(deployment) {
        if set.value.annotation(key) != value.as_str() {
            due[key.as_str()] = value.clone();
        }
    }
    if set.revision() < number {
        due[REVISION] = number.to_string().into();
        if set.revision() > 0 {
            let known = set.value.annotation(HISTORY).unwrap_or_default();
            let old = set.revision().to_string();
            due[HISTORY] = if known.is_empty() { old } else { format!("{known},{old}") }.into();
        }
    }
    let min_ready = |value: &Value| value.i64_at(&["spec", "minReadySeconds"]).unwrap_or_default();
    let differs = min_ready(deployment) != min_ready(&set.value);
    let any = due.as_object().is_some_and(|due| !due.is_empty());
    (any || differs).then_some(due)
}

/// The ReplicaSet of the present template.
pub(super) fn render(
    object: &Object,
    deployment: &Value,
    generations: &Generations,
    number: i64,
) -> Value {
    let collisions = deployment.i64_at(&["status", "collisionCount"]);
    let mut template = deployment.at(&["spec", "template"]).cloned().unwrap_or_default();
    let hash = template_hash(&template, collisions.filter(|count| *count > 0));
    template.set(&["metadata", "labels", HASH], hash.as_str());
    let mut selector = deployment.at(&["spec", "selector"]).cloned().unwrap_or_default();
    selector.set(&["matchLabels", HASH], hash.as_str());
    let mut annotations = size_annotations(deployment);
    for (key, value) in copied(deployment) {
        annotations[key.as_str()] = value.clone();
    }
    annotations[REVISION] = number.to_string().into();
    let mut set = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", object.name()),
            "namespace": object.namespace(),
            "labels": template.at(&["metadata", "labels"]),
            "annotations": annotations,
            "ownerReferences": [controller_reference(object)],
        },
        "spec": {
            "replicas": rollout::first_size(deployment, generations),
            "selector": selector,
            "template": template,
        },
    });
    if let Some(seconds) = deployment.i64_at(&["spec", "minReadySeconds"]).filter(|s| *s > 0) {
        set["spec"]["minReadySeconds"] = seconds.into();
    }
    set
}

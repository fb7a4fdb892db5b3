//! The Works of a binding: which clusters get one, what stands in it, and which are left over.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};

use karmada_api::affinity::ClusterFacts;
use karmada_api::explain::OverrideStep;
use karmada_api::policy::{
    ConflictResolution, FederatedResourceQuota, PurgeMode, ReplicaSchedulingType,
    StaticClusterAssignment,
};
use karmada_api::work::{ResourceBindingSpec, TargetCluster, Work, WorkSpec, WorkloadTemplate};
use karmada_api::{Binding, Kind, annotations, finalizers, labels, manifest, names};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Value, json};
use karmada_scheduler_core::division::{Party, TieOrder, divide};

use crate::binding::merge;
use crate::overrides::{OverrideError, Overrides};

/// The clusters that get a Work: the binding's own, then those of the bindings that need it.
/// A cluster that stands in both keeps the binding's own replicas.
pub fn targets(spec: &ResourceBindingSpec) -> Vec<&TargetCluster> {
    let mut seen = HashSet::new();
    let required = spec.required_by.iter().flat_map(|snapshot| &snapshot.clusters);
    spec.clusters
        .iter()
        .chain(required)
        .filter(|target| seen.insert(target.name.as_str()))
        .collect()
}

/// The clusters whose Work must not be removed: targets, and those the workload leaves gracefully.
pub fn kept_clusters(spec: &ResourceBindingSpec) -> BTreeSet<&str> {
    let leaving = spec
        .graceful_eviction_tasks
        .iter()
        .filter(|task| task.purge_mode != PurgeMode::Directly)
        .map(|task| task.from_cluster.as_str());
    targets(spec).into_iter().map(|target| target.name.as_str()).chain(leaving).collect()
}

/// Whether a Work in one of these clusters must be gone before new ones are written: the copy
/// there is purged directly, and two copies must not run at once.
pub fn waits_for_purge<'a>(
    spec: &ResourceBindingSpec,
    mut work_clusters: impl Iterator<Item = &'a str>,
) -> bool {
    let is_purged = |cluster: &str| {
        spec.graceful_eviction_tasks
            .iter()
            .any(|task| task.from_cluster == cluster && task.purge_mode == PurgeMode::Directly)
    };
    work_clusters.any(is_purged)
}

/// Sets the number of replicas in a template; what that means is the interpreter's knowledge.
pub type ReviseReplicas<'a> = &'a dyn Fn(Value, i64) -> Result<Value, String>;

#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("set replicas for cluster {cluster}: {problem}")]
    Replicas { cluster: String, problem: String },
    #[error("apply overrides for cluster {cluster}")]
    Override { cluster: String, source: Box<OverrideError> },
}

/// Renders the Works of one binding. What is the same for all clusters is done once.
pub struct Renderer<'a, B> {
    binding: &'a B,
    overrides: &'a Overrides,
    revise: Option<ReviseReplicas<'a>>,
    base: Value,
    generation: i64,
    template_uid: String,
    /// Completions of a divided Job, by cluster.
    completions: Vec<(String, i64)>,
    /// Gate `StatefulFailoverInjection`.
    inject_state: bool,
    bodies: RefCell<HashMap<Variant, Body>>,
}

/// What makes the manifest of one cluster differ from that of another.
#[derive(PartialEq, Eq, Hash)]
struct Variant {
    replicas: Option<i32>,
    completions: Option<i64>,
    rules: Vec<usize>,
}

/// A manifest as all clusters of one variant get it, before it carries the names of its Work.
#[derive(Clone)]
struct Body {
    object: Value,
    /// The Work's annotations about overrides.
    records: Vec<(&'static str, String)>,
    conflict_resolution: &'static str,
}

/// How many variants are kept. Few bindings have more: replicas of equal clusters differ by one.
const MAX_BODIES: usize = 16;

impl<'a, B: Binding> Renderer<'a, B> {
    pub fn new(
        template: &Value,
        binding: &'a B,
        overrides: &'a Overrides,
        revise: Option<ReviseReplicas<'a>>,
        inject_state: bool,
    ) -> Self {
        let mut base = template.clone();
        // Overrides come before pruning, so fields they may look at stay for now.
        if !overrides.reach_pruned_fields() && !is_pruned_by_kind(template.kind()) {
            manifest::prune(&mut base);
        }
        let generation = template.i64_at(&["metadata", "generation"]).unwrap_or(0);
        // Overrides see the template as it is, without our marks.
        if overrides.is_empty() {
            mark(&mut base, binding, generation);
        }
        Self {
            binding,
            overrides,
            revise: revise.filter(|_| binding.spec().is_workload()),
            base,
            generation,
            template_uid: template.uid().to_owned(),
            completions: divide_completions(template, binding.spec()),
            inject_state,
            bodies: RefCell::default(),
        }
    }

    /// Returns the Work for a target. `existing` is the Work that stands there already.
    pub fn render(
        &self,
        target: &TargetCluster,
        cluster: &impl ClusterFacts,
        existing: Option<&Work>,
        trace: Option<&mut Vec<OverrideStep>>,
    ) -> Result<Work, RenderError> {
        let Body { mut object, records, conflict_resolution } = match trace {
            Some(trace) => self.body(&self.variant(target, cluster), &target.name, Some(trace))?,
            None => self.shared_body(self.variant(target, cluster), &target.name)?,
        };
        if self.inject_state {
            inject_state(&mut object, self.binding.spec(), &target.name);
        }
        let mut work = self.envelope(&target.name, conflict_resolution);
        let records = records.into_iter().map(|(key, record)| (key.to_owned(), record));
        work.metadata.annotations.extend(records);
        work.spec.workload.manifests =
            vec![self.finish(object, &work, conflict_resolution, existing)];
        Ok(work)
    }

    fn variant(&self, target: &TargetCluster, cluster: &impl ClusterFacts) -> Variant {
        let mut completions = self.completions.iter();
        Variant {
            replicas: self.revise.map(|_| target.replicas),
            completions: completions.find(|(name, _)| *name == target.name).map(|(_, own)| *own),
            rules: self.overrides.rules_for(cluster),
        }
    }

    /// The body of a variant, made for the first cluster that needs it.
    fn shared_body(&self, variant: Variant, cluster: &str) -> Result<Body, RenderError> {
        if let Some(body) = self.bodies.borrow().get(&variant) {
            return Ok(body.clone());
        }
        let body = self.body(&variant, cluster, None)?;
        let mut bodies = self.bodies.borrow_mut();
        if bodies.len() < MAX_BODIES {
            bodies.insert(variant, body.clone());
        }
        Ok(body)
    }

    fn body(
        &self,
        variant: &Variant,
        cluster: &str,
        trace: Option<&mut Vec<OverrideStep>>,
    ) -> Result<Body, RenderError> {
        let mut object = self.base.clone();
        if let (Some(revise), Some(replicas)) = (self.revise, variant.replicas) {
            object = revise(object, i64::from(replicas)).map_err(|problem| {
                RenderError::Replicas { cluster: cluster.to_owned(), problem }
            })?;
        }
        if let Some(completions) = variant.completions {
            object.set(&["spec", "completions"], completions);
        }
        let applied = self
            .overrides
            .apply_rules(&mut object, &variant.rules, cluster, trace)
            .map_err(|source| RenderError::Override {
                cluster: cluster.to_owned(),
                source: Box::new(source),
            })?;
        if !self.overrides.is_empty() {
            mark(&mut object, self.binding, self.generation);
        }
        let records = [
            (annotations::APPLIED_CLUSTER_OVERRIDES, applied.cluster_scoped()),
            (annotations::APPLIED_OVERRIDES, applied.namespaced()),
        ];
        let records = records.into_iter().filter_map(|(key, record)| Some((key, record?)));
        let conflict_resolution = conflict_resolution(&object, self.binding.spec());
        Ok(Body { object, records: records.collect(), conflict_resolution })
    }

    /// A Work without its manifest.
    fn envelope(&self, cluster: &str, conflict_resolution: &str) -> Work {
        let spec = self.binding.spec();
        let resource = &spec.resource;
        let mut work = Work::default();
        work.metadata.name = names::work(&resource.kind, &resource.name, &resource.namespace);
        work.metadata.namespace = names::execution_space(cluster);
        work.metadata.finalizers = vec![finalizers::EXECUTION.to_owned()];
        work.metadata
            .labels
            .insert(B::PERMANENT_ID.to_owned(), self.binding.permanent_id().to_owned());
        work.metadata.annotations.extend(back_reference(self.binding));
        work.metadata
            .annotations
            .insert(annotations::CONFLICT_RESOLUTION.to_owned(), conflict_resolution.to_owned());
        work.spec = WorkSpec {
            workload: WorkloadTemplate::default(),
            suspend_dispatching: Some(spec.is_dispatching_suspended(cluster)),
            preserve_resources_on_deletion: Some(spec.preserve_resources_on_deletion == Some(true)),
        };
        work
    }

    /// Marks the manifest as ours, prunes it and records what we put there.
    fn finish(
        &self,
        mut object: Value,
        work: &Work,
        conflict_resolution: &str,
        existing: Option<&Work>,
    ) -> Value {
        let marks = object.map_at_mut(&["metadata", "annotations"]);
        for (key, value) in [
            (annotations::TEMPLATE_UID, self.template_uid.as_str()),
            (annotations::WORK_NAME, &work.metadata.name),
            (annotations::WORK_NAMESPACE, &work.metadata.namespace),
            (annotations::CONFLICT_RESOLUTION, conflict_resolution),
        ] {
            marks.insert(key.to_owned(), value.into());
        }
        object.set(&["metadata", "labels", labels::MANAGED], labels::TRUE);
        manifest::prune(&mut object);
        let id = existing.and_then(|work| work.metadata.labels.get(labels::WORK_PERMANENT_ID));
        manifest::stamp(&mut object, id.map(String::as_str));
        object
    }
}

/// The Work that brings a namespace to a cluster. It belongs to the namespace, not to a binding, and
/// does not say what to do about a namespace that is there already.
pub fn namespace_work(
    namespace: &Value,
    overrides: &Overrides,
    cluster: &impl ClusterFacts,
    existing: Option<&Work>,
) -> Result<Work, OverrideError> {
    let mut object = namespace.clone();
    let applied = overrides.apply(&mut object, cluster, None)?;
    let mut work = work_of_its_own(object, namespace.uid(), cluster.name(), existing);
    work.metadata.owner_references = vec![crate::binding::owner(namespace)];
    if let Some(record) = applied.cluster_scoped() {
        let key = annotations::APPLIED_CLUSTER_OVERRIDES.to_owned();
        work.metadata.annotations.insert(key, record);
    }
    Ok(work)
}

/// The Work that limits a namespace in one cluster to its part of a federated quota.
pub fn quota_work(
    quota: &FederatedResourceQuota,
    assignment: &StaticClusterAssignment,
    existing: Option<&Work>,
) -> Work {
    let (namespace, name) = (&quota.metadata.namespace, &quota.metadata.name);
    let object = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": assignment.hard},
    });
    // Compat: the ResourceQuota is made here, so it has no identity of its own in the plane.
    let mut work = work_of_its_own(object, "", &assignment.cluster_name, existing);
    work.metadata.labels.extend([
        (labels::FEDERATED_RESOURCE_QUOTA_NAMESPACE.to_owned(), namespace.clone()),
        (labels::FEDERATED_RESOURCE_QUOTA_NAME.to_owned(), name.clone()),
    ]);
    work
}

/// A Work that belongs to no binding.
pub(crate) fn work_of_its_own(
    mut object: Value,
    template_uid: &str,
    cluster: &str,
    existing: Option<&Work>,
) -> Work {
    let mut work = Work::default();
    work.metadata.name = names::work(object.kind(), object.name(), object.namespace());
    work.metadata.namespace = names::execution_space(cluster);
    work.metadata.finalizers = vec![finalizers::EXECUTION.to_owned()];
    for (key, value) in [
        (annotations::TEMPLATE_UID, template_uid),
        (annotations::WORK_NAME, &work.metadata.name),
        (annotations::WORK_NAMESPACE, &work.metadata.namespace),
    ] {
        object.set(&["metadata", "annotations", key], value);
    }
    object.set(&["metadata", "labels", labels::MANAGED], labels::TRUE);
    manifest::prune(&mut object);
    let id = existing.and_then(|work| work.metadata.labels.get(labels::WORK_PERMANENT_ID));
    manifest::stamp(&mut object, id.map(String::as_str));
    work.spec.workload.manifests = vec![object];
    work
}

/// Kinds that lose fields of their spec or metadata when a Work is built.
fn is_pruned_by_kind(kind: &str) -> bool {
    matches!(kind, "Job" | "Secret" | "ServiceAccount" | "Service" | "PersistentVolumeClaim")
}

/// Puts the binding's marks on a manifest.
fn mark<B: Binding>(object: &mut Value, binding: &B, generation: i64) {
    object.set(&["metadata", "labels", B::PERMANENT_ID], binding.permanent_id());
    for (key, value) in back_reference(binding) {
        object.set(&["metadata", "annotations", key.as_str()], value);
    }
    if generation > 0 {
        object.set(
            &["metadata", "annotations", annotations::TEMPLATE_GENERATION],
            generation.to_string(),
        );
    }
}

fn back_reference<B: Binding>(binding: &B) -> Vec<(String, String)> {
    let mut reference = vec![(B::NAME_ANNOTATION.to_owned(), binding.name().to_owned())];
    if B::NAMESPACED {
        let namespace = annotations::RESOURCE_BINDING_NAMESPACE.to_owned();
        reference.push((namespace, binding.namespace().to_owned()));
    }
    reference
}

/// What happens to an object that exists in the member already: the object may say, by its template or
/// an override, else the binding.
fn conflict_resolution(object: &Value, spec: &ResourceBindingSpec) -> &'static str {
    use annotations::{
        CONFLICT_RESOLUTION, CONFLICT_RESOLUTION_ABORT, CONFLICT_RESOLUTION_OVERWRITE,
    };
    match object.annotation(CONFLICT_RESOLUTION) {
        Some(CONFLICT_RESOLUTION_OVERWRITE) => CONFLICT_RESOLUTION_OVERWRITE,
        Some(CONFLICT_RESOLUTION_ABORT) => CONFLICT_RESOLUTION_ABORT,
        _ if spec.conflict_resolution == ConflictResolution::Overwrite => {
            CONFLICT_RESOLUTION_OVERWRITE
        }
        _ => CONFLICT_RESOLUTION_ABORT,
    }
}

/// Shares the completions of a divided Job in proportion to the replicas of each cluster.
fn divide_completions(template: &Value, spec: &ResourceBindingSpec) -> Vec<(String, i64)> {
    let is_divided = spec
        .placement
        .as_ref()
        .and_then(|placement| placement.replica_scheduling.as_ref())
        .is_some_and(|strategy| strategy.replica_scheduling_type == ReplicaSchedulingType::Divided);
    let completions = template.i64_at(&["spec", "completions"]);
    let (true, "Job", true, Some(completions)) =
        (is_divided, template.kind(), spec.replicas > 0, completions)
    else {
        return Vec::new();
    };
    let mut targets = targets(spec);
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    let parties: Vec<Party<'_>> = targets
        .iter()
        .map(|target| Party { name: &target.name, votes: i64::from(target.replicas), seats: 0 })
        .collect();
    let shares = divide(completions, &parties, TieOrder::of_uid(template.uid()));
    targets.iter().map(|target| target.name.clone()).zip(shares).collect()
}

/// Hands the state that was saved at a failover to the one cluster that takes over.
fn inject_state(object: &mut Value, spec: &ResourceBindingSpec, cluster: &str) {
    let Some(task) = spec.graceful_eviction_tasks.last() else { return };
    let is_new = !task.clusters_before_failover.iter().any(|before| before == cluster);
    if task.purge_mode == PurgeMode::Directly && is_new && targets(spec).len() == 1 {
        for (key, value) in &task.preserved_label_state {
            object.set(&["metadata", "labels", key.as_str()], value.as_str());
        }
    }
}

/// What to do to bring a Work up to date.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Create(Box<Work>),
    Update(Box<Work>),
    /// It says the same already.
    Nothing,
    /// It is on its way out; the next one is written when it is gone.
    BeingDeleted,
}

/// Compares before writing. Labels and annotations of others stay; records of overrides that no
/// longer apply go.
pub fn reconcile(existing: Option<&Work>, desired: Work) -> Change {
    let Some(existing) = existing else { return Change::Create(Box::new(desired)) };
    if existing.metadata.deletion_timestamp.is_some() {
        return Change::BeingDeleted;
    }
    let mut updated = existing.clone();
    for record in [annotations::APPLIED_OVERRIDES, annotations::APPLIED_CLUSTER_OVERRIDES] {
        updated.metadata.annotations.remove(record);
    }
    merge(&mut updated.metadata.labels, &desired.metadata.labels);
    merge(&mut updated.metadata.annotations, &desired.metadata.annotations);
    let finalizers: BTreeSet<String> =
        updated.metadata.finalizers.drain(..).chain(desired.metadata.finalizers).collect();
    updated.metadata.finalizers = finalizers.into_iter().collect();
    updated.spec = desired.spec;
    if updated == *existing { Change::Nothing } else { Change::Update(Box::new(updated)) }
}

/// The cluster a Work is for.
pub fn cluster_of(work: &Work) -> Option<&str> {
    names::cluster_of_execution_space(work.namespace())
}

#[cfg(test)]
mod tests;

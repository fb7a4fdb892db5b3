//! The binding of a template: what the policy and the interpreter make of it.

use karmada_api::meta::{Labels, OwnerReference};
use karmada_api::policy::{Placement, Suspension as PolicySuspension};
use karmada_api::work::{
    Component, ObjectReference, ReplicaRequirements, ResourceBindingSpec, SchedulePriority,
    Suspension, WorkloadAffinityGroups,
};
use karmada_api::{Binding, ObjectMeta, Policy, annotations, labels, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use crate::selector::labels_of;

/// What the interpreter says of a template.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interpretation {
    pub replicas: i32,
    pub requirements: Option<ReplicaRequirements>,
    /// Set instead of the two above for workloads of several pod templates.
    pub components: Vec<Component>,
}

/// What a new binding is made of.
#[derive(Debug)]
pub struct Draft<'a, P> {
    pub template: &'a Value,
    pub policy: &'a P,
    pub interpretation: Interpretation,
    /// The value of the priority class the policy names.
    pub schedule_priority: Option<i32>,
    /// Gate `WorkloadAffinity`.
    pub workload_affinity: bool,
}

/// The binding of another object stands under the name: it belongs to a template that is gone.
// Compat: the original's words, which are in events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to update binding due to different owner reference UID, will try again later after binding is garbage \
     collected, see https://github.com/karmada-io/karmada/issues/2090"
)]
pub struct ForeignOwner {
    pub name: String,
    pub uid: String,
}

impl<P: Policy> Draft<'_, P> {
    /// Returns the binding as it is created.
    pub fn build<B: Binding + Default>(self) -> B {
        let template = self.template;
        let policy = self.policy.spec();
        let mut binding = B::default();
        *binding.metadata_mut() = ObjectMeta {
            name: names::binding(template.kind(), template.name()),
            namespace: if B::NAMESPACED { template.namespace().to_owned() } else { String::new() },
            labels: Labels::from([(
                P::PERMANENT_ID.to_owned(),
                self.policy.permanent_id().to_owned(),
            )]),
            annotations: claim_annotations(self.policy),
            owner_references: vec![owner(template)],
            finalizers: vec![B::FINALIZER.to_owned()],
            ..ObjectMeta::default()
        };
        let groups = self.workload_affinity && B::NAMESPACED;
        *binding.spec_mut() = ResourceBindingSpec {
            resource: reference(template),
            propagate_deps: policy.propagate_deps,
            replicas: self.interpretation.replicas,
            replica_requirements: self.interpretation.requirements,
            components: self.interpretation.components,
            placement: Some(policy.placement.clone()),
            scheduler_name: policy.scheduler_name.clone(),
            failover: policy.failover.clone(),
            conflict_resolution: policy.conflict_resolution.clone(),
            preserve_resources_on_deletion: policy.preserve_resources_on_deletion,
            suspension: merge_suspension(None, policy.suspension.as_ref()),
            schedule_priority: self
                .schedule_priority
                .filter(|_| B::NAMESPACED)
                .map(|priority| SchedulePriority { priority }),
            workload_affinity_groups: groups
                .then(|| affinity_groups(&policy.placement, &labels_of(template)))
                .flatten(),
            ..ResourceBindingSpec::default()
        };
        binding
    }
}

fn claim_annotations<P: Policy>(policy: &P) -> Labels {
    let mut claim = Labels::from([(P::NAME_ANNOTATION.to_owned(), policy.name().to_owned())]);
    if P::NAMESPACED {
        claim.insert(
            annotations::PROPAGATION_POLICY_NAMESPACE.to_owned(),
            policy.namespace().to_owned(),
        );
    }
    claim
}

/// A reference to a template as bindings keep it.
pub fn reference(template: &Value) -> ObjectReference {
    ObjectReference {
        api_version: template.api_version().to_owned(),
        kind: template.kind().to_owned(),
        namespace: template.namespace().to_owned(),
        name: template.name().to_owned(),
        uid: template.uid().to_owned(),
        resource_version: template.resource_version().to_owned(),
    }
}

/// The template as controlling owner, so that the binding goes with it.
pub fn owner(template: &Value) -> OwnerReference {
    OwnerReference {
        api_version: template.api_version().to_owned(),
        kind: template.kind().to_owned(),
        name: template.name().to_owned(),
        uid: template.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Groups a template is in, named after its labels; none when it carries neither label.
fn affinity_groups(placement: &Placement, labels: &Labels) -> Option<WorkloadAffinityGroups> {
    let rules = placement.workload_affinity.as_ref()?;
    let group = |key: Option<&str>| {
        let key = key?;
        Some(format!("{key}={}", labels.get(key)?))
    };
    let affinity = group(rules.affinity.as_ref().map(|term| term.group_by_label_key.as_str()));
    let anti = group(rules.anti_affinity.as_ref().map(|term| term.group_by_label_key.as_str()));
    if affinity.is_none() && anti.is_none() {
        return None;
    }
    Some(WorkloadAffinityGroups {
        affinity_group: affinity.unwrap_or_default(),
        anti_affinity_group: anti.unwrap_or_default(),
    })
}

/// The policy says whether to deliver; whether to schedule is the binding's own.
fn merge_suspension(
    existing: Option<&Suspension>,
    policy: Option<&PolicySuspension>,
) -> Option<Suspension> {
    let merged = Suspension {
        dispatch: policy.cloned().unwrap_or_default(),
        scheduling: existing.and_then(|existing| existing.scheduling),
    };
    (merged != Suspension::default()).then_some(merged)
}

/// Brings an existing binding up to date. Returns `None` when it says the same already: what
/// scheduling, failover and dependencies wrote is never touched.
pub fn update<B: Binding + PartialEq, P: Policy>(
    existing: &B,
    desired: &B,
    _policy: &P,
) -> Result<Option<B>, ForeignOwner> {
    check_owner(existing, desired)?;
    let mut updated = existing.clone();
    let metadata = updated.metadata_mut();
    merge(&mut metadata.labels, &desired.metadata().labels);
    merge(&mut metadata.annotations, &desired.metadata().annotations);
    if P::NAMESPACED {
        metadata.labels.remove(labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID);
        metadata.annotations.remove(annotations::CLUSTER_PROPAGATION_POLICY_NAME);
    }
    for finalizer in &desired.metadata().finalizers {
        if !metadata.finalizers.contains(finalizer) {
            metadata.finalizers.push(finalizer.clone());
        }
    }
    metadata.owner_references.clone_from(&desired.metadata().owner_references);
    let (from, to) = (desired.spec().clone(), updated.spec_mut());
    let policy_half = from.suspension.as_ref().map(|suspension| &suspension.dispatch);
    to.suspension = merge_suspension(to.suspension.as_ref(), policy_half);
    to.resource = from.resource;
    to.replicas = from.replicas;
    to.replica_requirements = from.replica_requirements;
    to.components = from.components;
    to.scheduler_name = from.scheduler_name;
    to.placement = from.placement;
    to.failover = from.failover;
    to.conflict_resolution = from.conflict_resolution;
    to.preserve_resources_on_deletion = from.preserve_resources_on_deletion;
    if B::NAMESPACED {
        // Compat: cluster-scoped bindings take these over at creation only.
        to.propagate_deps = from.propagate_deps;
        to.schedule_priority = from.schedule_priority;
        to.workload_affinity_groups = from.workload_affinity_groups;
    }
    Ok((updated != *existing).then_some(updated))
}

/// A binding whose controlling owner is another object must not be taken over.
pub(crate) fn check_owner<B: Binding>(existing: &B, desired: &B) -> Result<(), ForeignOwner> {
    let controller = |binding: &B| {
        let owners = binding.metadata().owner_references.iter();
        owners.filter(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone()).next()
    };
    match (controller(existing), controller(desired)) {
        (Some(uid), wanted) if wanted.as_ref() != Some(&uid) => {
            Err(ForeignOwner { name: existing.name().to_owned(), uid })
        }
        _ => Ok(()),
    }
}

pub(crate) fn merge(into: &mut Labels, from: &Labels) {
    into.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
}

#[cfg(test)]
mod tests {
    use karmada_api::policy::{ClusterPropagationPolicy, PropagationPolicy};
    use karmada_api::work::{ClusterResourceBinding, ResourceBinding};
    use karmada_apimachinery::json;

    use super::*;

    fn template() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "name": "web", "namespace": "ns", "uid": "u1", "resourceVersion": "7", "labels": {"team": "a"}}})
    }

    fn policy() -> PropagationPolicy {
        karmada_apimachinery::from_value(json!({
            "metadata": {"name": "pp", "namespace": "ns", "labels": {labels::PROPAGATION_POLICY_PERMANENT_ID: "id"}},
            "spec": {
                "resourceSelectors": [], "propagateDeps": true, "schedulerName": "default-scheduler",
                "conflictResolution": "Overwrite", "suspension": {"dispatching": true},
                "placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": "team"}}},
            },
        }))
        .unwrap()
    }

    fn draft<'a, P>(template: &'a Value, policy: &'a P) -> Draft<'a, P> {
        let interpretation = Interpretation { replicas: 3, ..Interpretation::default() };
        Draft {
            template,
            policy,
            interpretation,
            schedule_priority: Some(5),
            workload_affinity: true,
        }
    }

    #[test]
    fn a_binding_carries_what_policy_and_template_say() {
        let binding: ResourceBinding = draft(&template(), &policy()).build();
        let shown = karmada_apimachinery::to_value(&binding).unwrap();
        assert_eq!(
            shown["metadata"],
            json!({
                "name": "web-deployment", "namespace": "ns",
                "labels": {"propagationpolicy.karmada.io/permanent-id": "id"},
                "annotations": {"propagationpolicy.karmada.io/name": "pp", "propagationpolicy.karmada.io/namespace": "ns"},
                "finalizers": ["karmada.io/binding-controller"],
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1",
                                     "controller": true, "blockOwnerDeletion": true}],
            })
        );
        assert_eq!(shown["spec"]["replicas"], 3);
        assert_eq!(shown["spec"]["schedulePriority"], json!({"priority": 5}));
        assert_eq!(shown["spec"]["workloadAffinityGroups"], json!({"affinityGroup": "team=a"}));
        assert_eq!(shown["spec"]["suspension"], json!({"dispatching": true}));
    }

    #[test]
    fn an_update_writes_nothing_when_nothing_changed_and_leaves_decisions_alone() {
        let policy = policy();
        let desired: ResourceBinding = draft(&template(), &policy).build();
        let mut existing = desired.clone();
        existing.metadata.labels.insert("own".into(), "1".into());
        existing.spec.clusters =
            karmada_apimachinery::from_value(json!([{"name": "m1", "replicas": 3}])).unwrap();
        let suspension = existing.spec.suspension.get_or_insert_default();
        suspension.scheduling = Some(true);
        assert_eq!(update(&existing, &desired, &policy), Ok(None));
        let mut changed = desired.clone();
        changed.spec.replicas = 4;
        changed.spec.suspension = None;
        let updated = update(&existing, &changed, &policy).unwrap().unwrap();
        assert_eq!(updated.spec.replicas, 4);
        assert_eq!(updated.spec.clusters, existing.spec.clusters);
        let suspension = karmada_apimachinery::to_value(&updated.spec.suspension).unwrap();
        assert_eq!(suspension, json!({"scheduling": true}));
    }

    #[test]
    fn a_binding_of_another_object_is_not_taken_over() {
        let policy = policy();
        let mut other = template();
        other["metadata"]["uid"] = "u2".into();
        let existing: ResourceBinding = draft(&other, &policy).build();
        let desired: ResourceBinding = draft(&template(), &policy).build();
        assert_eq!(update(&existing, &desired, &policy).unwrap_err().uid, "u2");
    }

    #[test]
    fn cluster_scoped_bindings_carry_no_priority_and_no_groups() {
        let policy: ClusterPropagationPolicy = karmada_apimachinery::from_value(json!({
            "metadata": {"name": "cpp"}, "spec": {"resourceSelectors": []}}))
        .unwrap();
        let template = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a:b", "uid": "u"}});
        let binding: ClusterResourceBinding = draft(&template, &policy).build();
        assert_eq!(binding.metadata.name, "a.b-clusterrole");
        assert_eq!(binding.spec.schedule_priority, None);
        assert_eq!(binding.metadata.finalizers, ["karmada.io/cluster-resource-binding-controller"]);
    }
}

//! Objects that must follow a workload: which they are, and the bindings that carry them along.

use karmada_api::config::DependentObjectReference;
use karmada_api::policy::ConflictResolution;
use karmada_api::work::{BindingSnapshot, ResourceBinding};
use karmada_api::{Kind, ObjectMeta, finalizers, labels, names};
use karmada_apimachinery::Value;
use karmada_apimachinery::field::go_escape;
use karmada_apimachinery::object::ObjectExt;

use crate::binding::{ForeignOwner, check_owner, merge, owner, reference};
use crate::selector::labels_of;

/// Sorts the dependencies and drops repeats, so that the same set always reads the same.
pub fn normalise(mut dependencies: Vec<DependentObjectReference>) -> Vec<DependentObjectReference> {
    dependencies.sort_by_cached_key(sort_key);
    dependencies.dedup();
    dependencies
}

fn sort_key(dependency: &DependentObjectReference) -> (String, String, String, String, String) {
    let selector = serde_json::to_string(&dependency.label_selector).unwrap_or_default();
    let DependentObjectReference { api_version, kind, namespace, name, .. } = dependency;
    (api_version.clone(), kind.clone(), namespace.clone(), name.clone(), selector)
}

/// The value of the annotation that remembers the dependencies of a binding.
pub fn to_annotation(dependencies: &[DependentObjectReference]) -> String {
    // Compat: a list that became empty is written this way.
    if dependencies.is_empty() {
        return "null".to_owned();
    }
    go_escape(&serde_json::to_string(dependencies).unwrap_or_default())
}

/// Reads the annotation; text nobody can read names no dependency.
pub fn from_annotation(text: &str) -> Vec<DependentObjectReference> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Whether the dependency names the object.
pub fn names_object(dependency: &DependentObjectReference, object: &Value) -> bool {
    let same_place = dependency.api_version == object.api_version()
        && dependency.kind == object.kind()
        && dependency.namespace == object.namespace();
    if !same_place {
        return false;
    }
    if !dependency.name.is_empty() {
        return dependency.name == object.name();
    }
    dependency.label_selector.as_ref().is_some_and(|selector| selector.matches(&labels_of(object)))
}

/// Whether an attached binding is no longer needed: none of the dependencies names its object.
/// `object` is the object as it is now; one picked by labels that is gone counts as not needed.
pub fn is_orphan(
    attached: &ResourceBinding,
    object: Option<&Value>,
    dependencies: &[DependentObjectReference],
) -> bool {
    let resource = &attached.spec.resource;
    !dependencies.iter().any(|dependency| {
        if !dependency.name.is_empty() {
            return dependency.name == resource.name
                && dependency.kind == resource.kind
                && dependency.api_version == resource.api_version
                && dependency.namespace == resource.namespace;
        }
        object.is_some_and(|object| names_object(dependency, object))
    })
}

/// The binding that carries a dependency along with the workload of `by`.
pub fn attached(by: &ResourceBinding, dependency: &Value) -> ResourceBinding {
    let mut binding = ResourceBinding::with_metadata(ObjectMeta {
        name: names::binding(dependency.kind(), dependency.name()),
        namespace: by.namespace().to_owned(),
        owner_references: vec![owner(dependency)],
        finalizers: vec![finalizers::BINDING.to_owned()],
        ..ObjectMeta::default()
    });
    binding.metadata.labels.insert(depended_by(by), permanent_id(by));
    binding.spec.resource = reference(dependency);
    binding.spec.required_by = vec![snapshot(by)];
    apply_wishes(&mut binding, &[Wish::of(by)]);
    binding
}

/// The label by which a dependency's binding is found from the binding that needs it.
pub fn depended_by(by: &ResourceBinding) -> String {
    names::depended_by_label(by.namespace(), by.name())
}

fn permanent_id(binding: &ResourceBinding) -> String {
    binding.metadata.labels.get(labels::RESOURCE_BINDING_PERMANENT_ID).cloned().unwrap_or_default()
}

fn snapshot(by: &ResourceBinding) -> BindingSnapshot {
    BindingSnapshot {
        namespace: by.namespace().to_owned(),
        name: by.name().to_owned(),
        clusters: by.spec.clusters.clone(),
    }
}

/// What a requirer asks for its dependencies.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    pub conflict_resolution: ConflictResolution,
    pub preserve: Option<bool>,
}

impl Wish {
    pub fn of(binding: &ResourceBinding) -> Self {
        Self {
            conflict_resolution: binding.spec.conflict_resolution.clone(),
            preserve: binding.spec.preserve_resources_on_deletion,
        }
    }
}

/// What requirers disagree about; the stronger wish wins, and people should know.
pub fn disagreement(wishes: &[Wish]) -> Option<String> {
    let overwrites = |wish: &Wish| wish.conflict_resolution == ConflictResolution::Overwrite;
    let preserves = |wish: &Wish| wish.preserve == Some(true);
    let differ =
        |is: &dyn Fn(&Wish) -> bool| wishes.windows(2).any(|pair| is(&pair[0]) != is(&pair[1]));
    // Compat: the original's words.
    let mut conflicts = Vec::new();
    if differ(&overwrites) {
        conflicts.push("ConflictResolution conflicted (Overwrite vs Abort)");
    }
    if differ(&preserves) {
        conflicts.push("PreserveResourcesOnDeletion conflicted (true vs false)");
    }
    (!conflicts.is_empty()).then(|| conflicts.join("; "))
}

/// Joins a requirer's snapshot into the dependency's binding. `wishes` are those of all
/// requirers; a binding with a placement of its own follows its own policy instead.
pub fn attach(
    existing: &ResourceBinding,
    desired: &ResourceBinding,
    wishes: &[Wish],
) -> Result<Option<ResourceBinding>, ForeignOwner> {
    check_owner(existing, desired)?;
    let mut updated = existing.clone();
    merge(&mut updated.metadata.labels, &desired.metadata.labels);
    updated.spec.resource = desired.spec.resource.clone();
    for snapshot in &desired.spec.required_by {
        let same = |other: &&mut BindingSnapshot| {
            other.namespace == snapshot.namespace && other.name == snapshot.name
        };
        match updated.spec.required_by.iter_mut().find(same) {
            Some(present) => present.clusters.clone_from(&snapshot.clusters),
            None => {
                // By name, not by who was faster; those who are there already stay where they are.
                let name = |one: &BindingSnapshot| (one.namespace.clone(), one.name.clone());
                let after = |other: &BindingSnapshot| name(other) > name(snapshot);
                let place = updated.spec.required_by.iter().position(after);
                let place = place.unwrap_or(updated.spec.required_by.len());
                updated.spec.required_by.insert(place, snapshot.clone());
            }
        }
    }
    apply_wishes(&mut updated, wishes);
    Ok((updated != *existing).then_some(updated))
}

/// Takes a requirer out of the dependency's binding; the binding itself stays.
pub fn detach(
    existing: &ResourceBinding,
    by: &ResourceBinding,
    remaining: &[Wish],
) -> Option<ResourceBinding> {
    let mut updated = existing.clone();
    updated.metadata.labels.remove(&depended_by(by));
    updated
        .spec
        .required_by
        .retain(|snapshot| snapshot.namespace != by.namespace() || snapshot.name != by.name());
    apply_wishes(&mut updated, remaining);
    (updated != *existing).then_some(updated)
}

fn apply_wishes(binding: &mut ResourceBinding, wishes: &[Wish]) {
    if binding.spec.placement.is_some() {
        return;
    }
    let overwrites = |wish: &Wish| wish.conflict_resolution == ConflictResolution::Overwrite;
    binding.spec.conflict_resolution = match wishes {
        [] => ConflictResolution::default(),
        wishes if wishes.iter().any(overwrites) => ConflictResolution::Overwrite,
        _ => ConflictResolution::Abort,
    };
    let preserves = wishes.iter().any(|wish| wish.preserve == Some(true));
    // Compat: a wish that says nothing is written down as a no.
    binding.spec.preserve_resources_on_deletion = (!wishes.is_empty()).then_some(preserves);
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;

    use super::*;

    fn binding(name: &str, extra: Value) -> ResourceBinding {
        let mut spec = json!({
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "conf", "namespace": "ns"},
            "clusters": [{"name": "m1"}], "conflictResolution": "Abort",
        });
        for (key, value) in extra.as_object().unwrap() {
            spec[key] = value.clone();
        }
        karmada_apimachinery::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {labels::RESOURCE_BINDING_PERMANENT_ID: name}},
            "spec": spec,
        }))
        .unwrap()
    }

    fn conf() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
               "metadata": {"name": "conf", "namespace": "ns", "uid": "u", "labels": {"a": "b"}}})
    }

    #[test]
    fn requirers_come_and_go_and_the_stronger_wish_wins() {
        let (a, b) = (
            binding("a", json!({})),
            binding(
                "b",
                json!({"conflictResolution": "Overwrite", "preserveResourcesOnDeletion": true}),
            ),
        );
        let first = attached(&a, &conf());
        assert_eq!(first.metadata.name, "conf-configmap");
        assert_eq!(attach(&first, &first, &[Wish::of(&a)]), Ok(None));
        let wishes = [Wish::of(&a), Wish::of(&b)];
        let words = "ConflictResolution conflicted (Overwrite vs Abort); \
                     PreserveResourcesOnDeletion conflicted (true vs false)";
        assert_eq!(disagreement(&wishes).as_deref(), Some(words));
        assert_eq!(disagreement(&wishes[..1]), None);
        let both = attach(&first, &attached(&b, &conf()), &wishes).unwrap().unwrap();
        assert_eq!(both.spec.required_by.len(), 2);
        assert_eq!(both.spec.conflict_resolution, ConflictResolution::Overwrite);
        assert_eq!(both.spec.preserve_resources_on_deletion, Some(true));
        let without_b = detach(&both, &b, &[Wish::of(&a)]).unwrap();
        assert_eq!(without_b.spec.conflict_resolution, ConflictResolution::Abort);
        assert_eq!(without_b.spec.required_by.len(), 1);
        let alone = detach(&without_b, &a, &[]).unwrap();
        assert!(alone.spec.required_by.is_empty());
        assert_eq!(alone.spec.conflict_resolution, ConflictResolution::default());
        assert!(
            !alone.metadata.labels.keys().any(|key| key.starts_with(labels::DEPENDED_BY_PREFIX))
        );
    }

    #[test]
    fn requirers_are_listed_alike_whoever_comes_first() {
        let bindings = ["web", "web2", "another"].map(|name| binding(name, json!({})));
        for turn in 0..3 {
            let [first, second, third] = [0, 1, 2].map(|place| &bindings[(turn + place) % 3]);
            let mut shared = attached(first, &conf());
            for other in [second, third] {
                shared = attach(&shared, &attached(other, &conf()), &[]).unwrap().unwrap();
            }
            let names: Vec<&str> =
                shared.spec.required_by.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, ["another", "web", "web2"]);
        }
    }

    #[test]
    fn a_binding_with_its_own_policy_keeps_its_own_strategy() {
        let a = binding("a", json!({"conflictResolution": "Overwrite"}));
        let mut own = attached(&a, &conf());
        own.spec.placement = Some(Default::default());
        own.spec.conflict_resolution = ConflictResolution::Abort;
        assert_eq!(attach(&own, &attached(&a, &conf()), &[Wish::of(&a)]), Ok(None));
    }

    #[test]
    fn dependencies_read_the_same_whatever_their_order() {
        let reference = |name: &str| -> DependentObjectReference {
            karmada_apimachinery::from_value(
                json!({"apiVersion": "v1", "kind": "Secret", "namespace": "ns", "name": name}),
            )
            .unwrap()
        };
        let sorted = normalise(vec![reference("b"), reference("a"), reference("b")]);
        assert_eq!(sorted, [reference("a"), reference("b")]);
        let text = to_annotation(&sorted);
        assert_eq!(from_annotation(&text), sorted);
        assert!(from_annotation("not json").is_empty());
    }

    #[test]
    fn orphans_are_bindings_nobody_names_any_more() {
        let by_name: DependentObjectReference = karmada_apimachinery::from_value(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "conf"}),
        )
        .unwrap();
        let by_label: DependentObjectReference = karmada_apimachinery::from_value(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "labelSelector": {"matchLabels": {"a": "b"}}})).unwrap();
        let attached = attached(&binding("a", json!({})), &conf());
        assert!(!is_orphan(&attached, None, std::slice::from_ref(&by_name)));
        assert!(!is_orphan(&attached, Some(&conf()), std::slice::from_ref(&by_label)));
        assert!(is_orphan(&attached, None, &[by_label]));
        assert!(is_orphan(&attached, Some(&conf()), &[]));
    }
}

//! Services across clusters: how a MultiClusterService holds the service it exposes, which clusters it is about, the Works
//! that carry endpoint slices from provider to consumer ([`slices`]), and what the control plane shows of services that
//! are exported ([`imports`]).

pub mod imports;
pub mod slices;

use std::collections::BTreeSet;

use karmada_api::meta::Labels;
use karmada_api::networking::{ClusterSelector, ExposureType, MultiClusterService};
use karmada_api::policy::{ClusterAffinity, ConflictResolution, Placement};
use karmada_api::work::{ResourceBinding, ResourceBindingSpec, Work};
use karmada_api::{Binding as _, ObjectMeta, annotations, labels, names};
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::{Map, Value};

use crate::binding::{ForeignOwner, check_owner, merge, owner, reference};
use crate::work::work_of_its_own;

/// Whether the service is to be reachable from other clusters, not only from outside.
pub fn is_cross_cluster(service: &MultiClusterService) -> bool {
    service.spec.types.contains(&ExposureType::CrossCluster)
}

/// The clusters a list names; all there are if it names none.
pub fn clusters_of(
    named: &[ClusterSelector],
    all: impl FnOnce() -> BTreeSet<String>,
) -> BTreeSet<String> {
    if named.is_empty() {
        return all();
    }
    named.iter().map(|cluster| cluster.name.clone()).collect()
}

/// The Work that tells who collects slices in a provider that those of this service are wanted. It
/// is never sent to the member.
pub fn service_work(service: &Value, provider: &str, existing: Option<&Work>) -> Work {
    let mut work = work_of_its_own(service.clone(), service.uid(), provider, existing);
    work.metadata.finalizers.clear();
    work.spec.suspend_dispatching = Some(true);
    let id = service.label(labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID).unwrap_or_default();
    for (key, value) in [
        (labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID, id),
        (labels::MULTI_CLUSTER_SERVICE_NAMESPACE, service.namespace()),
        (labels::MULTI_CLUSTER_SERVICE_NAME, service.name()),
    ] {
        work.metadata.labels.insert(key.to_owned(), value.to_owned());
    }
    work
}

/// The binding that brings the service itself to providers and consumers.
pub fn service_binding(
    service: &MultiClusterService,
    template: &Value,
    clusters: BTreeSet<String>,
) -> ResourceBinding {
    let affinity =
        ClusterAffinity { cluster_names: clusters.into_iter().collect(), ..Default::default() };
    let mut binding = ResourceBinding::with_metadata(ObjectMeta {
        name: names::binding(template.kind(), template.name()),
        namespace: template.namespace().to_owned(),
        labels: Labels::from([
            (labels::BINDING_MANAGED_BY.to_owned(), labels::MULTI_CLUSTER_SERVICE.to_owned()),
            (labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID.to_owned(), id_of(service).to_owned()),
        ]),
        annotations: name_marks(service),
        owner_references: vec![owner(template)],
        finalizers: vec![ResourceBinding::FINALIZER.to_owned()],
        ..ObjectMeta::default()
    });
    binding.spec = ResourceBindingSpec {
        resource: reference(template),
        placement: Some(Placement { cluster_affinity: Some(affinity), ..Placement::default() }),
        conflict_resolution: ConflictResolution::Overwrite,
        ..ResourceBindingSpec::default()
    };
    binding
}

/// Brings an existing binding up to date; `None` if it says the same already. What scheduling wrote is
/// left alone, the claim of a policy goes.
pub fn update_binding(
    existing: &ResourceBinding,
    desired: &ResourceBinding,
) -> Result<Option<ResourceBinding>, ForeignOwner> {
    check_owner(existing, desired)?;
    let mut updated = existing.clone();
    let metadata = &mut updated.metadata;
    for (_, key) in POLICY_MARKS {
        metadata.labels.remove(key);
        metadata.annotations.remove(key);
    }
    merge(&mut metadata.labels, &desired.metadata.labels);
    merge(&mut metadata.annotations, &desired.metadata.annotations);
    metadata.owner_references.clone_from(&desired.metadata.owner_references);
    for finalizer in &desired.metadata.finalizers {
        if !metadata.finalizers.contains(finalizer) {
            metadata.finalizers.push(finalizer.clone());
        }
    }
    updated.spec.resource = desired.spec.resource.clone();
    updated.spec.placement.clone_from(&desired.spec.placement);
    updated.spec.conflict_resolution = desired.spec.conflict_resolution.clone();
    Ok((updated != *existing).then_some(updated))
}

/// The merge patch by which a MultiClusterService takes the service, from a policy if need be; `None`
/// if it has it already. It is refused when the service has changed meanwhile.
pub fn claim_patch(template: &Value, service: &MultiClusterService) -> Option<Value> {
    let [namespace, name] = name_marks_of(service);
    let wanted = [
        ("labels", labels::CLAIMED_BY, labels::MULTI_CLUSTER_SERVICE),
        ("labels", labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID, id_of(service)),
        ("annotations", namespace.0, namespace.1),
        ("annotations", name.0, name.1),
    ];
    let mut marks = Marks::of(template);
    POLICY_MARKS.iter().for_each(|(map, key)| marks.remove(map, key));
    wanted.iter().for_each(|(map, key, value)| marks.set(map, key, value));
    marks.patch()
}

/// The merge patch that takes the marks of a MultiClusterService off the service or its binding; `None`
/// if it carries none.
pub fn release_patch(object: &Value) -> Option<Value> {
    let mut marks = Marks::of(object);
    for key in [labels::CLAIMED_BY, labels::BINDING_MANAGED_BY] {
        if object.label(key) == Some(labels::MULTI_CLUSTER_SERVICE) {
            marks.remove("labels", key);
        }
    }
    marks.remove("labels", labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID);
    marks.remove("annotations", annotations::MULTI_CLUSTER_SERVICE_NAMESPACE);
    marks.remove("annotations", annotations::MULTI_CLUSTER_SERVICE_NAME);
    marks.patch()
}

/// What policies write on what they hold.
const POLICY_MARKS: [(&str, &str); 5] = [
    ("labels", labels::PROPAGATION_POLICY_PERMANENT_ID),
    ("labels", labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID),
    ("annotations", annotations::PROPAGATION_POLICY_NAMESPACE),
    ("annotations", annotations::PROPAGATION_POLICY_NAME),
    ("annotations", annotations::CLUSTER_PROPAGATION_POLICY_NAME),
];

fn id_of(service: &MultiClusterService) -> &str {
    let id = service.metadata.labels.get(labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID);
    id.map_or("", String::as_str)
}

fn name_marks_of(service: &MultiClusterService) -> [(&'static str, &str); 2] {
    [
        (annotations::MULTI_CLUSTER_SERVICE_NAMESPACE, &*service.metadata.namespace),
        (annotations::MULTI_CLUSTER_SERVICE_NAME, &*service.metadata.name),
    ]
}

fn name_marks(service: &MultiClusterService) -> Labels {
    name_marks_of(service).map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

/// A merge patch of labels and annotations that says nothing the object says already.
struct Marks<'a> {
    object: &'a Value,
    patch: Option<Value>,
}

impl<'a> Marks<'a> {
    fn of(object: &'a Value) -> Self {
        Self { object, patch: None }
    }

    fn set(&mut self, map: &str, key: &str, value: &str) {
        if self.object.str_at(&["metadata", map, key]) != Some(value) {
            self.change(map, key, value.into());
        }
    }

    fn remove(&mut self, map: &str, key: &str) {
        if self.object.at(&["metadata", map, key]).is_some() {
            self.change(map, key, Value::Null);
        }
    }

    fn change(&mut self, map: &str, key: &str, value: Value) {
        let patch = self.patch.get_or_insert_with(|| {
            let mut patch = Value::Object(Map::new());
            patch.set(&["metadata", "resourceVersion"], self.object.resource_version());
            patch
        });
        patch.set(&["metadata", map, key], value);
    }

    fn patch(self) -> Option<Value> {
        self.patch
    }
}

#[cfg(test)]
mod tests {
    use karmada_apimachinery::json;
    use karmada_apimachinery::patch::merge;

    use super::*;

    fn service() -> MultiClusterService {
        karmada_apimachinery::from_value(json!({
            "apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
            "metadata": {"name": "web", "namespace": "ns", "uid": "m", "labels": {
                labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID: "id"}},
            "spec": {"types": ["CrossCluster"]},
        }))
        .unwrap()
    }

    fn template(marks: Value) -> Value {
        let mut template = json!({"apiVersion": "v1", "kind": "Service", "metadata": {
            "name": "web", "namespace": "ns", "uid": "u", "resourceVersion": "7"}});
        for (map, entries) in marks.as_object().into_iter().flatten() {
            template.set(&["metadata", map.as_str()], entries.clone());
        }
        template
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_list_that_names_no_cluster_means_all() {
        let named = |names: &[&str]| -> Vec<ClusterSelector> {
            names.iter().map(|name| ClusterSelector { name: (*name).to_owned() }).collect()
        };
        let all = || set(&["m1", "m2"]);
        assert_eq!(clusters_of(&named(&[]), all), set(&["m1", "m2"]));
        assert_eq!(clusters_of(&named(&["m2", "m9"]), all), set(&["m2", "m9"]));
    }

    #[test]
    fn the_service_is_taken_from_whoever_held_it_and_taken_once() {
        let own = json!({
            "labels": {"app": "web", labels::CLAIMED_BY: "MultiClusterService",
                labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID: "id"},
            "annotations": {annotations::MULTI_CLUSTER_SERVICE_NAMESPACE: "ns",
                annotations::MULTI_CLUSTER_SERVICE_NAME: "web"},
        });
        let of_policy = json!({
            "labels": {"app": "web", labels::PROPAGATION_POLICY_PERMANENT_ID: "p"},
            "annotations": {annotations::PROPAGATION_POLICY_NAMESPACE: "ns",
                annotations::PROPAGATION_POLICY_NAME: "pp"},
        });
        let of_cluster_policy = json!({
            "labels": {"app": "web", labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID: "p"},
            "annotations": {annotations::CLUSTER_PROPAGATION_POLICY_NAME: "cpp"},
        });
        let bare = json!({"labels": {"app": "web"}});
        for before in [of_policy, of_cluster_policy, bare] {
            let before = template(before);
            let patch = claim_patch(&before, &service()).unwrap();
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            let after = merge::apply(&before, &patch).unwrap();
            assert_eq!(after, template(own.clone()), "{patch}");
            assert_eq!(claim_patch(&after, &service()), None);
        }
    }

    #[test]
    fn what_is_released_keeps_what_others_wrote() {
        let cases = [
            (
                json!({"labels": {"app": "web", labels::CLAIMED_BY: "MultiClusterService",
                    labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID: "id"},
                    "annotations": {annotations::MULTI_CLUSTER_SERVICE_NAMESPACE: "ns", "own": "1"}}),
                json!({"labels": {"app": "web"}, "annotations": {"own": "1"}}),
            ),
            (
                json!({"labels": {labels::BINDING_MANAGED_BY: "MultiClusterService", "a": "b"}}),
                json!({"labels": {"a": "b"}}),
            ),
        ];
        for (before, after) in cases {
            let before = template(before);
            let patch = release_patch(&before).unwrap();
            assert_eq!(merge::apply(&before, &patch).unwrap(), template(after));
        }
        for left_alone in [json!({}), json!({"labels": {labels::CLAIMED_BY: "somebody"}})] {
            assert_eq!(release_patch(&template(left_alone)), None);
        }
    }

    #[test]
    fn the_binding_goes_where_provider_and_consumers_are_and_says_so_once() {
        let binding = service_binding(&service(), &template(json!({})), set(&["m2", "m1"]));
        let shown = karmada_apimachinery::to_value(&binding).unwrap();
        assert_eq!(shown.name(), "web-service");
        assert_eq!(
            shown["spec"]["placement"],
            json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}})
        );
        assert_eq!(shown["spec"]["conflictResolution"], "Overwrite");
        assert_eq!(shown.label(labels::BINDING_MANAGED_BY), Some("MultiClusterService"));
        let mut placed = binding.clone();
        placed.spec.clusters = karmada_apimachinery::from_value(json!([{"name": "m1"}])).unwrap();
        assert_eq!(update_binding(&placed, &binding), Ok(None));
        // One that a policy made.
        placed.metadata.labels.clear();
        let policy = labels::PROPAGATION_POLICY_PERMANENT_ID.to_owned();
        placed.metadata.labels.insert(policy.clone(), "p".to_owned());
        let taken = update_binding(&placed, &binding).unwrap().unwrap();
        assert!(!taken.metadata.labels.contains_key(&policy));
        assert_eq!(taken.spec.clusters, placed.spec.clusters);
        let mut of_another = placed.clone();
        of_another.metadata.owner_references[0].uid = "gone".to_owned();
        assert_eq!(update_binding(&of_another, &binding).unwrap_err().uid, "gone");
    }

    #[test]
    fn providers_get_a_work_that_is_never_sent() {
        let object = karmada_apimachinery::to_value(service()).unwrap();
        let work = service_work(&object, "m1", None);
        let shown = karmada_apimachinery::to_value(&work).unwrap();
        assert_eq!(
            shown["metadata"],
            json!({
                "name": names::work("MultiClusterService", "web", "ns"), "namespace": "karmada-es-m1",
                "labels": {
                    "multiclusterservice.karmada.io/permanent-id": "id",
                    "multiclusterservice.karmada.io/namespace": "ns",
                    "multiclusterservice.karmada.io/name": "web",
                },
            })
        );
        assert_eq!(shown["spec"]["suspendDispatching"], true);
    }
}

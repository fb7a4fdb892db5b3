//! What a binding becomes in each cluster, case by case.

use super::*;
use karmada_api::cluster::Cluster;
use karmada_api::policy::OverridePolicy;
use karmada_api::work::ResourceBinding;

use crate::overrides::OverrideIndex;

fn cluster(name: &str) -> Cluster {
    karmada_apimachinery::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn binding(spec: Value) -> ResourceBinding {
    let mut object = json!({
        "metadata": {"name": "web-deployment", "namespace": "ns", "labels": {labels::RESOURCE_BINDING_PERMANENT_ID: "rb"}},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "ns"}},
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    karmada_apimachinery::from_value(object).unwrap()
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 2, "resourceVersion": "9",
                     "managedFields": [{}], "labels": {"app": "web"}},
        "spec": {"replicas": 6},
        "status": {"replicas": 6},
    })
}

fn set_replicas(mut object: Value, replicas: i64) -> Result<Value, String> {
    object.set(&["spec", "replicas"], replicas);
    Ok(object)
}

#[test]
fn clusters_that_share_a_rendering_get_what_each_would_get_alone() {
    let targets = [("m1", 2), ("m2", 2), ("m3", 3), ("m4", 2)]
        .map(|(name, replicas)| json!({"name": name, "replicas": replicas}));
    let binding = binding(json!({"replicas": 9, "clusters": targets}));
    let policy: OverridePolicy = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "op", "namespace": "ns"},
        "spec": {"overrideRules": [
            {"overriders": {"labelsOverrider": [{"operator": "add", "value": {"tier": "gold"}}]}},
            {"targetCluster": {"clusterNames": ["m2"]},
             "overriders": {"plaintext": [{"path": "/spec/paused", "operator": "add", "value": true}]}},
        ]},
    }))
    .unwrap();
    let mut index = OverrideIndex::default();
    index.insert(&policy);
    let template = deployment();
    let overrides = Overrides::find(&OverrideIndex::default(), &index, &template);
    let renderer = || Renderer::new(&template, &binding, &overrides, Some(&set_replicas), false);
    let shared = renderer();
    for target in &binding.spec.clusters {
        let cluster = cluster(&target.name);
        let work = shared.render(target, &cluster, None, None).unwrap();
        assert_eq!(work, renderer().render(target, &cluster, None, None).unwrap());
        let manifest = &work.spec.workload.manifests[0];
        assert_eq!(manifest.bool_at(&["spec", "paused"]), (target.name == "m2").then_some(true));
        assert_eq!(manifest.i64_at(&["spec", "replicas"]), Some(i64::from(target.replicas)));
    }
    assert_eq!(shared.bodies.borrow().len(), 3);
}

// Example: I33, as the members see it
#[test]
fn a_failing_edit_leaves_its_cluster_without_a_work_and_the_others_untouched() {
    let binding = binding(json!({"clusters": [{"name": "m1"}, {"name": "m2"}]}));
    let policy: OverridePolicy = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "op", "namespace": "ns"},
        "spec": {"overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": [
            {"path": "/spec/replicas", "operator": "replace", "value": 2},
            {"path": "/spec/missing", "operator": "remove"}]}}]},
    }))
    .unwrap();
    let mut index = OverrideIndex::default();
    index.insert(&policy);
    let template = deployment();
    let overrides = Overrides::find(&OverrideIndex::default(), &index, &template);
    let renderer = Renderer::new(&template, &binding, &overrides, None, false);
    let work = |target: &TargetCluster| renderer.render(target, &cluster(&target.name), None, None);
    // Twice, because renderings are shared: a failed one must not be kept.
    for _ in 0..2 {
        let [first, second] = &binding.spec.clusters[..] else { panic!("two targets") };
        assert!(
            matches!(work(first), Err(RenderError::Override { cluster, .. }) if cluster == "m1")
        );
        let manifest = &work(second).unwrap().spec.workload.manifests[0];
        assert_eq!(manifest["spec"], template["spec"]);
    }
}

fn rendered(
    binding: &ResourceBinding,
    template: &Value,
    overriders: Value,
) -> Result<Vec<Work>, RenderError> {
    let policy: OverridePolicy = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "op", "namespace": "ns"},
        "spec": {"overrideRules": [
            {"targetCluster": {"clusterNames": ["m1"]}, "overriders": overriders}]},
    }))
    .unwrap();
    let mut index = OverrideIndex::default();
    index.insert(&policy);
    let overrides = Overrides::find(&OverrideIndex::default(), &index, template);
    let renderer = Renderer::new(template, binding, &overrides, None, false);
    let work = |target: &TargetCluster| renderer.render(target, &cluster(&target.name), None, None);
    binding.spec.clusters.iter().map(work).collect()
}

#[test]
fn an_override_decides_how_a_conflict_is_resolved_in_its_cluster() {
    let key = annotations::CONFLICT_RESOLUTION;
    let mut marked = deployment();
    marked.set(&["metadata", "annotations", key], "overwrite");
    let edit = |operator: &str, value: &str| json!({"annotationsOverrider": [{"operator": operator, "value": {key: value}}]});
    for (template, overriders, expected) in [
        (deployment(), edit("add", "overwrite"), ["overwrite", "abort"]),
        (deployment(), edit("add", "nonsense"), ["abort", "abort"]),
        (marked.clone(), edit("replace", "abort"), ["abort", "overwrite"]),
        (marked, edit("remove", ""), ["abort", "overwrite"]),
    ] {
        let binding = binding(json!({"clusters": [{"name": "m1"}, {"name": "m2"}]}));
        let works = rendered(&binding, &template, overriders.clone()).unwrap();
        for (work, expected) in works.iter().zip(expected) {
            let manifest = &work.spec.workload.manifests[0];
            assert_eq!(manifest.annotation(key), Some(expected), "{overriders}");
            assert_eq!(work.metadata.annotations[key], expected, "{overriders}");
        }
    }
}

#[test]
fn overrides_do_not_see_the_marks_of_the_binding() {
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap",
                      "metadata": {"name": "c", "namespace": "ns", "generation": 1}});
    let add = |path: &str, value: Value| json!({"plaintext": [{"path": path, "operator": "add", "value": value}]});
    let binding = binding(json!({"clusters": [{"name": "m1"}]}));
    for map in ["labels", "annotations"] {
        let below = rendered(&binding, &bare, add(&format!("/metadata/{map}/a"), "b".into()));
        assert!(matches!(below, Err(RenderError::Override { .. })), "{map}");
        let whole = add(&format!("/metadata/{map}"), json!({"a": "b"}));
        let works = rendered(&binding, &bare, whole).unwrap();
        let metadata = &works[0].spec.workload.manifests[0]["metadata"];
        assert_eq!(metadata[map]["a"], "b");
        assert_eq!(metadata["labels"][ResourceBinding::PERMANENT_ID], "rb");
        assert_eq!(metadata["annotations"][ResourceBinding::NAME_ANNOTATION], "web-deployment");
    }
}

fn render(
    binding: &ResourceBinding,
    template: &Value,
    name: &str,
    existing: Option<&Work>,
) -> Work {
    let overrides = Overrides::default();
    let renderer = Renderer::new(template, binding, &overrides, Some(&set_replicas), true);
    let target = targets(&binding.spec).into_iter().find(|target| target.name == name).unwrap();
    renderer.render(target, &cluster(name), existing, None).unwrap()
}

#[test]
fn a_work_carries_the_template_with_the_clusters_replicas_and_our_marks() {
    let binding = binding(
        json!({"replicas": 6, "clusters": [{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}]}),
    );
    let work = render(&binding, &deployment(), "m1", None);
    let shown = karmada_apimachinery::to_value(&work).unwrap();
    assert_eq!(
        shown["metadata"],
        json!({
            "name": names::work("Deployment", "web", "ns"), "namespace": "karmada-es-m1",
            "finalizers": ["karmada.io/execution-controller"],
            "labels": {"resourcebinding.karmada.io/permanent-id": "rb"},
            "annotations": {
                "resourcebinding.karmada.io/name": "web-deployment",
                "resourcebinding.karmada.io/namespace": "ns",
                "work.karmada.io/conflict-resolution": "abort",
            },
        })
    );
    let manifest = &shown["spec"]["workload"]["manifests"][0];
    assert_eq!(manifest["spec"], json!({"replicas": 4}));
    assert_eq!(manifest.get("status"), None);
    assert_eq!(
        manifest["metadata"]["labels"],
        json!({
        "app": "web", "karmada.io/managed": "true", "resourcebinding.karmada.io/permanent-id": "rb"})
    );
    assert_eq!(manifest.annotation("resourcetemplate.karmada.io/generation"), Some("2"));
    assert_eq!(manifest.annotation("resourcetemplate.karmada.io/uid"), Some("u"));
    assert_eq!(shown["spec"]["suspendDispatching"], false);
}

#[test]
fn rendering_again_writes_nothing() {
    let binding = binding(json!({"replicas": 6, "clusters": [{"name": "m1", "replicas": 4}]}));
    let mut existing = render(&binding, &deployment(), "m1", None);
    existing.metadata.labels.insert(labels::WORK_PERMANENT_ID.into(), "wk".into());
    let stamped = render(&binding, &deployment(), "m1", Some(&existing));
    let Change::Update(existing) = reconcile(Some(&existing), stamped) else { panic!("stamped") };
    let again = render(&binding, &deployment(), "m1", Some(&existing));
    assert_eq!(reconcile(Some(&existing), again), Change::Nothing);
    let mut leaving = (*existing).clone();
    leaving.metadata.deletion_timestamp =
        karmada_apimachinery::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let again = render(&binding, &deployment(), "m1", Some(&leaving));
    assert_eq!(reconcile(Some(&leaving), again), Change::BeingDeleted);
}

#[test]
fn a_record_of_overrides_that_no_longer_apply_is_removed() {
    let binding = binding(json!({"clusters": [{"name": "m1"}]}));
    let mut existing = render(&binding, &deployment(), "m1", None);
    existing.metadata.annotations.insert(annotations::APPLIED_OVERRIDES.into(), "[]".into());
    let desired = render(&binding, &deployment(), "m1", Some(&existing));
    let Change::Update(updated) = reconcile(Some(&existing), desired) else {
        panic!("stale record")
    };
    assert_eq!(updated.metadata.annotations.get(annotations::APPLIED_OVERRIDES), None);
}

// Example: I5
#[test]
fn completions_of_a_divided_job_follow_the_replicas() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns"},
                     "spec": {"parallelism": 3, "completions": 9}});
    let spec = binding(json!({
        "replicas": 3, "clusters": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}],
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
    }));
    assert_eq!(divide_completions(&job, &spec.spec), [("a".to_owned(), 6), ("b".to_owned(), 3)]);
    // A Job that is placed as a whole, by its components, completes where it is.
    let whole = binding(json!({
        "components": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}],
        "clusters": [{"name": "m1", "components": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 1}]}],
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}},
    }));
    assert_eq!(divide_completions(&job, &whole.spec), []);
}

#[test]
fn targets_and_leftovers_follow_requirers_and_evictions() {
    let spec = binding(json!({
        "clusters": [{"name": "m1", "replicas": 2}],
        "requiredBy": [{"name": "x", "namespace": "ns", "clusters": [{"name": "m1", "replicas": 9}, {"name": "m2"}]}],
        "gracefulEvictionTasks": [
            {"fromCluster": "m3", "reason": "R", "producer": "p", "purgeMode": "Gracefully"},
            {"fromCluster": "m4", "reason": "R", "producer": "p", "purgeMode": "Directly"},
        ],
    }))
    .spec;
    let named: Vec<(&str, i32)> =
        targets(&spec).iter().map(|t| (t.name.as_str(), t.replicas)).collect();
    assert_eq!(named, [("m1", 2), ("m2", 0)]);
    assert_eq!(kept_clusters(&spec), BTreeSet::from(["m1", "m2", "m3"]));
    assert!(waits_for_purge(&spec, ["m4"].into_iter()));
    assert!(!waits_for_purge(&spec, ["m3"].into_iter()));
}

#[test]
fn saved_state_is_handed_over_when_one_cluster_alone_gets_the_workload() {
    let (to, here) = (json!([{"name": "m2"}]), json!([{"name": "m1"}, {"name": "m2"}]));
    let requirer =
        |clusters: &Value| json!([{"name": "x", "namespace": "ns", "clusters": clusters}]);
    for (clusters, required_by, purge_mode, before, is_handed_over) in [
        (&to, json!([]), "Directly", "m1", true),
        (&to, requirer(&to), "Directly", "m1", true),
        (&json!([]), requirer(&to), "Directly", "m1", true),
        (&to, requirer(&here), "Directly", "m1", false),
        (&here, json!([]), "Directly", "m1", false),
        (&to, json!([]), "Gracefully", "m1", false),
        (&to, json!([]), "Directly", "m2", false),
    ] {
        let binding = binding(json!({
            "clusters": clusters, "requiredBy": required_by,
            "gracefulEvictionTasks": [{
                "fromCluster": "m1", "reason": "R", "producer": "p", "purgeMode": purge_mode,
                "preservedLabelState": {"state": "7"}, "clustersBeforeFailover": [before]}],
        }));
        let work = render(&binding, &deployment(), "m2", None);
        let state = work.spec.workload.manifests[0].str_at(&["metadata", "labels", "state"]);
        assert_eq!(state, is_handed_over.then_some("7"), "{clusters} {required_by} {purge_mode}");
    }
}

#[test]
fn delivery_is_suspended_to_all_or_to_named_clusters() {
    let suspended = |suspension: Value| {
        let spec = binding(json!({"suspension": suspension})).spec;
        ["m1", "m2"].map(|cluster| spec.is_dispatching_suspended(cluster))
    };
    assert_eq!(suspended(json!({"dispatching": true})), [true, true]);
    let on_one = json!({"dispatchingOnClusters": {"clusterNames": ["m1"]}});
    assert_eq!(suspended(on_one), [true, false]);
    assert_eq!(suspended(json!({"scheduling": true})), [false, false]);
}

#[test]
fn the_template_may_overrule_the_policy_on_conflicts() {
    let overwrite = binding(json!({"conflictResolution": "Overwrite"})).spec;
    let abort = binding(json!({"conflictResolution": "Abort"})).spec;
    let says = |value: &str| json!({"metadata": {"annotations": {"work.karmada.io/conflict-resolution": value}}});
    for (template, spec, expected) in [
        (says("abort"), &overwrite, "abort"),
        (says("overwrite"), &abort, "overwrite"),
        (says("nonsense"), &overwrite, "overwrite"),
        (json!({}), &abort, "abort"),
    ] {
        assert_eq!(conflict_resolution(&template, spec), expected);
    }
}

//! What goes through the types comes out as the original would send it.

use karmada_api::autoscaling::FederatedHPA;
use karmada_api::cluster::Cluster;
use karmada_api::policy::{OverridePolicy, PropagationPolicy};
use karmada_api::work::{self, ResourceBinding, Work};
use karmada_apimachinery::{Value, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn through<T: Serialize + DeserializeOwned>(value: Value) -> Value {
    karmada_apimachinery::to_value(karmada_apimachinery::from_value::<T>(value).unwrap()).unwrap()
}

#[test]
fn structs_without_content_appear_empty_and_zeros_vanish() {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "a"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "name": ""}], "propagateDeps": false},
    });
    assert_eq!(
        through::<PropagationPolicy>(policy)["spec"],
        json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod"}], "placement": {}})
    );
    let work = through::<Work>(json!({"metadata": {}, "spec": {}}));
    assert_eq!(work, json!({"metadata": {}, "spec": {"workload": {}}, "status": {}}));
    let overriding = through::<OverridePolicy>(json!({"spec": {"overrideRules": [{}]}}));
    assert_eq!(
        overriding["spec"],
        json!({"overrideRules": [{"overriders": {}}], "overriders": {}})
    );
}

#[test]
fn metrics_that_were_never_read_are_null() {
    let scaler = through::<FederatedHPA>(json!({"metadata": {}, "spec": {}}));
    assert_eq!(scaler["status"], json!({"desiredReplicas": 0, "currentMetrics": null}));
    let read = json!({"status": {"desiredReplicas": 1, "currentMetrics": []}});
    assert_eq!(through::<FederatedHPA>(read)["status"]["currentMetrics"], json!([]));
}

#[test]
fn pointers_keep_their_zero() {
    let binding = json!({
        "metadata": {"name": "a"},
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "Pod", "name": "p"},
            "gracefulEvictionTasks": [{"fromCluster": "m", "reason": "R", "producer": "p", "replicas": 0, "suppressDeletion": false}],
            "suspension": {"dispatching": false, "scheduling": true},
        },
        "status": {"schedulerObservingAffinityName": "first", "lastScheduledTime": "2020-01-01T00:00:00Z"},
    });
    assert_eq!(through::<ResourceBinding>(binding.clone()), binding);
}

#[test]
fn manifests_and_reported_statuses_keep_everything() {
    let work = json!({
        "metadata": {"name": "w"},
        "spec": {"workload": {"manifests": [{"apiVersion": "x/v1", "kind": "X", "spec": {"a": null, "b": [1, {"c": 0}]}}]}},
        "status": {"manifestStatuses": [{
            "identifier": {"ordinal": 0, "version": "v1", "kind": "X", "resource": "", "name": "n"},
            "status": {"anything": {"goes": null}}, "health": "Healthy",
        }]},
    });
    assert_eq!(through::<Work>(work.clone()), work);
}

#[test]
fn clusters_keep_unusual_spellings() {
    let cluster = json!({
        "metadata": {"name": "m"},
        "spec": {"syncMode": "Push", "insecureSkipTLSVerification": true, "proxyURL": "http://p", "resourceModels": [
            {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "1"}]}
        ]},
        "status": {"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}]},
    });
    assert_eq!(through::<Cluster>(cluster.clone()), cluster);
}

#[test]
fn old_bindings_keep_what_they_know_and_lose_the_rest() {
    let new: ResourceBinding = karmada_apimachinery::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "a", "labels": {"x": "y"}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u"},
            "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}, "namespace": "ns"},
            "clusters": [{"name": "m1", "replicas": 3, "components": [{"name": "c", "replicas": 1}]}],
            "propagateDeps": true,
        },
        "status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true, "health": "Healthy"}]},
    }))
    .unwrap();
    let old = work::v1alpha1::ResourceBinding::from(&new);
    assert_eq!(
        karmada_apimachinery::to_value(&old).unwrap(),
        json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "ResourceBinding",
            "metadata": {"name": "a", "labels": {"x": "y"}},
            "spec": {
                "resource": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "d",
                    "replicas": 3, "resourcePerReplicas": {"cpu": "1"},
                },
                "clusters": [{"name": "m1", "replicas": 3}],
            },
            "status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true}]},
        })
    );
    let back = ResourceBinding::from(&old);
    assert_eq!(back.api_version, "work.karmada.io/v1alpha2");
    assert_eq!(back.spec.replicas, 3);
    assert!(!back.spec.propagate_deps);
    assert_eq!(back.spec.resource.uid, "");
}

//! Stored objects of the original go through our types without losing or gaining anything.

use karmada_api::apps::WorkloadRebalancer;
use karmada_api::autoscaling::{CronFederatedHPA, FederatedHPA};
use karmada_api::cluster::Cluster;
use karmada_api::config::{
    ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration,
};
use karmada_api::meta::Kind;
use karmada_api::multicluster::{ServiceExport, ServiceImport};
use karmada_api::networking::{MultiClusterIngress, MultiClusterService};
use karmada_api::policy::{
    ClusterOverridePolicy, ClusterPropagationPolicy, ClusterTaintPolicy, FederatedResourceQuota,
    OverridePolicy, PropagationPolicy,
};
use karmada_api::remedy::Remedy;
use karmada_api::search::ResourceRegistry;
use karmada_api::work::{ClusterResourceBinding, ResourceBinding, Work, v1alpha1};
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt;

use crate::replay::cases;

/// The object after a round trip, if its kind is one of those listed.
macro_rules! through {
    ($object:expr, $($kind:ty),* $(,)?) => {
        match ($object.api_version().to_owned(), $object.kind()) {
            $( (version, kind) if version == <$kind>::api_version() && kind == <$kind>::KIND => {
                let typed: $kind = karmada_apimachinery::from_value($object.clone()).unwrap();
                Some(karmada_apimachinery::to_value(typed).unwrap())
            } )*
            _ => None,
        }
    };
}

fn round_trip(object: &Value) -> Option<Value> {
    through!(
        object,
        PropagationPolicy,
        ClusterPropagationPolicy,
        OverridePolicy,
        ClusterOverridePolicy,
        FederatedResourceQuota,
        ClusterTaintPolicy,
        ResourceBinding,
        ClusterResourceBinding,
        Work,
        Cluster,
        ResourceInterpreterCustomization,
        ResourceInterpreterWebhookConfiguration,
        FederatedHPA,
        CronFederatedHPA,
        MultiClusterService,
        MultiClusterIngress,
        WorkloadRebalancer,
        Remedy,
        ServiceExport,
        ServiceImport,
        ResourceRegistry,
        v1alpha1::ResourceBinding,
        v1alpha1::ClusterResourceBinding,
    )
}

/// Drops what only says that nothing is there: nulls, zeros and structs of such, which kinds without a
/// mutating hook keep as they were sent and which the types leave out or write as `{}`.
fn essence(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), essence(value)))
            .filter(|(_, value)| !is_nothing(value))
            .collect(),
        Value::Array(items) => items.iter().map(essence).collect(),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Kinds that the original itself reads into its types and writes again, on every write.
const WRITTEN_ANEW: &[&str] = &[
    "PropagationPolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    "Work",
    "FederatedHPA",
    "MultiClusterService",
    "Cluster",
    "ResourceRegistry",
];

/// What an API server makes of an object: status is written elsewhere, nulls are dropped.
fn stored(mut object: Value) -> Value {
    if object.get("spec").is_some() && !["Cluster", "ResourceRegistry"].contains(&object.kind()) {
        object.as_object_mut().unwrap().remove("status");
    }
    without_nulls(object)
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[test]
fn stored_objects_survive_the_types() {
    let (mut seen, mut exact) = (0, 0);
    for case in cases() {
        for step in case.list_at(&["steps"]) {
            let body = step["response"]["body"].to_string();
            let body: Value =
                serde_json::from_str(&body.replace("\"<time>\"", "\"2026-01-02T03:04:05Z\""))
                    .unwrap();
            let whole = body.get("metadata").is_some() && body.kind() != "Status";
            let Some(back) = round_trip(&body).filter(|_| whole) else { continue };
            seen += 1;
            if WRITTEN_ANEW.contains(&body.kind()) {
                assert_eq!(stored(back.clone()), stored(body.clone()), "{}", case["id"]);
                exact += 1;
            }
            assert_eq!(essence(&back), essence(&body), "{}", case["id"]);
        }
    }
    assert!(seen > 150 && exact > 100, "only {seen} objects were seen, {exact} to the last field");
}

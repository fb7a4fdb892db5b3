//! Whole decisions: the worked examples of the behaviour specification, and laws over random fleets.

mod decisions;
mod examples;
mod laws;
mod reference;
mod sets;

use karmada_api::cluster::Cluster;
use karmada_api::wire::Time;
use karmada_api::work::{ResourceBindingSpec, ResourceBindingStatus, TargetCluster};
use karmada_apimachinery::{Value, json};

use crate::reason::Failure;
use crate::snapshot::{ClusterInfo, Snapshot};
use crate::{Config, Estimates, Outcome, Peers, Subject, schedule};

/// A cluster that serves Deployments, with room for as many pods as `pods` says.
fn cluster(name: &str, pods: i64) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "resourceSummary": {"allocatable": {"pods": pods.to_string()}},
        },
    })
}

fn info(cluster: &Value) -> ClusterInfo {
    let cluster: Cluster = karmada_apimachinery::from_value(cluster.clone()).unwrap();
    ClusterInfo::from_cluster(&cluster)
}

fn snapshot(clusters: &[Value]) -> Snapshot {
    clusters.iter().map(info).collect()
}

/// A Deployment to place; `previous` is where it runs.
fn binding(replicas: i32, placement: Value, previous: &[(&str, i32)]) -> Value {
    let clusters: Vec<Value> = previous
        .iter()
        .map(|(name, replicas)| json!({"name": name, "replicas": replicas}))
        .collect();
    json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "web"},
        "replicas": replicas,
        "placement": placement,
        "clusters": clusters,
    })
}

fn divided(preference: &str) -> Value {
    match preference {
        "dynamic" => json!({"replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }}),
        "aggregated" => json!({"replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Aggregated",
        }}),
        other => panic!("no preference {other}"),
    }
}

fn static_weights(weights: &[(impl AsRef<str>, i64)]) -> Value {
    let rule = |(name, weight): &(_, i64)| {
        let name: &str = AsRef::as_ref(name);
        json!({"targetCluster": {"clusterNames": [name]}, "weight": weight})
    };
    json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": weights.iter().map(rule).collect::<Vec<_>>()},
    }})
}

/// A binding of generation 1 that was never scheduled.
fn subject<'a>(
    spec: &'a ResourceBindingSpec,
    status: &'a ResourceBindingStatus,
    peers: &'a Peers,
) -> Subject<'a> {
    Subject {
        spec,
        status,
        generation: 1,
        deleting: false,
        applied_placement: None,
        peers,
        now: Time("1970-01-01T00:00:00Z".parse().unwrap()),
    }
}

fn run(binding: &Value, status: Value, snapshot: &Snapshot, config: &Config) -> Outcome {
    let spec: ResourceBindingSpec = karmada_apimachinery::from_value(binding.clone()).unwrap();
    let status: ResourceBindingStatus = karmada_apimachinery::from_value(status).unwrap();
    let peers = Peers::default();
    let subject = subject(&spec, &status, &peers);
    schedule(&subject, snapshot, &Estimates::default(), config).unwrap()
}

fn place(binding: &Value, snapshot: &Snapshot) -> Result<Vec<(String, i32)>, Failure> {
    let outcome = run(binding, json!({}), snapshot, &Config::default());
    outcome.result.map(|placed| pairs(&placed.clusters))
}

fn pairs(targets: &[TargetCluster]) -> Vec<(String, i32)> {
    targets.iter().map(|target| (target.name.clone(), target.replicas)).collect()
}

fn show(result: &Result<Vec<(String, i32)>, Failure>) -> String {
    match result {
        Ok(targets) => {
            let shown: Vec<String> =
                targets.iter().map(|(name, n)| format!("{name} {n}")).collect();
            shown.join(", ")
        }
        Err(failure) => format!("{}: {failure}", failure.condition_reason()),
    }
}

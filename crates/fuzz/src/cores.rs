//! Scheduling, overrides, interpretation and scripts.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use karmada_api::cluster::Cluster;
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::explain::Explanation;
use karmada_api::policy::{ClusterOverridePolicy, OverridePolicy};
use karmada_api::wire::Time;
use karmada_api::work::{AggregatedStatusItem, ResourceBindingSpec, ResourceBindingStatus};
use karmada_apimachinery::{Value, json};
use karmada_interpreter::lua::Limits;
use karmada_interpreter::{Gates, Interpreter};
use karmada_propagation::overrides::{OverrideIndex, Overrides};
use karmada_scheduler_core::resources::Part;
use karmada_scheduler_core::snapshot::{ClusterInfo, Snapshot, request_of};
use karmada_scheduler_core::{Config, Estimates, Peer, Peers, Subject, explain, trigger};
use serde::Deserialize;

#[derive(Deserialize, Default)]
#[serde(default)]
struct Scheduling {
    spec: ResourceBindingSpec,
    status: ResourceBindingStatus,
    clusters: Vec<Cluster>,
    applied: Option<String>,
    accurate: BTreeMap<String, i64>,
    assumed: BTreeMap<String, i32>,
    peers: Vec<Vec<String>>,
    gates: bool,
}

/// Decides, twice, and explains; nothing may differ and the explanation must fit a screen.
pub(crate) fn schedule(data: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Scheduling>(data) else { return };
    let snapshot: Snapshot = input.clusters.iter().map(ClusterInfo::from_cluster).collect();
    let peers: Vec<Peer> =
        input.peers.iter().map(|clusters| Peer { clusters: clusters.clone() }).collect();
    let peers = Peers { affinity: peers.clone(), anti_affinity: peers };
    let subject = Subject {
        spec: &input.spec,
        status: &input.status,
        generation: 1,
        deleting: false,
        applied_placement: input.applied.as_deref(),
        peers: &peers,
        now: Time(Timestamp::UNIX_EPOCH),
    };
    let request = input.spec.replica_requirements.as_ref();
    let request = request.map(|needs| request_of(&needs.resource_request)).unwrap_or_default();
    let assumed = input.assumed.into_iter().map(|(cluster, replicas)| {
        (cluster, vec![vec![Part { request: request.clone(), replicas: replicas.into() }]])
    });
    let estimates = Estimates { accurate: input.accurate, assumed: assumed.collect() };
    let config = Config {
        multiple_pod_templates: input.gates,
        workload_affinity: input.gates,
        propagate_empty_workloads: input.gates,
        spread_by_zone_and_provider: input.gates,
        ..Config::default()
    };
    let _ = trigger::decide(&subject, &snapshot, &config);
    let outcome = karmada_scheduler_core::schedule(&subject, &snapshot, &estimates, &config);
    let Some((explained, scheduling)) = explain(&subject, &snapshot, &estimates, &config, None)
    else {
        return;
    };
    assert_eq!(outcome.as_ref(), Some(&explained), "asking why changed the decision");
    let shown = Explanation { scheduling: Some(scheduling), ..Explanation::default() }.to_string();
    assert!(shown.lines().count() < 25, "more than a screen:\n{shown}");
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Overriding {
    object: Value,
    cluster: Cluster,
    namespaced: OverridePolicy,
    cluster_scoped: ClusterOverridePolicy,
}

/// Applies both policies to the object; what was applied can be written down.
pub(crate) fn overrides(data: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Overriding>(data) else { return };
    let (mut cluster_scoped, mut namespaced) = (OverrideIndex::default(), OverrideIndex::default());
    cluster_scoped.insert(&input.cluster_scoped);
    namespaced.insert(&input.namespaced);
    let overrides = Overrides::find(&cluster_scoped, &namespaced, &input.object);
    let cluster = ClusterInfo::from_cluster(&input.cluster);
    let (mut object, mut again) = (input.object.clone(), input.object);
    let mut trace = Vec::new();
    let applied = overrides.apply(&mut object, &cluster, Some(&mut trace));
    match (applied, overrides.apply(&mut again, &cluster, None)) {
        (Ok(applied), Ok(silent)) => {
            assert_eq!(applied, silent);
            assert_eq!(object, again, "asking why changed the result");
            drop((applied.cluster_scoped(), applied.namespaced()));
        }
        (Err(error), Err(_)) => assert!(error.to_string().contains("OverridePolicy")),
        _ => panic!("asking why changed the result"),
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Interpreting {
    object: Value,
    observed: Value,
    items: Vec<AggregatedStatusItem>,
    replicas: i64,
}

static NATIVE: LazyLock<Interpreter> =
    LazyLock::new(|| Interpreter::new(Gates { quota_estimate: true }, clock()));

fn clock() -> karmada_interpreter::Clock {
    Arc::new(|| Timestamp::UNIX_EPOCH)
}

/// Asks every question about the object; the answer is the same when asked again.
pub(crate) fn interpret(data: &[u8]) {
    let Ok(input) = serde_json::from_slice::<Interpreting>(data) else { return };
    let first = ask(&NATIVE, &input);
    assert_eq!(first, ask(&NATIVE, &input), "the second answer differs");
}

/// All answers as text, so that they can be compared.
fn ask(interpreter: &Interpreter, input: &Interpreting) -> Vec<String> {
    let object = &input.object;
    vec![
        format!("{:?}", interpreter.interpret_replica(object)),
        format!("{:?}", interpreter.interpret_component(object)),
        format!("{:?}", interpreter.revise_replica(object.clone(), input.replicas)),
        format!("{:?}", interpreter.retain(object.clone(), &input.observed)),
        format!("{:?}", interpreter.interpret_status(object)),
        format!("{:?}", interpreter.interpret_health(object)),
        format!("{:?}", interpreter.aggregate_status(object.clone(), &input.items)),
        format!("{:?}", interpreter.interpret_dependency(object)),
    ]
}

/// Runs the text as the script of every question, with little to spend.
pub(crate) fn lua(data: &[u8]) {
    let source = String::from_utf8_lossy(data);
    let rules: karmada_apimachinery::Map = [
        "retention",
        "replicaResource",
        "componentResource",
        "replicaRevision",
        "statusReflection",
        "statusAggregation",
        "healthInterpretation",
        "dependencyInterpretation",
    ]
    .iter()
    .map(|rule| ((*rule).to_owned(), json!({"luaScript": source})))
    .collect();
    let customization: ResourceInterpreterCustomization = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "any"},
        "spec": {"target": {"apiVersion": "example.io/v1", "kind": "Thing"}, "customizations": rules},
    }))
    .unwrap();
    let limits = Limits { fuel: 200_000, memory: 4 << 20 };
    let interpreter = Interpreter::new(Gates::default(), clock()).with_limits(limits);
    interpreter.set_customizations([&customization]);
    let object = json!({
        "apiVersion": "example.io/v1", "kind": "Thing",
        "metadata": {"name": "t", "namespace": "ns", "generation": 2, "labels": {}},
        "spec": {"replicas": 2, "items": [], "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}},
        "status": {"replicas": 2, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let item = json!({"clusterName": "m1", "applied": true, "status": {"replicas": 1}});
    let input = Interpreting {
        observed: object.clone(),
        object,
        items: vec![karmada_apimachinery::from_value(item).unwrap()],
        replicas: 3,
    };
    let _ = ask(&interpreter, &input);
}

//! The pure cores, one thread: scheduling decisions, policy lookups, rendering of Works, interpretation. Every row
//! says what one operation takes of the processor, how often the allocator was asked, and what the goal is.

use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::policy::{OverridePolicy, PropagationPolicy};
use karmada_api::wire::Time;
use karmada_api::work::{ResourceBinding, ResourceBindingSpec, ResourceBindingStatus};
use karmada_apimachinery::object::ObjectMutExt;
use karmada_apimachinery::{Value, json};
use karmada_interpreter::Interpreter;
use karmada_propagation::overrides::{OverrideIndex, Overrides};
use karmada_propagation::policies::PolicyIndex;
use karmada_propagation::selector::Head;
use karmada_propagation::work::{Renderer, targets};
use karmada_scheduler_core::snapshot::{ClusterInfo, Snapshot};
use karmada_scheduler_core::{Config, Estimates, Peers, Subject, explain, schedule};

use crate::allocations;
use crate::table::{self, peak_rss_mb, thread_time};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long each row is measured, in milliseconds
    #[arg(long, default_value_t = 500)]
    millis: u64,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let time = Duration::from_millis(args.millis);
    let mut rows = Vec::new();
    // The last row is there to be compared with the one before: cost grows with the clusters, not faster.
    for (clusters, goal) in [(100, "≥ 20,000/s"), (1000, "≥ 2,000/s"), (4000, "≥ 400/s")] {
        rows.extend(scheduling(clusters, goal, time)?);
    }
    rows.extend(growth(time)?);
    rows.push(claim_lookup(10_000, time)?);
    rows.push(rendering(time)?);
    rows.extend(interpreting(time)?);
    table::print(&["what", "per second", "µs each", "allocations each", "goal"], &rows);
    if let Some(peak) = peak_rss_mb() {
        println!("\npeak memory {peak:.0} MB, one thread");
    }
    Ok(())
}

/// Repeats an operation until the time is over and says what one took.
fn measure(what: String, goal: &str, time: Duration, mut operation: impl FnMut()) -> Vec<String> {
    operation();
    let (mut count, asked, started) = (0u32, allocations::count(), thread_time());
    let mut elapsed = Duration::ZERO;
    while elapsed < time {
        // Reading the clock costs as much as some of the operations.
        for _ in 0..64 {
            operation();
        }
        count += 64;
        elapsed = thread_time() - started;
    }
    let asked = allocations::count() - asked;
    vec![
        what,
        format!("{:.0}", f64::from(count) / elapsed.as_secs_f64()),
        format!("{:.1}", elapsed.as_secs_f64() * 1e6 / f64::from(count)),
        format!("{}", asked / u64::from(count)),
        goal.to_owned(),
    ]
}

fn fleet(count: usize, regions: usize) -> anyhow::Result<Snapshot> {
    let cluster = |index: usize| -> anyhow::Result<ClusterInfo> {
        let cluster: Cluster = karmada_apimachinery::from_value(json!({
            "metadata": {"name": format!("member-{index:04}"), "labels": {"env": "prod"}},
            "spec": {"region": format!("region-{}", index % regions), "provider": "p", "zones": ["z"]},
            "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "resourceSummary": {
                    "allocatable": {"cpu": "640", "memory": "2560Gi", "pods": "1100"},
                    "allocated": {"cpu": format!("{}", index % 200), "memory": "100Gi", "pods": format!("{}", index % 300)},
                },
            },
        }))?;
        Ok(ClusterInfo::from_cluster(&cluster))
    };
    (0..count).map(cluster).collect()
}

fn scheduling(clusters: usize, goal: &str, time: Duration) -> anyhow::Result<Vec<Vec<String>>> {
    let snapshot = fleet(clusters, 8)?;
    let dynamic = dynamic_weights();
    let duplicated = json!({"replicaSchedulingType": "Duplicated"});
    let aggregated =
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let spread = spread_over_regions();
    let cases = [
        ("dynamic weights", json!({"replicaScheduling": dynamic})),
        ("aggregated", json!({"replicaScheduling": aggregated})),
        ("duplicated", json!({"replicaScheduling": duplicated})),
        ("spread over regions", json!({"replicaScheduling": dynamic, "spreadConstraints": spread})),
    ];
    let mut rows = Vec::new();
    for (name, placement) in cases {
        let what = format!("schedule, {clusters} clusters, {name}");
        rows.extend(decide(&snapshot, placement, 500, (&what, goal), time)?);
    }
    Ok(rows)
}

fn dynamic_weights() -> Value {
    json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
           "weightPreference": {"dynamicWeight": "AvailableReplicas"}})
}

fn spread_over_regions() -> Value {
    json!([
        {"spreadByField": "region", "minGroups": 2, "maxGroups": 4},
        {"spreadByField": "cluster", "minGroups": 4, "maxGroups": 8},
    ])
}

/// What must not grow with replicas or explode with regions.
fn growth(time: Duration) -> anyhow::Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    let weights = json!({"replicaScheduling": dynamic_weights()});
    for replicas in [5_000, 50_000] {
        let what = format!("schedule, 100 clusters, dynamic weights, {replicas} replicas");
        let decided = decide(&fleet(100, 8)?, weights.clone(), replicas, (&what, ""), time)?;
        rows.extend(decided.into_iter().take(1));
    }
    let spread =
        json!({"replicaScheduling": dynamic_weights(), "spreadConstraints": spread_over_regions()});
    for regions in [16, 32, 64] {
        let what = format!("schedule, 1000 clusters, spread over {regions} regions");
        let decided = decide(&fleet(1000, regions)?, spread.clone(), 500, (&what, ""), time)?;
        rows.extend(decided.into_iter().take(1));
    }
    Ok(rows)
}

/// Times one decision, without and with its reasons.
fn decide(
    snapshot: &Snapshot,
    placement: Value,
    replicas: i64,
    (what, goal): (&str, &str),
    time: Duration,
) -> anyhow::Result<[Vec<String>; 2]> {
    let (status, peers) = (ResourceBindingStatus::default(), Peers::default());
    let (estimates, config) = (Estimates::default(), Config::default());
    let spec: ResourceBindingSpec = karmada_apimachinery::from_value(json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "web", "uid": "u"},
        "replicas": replicas,
        "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
        "placement": placement,
    }))?;
    let subject = Subject {
        spec: &spec,
        status: &status,
        generation: 1,
        deleting: false,
        applied_placement: None,
        peers: &peers,
        now: Time(jiff::Timestamp::UNIX_EPOCH),
    };
    let placed = schedule(&subject, snapshot, &estimates, &config);
    anyhow::ensure!(placed.is_some_and(|outcome| outcome.result.is_ok()), "{what} finds a place");
    Ok([
        measure(what.to_owned(), goal, time, || {
            std::hint::black_box(schedule(&subject, snapshot, &estimates, &config));
        }),
        measure("- and its reasons".to_owned(), "", time, || {
            std::hint::black_box(explain(&subject, snapshot, &estimates, &config, None));
        }),
    ])
}

fn claim_lookup(policies: usize, time: Duration) -> anyhow::Result<Vec<String>> {
    let mut index = PolicyIndex::default();
    for number in 0..policies {
        let selector = match number % 3 {
            0 => {
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("app-{number}")})
            }
            1 => json!({"apiVersion": "apps/v1", "kind": "Deployment",
                        "labelSelector": {"matchLabels": {"app": format!("app-{number}")}}}),
            _ => json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("app-{number}")}),
        };
        let policy: PropagationPolicy = karmada_apimachinery::from_value(json!({
            "metadata": {"name": format!("policy-{number}"), "namespace": "ns"},
            "spec": {"resourceSelectors": [selector]},
        }))?;
        index.insert(&policy);
    }
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                        "metadata": {"name": "app-3000", "namespace": "ns", "labels": {"app": "app-3001"}}});
    anyhow::ensure!(index.best("ns", &Head::of(&object)).is_some(), "a policy claims the object");
    Ok(measure(format!("claim among {policies} policies"), "≤ 5 µs", time, || {
        std::hint::black_box(index.best("ns", &Head::of(&object)));
    }))
}

/// A Deployment of about two kilobytes, as people write them.
fn deployment() -> Value {
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/shop/{name}:1.4.2"), "imagePullPolicy": "IfNotPresent",
            "args": ["--port=8080", "--log=info"],
            "env": [{"name": "REGION", "value": "eu-west"}, {"name": "CACHE", "value": "redis:6379"}],
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "config", "mountPath": "/etc/shop"}],
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 3, "resourceVersion": "77",
                     "labels": {"app": "web", "team": "shop"}, "annotations": {"owner": "shop@example.com"}},
        "spec": {
            "replicas": 200, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [container("web"), container("sidecar")],
                "volumes": [{"name": "config", "configMap": {"name": "shop", "defaultMode": 420}}],
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30, "securityContext": {},
            }},
        },
    })
}

fn rendering(time: Duration) -> anyhow::Result<Vec<String>> {
    let template = deployment();
    let clusters: Vec<Value> =
        (0..100).map(|i| json!({"name": format!("member-{i:03}"), "replicas": 2})).collect();
    let binding: ResourceBinding = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "web-deployment", "namespace": "ns"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ns", "name": "web"},
                 "replicas": 200, "clusters": clusters},
    }))?;
    let policy: OverridePolicy = karmada_apimachinery::from_value(json!({
        "metadata": {"name": "op", "namespace": "ns"},
        "spec": {"overrideRules": [{"overriders": {
            "imageOverrider": [{"component": "Registry", "operator": "replace", "value": "mirror.example.com"}],
            "argsOverrider": [{"containerName": "web", "operator": "add", "value": ["--member"]}],
            "labelsOverrider": [{"operator": "add", "value": {"tier": "gold"}}],
            "annotationsOverrider": [{"operator": "add", "value": {"note": "x"}}],
            "plaintext": [{"path": "/spec/revisionHistoryLimit", "operator": "replace", "value": 3}],
        }}]},
    }))?;
    let mut index = OverrideIndex::default();
    index.insert(&policy);
    let overrides = Overrides::find(&OverrideIndex::default(), &index, &template);
    let revise = |mut object: Value, replicas: i64| {
        object.set(&["spec", "replicas"], replicas);
        Ok(object)
    };
    let cluster: Cluster =
        karmada_apimachinery::from_value(json!({"metadata": {"name": "member-000"}}))?;
    let size = template.to_string().len();
    Ok(measure(
        format!("render 100 Works of {size} bytes, 5 overriders"),
        "≤ 2,000 µs",
        time,
        || {
            let renderer = Renderer::new(&template, &binding, &overrides, Some(&revise), false);
            for target in targets(&binding.spec) {
                let _ = std::hint::black_box(renderer.render(target, &cluster, None, None));
            }
        },
    ))
}

/// What a member reports about a Deployment, read by rules of ours and by a script of a user's.
fn interpreting(time: Duration) -> anyhow::Result<Vec<Vec<String>>> {
    let mut object = deployment();
    object["metadata"]["annotations"]["resourcetemplate.karmada.io/generation"] = "3".into();
    object["status"] = json!({
        "observedGeneration": 3, "replicas": 200, "updatedReplicas": 200, "readyReplicas": 199,
        "availableReplicas": 199, "unavailableReplicas": 1,
        "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                        "message": "Deployment has minimum availability."}],
    });
    let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
    let interpreter = Interpreter::new(karmada_interpreter::Gates::default(), clock);
    let reflect = |what: &str, goal: &str, object: &Value| -> anyhow::Result<Vec<String>> {
        anyhow::ensure!(interpreter.interpret_status(object)?.is_some(), "{what}: a status");
        Ok(measure(what.to_owned(), goal, time, || {
            let _ = std::hint::black_box(interpreter.interpret_status(object));
        }))
    };
    let native = reflect("reflect a status, native", "≤ 10 µs", &object)?;
    let script = "function ReflectStatus(obj)\n  local status = {}\n  status.replicas = obj.status.replicas\n  \
                  status.readyReplicas = obj.status.readyReplicas\n  return status\nend";
    let customization: ResourceInterpreterCustomization =
        karmada_apimachinery::from_value(json!({
            "metadata": {"name": "workload"},
            "spec": {
                "target": {"apiVersion": "example.io/v1", "kind": "Workload"},
                "customizations": {"statusReflection": {"luaScript": script}},
            },
        }))?;
    interpreter.set_customizations([&customization]);
    object["apiVersion"] = "example.io/v1".into();
    object["kind"] = "Workload".into();
    let lua = reflect("reflect a status, cached Lua", "≤ 50 µs", &object)?;
    Ok(vec![native, lua])
}

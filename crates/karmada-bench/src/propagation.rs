//! The reference load of the original, measured as its own figures were: pairs of a Deployment, the
//! ConfigMap it mounts and a policy, made while the controllers are off and then taken to two bare
//! members; single objects afterwards; a restart. The last column says how the original fared.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::StreamExt as _;
use karmada_apimachinery::{Value, json};
use karmada_runtime::{Change, Informers, Shutdown};
use parking_lot::Mutex;

use crate::plane::{Plane, gvr};
use crate::table::{self, peak_rss_mb, percentile};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pairs of the cold start
    #[arg(long, default_value_t = 300)]
    pairs: usize,
    /// Single objects whose way is timed
    #[arg(long, default_value_t = 100)]
    singles: usize,
    /// Milliseconds between two single objects
    #[arg(long, default_value_t = 100)]
    pause: u64,
}

/// What was measured of the original on a machine of this kind.
mod original {
    /// CPU seconds per pair.
    pub(super) const CPU: f64 = 0.40;
    /// Seconds per pair, 300 pairs with raised limits.
    pub(super) const SECONDS: f64 = 88.6 / 300.0;
    pub(super) const WRITES: f64 = 52.0;
    /// Milliseconds from a template to both members, idle.
    pub(super) const P50: f64 = 129.0;
    pub(super) const P99: f64 = 396.0;
    /// Seconds from a restart to the first new object in the members.
    pub(super) const RESTART: f64 = 25.0;
    /// Writes of a restart, per pair.
    pub(super) const RESTART_WRITES: f64 = 2134.0 / 300.0;
}

const MEMBERS: [&str; 2] = ["member1", "member2"];
const LIMIT: Duration = Duration::from_secs(1800);

/// When which object reached which member.
#[derive(Clone, Default)]
struct Arrivals {
    seen: Arc<Mutex<HashMap<String, HashMap<String, Instant>>>>,
}

impl Arrivals {
    fn note(&self, member: &str, kind: &str, name: &str) {
        let mut seen = self.seen.lock();
        let places = seen.entry(format!("{kind} {name}")).or_default();
        places.entry(member.to_owned()).or_insert_with(Instant::now);
    }

    /// How many objects are in all members.
    fn complete(&self, keys: &HashSet<String>) -> usize {
        let seen = self.seen.lock();
        let everywhere = |key: &&String| seen.get(*key).is_some_and(|p| p.len() == MEMBERS.len());
        keys.iter().filter(everywhere).count()
    }

    fn last(&self, key: &str) -> Option<Instant> {
        let seen = self.seen.lock();
        seen.get(key).filter(|places| places.len() == MEMBERS.len())?.values().max().copied()
    }

    async fn wait(&self, keys: &HashSet<String>) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.complete(keys) < keys.len() {
            anyhow::ensure!(
                began.elapsed() < LIMIT,
                "{} of {} objects arrived",
                self.complete(keys),
                keys.len()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(async {
        let dir = tempfile::tempdir().context("make a temporary directory")?;
        let mut plane = Plane::start(dir.path(), &MEMBERS).await?;
        let (arrivals, watching) = (Arrivals::default(), Shutdown::new());
        let kept = watch(&plane, &arrivals, &watching);
        let mut rows = Vec::new();
        cold_start(&mut plane, &args, &arrivals, &mut rows).await?;
        singles(&plane, &args, &arrivals, &mut rows).await?;
        restart(&mut plane, &args, &arrivals, &mut rows).await?;
        table::print(&["what", "ours", "the original", "ratio"], &rows);
        drop(kept);
        watching.trigger();
        plane.stop().await;
        Ok(())
    })
}

fn watch(
    plane: &Plane,
    arrivals: &Arrivals,
    shutdown: &Shutdown,
) -> Vec<karmada_runtime::Subscription> {
    let mut kept = Vec::new();
    for (member, sim) in &plane.members {
        let informers = Informers::new(sim.client(), shutdown.clone());
        for (resource, kind) in [("deployments.v1.apps", "Deployment"), ("configmaps", "ConfigMap")]
        {
            let (own, member) = (arrivals.clone(), member.clone());
            kept.push(informers.all(&gvr(resource)).subscribe(move |change| {
                if let Change::Applied { old: None, new } = change {
                    own.note(&member, kind, new.name());
                }
            }));
        }
    }
    kept
}

fn deployment(name: &str, config: Option<&str>) -> Value {
    let mut pod = json!({"containers": [{"name": "c", "image": "nginx:1.27"}]});
    if let Some(config) = config {
        pod["volumes"] = json!([{"name": "conf", "configMap": {"name": config}}]);
        pod["containers"][0]["volumeMounts"] = json!([{"name": "conf", "mountPath": "/conf"}]);
    }
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "bench", "labels": {"app": name}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod}},
    })
}

fn policy(name: &str, selector: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "bench"},
        "spec": {"propagateDeps": true, "resourceSelectors": [selector],
            "placement": {"clusterAffinity": {"clusterNames": MEMBERS},
                "replicaScheduling": {"replicaSchedulingType": "Duplicated"}}},
    })
}

async fn create_pair(plane: &Plane, place: usize) -> anyhow::Result<()> {
    let name = format!("pair-{place}");
    let config =
        json!({"metadata": {"name": name, "namespace": "bench"}, "data": {"key": "value"}});
    plane.api("configmaps").namespaced("bench").create(&config).await?;
    let deployment = deployment(&name, Some(&name));
    plane.api("deployments.v1.apps").namespaced("bench").create(&deployment).await?;
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    let api = plane.api("propagationpolicies.v1alpha1.policy.karmada.io").namespaced("bench");
    api.create(&policy(&name, selector)).await?;
    Ok(())
}

async fn cold_start(
    plane: &mut Plane,
    args: &Args,
    arrivals: &Arrivals,
    rows: &mut Vec<Vec<String>>,
) -> anyhow::Result<()> {
    plane.api("namespaces").create(&json!({"metadata": {"name": "bench"}})).await?;
    let made = futures::stream::iter(0..args.pairs).map(|place| create_pair(plane, place));
    let made: Vec<_> = made.buffer_unordered(32).collect().await;
    made.into_iter().collect::<anyhow::Result<()>>()?;
    let name = |kind: &str, place: usize| format!("{kind} pair-{place}");
    let keys: HashSet<String> =
        (0..args.pairs).flat_map(|p| [name("Deployment", p), name("ConfigMap", p)]).collect();
    let (cpu, (writes, events), began) = (cpu_seconds(), plane.writes().await?, Instant::now());
    plane.start_controllers();
    arrivals.wait(&keys).await?;
    let took = began.elapsed().as_secs_f64();
    settle(plane).await?;
    let pairs = args.pairs as f64;
    let (cpu, (all, of_events)) = (cpu_seconds() - cpu, plane.writes().await?);
    let (events, all) = ((of_events - events) as f64, (all - writes) as f64);
    let per_pair = [
        (format!("{} pairs: all applied, s", args.pairs), took, original::SECONDS * pairs),
        ("CPU per pair, ms (whole system)".to_owned(), cpu / pairs * 1e3, original::CPU * 1e3),
        ("writes per pair, events included".to_owned(), all / pairs, original::WRITES),
        (
            "writes per pair without events".to_owned(),
            (all - events) / pairs,
            original::WRITES - 7.9,
        ),
    ];
    rows.extend(per_pair.map(|(what, ours, original)| row(what, ours, original)));
    let peak = peak_rss_mb().unwrap_or_default().to_string();
    rows.push(vec![
        "peak memory of the process, MB".to_owned(),
        peak,
        String::new(),
        String::new(),
    ]);
    Ok(())
}

/// Waits until nothing is written any more.
async fn settle(plane: &Plane) -> anyhow::Result<()> {
    let mut last = plane.writes().await?;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = plane.writes().await?;
        if now == last {
            return Ok(());
        }
        last = now;
    }
}

async fn singles(
    plane: &Plane,
    args: &Args,
    arrivals: &Arrivals,
    rows: &mut Vec<Vec<String>>,
) -> anyhow::Result<()> {
    let labels = json!({"matchLabels": {"bench": "single"}});
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": labels});
    let api = plane.api("propagationpolicies.v1alpha1.policy.karmada.io").namespaced("bench");
    api.create(&policy("singles", selector)).await?;
    settle(plane).await?;
    let mut times = Vec::new();
    for place in 0..args.singles {
        let name = format!("single-{place}");
        times.push(time_one(plane, arrivals, &name).await?);
        tokio::time::sleep(Duration::from_millis(args.pause)).await;
    }
    for (what, share, original) in [("p50", 0.50, original::P50), ("p99", 0.99, original::P99)] {
        let ours = percentile(&mut times, share).as_secs_f64() * 1e3;
        rows.push(row(format!("template to both members, {what} ms"), ours, original));
    }
    Ok(())
}

async fn time_one(plane: &Plane, arrivals: &Arrivals, name: &str) -> anyhow::Result<Duration> {
    let mut object = deployment(name, None);
    object["metadata"]["labels"]["bench"] = "single".into();
    let began = Instant::now();
    plane.api("deployments.v1.apps").namespaced("bench").create(&object).await?;
    let key = format!("Deployment {name}");
    arrivals.wait(&HashSet::from([key.clone()])).await?;
    let arrived = arrivals.last(&key).context("an arrival that was just seen")?;
    Ok(arrived.duration_since(began))
}

async fn restart(
    plane: &mut Plane,
    args: &Args,
    arrivals: &Arrivals,
    rows: &mut Vec<Vec<String>>,
) -> anyhow::Result<()> {
    settle(plane).await?;
    plane.stop_controllers().await;
    let (writes, _) = plane.writes().await?;
    plane.start_controllers();
    settle(plane).await?;
    let (after, _) = plane.writes().await?;
    plane.stop_controllers().await;
    let began = Instant::now();
    plane.start_controllers();
    time_one(plane, arrivals, "after-restart").await?;
    let flows = began.elapsed().as_secs_f64();
    rows.push(row(
        "restart until a new object is in both members, s".to_owned(),
        flows,
        original::RESTART,
    ));
    let original = original::RESTART_WRITES * args.pairs as f64;
    rows.push(row("writes of a restart".to_owned(), (after - writes) as f64, original));
    Ok(())
}

fn row(what: String, ours: f64, original: f64) -> Vec<String> {
    let ratio = if ours > 0.0 { format!("{:.0}x", original / ours) } else { "-".to_owned() };
    vec![what, format!("{ours:.2}"), format!("{original:.1}"), ratio]
}

/// Processor time of this process: control plane, members and load alike.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |place: usize| fields.get(place).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    // Counted in hundredths on every Linux of today.
    (ticks(12) + ticks(13)) / 100.0
}

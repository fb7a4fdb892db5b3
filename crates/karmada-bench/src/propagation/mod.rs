//! From template to member and back, measured as the original's own figures were: the reference load
//! and a restart behind it (`pairs`, also alone), and one template for very many clusters (`fan_out`). Every load
//! runs in a process of its own, so that its peak of memory is its own.

mod arrivals;
mod fan_out;
mod pairs;

use anyhow::Context as _;
use clap::ValueEnum;
use karmada_apimachinery::{Value, json};

use crate::plane::{Plane, Writes};
use crate::table;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The load to measure; all of them, each in a process of its own, if not given
    #[arg(long)]
    load: Option<Load>,
    /// Pairs of the cold start
    #[arg(long, default_value_t = 5000)]
    pairs: usize,
    /// Single objects whose way is timed, at rest and under load each; none leaves the rows out
    #[arg(long, default_value_t = 100)]
    singles: usize,
    /// Milliseconds between two single objects
    #[arg(long, default_value_t = 500)]
    pause: u64,
    /// Pairs made per second while single objects are timed under load
    #[arg(long, default_value_t = 50)]
    background: usize,
    /// Members of the fan-out
    #[arg(long, default_value_t = 1000)]
    clusters: usize,
    /// Bindings of the restart
    #[arg(long, default_value_t = 30_000)]
    bindings: usize,
    /// Kubeconfig of a member that is a real API server; repeat it for more. Replaces the bare ones
    #[arg(long)]
    member: Vec<std::path::PathBuf>,
    /// Shows every kind of write with its answers
    #[arg(long)]
    writes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Load {
    /// Deployment, ConfigMap and policy, many times, to two members
    Pairs,
    /// One Deployment to very many members
    FanOut,
    /// A control plane that ends and begins with many bindings in it
    Restart,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let Some(load) = args.load else { return run_all(&args) };
    crate::allocations::do_not_count();
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(async {
        match load {
            Load::Pairs => pairs::measure(&args).await,
            Load::FanOut => fan_out::measure(&args).await,
            Load::Restart => pairs::measure_restart(&args).await,
        }
    })
}

/// Runs every load in a process of its own.
#[allow(clippy::print_stdout, reason = "the headings are part of the tables")]
fn run_all(args: &Args) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("find this program")?;
    let many = args.pairs * 6;
    let loads = [
        vec!["--load=pairs".to_owned(), format!("--pairs={}", args.pairs)],
        vec!["--load=pairs".to_owned(), format!("--pairs={many}"), "--singles=0".to_owned()],
        vec!["--load=restart".to_owned(), format!("--bindings={}", args.pairs)],
        vec!["--load=restart".to_owned(), format!("--bindings={}", args.bindings)],
        vec!["--load=fan-out".to_owned(), format!("--clusters={}", args.clusters)],
    ];
    for load in loads {
        println!("\nkarmada-bench propagation {}", load.join(" "));
        let status = std::process::Command::new(&program).arg("propagation").args(&load).status();
        anyhow::ensure!(status.context("start a measurement")?.success(), "{load:?} failed");
    }
    Ok(())
}

/// One row: ours, the original's and the ratio, and what was aimed at.
pub(crate) fn row(what: &str, ours: f64, original: Option<f64>, goal: &str) -> Vec<String> {
    let shown = match ours {
        ours if ours >= 100.0 => format!("{ours:.0}"),
        ours if ours >= 10.0 => format!("{ours:.1}"),
        ours => format!("{ours:.2}"),
    };
    let original_shown = original.map_or(String::new(), |original| format!("{original:.1}"));
    let ratio = original.filter(|_| ours > 0.0).map(|original| format!("{:.0}x", original / ours));
    vec![what.to_owned(), shown, original_shown, ratio.unwrap_or_default(), goal.to_owned()]
}

pub(crate) fn print(rows: &[Vec<String>]) {
    table::print(&["what", "ours", "the original", "ratio", "goal"], rows);
}

/// The writes between two looks.
fn between(before: &Writes, after: &Writes) -> Writes {
    let grown = |(what, count): (&String, &u64)| {
        (what.clone(), count - before.get(what).copied().unwrap_or_default())
    };
    after.iter().map(grown).filter(|(_, count)| *count > 0).collect()
}

fn sum(writes: &Writes, only: impl Fn(&str) -> bool) -> u64 {
    writes.iter().filter(|(what, _)| only(what)).map(|(_, count)| count).sum()
}

fn print_writes(writes: &Writes, pairs: usize) {
    let row = |(what, count): (&String, &u64)| {
        vec![what.clone(), count.to_string(), format!("{:.2}", *count as f64 / pairs as f64)]
    };
    table::print(&["write", "count", "per pair"], &writes.iter().map(row).collect::<Vec<_>>());
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

/// A policy for both members, as that of the original's figures.
fn policy(name: &str, selector: Value, clusters: &[String]) -> Value {
    let mut placement = json!({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}});
    if !clusters.is_empty() {
        placement["clusterAffinity"] = json!({"clusterNames": clusters});
    }
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "bench"},
        "spec": {"propagateDeps": true, "resourceSelectors": [selector], "placement": placement},
    })
}

/// Waits until nothing is written any more.
async fn settle(plane: &Plane) -> anyhow::Result<()> {
    let mut last = plane.revision();
    let mut quiet = 0;
    while quiet < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        let now = plane.writes().await?;
        let now = (plane.revision(), sum(&now, |_| true)).0;
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
    }
    Ok(())
}

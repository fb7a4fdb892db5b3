//! What simulated members cost: memory of an idle one, and how fast many of them bring up pods.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_member_sim::{Config, Nodes, Sim};

use crate::table::{self, peak_rss_mb};

/// Pods per Deployment.
const SHARE: usize = 50;
/// How long all pods together may take.
const PATIENCE: Duration = Duration::from_secs(1800);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Members started in this process
    #[arg(long, default_value_t = 100)]
    members: usize,
    /// Nodes of each
    #[arg(long, default_value_t = 50)]
    nodes: usize,
    /// Pods brought up in each
    #[arg(long, default_value_t = 1000)]
    pods: usize,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(measure(&args))
}

async fn measure(args: &Args) -> anyhow::Result<()> {
    let before = rss_kb();
    let began = Instant::now();
    let mut members = Vec::new();
    for index in 0..args.members {
        let nodes = Nodes { count: args.nodes, ..Nodes::default() };
        let config = Config { nodes, ..Config::named(format!("m{index}")) };
        members.push(Sim::start(config).await?);
    }
    let started = began.elapsed();
    settle(&members).await?;
    let idle = rss_kb().saturating_sub(before);
    let mut rows = vec![vec![
        "start".to_owned(),
        format!("{:.1}", started.as_secs_f64()),
        format!("{:.1}", args.members as f64 / started.as_secs_f64()),
        (idle / 1024).to_string(),
        (idle / args.members.max(1) as u64).to_string(),
    ]];
    if args.pods > 0 {
        let began = Instant::now();
        try_join_all(members.iter().map(|member| bring_up(member, args.pods))).await?;
        let took = began.elapsed();
        let loaded = rss_kb().saturating_sub(before);
        // A pod is created, bound, and running.
        let transitions = args.members * args.pods * 3;
        rows.push(vec![
            "pods running".to_owned(),
            format!("{:.1}", took.as_secs_f64()),
            format!("{:.1}", transitions as f64 / took.as_secs_f64()),
            (loaded / 1024).to_string(),
            (loaded / args.members.max(1) as u64).to_string(),
        ]);
    }
    table::print(&["what", "seconds", "per second", "MB", "KB per member"], &rows);
    if let Some(peak) = peak_rss_mb() {
        table::print(&["peak MB"], &[vec![peak.to_string()]]);
    }
    Ok(())
}

/// A member is idle once its controllers have made what every cluster has.
async fn settle(members: &[Sim]) -> anyhow::Result<()> {
    for member in members {
        let accounts = member.client().api(&Gvr::new("", "v1", "serviceaccounts"));
        let accounts = accounts.namespaced("default");
        while accounts.find("default").await?.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Creates Deployments and waits until all their pods are ready.
async fn bring_up(member: &Sim, pods: usize) -> anyhow::Result<()> {
    let api = member.client().api(&Gvr::new("apps", "v1", "deployments")).namespaced("default");
    let mut names = Vec::new();
    for index in 0..pods.div_ceil(SHARE) {
        let name = format!("web-{index}");
        let replicas = SHARE.min(pods - index * SHARE);
        api.create(&json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
                },
            },
        }))
        .await?;
        names.push((name, replicas));
    }
    let deadline = Instant::now() + PATIENCE;
    for (name, replicas) in names {
        let wanted = i64::try_from(replicas)?;
        while api.get(&name).await?.i64_at(&["status", "readyReplicas"]) != Some(wanted) {
            anyhow::ensure!(Instant::now() < deadline, "{name} in {} is not ready", member.name());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

/// The memory the process has now, in kilobytes.
fn rss_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or_default()
}

//! Members joined to a control plane as `karmada up` runs it: very many small ones, and a large one
//! again and again.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::auth::Identity;
use karmada_member_sim::Sim;
use karmada_registration::{Access, Join, Unjoin, join, unjoin};

use super::{Args, print, row};
use crate::plane::Plane;
use crate::table::{cpu_seconds, peak_rss_mb, percentile, rss_kb};

const CLUSTERS: &str = "clusters.v1alpha1.cluster.karmada.io";
/// The original's own figure for a member of 5,000 nodes.
const ORIGINAL_P99_MS: f64 = 6904.0;

async fn register(plane: &Plane, sim: &Sim, name: &str) -> anyhow::Result<()> {
    let identity =
        Identity::new("system:serviceaccount:karmada-cluster:member", ["system:masters"]);
    plane.reach(name, sim.remote_client(identity));
    let access = Access { endpoint: sim.endpoint().to_owned(), ..Access::default() };
    let wish = Join::named(name);
    join(&plane.client(), &sim.client(), &access, &wish, &|_| {}).await?;
    Ok(())
}

pub(super) async fn measure_many(args: &Args) -> anyhow::Result<()> {
    let (count, nodes) = (args.members.unwrap_or(1000), args.nodes.unwrap_or(3));
    let dir = tempfile::tempdir().context("make a temporary directory")?;
    let mut plane = Plane::start(dir.path()).await?;
    plane.start_controllers();
    let (rss, cpu, began) = (rss_kb(), cpu_seconds(), Instant::now());
    let mut members = Vec::new();
    for index in 0..count {
        members.push(super::start(format!("m{index}"), nodes).await?);
    }
    let started = began.elapsed().as_secs_f64();
    let (started_cpu, started_kb) = (cpu_seconds() - cpu, rss_kb().saturating_sub(rss));
    for member in &members {
        register(&plane, member, member.name()).await?;
    }
    let names: Vec<&str> = members.iter().map(Sim::name).collect();
    plane.wait_until_ready(&names).await?;
    let ready = began.elapsed().as_secs_f64();
    let used = cpu_seconds() - cpu;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (idle, rested) = (cpu_seconds(), Instant::now());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let idle = (cpu_seconds() - idle) / rested.elapsed().as_secs_f64();
    print(&[
        row("members", format!("{count} with {nodes} nodes"), ""),
        row("started, s", format!("{started:.1}"), ""),
        row("started, CPU s", format!("{started_cpu:.1}"), ""),
        row("started, MB", started_kb / 1024, ""),
        row("joined and Ready, s", format!("{ready:.1}"), ""),
        row("joined and Ready, CPU s", format!("{used:.1}"), ""),
        row("memory, MB", rss_kb() / 1024, ""),
        row("peak memory, MB", peak_rss_mb().unwrap_or_default(), ""),
        row("memory, KB per member", rss_kb().saturating_sub(rss) / count as u64, ""),
        row("at rest, % of a core", format!("{:.1}", idle * 100.0), ""),
    ]);
    Ok(())
}

pub(super) async fn measure_large(args: &Args) -> anyhow::Result<()> {
    let nodes = args.nodes.unwrap_or(5000);
    let dir = tempfile::tempdir().context("make a temporary directory")?;
    let mut plane = Plane::start(dir.path()).await?;
    plane.start_controllers();
    let began = Instant::now();
    let member = super::start("large".to_owned(), nodes).await?;
    let started = began.elapsed().as_secs_f64();
    let mut times = Vec::new();
    for round in 0..args.rounds {
        let name = format!("large-{round}");
        let began = Instant::now();
        register(&plane, &member, &name).await?;
        plane.wait_until_ready(&[&name]).await?;
        let wanted = i64::try_from(nodes)?;
        let counted = ["status", "nodeSummary", "readyNum"];
        while plane.api(CLUSTERS).get(&name).await?.i64_at(&counted) != Some(wanted) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        times.push(began.elapsed());
        let leave = Unjoin::named(name.as_str());
        unjoin(&plane.client(), Some(&member.client()), &leave, &|_| {}).await?;
    }
    let ms = |times: &mut [Duration], share| percentile(times, share).as_secs_f64() * 1e3;
    let (p50, p99) = (ms(&mut times, 0.5), ms(&mut times, 0.99));
    let ratio = ORIGINAL_P99_MS / p99;
    print(&[
        row("nodes of the member", nodes, ""),
        row("member started, s", format!("{started:.1}"), ""),
        row("registrations", args.rounds, ""),
        row("join until Ready and all nodes counted, p50 ms", format!("{p50:.0}"), ""),
        row("the same, p99 ms", format!("{p99:.0}"), ""),
        row("the original's p99, ms", format!("{ORIGINAL_P99_MS:.0} ({ratio:.0}x)"), ""),
        row("peak memory, MB", peak_rss_mb().unwrap_or_default(), ""),
    ]);
    Ok(())
}

//! Pods brought up by the controllers, scheduler and kubelets of simulated members.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::Api;
use karmada_member_sim::Sim;

use super::idle::settle;
use super::{Args, print, row};
use crate::table::{cpu_seconds, peak_rss_mb, rss_kb};

/// Pods per Deployment.
const SHARE: usize = 50;
/// How long all pods together may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How often each of many members is asked how far it is: asking must not be the load.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// One Deployment of 100 replicas in a member of its own, as `kubectl create deploy` makes it.
pub(super) async fn measure_one(args: &Args) -> anyhow::Result<()> {
    let member = super::start("m".to_owned(), args.nodes.unwrap_or(3)).await?;
    settle(std::slice::from_ref(&member)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (cpu, began) = (cpu_seconds(), Instant::now());
    bring_up(&member, 100, 100, Duration::from_millis(20)).await?;
    let took = format!("{:.2}", began.elapsed().as_secs_f64());
    print(&[
        row("100 replicas ready, s", took, "≤ 2"),
        row("CPU, s", format!("{:.2}", cpu_seconds() - cpu), ""),
    ]);
    Ok(())
}

pub(super) async fn measure(args: &Args) -> anyhow::Result<()> {
    let (count, nodes) = (args.members.unwrap_or(100), args.nodes.unwrap_or(50));
    let (rss, cpu, began) = (rss_kb(), cpu_seconds(), Instant::now());
    let mut members = Vec::new();
    for index in 0..count {
        members.push(super::start(format!("m{index}"), nodes).await?);
    }
    settle(&members).await?;
    let mb = || rss_kb().saturating_sub(rss) / 1024;
    let mut rows = vec![
        row("members", format!("{count} with {nodes} nodes, {} pods", args.pods), ""),
        row("started, s", format!("{:.1}", began.elapsed().as_secs_f64()), ""),
        row("started, CPU s", format!("{:.1}", cpu_seconds() - cpu), ""),
        row("started, MB", mb(), ""),
    ];
    let (cpu, began) = (cpu_seconds(), Instant::now());
    let all = members.iter().map(|member| bring_up(member, args.pods, SHARE, LOOK_AGAIN));
    try_join_all(all).await?;
    let took = began.elapsed().as_secs_f64();
    // A pod is created, bound, and running.
    let transitions = (count * args.pods * 3) as f64;
    let cpu = cpu_seconds() - cpu;
    rows.extend([
        row("all pods ready, s", format!("{took:.1}"), ""),
        row("pod transitions/s", format!("{:.0}", transitions / took), "≥ 2,000"),
        row("CPU µs per transition", format!("{:.0}", cpu * 1e6 / transitions), ""),
        row("memory, MB", mb(), "≤ 2,048"),
        row("peak memory, MB", peak_rss_mb().unwrap_or_default(), ""),
    ]);
    if args.heap {
        rows.push(row("live heap, MB", crate::allocations::live() >> 20, ""));
    }
    crate::allocations::report();
    print(&rows);
    Ok(())
}

/// Creates Deployments and waits until all their pods are ready.
async fn bring_up(member: &Sim, pods: usize, share: usize, pause: Duration) -> anyhow::Result<()> {
    let api = member.client().api(&Gvr::new("apps", "v1", "deployments")).namespaced("default");
    let mut names = Vec::new();
    for index in 0..pods.div_ceil(share) {
        let (name, replicas) = (format!("web-{index}"), share.min(pods - index * share));
        create(&api, &name, replicas).await?;
        names.push((name, i64::try_from(replicas)?));
    }
    let deadline = Instant::now() + PATIENCE;
    for (name, wanted) in names {
        while api.get(&name).await?.i64_at(&["status", "readyReplicas"]) != Some(wanted) {
            anyhow::ensure!(Instant::now() < deadline, "{name} in {} is not ready", member.name());
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}

async fn create(api: &Api, name: &str, replicas: usize) -> anyhow::Result<()> {
    let template = json!({
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    });
    api.create(&deployment).await?;
    Ok(())
}

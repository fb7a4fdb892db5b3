//! One template for very many clusters: how soon the last of them has it.

use std::time::Instant;

use anyhow::Context as _;
use karmada_apimachinery::json;

use super::arrivals::Arrivals;
use super::{Args, between, deployment, policy, print, print_writes, row, settle, sum};
use crate::plane::Plane;
use crate::table::{cpu_seconds, peak_rss_mb};

pub(super) async fn measure(args: &Args) -> anyhow::Result<()> {
    let dir = tempfile::tempdir().context("make a temporary directory")?;
    let mut plane = Plane::start(dir.path()).await?;
    let (cpu, began) = (cpu_seconds(), Instant::now());
    for place in 0..args.clusters {
        plane.add_bare_member(&format!("member{place}")).await?;
    }
    let made = began.elapsed().as_secs_f64();
    plane.api("namespaces").create(&json!({"metadata": {"name": "bench"}})).await?;
    plane.start_controllers();
    plane.wait_ready().await?;
    let ready = began.elapsed().as_secs_f64();
    settle(&plane).await?;
    let mut rows = vec![
        row("bare members started, s", made, None, ""),
        row("joined and ready, s", ready, None, ""),
        row("CPU until quiet, s", cpu_seconds() - cpu, None, ""),
        row("memory so far, MB", peak_rss_mb().unwrap_or_default() as f64, None, ""),
    ];
    let arrivals = Arrivals::watch(plane.members()).await?;
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "wide"});
    let api = plane.api("propagationpolicies.v1alpha1.policy.karmada.io").namespaced("bench");
    api.create(&policy("wide", selector, &[])).await?;
    settle(&plane).await?;
    let (cpu, writes, began) = (cpu_seconds(), plane.writes().await?, Instant::now());
    plane.api("deployments.v1.apps").namespaced("bench").create(&deployment("wide", None)).await?;
    arrivals.wait(&["Deployment wide".to_owned()]).await?;
    let took = began.elapsed().as_secs_f64();
    settle(&plane).await?;
    let (cpu, writes) = (cpu_seconds() - cpu, between(&writes, &plane.writes().await?));
    let what = format!("1 template in {} clusters, s", args.clusters);
    rows.push(row(&what, took, None, ""));
    rows.push(row("CPU per cluster, ms", cpu * 1e3 / args.clusters as f64, None, ""));
    let all = sum(&writes, |_| true) as f64;
    rows.push(row("writes per cluster", all / args.clusters as f64, None, ""));
    rows.push(row("peak memory, MB", peak_rss_mb().unwrap_or_default() as f64, None, ""));
    print(&rows);
    if args.writes {
        print_writes(&writes, args.clusters);
    }
    plane.stop().await
}

//! Members that have started and do nothing.

use std::time::{Duration, Instant};

use karmada_apimachinery::gvk::Gvr;
use karmada_member_sim::Sim;

use super::{Args, print, row};
use crate::allocations;
use crate::table::{cpu_seconds, rss_kb};

const REST: Duration = Duration::from_secs(20);

pub(super) async fn measure(args: &Args) -> anyhow::Result<()> {
    let (count, nodes) = (args.members.unwrap_or(20), args.nodes.unwrap_or(3));
    // What all members share is not to be counted for the first.
    let first = super::start("first".to_owned(), nodes).await?;
    settle(std::slice::from_ref(&first)).await?;
    let (rss, live, cpu) = (rss_kb(), allocations::live(), cpu_seconds());
    let (asked, began) = (allocations::count(), Instant::now());
    let mut members = Vec::new();
    for index in 0..count {
        members.push(super::start(format!("m{index}"), nodes).await?);
    }
    let started = began.elapsed().as_secs_f64();
    settle(&members).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let each = |whole: f64| whole / count as f64;
    let mut rows = vec![
        row("members started", format!("{count} with {nodes} nodes"), ""),
        row("start, ms each", format!("{:.1}", each(started) * 1e3), ""),
        row("start, CPU ms each", format!("{:.1}", each(cpu_seconds() - cpu) * 1e3), ""),
        row("start, allocations each", (allocations::count() - asked) / count as u64, ""),
        row("memory, KB each", rss_kb().saturating_sub(rss) / count as u64, ""),
        row(
            "live heap, KB each",
            allocations::live().saturating_sub(live) / 1024 / count as u64,
            "",
        ),
    ];
    let cpu = cpu_seconds();
    tokio::time::sleep(REST).await;
    let used = (cpu_seconds() - cpu) / REST.as_secs_f64();
    rows.push(row("at rest, % of a core each", format!("{:.3}", each(used) * 100.0), ""));
    allocations::report();
    print(&rows);
    Ok(())
}

/// A member is idle once its controllers have made what every cluster has.
pub(super) async fn settle(members: &[Sim]) -> anyhow::Result<()> {
    for member in members {
        let accounts = member.client().api(&Gvr::new("", "v1", "serviceaccounts"));
        let accounts = accounts.namespaced("default");
        while accounts.find("default").await?.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

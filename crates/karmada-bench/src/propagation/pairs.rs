//! The reference load: pairs of a Deployment, the ConfigMap it mounts and a policy, made while the
//! controllers are off and then taken to two bare members; single objects; a restart of everything.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::StreamExt as _;
use karmada_apimachinery::json;
use karmada_client::Client;

use super::arrivals::Arrivals;
use super::{Args, between, deployment, policy, print, print_writes, row, settle, sum};
use crate::far::Elsewhere;
use crate::plane::Plane;
use crate::table::{cpu_seconds, peak_rss_mb, percentile};

/// What was measured of the original on a machine of this kind.
mod original {
    /// CPU milliseconds per pair.
    pub(super) const CPU: f64 = 400.0;
    /// Seconds per pair, 300 pairs with raised limits.
    pub(super) const SECONDS: f64 = 88.6 / 300.0;
    /// Writes per pair, events included.
    pub(super) const WRITES: f64 = 52.0;
    /// Those of events.
    pub(super) const EVENTS: f64 = 7.9;
    /// Milliseconds from a template to both members, idle.
    pub(super) const P50: f64 = 129.0;
    pub(super) const P99: f64 = 396.0;
    /// The same with 1.5 objects per second.
    pub(super) const LOADED_P50: f64 = 447.0;
    pub(super) const LOADED_P99: f64 = 753.0;
    /// Seconds from a restart to the first new object in the members.
    pub(super) const RESTART: f64 = 25.0;
    /// Writes of a restart, per pair.
    pub(super) const RESTART_WRITES: f64 = 2134.0 / 300.0;
}

type Rows = Vec<Vec<String>>;

pub(super) async fn measure(args: &Args) -> anyhow::Result<()> {
    let dir = tempfile::tempdir().context("make a temporary directory")?;
    let (mut plane, names, arrivals) = prepare(dir.path(), args).await?;
    let mut rows = Rows::new();
    cold_start(&mut plane, args, &names, &arrivals, &mut rows).await?;
    if args.singles > 0 {
        singles(&plane, args, &names, &arrivals, &mut rows).await?;
    }
    restart(&mut plane, args, &names, &arrivals, &mut rows).await?;
    print(&rows);
    plane.stop().await
}

/// A restart alone, behind as many pairs as make so many bindings.
pub(super) async fn measure_restart(args: &Args) -> anyhow::Result<()> {
    let args = &Args { pairs: args.bindings / 2, ..args.clone() };
    let dir = tempfile::tempdir().context("make a temporary directory")?;
    let (mut plane, names, arrivals) = prepare(dir.path(), args).await?;
    cold_start(&mut plane, args, &names, &arrivals, &mut Rows::new()).await?;
    let mut rows = Rows::new();
    restart(&mut plane, args, &names, &arrivals, &mut rows).await?;
    print(&rows);
    plane.stop().await
}

/// A control plane that knows its members and has nothing to do; the controllers are off.
async fn prepare(dir: &Path, args: &Args) -> anyhow::Result<(Plane, Vec<String>, Arrivals)> {
    let mut plane = Plane::start(dir).await?;
    let mut names = Vec::new();
    if args.member.is_empty() {
        for name in ["member1", "member2"] {
            plane.add_bare_member(name).await?;
            names.push(name.to_owned());
        }
    }
    for (place, kubeconfig) in args.member.iter().enumerate() {
        let name = format!("member{}", place + 1);
        plane.join(&name, Client::from_kubeconfig(kubeconfig, None).await?).await?;
        names.push(name);
    }
    plane.api("namespaces").create(&json!({"metadata": {"name": "bench"}})).await?;
    plane.start_controllers();
    plane.wait_ready().await?;
    settle(&plane).await?;
    plane.stop_controllers().await;
    let arrivals = Arrivals::watch(plane.members()).await?;
    Ok((plane, names, arrivals))
}

async fn create_pair(plane: &Plane, name: &str, clusters: &[String]) -> anyhow::Result<()> {
    let config =
        json!({"metadata": {"name": name, "namespace": "bench"}, "data": {"key": "value"}});
    plane.api("configmaps").namespaced("bench").create(&config).await?;
    let deployment = deployment(name, Some(name));
    plane.api("deployments.v1.apps").namespaced("bench").create(&deployment).await?;
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    let api = plane.api("propagationpolicies.v1alpha1.policy.karmada.io").namespaced("bench");
    api.create(&policy(name, selector, clusters)).await?;
    Ok(())
}

async fn cold_start(
    plane: &mut Plane,
    args: &Args,
    clusters: &[String],
    arrivals: &Arrivals,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let names: Vec<String> = (0..args.pairs).map(|place| format!("pair-{place}")).collect();
    let (cpu, began) = (cpu_seconds(), Instant::now());
    let made = names.iter().map(|name| create_pair(plane, name, clusters));
    let made: Vec<_> = futures::stream::iter(made).buffer_unordered(32).collect().await;
    made.into_iter().collect::<anyhow::Result<()>>()?;
    rows.push(row("making the objects, s", began.elapsed().as_secs_f64(), None, ""));
    rows.push(row("making the objects, CPU s", cpu_seconds() - cpu, None, ""));
    let pairs = args.pairs as f64;
    let keys: Vec<String> = names
        .iter()
        .flat_map(|name| [format!("Deployment {name}"), format!("ConfigMap {name}")])
        .collect();
    let (cpu, writes, began) = (cpu_seconds(), plane.writes().await?, Instant::now());
    let members = Elsewhere::cpu_seconds();
    plane.start_controllers();
    arrivals.wait(&keys).await?;
    let took = began.elapsed().as_secs_f64();
    settle(plane).await?;
    let (cpu, writes) = (cpu_seconds() - cpu, between(&writes, &plane.writes().await?));
    let members = Elsewhere::cpu_seconds() - members;
    let peak = peak_rss_mb().unwrap_or_default() as f64;
    crate::allocations::report();
    let (all, events) = (sum(&writes, |_| true), sum(&writes, |what| what.contains(" events ")));
    let failed = sum(&writes, |what| !what.ends_with(" 200") && !what.ends_with(" 201"));
    let each = |count: u64| count as f64 / pairs;
    let goal = if args.pairs == 5000 { ["≤ 10", "≤ 300"] } else { ["", ""] };
    let what = format!("{} pairs: last object in the members, s", args.pairs);
    rows.push(row(&what, took, Some(original::SECONDS * pairs), goal[0]));
    rows.push(row("CPU, s", cpu, Some(original::CPU * pairs / 1e3), ""));
    rows.push(row("CPU per pair, ms", cpu / pairs * 1e3, Some(original::CPU), "≤ 2"));
    rows.push(row("- of it in the members, ms", members / pairs * 1e3, None, ""));
    rows.push(row("peak memory, whole process, MB", peak, None, goal[1]));
    rows.push(row("writes per pair, all", each(all), Some(original::WRITES), ""));
    let without = Some(original::WRITES - original::EVENTS);
    rows.push(row("writes per pair, without events", each(all - events), without, "≤ 13"));
    rows.push(row("of them refused", each(failed), None, ""));
    if args.writes {
        print_writes(&writes, args.pairs);
    }
    Ok(())
}

async fn singles(
    plane: &Plane,
    args: &Args,
    clusters: &[String],
    arrivals: &Arrivals,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let labels = json!({"matchLabels": {"bench": "single"}});
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": labels});
    let api = plane.api("propagationpolicies.v1alpha1.policy.karmada.io").namespaced("bench");
    api.create(&policy("singles", selector, clusters)).await?;
    settle(plane).await?;
    let mut times = time_many(plane, args, arrivals, "idle").await?;
    let show = |what: &str, times: &mut [Duration], originals: [f64; 2], rows: &mut Rows| {
        let shares = [("p50", 0.50, "≤ 10"), ("p99", 0.99, "≤ 50")];
        for ((name, share, goal), original) in shares.into_iter().zip(originals) {
            let ours = percentile(times, share).as_secs_f64() * 1e3;
            let what = format!("template to both members, {what}, {name} ms");
            rows.push(row(&what, ours, Some(original), goal));
        }
    };
    show("idle", &mut times, [original::P50, original::P99], rows);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let load = async {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / args.background as u32);
        for place in 0.. {
            ticks.tick().await;
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Ok::<_, anyhow::Error>(());
            }
            create_pair(plane, &format!("background-{place}"), clusters).await?;
        }
        Ok(())
    };
    let timed = async {
        let times = time_many(plane, args, arrivals, "loaded").await;
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        times
    };
    let (load, times) = futures::join!(load, timed);
    load?;
    let mut times = times?;
    let what = format!("{} pairs/s beside it", args.background);
    show(&what, &mut times, [original::LOADED_P50, original::LOADED_P99], rows);
    Ok(())
}

async fn time_many(
    plane: &Plane,
    args: &Args,
    arrivals: &Arrivals,
    prefix: &str,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for place in 0..args.singles {
        times.push(time_one(plane, arrivals, &format!("{prefix}-{place}")).await?);
        tokio::time::sleep(Duration::from_millis(args.pause)).await;
    }
    Ok(times)
}

async fn time_one(plane: &Plane, arrivals: &Arrivals, name: &str) -> anyhow::Result<Duration> {
    let mut object = deployment(name, None);
    object["metadata"]["labels"]["bench"] = "single".into();
    let began = Instant::now();
    plane.api("deployments.v1.apps").namespaced("bench").create(&object).await?;
    let key = format!("Deployment {name}");
    arrivals.wait(std::slice::from_ref(&key)).await?;
    let arrived = arrivals.last(&key).context("an arrival that was just seen")?;
    Ok(arrived.duration_since(began))
}

/// Ends and begins the control plane twice: once to count what it writes, once to see how soon a
/// change flows.
async fn restart(
    plane: &mut Plane,
    args: &Args,
    clusters: &[String],
    arrivals: &Arrivals,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "after-restart"});
    let api = plane.api("propagationpolicies.v1alpha1.policy.karmada.io").namespaced("bench");
    api.create(&policy("after-restart", selector, clusters)).await?;
    settle(plane).await?;
    let before = plane.revision();
    plane.stop_server().await?;
    let (cpu, began) = (cpu_seconds(), Instant::now());
    plane.start_server().await?;
    let served = began.elapsed().as_secs_f64();
    plane.start_controllers();
    settle(plane).await?;
    let writes = (plane.revision() - before) as f64;
    let cpu = cpu_seconds() - cpu;
    if args.writes {
        print_writes(&plane.writes().await?, args.pairs);
    }
    plane.stop_server().await?;
    let began = Instant::now();
    plane.start_server().await?;
    plane.start_controllers();
    time_one(plane, arrivals, "after-restart").await?;
    let flows = began.elapsed().as_secs_f64();
    let what = format!("restart at {} bindings: API served, s", 2 * args.pairs);
    rows.push(row(&what, served, None, "≤ 1"));
    let what = "restart: until a new object is in both members, s";
    rows.push(row(what, flows, Some(original::RESTART), ""));
    let original = original::RESTART_WRITES * args.pairs as f64;
    rows.push(row("restart: writes", writes, Some(original), "0"));
    rows.push(row("restart: CPU until quiet, s", cpu, None, ""));
    Ok(())
}

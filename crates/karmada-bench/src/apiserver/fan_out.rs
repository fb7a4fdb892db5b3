//! Many watchers of the same objects: how late they hear of a change, and what telling them costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use http_body_util::BodyExt as _;
use tokio::time::MissedTickBehavior;

use super::figures::Figures;
use super::requests::{make_namespace, map, maps};
use super::servers::Running;
use super::wire::{Ask, Wire};

const NAMESPACE: &str = "watched";
/// Watchers that share a connection; kube-apiserver allows no more requests on one.
const SHARING: usize = 100;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(1800);

/// When each event was asked for, in nanoseconds after `began`.
struct Sent {
    began: Instant,
    at: Vec<AtomicU64>,
}

impl Sent {
    fn nanos(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

pub(super) async fn measure(
    server: &Running,
    (watchers, events, pace): (usize, usize, f64),
    figures: &mut Figures,
) -> anyhow::Result<()> {
    make_namespace(&server.address, NAMESPACE).await?;
    let mut writer = server.address.connect().await?;
    let at = (0..events).map(|_| AtomicU64::new(0)).collect();
    let sent = Arc::new(Sent { began: Instant::now(), at });
    let mut watching = Vec::new();
    for wire in server.address.connect_for(watchers, SHARING).await? {
        watching.push(tokio::spawn(open(wire).await?.read(sent.clone())));
    }
    let cpu = server.cpu();
    let began = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / pace));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..events {
        ticks.tick().await;
        sent.at[number].store(sent.nanos(), Ordering::Release);
        let body = map(&format!("event-{number:06}"), 'e');
        writer.ask(Ask::post(maps(NAMESPACE), body)).await?;
    }
    let delays = tokio::time::timeout(PATIENCE, try_join_all(watching)).await;
    let delays = delays.context("watchers wait for events that do not come")??;
    let delays = delays.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let elapsed = began.elapsed().as_secs_f64();
    let cpu = server.cpu() - cpu;
    let mut delays: Vec<u32> = delays.concat();
    delays.sort_unstable();
    let ms = |share: f64| {
        let place = (delays.len().saturating_sub(1) as f64 * share).round() as usize;
        f64::from(delays.get(place).copied().unwrap_or_default()) / 1e3
    };
    let what = format!("{watchers} watchers × {events} events at {pace}/s: p50 delay, ms");
    figures.less(what, ms(0.5), "");
    figures.less("- p99 delay, ms", ms(0.99), "");
    figures.less("- CPU of the server, s", cpu, "≥ 5x");
    figures.more("- events told, per second", (watchers * events) as f64 / elapsed, "");
    Ok(())
}

struct Watch {
    body: hyper::body::Incoming,
}

async fn open(mut wire: Wire) -> anyhow::Result<Watch> {
    let response = wire.open(Ask::get(format!("{}?watch=true", maps(NAMESPACE)))).await?;
    anyhow::ensure!(response.status().is_success(), "a watch was answered {}", response.status());
    Ok(Watch { body: response.into_body() })
}

impl Watch {
    /// Reads all events, one per line; returns how late each was, in microseconds.
    async fn read(mut self, sent: Arc<Sent>) -> anyhow::Result<Vec<u32>> {
        let mut delays = Vec::with_capacity(sent.at.len());
        while delays.len() < sent.at.len() {
            let frame = self.body.frame().await.context("a watch ended early")??;
            let Ok(data) = frame.into_data() else { continue };
            let lines = data.iter().filter(|byte| **byte == b'\n').count();
            let now = sent.nanos();
            for _ in 0..lines {
                let at = sent.at.get(delays.len()).context("an event nobody has made")?;
                let late = now.saturating_sub(at.load(Ordering::Acquire)) / 1000;
                delays.push(u32::try_from(late).unwrap_or(u32::MAX));
            }
        }
        Ok(delays)
    }
}

//! Requests one after the other by many clients at once: creates, gets, patches, applies, lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use karmada_apimachinery::json;

use super::figures::Figures;
use super::servers::Running;
use super::wire::{APPLY_PATCH, Address, Ask, JSON, MERGE_PATCH};
use crate::table::percentile;

/// Clients that share a connection.
const SHARING: usize = 16;
/// How often a list is read.
const LISTS: usize = 10;
/// Makes a ConfigMap about 1 KiB long.
const PAYLOAD: usize = 850;

struct Timed {
    elapsed: Duration,
    samples: Vec<Duration>,
}

/// Lets `clients` ask `count` things together, each as soon as its last answer is there.
async fn drive(
    address: &Address,
    clients: usize,
    count: usize,
    ask: impl Fn(usize) -> Ask + Send + Sync + 'static,
) -> anyhow::Result<Timed> {
    let wires = address.connect_for(clients, SHARING).await?;
    let (next, ask) = (Arc::new(AtomicUsize::new(0)), Arc::new(ask));
    let began = Instant::now();
    let tasks = wires.into_iter().map(|mut wire| {
        let (next, ask) = (next.clone(), ask.clone());
        tokio::spawn(async move {
            let mut samples = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return anyhow::Ok(samples);
                }
                samples.push(wire.ask(ask(number)).await?.whole);
            }
        })
    });
    let samples = try_join_all(tasks).await?.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Timed { elapsed: began.elapsed(), samples: samples.concat() })
}

pub(super) fn maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// A ConfigMap of about 1 KiB.
pub(super) fn map(name: &str, fill: char) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"payload": fill.to_string().repeat(PAYLOAD)},
    })
    .to_string()
}

pub(super) async fn make_namespace(address: &Address, name: &str) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let ask = Ask::post("/api/v1/namespaces", namespace.to_string());
    address.connect().await?.ask(ask).await.map(drop)
}

/// Makes `count` objects in a namespace of their own.
async fn create(
    address: &Address,
    namespace: &str,
    writers: usize,
    count: usize,
) -> anyhow::Result<Timed> {
    make_namespace(address, namespace).await?;
    let path = maps(namespace);
    let make = move |number| Ask::post(path.clone(), map(&format!("map-{number:06}"), 'x'));
    drive(address, writers, count, make).await
}

fn tell(figures: &mut Figures, what: &str, mut timed: Timed, goal: &'static str) {
    let rate = timed.samples.len() as f64 / timed.elapsed.as_secs_f64();
    figures.more(format!("{what}, per second"), rate, goal);
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let ms = percentile(&mut timed.samples, share).as_secs_f64() * 1e3;
        figures.less(format!("- {name}, ms"), ms, "");
    }
}

/// How many objects each step touches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Objects made by 1, by 16 and by 128 writers; the last of them are listed.
    pub(super) creates: [usize; 3],
    pub(super) gets: usize,
    pub(super) patches: usize,
}

pub(super) async fn measure(
    server: &Running,
    sizes: Sizes,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let address = &server.address;
    create(address, "warm-up", 16, sizes.creates[0].min(200)).await?;
    for (writers, count) in [1, 16, 128].into_iter().zip(sizes.creates) {
        let cpu = server.cpu();
        let timed = create(address, &format!("by-{writers}"), writers, count).await?;
        let plural = if writers == 1 { "" } else { "s" };
        tell(figures, &format!("create, {writers} writer{plural}"), timed, "≥ 5x");
        let each = (server.cpu() - cpu) / count as f64 * 1e3;
        figures.less("- CPU of the server, ms each", each, "");
    }
    let listed = sizes.creates[2];
    let name = move |number: usize| format!("{}/map-{:06}", maps("by-128"), number * 7919 % listed);
    let timed = drive(address, 16, sizes.gets, move |n| Ask::get(name(n))).await?;
    tell(figures, "get, 16 readers", timed, "");
    let patch = move |number: usize| {
        let body = json!({"data": {"patched": format!("{number}")}}).to_string();
        Ask::patch(name(number), MERGE_PATCH, body)
    };
    tell(figures, "merge patch, 16 writers", drive(address, 16, sizes.patches, patch).await?, "");
    let apply = move |number: usize| {
        let wanted = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("map-{:06}", number * 7919 % listed)},
            "data": {"applied": format!("{number}")},
        });
        let path = format!("{}?fieldManager=bench&force=true", name(number));
        Ask::patch(path, APPLY_PATCH, wanted.to_string())
    };
    tell(figures, "apply, 16 writers", drive(address, 16, sizes.patches, apply).await?, "");
    list(address, listed, figures).await
}

async fn list(address: &Address, count: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let mut wire = address.connect().await?;
    let (mut first, mut whole, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..LISTS {
        let answer = wire.ask(Ask::get(maps("by-128"))).await?;
        first.push(answer.first_byte);
        whole.push(answer.whole);
        bytes = answer.body.len();
    }
    anyhow::ensure!(
        bytes > count * PAYLOAD,
        "a list of {count} objects has {bytes} bytes of {JSON}"
    );
    let ms = |samples: &mut [Duration]| percentile(samples, 0.5).as_secs_f64() * 1e3;
    figures.less(format!("LIST of {count}, first byte, ms"), ms(&mut first), "");
    figures.less("- whole, ms", ms(&mut whole), "≥ 5x");
    Ok(())
}

//! What the store can do: durable writes alone and in company, reads, ranges, watches, opening.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use futures::future::try_join_all;
use karmada_store::{Embedded, Expect, Memory, RangeQuery, Store, Update};

use crate::table::{self, micros, peak_rss_mb, per_second, percentile};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Objects in the store
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Size of an object in bytes
    #[arg(long, default_value_t = 1950)]
    size: usize,
    /// Writes measured one after the other
    #[arg(long, default_value_t = 2000)]
    single: usize,
    /// Writers that write at the same time
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Watchers that follow all writes
    #[arg(long, default_value_t = 100)]
    watchers: usize,
    /// Where the store lies; a temporary directory if not given
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Objects are spread over this many prefixes.
const PREFIXES: usize = 100;

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start the runtime")?;
    runtime.block_on(async {
        let temporary;
        let dir = match &args.dir {
            Some(dir) => dir,
            None => {
                temporary = tempfile::tempdir().context("make a temporary directory")?;
                temporary.path()
            }
        };
        let mut rows = Vec::new();
        measure("memory", Arc::new(Memory::new()), &args, &mut rows).await?;
        let store = Arc::new(Embedded::open(dir)?);
        measure("embedded", store, &args, &mut rows).await?;
        // The store is closed when the last of the tasks has let go of it.
        let started = Instant::now();
        let store = Embedded::open(dir)?;
        rows.push(row("embedded", "open", 1, started.elapsed(), &mut [started.elapsed()]));
        anyhow::ensure!(store.revision() > args.objects as i64, "objects are missing");
        table::print(&["backend", "what", "count", "per second", "p50 µs", "p99 µs"], &rows);
        if let Some(peak) = peak_rss_mb() {
            table::print(&["peak memory", "MB"], &[vec![String::new(), peak.to_string()]]);
        }
        Ok(())
    })
}

async fn measure(
    backend: &str,
    store: Arc<dyn Store>,
    args: &Args,
    rows: &mut Vec<Vec<String>>,
) -> anyhow::Result<()> {
    let value = bytes::Bytes::from(vec![b'x'; args.size]);
    let mut add = |what: &str, count, elapsed, samples: &mut [Duration]| {
        rows.push(row(backend, what, count, elapsed, samples));
    };
    let started = Instant::now();
    let mut samples = write_together(&store, args.objects, 512, &value).await?;
    add("load, 512 writers", args.objects, started.elapsed(), &mut samples);

    let started = Instant::now();
    let mut samples = write_together(&store, args.single, 1, &value).await?;
    add("write, 1 writer", args.single, started.elapsed(), &mut samples);

    let (count, what) = (args.single * 10, format!("write, {} writers", args.writers));
    let started = Instant::now();
    let mut samples = write_together(&store, count, args.writers, &value).await?;
    add(&what, count, started.elapsed(), &mut samples);

    let started = Instant::now();
    let mut samples = Vec::with_capacity(args.objects);
    for number in 0..args.objects {
        // A stride that shares no factor with the number of objects visits them out of order.
        let one = Instant::now();
        store.get(&key((number * 7919) % args.objects), None).await?.context("read an object")?;
        samples.push(one.elapsed());
    }
    add("read", args.objects, started.elapsed(), &mut samples);

    let started = Instant::now();
    let mut samples = Vec::with_capacity(PREFIXES);
    let mut seen = 0;
    for prefix in 0..PREFIXES {
        let one = Instant::now();
        seen += store.range(RangeQuery::prefix(format!("/registry/{prefix:03}/"))).await?.count;
        samples.push(one.elapsed());
    }
    add("objects in ranges", seen, started.elapsed(), &mut samples);

    let (elapsed, mut samples, count) = fan_out(&store, args, &value).await?;
    add(&format!("events to {} watchers", args.watchers), count, elapsed, &mut samples);

    let started = Instant::now();
    let revisions = store.revision() - store.compacted_revision();
    store.compact(store.revision()).await?;
    let elapsed = started.elapsed();
    add("revisions compacted", usize::try_from(revisions)?, elapsed, &mut [elapsed]);
    Ok(())
}

/// Writes `count` objects by `writers` tasks; returns how long each write took.
async fn write_together(
    store: &Arc<dyn Store>,
    count: usize,
    writers: usize,
    value: &bytes::Bytes,
) -> anyhow::Result<Vec<Duration>> {
    let tasks = (0..writers).map(|writer| {
        let (store, value) = (store.clone(), value.clone());
        tokio::spawn(async move {
            let mut samples = Vec::new();
            for number in (writer..count).step_by(writers) {
                let one = Instant::now();
                store.put(&key(number), value.clone().into(), Expect::Any).await?;
                samples.push(one.elapsed());
            }
            Ok::<_, karmada_store::Error>(samples)
        })
    });
    let samples = try_join_all(tasks).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(samples.concat())
}

/// Lets many watchers follow the same writes; returns how long each had to wait for the last one.
async fn fan_out(
    store: &Arc<dyn Store>,
    args: &Args,
    value: &bytes::Bytes,
) -> anyhow::Result<(Duration, Vec<Duration>, usize)> {
    let mut watches = Vec::new();
    for _ in 0..args.watchers {
        watches.push(store.watch("/registry/", store.revision()).await?);
    }
    let started = Instant::now();
    let last = store.revision() + args.single as i64;
    let watching = watches.into_iter().map(|mut watch| {
        tokio::spawn(async move {
            while let Some(Ok(update)) = watch.next().await {
                if matches!(update, Update::Event(event) if event.revision() == last) {
                    break;
                }
            }
            started.elapsed()
        })
    });
    let watching: Vec<_> = watching.collect();
    write_together(store, args.single, args.writers, value).await?;
    let samples = try_join_all(watching).await?;
    Ok((started.elapsed(), samples, args.single * args.watchers))
}

fn key(number: usize) -> String {
    format!("/registry/{:03}/{number:07}", number % PREFIXES)
}

fn row(
    backend: &str,
    what: &str,
    count: usize,
    elapsed: Duration,
    samples: &mut [Duration],
) -> Vec<String> {
    vec![
        backend.to_owned(),
        what.to_owned(),
        count.to_string(),
        per_second(count, elapsed),
        micros(percentile(samples, 0.5)),
        micros(percentile(samples, 0.99)),
    ]
}

//! Random stories, one per seed: templates, policies and overrides come, change and go while
//! members fail in every way we know, clusters are tainted and the control plane is killed. Whatever
//! happens,
//!
//! - nothing leaves a member without a decision that says so; a taint is one for those that do not
//!   tolerate it, once their time is over, and where the copy is to stay until it is replaced it stays,
//! - no change that was acknowledged is lost,
//! - a healthy member gets every change at once, however ill the others are,
//! - once everything is healed, the members are what templates, policies and overrides say, the
//!   states are rolled up, and then nobody writes any more.
//!
//! `KARMADA_SEEDS=10000 ./test seeds` runs so many, on `KARMADA_SEED_THREADS` threads;
//! `KARMADA_SEED=42 ./test seeds` tells one.

mod check;
mod model;
mod story;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

const DEFAULT_SEEDS: u64 = 10;
/// How many stories are told by one process.
const BATCH: u64 = 50;
const NAME: &str = "seeds::whatever_happens_nothing_is_lost_and_everything_converges";
/// What a line begins with that tells how a story is told again.
const AGAIN: &str = "run again: KARMADA_SEED=";
/// Lines of the trace that are shown of a story that failed.
const SHOWN: usize = 120;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Tells one story to its end; the error is what a person needs to see.
fn tell(seed: u64) -> Result<(), String> {
    let told = catch_unwind(AssertUnwindSafe(|| {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(story::tell(seed))
    }));
    told.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_default())
    })
}

/// Tells stories one after the other; returns the seeds of those that failed.
fn tell_all(seeds: Range<u64>) -> Vec<u64> {
    let fails = |seed: &u64| {
        let told = tell(*seed);
        if let Err(why) = &told {
            println!("seed {seed}: {why}\n{AGAIN}{seed} ./test seeds");
        }
        told.is_err()
    };
    seeds.filter(fails).collect()
}

/// The same in a process of its own, so that one that falls over takes few with it.
fn tell_apart(seeds: Range<u64>) -> Vec<u64> {
    let program = std::env::current_exe().expect("this program");
    let told = Command::new(program)
        .args(["--exact", "--nocapture", NAME])
        .env("KARMADA_FIRST_SEED", seeds.start.to_string())
        .env("KARMADA_SEEDS", (seeds.end - seeds.start).to_string())
        .env("KARMADA_SEED_THREADS", "1")
        .output()
        .expect("this program runs");
    if told.status.success() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&told.stdout);
    println!("{text}{}", String::from_utf8_lossy(&told.stderr));
    let failed = text.lines().filter_map(|line| line.strip_prefix(AGAIN)?.split(' ').next());
    let failed: Vec<u64> = failed.filter_map(|seed| seed.parse().ok()).collect();
    // One that ended the process did not say its name.
    if failed.is_empty() { seeds.collect() } else { failed }
}

#[test]
fn whatever_happens_nothing_is_lost_and_everything_converges() {
    if let Some(seed) = number("KARMADA_SEED") {
        if let Err(why) = tell(seed) {
            panic!("seed {seed}: {why}");
        }
        return;
    }
    let first = number("KARMADA_FIRST_SEED").unwrap_or(1);
    let count = number("KARMADA_SEEDS").unwrap_or(DEFAULT_SEEDS);
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = number("KARMADA_SEED_THREADS").and_then(|count| count.try_into().ok());
    let threads = threads.unwrap_or_else(all);
    let (stride, is_long) = if count > BATCH { (BATCH, true) } else { (1, false) };
    let (next, told, failed) = (AtomicU64::new(first), AtomicU64::new(0), Mutex::new(Vec::new()));
    let (began, end) = (Instant::now(), first + count);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(stride, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let seeds = seed..end.min(seed + stride);
                    let number = seeds.end - seeds.start;
                    let bad = if is_long { tell_apart(seeds) } else { tell_all(seeds) };
                    failed.lock().extend(bad);
                    let told = told.fetch_add(number, Ordering::Relaxed) + number;
                    if is_long {
                        let (took, failed) = (began.elapsed().as_secs(), failed.lock());
                        println!("{told} of {count} seeds after {took} s, failed: {failed:?}");
                    }
                }
            });
        }
    });
    let each = began.elapsed().as_millis() / u128::from(count.max(1));
    println!("{count} seeds from {first}, {each} ms each on {threads} threads");
    let failed = failed.into_inner();
    assert!(failed.is_empty(), "seeds {failed:?} failed");
}

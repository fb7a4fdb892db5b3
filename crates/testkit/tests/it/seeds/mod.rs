//! Random stories, one per seed: templates, policies and overrides come, change and go while
//! members fail in every way we know and the control plane is killed. Whatever happens,
//!
//! - nothing leaves a member without a decision that says so,
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

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

const DEFAULT_SEEDS: u64 = 10;
/// How many stories are told before a word is said about it.
const STRIDE: u64 = 100;
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
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let began = Instant::now();
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = number("KARMADA_SEED_THREADS").and_then(|count| count.try_into().ok());
    let threads = threads.unwrap_or_else(all);
    let told = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    if let Err(why) = tell(seed) {
                        println!("seed {seed}: {why}\nrun again: KARMADA_SEED={seed} ./test seeds");
                        failed.lock().push(seed);
                    }
                    let told = told.fetch_add(1, Ordering::Relaxed) + 1;
                    if told.is_multiple_of(STRIDE) && told < count {
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

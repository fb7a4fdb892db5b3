//! Counts how often and how much the allocator of the product is asked for, for benchmarks that
//! state it. With `KARMADA_BENCH_HEAP=1` it also samples who holds the memory.
#![allow(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mimalloc::MiMalloc;
use parking_lot::Mutex;

struct Counting;

/// Off where nobody states it: counters that all threads share cost more than the allocations.
static COUNTED: AtomicBool = AtomicBool::new(true);
static ASKED: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed to the product's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTED.load(Ordering::Relaxed) {
            ASKED.fetch_add(1, Ordering::Relaxed);
            LIVE.fetch_add(layout.size() as u64, Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        let pointer = unsafe { MiMalloc.alloc(layout) };
        if SAMPLING.load(Ordering::Relaxed) {
            sample(pointer as usize, layout.size());
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if COUNTED.load(Ordering::Relaxed) {
            LIVE.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        }
        if SAMPLING.load(Ordering::Relaxed) {
            forget(pointer as usize);
        }
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Stops counting for the rest of the process.
pub(crate) fn do_not_count() {
    COUNTED.store(false, Ordering::Relaxed);
}

/// How often memory was asked for since the start.
pub(crate) fn count() -> u64 {
    ASKED.load(Ordering::Relaxed)
}

/// How much memory is in use, in bytes.
pub(crate) fn live() -> u64 {
    LIVE.load(Ordering::Relaxed)
}

/// One allocation is looked at after so many bytes.
const EVERY: usize = 16 << 10;

static SAMPLING: AtomicBool = AtomicBool::new(false);
static SAMPLES: Mutex<Option<HashMap<usize, (usize, String)>>> = Mutex::new(None);

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(EVERY) };
    static SEED: Cell<u64> = const { Cell::new(1) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Begins to sample if the environment asks for it.
pub(crate) fn begin() {
    if std::env::var_os("KARMADA_BENCH_HEAP").is_some() {
        *SAMPLES.lock() = Some(HashMap::new());
        SAMPLING.store(true, Ordering::Relaxed);
    }
}

/// How far it is to the next sample: `EVERY` on average and never the same, since a loop that asks for the same again and
/// again would always be met at the same place.
fn next_distance() -> usize {
    let number =
        SEED.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    SEED.set(number);
    (number >> 33) as usize % (2 * EVERY)
}

fn sample(pointer: usize, size: usize) {
    if INSIDE.get() {
        return;
    }
    let left = LEFT.get();
    if size < left {
        return LEFT.set(left - size);
    }
    LEFT.set(next_distance());
    INSIDE.set(true);
    let stack = std::backtrace::Backtrace::force_capture().to_string();
    if let Some(samples) = &mut *SAMPLES.lock() {
        samples.insert(pointer, (size.max(EVERY), stack));
    }
    INSIDE.set(false);
}

fn forget(pointer: usize) {
    if INSIDE.get() {
        return;
    }
    INSIDE.set(true);
    if let Some(samples) = &mut *SAMPLES.lock() {
        samples.remove(&pointer);
    }
    INSIDE.set(false);
}

/// Prints who holds the memory, the largest first, if it was sampled.
#[allow(clippy::print_stdout, reason = "the profile is what was asked for")]
pub(crate) fn report() {
    if !SAMPLING.swap(false, Ordering::Relaxed) {
        return;
    }
    let samples = SAMPLES.lock().take().unwrap_or_default();
    let mut holders: HashMap<String, usize> = HashMap::new();
    for (size, stack) in samples.into_values() {
        // The functions of this project tell most.
        let names = stack.lines().filter_map(|line| line.split_once(": ")).map(|(_, name)| name);
        let ours = names.filter(|name| name.contains("karmada_") && !name.contains("allocations"));
        let told: Vec<&str> = ours.map(str::trim).take(6).collect();
        *holders.entry(told.join(" < ")).or_default() += size;
    }
    let mut holders: Vec<_> = holders.into_iter().collect();
    holders.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    for (who, size) in holders.into_iter().take(60) {
        println!("{:>8} KB  {who}", size / 1024);
    }
}

//! Every target on seeds and changed seeds, on any toolchain. `FUZZ_RUNS` says how many changed seeds each
//! gets, `FUZZ_SEED` where the changes begin; a failure prints its input.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use karmada_fuzz::mutate::{Dice, mutate};
use karmada_fuzz::{TARGETS, run};

/// No input may take longer, even in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn survives(name: &str, runs: u64) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("no such target");
    let seeds = (target.seeds)();
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found").join(name);
    for entry in std::fs::read_dir(found).into_iter().flatten() {
        let path = entry.expect("list what was found").path();
        feed(name, &std::fs::read(path).expect("read what was found"));
    }
    for input in &seeds {
        feed(name, input);
    }
    let mut dice = Dice::new(number("FUZZ_SEED", 1));
    for _ in 0..number("FUZZ_RUNS", runs) {
        feed(name, &mutate(&seeds, &mut dice));
    }
}

fn feed(name: &str, input: &[u8]) {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| run(name, input)));
    let shown = String::from_utf8_lossy(input);
    assert!(outcome.is_ok(), "{name} does not survive: {shown}");
    assert!(began.elapsed() < PATIENCE, "{name} takes {:?} for: {shown}", began.elapsed());
}

macro_rules! targets {
    ($($name:ident $runs:literal,)*) => {
        $( #[test] fn $name() { survives(stringify!($name), $runs) } )*
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    schedule 1500,
    overrides 1000,
    interpret 500,
    lua 300,
    admission 400,
    cluster 1000,
    conversion 1000,
    json 500,
    yaml 500,
    protobuf 2000,
    json_patch 1000,
    merge_patch 500,
    strategic_patch 500,
    apply 300,
    selectors 2000,
    jsonpath 2000,
    quantity 3000,
    cel 1000,
    csr 500,
    continue_token 3000,
}

#[test]
fn no_target_is_left_out() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, TESTED);
    for name in names {
        let wrapper = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/fuzz_targets")
            .join(format!("{name}.rs"));
        assert!(wrapper.exists(), "{name} has no libFuzzer wrapper");
    }
}

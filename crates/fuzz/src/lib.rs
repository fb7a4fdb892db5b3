//! Entry points that must survive any bytes: a target takes input from anywhere, feeds it to one part of the
//! system and panics only where a promise is broken.
//!
//! The same functions are run two ways: `fuzz/` wraps them for libFuzzer (`cargo fuzz run schedule`, needs a
//! nightly toolchain), and `tests/bounded.rs` feeds them seeds and [`mutate`]d seeds on any toolchain. A new
//! target is a row in [`TARGETS`], a line in `tests/bounded.rs` and a file in `fuzz/fuzz_targets`.

// Expectations are the point of this crate: a broken one must end the process.
#![allow(clippy::unwrap_used)]

mod admission;
mod cores;
pub mod mutate;
mod seeds;
mod wire;

/// One part of the system under arbitrary input.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Inputs that reach deep, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "schedule", run: cores::schedule, seeds: seeds::schedule },
    Target { name: "overrides", run: cores::overrides, seeds: seeds::overrides },
    Target { name: "interpret", run: cores::interpret, seeds: seeds::interpret },
    Target { name: "lua", run: cores::lua, seeds: seeds::lua },
    Target { name: "admission", run: admission::hooks, seeds: seeds::admission },
    Target { name: "cluster", run: admission::cluster, seeds: seeds::cluster },
    Target { name: "conversion", run: admission::conversion, seeds: seeds::conversion },
    Target { name: "json", run: wire::json, seeds: seeds::json },
    Target { name: "yaml", run: wire::yaml, seeds: seeds::yaml },
    Target { name: "protobuf", run: wire::protobuf, seeds: seeds::protobuf },
    Target { name: "json_patch", run: wire::json_patch, seeds: seeds::json_patch },
    Target { name: "merge_patch", run: wire::merge_patch, seeds: seeds::merge_patch },
    Target { name: "strategic_patch", run: wire::strategic_patch, seeds: seeds::merge_patch },
    Target { name: "apply", run: wire::apply, seeds: seeds::merge_patch },
    Target { name: "selectors", run: wire::selectors, seeds: seeds::selectors },
    Target { name: "jsonpath", run: wire::jsonpath, seeds: seeds::jsonpath },
    Target { name: "quantity", run: wire::quantity, seeds: seeds::quantity },
    Target { name: "cel", run: wire::cel, seeds: seeds::cel },
    Target { name: "csr", run: wire::csr, seeds: seeds::csr },
    Target { name: "continue_token", run: wire::continue_token, seeds: seeds::continue_token },
];

/// Feeds one input to the target of that name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("no such target").run)(data);
}

//! Promises of the store, kept by every backend.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conformance;
mod crash;
mod damage;
mod encryption;
mod etcd;
mod kms;
mod kms_plugin;
mod model;
mod packing;
mod servers;
mod snapshot;

/// Fails when a file of this directory is missing from the list above.
#[test]
fn every_file_here_is_part_of_the_tests() {
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || listed.contains(&format!("mod {module};")), "{name}");
    }
}

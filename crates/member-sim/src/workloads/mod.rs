//! The controllers of a cluster that runs workloads, each reading and writing nothing but the API.

#![allow(dead_code, reason = "the controllers that use all of it are being added one by one")]

mod expectations;
mod ownership;
mod pods;
mod revision;

use karmada_runtime::Manager;

/// One controller: its name as `kube-controller-manager --controllers` spells it, and its start.
pub struct Entry {
    pub name: &'static str,
    start: fn(&Manager),
}

#[rustfmt::skip]
pub const CONTROLLERS: &[Entry] = &[
];

/// Starts all of them.
pub fn start(manager: &Manager) {
    for entry in CONTROLLERS {
        tracing::debug!(controller = entry.name, "starting");
        (entry.start)(manager);
    }
}

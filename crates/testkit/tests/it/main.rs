//! Scenarios of the whole system on virtual time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent;
mod alterations;
mod autoscaling;
mod clusters;
mod conflicts;
mod determinism;
mod economy;
mod failover;
mod failures;
mod journeys;
mod pieces;
mod placement;
mod pull;
mod remains;
mod seeds;
mod services;
mod travels;

/// The one the program has: thousands of stories are told with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

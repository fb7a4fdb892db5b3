//! The scheduler against an API server in memory, on a paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod birth;
mod metrics;
mod plane;
mod queueing;
mod scheduling;

//! Karmada's controllers on an API server in memory with simulated members, on a paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod agent_certificates;
mod autoscaling;
mod bare;
mod claims;
mod cluster_api;
mod conflicts;
mod delivery;
mod dependencies;
mod endings;
mod interpretation;
mod metrics;
mod namespaces;
mod plane;
mod quota;
mod rebalance;
mod reports;
mod trouble;
mod webhooks;

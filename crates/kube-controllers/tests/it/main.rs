//! The controllers of the control plane against a real API server on the memory store, in one
//! process and on a paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cluster;
mod garbage;
mod handover;
mod identities;
mod namespaces;
mod remote;
mod upkeep;

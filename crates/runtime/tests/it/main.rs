//! The runtime against a small API server that can be made to fail in every way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fake_server;
mod informers;
mod leases;

//! A whole member in process, on a paused clock.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod faults;
mod member;
mod start;
mod workloads;

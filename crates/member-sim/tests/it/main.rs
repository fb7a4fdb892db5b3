//! A whole member in process, on a paused clock.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod autoscaler;
mod faults;
mod job;
mod kubectl;
mod member;
mod scheduling;
mod services;
mod start;
mod statefulset;
mod workloads;

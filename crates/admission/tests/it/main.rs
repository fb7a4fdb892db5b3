//! What the crate promises, tried from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

mod laws;
mod normalise;
mod plane;
mod replay;
mod round_trip;
mod rules;
mod webhook;

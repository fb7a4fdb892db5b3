//! What the crate promises, tried from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

mod laws;
mod normalise;
mod plane;
mod replay;
mod rules;
mod webhook;

//! What the crate promises to its users, tried from outside.
#![allow(clippy::unwrap_used, reason = "tests")]

mod crds;
mod round_trip;

//! The built binary, judged by programs we did not write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod golden;
mod webhook;

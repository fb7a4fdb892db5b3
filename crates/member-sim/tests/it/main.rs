//! A whole member in process, on a paused clock.

mod member;
mod start;

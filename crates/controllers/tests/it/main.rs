//! Karmada's controllers on an API server in memory with simulated members, on a paused clock.

mod delivery;
mod plane;

//! Scenarios of the whole system on virtual time.

mod alterations;
mod clusters;
mod determinism;
mod economy;
mod failures;
mod journeys;
mod pieces;
mod placement;
mod seeds;

//! Scenarios of the whole system on virtual time.

mod clusters;

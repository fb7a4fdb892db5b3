//! Karmada's controllers, grouped by what they are about and listed in one table ([`registry`]).
//!
//! | group | what it keeps true |
//! |---|---|
//! | [`members`] | every joined cluster has a client, caches and a lane of its own |

pub mod context;
pub mod members;
pub mod registry;

//! HTTP as such: bodies, query strings, negotiation, the listener and the filters every request passes.

pub mod body;
pub mod filters;
mod gather;
pub mod listener;
pub mod negotiate;
pub mod query;
pub mod relay;
pub mod respond;

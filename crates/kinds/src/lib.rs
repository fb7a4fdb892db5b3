//! The kinds built into Kubernetes 1.36: their resource table, defaults, update rules, validation
//! and table columns, as functions of values.
//!
//! Nothing here does I/O or reads the clock: uid, time and random suffixes are arguments.

pub mod admission;
pub mod convert;
pub mod defaults;
pub mod expressions;
pub mod fields;
pub mod limits;
pub mod ownership;
pub mod quota;
pub mod resource;
pub mod schema;
pub mod security;
pub mod service;
pub mod strategy;
pub mod subresource;
pub mod table;
pub mod validation;
pub mod warnings;

pub use resource::{Resource, Subresource, find, find_kind, resources};

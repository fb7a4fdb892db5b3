//! Which policy claims an object; building bindings and Works; overrides; status aggregation.
//!
//! Functions of values: a controller gathers, calls one of these, and writes what it returns.

pub mod binding;
pub mod claim;
pub mod delivery;
pub mod dependencies;
pub mod overrides;
pub mod policies;
pub mod selector;
pub mod services;
pub mod status;
pub mod work;

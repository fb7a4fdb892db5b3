//! From a template to the members: which policy claims it, which Works its binding leads to and how
//! they are delivered.

pub(crate) mod binding;
pub(crate) mod dependencies;
pub mod detector;
pub mod execution;
mod metrics;
pub(crate) mod namespace_sync;
pub(crate) mod templates;
pub(crate) mod works;

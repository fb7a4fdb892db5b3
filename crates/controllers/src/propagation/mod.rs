//! From a template to the members: which Works a binding leads to and how they are delivered.

pub(crate) mod binding;
pub mod execution;
pub(crate) mod templates;
pub(crate) mod works;

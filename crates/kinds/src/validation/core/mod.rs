//! The core group: pods and everything around them.

pub(crate) mod config;
pub(crate) mod container;
mod env;
pub(crate) mod node;
pub(crate) mod persistent;
pub(crate) mod pod;
mod pod_status;
mod probes;
mod projected;
pub(crate) mod quota;
mod resize;
pub(crate) mod resources;
pub(crate) mod scheduling;
pub(crate) mod security;
pub(crate) mod service;
pub(crate) mod volumes;

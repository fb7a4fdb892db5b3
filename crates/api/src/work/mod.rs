//! `work.karmada.io`: what the scheduler decided (bindings) and what a member is sent (Works).

mod binding;
pub mod v1alpha1;
mod work_object;

pub use binding::*;
pub use work_object::*;

pub const GROUP: &str = "work.karmada.io";

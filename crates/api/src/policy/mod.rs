//! `policy.karmada.io/v1alpha1`: where objects go and how they differ there.

mod overrides;
mod propagation;
mod quota;
mod taint;

pub use overrides::*;
pub use propagation::*;
pub use quota::*;
pub use taint::*;

pub const GROUP: &str = "policy.karmada.io";

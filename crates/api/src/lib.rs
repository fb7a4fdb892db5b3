//! The kinds of Karmada: types, labels, derived names, conditions, event reasons, CRDs.
//!
//! Types follow the wire exactly: a round trip through them changes nothing that the original would keep.
//! They are light (serde only); nothing here talks to a server. Kinds are grouped as the API groups are:
//! [`policy`], [`work`], [`cluster`], [`config`], [`autoscaling`], [`networking`], [`apps`], [`remedy`],
//! [`search`], [`multicluster`], [`operator`]. Twins of two scopes are handled through the traits of [`scopes`].

// The macro that defines the types recurses once per field.
#![recursion_limit = "256"]

pub mod affinity;
pub mod annotations;
pub mod apps;
pub mod autoscaling;
pub mod cluster;
pub mod conditions;
pub mod config;
pub mod core;
pub mod crd;
pub mod event_reason;
pub mod explain;
pub mod features;
pub mod finalizers;
pub mod form;
pub mod hpa;
pub mod ingress;
pub mod labels;
pub mod manifest;
pub mod meta;
pub mod multicluster;
pub mod names;
pub mod native;
pub mod networking;
pub mod operator;
pub mod placing;
pub mod policy;
mod quantity;
pub mod remedy;
pub mod scopes;
pub mod search;
pub mod taints;
mod time;
pub mod wire;
pub mod work;

pub use meta::{Condition, Kind, LabelSelector, ObjectMeta};
pub use scopes::{Binding, OverridingPolicy, Policy};

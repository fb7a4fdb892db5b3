//! Defaulting and validation of Karmada kinds as functions of values.
//!
//! A [`Hook`] is one rule set for one kind, under the name and path by which the original registers it. The
//! API server runs the mutating ones, then its own schema validation, then the validating ones ([`mutate`],
//! [`validate`]); `karmada webhook` serves the same hooks over HTTP ([`review`]). What a rule must know beyond
//! the object comes through [`Environment`]; nothing here reads the clock or the network.
//!
//! `Cluster` and `ResourceRegistry` are served natively and have strategies instead of hooks: [`cluster`],
//! [`registry`].

pub mod cluster;
pub mod convert;
mod decode;
mod hooks;
mod lua;
pub mod registry;
mod request;
pub mod review;
mod rules;
mod show;
mod url;

pub use hooks::{Hook, Phase, admit, concerned, hooks, mutate, validate};
pub use request::{Admitted, Denial, Environment, Operation, QuotaUse, Request, Settings, Verdict};
pub use review::{Registration, mutating_configuration, registrations, validating_configuration};
pub use rules::quota_enforcement::usage as quota_usage;

//! A generic Kubernetes API server; knows no Karmada kind.

pub mod auth;
pub mod pki;

//! A generic Kubernetes API server; knows no Karmada kind.
//!
//! The way of a request: [`http`] (listener, filters) → [`auth`] → `routes` → `handlers` or
//! `subresources` → `registry` (what the kind does) → store. Reads come from `cache`, which follows
//! the store. [`Server`] puts it together; [`Handle`] serves callers in the same process.

pub mod admission;
mod allocator;
pub mod auth;
mod bootstrap;
pub mod cache;
mod call;
mod codec;
mod config;
mod crd;
mod discovery;
mod endpoints;
mod handlers;
pub mod http;
mod internal;
mod managed;
mod metrics;
mod openapi;
pub mod pki;
pub mod registry;
mod routes;
mod server;
mod service;
mod state;
mod subresources;

pub use config::{Config, Role};
pub use server::{ActingAs, Builder, Error, ExtraMetrics, Handle, Native, Server, Trust};

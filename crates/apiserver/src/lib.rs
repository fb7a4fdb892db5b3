//! A generic Kubernetes API server; knows no Karmada kind.
//!
//! The way of a request: [`http`] (listener, filters) → [`auth`] → `routes` → `handlers` or
//! `subresources` → `registry` (what the kind does) → store. Reads come from `cache`, which follows
//! the store. [`Server`] puts it together; [`Handle`] serves callers in the same process.
//!
//! # Connections
//!
//! Subresources with streams (`pods/log`, `pods/exec`, `clusters/proxy`) are served by the embedding
//! program: [`Handle::connect`] (or [`Builder::connect`]) registers a [`connect::Connect`] for group,
//! resource and subresource. It is called with a [`connect::Connection`] once the request is
//! authenticated, authorized and admitted; its response is passed on as it is, streams and
//! `101 Switching Protocols` included. The subresource must be in the served table; built-in kinds
//! have theirs, a [`Native`] lists its own. Without a connector, pods answer as if no node could be reached.

pub mod admission;
pub mod aggregation;
mod allocator;
mod announce;
pub mod audit;
pub mod auth;
mod bootstrap;
pub mod cache;
mod call;
mod chance;
mod codec;
mod computed;
mod config;
pub mod connect;
mod conversions;
mod crd;
mod dangling;
mod discovery;
mod endpoints;
mod expiry;
mod handlers;
pub mod http;
mod internal;
mod lanes;
mod managed;
mod metrics;
mod openapi;
pub mod paging;
pub mod pki;
mod produce;
pub mod registry;
mod routes;
mod server;
mod service;
mod services;
mod state;
mod subresources;

pub use chance::Chance;
pub use computed::{Computed, Entrance, Passage};
pub use config::{Config, History, Role};
pub use server::{ActingAs, Builder, Error, ExtraMetrics, Handle, Native, Server, Trust};

/// Unpacks what is known of the built-in kinds. The first request that needs it would do it otherwise.
pub fn unpack_schemas() {
    karmada_kinds::schema::definitions();
}

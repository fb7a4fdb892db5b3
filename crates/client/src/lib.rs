//! A Kubernetes client that works on objects of any kind, over HTTPS or straight into an API
//! server of the same process. What it says and understands is the Kubernetes API and nothing else.
//!
//! Connections (kubeconfig, exec plugins, TLS) are those of [`kube`], through proxies they are made
//! by [`tunnel`]; [`Client::kube`] gives access to them where typed requests are wanted.

mod alike;
mod api;
mod connect;
mod discovery;
mod error;
mod object;
pub mod request;
mod slim;
pub mod tunnel;
mod watch;

pub use kube::client::Body;

pub use api::{
    Api, DeleteOptions, List, ListOptions, Patch, PatchOptions, Propagation, WatchOptions,
};
pub use connect::{Client, Warden};
pub use discovery::{ApiResource, Discovery, Edition};
pub use error::{ApiError, Error, Result};
pub use object::{Meta, Object, OwnerReference};
pub use watch::{WatchEvent, WatchStream};

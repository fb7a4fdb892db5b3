//! A Kubernetes cluster without machines: the API server in its `member` role on the memory store,
//! simulated nodes and pods, and the controllers that make workloads live.
//!
//! ```no_run
//! # async fn example() -> Result<(), karmada_member_sim::Error> {
//! use karmada_member_sim::{Config, Nodes, Sim};
//!
//! let config = Config { nodes: Nodes { count: 3, ..Nodes::default() }, ..Config::named("m1") };
//! let member = Sim::start(config).await?;
//! let inside = member.client(); // an administrator inside the cluster, untouched by faults
//! let outside = member.remote_client_with_token("…"); // what the network lets through
//! member.faults().partition();
//! member.faults().heal();
//! member.stop().await;
//! # Ok(()) }
//! ```
//!
//! - No socket is opened unless [`Config::listen`] names an address; then [`Sim::kubeconfig`] and
//!   [`Sim::endpoint`] lead there.
//! - With a virtual [`Config::clock`] and tokio's time paused everything in it, certificates and
//!   leases included, goes by that clock.
//! - [`Faults`] makes the network or the machines fail; what stands inside the cluster keeps working.
//! - A pod's life can be scripted by annotations of the pod and by faults; see [`pods`].

mod config;
mod control;
mod faults;
mod keys;
mod kubelet;
mod listen;
mod network;
mod nodes;
pub mod pods;
mod scheduler;
mod sim;
pub mod workloads;

pub use config::{Config, Nodes};
pub use control::{ControlError, set_faults};
pub use faults::{Fault, Faults, Link, ParseFault, Trouble};
pub use keys::Keyring;
pub use network::Network;
pub use pods::{ParseTimeline, Timeline};
pub use sim::{Error, Sim};
pub use workloads::{AddressPool, NoPool};

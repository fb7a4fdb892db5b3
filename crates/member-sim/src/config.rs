//! How a simulated member is set up.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use karmada_apiserver::pki::Pki;
use karmada_runtime::Clock;
use karmada_store::Store;

use crate::pods::Timeline;
use crate::workloads::AddressPool;

/// A member cluster to be.
#[derive(Clone)]
pub struct Config {
    /// Nodes are named after it.
    pub name: String,
    pub nodes: Nodes,
    /// Where to serve HTTPS; port 0 takes any free one. Nothing opens a socket.
    pub listen: Option<SocketAddr>,
    /// Where certificates are kept, so that a restarted member is the same one; memory unless given.
    pub pki_dir: Option<PathBuf>,
    /// Certificates that were made before; it makes its own unless given.
    pub pki: Option<Arc<Pki>>,
    /// Where objects are kept; memory unless given.
    pub store: Option<Arc<dyn Store>>,
    /// Where [`crate::set_faults`] finds the member; nowhere unless given.
    pub control: Option<PathBuf>,
    pub clock: Clock,
    /// What everything random is drawn from; ids come from the machine if it is zero.
    pub seed: u64,
    /// Where addresses of load balancers come from; there are none unless given.
    pub load_balancers: Option<AddressPool>,
    /// How pods live that do not say otherwise themselves.
    pub timeline: Timeline,
    /// Addresses of this machine that stand for ports of pods when these are forwarded.
    pub forwards: BTreeMap<u16, String>,
    /// How often nodes renew their leases; never if zero.
    pub heartbeat: Duration,
}

impl Config {
    /// A member with three nodes, in memory, on the machine's clock.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            nodes: Nodes::default(),
            listen: None,
            pki_dir: None,
            pki: None,
            store: None,
            control: None,
            clock: Clock::real(),
            seed: 0,
            load_balancers: None,
            timeline: Timeline::default(),
            forwards: BTreeMap::new(),
            heartbeat: Duration::from_secs(10),
        }
    }
}

/// The nodes a member starts with, all alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    pub count: usize,
    pub cpu: String,
    pub memory: String,
    pub pods: String,
    pub ephemeral_storage: String,
    pub region: String,
    pub zone: String,
    pub labels: BTreeMap<String, String>,
}

impl Default for Nodes {
    fn default() -> Self {
        Self {
            count: 3,
            cpu: "8".to_owned(),
            memory: "32Gi".to_owned(),
            pods: "110".to_owned(),
            ephemeral_storage: "100Gi".to_owned(),
            region: String::new(),
            zone: String::new(),
            labels: BTreeMap::new(),
        }
    }
}

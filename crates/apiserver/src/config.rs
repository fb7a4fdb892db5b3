//! How a server is set up.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::chance::Chance;
use crate::http::listener::Patience;

/// What a server stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    /// The control plane: workloads are inert templates.
    #[default]
    Plane,
    /// A cluster of its own, with the admission steps of one.
    Member,
}

/// How much memory past states may take, whatever their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct History {
    /// Bytes of superseded values in the store.
    pub stored: usize,
    /// Bytes of events that each resource remembers at most, for watchers that fall behind.
    pub watched: usize,
    /// Bytes of them that are left once all watchers have read them, for those that come back.
    pub read: usize,
}

impl Default for History {
    fn default() -> Self {
        // Stored values are packed: this is some sixty megabytes of text.
        Self { stored: 8 << 20, watched: 16 << 20, read: 4 << 20 }
    }
}

#[derive(Debug, Clone)]
pub struct Config {
    pub role: Role,
    /// The address clients are told to use.
    pub advertise_address: IpAddr,
    pub secure_port: u16,
    pub service_cidr: (Ipv4Addr, u8),
    pub node_ports: std::ops::RangeInclusive<u16>,
    /// How long history is kept before it is compacted.
    pub compaction_interval: Duration,
    /// Requests served at the same time, watches aside: (reading, writing).
    pub max_in_flight: (usize, usize),
    pub request_timeout: Duration,
    pub history: History,
    /// How long clients may take to begin.
    pub patience: Patience,
    /// How long core and `events.k8s.io` events are kept.
    pub event_ttl: Duration,
    /// The largest body accepted.
    pub max_body: usize,
    /// Where ids, generated names and free addresses are drawn from.
    pub chance: Chance,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            role: Role::Plane,
            advertise_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            secure_port: 0,
            service_cidr: (Ipv4Addr::new(10, 96, 0, 0), 16),
            node_ports: 30000..=32767,
            compaction_interval: Duration::from_secs(300),
            max_in_flight: (400, 200),
            request_timeout: Duration::from_secs(60),
            history: History::default(),
            patience: Patience::default(),
            event_ttl: Duration::from_secs(3600),
            max_body: 3 << 20,
            chance: Chance::default(),
        }
    }
}

//! Cluster addresses and node ports of Services: taken when one is written, given back when it goes.
//! What a Service needs is decided by [`karmada_kinds::service`]; here is only who has what.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::gvk::GroupKind;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_kinds::service::{self, Plan};
use parking_lot::Mutex;

use crate::call::Call;
use crate::chance::Chance;
use crate::state::State;

/// What is in use.
#[derive(Default)]
struct Taken {
    addresses: HashSet<Ipv4Addr>,
    ports: HashSet<i64>,
}

/// The pools all Services share.
pub(crate) struct Pools {
    network: u32,
    bits: u8,
    ports: RangeInclusive<i64>,
    taken: Arc<Mutex<Taken>>,
    chance: Chance,
}

impl Pools {
    pub(crate) fn new(
        (network, bits): (Ipv4Addr, u8),
        ports: &RangeInclusive<u16>,
        chance: Chance,
    ) -> Self {
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        Self {
            network: u32::from(network) & mask,
            bits,
            ports: i64::from(*ports.start())..=i64::from(*ports.end()),
            taken: Arc::default(),
            chance,
        }
    }

    fn size(&self) -> u32 {
        1_u32.checked_shl(32 - u32::from(self.bits)).unwrap_or(u32::MAX)
    }

    /// The address of the API itself: the first of the range.
    pub(crate) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.network);
        offset > 0 && offset < self.size() - 1
    }

    /// Takes over what stored Services hold.
    pub(crate) fn learn(&self, service: &Value) {
        let held = service::release(service);
        let mut taken = self.taken.lock();
        taken
            .addresses
            .extend(held.released_addresses.iter().filter_map(|a| a.parse::<Ipv4Addr>().ok()));
        taken.ports.extend(held.released_ports);
    }

    fn give_back(&self, plan: &Plan) {
        let mut taken = self.taken.lock();
        for address in &plan.released_addresses {
            if let Ok(address) = address.parse::<Ipv4Addr>() {
                taken.addresses.remove(&address);
            }
        }
        for port in &plan.released_ports {
            taken.ports.remove(port);
        }
    }

    fn claim_address(&self, requested: Option<&str>, dry_run: bool) -> Result<Ipv4Addr, String> {
        let mut taken = self.taken.lock();
        if let Some(text) = requested {
            let address: Ipv4Addr = text
                .parse()
                .map_err(|_| format!("failed to allocate IP {text}: not an IPv4 address"))?;
            if !self.contains(address) {
                return Err(format!(
                    "failed to allocate IP {text}: the provided network does not match the current range"
                ));
            }
            // A dry run may ask for what others have: nothing is given away.
            if !taken.addresses.insert(address) && !dry_run {
                return Err(format!(
                    "failed to allocate IP {text}: provided IP is already allocated"
                ));
            }
            return Ok(address);
        }
        // The lower part of the range is left for addresses people ask for by number.
        let size = self.size();
        let low = (size / 16).clamp(16, 256).min(size / 2);
        let start = self.chance.below(u64::from(low)..u64::from(size - 1)) as u32;
        for step in 0..size - 2 {
            let offset = 1 + (start - 1 + step) % (size - 2);
            let address = Ipv4Addr::from(self.network + offset);
            if address != self.first() && taken.addresses.insert(address) {
                return Ok(address);
            }
        }
        Err("failed to allocate a serviceIP: range is full".to_owned())
    }

    fn claim_port(&self, requested: Option<i64>, dry_run: bool) -> Result<i64, String> {
        let mut taken = self.taken.lock();
        let (first, last) = (*self.ports.start(), *self.ports.end());
        if let Some(port) = requested {
            if !self.ports.contains(&port) {
                return Err(format!(
                    "provided port is not in the valid range. The range of valid ports is {first}-{last}"
                ));
            }
            if !taken.ports.insert(port) && !dry_run {
                return Err("provided port is already allocated".to_owned());
            }
            return Ok(port);
        }
        let size = last - first + 1;
        let start = self.chance.below(0..size.unsigned_abs()) as i64;
        for step in 0..size {
            let port = first + (start + step) % size;
            if taken.ports.insert(port) {
                return Ok(port);
            }
        }
        Err("failed to allocate a nodePort: range is full".to_owned())
    }
}

/// What a write has taken; given back unless the write went through.
#[must_use]
#[derive(Default)]
pub(crate) struct Allocation {
    taken: Option<Arc<Mutex<Taken>>>,
    addresses: Vec<Ipv4Addr>,
    ports: Vec<i64>,
    /// What the write frees once it went through.
    freed: Option<Plan>,
}

impl Allocation {
    /// The write went through.
    pub(crate) fn commit(mut self, dry_run: bool) {
        if dry_run {
            return;
        }
        self.addresses.clear();
        self.ports.clear();
        if let (Some(taken), Some(freed)) = (&self.taken, self.freed.take()) {
            let mut taken = taken.lock();
            for address in freed.released_addresses {
                if let Ok(address) = address.parse::<Ipv4Addr>() {
                    taken.addresses.remove(&address);
                }
            }
            for port in freed.released_ports {
                taken.ports.remove(&port);
            }
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(taken) = &self.taken {
            let mut taken = taken.lock();
            for address in &self.addresses {
                taken.addresses.remove(address);
            }
            for port in &self.ports {
                taken.ports.remove(port);
            }
        }
    }
}

fn is_service(call: &Call) -> bool {
    call.served.gvk.group.is_empty() && call.served.gvk.kind == "Service"
}

impl State {
    /// Gives a new or changed Service what it needs.
    pub(crate) fn allocate(
        &self,
        call: &Call,
        new: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<Allocation, Status> {
        if !is_service(call) {
            return Ok(Allocation::default());
        }
        let refuse = |errors: &[FieldError], service: &Value| {
            let kind = GroupKind { group: String::new(), kind: "Service".into() };
            Status::invalid(&kind, service.name(), errors)
        };
        let plan = service::plan(new, old, &["IPv4"]).map_err(|errors| refuse(&errors, new))?;
        let mut allocation = Allocation::default();
        allocation.taken = Some(self.pools.taken.clone());
        let mut addresses = Vec::new();
        for claim in &plan.addresses {
            let address =
                self.pools.claim_address(claim.requested.as_deref(), dry_run).map_err(|why| {
                    let path = Path::new("spec").child("clusterIPs");
                    let shown = json!(new.list_at(&["spec", "clusterIPs"]));
                    refuse(&[FieldError::invalid(&path, shown, why)], new)
                })?;
            allocation.addresses.push(address);
            addresses.push((claim.index, address.to_string()));
        }
        let mut ports = Vec::new();
        for claim in &plan.node_ports {
            let index = claim.indexes.first().copied().unwrap_or_default();
            let port = self.pools.claim_port(claim.requested, dry_run).map_err(|why| {
                let path = Path::new("spec").child("ports").index(index).child("nodePort");
                refuse(&[FieldError::invalid(&path, claim.requested.unwrap_or_default(), why)], new)
            })?;
            allocation.ports.push(port);
            ports.push((claim.indexes.clone(), port));
        }
        let mut health_check_port = None;
        if let Some(requested) = plan.health_check_port {
            let port = self.pools.claim_port(requested, dry_run).map_err(|why| {
                Status::internal(format!(
                    "failed to allocate requested HealthCheck NodePort {}: {why}",
                    requested.unwrap_or_default()
                ))
            })?;
            allocation.ports.push(port);
            health_check_port = Some(port);
        }
        service::fill(new, &addresses, &ports, health_check_port);
        allocation.freed = Some(plan);
        Ok(allocation)
    }

    /// An object is gone; what it held is free again.
    pub(crate) fn released(&self, call: &Call, object: &Value) {
        if is_service(call) {
            self.pools.give_back(&service::release(object));
        }
    }
}

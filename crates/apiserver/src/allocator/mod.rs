//! Cluster addresses and node ports of Services: taken when one is written, given back when it goes.
//! What a Service needs is decided by [`karmada_kinds::service`]; who has what is in the store, so that
//! several servers on one store never give away the same thing. [`repair`] puts right what a server
//! that ended in between has left.

mod addresses;
mod ports;
mod repair;

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use karmada_apimachinery::field::{FieldError, Path};
use karmada_apimachinery::gvk::{GroupKind, GroupResource};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_kinds::service::{self, Plan};

use self::addresses::{Owner, Range};
use self::ports::{Ports, Taken};
use crate::call::Call;
use crate::chance::Chance;
use crate::handlers::write::store_error;
use crate::state::State;

pub(crate) use self::repair::{repair, repair_regularly};

/// The pools all Services share.
pub(crate) struct Pools {
    range: Range,
    ports: Ports,
}

impl Pools {
    pub(crate) fn new(cidr: (Ipv4Addr, u8), ports: &RangeInclusive<u16>) -> Self {
        Self { range: Range::new(cidr), ports: Ports::new(ports) }
    }

    /// The address of the API itself.
    pub(crate) fn first(&self) -> Ipv4Addr {
        self.range.first()
    }
}

/// What a write has taken; given back unless the write went through.
#[must_use]
#[derive(Default)]
pub(crate) struct Allocation {
    taken: Option<Held>,
    /// What the write frees once it went through.
    freed: Option<Held>,
}

/// Addresses and ports of one Service.
struct Held {
    state: Arc<State>,
    owner: Owner,
    addresses: Vec<String>,
    ports: Vec<i64>,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }

    async fn give_back(self) {
        for address in &self.addresses {
            addresses::give_back(&self.state, &self.owner, address).await;
        }
        if self.ports.is_empty() {
            return;
        }
        let free = |taken: &mut Taken| self.ports.iter().for_each(|port| taken.remove(*port));
        if let Err(error) = self.state.pools.ports.change(&*self.state.store, free).await {
            tracing::warn!(%error, "give node ports back; the next repair does it");
        }
    }

    /// Gives back what the stored Service does not have. A write whose end is not known may have gone
    /// through, so the store is asked; where it does not answer, the next repair finds what is left.
    async fn give_back_unused(mut self) {
        let stored = match stored_service(&self.state, &self.owner).await {
            Ok(stored) => stored.map(|service| service::release(&service)).unwrap_or_default(),
            Err(_) => return,
        };
        self.addresses.retain(|address| !stored.released_addresses.contains(address));
        self.ports.retain(|port| !stored.released_ports.contains(port));
        self.give_back().await;
    }
}

/// A Service as the store has it at this moment.
async fn stored_service(
    state: &State,
    owner: &Owner,
) -> Result<Option<Value>, karmada_store::Error> {
    let snapshot = state.registry.snapshot();
    let storage = snapshot.find_resource("", "services").and_then(|served| served.storage.clone());
    let Some(storage) = storage else { return Ok(None) };
    let found = state.store.get(&storage.key(&owner.namespace, &owner.name), None).await?;
    Ok(found.and_then(|kv| Some(storage.cache.read(&kv).ok()?.to_value())))
}

impl Allocation {
    /// The write went through.
    pub(crate) async fn commit(mut self) {
        self.taken = None;
        if let Some(freed) = self.freed.take() {
            freed.give_back().await;
        }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take().filter(|taken| !taken.is_empty()) {
            tokio::spawn(taken.give_back_unused());
        }
    }
}

fn is_service(call: &Call) -> bool {
    call.served.gvk.group.is_empty() && call.served.gvk.kind == "Service"
}

fn refuse(errors: &[FieldError], service: &Value) -> Status {
    let kind = GroupKind { group: String::new(), kind: "Service".into() };
    Status::invalid(&kind, service.name(), errors)
}

/// Gives a new or changed Service what it needs.
pub(crate) async fn allocate(
    call: &Call,
    new: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
) -> Result<Allocation, Status> {
    if !is_service(call) {
        return Ok(Allocation::default());
    }
    let (state, owner) = (&call.state, Owner::of(new));
    let plan = service::plan(new, old, &["IPv4"]).map_err(|errors| refuse(&errors, new))?;
    let held = |addresses, ports| {
        Some(Held { state: state.clone(), owner: owner.clone(), addresses, ports })
    };
    let mut allocation = Allocation { taken: held(Vec::new(), Vec::new()), freed: None };
    let mut addresses = Vec::new();
    for claim in &plan.addresses {
        let claimed = addresses::claim(state, &owner, claim.requested.as_deref(), dry_run).await;
        let address = claimed.map_err(|why| {
            let path = Path::new("spec").child("clusterIPs");
            let shown = json!(new.list_at(&["spec", "clusterIPs"]));
            refuse(&[FieldError::invalid(&path, shown, why)], new)
        })?;
        if let Some(taken) = allocation.taken.as_mut().filter(|_| !dry_run) {
            taken.addresses.push(address.to_string());
        }
        addresses.push((claim.index, address.to_string()));
    }
    let claimed = claim_ports(state, &plan, dry_run).await?;
    let Claimed { ports, health_check_port } = claimed.map_err(|why| why.status(new))?;
    if let Some(taken) = allocation.taken.as_mut().filter(|_| !dry_run) {
        taken.ports.extend(ports.iter().map(|(_, port)| *port).chain(health_check_port));
    }
    service::fill(new, &addresses, &ports, health_check_port);
    if !dry_run {
        allocation.freed = held(plan.released_addresses, plan.released_ports);
    }
    Ok(allocation)
}

/// Ports by the entries they are for.
#[derive(Default)]
struct Claimed {
    ports: Vec<(Vec<usize>, i64)>,
    health_check_port: Option<i64>,
}

/// Why a port cannot be had.
enum NoPort {
    Entry { index: usize, requested: i64, why: String },
    HealthCheck { requested: i64, why: String },
}

impl NoPort {
    fn status(self, service: &Value) -> Status {
        match self {
            Self::Entry { index, requested, why } => {
                let path = Path::new("spec").child("ports").index(index).child("nodePort");
                refuse(&[FieldError::invalid(&path, requested, why)], service)
            }
            Self::HealthCheck { requested, why } => Status::internal(format!(
                "failed to allocate requested HealthCheck NodePort {requested}: {why}"
            )),
        }
    }
}

/// Takes all ports a Service needs, or none.
async fn claim_ports(
    state: &State,
    plan: &Plan,
    dry_run: bool,
) -> Result<Result<Claimed, NoPort>, Status> {
    if plan.node_ports.is_empty() && plan.health_check_port.is_none() {
        return Ok(Ok(Claimed::default()));
    }
    let (pool, chance) = (&state.pools.ports, &state.config.chance);
    let outcome = if dry_run {
        // A dry run may ask for what others have: nothing is given away.
        let mut taken = pool.look(&*state.store).await.map_err(store_error)?;
        let numbers = plan.node_ports.iter().map(|claim| claim.requested);
        numbers.chain(plan.health_check_port).flatten().for_each(|port| taken.remove(port));
        claim_all(&mut taken, plan, chance)
    } else {
        let claim = |taken: &mut Taken| {
            let before = taken.clone();
            let outcome = claim_all(taken, plan, chance);
            if outcome.is_err() {
                *taken = before;
            }
            outcome
        };
        pool.change(&*state.store, claim).await.map_err(store_error)?
    };
    Ok(outcome)
}

fn claim_all(taken: &mut Taken, plan: &Plan, chance: &Chance) -> Result<Claimed, NoPort> {
    let mut claimed = Claimed::default();
    for claim in &plan.node_ports {
        let index = claim.indexes.first().copied().unwrap_or_default();
        let requested = claim.requested.unwrap_or_default();
        let port = taken.claim(claim.requested, chance).map_err(|why| NoPort::Entry {
            index,
            requested,
            why,
        })?;
        claimed.ports.push((claim.indexes.clone(), port));
    }
    if let Some(asked) = plan.health_check_port {
        let requested = asked.unwrap_or_default();
        let port =
            taken.claim(asked, chance).map_err(|why| NoPort::HealthCheck { requested, why })?;
        claimed.health_check_port = Some(port);
    }
    Ok(claimed)
}

/// An object is gone; what it held is free again.
pub(crate) async fn released(call: &Call, object: &Value) {
    if !is_service(call) {
        return;
    }
    let Plan { released_addresses, released_ports, .. } = service::release(object);
    let held = Held {
        state: call.state.clone(),
        owner: Owner::of(object),
        addresses: released_addresses,
        ports: released_ports,
    };
    held.give_back().await;
}

fn services() -> GroupResource {
    GroupResource::new("", "services")
}

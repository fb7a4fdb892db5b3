//! Puts right what does not agree: Services without the objects that hold their addresses and ports, and
//! addresses and ports of Services that are not there. What was taken a moment ago may belong to a
//! Service that is just being written, so it is left alone.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use jiff::SignedDuration;
use karmada_apimachinery::Value;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_kinds::service;

use super::addresses::{self, MANAGED_BY, Owner};
use super::{services, stored_service};
use crate::internal;
use crate::state::State;

const PERIOD: Duration = Duration::from_secs(180);
/// No request takes longer than this.
const SETTLED: SignedDuration = SignedDuration::from_secs(120);

/// Repairs again and again until the server stops.
pub(crate) async fn repair_regularly(state: Arc<State>) {
    let mut suspects = HashSet::new();
    loop {
        tokio::select! {
            biased;
            () = state.stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        suspects = repair(&state, &suspects).await;
    }
}

/// Repairs once. Ports that nobody had the last time either are free again; the answer names those that
/// nobody has now.
pub(crate) async fn repair(state: &Arc<State>, suspects: &HashSet<i64>) -> HashSet<i64> {
    let (mut held, mut ports) = (Vec::new(), HashSet::new());
    for service in state.objects.read(&services(), None) {
        let plan = service::release(&service);
        ports.extend(plan.released_ports);
        let owner = Owner::of(&service);
        held.extend(plan.released_addresses.into_iter().map(|address| (address, owner.clone())));
    }
    for (address, owner) in &held {
        let is_known = state.objects.exists(&addresses::resource(), "", address);
        let Ok(address) = address.parse::<Ipv4Addr>() else { continue };
        if !is_known && let Err(why) = addresses::take(state, owner, address).await {
            tracing::warn!(%address, why, "take the address of a Service over");
        }
    }
    free_addresses(state).await;
    // The cache may be behind; nothing is given away on its word.
    let mut free: HashSet<i64> = suspects.difference(&ports).copied().collect();
    if !free.is_empty() {
        let (code, all) = internal::send(state, Method::GET, "/api/v1/services", None).await;
        let all = all.list_at(&["items"]).iter().flat_map(|s| service::release(s).released_ports);
        ports.extend(all);
        free.retain(|port| code == 200 && !ports.contains(port));
    }
    repair_ports(state, &ports, &free).await
}

async fn free_addresses(state: &Arc<State>) {
    let (label, manager) = MANAGED_BY;
    let now = (state.clock)();
    for address in state.objects.read(&addresses::resource(), None) {
        if address.label(label) != Some(manager) || !is_settled(&address, now) {
            continue;
        }
        let text =
            |key: &str| address.str_at(&["spec", "parentRef", key]).unwrap_or_default().to_owned();
        let owner = Owner { namespace: text("namespace"), name: text("name") };
        let Ok(service) = stored_service(state, &owner).await else { return };
        let has = |service: Value| {
            let held = service::release(&service).released_addresses;
            held.iter().any(|one| one == address.name())
        };
        if !service.is_some_and(has) {
            tracing::info!(
                address = address.name(),
                "the address of a Service that is gone is free"
            );
            addresses::remove(state, &address).await;
        }
    }
}

fn is_settled(address: &Value, now: jiff::Timestamp) -> bool {
    let made = address.str_at(&["metadata", "creationTimestamp"]);
    let made = made.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    made.is_some_and(|made| now.duration_since(made) > SETTLED)
}

async fn repair_ports(
    state: &Arc<State>,
    ports: &HashSet<i64>,
    free: &HashSet<i64>,
) -> HashSet<i64> {
    let change = |taken: &mut super::Taken| {
        for port in ports {
            taken.insert(*port);
        }
        for port in free {
            taken.remove(*port);
        }
        taken.all().filter(|port| !ports.contains(port)).collect()
    };
    match state.pools.ports.change(&*state.store, change).await {
        Ok(unknown) => unknown,
        Err(error) => {
            tracing::warn!(%error, "repair the map of node ports");
            HashSet::new()
        }
    }
}

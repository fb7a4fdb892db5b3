//! Cluster addresses: whoever creates the IPAddress of that name has it. All servers on one store
//! see the same objects, so no address is given away twice.

use std::net::Ipv4Addr;
use std::sync::Arc;

use http::Method;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};

use crate::chance::Chance;
use crate::internal;
use crate::state::State;

const COLLECTION: &str = "/apis/networking.k8s.io/v1/ipaddresses";
pub(super) const MANAGED_BY: (&str, &str) =
    ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

/// The range addresses are taken from.
pub(crate) struct Range {
    network: u32,
    bits: u8,
}

impl Range {
    pub(super) fn new((network, bits): (Ipv4Addr, u8)) -> Self {
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        Self { network: u32::from(network) & mask, bits }
    }

    fn size(&self) -> u32 {
        1_u32.checked_shl(32 - u32::from(self.bits)).unwrap_or(u32::MAX)
    }

    /// The address of the API itself: the first of the range.
    pub(super) fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.network + 1)
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.network);
        offset > 0 && offset < self.size() - 1
    }

    /// All addresses but the first, from a random one on. The lower part of the range comes last: it is
    /// left for addresses people ask for by number.
    fn candidates(&self, chance: &Chance) -> impl Iterator<Item = Ipv4Addr> + use<> {
        let size = self.size();
        let low = (size / 16).clamp(16, 256).min(size / 2);
        let start = chance.below(u64::from(low)..u64::from(size - 1)) as u32;
        let (network, first) = (self.network, self.first());
        let upper = (start..size - 1).chain(low..start).chain(1..low);
        upper.map(move |offset| Ipv4Addr::from(network + offset)).filter(move |a| *a != first)
    }
}

/// Who asks for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Owner {
    pub(super) fn of(service: &Value) -> Self {
        Self { namespace: service.namespace().to_owned(), name: service.name().to_owned() }
    }

    pub(super) fn has(&self, address: &Value) -> bool {
        let text = |key: &str| address.str_at(&["spec", "parentRef", key]).unwrap_or_default();
        text("resource") == "services"
            && text("namespace") == self.namespace
            && text("name") == self.name
    }
}

pub(super) fn resource() -> GroupResource {
    GroupResource::new("networking.k8s.io", "ipaddresses")
}

/// Takes an address; whether nobody else had it.
pub(super) async fn take(
    state: &Arc<State>,
    owner: &Owner,
    address: Ipv4Addr,
) -> Result<bool, String> {
    let (label, manager) = MANAGED_BY;
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "labels": {"ipaddress.kubernetes.io/ip-family": "IPv4", label: manager},
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": owner.namespace, "name": owner.name,
        }},
    });
    let (code, answer) = internal::send(state, Method::POST, COLLECTION, Some(&object)).await;
    match code {
        201 => Ok(true),
        409 => Ok(false),
        _ => Err(answer.str_at(&["message"]).unwrap_or_default().to_owned()),
    }
}

/// Gives an address back, if it is still this Service's.
pub(super) async fn give_back(state: &Arc<State>, owner: &Owner, address: &str) {
    let path = format!("{COLLECTION}/{address}");
    let (code, held) = internal::send(state, Method::GET, &path, None).await;
    if code != 200 || !owner.has(&held) {
        return;
    }
    remove(state, &held).await;
}

/// Removes this very IPAddress and no other of its name.
pub(super) async fn remove(state: &Arc<State>, held: &Value) {
    let path = format!("{COLLECTION}/{}", held.name());
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": held.uid()},
    });
    let (code, answer) = internal::send(state, Method::DELETE, &path, Some(&options)).await;
    if code >= 400 && code != 404 && code != 409 {
        tracing::warn!(address = held.name(), code, %answer, "give an address of a Service back");
    }
}

/// Claims the address asked for, or any free one; the error says why there is none.
pub(super) async fn claim(
    state: &Arc<State>,
    owner: &Owner,
    requested: Option<&str>,
    dry_run: bool,
) -> Result<Ipv4Addr, String> {
    let range = &state.pools.range;
    let is_held = |address: Ipv4Addr| state.objects.exists(&resource(), "", &address.to_string());
    if let Some(text) = requested {
        let address: Ipv4Addr = text
            .parse()
            .map_err(|_| format!("failed to allocate IP {text}: not an IPv4 address"))?;
        if !range.contains(address) && dry_run {
            return Err(format!(
                "failed to allocate IP {text}: the provided IP ({text}) is not in the valid range. The range of valid IPs is {}/{}",
                Ipv4Addr::from(range.network),
                range.bits
            ));
        }
        if !range.contains(address) {
            return Err(format!(
                "failed to allocate IP {text}: the provided network does not match the current range"
            ));
        }
        // A dry run may ask for what others have: nothing is given away.
        let failed = |why: String| format!("failed to allocate IP {text}: {why}");
        if dry_run || take(state, owner, address).await.map_err(failed)? {
            return Ok(address);
        }
        return Err(failed("provided IP is already allocated".to_owned()));
    }
    let candidates = range.candidates(&state.config.chance);
    for address in candidates.filter(|address| !is_held(*address)) {
        let failed = |why: String| format!("failed to allocate a serviceIP: {why}");
        if dry_run || take(state, owner, address).await.map_err(failed)? {
            return Ok(address);
        }
    }
    Err("failed to allocate a serviceIP: range is full".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_a_candidate_once_and_the_lower_ones_come_last() {
        let range = Range::new((Ipv4Addr::new(10, 0, 0, 7), 25));
        let all: Vec<Ipv4Addr> = range.candidates(&Chance::seeded(3)).collect();
        let mut sorted = all.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!((all.len(), sorted.len()), (125, 125));
        assert_eq!(range.first(), Ipv4Addr::new(10, 0, 0, 1));
        assert!(all.iter().all(|address| range.contains(*address)));
        assert!(all[..110].iter().all(|address| address.octets()[3] >= 16));
    }
}

//! Gives Services of type LoadBalancer and Ingresses an address of a pool, as a cloud would. Without
//! a pool they wait for ever, as in a cluster without one.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt as _, ObjectMutExt as _};
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Object};
use karmada_runtime::{Action, Controller, Informer, Manager, ObjectKey, Recorder};
use parking_lot::Mutex;

use super::backends::services;
use crate::workloads::status::{Error, write_status};

/// A range of addresses, such as `203.0.113.0/24`; its first and last one are never given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressPool {
    first: u32,
    last: u32,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: a range of addresses such as 203.0.113.0/24 is needed, from /8 to /30")]
pub struct NoPool(String);

impl FromStr for AddressPool {
    type Err = NoPool;

    fn from_str(text: &str) -> Result<Self, NoPool> {
        let parsed = text.split_once('/').and_then(|(address, bits)| {
            let address: Ipv4Addr = address.parse().ok()?;
            let bits: u32 = bits.parse().ok().filter(|bits| (8..=30).contains(bits))?;
            let hosts = u32::MAX >> bits;
            let base = address.to_bits() & !hosts;
            Some(Self { first: base + 1, last: base + hosts - 1 })
        });
        parsed.ok_or_else(|| NoPool(text.to_owned()))
    }
}

impl AddressPool {
    /// One of `count` equal parts; nothing if there is not an address for each.
    pub fn part(self, place: u32, count: u32) -> Option<Self> {
        let size = (self.last - self.first + 1).checked_div(count).filter(|size| *size > 0)?;
        let first = self.first + size.checked_mul(place)?;
        (first + size - 1 <= self.last).then_some(Self { first, last: first + size - 1 })
    }

    fn free(&self, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
        let mut all = (self.first..=self.last).map(|bits| Ipv4Addr::from_bits(bits).into());
        all.find(|address| !taken.contains(address))
    }
}

/// How soon somebody who got none asks again.
const AGAIN: Duration = Duration::from_secs(15);

struct Ctx {
    client: Client,
    pool: AddressPool,
    kinds: [(Gvr, Arc<Informer>); 2],
    /// One at a time: two must not be given the same address. The key is who has it.
    lent: Mutex<Vec<(String, IpAddr)>>,
    recorder: Recorder,
}

pub(crate) fn start(manager: &Manager, pool: AddressPool) {
    let ingresses = Gvr::new("networking.k8s.io", "v1", "ingresses");
    let kinds = [services(), ingresses].map(|gvr| {
        let known = manager.informers.all(&gvr);
        (gvr, known)
    });
    let inputs: Vec<_> = kinds.iter().map(|(_, known)| known.clone()).collect();
    let ctx = Arc::new(Ctx {
        client: manager.client.clone().with_user_agent("cloud-controller-manager"),
        pool,
        kinds,
        lent: Mutex::default(),
        recorder: manager.recorder("service-controller"),
    });
    for (place, name) in ["service-lb", "ingress"].into_iter().enumerate() {
        let controller = Controller::new(name, &manager.metrics);
        manager.keep(ctx.kinds[place].1.feed(controller.queue()));
        let ctx = ctx.clone();
        manager.start(controller, inputs.clone(), move |key| reconcile(key, place, ctx.clone()));
    }
}

async fn reconcile(key: ObjectKey, place: usize, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let (gvr, known) = &ctx.kinds[place];
    let Some(object) = known.cache().get(&key) else { return Ok(Action::AwaitChange) };
    let value = object.value();
    let has = !ingress(&value).is_empty();
    let mut status = value.get("status").cloned().unwrap_or_else(|| json!({}));
    let wants = wants(&value);
    if !wants {
        ctx.lent.lock().retain(|(uid, _)| uid != object.uid());
    }
    match (wants, has) {
        (true, false) if !object.is_being_deleted() => {
            let Some(address) = ctx.lend(&object) else {
                let why = "no address of the pool is free";
                ctx.recorder.warning(&*object, "SyncLoadBalancerFailed", why);
                return Ok(Action::Requeue(AGAIN));
            };
            let mut entry = json!({"ip": address.to_string()});
            if gvr.resource == "services" {
                entry["ipMode"] = "VIP".into();
            }
            status.set(&["loadBalancer"], json!({"ingress": [entry]}));
        }
        // It was one once.
        (false, true) if gvr.resource == "services" => status.set(&["loadBalancer"], json!({})),
        _ => return Ok(Action::AwaitChange),
    }
    let api = ctx.client.api(gvr).namespaced(&key.namespace);
    let written = write_status(&api, &object, status).await;
    if written.map_err(|source| Error::new("the address of", &key, source))? && !has {
        ctx.recorder.normal(&*object, "EnsuredLoadBalancer", "Ensured load balancer");
    }
    Ok(Action::AwaitChange)
}

fn ingress(object: &Value) -> &[Value] {
    object.list_at(&["status", "loadBalancer", "ingress"])
}

/// Every Ingress wants an address, and every Service that says so and leaves to us which one.
fn wants(object: &Value) -> bool {
    if object.at(&["spec", "clusterIP"]).is_none() && object.at(&["spec", "type"]).is_none() {
        return true;
    }
    object.str_at(&["spec", "type"]) == Some("LoadBalancer")
        && object.at(&["spec", "loadBalancerClass"]).is_none()
}

impl Ctx {
    fn lend(&self, object: &Object) -> Option<IpAddr> {
        let all = self.kinds.iter().flat_map(|(_, known)| known.cache().list());
        let (mut taken, mut alive) = (BTreeSet::new(), BTreeSet::new());
        for other in all {
            alive.insert(other.uid().to_owned());
            let value = other.value();
            let addresses = ingress(&value).iter().filter_map(|entry| entry.str_at(&["ip"]));
            taken.extend(addresses.filter_map(|address| address.parse::<IpAddr>().ok()));
        }
        let mut lent = self.lent.lock();
        lent.retain(|(uid, _)| alive.contains(uid));
        if let Some((_, known)) = lent.iter().find(|(uid, _)| uid == object.uid()) {
            return Some(*known);
        }
        taken.extend(lent.iter().map(|(_, address)| *address));
        let free = self.pool.free(&taken)?;
        lent.push((object.uid().to_owned(), free));
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_gives_every_address_but_the_first_and_last() {
        let pool: AddressPool = "203.0.113.5/30".parse().unwrap();
        let mut taken = BTreeSet::new();
        let mut given = Vec::new();
        while let Some(address) = pool.free(&taken) {
            taken.insert(address);
            given.push(address.to_string());
        }
        assert_eq!(given, ["203.0.113.5", "203.0.113.6"]);
        let part = |place| pool.part(place, 2).map(|part| (part.first, part.last));
        assert_eq!(part(0).unwrap().1 + 1, part(1).unwrap().0);
        assert_eq!((part(2), pool.part(0, 3)), (None, None));
        for text in ["203.0.113.0", "203.0.113.0/31", "a/24", "::1/64"] {
            assert_eq!(text.parse::<AddressPool>(), Err(NoPool(text.to_owned())));
        }
    }

    #[test]
    fn ingresses_and_balanced_services_want_an_address() {
        let service = |kind: &str| json!({"spec": {"clusterIP": "10.0.0.1", "type": kind}});
        assert!(wants(&service("LoadBalancer")) && wants(&json!({"spec": {"rules": []}})));
        assert!(
            !wants(&service("ClusterIP")) && !wants(&json!({"spec": {"type": "ExternalName"}}))
        );
        let mut other = service("LoadBalancer");
        other["spec"]["loadBalancerClass"] = "example.com/own".into();
        assert!(!wants(&other));
    }
}

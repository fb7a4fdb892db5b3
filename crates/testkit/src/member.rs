//! What tests do to a member.

use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_client::Client;
use karmada_member_sim::{Faults, Sim};
use karmada_store::{Memory, Store as _};

use crate::world::gvr;

/// A member of a world. Faults are those of its network and machines.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    pub(crate) sim: &'a Sim,
    pub(crate) store: &'a Memory,
}

impl Member<'_> {
    /// Nobody reaches it, and everybody is told so at once.
    pub fn partition(&self) {
        self.sim.faults().partition();
    }

    /// Nobody reaches it, and nobody is told.
    pub fn black_hole(&self) {
        self.sim.faults().black_hole();
    }

    pub fn latency(&self, latency: Duration) {
        self.sim.faults().latency(latency);
    }

    /// Everything is well again.
    pub fn heal(&self) {
        self.sim.faults().heal();
    }

    pub fn faults(&self) -> &Faults {
        self.sim.faults()
    }

    /// An administrator inside the member, whom no fault of the network touches.
    pub fn client(&self) -> Client {
        self.sim.client()
    }

    /// An object of the member: `pods`, `deployments.apps`, `things.v1beta1.example.com`.
    pub async fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let api = self.client().api(&gvr(resource)).namespaced(namespace);
        api.find(name).await.expect("a member answers from inside")
    }

    /// How many writes the member has seen, by whomever.
    pub fn writes(&self) -> i64 {
        self.store.revision()
    }

    /// All there is in it, to be brought back later by [`crate::World::restore`].
    pub fn backup(&self) -> Memory {
        self.store.fork()
    }
}

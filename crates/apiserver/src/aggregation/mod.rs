//! Aggregation: group versions that other servers answer for.
//!
//! An APIService with a Service behind it makes its group version one of another server. Each has a
//! lane of its own: a task that asks whether the server is there ([`availability`]), what it serves
//! ([`learn`]), and writes down both; a slow or hostile server holds up its own lane and nothing else.
//! Requests are passed on by [`proxy`].
//!
//! Resources of the embedding program are served in this process whatever Service their APIService
//! names: the name stays for those who know it, and nobody is asked.

mod authorities;
mod availability;
mod headers;
mod learn;
mod proxy;
mod refusal;
mod resolver;
mod transport;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_signal::Follow;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::availability::Finding;
use self::learn::Memory;
use self::transport::Dialer;
use crate::registry::{Learned, Place, Registry, Remote, Remotes, Source};
use crate::services;
use crate::state::{CachedObjects, State};

pub(crate) use self::proxy::{forward, remote_of};
pub use self::transport::ProxyClient;

const COLLECTION: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
/// How often a server is looked at while nothing changes.
const PERIOD: Duration = Duration::from_secs(30);
/// The pause after a first failure; it doubles up to the period.
const RETRY: Duration = Duration::from_secs(1);
/// Changes of endpoints within this time are looked at together.
const GATHER: Duration = Duration::from_millis(100);

/// What is known about other servers.
pub(crate) struct Aggregator {
    dialer: Dialer,
    table: Mutex<Remotes>,
}

impl Aggregator {
    pub(crate) fn new(client: ProxyClient) -> Self {
        Self { dialer: Dialer::new(client), table: Mutex::default() }
    }

    /// The other server an APIService stands for.
    fn find(&self, name: &str) -> Option<Arc<Remote>> {
        self.table.lock().values().find(|remote| remote.name == name).cloned()
    }

    /// Takes over which APIServices there are; what is known about those that stay is kept.
    fn replace(&self, registry: &Registry, remotes: Vec<Remote>) {
        let mut table = self.table.lock();
        let fresh = remotes.into_iter().map(|mut remote| {
            let key = (remote.group.clone(), remote.version.clone());
            if let Some(known) = table.get(&key).filter(|known| known.place == remote.place) {
                remote.learned.clone_from(&known.learned);
                remote.waiting = known.waiting.clone();
            }
            (key, Arc::new(remote))
        });
        let fresh: Remotes = fresh.collect();
        table.clone_from(&fresh);
        registry.replace_remotes(fresh);
    }

    /// Writes down what a server told, or that it cannot be asked.
    fn note(&self, registry: &Registry, asked: &Remote, learned: Option<Learned>) {
        let mut table = self.table.lock();
        let key = (asked.group.clone(), asked.version.clone());
        // What was asked may be somebody else by now.
        let Some(known) = table.get_mut(&key).filter(|known| known.place == asked.place) else {
            return;
        };
        *known = Arc::new(Remote { learned: learned.map(Arc::new), ..Remote::clone(known) });
        registry.replace_remotes(table.clone());
    }
}

fn find(state: &State, name: &str) -> Option<Arc<Value>> {
    state.objects.get(&api_services(), "", name)
}

fn api_services() -> GroupResource {
    GroupResource::new("apiregistration.k8s.io", "apiservices")
}

/// What a lane depends on: a change of it is a reason to look again.
#[derive(PartialEq)]
struct Basis {
    place: Place,
    versions: Vec<String>,
}

struct Lane {
    basis: Basis,
    wake: Arc<Notify>,
    stop: CancellationToken,
}

/// Knows which APIServices there are and has a lane for each that needs one.
pub(crate) struct Follower {
    state: Arc<State>,
    lanes: HashMap<String, Lane>,
    /// APIServices that name a Service for what this process serves itself.
    own: Vec<String>,
}

impl Follower {
    /// Registers what is there already, so that no request is answered as if it were not.
    pub(crate) fn start(state: &Arc<State>) -> Self {
        let mut follower = Self { state: state.clone(), lanes: HashMap::new(), own: Vec::new() };
        follower.sync();
        follower
    }

    /// Follows the APIServices until the server stops.
    pub(crate) async fn run(mut self) {
        let stop = self.state.stop.clone();
        let follow = |group: &str, plural: &str| follow(&self.state, group, plural);
        let (Some(mut own), Some(mut services), Some(mut slices), Some(mut endpoints)) = (
            follow("apiregistration.k8s.io", "apiservices"),
            follow("", "services"),
            follow("discovery.k8s.io", "endpointslices"),
            follow("", "endpoints"),
        ) else {
            return;
        };
        loop {
            self.sync();
            for name in &self.own {
                availability::write(&self.state, name, &Finding::passed()).await;
            }
            let is_followed = !self.lanes.is_empty();
            let behind = async {
                tokio::select! {
                    () = services.moved() => {}
                    () = slices.moved() => {}
                    () = endpoints.moved() => {}
                }
                tokio::time::sleep(GATHER).await;
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = own.moved() => {}
                () = behind, if is_followed => {}
            }
        }
    }

    fn sync(&mut self) {
        let found = CachedObjects(self.state.registry.clone()).all(&api_services(), None);
        // Nearly all of them stand for what is served here and name no Service.
        let found: Vec<Value> = found
            .iter()
            .filter(|one| one.mentions("\"service\":{"))
            .map(|one| one.to_value())
            .collect();
        let snapshot = self.state.registry.snapshot();
        let is_own = |remote: &Remote| {
            let served = snapshot.resources(&remote.group, &remote.version);
            served.iter().any(|served| served.source == Source::Native)
        };
        let named = found.iter().filter_map(Remote::read);
        let (own, remotes): (Vec<Remote>, Vec<Remote>) = named.partition(is_own);
        self.own = own.into_iter().map(|remote| remote.name).collect();
        self.lanes.retain(|name, lane| {
            let stays = remotes.iter().any(|remote| remote.name == *name);
            if !stays {
                lane.stop.cancel();
            }
            stays
        });
        let bases: Vec<(String, Basis)> =
            remotes.iter().map(|remote| (remote.name.clone(), self.basis(&remote.place))).collect();
        self.state.aggregator.replace(&self.state.registry, remotes);
        for (name, basis) in bases {
            match self.lanes.get_mut(&name) {
                Some(lane) if lane.basis == basis => {}
                Some(lane) => {
                    lane.basis = basis;
                    lane.wake.notify_one();
                }
                None => {
                    let (wake, stop) = (Arc::new(Notify::new()), self.state.stop.child_token());
                    tokio::spawn(keep(
                        self.state.clone(),
                        name.clone(),
                        wake.clone(),
                        stop.clone(),
                    ));
                    self.lanes.insert(name, Lane { basis, wake, stop });
                }
            }
        }
    }

    fn basis(&self, place: &Place) -> Basis {
        let objects = &*self.state.objects;
        let service = services::find(objects, &place.namespace, &place.name);
        let slices = services::slices(objects, &place.namespace, &place.name);
        let versions = service.iter().chain(&slices);
        Basis {
            place: place.clone(),
            versions: versions.map(|object| object.resource_version().to_owned()).collect(),
        }
    }
}

fn follow(state: &State, group: &str, plural: &str) -> Option<Follow<u64>> {
    let snapshot = state.registry.snapshot();
    let served = snapshot.find_resource(group, plural)?;
    Some(served.storage.as_ref()?.cache.changes())
}

/// Keeps what is known about one server true.
async fn keep(state: Arc<State>, name: String, wake: Arc<Notify>, stop: CancellationToken) {
    let mut memory = Memory::default();
    let mut pause = RETRY;
    loop {
        let Some(remote) = state.aggregator.find(&name) else { return };
        let round = look(&state, &remote, &mut memory);
        let is_known = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            is_known = round => is_known,
        };
        pause = if is_known { PERIOD } else { (pause * 2).min(PERIOD) };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = wake.notified() => pause = RETRY,
            () = tokio::time::sleep(pause) => {}
        }
        if is_known {
            pause = RETRY;
        }
    }
}

/// Looks at a server once; whether everything about it is known then.
async fn look(state: &Arc<State>, remote: &Remote, memory: &mut Memory) -> bool {
    let finding = availability::check(state, remote).await;
    let learned = match finding.is_available {
        false => None,
        true => match learn::learn(state, remote, memory).await {
            Ok(learned) => Some(learned),
            Err(why) => {
                tracing::debug!(
                    name = remote.name,
                    why,
                    "an API service does not tell what it has"
                );
                None
            }
        },
    };
    let is_known = learned.is_some();
    // Whoever sees that a server is there finds it in discovery too.
    state.aggregator.note(&state.registry, remote, learned);
    availability::write(state, &remote.name, &finding).await;
    is_known
}

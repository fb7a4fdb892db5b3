//! A control plane with its members, and what tests do with it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::cluster::Cluster;
use karmada_api::features::Gates;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::Server;
use karmada_apiserver::auth::Identity;
use karmada_client::{Client, Discovery};
use karmada_controllers::members::Shortcut;
use karmada_member_sim::{Config, Nodes, Sim};
use karmada_registration::{self as registration, Access, Join, Unjoin};
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::{Memory, Store as _};

use crate::base::{self, Base};
use crate::contended::Contended;
use crate::member::Member;
use crate::metrics;
use crate::plane;
use crate::route::{Route, Sims, Ways};
use crate::trace::{Line, Trace};

/// The first moment of every world.
pub(crate) fn beginning() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a moment")
}

/// How long something may take that is waited for, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(50);
/// How long it takes to restore a member from a backup.
const RESTORING: Duration = Duration::from_secs(60);
/// How long controllers take to know everything after a start.
const SETTLING: Duration = Duration::from_secs(15);
/// How often a write is tried.
const ATTEMPTS: usize = 20;
const FAREWELL: Duration = Duration::from_secs(60);
/// Lines of the trace that are shown when a wait was in vain.
const SHOWN: usize = 40;

/// How a world is set up.
#[derive(Clone)]
pub struct Options {
    /// What everything random is drawn from.
    pub seed: u64,
    pub gates: Gates,
    pub controllers: karmada_controllers::context::Options,
    /// As `--controllers`; empty for the defaults.
    pub controller_list: Vec<String>,
    pub scheduler: bool,
    /// How often the nodes of members show that they live; never if zero.
    pub heartbeat: Duration,
}

impl Options {
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            gates: Gates::default(),
            controllers: karmada_controllers::context::Options::default(),
            controller_list: Vec::new(),
            scheduler: true,
            heartbeat: Duration::ZERO,
        }
    }
}

/// The whole system. Runs on tokio's paused clock.
pub struct World {
    pub clock: Clock,
    /// An administrator of the control plane.
    pub client: Client,
    options: Options,
    store: Contended,
    server: Server,
    sims: Sims,
    ways: Ways,
    known: BTreeMap<String, Known>,
    discovery: Discovery,
    trace: Trace,
    /// How many servers there were, members and the control plane together.
    lives: u64,
    shutdown: Shutdown,
    controllers: Shutdown,
}

struct Known {
    sim: Arc<Sim>,
    store: Memory,
    nodes: Nodes,
    observer: Shutdown,
    /// Ends with the last who uses the store.
    life: Weak<Memory>,
}

impl World {
    /// A control plane with everything running and no members yet.
    pub async fn from_seed(seed: u64) -> Self {
        Self::start(Options::seeded(seed), 0).await
    }

    /// A control plane with members m1, m2, …, all Ready.
    pub async fn of(seed: u64, members: usize) -> Self {
        Self::start(Options::seeded(seed), members).await
    }

    pub async fn start(options: Options, members: usize) -> Self {
        let base = Base::with_members(members);
        let mut world = Self::assemble(options, base.at, base.plane.fork()).await;
        for (name, store) in &base.members {
            world.start_member(name, Nodes::default(), store.fork()).await;
        }
        world.start_controllers();
        let names: Vec<String> = base.members.keys().cloned().collect();
        for name in names {
            let what = format!("{name} is ready");
            world.eventually(&what, async |world| world.is_ready(&name).await).await;
        }
        // Nobody has looked at the members yet since the start.
        world.advance(SETTLING).await;
        world
    }

    /// A control plane nobody has used yet.
    pub(crate) async fn fresh(options: Options) -> Self {
        let world = Self::assemble(options, beginning(), Memory::new()).await;
        world.start_controllers();
        world
    }

    async fn assemble(options: Options, at: Timestamp, store: Memory) -> Self {
        let clock = Clock::virtual_from(at);
        let (shutdown, controllers) = (Shutdown::new(), Shutdown::new());
        let store = Contended::new(store, options.seed);
        let shared = Arc::new(store.clone());
        let server = plane::start_server(&options, 1, shared, &clock, &shutdown).await;
        let client = plane::client(&server, "admin");
        let world = Self {
            discovery: Discovery::new(client.clone()),
            clock,
            client,
            options,
            store,
            server,
            sims: Sims::default(),
            ways: Ways::default(),
            known: BTreeMap::new(),
            trace: Trace::new(),
            lives: 1,
            shutdown,
            controllers,
        };
        world.observe_plane();
        world
    }

    fn observe_plane(&self) {
        let observer = plane::manager(&self.server, "observer", &self.clock, &self.shutdown);
        self.trace.follow_plane(&observer);
        // It lives as long as the server it looks at.
        let shutdown = self.shutdown.clone();
        self.shutdown.spawn_until(async move {
            let _observer = observer;
            shutdown.triggered().await;
        });
    }

    fn start_controllers(&self) {
        let (sims, ways) = (self.sims.clone(), self.ways.clone());
        let dial = Shortcut::new(move |endpoint, token| {
            Some(Client::in_process(Route::open(&sims, &ways, endpoint, token)))
        });
        let (options, clock) = (&self.options, &self.clock);
        plane::start_controllers(&self.server, options, Arc::new(dial), clock, &self.controllers);
    }

    /// Ends controllers and scheduler and starts them anew: whatever they remembered is gone.
    pub async fn restart_controllers(&mut self) {
        self.note("restarts the controllers");
        self.controllers.finish(FAREWELL).await;
        self.controllers = Shutdown::new();
        self.start_controllers();
    }

    /// Ends controllers and scheduler where they stand, as `kill -9` does, and starts new ones.
    pub fn kill_controllers(&mut self) {
        self.note("kills the controllers");
        self.controllers.kill();
        self.controllers = Shutdown::new();
        self.start_controllers();
    }

    /// Ends the whole control plane where it stands and starts it on the same store.
    pub async fn kill_plane(&mut self) {
        self.note("kills the control plane");
        self.controllers.kill();
        self.shutdown.kill();
        self.server.stop();
        (self.controllers, self.shutdown) = (Shutdown::new(), Shutdown::new());
        self.lives += 1;
        let (store, clock) = (Arc::new(self.store.clone()), &self.clock);
        // What starts the definitions gives up at the first refusal.
        let contention = self.store.contention();
        self.store.contend(0);
        let started =
            plane::start_server(&self.options, self.lives, store, clock, &self.shutdown).await;
        self.store.contend(contention);
        self.server = started;
        self.client = plane::client(&self.server, "admin");
        self.discovery = Discovery::new(self.client.clone());
        self.observe_plane();
        self.start_controllers();
    }

    /// Lets so many of a thousand writes to the control plane's store fail.
    pub fn contend(&self, permille: u32) {
        self.store.contend(permille);
    }

    /// How many writes the control plane has seen, by whomever.
    pub fn writes(&self) -> i64 {
        self.store.memory.revision()
    }

    pub(crate) fn base(&self) -> Base {
        let members = self.known.iter().map(|(name, known)| (name.clone(), known.store.fork()));
        let (at, plane) = (self.clock.now(), self.store.memory.fork());
        Base { at, plane, members: members.collect() }
    }

    /// Joins members m1, m2, … and waits until they are Ready.
    pub async fn with_members(mut self, count: usize) -> Self {
        for number in 1..=count {
            self.join(&format!("m{number}"), Nodes::default()).await;
        }
        for number in 1..=count {
            let name = format!("m{number}");
            let what = format!("{name} is ready");
            self.eventually(&what, async |world| world.is_ready(&name).await).await;
        }
        self
    }

    /// Starts a member on a store and lets the control plane find it.
    async fn start_member(&mut self, name: &str, nodes: Nodes, store: Memory) {
        self.lives += 1;
        let used = Arc::new(store.clone());
        let life = Arc::downgrade(&used);
        let config = Config {
            nodes: nodes.clone(),
            clock: self.clock.clone(),
            seed: self.options.seed.wrapping_mul(1000).wrapping_add(self.lives),
            store: Some(used),
            pki: Some(base::pki(name)),
            heartbeat: self.options.heartbeat,
            ..Config::named(name)
        };
        let sim = Arc::new(Sim::start(config).await.expect("a member in memory"));
        let observer = Shutdown::new();
        let (client, metrics) = (sim.client(), Metrics::default());
        let inside = Manager::new(client, self.clock.clone(), metrics, observer.clone());
        self.trace.follow_member(&inside, name);
        let own = observer.clone();
        observer.spawn_until(async move {
            let _inside = inside;
            own.triggered().await;
        });
        self.sims.lock().insert(name.to_owned(), sim.clone());
        self.known.insert(name.to_owned(), Known { sim, store, nodes, observer, life });
    }

    /// Ends a member where it stands; nothing is left running of it.
    fn kill_member(&mut self, name: &str) -> Nodes {
        let known = self.known.remove(name).unwrap_or_else(|| panic!("there is no member {name}"));
        known.observer.kill();
        // Connections that are open break.
        known.sim.faults().partition();
        known.sim.kill();
        known.nodes
    }

    /// Brings a member back as it was when the backup was taken.
    pub async fn restore(&mut self, name: &str, backup: &Memory) {
        self.trace.note(name, "is restored from a backup");
        let nodes = self.kill_member(name);
        self.sims.lock().remove(name);
        self.advance(RESTORING).await;
        self.start_member(name, nodes, backup.fork()).await;
    }

    /// Replaces a member by a new cluster of the same name, which joins after the old one was let
    /// go.
    pub async fn recreate(&mut self, name: &str) {
        self.trace.note(name, "is lost and made anew");
        let nodes = self.kill_member(name);
        self.sims.lock().remove(name);
        let unjoin = Unjoin { force: true, wait: Duration::from_secs(5), ..Unjoin::named(name) };
        if let Err(error) = self.unjoin(&unjoin).await {
            panic!("unjoin {name}: {error}");
        }
        self.join(name, nodes).await;
    }

    /// Starts a cluster that is no member yet.
    pub async fn found(&mut self, name: &str, nodes: Nodes) {
        self.start_member(name, nodes, Memory::new()).await;
    }

    /// Starts a member and joins it.
    pub async fn join(&mut self, name: &str, nodes: Nodes) {
        self.found(name, nodes).await;
        let sim = self.known[name].sim.clone();
        let access = Access { endpoint: sim.endpoint().to_owned(), ..Access::default() };
        let (inside, join) = (sim.client(), Join::named(name));
        let joined = registration::join(&self.client, &inside, &access, &join, &|_| {});
        joined.await.unwrap_or_else(|error| panic!("join {name}: {error}"));
    }

    /// Lets a member go, as `karmadactl unjoin` does.
    pub async fn unjoin(&self, unjoin: &Unjoin) -> Result<(), registration::Error> {
        registration::unjoin(&self.client, None, unjoin, &|_| {}).await
    }

    pub fn member(&self, name: &str) -> Member<'_> {
        let known = self.known.get(name).unwrap_or_else(|| panic!("there is no member {name}"));
        Member { sim: &known.sim, store: &known.store }
    }

    /// Lets the control plane serve what pods use, as a metrics adapter does.
    pub fn serve_metrics(&self) {
        metrics::serve(&self.server, &self.sims);
    }

    /// Lets time pass; everything that is due in it happens.
    pub async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets time pass until something is so. Panics with the end of the trace if it never is.
    pub async fn eventually(&self, what: &str, is_so: impl AsyncFn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !is_so(self).await {
            if tokio::time::Instant::now() >= deadline {
                let trace = self.trace();
                let lines: Vec<&str> = trace.lines().collect();
                let end = lines.len().saturating_sub(SHOWN);
                panic!("{what}: not within {PATIENCE:?}\n{}", lines[end..].join("\n"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Applies one or more YAML documents to the control plane.
    pub async fn apply(&self, yaml: &str) {
        for document in yaml.split("\n---").filter(|text| !text.trim().is_empty()) {
            let object = karmada_apimachinery::decode::yaml_untyped(document.as_bytes())
                .unwrap_or_else(|error| panic!("{error:?} in {document}"))
                .value;
            let gvk: Gvk = object.gvk();
            let resource = self.discovery.resource_of(&gvk).await.expect("discovery");
            let resource = resource.unwrap_or_else(|| panic!("{gvk:?} is not served"));
            let mut api = self.client.api(&resource.gvr);
            if resource.namespaced {
                let namespace = Some(object.namespace()).filter(|name| !name.is_empty());
                api = api.namespaced(namespace.unwrap_or("default"));
            }
            let mut attempts = 0;
            // A conflict is no answer: somebody else wrote, or the store was told to fail.
            while let Err(error) = api.apply(&object, "test").await {
                attempts += 1;
                assert!(attempts < ATTEMPTS, "apply {document}: {error}");
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Somebody at the control plane who may do what roles say.
    pub fn client_of(&self, user: &str, group: &str) -> Client {
        let identity = Identity::new(user, [group, "system:authenticated"]);
        Client::beside(self.server.handle().acting_as(identity))
    }

    /// An object of the control plane: `pods`, `deployments.apps`, `works.v1alpha1.work.karmada.io`.
    pub async fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let api = self.client.api(&gvr(resource)).namespaced(namespace);
        api.find(name).await.expect("the control plane answers")
    }

    pub async fn cluster(&self, name: &str) -> Option<Cluster> {
        let object = self.get("clusters.v1alpha1.cluster.karmada.io", "", name).await?;
        Some(karmada_apimachinery::from_value(object).expect("a Cluster"))
    }

    pub async fn is_ready(&self, cluster: &str) -> bool {
        self.cluster(cluster).await.is_some_and(|cluster| cluster.is_ready())
    }

    /// What happened so far, one line each.
    pub fn trace(&self) -> String {
        self.trace.text()
    }

    /// The same as values.
    pub fn lines(&self) -> Vec<Line> {
        self.trace.lines()
    }

    /// Milliseconds since the world began, whatever its clocks show.
    pub fn elapsed(&self) -> u64 {
        self.trace.now()
    }

    /// Writes a line of the test's own into the trace.
    pub fn note(&self, text: &str) {
        self.trace.note("test", text);
    }

    pub fn members(&self) -> Vec<String> {
        self.known.keys().cloned().collect()
    }

    /// How many ways to a member somebody of the control plane still holds.
    pub fn ways_to(&self, member: &str) -> usize {
        let address = format!("https://{member}.invalid");
        let ways = self.ways.lock();
        ways.iter().filter(|(to, life)| *to == address && life.strong_count() > 0).count()
    }

    /// Something of every server there is now that lives as long as anybody holds it.
    pub fn signs_of_life(&self) -> Vec<(String, Weak<dyn Any + Send + Sync>)> {
        let plane: Weak<dyn Any + Send + Sync> = self.store.sign_of_life();
        let mut signs = vec![("the control plane".to_owned(), plane)];
        for (name, known) in &self.known {
            let program: Weak<Sim> = Arc::downgrade(&known.sim);
            signs.push((format!("the program of {name}"), program));
            signs.push((name.clone(), known.life.clone()));
        }
        signs
    }

    /// Ends everything at once.
    pub async fn stop(self) {
        self.controllers.kill();
        self.shutdown.kill();
        self.server.stop();
        self.sims.lock().clear();
        for known in self.known.into_values() {
            known.observer.kill();
            known.sim.kill();
        }
    }
}

/// Reads `pods`, `deployments.apps` and `things.v1beta1.example.com`; the version is v1 unless
/// given.
pub fn gvr(resource: &str) -> Gvr {
    let (plural, rest) = resource.split_once('.').unwrap_or((resource, ""));
    let is_version = |text: &str| {
        text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    match rest.split_once('.') {
        Some((version, group)) if is_version(version) => Gvr::new(group, version, plural),
        _ => Gvr::new(rest, "v1", plural),
    }
}

//! A control plane with its members, and what tests do with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::cluster::Cluster;
use karmada_api::features::Gates;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::Server;
use karmada_cli::registration::{self, Access, Join, Unjoin};
use karmada_client::{Client, Discovery};
use karmada_controllers::members::Shortcut;
use karmada_member_sim::{Config, Nodes, Sim};
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::Memory;
use parking_lot::Mutex;

use crate::member::Member;
use crate::plane;
use crate::trace::Trace;

/// The first moment of every world.
const BEGINNING: &str = "2026-01-01T00:00:00Z";
/// How long something may take that is waited for, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(50);
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
}

impl Options {
    pub fn seeded(seed: u64) -> Self {
        Self {
            seed,
            gates: Gates::default(),
            controllers: karmada_controllers::context::Options::default(),
            controller_list: Vec::new(),
            scheduler: true,
        }
    }
}

type Sims = Arc<Mutex<BTreeMap<String, Arc<Sim>>>>;

/// The whole system. Runs on tokio's paused clock.
pub struct World {
    pub clock: Clock,
    /// An administrator of the control plane.
    pub client: Client,
    options: Options,
    server: Server,
    sims: Sims,
    known: BTreeMap<String, Arc<Sim>>,
    discovery: Discovery,
    trace: Trace,
    shutdown: Shutdown,
    controllers: Shutdown,
    observer: Manager,
}

impl World {
    /// A control plane with everything running and no members yet.
    pub async fn from_seed(seed: u64) -> Self {
        Self::start(Options::seeded(seed)).await
    }

    pub async fn start(options: Options) -> Self {
        let clock = Clock::virtual_from(BEGINNING.parse().expect("a moment"));
        let (shutdown, controllers) = (Shutdown::new(), Shutdown::new());
        let server = plane::start_server(&options, Memory::new(), &clock, &shutdown).await;
        let client = plane::client(&server, "admin");
        let trace = Trace::default();
        let observer = plane::manager(&server, "observer", &clock, &shutdown);
        trace.follow_plane(&observer);
        let world = Self {
            discovery: Discovery::new(client.clone()),
            clock,
            client,
            options,
            server,
            sims: Sims::default(),
            known: BTreeMap::new(),
            trace,
            shutdown,
            controllers,
            observer,
        };
        world.start_controllers();
        world
    }

    fn start_controllers(&self) {
        let sims = self.sims.clone();
        let dial = Shortcut::new(move |endpoint, token| {
            let sims = sims.lock();
            let sim = sims.values().find(|sim| sim.endpoint() == endpoint)?;
            Some(sim.remote_client_with_token(token))
        });
        let (options, clock) = (&self.options, &self.clock);
        plane::start_controllers(&self.server, options, Arc::new(dial), clock, &self.controllers);
    }

    /// Ends controllers and scheduler and starts them anew: whatever they remembered is gone.
    pub async fn restart_controllers(&mut self) {
        self.trace.note(&self.clock, "world restarts the controllers");
        self.controllers.finish(FAREWELL).await;
        self.controllers = Shutdown::new();
        self.start_controllers();
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

    /// Starts a member and joins it.
    pub async fn join(&mut self, name: &str, nodes: Nodes) {
        let config = Config {
            nodes,
            clock: self.clock.clone(),
            seed: self.options.seed,
            ..Config::named(name)
        };
        let sim = Arc::new(Sim::start(config).await.expect("a member in memory"));
        let inside = Manager::new(
            sim.client(),
            self.clock.clone(),
            Metrics::default(),
            self.shutdown.clone(),
        );
        self.trace.follow_member(&inside, name);
        self.sims.lock().insert(name.to_owned(), sim.clone());
        let access = Access { endpoint: sim.endpoint().to_owned(), ..Access::default() };
        let (inside, join) = (sim.client(), Join::named(name));
        let joined = registration::join(&self.client, &inside, &access, &join, &|_| {});
        joined.await.unwrap_or_else(|error| panic!("join {name}: {error}"));
        self.known.insert(name.to_owned(), sim);
    }

    /// Lets a member go, as `karmadactl unjoin` does.
    pub async fn unjoin(&self, unjoin: &Unjoin) -> Result<(), registration::Error> {
        registration::unjoin(&self.client, None, unjoin, &|_| {}).await
    }

    pub fn member(&self, name: &str) -> Member<'_> {
        let sim = self.known.get(name).unwrap_or_else(|| panic!("there is no member {name}"));
        Member { sim }
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
            let applied = api.apply(&object, "test").await;
            applied.unwrap_or_else(|error| panic!("apply {document}: {error}"));
        }
    }

    /// An object of the control plane: `pods`, `deployments.apps`, `works.v1alpha1.work.karmada.io`.
    pub async fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let api = self.client.api(&gvr(resource)).namespaced(namespace);
        api.find(name).await.expect("the control plane answers")
    }

    pub async fn cluster(&self, name: &str) -> Option<Cluster> {
        let object = self.get("clusters.v1alpha1.cluster.karmada.io", "", name).await?;
        Some(serde_json::from_value(object).expect("a Cluster"))
    }

    pub async fn is_ready(&self, cluster: &str) -> bool {
        self.cluster(cluster).await.is_some_and(|cluster| cluster.is_ready())
    }

    /// What happened so far, one line each.
    pub fn trace(&self) -> String {
        self.trace.text()
    }

    /// Writes a line of the test's own into the trace.
    pub fn note(&self, text: &str) {
        self.trace.note(&self.clock, format!("test {text}"));
    }

    pub async fn stop(self) {
        self.controllers.finish(FAREWELL).await;
        drop(self.observer);
        self.shutdown.finish(FAREWELL).await;
        self.sims.lock().clear();
        for sim in self.known.into_values() {
            if let Some(sim) = Arc::into_inner(sim) {
                sim.stop().await;
            }
        }
        self.server.stop();
    }
}

/// Reads `pods`, `deployments.apps` and `things.v1beta1.example.com`; the version is v1 unless
/// given.
pub(crate) fn gvr(resource: &str) -> Gvr {
    let (plural, rest) = resource.split_once('.').unwrap_or((resource, ""));
    let is_version = |text: &str| {
        text.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    match rest.split_once('.') {
        Some((version, group)) if is_version(version) => Gvr::new(group, version, plural),
        _ => Gvr::new(rest, "v1", plural),
    }
}

//! One simulated member: puts server, controllers, nodes and network together.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::SignedDuration;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::TokenIssuer;
use karmada_apiserver::pki::{self, Pki, Settings, TokenKey};
use karmada_apiserver::{Chance, Config as ServerConfig, Handle, History, Role, Server};
use karmada_client::Client;
use karmada_kube_controllers::{Plane, registry};
use karmada_runtime::{Clock, EventBudget, Manager, Metrics, Shutdown};
use karmada_store::Memory;

use crate::config::Config;
use crate::faults::Faults;
use crate::keys::Keyring;
use crate::network::Network;
use crate::{control, kubelet, listen, nodes, pods, scheduler, workloads};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// How long controllers may take to finish what they are at.
const FAREWELL: Duration = Duration::from_secs(5);
/// There may be a hundred members in a process, and those who watch them seldom fall far behind.
const HISTORY: History = History { stored: 512 << 10, watched: 2 << 20, read: 128 << 10 };
/// Enough for the story of a Deployment of a hundred pods. A thousand pods that start at once would
/// otherwise cost more in events than in pods.
const EVENTS: EventBudget = EventBudget { burst: 150.0, per_second: 1.0, waiting: 150 };
const CERTIFICATE_VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("certificates of member {member}")]
    Certificates { member: String, source: pki::Error },
    #[error("start the API server of member {member}")]
    Server { member: String, source: karmada_apiserver::Error },
    #[error("listen on {address}")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
    #[error("open the control socket {path}")]
    Control { path: String, source: std::io::Error },
    #[error("register the node {node}")]
    Register { node: String, source: karmada_client::Error },
}

/// A running member cluster. It stops when [`Sim::stop`] is called.
pub struct Sim {
    name: String,
    endpoint: String,
    clock: Clock,
    pki: Arc<Pki>,
    server: Server,
    manager: Manager,
    faults: Faults,
    shutdown: Shutdown,
}

impl Sim {
    /// Starts the cluster; when this returns its API answers and its nodes are Ready.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let member = config.name.clone();
        let clock = config.clock.clone();
        let bound = match config.listen {
            Some(address) => Some(listen::bind(address).await?),
            None => None,
        };
        let pki = open_pki(&config)
            .map_err(|source| Error::Certificates { member: member.clone(), source })?;
        let tokens = pki
            .service_account_key()
            .map_err(|source| Error::Certificates { member: member.clone(), source })?;
        let tokens = Arc::new(TokenIssuer::new(ISSUER, tokens, Vec::new()));
        let server = start_server(&config, &pki, tokens.clone(), bound.as_ref()).await?;
        let shutdown = Shutdown::new();
        let manager = manager_of(&server, &clock, &shutdown);
        let faults = Faults::new(config.seed);
        nodes::register(&manager, &config).await?;
        let authorizer = server.handle().authorizer();
        let keys = Keyring { pki: pki.clone(), tokens, authorizer, clock: clock.clone() };
        nodes::start(&manager, &faults, &config);
        pods::start(&manager, &faults, &config.timeline);
        scheduler::start(&manager, &faults);
        kubelet::serve(&server.handle(), &manager, &faults, &config.forwards);
        workloads::start(&manager, config.load_balancers);
        // Behind the others: the garbage collector follows what nobody follows yet.
        let plane = Plane::new(manager.clone(), Arc::new(keys));
        registry::start(&plane, registry::Role::Member, &[]);
        if let Some(path) = &config.control {
            control::serve(path, faults.clone(), &shutdown)
                .map_err(|source| Error::Control { path: path.display().to_string(), source })?;
        }
        // Hosts under `.invalid` are never resolved: this one is reached in process only.
        let mut endpoint = format!("https://{member}.invalid");
        if let Some(bound) = bound {
            endpoint = format!("https://{}", bound.address);
            let network = Network::new(server.handle(), faults.clone());
            let tls = pki
                .server_config()
                .map_err(|source| Error::Certificates { member: member.clone(), source })?;
            let tls = Arc::new(ArcSwap::new(tls));
            shutdown.spawn(listen::serve(bound, tls, network, faults.clone(), shutdown.clone()));
        }
        Ok(Self { name: member, endpoint, clock, pki, server, manager, faults, shutdown })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address clients are told to use.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// An administrator inside the cluster: no fault of the network is in the way.
    pub fn client(&self) -> Client {
        self.client_as(Identity::new("system:admin", ["system:masters", "system:authenticated"]))
    }

    /// Somebody inside the cluster.
    pub fn client_as(&self, identity: Identity) -> Client {
        Client::in_process(self.handle().acting_as(identity))
    }

    /// The way in from outside, for callers in the same process that bring their credentials along.
    pub fn network(&self) -> Network {
        Network::new(self.handle(), self.faults.clone())
    }

    /// Somebody outside the cluster, with the faults of the network between.
    pub fn remote_client(&self, identity: Identity) -> Client {
        Client::in_process(self.network().acting_as(identity))
    }

    /// Somebody outside the cluster with the token of a service account.
    pub fn remote_client_with_token(&self, token: &str) -> Client {
        Client::in_process(self.network().with_token(token))
    }

    /// The API server itself.
    pub fn handle(&self) -> Handle {
        self.server.handle()
    }

    /// The administrator's kubeconfig; cluster, user and context are named like the member.
    pub fn kubeconfig(&self) -> String {
        self.pki.admin_kubeconfig(&self.name, &self.endpoint)
    }

    /// The certificates of the cluster, for one that takes its place.
    pub fn pki(&self) -> &Arc<Pki> {
        &self.pki
    }

    /// The authority that signed the serving certificate, as PEM.
    pub fn certificate_authority(&self) -> String {
        self.pki.authority().certificate_pem()
    }

    /// What the controllers of the cluster share.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Ends everything at once, as a power cut would.
    pub fn kill(&self) {
        self.shutdown.kill();
        self.server.stop();
    }

    /// Ends everything; objects in memory are gone.
    pub async fn stop(self) {
        self.shutdown.finish(FAREWELL).await;
        self.server.stop();
    }
}

fn open_pki(config: &Config) -> Result<Arc<Pki>, pki::Error> {
    if let Some(pki) = &config.pki {
        return Ok(pki.clone());
    }
    let address = config.listen.map(|address| address.ip());
    let dir = config.pki_dir.clone();
    let mut settings = Settings::new(dir, CERTIFICATE_VALIDITY, [config.name.clone()], address);
    settings.token_key = TokenKey::Ecdsa;
    Pki::open(settings, config.clock.now()).map(Arc::new)
}

async fn start_server(
    config: &Config,
    pki: &Pki,
    tokens: Arc<TokenIssuer>,
    bound: Option<&listen::Bound>,
) -> Result<Server, Error> {
    let member = || config.name.clone();
    let mut settings =
        ServerConfig { role: Role::Member, history: HISTORY, ..ServerConfig::default() };
    if config.seed != 0 {
        settings.chance = Chance::seeded(config.seed);
    }
    if let Some(bound) = bound {
        settings.advertise_address = bound.address.ip();
        settings.secure_port = bound.address.port();
    }
    let trust =
        pki.trust(tokens).map_err(|source| Error::Certificates { member: member(), source })?;
    let store = config.store.clone().unwrap_or_else(|| Arc::new(Memory::new()));
    let clock = config.clock.clone();
    let time: karmada_apiserver::auth::Clock = Arc::new(move || clock.now());
    let builder = Server::builder(settings, store, trust).clock(time);
    builder.start().await.map_err(|source| Error::Server { member: member(), source })
}

fn manager_of(server: &Server, clock: &Clock, shutdown: &Shutdown) -> Manager {
    let identity = Identity::new("system:kube-controller-manager", ["system:masters"]);
    // Compat: what these controllers write carries this name in Kubernetes.
    let client = Client::beside(server.handle().acting_as(identity))
        .with_user_agent("kube-controller-manager");
    let mut manager = Manager::new(client, clock.clone(), Metrics::default(), shutdown.clone());
    manager.event_budget = EVENTS;
    manager
}

//! A whole control plane in this process, to be measured: API server on the durable store,
//! admission, controllers and scheduler as `karmada up` has them. It can be stopped and started
//! again on the same store. Members are bare API servers, as those of the original's figures.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use jiff::SignedDuration;
use karmada_api::cluster::Cluster;
use karmada_api::features::Gates;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::TokenIssuer;
use karmada_apiserver::pki::{Pki, Settings, TokenKey};
use karmada_apiserver::{Config, Role, Server};
use karmada_client::{Api, Client};
use karmada_controllers::context::{Context, Options};
use karmada_controllers::members::{Dial, DialError, Limits};
use karmada_controllers::registry;
use karmada_kube_controllers::{Plane as Basics, registry as basics};
use karmada_member_sim::Keyring;
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::{Embedded, Memory, STORE_FILE, Store};
use parking_lot::Mutex;

use crate::far::{Elsewhere, Far};

const CLUSTERS: &str = "clusters.v1alpha1.cluster.karmada.io";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// As the original's were raised for its figures.
const MEMBER_LIMITS: (f64, f64) = (2000.0, 4000.0);
const FAREWELL: Duration = Duration::from_secs(10);

/// Requests of one kind, as the API server counts them.
pub(crate) type Writes = BTreeMap<String, u64>;

/// The ways to members. Clones share them.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<BTreeMap<String, Client>>>);

impl Dial for Known {
    fn dial(
        &self,
        cluster: &Cluster,
        _: Option<&karmada_apimachinery::Value>,
    ) -> Result<Client, DialError> {
        let name = &cluster.metadata.name;
        self.0.lock().get(name).cloned().ok_or_else(|| DialError::NoEndpoint(name.clone()))
    }
}

/// The parts that end and begin with the process of a control plane.
struct Running {
    server: Server,
    store: Arc<Embedded>,
    client: Client,
    shutdown: Shutdown,
}

pub(crate) struct Plane {
    root: PathBuf,
    /// Where the store of the present start lies.
    dir: PathBuf,
    starts: usize,
    pki: Arc<Pki>,
    members: Known,
    servers: Vec<Server>,
    running: Option<Running>,
    controllers: Option<Shutdown>,
    ids: Arc<AtomicU64>,
    elsewhere: Elsewhere,
}

impl Plane {
    pub(crate) async fn start(dir: &Path) -> anyhow::Result<Self> {
        let mut plane = Self {
            root: dir.to_owned(),
            dir: dir.join("0"),
            starts: 0,
            pki: authority("karmada")?,
            members: Known::default(),
            servers: Vec::new(),
            running: None,
            controllers: None,
            ids: Arc::new(AtomicU64::new(1)),
            elsewhere: Elsewhere::start()?,
        };
        plane.start_server().await?;
        Ok(plane)
    }

    /// Opens the store and serves it: what a process does until its API answers.
    pub(crate) async fn start_server(&mut self) -> anyhow::Result<()> {
        let store = Arc::new(Embedded::open(&self.dir)?);
        let tokens =
            Arc::new(TokenIssuer::new(ISSUER, self.pki.service_account_key()?, Vec::new()));
        let trust = self.pki.trust(tokens.clone())?;
        let config = Config { role: Role::Plane, ..Config::default() };
        let builder = Server::builder(config, store.clone(), trust);
        let ids = self.ids.clone();
        let new_id =
            move || format!("00000000-0000-4000-8000-{:012}", ids.fetch_add(1, Ordering::Relaxed));
        let settings = karmada_plane::Settings {
            gates: Gates::default(),
            allow_no_execute_taints: false,
            new_id: Arc::new(new_id),
        };
        let (builder, hooks) = karmada_plane::extend(builder, settings);
        let server = builder.start().await?;
        hooks.attach(&server.handle());
        let client = client_of(&server, "admin");
        karmada_plane::install(&client).await?;
        let shutdown = Shutdown::new();
        let manager = manager_of(&server, "kube-controller-manager", &shutdown);
        let (authorizer, clock) = (server.handle().authorizer(), Clock::real());
        let keys = Keyring { pki: self.pki.clone(), tokens, authorizer, clock };
        basics::start(&Basics::new(manager, Arc::new(keys)), basics::Role::Plane, &[]);
        self.running = Some(Running { server, store, client, shutdown });
        Ok(())
    }

    /// Ends the control plane; members live on. What comes next begins with a copy of its files, as
    /// requests that are still open may hold the old ones for a while.
    pub(crate) async fn stop_server(&mut self) -> anyhow::Result<()> {
        self.stop_controllers().await;
        let Some(Running { server, store, client, shutdown }) = self.running.take() else {
            return Ok(());
        };
        shutdown.finish(FAREWELL).await;
        server.stop();
        drop((server, client, store));
        self.starts += 1;
        let next = self.root.join(self.starts.to_string());
        std::fs::create_dir(&next)?;
        // The log first: whatever the old store moves from it to the other file meanwhile is in both.
        for name in [format!("{STORE_FILE}-wal"), STORE_FILE.to_owned()] {
            match std::fs::copy(self.dir.join(&name), next.join(&name)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        self.dir = next;
        Ok(())
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the server runs but for the moment of a restart")
    }

    pub(crate) fn api(&self, resource: &str) -> Api {
        self.running().client.api(&gvr(resource))
    }

    pub(crate) fn client(&self) -> Client {
        self.running().client.clone()
    }

    pub(crate) fn members(&self) -> Vec<Client> {
        self.members.0.lock().values().cloned().collect()
    }

    /// Lets the controllers reach a member that is or will be joined under this name.
    pub(crate) fn reach(&self, name: &str, client: Client) {
        self.members.0.lock().insert(name.to_owned(), client);
    }

    /// What was written since the beginning of time, whoever did it.
    pub(crate) fn revision(&self) -> i64 {
        self.running().store.revision()
    }

    /// Adds an API server in this process that has no controllers and no nodes.
    pub(crate) async fn add_bare_member(&mut self, name: &str) -> anyhow::Result<()> {
        let tokens =
            Arc::new(TokenIssuer::new(ISSUER, self.pki.service_account_key()?, Vec::new()));
        let config = Config { role: Role::Member, ..Config::default() };
        let trust = self.pki.trust(tokens)?;
        let there = self.elsewhere.handle();
        let server = Server::builder(config, Arc::new(Memory::new()), trust);
        let server = there.spawn(server.start()).await.context("start a member")??;
        // Members are elsewhere: what goes to them becomes text.
        let identity = Identity::new("karmada", ["system:masters", "system:authenticated"]);
        let service = server.handle().acting_as(identity);
        let client = Client::in_process(Far { service, there });
        self.servers.push(server);
        self.join(name, client).await
    }

    pub(crate) async fn join(&mut self, name: &str, client: Client) -> anyhow::Result<()> {
        self.reach(name, client);
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{name}.invalid"),
                "secretRef": {"namespace": "default", "name": name}},
        });
        let secret =
            json!({"metadata": {"name": name}, "stringData": {"token": "t", "caBundle": "c"}});
        self.api("secrets").namespaced("default").create(&secret).await?;
        self.api(CLUSTERS).create(&cluster).await?;
        Ok(())
    }

    /// Waits until the control plane says that all members are ready.
    pub(crate) async fn wait_ready(&self) -> anyhow::Result<()> {
        let names: Vec<String> = self.members.0.lock().keys().cloned().collect();
        self.wait_until_ready(&names).await
    }

    pub(crate) async fn wait_until_ready<N: AsRef<str>>(&self, names: &[N]) -> anyhow::Result<()> {
        let clusters = self.api(CLUSTERS);
        for name in names.iter().map(AsRef::as_ref) {
            loop {
                let cluster = clusters.get(name).await?;
                let ready = |condition: &karmada_apimachinery::Value| {
                    condition["type"] == "Ready" && condition["status"] == "True"
                };
                if cluster.list_at(&["status", "conditions"]).iter().any(ready) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        Ok(())
    }

    /// Starts Karmada's controllers and the scheduler.
    pub(crate) fn start_controllers(&mut self) {
        let (shutdown, gates) = (Shutdown::new(), Gates::default());
        let server = &self.running().server;
        let manager = manager_of(server, "karmada-controller-manager", &shutdown);
        // The scheduler reads the same caches and writes under its own name.
        let mut manager_of_scheduler = manager.clone();
        manager_of_scheduler.client = client_of(server, "karmada-scheduler");
        let scheduling = karmada_scheduler::Options::default();
        let scheduler = karmada_scheduler::start(&manager_of_scheduler, scheduling, &gates);
        let (qps, burst) = MEMBER_LIMITS;
        let member_limits = Limits { qps, burst, ..Limits::default() };
        let options = Options { member_limits, ..Options::default() };
        let dial = Arc::new(self.members.clone());
        let context =
            Context::start(manager, dial, gates, options).with_placer(Arc::new(scheduler));
        registry::start(&context, &[]);
        self.controllers = Some(shutdown);
    }

    pub(crate) async fn stop_controllers(&mut self) {
        if let Some(shutdown) = self.controllers.take() {
            shutdown.finish(FAREWELL).await;
        }
    }

    /// Writes answered by the API server so far, failed ones too; leases left out.
    pub(crate) async fn writes(&self) -> anyhow::Result<Writes> {
        let request = http::Request::get("/metrics").body(karmada_client::Body::empty())?;
        let text = self.running().client.request_bytes(request).await?;
        let mut writes = Writes::new();
        for line in String::from_utf8_lossy(&text).lines() {
            let Some(line) = line.strip_prefix("apiserver_request_total{") else { continue };
            let part = |name: &str| {
                let rest = line.split_once(&format!("{name}=\""))?.1;
                rest.split_once('"').map(|(value, _)| value)
            };
            let (Some(verb), Some(resource)) = (part("verb"), part("resource")) else { continue };
            let writes_it = matches!(verb, "CREATE" | "UPDATE" | "PATCH" | "DELETE");
            if !writes_it || resource == "leases" {
                continue;
            }
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
            let what = match (part("subresource"), part("code")) {
                (None | Some(""), Some(code)) => format!("{verb} {resource} {code}"),
                (sub, code) => {
                    format!("{verb} {resource}/{} {}", sub.unwrap_or(""), code.unwrap_or(""))
                }
            };
            *writes.entry(what).or_default() += count.unwrap_or_default();
        }
        Ok(writes)
    }

    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.stop_server().await?;
        self.servers.iter().for_each(Server::stop);
        Ok(())
    }
}

fn authority(name: &str) -> anyhow::Result<Arc<Pki>> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut settings = Settings::new(None, VALIDITY, [name.to_owned()], [local]);
    settings.token_key = TokenKey::Ecdsa;
    Ok(Arc::new(Pki::open(settings, Clock::real().now()).context("make certificates")?))
}

fn client_of(server: &Server, name: &str) -> Client {
    let identity = Identity::new(name, ["system:masters", "system:authenticated"]);
    Client::beside(server.handle().acting_as(identity)).with_user_agent(name)
}

fn manager_of(server: &Server, name: &str, shutdown: &Shutdown) -> Manager {
    Manager::new(client_of(server, name), Clock::real(), Metrics::default(), shutdown.clone())
}

pub(crate) fn gvr(resource: &str) -> Gvr {
    let mut parts = resource.splitn(3, '.');
    let name = parts.next().unwrap_or_default();
    let version = parts.next().unwrap_or("v1");
    Gvr::new(parts.next().unwrap_or(""), version, name)
}

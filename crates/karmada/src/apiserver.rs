//! `karmada apiserver`: the API server alone, without anything of Karmada.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use karmada_api::features::Gates;
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::TokenIssuer;
use karmada_apiserver::pki::{Pki, Settings, read_leaf, write_private};
use karmada_apiserver::{Builder, Config, Handle, Role, Server};
use karmada_client::Client;
use karmada_kube_controllers::{Plane, registry};
use karmada_member_sim::Keyring;
use karmada_runtime::{Clock, Elector, Manager, Metrics, Shutdown};
use karmada_store::{DirLock, Embedded, Etcd, Memory, Store};
use tokio::net::TcpListener;

use crate::audit::AuditArgs;
use crate::control::{self, Subject};
use crate::encryption::EncryptionArgs;
use crate::etcd::{ElectionArgs, EtcdArgs, keys};
use crate::front_proxy::FrontProxyArgs;
use crate::stop::Stop;
use crate::up::{parse_gates, user_data_dir};
use crate::version;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// How long controllers may take to finish what they are at.
const FAREWELL: Duration = Duration::from_secs(5);
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Where data, certificates and the admin kubeconfig are kept
    /// [default: karmada-apiserver in the user's data directory]
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// A control plane for templates, or a cluster with the admission steps of one.
    #[arg(long, value_enum, default_value = "plane")]
    role: RoleArg,
    /// Gates to switch, as in `Failover=true`; checked, and shown in the metrics
    #[arg(long, value_parser = parse_gates, default_value = "")]
    feature_gates: Gates,
    #[command(flatten)]
    serving: ServingArgs,
}

/// Flags of everything that serves an API.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServingArgs {
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// The port to serve on; 0 takes any free one
    #[arg(long, default_value_t = 5443)]
    secure_port: u16,
    /// The address clients are told to use; the bind address unless given
    #[arg(long)]
    advertise_address: Option<IpAddr>,
    /// How long certificates are valid, in hours as in `876000h`
    #[arg(long, default_value = "8760h", value_parser = parse_hours)]
    cert_validity: SignedDuration,
    /// Addresses that Services are given
    #[arg(long, default_value = "10.96.0.0/16", value_parser = parse_cidr)]
    service_cluster_ip_range: (Ipv4Addr, u8),
    /// Where objects are kept: on disk, or in memory until the process ends
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreArg,
    #[command(flatten)]
    etcd: EtcdArgs,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    encryption: EncryptionArgs,
    /// How often history is compacted, in seconds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    compaction_interval: u64,
    /// How long events are kept, as in `1h0m0s`
    #[arg(long, default_value = "1h", value_parser = parse_ttl)]
    event_ttl: Duration,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    front_proxy: FrontProxyArgs,
    /// The serving certificate; one of its own unless given
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

fn parse_ttl(text: &str) -> Result<Duration, String> {
    let ttl = karmada_apimachinery::time::parse_go_duration(text)?;
    Duration::try_from(ttl).map_err(|_| "must not be negative".to_owned())
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RoleArg {
    Plane,
    Member,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum StoreArg {
    Embedded,
    Memory,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let role = match args.role {
        RoleArg::Plane => Role::Plane,
        RoleArg::Member => Role::Member,
    };
    let data_dir = match args.data_dir {
        Some(data_dir) => data_dir,
        None => user_data_dir()
            .context("find the user's data directory; give --data-dir")?
            .join("karmada-apiserver"),
    };
    let kubeconfig = data_dir.join("admin.config");
    let setup = Setup { data_dir: &data_dir, role, kubeconfig: &kubeconfig, context: "admin" };
    let metrics = Metrics::default();
    version::register(&metrics, &args.feature_gates);
    let serving = Serving::start(&args.serving, setup, |builder| {
        builder.extra_metrics(Arc::new(move || metrics.encode()))
    })
    .await?;
    let stop = Stop::listen()?;
    serving.lead("kube-controller-manager", |_| {});
    tracing::info!(server = serving.address, kubeconfig = %kubeconfig.display(), "serving");
    serving.until_stopped(stop).await
}

/// What differs between the programs that serve an API.
pub(crate) struct Setup<'a> {
    pub(crate) data_dir: &'a Path,
    pub(crate) role: Role,
    pub(crate) kubeconfig: &'a Path,
    /// The name of cluster, user and context in the kubeconfig.
    pub(crate) context: &'a str,
}

/// An API server with its controllers, listening.
pub(crate) struct Serving {
    pub(crate) server: Server,
    pub(crate) address: String,
    listener: TcpListener,
    tls: Arc<ArcSwap<rustls::ServerConfig>>,
    shutdown: Shutdown,
    keys: (Arc<Pki>, Arc<TokenIssuer>),
    role: Role,
    /// How replicas agree who leads; nothing if there can be no other.
    election: Option<ElectionArgs>,
    /// Keeps other processes off the data directory.
    _lock: DirLock,
}

impl Serving {
    /// Opens certificates and store, starts the server and writes the kubeconfig. `customise` adds what the program serves beyond Kubernetes.
    pub(crate) async fn start(
        args: &ServingArgs,
        setup: Setup<'_>,
        customise: impl FnOnce(Builder) -> Builder,
    ) -> anyhow::Result<Self> {
        let data_dir = setup.data_dir;
        std::fs::create_dir_all(data_dir)
            .with_context(|| format!("create {}", data_dir.display()))?;
        let lock = DirLock::acquire(data_dir)?;
        let advertised = args.advertise_address.unwrap_or(args.bind_address);
        let settings = args.certificates(data_dir, advertised);
        let shared = args.etcd.options().is_some();
        if shared {
            args.election.check()?;
        }
        // New keys take longer than everything else, so they are made beside it.
        let own = settings.clone();
        let keys = (!shared)
            .then(|| tokio::task::spawn_blocking(move || Pki::open(own, Timestamp::now())));
        drop(tokio::task::spawn_blocking(karmada_apiserver::unpack_schemas));
        let store: Arc<dyn Store> = match (args.etcd.options(), args.store) {
            (Some(options), _) => Arc::new(Etcd::open(&options).await?),
            (None, StoreArg::Memory) => Arc::new(Memory::new()),
            (None, StoreArg::Embedded) => Arc::new(Embedded::open(data_dir.join("store"))?),
        };
        let pki = match keys {
            None => keys::open_shared(&*store, settings).await?,
            Some(keys) => keys.await.context("make keys")??,
        };
        let pki = Arc::new(pki);
        let listener = args.listen().await?;
        let port = listener.local_addr()?.port();
        let config = Config {
            role: setup.role,
            advertise_address: advertised,
            secure_port: port,
            service_cidr: args.service_cluster_ip_range,
            compaction_interval: Duration::from_secs(args.compaction_interval),
            event_ttl: args.event_ttl,
            ..Config::default()
        };
        let tokens = Arc::new(TokenIssuer::new(ISSUER, pki.service_account_key()?, Vec::new()));
        let mut trust = pki.trust(tokens.clone())?;
        args.front_proxy.trust(&mut trust)?;
        // Backups hold what is encrypted as it lies.
        let subject = Subject { store: store.clone(), data_dir: data_dir.to_owned() };
        let store = args.encryption.wrap(store).await?;
        let builder = customise(Server::builder(config, store, trust));
        let mut builder = args.front_proxy.identify(builder, &pki)?;
        if let Some(audit) = args.audit.open()? {
            builder = builder.audit(audit);
        }
        let server = builder.start().await?;
        control::serve(subject);
        let address = format!("https://{}", SocketAddr::new(advertised, port));
        write_private(setup.kubeconfig, &pki.admin_kubeconfig(setup.context, &address))?;
        let tls = Arc::new(ArcSwap::new(args.server_config(&pki)?));
        let renewal = Renewal {
            clock: Clock::real(),
            pki: pki.clone(),
            kubeconfig: setup.kubeconfig.to_owned(),
            context: setup.context.to_owned(),
            address: address.clone(),
        };
        tokio::spawn(renewal.run());
        Ok(Self {
            server,
            address,
            listener,
            tls,
            shutdown: Shutdown::new(),
            keys: (pki, tokens),
            role: setup.role,
            election: shared.then(|| args.election.clone()),
            _lock: lock,
        })
    }

    /// Starts the controllers every API needs and those of the program; where there are replicas,
    /// whenever this one leads.
    pub(crate) fn lead(
        &self,
        lease: &'static str,
        start: impl Fn(&Shutdown) + Clone + Send + Sync + 'static,
    ) {
        let (server, role) = (self.server.handle(), self.role);
        let (pki, tokens) = self.keys.clone();
        let start = move |shutdown: &Shutdown| {
            start_controllers(&server, role, (pki.clone(), tokens.clone()), shutdown);
            start(shutdown);
        };
        let Some(election) = &self.election else {
            return start(&self.shutdown);
        };
        let identity = Identity::new("system:kube-controller-manager", ["system:masters"]);
        let client = Client::in_process(self.server.handle().acting_as(identity))
            .with_user_agent("leader-election");
        let config = election.lease("kube-system", lease, &self.address);
        let shutdown = self.shutdown.clone();
        self.shutdown.spawn(async move {
            while !shutdown.is_triggered() {
                let elector = Elector::new(&client, config.clone(), Clock::real());
                let start = start.clone();
                let lead = move |leading: Shutdown| async move {
                    start(&leading);
                    leading.triggered().await;
                };
                elector.run(&shutdown, lead).await;
            }
        });
    }

    /// Tells when everything is to end, for parts that every replica runs.
    pub(crate) fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Serves until the process is asked to stop, then lets open requests finish.
    pub(crate) async fn until_stopped(self, stop: Stop) -> anyhow::Result<()> {
        tokio::select! {
            () = self.server.serve(self.listener, self.tls) => {}
            () = stop.requested() => {}
        }
        tracing::info!("stopping");
        // Controllers finish what they are at while there is a server to finish it with.
        self.shutdown.finish(FAREWELL).await;
        self.server.stop();
        Ok(())
    }
}

impl ServingArgs {
    /// Names and addresses the serving certificate is good for.
    fn certificates(&self, data_dir: &Path, advertised: IpAddr) -> Settings {
        let (network, _) = self.service_cluster_ip_range;
        let first_service_address = Ipv4Addr::from(u32::from(network) + 1);
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let hostname = Some(hostname.trim().to_owned()).filter(|name| !name.is_empty());
        Settings::new(
            Some(data_dir.join("pki")),
            self.cert_validity,
            hostname,
            [advertised, self.bind_address, IpAddr::V4(first_service_address)],
        )
    }

    fn server_config(&self, pki: &Pki) -> anyhow::Result<Arc<rustls::ServerConfig>> {
        Ok(match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                pki.server_config_showing(&read_leaf(certificate, key)?)?
            }
            _ => pki.server_config()?,
        })
    }

    async fn listen(&self) -> anyhow::Result<TcpListener> {
        let Self { bind_address, secure_port, .. } = self;
        TcpListener::bind((*bind_address, *secure_port)).await.with_context(|| {
            format!(
                "listen on {bind_address}:{secure_port} (is another server there? --secure-port 0 takes any free port)"
            )
        })
    }
}

/// Starts the controllers every Kubernetes API needs, as callers in the same process.
fn start_controllers(
    server: &Handle,
    role: Role,
    (pki, tokens): (Arc<Pki>, Arc<TokenIssuer>),
    shutdown: &Shutdown,
) {
    let identity = Identity::new("system:kube-controller-manager", ["system:masters"]);
    // Compat: what these controllers write carries this name in Kubernetes.
    let client =
        Client::beside(server.acting_as(identity)).with_user_agent("kube-controller-manager");
    let clock = Clock::real();
    let authorizer = server.authorizer();
    let keys = Keyring { pki, tokens, authorizer, clock: clock.clone() };
    let manager = Manager::new(client, clock, Metrics::default(), shutdown.clone());
    let plane = Plane::new(manager, Arc::new(keys));
    let role = match role {
        Role::Plane => registry::Role::Plane,
        Role::Member => registry::Role::Member,
    };
    registry::start(&plane, role, &[]);
}

/// Keeps certificates and the kubeconfig that holds one of them from expiring.
struct Renewal {
    clock: Clock,
    pki: Arc<Pki>,
    kubeconfig: PathBuf,
    context: String,
    address: String,
}

impl Renewal {
    async fn run(self) {
        loop {
            tokio::time::sleep(RENEWAL_CHECK).await;
            match self.pki.renew_due(self.clock.now()) {
                Ok(renewed) if renewed.is_empty() => {}
                Ok(renewed) => {
                    tracing::info!(?renewed, "certificates renewed");
                    let text = self.pki.admin_kubeconfig(&self.context, &self.address);
                    if let Err(error) = write_private(&self.kubeconfig, &text) {
                        tracing::error!(%error, "write the renewed kubeconfig");
                    }
                }
                Err(error) => tracing::error!(%error, "renew certificates"),
            }
        }
    }
}

fn parse_hours(text: &str) -> Result<SignedDuration, String> {
    const THOUSAND_YEARS: i64 = 1000 * 8760;
    let hours = text.strip_suffix('h').unwrap_or(text).parse::<i64>();
    match hours {
        Ok(hours) if (1..=THOUSAND_YEARS).contains(&hours) => Ok(SignedDuration::from_hours(hours)),
        Ok(_) => Err(format!("1h to {THOUSAND_YEARS}h are possible")),
        Err(_) => Err("hours such as 8760h are needed".to_owned()),
    }
}

fn parse_cidr(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let refuse = || "a range such as 10.96.0.0/12, with 8 to 30 bits, is needed".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(refuse)?;
    let (Ok(address), Ok(bits)) = (address.parse(), bits.parse::<u8>()) else {
        return Err(refuse());
    };
    if (8..=30).contains(&bits) { Ok((address, bits)) } else { Err(refuse()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        args: ServingArgs,
    }

    #[test]
    fn flags_that_cannot_work_are_refused_with_what_would() {
        let cases = [
            ("--cert-validity=876000h", None),
            ("--cert-validity=0h", Some("1h to 8760000h are possible")),
            ("--cert-validity=9223372036854775807h", Some("1h to 8760000h are possible")),
            ("--cert-validity=10d", Some("hours such as 8760h are needed")),
            ("--compaction-interval=0", Some("1..")),
            ("--service-cluster-ip-range=10.0.0.0/31", Some("with 8 to 30 bits, is needed")),
            ("--secure-port=99999", Some("0..=65535")),
            ("--event-ttl=5", Some("missing unit in duration")),
            ("--secure-prt=1", Some("'--secure-port")),
        ];
        for (flag, expected) in cases {
            let refused = Command::try_parse_from(["karmada", flag]).map(|command| command.args);
            match (refused, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => {
                    assert!(error.to_string().contains(expected), "{flag}: {error}");
                }
                (result, _) => panic!("{flag}: {result:?}"),
            }
        }
    }

    // Shows: TLS-1
    #[tokio::test(start_paused = true)]
    async fn certificates_near_their_end_are_renewed_while_the_server_runs() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let day = SignedDuration::from_hours(24);
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let settings = Settings::new(Some(dir.path().join("pki")), day, None, [loopback]);
        let pki = Arc::new(Pki::open(settings, clock.now()).unwrap());
        let kubeconfig = dir.path().join("admin.config");
        let address = "https://127.0.0.1:5443";
        write_private(&kubeconfig, &pki.admin_kubeconfig("admin", address)).unwrap();
        let renewal = Renewal {
            clock,
            pki,
            kubeconfig: kubeconfig.clone(),
            context: "admin".to_owned(),
            address: address.to_owned(),
        };
        tokio::spawn(renewal.run());
        let shown = || -> Vec<String> {
            let files = ["pki/apiserver.crt", "admin.config"];
            files.map(|file| std::fs::read_to_string(dir.path().join(file)).unwrap()).into()
        };
        let before = shown();
        tokio::time::sleep(2 * RENEWAL_CHECK).await;
        assert_eq!(shown(), before, "it is far too early");
        tokio::time::sleep(22 * RENEWAL_CHECK).await;
        for (now, before) in shown().iter().zip(&before) {
            assert_ne!(now, before);
        }
    }
}

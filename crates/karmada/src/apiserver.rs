//! `karmada apiserver`: the API server alone, without anything of Karmada.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::authenticate::FrontProxy;
use karmada_apiserver::auth::token::TokenIssuer;
use karmada_apiserver::pki::{FRONT_PROXY_CLIENT, Pki, Settings};
use karmada_apiserver::{Config, Role, Server, Trust};
use karmada_client::Client;
use karmada_controllers::control_plane::{Plane, registry};
use karmada_runtime::{Clock, Metrics, Shutdown};
use karmada_store::{Embedded, Memory, Store};
use tokio::net::TcpListener;

use crate::keys::Keyring;

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Where data, certificates and the admin kubeconfig are kept.
    #[arg(long)]
    data_dir: PathBuf,
    #[arg(long, default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// The port to serve on; 0 takes any free one.
    #[arg(long, default_value_t = 5443)]
    secure_port: u16,
    /// The address clients are told to use; the bind address unless given.
    #[arg(long)]
    advertise_address: Option<IpAddr>,
    /// How long certificates are valid, in hours as in `876000h`.
    #[arg(long, default_value = "8760h", value_parser = parse_hours)]
    cert_validity: SignedDuration,
    #[arg(long, value_enum, default_value = "plane")]
    role: RoleArg,
    #[arg(long, default_value = "10.96.0.0/16", value_parser = parse_cidr)]
    service_cluster_ip_range: (Ipv4Addr, u8),
    /// Where objects are kept.
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreArg,
    /// How often history is compacted, in seconds.
    #[arg(long, default_value_t = 300)]
    compaction_interval: u64,
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
    std::fs::create_dir_all(&args.data_dir)
        .with_context(|| format!("create {}", args.data_dir.display()))?;
    let advertised = args.advertise_address.unwrap_or(args.bind_address);
    let settings = Settings::new(
        Some(args.data_dir.join("pki")),
        args.cert_validity,
        [],
        [advertised, args.bind_address],
    );
    let pki = Arc::new(Pki::open(settings, Timestamp::now())?);
    let listener = TcpListener::bind((args.bind_address, args.secure_port))
        .await
        .with_context(|| format!("listen on {}:{}", args.bind_address, args.secure_port))?;
    let port = listener.local_addr()?.port();
    let store: Arc<dyn Store> = match args.store {
        StoreArg::Memory => Arc::new(Memory::new()),
        StoreArg::Embedded => Arc::new(Embedded::open(args.data_dir.join("store"))?),
    };
    let config = Config {
        role: match args.role {
            RoleArg::Plane => Role::Plane,
            RoleArg::Member => Role::Member,
        },
        advertise_address: advertised,
        secure_port: port,
        service_cidr: args.service_cluster_ip_range,
        compaction_interval: Duration::from_secs(args.compaction_interval),
        ..Config::default()
    };
    let role = config.role;
    let tokens = Arc::new(TokenIssuer::new(ISSUER, pki.service_account_key()?, Vec::new()));
    let trust = trust(&pki, tokens.clone())?;
    let server = Server::builder(config, store, trust).start().await?;
    let address = format!("https://{advertised}:{port}");
    let kubeconfig = args.data_dir.join("admin.config");
    write_private(&kubeconfig, &pki.admin_kubeconfig("admin", &address))?;
    tracing::info!(server = address, kubeconfig = %kubeconfig.display(), "serving");
    let tls = Arc::new(ArcSwap::new(pki.server_config()?));
    tokio::spawn(renew(pki.clone()));
    let shutdown = Shutdown::new();
    let _controllers = start_controllers(&server, role, (pki, tokens), &shutdown);
    tokio::select! {
        () = server.serve(listener, tls) => {}
        result = tokio::signal::ctrl_c() => result.context("wait for a signal")?,
        () = terminated() => {}
    }
    shutdown.trigger();
    server.stop();
    Ok(())
}

async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            terminate.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Starts the controllers every Kubernetes API needs, as callers in the same process. They run for
/// as long as what is returned lives.
fn start_controllers(
    server: &Server,
    role: Role,
    (pki, tokens): (Arc<Pki>, Arc<TokenIssuer>),
    shutdown: &Shutdown,
) -> Plane {
    let identity = Identity::new("system:kube-controller-manager", ["system:masters"]);
    // Compat: what these controllers write carries this name in Kubernetes.
    let client = Client::in_process(server.handle().acting_as(identity))
        .with_user_agent("kube-controller-manager");
    let keys = Keyring { pki, tokens, authorizer: server.handle().authorizer() };
    let plane =
        Plane::new(client, Arc::new(keys), Clock::real(), Metrics::default(), shutdown.clone());
    let role = match role {
        Role::Plane => registry::Role::Plane,
        Role::Member => registry::Role::Member,
    };
    registry::start(&plane, role, &[]);
    plane
}

/// Renews certificates that near their end, for as long as the process lives.
async fn renew(pki: Arc<Pki>) {
    loop {
        tokio::time::sleep(RENEWAL_CHECK).await;
        match pki.renew_due(Timestamp::now()) {
            Ok(renewed) if renewed.is_empty() => {}
            Ok(renewed) => tracing::info!(?renewed, "certificates renewed"),
            Err(error) => tracing::error!(%error, "renew certificates"),
        }
    }
}

fn trust(pki: &Pki, tokens: Arc<TokenIssuer>) -> anyhow::Result<Trust> {
    let front_proxy = FrontProxy {
        authorities: pki.front_proxy_certs()?,
        allowed_names: vec![FRONT_PROXY_CLIENT.to_owned()],
    };
    let authority = pki.authority().certificate_pem();
    Ok(Trust {
        client_certs: Some(pki.client_certs()?),
        front_proxy: Some(front_proxy),
        tokens,
        allow_anonymous: true,
        client_ca_pem: authority,
        front_proxy_ca_pem: pki.front_proxy_authority().certificate_pem(),
    })
}

fn parse_hours(text: &str) -> Result<SignedDuration, String> {
    let hours = text.strip_suffix('h').unwrap_or(text).parse::<i64>();
    hours.map(SignedDuration::from_hours).map_err(|_| "hours such as 8760h are needed".to_owned())
}

fn parse_cidr(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let refuse = || "a range such as 10.96.0.0/12, with 8 to 30 bits, is needed".to_owned();
    let (address, bits) = text.split_once('/').ok_or_else(refuse)?;
    let (Ok(address), Ok(bits)) = (address.parse(), bits.parse::<u8>()) else {
        return Err(refuse());
    };
    if (8..=30).contains(&bits) { Ok((address, bits)) } else { Err(refuse()) }
}

/// Writes a file only its owner can read.
fn write_private(path: &Path, content: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let write = || options.open(path)?.write_all(content.as_bytes());
    write().with_context(|| format!("write {}", path.display()))
}

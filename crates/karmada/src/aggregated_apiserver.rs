//! `karmada aggregated-apiserver`: `Cluster` behind any Kubernetes API server, announced there by an
//! APIService. Everybody comes through that server, which has checked who they are and what they may
//! do; nobody else is let in.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use karmada_api::features::Gates;
use karmada_api::meta::Kind as _;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apiserver::auth::authenticate::{FrontProxy, ProxyHeaders};
use karmada_apiserver::auth::client_certs::ClientCerts;
use karmada_apiserver::auth::token::TokenIssuer;
use karmada_apiserver::auth::{Attributes, Decision, ExtraAuthorizer};
use karmada_apiserver::pki::tls::{ServingCertificate, server_config};
use karmada_apiserver::pki::{Pki, Settings, read_leaf};
use karmada_apiserver::{Config, Server, Trust};
use karmada_client::Client;
use karmada_store::{DirLock, Embedded, Memory, Store};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use tokio::net::TcpListener;

use crate::cluster_proxy;
use crate::component::{CommonUnused, parse_gates, tell_unused};
use crate::stop::Stop;

/// Where an API server publishes whom its aggregated servers are to believe.
const AUTHENTICATION: (&str, &str) = ("kube-system", "extension-apiserver-authentication");

/// How long to wait for the API server at the start.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// How the API server in front is reached; unless given, as kubectl would, or as the pod's service account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    #[arg(long, default_value = "0.0.0.0")]
    bind_address: IpAddr,
    /// The port to serve on; 0 takes any free one
    #[arg(long, default_value_t = 443)]
    secure_port: u16,
    /// The serving certificate; one is made in the data directory unless given
    #[arg(long, requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    #[arg(long, requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Where objects are kept; in memory until the process ends unless given
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Switches features, as in `Failover=true,AllAlpha=false`
    #[arg(long, default_value = "", hide_default_value = true, value_parser = parse_gates)]
    feature_gates: Gates,
    #[command(flatten)]
    unused: Unused,
    #[command(flatten)]
    common: CommonUnused,
}

/// Compat: flags of the original that existing command lines carry.
#[derive(Debug, Clone, clap::Args)]
struct Unused {
    /// No effect: --kubeconfig is used for this too
    #[arg(long)]
    authentication_kubeconfig: Option<PathBuf>,
    /// No effect: requests were authorized by the API server in front
    #[arg(long)]
    authorization_kubeconfig: Option<PathBuf>,
    /// Not available yet: objects are kept in --data-dir
    #[arg(long)]
    etcd_servers: Option<String>,
    #[arg(long, hide = true)]
    etcd_cafile: Option<PathBuf>,
    #[arg(long, hide = true)]
    etcd_certfile: Option<PathBuf>,
    #[arg(long, hide = true)]
    etcd_keyfile: Option<PathBuf>,
    #[arg(long, hide = true)]
    etcd_prefix: Option<String>,
    /// No effect: there is no audit log
    #[arg(long)]
    audit_log_path: Option<String>,
    #[arg(long, hide = true)]
    audit_log_maxage: Option<i64>,
    #[arg(long, hide = true)]
    audit_log_maxbackup: Option<i64>,
    /// No effect: TLS 1.2 and 1.3 are spoken
    #[arg(long)]
    tls_min_version: Option<String>,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    args.common.tell();
    let logged = args.unused.audit_log_path.is_some();
    tell_unused(&[("--audit-log-path", logged, "the audit log of the API server in front")]);
    // Objects in another place than the one asked for would look lost.
    anyhow::ensure!(
        args.unused.etcd_servers.is_none() || args.data_dir.is_some(),
        "--etcd-servers is not available yet: give --data-dir to keep clusters there"
    );
    let client = match &args.kubeconfig {
        Some(path) => Client::from_kubeconfig(path, None).await,
        None => Client::infer().await,
    };
    let client = client.context("reach the API server")?;
    let client = client.with_user_agent("karmada-aggregated-apiserver");
    let published = published(&client).await?;
    let (store, _lock) = open_store(args.data_dir.as_deref())?;
    let pki = Pki::open(certificates(&args), Timestamp::now())?;
    let tokens = Arc::new(TokenIssuer::new("karmada", pki.service_account_key()?, Vec::new()));
    let trust = trust(&published, tokens)?;
    let tls = match (&args.tls_cert_file, &args.tls_private_key_file) {
        (Some(certificate), Some(key)) => {
            let serving = ServingCertificate::new(&read_leaf(certificate, key)?)?;
            server_config(Arc::new(serving), Vec::new())?
        }
        _ => pki.server_config()?,
    };
    let listener = TcpListener::bind((args.bind_address, args.secure_port))
        .await
        .with_context(|| format!("listen on {}:{}", args.bind_address, args.secure_port))?;
    let address = listener.local_addr()?;
    let config = Config {
        advertise_address: args.bind_address,
        secure_port: address.port(),
        ..Config::default()
    };
    let mut builder = Server::builder(config, store, trust).authorizer(Arc::new(OwnGroup));
    let own = |native: &karmada_apiserver::Native| native.gvk.group == GROUP;
    for native in karmada_plane::resources(&args.feature_gates).into_iter().filter(own) {
        builder = builder.native(native);
    }
    let server = builder.start().await?;
    cluster_proxy::serve_behind(&server.handle(), client);
    let stop = Stop::listen()?;
    tracing::info!(%address, "serving clusters");
    tokio::select! {
        () = server.serve(listener, Arc::new(ArcSwap::new(tls))) => {}
        () = stop.requested() => {}
    }
    server.stop();
    Ok(())
}

const GROUP: &str = karmada_api::cluster::Cluster::GROUP;

/// What is served here. Whoever gets this far came through the API server in front.
struct OwnGroup;

impl ExtraAuthorizer for OwnGroup {
    fn authorize(&self, attributes: &Attributes) -> Decision {
        if attributes.user.user == "system:anonymous" {
            return Decision::no_opinion("");
        }
        match (attributes.is_resource, attributes.group == GROUP) {
            // The server itself keeps a few objects of other kinds.
            (true, false) if attributes.user.is_in("system:masters") => Decision::no_opinion(""),
            (true, false) => Decision::deny("only clusters are served here"),
            _ => Decision::allow("authorized by the API server in front"),
        }
    }
}

/// Reads whom the API server in front says to believe, as soon as it answers.
async fn published(client: &Client) -> anyhow::Result<Value> {
    let (namespace, name) = AUTHENTICATION;
    let api = client.api(&Gvr::new("", "v1", "configmaps")).namespaced(namespace);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match api.get(name).await {
            Ok(config) => return Ok(config),
            Err(error) if tokio::time::Instant::now() > deadline => {
                return Err(error).with_context(|| format!("read ConfigMap {namespace}/{name}"));
            }
            Err(error) => tracing::debug!(%error, "the API server is not there yet"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn trust(published: &Value, tokens: Arc<TokenIssuer>) -> anyhow::Result<Trust> {
    let entry = |key: &str| published.str_at(&["data", key]).unwrap_or_default();
    let authority = entry("requestheader-client-ca-file");
    let authorities = CertificateDer::pem_slice_iter(authority.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("read requestheader-client-ca-file")?;
    anyhow::ensure!(!authorities.is_empty(), "the API server names no front proxy to believe");
    let allowed_names = match entry("requestheader-allowed-names") {
        "" => Vec::new(),
        names => serde_json::from_str(names).context("read requestheader-allowed-names")?,
    };
    let authorities = ClientCerts::new(&authorities)?;
    let front_proxy = FrontProxy { authorities, allowed_names, headers: ProxyHeaders::default() };
    Ok(Trust {
        client_certs: None,
        front_proxy: Some(front_proxy),
        tokens,
        // Health and discovery; the rules of the server say no to the rest.
        allow_anonymous: true,
        client_ca_pem: entry("client-ca-file").to_owned(),
        front_proxy_ca_pem: authority.to_owned(),
    })
}

fn open_store(data_dir: Option<&Path>) -> anyhow::Result<(Arc<dyn Store>, Option<DirLock>)> {
    let Some(data_dir) = data_dir else {
        tracing::warn!(
            "clusters are kept in memory and are gone when the process ends; give --data-dir"
        );
        return Ok((Arc::new(Memory::new()), None));
    };
    std::fs::create_dir_all(data_dir).with_context(|| format!("create {}", data_dir.display()))?;
    let lock = DirLock::acquire(data_dir)?;
    Ok((Arc::new(Embedded::open(data_dir.join("store"))?), Some(lock)))
}

fn certificates(args: &Args) -> Settings {
    let directory = args.data_dir.as_ref().map(|data_dir| data_dir.join("pki"));
    let addresses = [args.bind_address, IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let name = Some("karmada-aggregated-apiserver.karmada-system.svc".to_owned());
    Settings::new(directory, SignedDuration::from_hours(8760), name, addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use karmada_apiserver::auth::{Identity, Verdict};

    #[test]
    fn only_clusters_and_only_those_who_were_let_through_are_served() {
        let ask = |user: &str, group: &str| {
            let attributes = Attributes {
                user: Arc::new(Identity::new(user, [""; 0])),
                group: group.into(),
                is_resource: true,
                ..Attributes::default()
            };
            OwnGroup.authorize(&attributes).verdict
        };
        assert_eq!(ask("alice", "cluster.karmada.io"), Verdict::Allow);
        assert_eq!(ask("alice", ""), Verdict::Deny);
        assert_eq!(ask("system:anonymous", "cluster.karmada.io"), Verdict::NoOpinion);
    }
}

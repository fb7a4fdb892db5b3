//! What a command works with: who it is called, where the control plane is, and the ways to it and to its members.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgMatches, FromArgMatches as _};
use http::{HeaderName, HeaderValue};
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::Client;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::Program;
use crate::error::{Error, Result};
use crate::globals::Globals;
use crate::resources::Resources;
use crate::suggest::did_you_mean;
use crate::transport::Attendant;

const USER_AGENT: &str = concat!("karmadactl/", env!("CARGO_PKG_VERSION"));

pub(crate) struct Context {
    pub(crate) program: Program,
    pub(crate) globals: Globals,
}

/// Whom to act as; nobody else unless a user is named.
#[derive(Debug, Default)]
pub(crate) struct Impersonation<'a> {
    pub(crate) user: &'a str,
    pub(crate) groups: &'a [String],
    pub(crate) uid: &'a str,
}

impl Impersonation<'_> {
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>> {
        let groups = self.groups.iter().map(|group| ("impersonate-group", group.as_str()));
        let rest: Vec<_> = std::iter::once(("impersonate-uid", self.uid))
            .filter(|(_, uid)| !uid.is_empty())
            .chain(groups)
            .collect();
        if self.user.is_empty() {
            return match rest.is_empty() {
                true => Ok(Vec::new()),
                false => Err("groups and a uid to act as need a user: --karmada-as".into()),
            };
        }
        let all = std::iter::once(("impersonate-user", self.user)).chain(rest);
        all.map(|(name, value)| {
            let unusable = |_| Error::Message(format!("{value:?} is no name to act as"));
            let value = HeaderValue::from_str(value).map_err(unusable)?;
            Ok((HeaderName::from_static(name), value))
        })
        .collect()
    }
}

/// A server and what it serves.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) resources: Resources,
    /// The member's name; nothing for the control plane.
    pub(crate) member: Option<String>,
}

impl Server {
    fn new(client: Client, member: Option<&str>) -> Self {
        let attendant = Attendant::new(member.unwrap_or("the control plane"));
        let client = client.with_user_agent(USER_AGENT).with_warden(Arc::new(attendant));
        let resources = Resources::new(client.clone());
        Self { client, resources, member: member.map(str::to_owned) }
    }

    /// A member by a kubeconfig of its own: the context named, else that of the cluster's name, else the current one.
    pub(crate) async fn of_kubeconfig(
        path: &std::path::Path,
        context: Option<&str>,
        member: &str,
    ) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(path).map_err(unreadable)?;
        let by_name = kubeconfig.contexts.iter().any(|context| context.name == member);
        let context = context.or(by_name.then_some(member));
        let config = to_config(kubeconfig, context).await?;
        Ok(Self::new(Client::from_config(config)?, Some(member)))
    }

    /// What the rows of this server carry in the column CLUSTER.
    pub(crate) fn label(&self) -> &str {
        self.member.as_deref().unwrap_or("Karmada")
    }
}

impl Context {
    pub(crate) fn new(program: Program, matches: &ArgMatches) -> Result<Self> {
        let globals = Globals::from_arg_matches(matches).map_err(|error| error.to_string())?;
        Ok(Self { program, globals })
    }

    /// The name to print in advice: `karmadactl` or `kubectl karmada`.
    pub(crate) fn self_name(&self) -> &'static str {
        self.program.name()
    }

    /// The connection to the control plane, by the rules of kubectl.
    pub(crate) async fn config(&self) -> Result<kube::Config> {
        let kubeconfig = load_kubeconfig(self.globals.kubeconfig.as_deref())?;
        let Some(kubeconfig) = kubeconfig else {
            return kube::Config::incluster().map_err(|_| nowhere());
        };
        let mut config = to_config(kubeconfig, self.globals.karmada_context.as_deref()).await?;
        if !self.globals.request_timeout.is_zero() {
            config.connect_timeout = Some(self.globals.request_timeout);
            config.read_timeout = Some(self.globals.request_timeout);
        }
        Ok(config)
    }

    pub(crate) async fn karmada(&self) -> Result<Server> {
        self.karmada_as(&Impersonation::default()).await
    }

    /// The control plane, as somebody else where that is wished.
    pub(crate) async fn karmada_as(&self, somebody: &Impersonation<'_>) -> Result<Server> {
        let mut config = self.config().await?;
        config.headers.extend(somebody.headers()?);
        Ok(Server::new(Client::from_config(config)?, None))
    }

    /// A member, through the control plane's proxy and with the user's own credentials. The Cluster must exist.
    pub(crate) async fn member(&self, karmada: &Server, cluster: &str) -> Result<Server> {
        self::cluster(karmada, cluster).await?;
        self.member_unchecked(cluster).await
    }

    /// A member that is known to exist.
    pub(crate) async fn member_unchecked(&self, cluster: &str) -> Result<Server> {
        let mut config = self.config().await?;
        let base = config.cluster_url.to_string();
        let url = format!(
            "{}/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy",
            base.trim_end_matches('/')
        );
        config.cluster_url = url.parse().map_err(|error| format!("address {url}: {error}"))?;
        Ok(Server::new(Client::from_config(config)?, Some(cluster)))
    }

    /// The namespace that requests are about: the flag, else that of the context, else `default`.
    pub(crate) async fn namespace(&self) -> Result<String> {
        match &self.globals.namespace {
            Some(namespace) if !namespace.is_empty() => Ok(namespace.clone()),
            _ => Ok(self.config().await?.default_namespace),
        }
    }
}

/// The resource of the clusters a control plane has.
pub(crate) fn clusters() -> Gvr {
    Gvr::new("cluster.karmada.io", "v1alpha1", "clusters")
}

/// Names of all clusters, in order.
pub(crate) async fn cluster_names(karmada: &Server) -> Result<Vec<String>> {
    let list = karmada.client.api(&clusters()).list_all(&Default::default()).await?;
    let mut names: Vec<String> = list.items.iter().map(|item| item.name().to_owned()).collect();
    names.sort();
    Ok(names)
}

/// Refuses names of clusters that do not exist, naming the nearest.
pub(crate) fn check_clusters(wanted: &[String], known: &[String]) -> Result<()> {
    let missing: Vec<&str> =
        wanted.iter().filter(|name| !known.contains(name)).map(String::as_str).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    let hint = did_you_mean(first, known.iter().map(String::as_str));
    Err(Error::Message(format!("clusters don't exist: {}{hint}", missing.join(","))))
}

/// The kubeconfig of the flag, else of `$KUBECONFIG` (a list), else of the home directory, if there is any.
pub(crate) fn load_kubeconfig(flag: Option<&std::path::Path>) -> Result<Option<Kubeconfig>> {
    let read = |path: &std::path::Path| {
        if !path.exists() {
            let why = format!("the kubeconfig {} does not exist", path.display());
            return Err(Error::Message(why));
        }
        Kubeconfig::read_from(path).map_err(unreadable)
    };
    if let Some(path) = flag.filter(|path| !path.as_os_str().is_empty()) {
        return read(&at_home(path)).map(Some);
    }
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> =
        std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if !listed.is_empty() {
        let mut merged: Option<Kubeconfig> = None;
        // Compat: of a list, files that do not exist are passed over.
        for path in listed.iter().filter(|path| path.exists()) {
            let next = read(path)?;
            merged = Some(match merged {
                None => next,
                Some(so_far) => so_far.merge(next).map_err(unreadable)?,
            });
        }
        return match merged {
            Some(merged) => Ok(Some(merged)),
            None => Err(Error::Message(format!(
                "$KUBECONFIG names {}, which does not exist",
                listed[0].display()
            ))),
        };
    }
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
    home.filter(|path| path.is_file()).map(|path| read(&path)).transpose()
}

/// A path as its writer meant it: within quotes, and after `=`, shells leave `$HOME` and `~` as they are.
fn at_home(path: &std::path::Path) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let below = ["$HOME", "~"].iter().find_map(|home| path.strip_prefix(home).ok());
    match (home, below) {
        (Some(home), Some(below)) if !path.exists() => home.join(below),
        _ => path.to_owned(),
    }
}

/// The connection a context of a kubeconfig stands for.
pub(crate) async fn to_config(
    kubeconfig: Kubeconfig,
    context: Option<&str>,
) -> Result<kube::Config> {
    let known: Vec<String> =
        kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let context = context.filter(|context| !context.is_empty());
    if let Some(wanted) = context.filter(|wanted| !known.iter().any(|name| name == wanted)) {
        let hint = did_you_mean(wanted, known.iter().map(String::as_str));
        return Err(Error::Plain(format!(
            "Error in configuration: context was not found for specified context: {wanted}{hint}\n\
             The kubeconfig has: {}",
            known.join(", ")
        )));
    }
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..Default::default() };
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unreadable)?;
    crate::error::note_server(&config.cluster_url);
    Ok(config)
}

fn unreadable(error: KubeconfigError) -> Error {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    Error::Message(format!("error loading config: {text}"))
}

fn nowhere() -> Error {
    Error::Message(
        "no control plane given: use --kubeconfig, or set $KUBECONFIG, or put one at ~/.kube/config\n\
         (`karmada up` writes karmada-apiserver.config into its data directory)"
            .to_owned(),
    )
}

/// The Cluster object of a member, whose absence is told in the server's words, with the nearest name there is.
pub(crate) async fn cluster(karmada: &Server, name: &str) -> Result<Value> {
    match karmada.client.api(&clusters()).get(name).await {
        Ok(cluster) => Ok(cluster),
        Err(error) if error.is_not_found() => {
            let known = cluster_names(karmada).await.unwrap_or_default();
            let hint = did_you_mean(name, known.iter().map(String::as_str));
            Err(Error::Plain(format!("Error from server (NotFound): {error}{hint}")))
        }
        Err(error) => Err(error.into()),
    }
}

//! Follows the Clusters of a Cluster API: what its management cluster has Provisioned is joined in Push
//! mode, and let go when it is gone from there. Runs only with `--cluster-api-kubeconfig`.
//!
//! A Cluster says in an annotation which object it stands for ([`Origin`]), and is let go for no other.
//! Kubeconfigs are read from the management cluster whenever one is needed and kept nowhere.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use karmada_api::annotations;
use karmada_api::cluster::{Cluster, ClusterSyncMode};
use karmada_api::meta::Kind as _;
use karmada_api::names::component;
use karmada_apimachinery::gvk::{GroupKind, Gvr};
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, Client, Discovery, ListOptions, Object};
use karmada_registration::{self as registration, Access, Join};
use karmada_runtime::{Action, Change, Informer, Informers, ObjectKey};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::context::Context;
use crate::members;

/// The phase in which the control plane of a cluster answers.
const PROVISIONED: &str = "Provisioned";
/// The Secret that holds the kubeconfig of a cluster is named after it, with this at the end.
const KUBECONFIG_SUFFIX: &str = "-kubeconfig";
const KUBECONFIG_KEY: &str = "value";

/// A join waits for its cluster: as many as this may be silent before others have to wait.
const WORKERS: usize = 32;
/// How long a cluster may take to answer one request, and to be joined.
const REQUEST_PATIENCE: Duration = Duration::from_secs(32);
const JOIN_PATIENCE: Duration = Duration::from_secs(180);
/// When to look again for what has to come, and at an object the cache does not know although it is there.
const RECHECK: Duration = Duration::from_secs(30);

const BY_NAME: &str = "name";

/// Makes the connection that a kubeconfig stands for.
type Enter = dyn Fn(kube::Config) -> karmada_client::Result<Client> + Send + Sync;

/// A management cluster, and the way into the clusters it has made.
#[derive(Clone)]
pub struct ClusterApi {
    client: Client,
    enter: Arc<Enter>,
}

impl ClusterApi {
    pub fn new(client: Client) -> Self {
        Self { client, enter: Arc::new(Client::from_config) }
    }

    /// Takes another way into the clusters: simulated ones are called in process.
    pub fn entering(
        self,
        enter: impl Fn(kube::Config) -> karmada_client::Result<Client> + Send + Sync + 'static,
    ) -> Self {
        Self { enter: Arc::new(enter), ..self }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("ask the management cluster for its id")]
    ManagementId(#[source] registration::Error),
    #[error("ask the management cluster for {object}")]
    Ask { object: String, source: karmada_client::Error },
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("look for the cluster in the control plane")]
    Find(#[source] karmada_client::Error),
    #[error("ask the cluster for its id")]
    ClusterId(#[source] registration::Error),
    #[error("join the cluster")]
    Join(#[source] registration::Error),
    #[error("the cluster did not answer for {} s", JOIN_PATIENCE.as_secs())]
    Silent,
    #[error("write down where the cluster comes from")]
    Mark(#[source] karmada_client::Error),
    #[error("let the cluster go")]
    LetGo(#[source] registration::Error),
}

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
enum KubeconfigError {
    #[error(
        "the secret {0} of the management cluster has no text under the key {KUBECONFIG_KEY:?}"
    )]
    Missing(String),
    #[error("the kubeconfig in the secret {secret} of the management cluster cannot be used")]
    Unusable { secret: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(
        "the kubeconfig in the secret {secret} of the management cluster has {field}: it must hold its credentials itself, and run or read nothing on this machine"
    )]
    Outside { secret: String, field: &'static str },
}

struct Ctx {
    /// The control plane.
    client: Client,
    source: ClusterApi,
    objects: Arc<Informer>,
    clusters: Arc<Informer>,
}

pub(crate) fn start(context: &Context) {
    let Some(source) = context.cluster_api.clone() else { return };
    let own = context.clone();
    context.shutdown.spawn_until(async move {
        let gvr = served(&source.client).await;
        follow(&own, source, &gvr);
    });
}

/// The resource in the version that the management cluster prefers. What is read of it is the same in all of
/// them. The Cluster API may be installed later, so it is waited for.
async fn served(management: &Client) -> Gvr {
    let kind = GroupKind { group: "cluster.x-k8s.io".to_owned(), kind: "Cluster".to_owned() };
    let discovery = Discovery::new(management.clone());
    loop {
        match discovery.resource_of_group_kind(&kind).await {
            Ok(Some(resource)) => return resource.gvr,
            Ok(None) => tracing::debug!("there is no Cluster API in the management cluster"),
            Err(error) => tracing::warn!(%error, "the management cluster does not answer"),
        }
        tokio::time::sleep(RECHECK).await;
    }
}

fn follow(context: &Context, source: ClusterApi, gvr: &Gvr) {
    let controller = context.controller("cluster-api-detector").workers(WORKERS);
    let informers = Informers::new(source.client.clone(), context.shutdown.clone()).wary();
    let ctx = Arc::new(Ctx {
        client: context.client.clone(),
        source,
        objects: informers.all(gvr),
        clusters: context.informers.all(&Gvr::new(
            Cluster::GROUP,
            Cluster::VERSION,
            Cluster::PLURAL,
        )),
    });
    ctx.objects.cache().add_index(BY_NAME, |object| vec![object.name().to_owned()]);
    let queue = controller.queue().clone();
    context.keep(ctx.objects.subscribe(move |change| {
        if differs(change, |object| (object.uid().to_owned(), is_provisioned(object))) {
            queue.add(ObjectKey::cluster(change.object().name()));
        }
    }));
    let queue = controller.queue().clone();
    context.keep(ctx.clusters.subscribe(move |change| {
        if differs(change, Standing::of) {
            queue.add(ObjectKey::of(change.object()));
        }
    }));
    let inputs = vec![ctx.objects.clone(), ctx.clusters.clone()];
    context.start(controller, inputs, move |key| reconcile(key, ctx.clone()));
}

/// Whether a change touches what is decided by.
fn differs<T: PartialEq>(change: &Change, view: impl Fn(&Object) -> T) -> bool {
    match change {
        Change::Applied { old: Some(old), new } => view(old) != view(new),
        _ => true,
    }
}

fn is_provisioned(object: &Object) -> bool {
    !object.is_being_deleted() && object.value().str_at(&["status", "phase"]) == Some(PROVISIONED)
}

async fn reconcile(key: ObjectKey, ctx: Arc<Ctx>) -> Result<Action, Error> {
    let objects = ctx.objects.cache().by_index(BY_NAME, &key.name);
    let cluster = ctx.clusters.cache().get(&key);
    let standing = cluster.as_deref().map(Standing::of);
    if objects.is_empty() && standing.as_ref().is_none_or(|standing| standing.origin.is_none()) {
        return Ok(Action::AwaitChange);
    }
    // Asked for each time: a server may be replaced by another one behind the same address.
    let management = registration::cluster_id(&ctx.source.client).await;
    let management = management.map_err(Error::ManagementId)?;
    let candidates: Vec<_> = objects.iter().map(|o| Candidate::of(o, &management)).collect();
    match (decide(&management, &candidates, standing.as_ref()), cluster) {
        (Plan::Join(origin), _) => ctx.join(&key.name, &origin).await,
        (Plan::LetGo(origin), Some(cluster)) => ctx.let_go(&cluster, &origin).await,
        (Plan::Compare { with, gone }, Some(cluster)) => {
            ctx.compare(&cluster, &with, gone.as_ref()).await
        }
        _ => Ok(Action::AwaitChange),
    }
}

/// The object of a management cluster that a Cluster stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    /// The id of the management cluster.
    management: String,
    namespace: String,
    uid: String,
}

impl Origin {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/').map(str::to_owned);
        let (management, namespace, uid) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some(Self { management, namespace, uid })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.management, self.namespace, self.uid)
    }
}

/// A Cluster of the management cluster.
#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    origin: Origin,
    is_provisioned: bool,
}

impl Candidate {
    fn of(object: &Object, management: &str) -> Self {
        let origin = Origin {
            management: management.to_owned(),
            namespace: object.namespace().to_owned(),
            uid: object.uid().to_owned(),
        };
        Self { origin, is_provisioned: is_provisioned(object) }
    }
}

/// A Cluster of the control plane.
#[derive(Debug, Clone, Default, PartialEq)]
struct Standing {
    origin: Option<Origin>,
    is_pull: bool,
    is_leaving: bool,
}

impl Standing {
    fn of(object: &Object) -> Self {
        let cluster = object.typed::<Cluster>().ok();
        let mode = cluster.map(|cluster| cluster.spec.sync_mode.clone());
        let origin = object.meta().annotations.get(annotations::CLUSTER_API_ORIGIN);
        Self {
            origin: origin.and_then(Origin::parse),
            // What cannot be understood is left alone as well.
            is_pull: mode.is_none_or(|mode| mode == ClusterSyncMode::Pull),
            is_leaving: object.is_being_deleted(),
        }
    }
}

#[derive(Debug, PartialEq)]
enum Plan {
    /// All is as it should be, or time will tell.
    Leave,
    Join(Origin),
    /// Lets the Cluster go, once it is sure that the object is gone.
    LetGo(Origin),
    /// Only the clusters themselves can say whether the Cluster stands for one of these. If it does not,
    /// and the object it was made for is gone, it goes too.
    Compare {
        with: Vec<Origin>,
        gone: Option<Origin>,
    },
}

/// What to do about the Cluster of a name, by what the caches say.
fn decide(management: &str, candidates: &[Candidate], standing: Option<&Standing>) -> Plan {
    let provisioned = candidates.iter().filter(|candidate| candidate.is_provisioned);
    let mut provisioned = provisioned.map(|candidate| candidate.origin.clone());
    let Some(standing) = standing else {
        return provisioned.next().map_or(Plan::Leave, Plan::Join);
    };
    // Who leaves is waited for, and whoever has an agent was not joined from here.
    if standing.is_leaving || standing.is_pull {
        return Plan::Leave;
    }
    let ours = standing.origin.as_ref().filter(|origin| origin.management == management);
    let stands = |origin: &Origin| candidates.iter().any(|other| other.origin == *origin);
    if ours.is_some_and(stands) {
        return Plan::Leave;
    }
    // An object may be made anew for the same cluster, as a restored backup does: it is given the time to
    // get as far as the old one.
    let is_succeeded = |origin: &&Origin| {
        let mut coming = candidates.iter().filter(|other| !other.is_provisioned);
        coming.any(|other| other.origin.namespace == origin.namespace)
    };
    let gone = ours.filter(|origin| !is_succeeded(origin)).cloned();
    let with: Vec<Origin> = provisioned.collect();
    match gone {
        gone if !with.is_empty() => Plan::Compare { with, gone },
        Some(gone) => Plan::LetGo(gone),
        None => Plan::Leave,
    }
}

impl Ctx {
    async fn join(&self, name: &str, origin: &Origin) -> Result<Action, Error> {
        let known = self.plane().find(name).await.map_err(Error::Find)?;
        if known.is_some() {
            // The cache will say so in a moment.
            return Ok(Action::AwaitChange);
        }
        let mark = (annotations::CLUSTER_API_ORIGIN.to_owned(), origin.to_string());
        let join = Join { annotations: BTreeMap::from([mark]), ..Join::named(name) };
        let joined = async {
            let (member, access) = self.enter(name, origin).await?;
            let joined = registration::join(&self.client, &member, &access, &join, &|_| {});
            joined.await.map_err(Error::Join)
        };
        match in_time(joined).await {
            Err(Error::Join(error @ registration::Error::InvalidName { .. })) => {
                tracing::warn!(%error, "a cluster of the Cluster API cannot be joined");
                Ok(Action::AwaitChange)
            }
            Err(error) => Err(error),
            Ok(()) => {
                tracing::info!(cluster = name, namespace = origin.namespace, "cluster joined");
                Ok(Action::AwaitChange)
            }
        }
    }

    /// Writes down which of the objects the Cluster stands for.
    async fn compare(
        &self,
        cluster: &Object,
        with: &[Origin],
        gone: Option<&Origin>,
    ) -> Result<Action, Error> {
        let name = cluster.name();
        let known = cluster.value();
        let id = known.str_at(&["spec", "id"]).unwrap_or_default();
        for origin in with {
            let asked = async {
                let (member, _) = self.enter(name, origin).await?;
                registration::cluster_id(&member).await.map_err(Error::ClusterId)
            };
            if in_time(asked).await? == id {
                return self.mark(cluster, origin).await;
            }
        }
        if let Some(origin) = gone {
            return self.let_go(cluster, origin).await;
        }
        tracing::warn!(
            cluster = name,
            "a cluster of the Cluster API is not joined: another one has its name"
        );
        Ok(Action::AwaitChange)
    }

    async fn mark(&self, cluster: &Object, origin: &Origin) -> Result<Action, Error> {
        let annotations = json!({annotations::CLUSTER_API_ORIGIN: origin.to_string()});
        let version = cluster.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        match self.plane().merge_patch(cluster.name(), patch).await {
            Err(error) if !error.is_not_found() => Err(Error::Mark(error)),
            _ => Ok(Action::AwaitChange),
        }
    }

    async fn let_go(&self, cluster: &Object, origin: &Origin) -> Result<Action, Error> {
        if !self.is_gone(cluster.name(), origin).await? {
            return Ok(Action::Requeue(RECHECK));
        }
        let dismissed = registration::dismiss(&self.client, cluster.name(), cluster.uid());
        dismissed.await.map_err(Error::LetGo)?;
        tracing::info!(cluster = cluster.name(), namespace = origin.namespace, "cluster let go");
        Ok(Action::AwaitChange)
    }

    /// Whether the management cluster itself says that there is no such object. A kind that is not served
    /// has no objects either; that says nothing.
    async fn is_gone(&self, name: &str, origin: &Origin) -> Result<bool, Error> {
        let object = || format!("the cluster {}/{name}", origin.namespace);
        let ask = |source| Error::Ask { object: object(), source };
        let api = self.source.client.api(&self.objects.spec().gvr).namespaced(&origin.namespace);
        api.list(&ListOptions { limit: Some(1), ..ListOptions::default() }).await.map_err(ask)?;
        let found = api.find(name).await.map_err(ask)?;
        Ok(found.is_none_or(|object| object.uid() != origin.uid))
    }

    /// The way into a cluster as its administrator, and how the control plane gets there.
    async fn enter(&self, name: &str, origin: &Origin) -> Result<(Client, Access), Error> {
        let secret = format!("{}/{name}{KUBECONFIG_SUFFIX}", origin.namespace);
        let secrets = self.source.client.api(&Gvr::new("", "v1", "secrets"));
        let found = secrets.namespaced(&origin.namespace);
        let found = found.get(&format!("{name}{KUBECONFIG_SUFFIX}")).await;
        let ask = |source| Error::Ask { object: format!("the secret {secret}"), source };
        let text = members::secret_field(&found.map_err(ask)?, KUBECONFIG_KEY);
        let text = text.and_then(|text| String::from_utf8(text).ok());
        let text = text.ok_or_else(|| KubeconfigError::Missing(secret.clone()))?;
        let config = to_config(&text, &secret).await?;
        let access = Access::of(&config);
        let entered = (self.source.enter)(config).map_err(|error| unusable(&secret, error))?;
        Ok((entered.with_user_agent(component::CONTROLLER_MANAGER), access))
    }

    fn plane(&self) -> Api {
        self.client.api(&Gvr::new(Cluster::GROUP, Cluster::VERSION, Cluster::PLURAL))
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(JOIN_PATIENCE, asked).await.unwrap_or(Err(Error::Silent))
}

fn unusable(
    secret: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> KubeconfigError {
    KubeconfigError::Unusable { secret: secret.to_owned(), source: error.into() }
}

/// The connection that the text of a kubeconfig stands for.
async fn to_config(text: &str, secret: &str) -> Result<kube::Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|error| unusable(secret, error))?;
    if let Some(field) = outside(&kubeconfig) {
        return Err(KubeconfigError::Outside { secret: secret.to_owned(), field });
    }
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|error| unusable(secret, error))?;
    config.connect_timeout = Some(REQUEST_PATIENCE);
    config.read_timeout = Some(REQUEST_PATIENCE);
    Ok(config)
}

/// The field of a kubeconfig that would have this machine run a program or read a file. Whoever may write
/// Secrets in the management cluster has no business here.
fn outside(kubeconfig: &Kubeconfig) -> Option<&'static str> {
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let of_users = users.flat_map(|user| {
        [
            (user.exec.is_some(), "exec"),
            (user.auth_provider.is_some(), "auth-provider"),
            (user.token_file.is_some(), "tokenFile"),
            (user.client_certificate.is_some(), "client-certificate"),
            (user.client_key.is_some(), "client-key"),
        ]
    });
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let of_clusters =
        clusters.map(|cluster| (cluster.certificate_authority.is_some(), "certificate-authority"));
    of_users.chain(of_clusters).find_map(|(is_set, field)| is_set.then_some(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::parse(text).unwrap()
    }

    fn candidate(text: &str, is_provisioned: bool) -> Candidate {
        Candidate { origin: origin(text), is_provisioned }
    }

    fn standing(text: &str) -> Standing {
        Standing { origin: Origin::parse(text), ..Standing::default() }
    }

    fn compare(with: &[&str], gone: Option<&str>) -> Plan {
        let with = with.iter().map(|text| origin(text)).collect();
        Plan::Compare { with, gone: gone.map(origin) }
    }

    #[test]
    fn what_is_provisioned_is_joined_and_what_is_gone_is_let_go() {
        let (coming, ready) = (candidate("m/a/1", false), candidate("m/a/1", true));
        let anew = |is_provisioned| candidate("m/a/2", is_provisioned);
        let elsewhere = candidate("m/b/3", true);
        let (joined, foreign, unmarked) = (standing("m/a/1"), standing("n/a/1"), standing(""));
        let leaving = Standing { is_leaving: true, ..joined.clone() };
        let pull = Standing { is_pull: true, ..joined.clone() };
        let let_go = || Plan::LetGo(origin("m/a/1"));
        #[rustfmt::skip]
        let cases: Vec<(&str, Vec<Candidate>, Option<&Standing>, Plan)> = vec![
            ("nothing anywhere", vec![], None, Plan::Leave),
            ("not provisioned yet", vec![coming.clone()], None, Plan::Leave),
            ("provisioned", vec![ready.clone()], None, Plan::Join(origin("m/a/1"))),
            ("two of a name: the first that is ready", vec![coming.clone(), elsewhere.clone()], None, Plan::Join(origin("m/b/3"))),
            ("joined", vec![ready.clone()], Some(&joined), Plan::Leave),
            ("joined, and no longer well", vec![coming.clone()], Some(&joined), Plan::Leave),
            ("joined, and another one of the name", vec![ready.clone(), elsewhere.clone()], Some(&joined), Plan::Leave),
            ("gone", vec![], Some(&joined), let_go()),
            ("gone, being let go", vec![], Some(&leaving), Plan::Leave),
            ("made anew while the old one is let go", vec![anew(true)], Some(&leaving), Plan::Leave),
            ("gone, with an agent", vec![], Some(&pull), Plan::Leave),
            ("of another management cluster", vec![], Some(&foreign), Plan::Leave),
            ("joined by somebody else", vec![], Some(&unmarked), Plan::Leave),
            ("joined by somebody else, and of this name", vec![ready.clone()], Some(&unmarked), compare(&["m/a/1"], None)),
            ("moved to this management cluster", vec![ready], Some(&foreign), compare(&["m/a/1"], None)),
            ("moving to this management cluster", vec![coming], Some(&foreign), Plan::Leave),
            ("made anew, not provisioned yet", vec![anew(false)], Some(&joined), Plan::Leave),
            ("made anew", vec![anew(true)], Some(&joined), compare(&["m/a/2"], Some("m/a/1"))),
            ("gone, and another one of the name", vec![elsewhere.clone()], Some(&joined), compare(&["m/b/3"], Some("m/a/1"))),
            ("made anew, and another one of the name", vec![anew(false), elsewhere], Some(&joined), compare(&["m/b/3"], None)),
        ];
        for (what, candidates, standing, expected) in cases {
            assert_eq!(decide("m", &candidates, standing), expected, "{what}");
        }
    }

    #[test]
    fn origins_are_read_as_they_are_written() {
        let written = "c0ffee/fleet/5eed";
        assert_eq!(origin(written).to_string(), written);
        for text in ["", "c0ffee", "c0ffee/fleet", "c0ffee/fleet/5eed/more"] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }

    fn kubeconfig(user: &str, cluster: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
              contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
              clusters: [{{name: c, cluster: {{server: 'https://10.0.0.1:6443'{cluster}}}}}], \
              users: [{{name: u, user: {{{user}}}}}]}}"
        )
    }

    #[tokio::test]
    async fn kubeconfigs_that_reach_out_to_this_machine_are_refused() {
        let cases = [
            ("token: t", "", None),
            (
                "exec: {command: touch, apiVersion: client.authentication.k8s.io/v1}",
                "",
                Some("exec"),
            ),
            ("tokenFile: /var/run/token", "", Some("tokenFile")),
            ("client-certificate: /etc/me.crt", "", Some("client-certificate")),
            ("client-key: /etc/me.key", "", Some("client-key")),
            ("auth-provider: {name: oidc, config: {}}", "", Some("auth-provider")),
            ("token: t", ", certificate-authority: /etc/ca.crt", Some("certificate-authority")),
        ];
        for (user, cluster, expected) in cases {
            let read = to_config(&kubeconfig(user, cluster), "fleet/web-kubeconfig").await;
            match (read, expected) {
                (Ok(config), None) => {
                    assert_eq!(Access::of(&config).endpoint, "https://10.0.0.1:6443");
                }
                (Err(KubeconfigError::Outside { field, .. }), Some(expected)) => {
                    assert_eq!(field, expected);
                }
                (read, expected) => panic!("{user}: {read:?} instead of {expected:?}"),
            }
        }
        let unread = to_config("kind: [", "fleet/web-kubeconfig").await;
        assert!(matches!(unread, Err(KubeconfigError::Unusable { .. })), "{unread:?}");
    }
}

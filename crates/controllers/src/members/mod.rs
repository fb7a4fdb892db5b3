//! Access to member clusters: each joined cluster has a client, caches and a lane of its own, so
//! that a slow or dead one holds up nobody else.

mod dial;
mod warden;

use std::collections::BTreeMap;
use std::sync::Arc;

use karmada_api::cluster::Cluster;
use karmada_api::meta::Kind as _;
use karmada_api::names::component;
use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::Gvr;
use karmada_client::tunnel::TunnelError;
use karmada_client::{Client, Discovery, Object};
use karmada_runtime::{Change, Informer, Informers, Manager, ObjectKey, Shutdown};
use karmada_signal::Follow;
use parking_lot::Mutex;

pub(crate) use dial::field as secret_field;
pub use dial::{Https, Shortcut};
pub use warden::Limits;

/// Makes the connection to a member. Over HTTPS in production; a simulated member is called in
/// process, through faults that tests switch on.
pub trait Dial: Send + Sync + 'static {
    /// `secret` is the Secret that `spec.secretRef` names, if it is there.
    fn dial(&self, cluster: &Cluster, secret: Option<&Value>) -> Result<Client, DialError>;

    /// Whether it needs the Secrets that Clusters name.
    fn needs_secrets(&self) -> bool {
        true
    }

    /// The program that calls. Members record it as the manager of what is written to them.
    fn program(&self) -> &'static str {
        component::CONTROLLER_MANAGER
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("cluster {0} names no endpoint")]
    NoEndpoint(String),
    #[error("cluster {cluster}: the secret {secret} is missing or lacks token or caBundle")]
    NoCredentials { cluster: String, secret: String },
    #[error("cluster {cluster}: {source}")]
    BadProxy { cluster: String, source: TunnelError },
    #[error("cluster {cluster}: connect")]
    Connect { cluster: String, source: karmada_client::Error },
}

#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("cluster {0} is not joined")]
    Unknown(String),
    #[error(transparent)]
    Dial(#[from] Arc<DialError>),
}

/// One joined cluster, for as long as its endpoint and credentials stay as they are.
pub struct Member {
    pub name: String,
    /// The uid of the Cluster object.
    pub uid: String,
    pub client: Client,
    pub informers: Informers,
    pub discovery: Discovery,
    /// Ends when the cluster leaves or its credentials change; everything that works for this
    /// member alone runs under it.
    pub shutdown: Shutdown,
}

/// What happens to the set of members.
#[derive(Clone)]
pub enum MemberChange {
    /// A cluster joined, or came back with another endpoint or other credentials.
    Joined(Arc<Member>),
    /// It left; its `shutdown` has been triggered.
    Left(Arc<Member>),
    /// It answers again after a time of silence: what waits to be tried again should be tried now.
    Returned(Arc<Member>),
}

type Handler = Box<dyn Fn(&MemberChange) + Send + Sync>;
type Connected = Result<Arc<Member>, Arc<DialError>>;

/// All joined clusters. Clones share them.
#[derive(Clone)]
pub struct Members {
    inner: Arc<Inner>,
}

struct Inner {
    shutdown: Shutdown,
    dial: Arc<dyn Dial>,
    limits: Limits,
    members: Mutex<BTreeMap<String, (Fingerprint, Connected)>>,
    handlers: Mutex<Vec<Handler>>,
}

/// What a connection depends on; a change of anything else of a Cluster leaves it alone.
#[derive(PartialEq)]
struct Fingerprint {
    uid: String,
    endpoint: String,
    proxy: (String, String),
    insecure: bool,
    /// Token and certificate authority, whatever else is written to the Secret.
    secret: Option<String>,
}

impl Members {
    /// Follows Clusters and their Secrets.
    pub fn start(manager: &Manager, dial: Arc<dyn Dial>, limits: Limits) -> Self {
        let inner = Inner {
            shutdown: manager.shutdown.clone(),
            dial,
            limits,
            members: Mutex::default(),
            handlers: Mutex::default(),
        };
        let members = Self { inner: Arc::new(inner) };
        // Those who are told of members hold them, and are held by them. No lock is held while they go.
        let inner = members.inner.clone();
        manager.shutdown.at_end(move || {
            let handlers = std::mem::take(&mut *inner.handlers.lock());
            drop(handlers);
        });
        let clusters =
            manager.informers.all(&Gvr::new(Cluster::GROUP, Cluster::VERSION, Cluster::PLURAL));
        if !members.inner.dial.needs_secrets() {
            let own = members.clone();
            manager.keep(clusters.subscribe(move |change| match change {
                Change::Applied { new, .. } => {
                    if let Ok(cluster) = new.typed::<Cluster>() {
                        own.connect(&cluster, None);
                    }
                }
                Change::Deleted(cluster) => own.leave(cluster.name()),
            }));
            return members;
        }
        let secrets = manager.informers.all(&Gvr::new("", "v1", "secrets"));
        let (own, known_secrets) = (members.clone(), secrets.clone());
        manager.keep(clusters.subscribe(move |change| match change {
            // A Secret that is not known yet is not a missing one.
            Change::Applied { .. } if !known_secrets.is_synced() => {}
            Change::Applied { new, .. } => own.connect_with(new, &known_secrets),
            Change::Deleted(cluster) => own.leave(cluster.name()),
        }));
        let (own, known, known_secrets) = (members.clone(), clusters.clone(), secrets.clone());
        manager.shutdown.spawn_until(async move {
            known_secrets.wait_synced().await;
            known
                .cache()
                .list()
                .iter()
                .for_each(|cluster| own.connect_with(cluster, &known_secrets));
        });
        // Secrets may come after the Clusters that name them, and are replaced when tokens rotate.
        let (own, secret_cache) = (members.clone(), secrets.clone());
        manager.keep(secrets.subscribe(move |change| {
            let Change::Applied { new: secret, .. } = change else { return };
            if !secret_cache.is_synced() {
                return;
            }
            let key = ObjectKey::of(secret);
            for cluster in clusters.cache().list() {
                let Ok(cluster) = cluster.typed::<Cluster>() else { continue };
                if secret_key(&cluster).as_ref() == Some(&key) {
                    own.connect(&cluster, Some(&secret.value()));
                }
            }
        }));
        members
    }

    pub fn get(&self, cluster: &str) -> Result<Arc<Member>, Unreachable> {
        match self.inner.members.lock().get(cluster) {
            Some((_, Ok(member))) => Ok(member.clone()),
            Some((_, Err(error))) => Err(error.clone().into()),
            None => Err(Unreachable::Unknown(cluster.to_owned())),
        }
    }

    /// Calls the function for every member there is and then for every change. It must be quick.
    pub fn subscribe(&self, handler: impl Fn(&MemberChange) + Send + Sync + 'static) {
        let mut handlers = self.inner.handlers.lock();
        let connected: Vec<_> =
            self.inner.members.lock().values().map(|(_, c)| c.clone()).collect();
        for member in connected.into_iter().flatten() {
            handler(&MemberChange::Joined(member));
        }
        handlers.push(Box::new(handler));
    }

    fn connect_with(&self, cluster: &Object, secrets: &Informer) {
        let Ok(cluster) = cluster.typed::<Cluster>() else { return };
        let secret = secret_key(&cluster).and_then(|key| secrets.cache().get(&key));
        self.connect(&cluster, secret.map(|secret| secret.value()).as_ref());
    }

    fn connect(&self, cluster: &Cluster, secret: Option<&Value>) {
        let name = cluster.metadata.name.clone();
        let fingerprint = Fingerprint::of(cluster, secret);
        let handlers = self.inner.handlers.lock();
        let left = {
            let mut members = self.inner.members.lock();
            if members.get(&name).is_some_and(|(known, _)| *known == fingerprint) {
                return;
            }
            let connected = self.inner.dial.dial(cluster, secret).map_err(Arc::new);
            match connected.as_ref().map_err(|error| &**error) {
                // The Secret comes a moment after the Cluster; its condition says so meanwhile.
                Err(error @ DialError::NoCredentials { .. }) => {
                    tracing::debug!(cluster = name, %error, "member cannot be reached yet");
                }
                Err(error) => tracing::warn!(cluster = name, %error, "member cannot be reached"),
                Ok(_) => {}
            }
            let connected = connected.map(|client| {
                let shutdown = self.inner.shutdown.child();
                let limits = self.inner.limits.clone();
                let (client, warden) = warden::guard(client, &name, limits);
                let client = client.with_user_agent(self.inner.dial.program());
                self.tell_returns(&name, warden.returns(), &shutdown);
                Arc::new(Member {
                    name: name.clone(),
                    uid: cluster.metadata.uid.clone(),
                    informers: Informers::new(client.clone(), shutdown.clone()).wary(),
                    discovery: Discovery::new(client.clone()),
                    client,
                    shutdown,
                })
            });
            members.insert(name.clone(), (fingerprint, connected))
        };
        if let Some((_, Ok(left))) = left {
            left.shutdown.trigger();
            handlers.iter().for_each(|handler| handler(&MemberChange::Left(left.clone())));
        }
        if let Ok(joined) = self.get(&name) {
            handlers.iter().for_each(|handler| handler(&MemberChange::Joined(joined.clone())));
        }
    }

    /// Tells everybody when the member answers again.
    fn tell_returns(&self, cluster: &str, mut returns: Follow<u64>, shutdown: &Shutdown) {
        let (inner, cluster) = (Arc::downgrade(&self.inner), cluster.to_owned());
        shutdown.spawn_until(async move {
            loop {
                returns.moved().await;
                let Some(inner) = inner.upgrade() else { return };
                let members = Self { inner };
                let Ok(member) = members.get(&cluster) else { continue };
                let change = MemberChange::Returned(member);
                members.inner.handlers.lock().iter().for_each(|handler| handler(&change));
            }
        });
    }

    fn leave(&self, cluster: &str) {
        let handlers = self.inner.handlers.lock();
        let left = self.inner.members.lock().remove(cluster);
        if let Some((_, Ok(left))) = left {
            left.shutdown.trigger();
            handlers.iter().for_each(|handler| handler(&MemberChange::Left(left.clone())));
        }
    }
}

fn secret_key(cluster: &Cluster) -> Option<ObjectKey> {
    let secret = cluster.spec.secret_ref.as_ref()?;
    Some(ObjectKey::new(secret.namespace.clone(), secret.name.clone()))
}

impl Fingerprint {
    fn of(cluster: &Cluster, secret: Option<&Value>) -> Self {
        let spec = &cluster.spec;
        Self {
            uid: cluster.metadata.uid.clone(),
            endpoint: spec.api_endpoint.clone(),
            proxy: (spec.proxy_url.clone(), format!("{:?}", spec.proxy_header)),
            insecure: spec.insecure_skip_tls_verification,
            secret: secret
                .map(|secret| secret.get("data").map(Value::to_string).unwrap_or_default()),
        }
    }
}

//! Puts a server together and starts it.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Map};
use http::{Request, Response};
use jiff::Timestamp;
use karmada_apimachinery::gvk::Gvk;
use karmada_handover::{Asked, Failure, Reply, Server as Beside};
use karmada_store::Store;
use karmada_store::compaction::{self, Policy};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, Chain};
use crate::aggregation::{Follower, ProxyClient};
use crate::audit::Audit;
use crate::auth::authenticate::{Authentication, FrontProxy};
use crate::auth::client_certs::ClientCerts;
use crate::auth::rbac::{self, Rbac};
use crate::auth::token::TokenIssuer;
use crate::auth::{Authenticator, Authorizer, Clock, ExtraAuthorizer, Identity, Objects};
use crate::cache::{Caches, Reading};
use crate::computed::{self, Computed, Entrance, Passage};
use crate::config::Config;
use crate::connect::{Connect, Connectors, Reach};
use crate::http::body::Body;
use crate::http::listener::{self, TlsConfig};
use crate::pki::FRONT_PROXY_CLIENT;
use crate::registry::{
    BuiltIn, Converter, Registry, Served, ServedSubresource, Source, Storage, Strategy,
    VersionPlace,
};
use crate::state::{CachedObjects, Parts, State};
use crate::{admission, allocator, announce, bootstrap, dangling, expiry, service};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("open the cache of {resource}")]
    OpenCache { resource: String, source: karmada_store::Error },
    #[error("write the objects a new server starts with: {0}")]
    Bootstrap(String),
}

/// Whom the server believes.
pub struct Trust {
    /// Authorities of client certificates.
    pub client_certs: Option<ClientCerts>,
    pub front_proxy: Option<FrontProxy>,
    pub tokens: Arc<TokenIssuer>,
    pub allow_anonymous: bool,
    /// The authority of client certificates, published to aggregated servers.
    pub client_ca_pem: String,
    /// The authority of the front proxy, published to aggregated servers.
    pub front_proxy_ca_pem: String,
}

pub struct Builder {
    config: Config,
    store: Arc<dyn Store>,
    trust: Trust,
    clock: Clock,
    admission: Vec<Arc<dyn Admission>>,
    extra_authorizers: Vec<Arc<dyn ExtraAuthorizer>>,
    natives: Vec<Native>,
    converter: Option<Arc<dyn Converter>>,
    extra_metrics: Option<ExtraMetrics>,
    connectors: Connectors,
    audit: Option<Arc<Audit>>,
    proxy_client: Option<ProxyClient>,
}

/// Metrics of the embedding program in text form, shown behind the server's own.
pub type ExtraMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// A cluster-scoped resource of the embedding program, kept and served like a built-in one.
pub struct Native {
    pub gvk: Gvk,
    pub plural: String,
    pub singular: String,
    /// What all its keys start with, trailing slash included.
    pub storage_prefix: String,
    pub subresources: Vec<ServedSubresource>,
    pub place: VersionPlace,
    pub strategy: Arc<dyn Strategy>,
}

impl Builder {
    /// Serves a resource of the embedding program.
    pub fn native(mut self, native: Native) -> Self {
        self.natives.push(native);
        self
    }

    /// Serves the connections to a subresource: (group, resource, subresource).
    pub fn connect(self, place: (&str, &str, &str), connect: Arc<dyn Connect>) -> Self {
        self.connectors.add(place, connect);
        self
    }

    /// Shows metrics of the embedding program too.
    pub fn extra_metrics(mut self, render: ExtraMetrics) -> Self {
        self.extra_metrics = Some(render);
        self
    }

    /// Converts between versions of custom kinds in this process instead of by a webhook.
    pub fn converter(mut self, converter: Arc<dyn Converter>) -> Self {
        self.converter = Some(converter);
        self
    }

    /// Takes all time from this clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Adds an admission step behind the built-in ones.
    pub fn admission(mut self, step: Arc<dyn Admission>) -> Self {
        self.admission.push(step);
        self
    }

    /// Adds rules that are asked before RBAC.
    pub fn authorizer(mut self, extra: Arc<dyn ExtraAuthorizer>) -> Self {
        self.extra_authorizers.push(extra);
        self
    }

    /// Shows this certificate to the servers requests are passed on to.
    pub fn proxy_client(mut self, client: ProxyClient) -> Self {
        self.proxy_client = Some(client);
        self
    }

    /// Keeps a log of requests.
    pub fn audit(mut self, audit: Audit) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// Opens the caches, writes what is missing of the bootstrap content and becomes ready.
    pub fn start(self) -> BoxFuture<'static, Result<Server, Error>> {
        self.begin().boxed()
    }

    async fn begin(self) -> Result<Server, Error> {
        let stop = CancellationToken::new();
        let fresh = self.store.revision() <= 1;
        let caches = Caches::start(self.store.clone(), self.config.history, stop.clone());
        let registry = Arc::new(Registry::default());
        let objects: Arc<dyn Objects> = Arc::new(CachedObjects(registry.clone()));
        let rbac = Arc::new(Rbac::default());
        register_built_ins(&caches, &registry, &rbac).await?;
        for native in self.natives {
            register_native(&caches, &registry, native).await?;
        }
        rbac.load(&*objects);
        let front_proxy_names = match &self.trust.front_proxy {
            Some(proxy) => proxy.allowed_names.clone(),
            None => vec![FRONT_PROXY_CLIENT.to_owned()],
        };
        let authentication = Arc::new(Authentication {
            front_proxy: self.trust.front_proxy.map(Arc::new).into(),
            client_certs: self.trust.client_certs.map(Arc::new).into(),
            tokens: self.trust.tokens,
            objects: objects.clone(),
            allow_anonymous: self.trust.allow_anonymous,
            clock: self.clock.clone(),
        });
        let authorizer: Arc<dyn Authorizer> = Arc::new(crate::auth::authorize::Chain {
            extra: self.extra_authorizers,
            rbac: rbac.clone(),
        });
        let mut steps =
            admission::built_in(self.config.role, objects.clone(), self.config.chance.clone());
        steps.extend(self.admission);
        let state = Arc::new(State::new(Parts {
            config: self.config,
            store: self.store,
            caches,
            registry,
            objects,
            authentication: authentication.clone(),
            authenticator: authentication as Arc<dyn Authenticator>,
            authorizer,
            rbac,
            admission: Chain(steps),
            clock: self.clock,
            stop,
            client_ca_pem: self.trust.client_ca_pem,
            front_proxy_ca_pem: self.trust.front_proxy_ca_pem,
            front_proxy_names,
            converter: self.converter,
            extra_metrics: self.extra_metrics,
            connectors: self.connectors,
            audit: self.audit,
            proxy_client: self.proxy_client.unwrap_or_else(|| Arc::new(|| None)),
        }));
        let handle = Handle { state };
        crate::crd::start(&handle.state).await;
        bootstrap::run(&handle.state).await?;
        allocator::repair(&handle.state, &Default::default()).await;
        dangling::sync(&handle.state).await;
        if fresh {
            // What was written so far nobody can have read: its history is of no use.
            let revision = handle.state.store.revision();
            if let Err(error) = handle.state.store.compact(revision).await {
                tracing::warn!(%error, "compact the store; it is tried again later");
            }
        }
        tokio::spawn(compact_regularly(handle.state.clone()));
        tokio::spawn(expiry::run(handle.state.clone()));
        tokio::spawn(allocator::repair_regularly(handle.state.clone()));
        tokio::spawn(dangling::run(handle.state.clone()));
        tokio::spawn(announce::run(handle.state.clone()));
        tokio::spawn(Follower::start(&handle.state).run());
        handle.state.set_ready();
        Ok(Server { handle })
    }
}

/// How long a store that cannot be reached is waited for at the start.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(200);

/// Opens a cache, again and again while the store is away for a moment.
async fn open(
    caches: &Caches,
    prefix: &str,
    reading: Reading,
) -> karmada_store::Result<Arc<crate::cache::Cache>> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match caches.open(prefix, reading.clone()).await {
            Err(
                error @ (karmada_store::Error::Unavailable { .. }
                | karmada_store::Error::KeyService { .. }),
            ) if tokio::time::Instant::now() < deadline => {
                tracing::warn!(prefix, %error, "objects cannot be read, trying again");
                tokio::time::sleep(PAUSE).await;
            }
            opened => return opened,
        }
    }
}

/// Forgets history that is older than the interval, again and again.
async fn compact_regularly(state: Arc<State>) {
    let max_bytes = state.config.history.stored;
    let policy = Policy { max_bytes, ..Policy::keeping(state.config.compaction_interval) };
    tokio::select! {
        biased;
        () = state.stop.cancelled() => {}
        () = compaction::compact_regularly(state.store.clone(), policy) => {}
    }
}

/// Opens a cache per stored resource and publishes the table of built-in kinds.
async fn register_built_ins(
    caches: &Arc<Caches>,
    registry: &Registry,
    rbac: &Arc<Rbac>,
) -> Result<(), Error> {
    for place in karmada_kinds::resource::group_priorities() {
        registry.place(
            place.group,
            VersionPlace {
                version: place.version.to_owned(),
                group_priority: place.group_priority,
                version_priority: place.version_priority,
            },
        );
    }
    let mut storages: std::collections::HashMap<String, Arc<Storage>> = Default::default();
    let mut served = Vec::new();
    for resource in karmada_kinds::resources() {
        let mut storage = None;
        if resource.is_stored() {
            let prefix = format!("{}/", resource.storage_prefix());
            if !storages.contains_key(&prefix) {
                let reading = reading_of(resource, rbac);
                let cache = open(caches, &prefix, reading).await.map_err(|source| {
                    Error::OpenCache { resource: resource.plural.to_owned(), source }
                })?;
                let (group, version) = resource.storage;
                storages.insert(
                    prefix.clone(),
                    Arc::new(Storage {
                        prefix: prefix.clone(),
                        group: group.into(),
                        version: version.into(),
                        cache,
                    }),
                );
            }
            storage = storages.get(&prefix).cloned();
        }
        served.push(Arc::new(BuiltIn::serve(resource, storage)));
    }
    registry.replace(&[], served);
    Ok(())
}

const NATIVE_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

async fn register_native(
    caches: &Arc<Caches>,
    registry: &Registry,
    native: Native,
) -> Result<(), Error> {
    let Native { gvk, plural, singular, storage_prefix, subresources, place, strategy } = native;
    let cache = open(caches, &storage_prefix, Reading::default())
        .await
        .map_err(|source| Error::OpenCache { resource: plural.clone(), source })?;
    registry.place(&gvk.group, place);
    let storage = Storage {
        prefix: storage_prefix,
        group: gvk.group.clone(),
        version: gvk.version.clone(),
        cache,
    };
    let hash = karmada_kinds::resource::storage_version_hash(&gvk.group, &gvk.version, &gvk.kind);
    let served = Served {
        list_kind: format!("{}List", gvk.kind),
        plural,
        singular,
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: NATIVE_VERBS.iter().map(|verb| (*verb).to_owned()).collect(),
        subresources,
        source: Source::Native,
        storage_version_hash: Some(hash),
        storage: Some(Arc::new(storage)),
        strategy,
        create_refusal: None,
        deprecation: None,
        gvk,
    };
    registry.replace(&[], vec![Arc::new(served)]);
    Ok(())
}

/// What is done with objects of a built-in resource as they are read.
fn reading_of(resource: &'static karmada_kinds::Resource, rbac: &Arc<Rbac>) -> Reading {
    let mut reading = BuiltIn::reading(resource);
    if resource.group == "rbac.authorization.k8s.io"
        && let Some(kind) = rbac::Kind::from_resource(resource.plural)
    {
        let rbac = rbac.clone();
        reading.observe = Some(Arc::new(move |change| {
            if change.deleted {
                rbac.remove(kind, change.object.namespace(), change.object.name());
            } else {
                rbac.put(kind, &change.object.to_value());
            }
        }));
    }
    reading
}

/// A running server.
pub struct Server {
    handle: Handle,
}

impl Server {
    pub fn builder(config: Config, store: Arc<dyn Store>, trust: Trust) -> Builder {
        Builder {
            config,
            store,
            trust,
            clock: Arc::new(Timestamp::now),
            admission: Vec::new(),
            extra_authorizers: Vec::new(),
            natives: Vec::new(),
            converter: None,
            extra_metrics: None,
            connectors: Connectors::default(),
            audit: None,
            proxy_client: None,
        }
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves TLS connections until the server stops.
    pub async fn serve(&self, listener: TcpListener, tls: TlsConfig) {
        listener::serve(listener, tls, self.handle()).await;
    }

    /// Ends watches, refuses readiness and lets open requests finish.
    pub fn stop(&self) {
        self.handle.state.stop.cancel();
    }
}

/// The server for callers in the same process: a cloneable service. A request carries who it comes
/// from as an `Arc<Identity>` extension, or credentials like any other.
#[derive(Clone)]
pub struct Handle {
    state: Arc<State>,
}

impl Handle {
    pub(crate) fn of(state: Arc<State>) -> Self {
        Self { state }
    }

    // Boxed so that the way of a request is compiled here and not in every crate that sends one.
    pub fn answer(&self, request: Request<Body>) -> BoxFuture<'static, Response<Body>> {
        service::answer(self.state.clone(), request).boxed()
    }

    /// The same server with every request coming from this user.
    pub fn acting_as(&self, identity: Identity) -> ActingAs {
        ActingAs { handle: self.clone(), identity: Arc::new(identity) }
    }

    /// Who may do what, for parts that decide by it outside of requests.
    pub fn authorizer(&self) -> Arc<dyn Authorizer> {
        self.state.authorizer.clone()
    }

    pub(crate) fn patience(&self) -> listener::Patience {
        self.state.config.patience
    }

    pub fn stopped(&self) -> CancellationToken {
        self.state.stop.clone()
    }

    /// The stored objects, for parts that decide by them outside of requests.
    pub fn objects(&self) -> Arc<dyn Objects> {
        self.state.objects.clone()
    }

    /// Serves the connections to a subresource from now on: (group, resource, subresource).
    pub fn connect(&self, place: (&str, &str, &str), connect: Arc<dyn Connect>) {
        self.state.connectors.add(place, connect);
    }

    /// Serves a resource that is worked out on request.
    pub fn compute(&self, computed: Computed) {
        let served = Arc::new(computed::serve(&computed));
        let Computed { gvk, plural, place, answer, .. } = computed;
        self.state.connectors.add_whole((&gvk.group, &plural), Reach::There, answer);
        self.state.registry.place(&gvk.group, place);
        self.state.registry.replace(&[], vec![served]);
    }

    /// Serves a resource whose names lead somewhere else.
    pub fn open(&self, passage: Passage) {
        let served = Arc::new(computed::serve_passage(&passage));
        let Passage { gvk, name, place, entrance, connect } = passage;
        match entrance {
            Entrance::Name => {
                self.state.connectors.add_whole((&gvk.group, &name), Reach::Below, connect);
            }
            Entrance::Subresource(sub) => self.connect((&gvk.group, &name, sub), connect),
        }
        self.state.registry.place(&gvk.group, place);
        self.state.registry.replace(&[], vec![served]);
    }

    /// The table of what is served, for programs that add to it.
    pub fn registry(&self) -> &Registry {
        &self.state.registry
    }
}

type Answered = Result<Response<Body>, Infallible>;

/// A [`Handle`] bound to one identity.
#[derive(Clone)]
pub struct ActingAs {
    handle: Handle,
    identity: Arc<Identity>,
}

impl Beside for ActingAs {
    // Boxed here as every other way in.
    fn ask(&self, asked: Asked) -> BoxFuture<'static, Result<Reply, Failure>> {
        service::ask(self.handle.state.clone(), asked, self.identity.clone()).boxed()
    }
}

impl<B> tower::Service<Request<B>> for ActingAs
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Map<BoxFuture<'static, Response<Body>>, fn(Response<Body>) -> Answered>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        use http_body_util::BodyExt as _;
        let mut request = request.map(|body| body.map_err(std::io::Error::other).boxed_unsync());
        request.extensions_mut().insert(self.identity.clone());
        self.handle.answer(request).map(Ok)
    }
}

//! What all requests of a server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use karmada_apimachinery::Value;
use karmada_apimachinery::gvk::GroupResource;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_store::Store;
use tokio_util::sync::CancellationToken;

use crate::admission::policies::Policies;
use crate::admission::{Chain, webhooks};
use crate::aggregation::{Aggregator, ProxyClient};
use crate::allocator::Pools;
use crate::audit::Audit;
use crate::auth::authenticate::Authentication;
use crate::auth::guard::Guard;
use crate::auth::rbac::Rbac;
use crate::auth::{Authenticator, Authorizer, Clock, Objects};
use crate::cache::{Caches, StoredObject};
use crate::config::Config;
use crate::connect::Connectors;
use crate::lanes::Lanes;
use crate::metrics::Metrics;
use crate::openapi::Documents;
use crate::registry::{Converter, Registry};
use crate::server::ExtraMetrics;

pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) guard: Guard,
    pub(crate) admission: Chain,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) pools: Pools,
    pub(crate) documents: Documents,
    pub(crate) stop: CancellationToken,
    pub(crate) client_ca_pem: String,
    pub(crate) front_proxy_ca_pem: String,
    pub(crate) front_proxy_names: Vec<String>,
    pub(crate) converter: Option<Arc<dyn Converter>>,
    pub(crate) extra_metrics: Option<ExtraMetrics>,
    pub(crate) connectors: Connectors,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) policies: Policies,
    pub(crate) lanes: Lanes,
    pub(crate) webhooks: Arc<webhooks::Client>,
    pub(crate) aggregator: Aggregator,
    ready: AtomicBool,
}

/// The parts a server is put together from.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) rbac: Arc<Rbac>,
    pub(crate) admission: Chain,
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    pub(crate) client_ca_pem: String,
    pub(crate) front_proxy_ca_pem: String,
    pub(crate) front_proxy_names: Vec<String>,
    pub(crate) converter: Option<Arc<dyn Converter>>,
    pub(crate) extra_metrics: Option<ExtraMetrics>,
    pub(crate) connectors: Connectors,
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) proxy_client: ProxyClient,
}

impl State {
    pub(crate) fn new(parts: Parts) -> Self {
        let authorizer = parts.authorizer.clone();
        let (reading, writing) = parts.config.max_in_flight;
        let (service_cidr, node_ports) =
            (parts.config.service_cidr, parts.config.node_ports.clone());
        Self {
            authorizer,
            config: parts.config,
            store: parts.store,
            caches: parts.caches,
            registry: parts.registry,
            objects: parts.objects,
            authentication: parts.authentication,
            authenticator: parts.authenticator,
            guard: Guard { rbac: parts.rbac.clone(), authorizer: parts.authorizer.clone() },
            rbac: parts.rbac,
            admission: parts.admission,
            clock: parts.clock,
            metrics: Metrics::default(),
            pools: Pools::new(service_cidr, &node_ports),
            documents: Documents::default(),
            stop: parts.stop,
            client_ca_pem: parts.client_ca_pem,
            front_proxy_ca_pem: parts.front_proxy_ca_pem,
            front_proxy_names: parts.front_proxy_names,
            converter: parts.converter,
            extra_metrics: parts.extra_metrics,
            connectors: parts.connectors,
            audit: parts.audit,
            policies: Policies::default(),
            lanes: Lanes::new(reading + writing),
            webhooks: Arc::default(),
            aggregator: Aggregator::new(parts.proxy_client),
            ready: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether requests can be served: content is bootstrapped and no shutdown has begun.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.stop.is_cancelled()
    }
}

/// Reads objects from the caches, for authentication, authorization and admission.
pub(crate) struct CachedObjects(pub Arc<Registry>);

impl CachedObjects {
    fn find(
        &self,
        resource: &GroupResource,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<StoredObject>> {
        let snapshot = self.0.snapshot();
        let served = snapshot.find_resource(&resource.group, &resource.resource)?;
        let key =
            if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
        served.storage.as_ref()?.cache.get(&key)
    }

    /// The objects of one namespace, or of all, as they are stored.
    pub(crate) fn all(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
    ) -> Vec<Arc<StoredObject>> {
        let snapshot = self.0.snapshot();
        let storage = snapshot
            .find_resource(&resource.group, &resource.resource)
            .and_then(|served| served.storage.clone());
        let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
        storage.map(|storage| storage.cache.list(&prefix)).unwrap_or_default()
    }
}

impl Objects for CachedObjects {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        Some(self.find(resource, namespace, name)?.shared_value())
    }

    fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let values = self.all(resource, namespace).into_iter().map(|object| object.shared_value());
        values.filter(|value| !value.kind().is_empty()).collect()
    }

    fn read(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let values =
            self.all(resource, namespace).into_iter().map(|object| Arc::new(object.to_value()));
        values.filter(|value| !value.kind().is_empty()).collect()
    }

    fn exists(&self, resource: &GroupResource, namespace: &str, name: &str) -> bool {
        self.find(resource, namespace, name).is_some()
    }
}

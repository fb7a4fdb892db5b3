//! A control plane in memory without members: API server, admission, the controllers every API needs
//! and those of Karmada that cannot be switched off, all on virtual time.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use karmada_admission::{self as admission, Environment};
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::features::Gates;
use karmada_api::policy::FederatedResourceQuota;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::{ObjectExt, ObjectMutExt};
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::admission::{Admission, Attributes, Operation, Warning};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::{self, SigningKey, TokenIssuer};
use karmada_apiserver::pki::certificate::Authority;
use karmada_apiserver::{Config, Role, Server, Trust};
use karmada_client::{Api, Client, DeleteOptions, Discovery, ListOptions};
use karmada_controllers::cluster_api::ClusterApi;
use karmada_controllers::context::{Context, Options};
use karmada_controllers::members::{Dial, DialError};
use karmada_controllers::registry;
use karmada_kube_controllers::{Account, Keys, Signing};
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::Memory;
use tower::Service as _;

/// Karmada's admission, with ids that are counted instead of drawn.
struct Hooks {
    gates: Gates,
    ids: AtomicU64,
}

impl Environment for Hooks {
    fn gates(&self) -> &Gates {
        &self.gates
    }

    fn allows_no_execute_taints(&self) -> bool {
        true
    }

    fn new_id(&self) -> String {
        format!("id-{}", self.ids.fetch_add(1, Ordering::Relaxed))
    }

    fn customizations(&self) -> Vec<ResourceInterpreterCustomization> {
        Vec::new()
    }

    fn quotas(&self, _namespace: &str) -> Vec<FederatedResourceQuota> {
        Vec::new()
    }
}

fn request<'a>(
    attributes: &Attributes,
    object: &'a Value,
    old: Option<&'a Value>,
) -> admission::Request<'a> {
    let gvk = attributes.gvk.clone();
    admission::Request {
        resource: Gvr::new(&*gvk.group, &*gvk.version, &*attributes.resource),
        kind: gvk,
        subresource: attributes.subresource.to_string(),
        name: attributes.name.to_string(),
        namespace: attributes.namespace.to_string(),
        operation: match attributes.operation {
            Operation::Create => admission::Operation::Create,
            Operation::Update => admission::Operation::Update,
            Operation::Delete => admission::Operation::Delete,
            Operation::Connect => admission::Operation::Connect,
        },
        object: Cow::Borrowed(object),
        old_object: Cow::Borrowed(old.unwrap_or(&Value::Null)),
        dry_run: attributes.dry_run,
    }
}

impl Admission for Hooks {
    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        if attributes.subresource.is_empty()
            && attributes.gvk.group.ends_with("karmada.io")
            && attributes.operation != Operation::Delete
        {
            let admitted = admission::mutate(&request(attributes, object, old), self)?;
            if let Some(changed) = admitted.object {
                *object = changed;
            }
        }
        Ok(Vec::new())
    }

    fn validate(
        &self,
        _attributes: &Attributes,
        _object: &Value,
        _old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        Ok(Vec::new())
    }
}

/// The controllers every API needs get by without keys here.
struct NoKeys;

impl Keys for NoKeys {
    fn root_ca(&self) -> String {
        String::new()
    }

    fn legacy_token(&self, _account: Account<'_>, _secret: &str) -> Option<String> {
        None
    }

    fn sign(&self, _csr: &Value) -> Result<Signing, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Signing::NotDue)
    }

    fn auto_approval(&self, _csr: &Value) -> Option<String> {
        None
    }
}

/// Reaches no member at all.
pub(crate) struct Nowhere;

impl Dial for Nowhere {
    fn dial(
        &self,
        cluster: &karmada_api::cluster::Cluster,
        _secret: Option<&Value>,
    ) -> Result<Client, DialError> {
        Err(DialError::NoEndpoint(cluster.metadata.name.clone()))
    }
}

/// Key and certificate of the authority; making them is slow, so all tests share them.
fn authority_pem() -> &'static (String, String) {
    static PEM: OnceLock<(String, String)> = OnceLock::new();
    PEM.get_or_init(|| {
        let key = Authority::generate_key().unwrap();
        let (begin, end) = ("2025-01-01T00:00:00Z".parse(), "2036-01-01T00:00:00Z".parse());
        let authority = Authority::self_signed("test", &key, begin.unwrap(), end.unwrap()).unwrap();
        (key, authority.certificate_pem())
    })
}

/// What a test may ask for; the rest is as `karmada up` has it.
pub(crate) struct Setup {
    pub(crate) gates: &'static str,
    pub(crate) options: Options,
    pub(crate) dial: Arc<dyn Dial>,
    /// As `--controllers` has it.
    pub(crate) controllers: Vec<String>,
    pub(crate) cluster_api: Option<ClusterApi>,
    /// Resources of Karmada that are not served at all.
    pub(crate) unserved: &'static [&'static str],
    /// Resources whose lists reach the controllers only after this time.
    pub(crate) late: (&'static [&'static str], Duration),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            gates: "",
            options: Options::default(),
            dial: Arc::new(Nowhere),
            controllers: vec!["none".to_owned()],
            cluster_api: None,
            unserved: &[],
            late: (&[], Duration::ZERO),
        }
    }
}

pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    discovery: Discovery,
    server: Server,
    shutdown: Shutdown,
    pub(crate) setup: Setup,
    controllers: Option<Shutdown>,
    metrics: Metrics,
}

impl Plane {
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    /// A plane whose controllers run.
    pub(crate) async fn with(setup: Setup) -> Self {
        let mut plane = Self::without_controllers(setup).await;
        plane.start_controllers();
        plane
    }

    pub(crate) async fn without_controllers(setup: Setup) -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let (key, certificate) = authority_pem();
        let authority = Authority::from_pem(certificate, key).unwrap();
        let signing = SigningKey::from_pem(key.as_bytes()).unwrap();
        let trust = Trust {
            client_certs: None,
            front_proxy: None,
            tokens: Arc::new(TokenIssuer::new(token::DEFAULT_ISSUER, signing, Vec::new())),
            allow_anonymous: false,
            client_ca_pem: authority.certificate_pem(),
            front_proxy_ca_pem: authority.certificate_pem(),
        };
        let own = clock.clone();
        let time: karmada_apiserver::auth::Clock = Arc::new(move || -> Timestamp { own.now() });
        let config = Config { role: Role::Plane, ..Config::default() };
        let hooks = Hooks { gates: Gates::parse(setup.gates).unwrap(), ids: AtomicU64::new(1) };
        let builder = Server::builder(config, Arc::new(Memory::new()), trust)
            .clock(time)
            .admission(Arc::new(hooks));
        let server = builder.start().await.unwrap();
        let admin = Identity::new("admin", ["system:masters", "system:authenticated"]);
        let client = Client::in_process(server.handle().acting_as(admin));
        let shutdown = Shutdown::new();
        let manager =
            Manager::new(client.clone(), clock.clone(), Metrics::default(), shutdown.clone());
        let kube = karmada_kube_controllers::Plane::new(manager, Arc::new(NoKeys));
        karmada_kube_controllers::registry::start(
            &kube,
            karmada_kube_controllers::registry::Role::Plane,
            &[],
        );
        let discovery = Discovery::new(client.clone());
        let (controllers, metrics) = (None, Metrics::default());
        let plane =
            Self { client, clock, discovery, server, shutdown, setup, controllers, metrics };
        plane.install().await;
        plane
    }

    async fn install(&self) {
        let definitions = self.api("customresourcedefinitions.apiextensions.k8s.io");
        let is_unserved = |name: &str| self.setup.unserved.iter().any(|own| name.starts_with(own));
        for crd in karmada_api::crd::crds() {
            if is_unserved(crd.object.name()) {
                continue;
            }
            definitions.create(&crd.object).await.unwrap();
        }
        definitions.create(&clusters_definition()).await.unwrap();
        for crd in definitions.list_all(&ListOptions::default()).await.unwrap().items {
            let established = async || {
                let crd = definitions.get(crd.name()).await.unwrap();
                crd.list_at(&["status", "conditions"])
                    .iter()
                    .any(|c| c["type"] == "Established" && c["status"] == "True")
            };
            eventually(&format!("{} is served", crd.name()), established).await;
        }
        self.discovery.refresh().await.unwrap();
        for namespace in ["karmada-system", "karmada-cluster"] {
            self.namespace(namespace).await;
        }
    }

    /// Starts Karmada's controllers as a new process would.
    pub(crate) fn start_controllers(&mut self) {
        let shutdown = self.shutdown.child();
        self.metrics = Metrics::default();
        let manager = Manager::new(
            self.way_of_controllers(),
            self.clock.clone(),
            self.metrics.clone(),
            shutdown.clone(),
        );
        let gates = Gates::parse(self.setup.gates).unwrap();
        let context =
            Context::start(manager, self.setup.dial.clone(), gates, self.setup.options.clone());
        let context = context.with_cluster_api(self.setup.cluster_api.clone());
        registry::start(&context, &self.setup.controllers);
        self.controllers = Some(shutdown);
    }

    /// What the controllers tell of themselves at present.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.encode()
    }

    /// The way of the controllers to the API server.
    fn way_of_controllers(&self) -> Client {
        let (names, delay) = self.setup.late;
        if names.is_empty() {
            return self.client.clone();
        }
        let admin = Identity::new("admin", ["system:masters", "system:authenticated"]);
        let server = self.server.handle().acting_as(admin);
        Client::in_process(tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let mut server = server.clone();
            let is_late = names.iter().any(|name| request.uri().path().ends_with(name));
            async move {
                if is_late {
                    tokio::time::sleep(delay).await;
                }
                server.call(request).await
            }
        }))
    }

    pub(crate) async fn stop_controllers(&mut self) {
        if let Some(shutdown) = self.controllers.take() {
            shutdown.finish(Duration::from_secs(5)).await;
        }
    }

    /// Requests as somebody else.
    pub(crate) fn client_of(&self, user: &str, groups: &[&str]) -> Client {
        let groups = groups.iter().copied().chain(["system:authenticated"]);
        Client::in_process(self.server.handle().acting_as(Identity::new(user, groups)))
    }

    /// Requests about a resource: `configmaps`, `deployments.apps`,
    /// `propagationpolicies.policy.karmada.io`; Karmada's kinds in the version it stores.
    pub(crate) fn api(&self, resource: &str) -> Api {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let version = match group {
            "work.karmada.io" if resource.ends_with("bindings") => "v1alpha2",
            group if group.ends_with("karmada.io") => "v1alpha1",
            _ => "v1",
        };
        self.client.api(&Gvr::new(group, version, resource))
    }

    /// Creates an object; its kind is that of the resource.
    pub(crate) async fn create(&self, resource: &str, namespace: &str, mut object: Value) -> Value {
        let api = self.api(resource).namespaced(namespace);
        let known = self.discovery.resources().await.unwrap();
        if let Some(served) = known.iter().find(|served| served.gvr == *api.gvr()) {
            object.set_default(&["apiVersion"], served.gvk().api_version());
            object.set_default(&["kind"], served.kind.as_str());
        }
        let created = api.create(&object).await;
        created.unwrap_or_else(|error| panic!("create {object}: {error}"))
    }

    pub(crate) async fn patch(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Value {
        let patched = self.api(resource).namespaced(namespace).merge_patch(name, patch).await;
        patched.unwrap_or_else(|error| panic!("patch {resource} {name}: {error}"))
    }

    pub(crate) async fn delete(&self, resource: &str, namespace: &str, name: &str) {
        let options = DeleteOptions::default();
        self.api(resource).namespaced(namespace).delete(name, &options).await.unwrap();
    }

    pub(crate) async fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.api(resource).namespaced(namespace).find(name).await.unwrap()
    }

    pub(crate) async fn namespace(&self, name: &str) {
        self.create("namespaces", "", json!({"metadata": {"name": name}})).await;
    }

    pub(crate) async fn eventually_gone(&self, resource: &str, namespace: &str, name: &str) {
        let what = format!("{resource} {namespace}/{name} is gone");
        eventually(&what, async || self.find(resource, namespace, name).await.is_none()).await;
    }

    /// Waits until the object is there and as the function wants it.
    pub(crate) async fn eventually(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        for _ in 0..600 {
            if let Some(object) = self.find(resource, namespace, name).await
                && is_so(&object)
            {
                return object;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let found = self.find(resource, namespace, name).await;
        panic!(
            "two minutes later {resource} {namespace}/{name} is still not as expected: {found:?}"
        );
    }

    /// The messages of the events about an object, by reason.
    pub(crate) async fn events(&self, namespace: &str, name: &str) -> Vec<(String, String)> {
        let events = self.api("events").namespaced(namespace);
        let events = events.list_all(&ListOptions::default()).await.unwrap().items;
        let about = events.iter().map(|event| event.value());
        let about = about.filter(|event| event["involvedObject"]["name"] == name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        about.map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
    }

    /// The number of the last write to the store.
    pub(crate) async fn revision(&self) -> u64 {
        let list = self.api("namespaces").list(&ListOptions::default()).await.unwrap();
        list.resource_version.parse().unwrap()
    }

    /// Lets the controllers do whatever they have in mind.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }

    pub(crate) async fn stop(mut self) {
        self.stop_controllers().await;
        self.shutdown.finish(Duration::from_secs(5)).await;
        self.server.stop();
    }
}

/// Clusters are served by the binary; here a definition stands in for it.
fn clusters_definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "clusters.cluster.karmada.io"},
        "spec": {
            "group": "cluster.karmada.io",
            "scope": "Cluster",
            "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster",
                      "listKind": "ClusterList"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}},
            }],
        },
    })
}

pub(crate) async fn eventually(what: &str, check: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("two minutes later it is still not so that {what}");
}

//! A control plane in memory with simulated members, and what tests ask of it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use karmada_admission::{self as admission, Environment};
use karmada_api::cluster::Cluster;
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::crd;
use karmada_api::features::Gates;
use karmada_api::policy::FederatedResourceQuota;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::admission::{Admission, Attributes, Operation, Warning};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::{self, SigningKey, TokenIssuer};
use karmada_apiserver::pki::certificate::Authority;
use karmada_apiserver::{Config, Role, Server, Trust};
use karmada_client::{Api, Client, ListOptions};
use karmada_controllers::context::{Context, Options};
use karmada_controllers::members::{Dial, DialError};
use karmada_controllers::registry;
use karmada_member_sim::{Config as SimConfig, Nodes, Sim};
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::Memory;
use tower::Service as _;

/// Puts ids on what is created, as Karmada's admission does.
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
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        format!("00000000-0000-4000-8000-{id:012}")
    }
    fn customizations(&self) -> Vec<ResourceInterpreterCustomization> {
        Vec::new()
    }
    fn quotas(&self, _: &str) -> Vec<FederatedResourceQuota> {
        Vec::new()
    }
}

impl Admission for Hooks {
    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        let concerns = attributes.subresource.is_empty()
            && attributes.gvk.group == "work.karmada.io"
            && attributes.operation != Operation::Delete;
        if !concerns {
            return Ok(Vec::new());
        }
        let gvk = attributes.gvk.clone();
        let request = admission::Request {
            resource: Gvr::new(&*gvk.group, &*gvk.version, &*attributes.resource),
            kind: gvk,
            subresource: String::new(),
            name: attributes.name.to_string(),
            namespace: attributes.namespace.to_string(),
            operation: match attributes.operation {
                Operation::Create => admission::Operation::Create,
                _ => admission::Operation::Update,
            },
            object: Cow::Borrowed(object),
            old_object: Cow::Borrowed(old.unwrap_or(&Value::Null)),
            dry_run: false,
        };
        if let Some(changed) = admission::mutate(&request, self)?.object {
            *object = changed;
        }
        Ok(Vec::new())
    }
}

/// Reaches simulated members in process.
#[derive(Default)]
struct InProcess {
    members: HashMap<String, karmada_member_sim::Network>,
}

impl Dial for InProcess {
    fn dial(&self, cluster: &Cluster, _: Option<&Value>) -> Result<Client, DialError> {
        let name = &cluster.metadata.name;
        let network = self.members.get(name).ok_or_else(|| DialError::NoEndpoint(name.clone()))?;
        let identity = Identity::new("karmada", ["system:masters"]);
        Ok(Client::in_process(network.clone().acting_as(identity)))
    }
}

fn authority_pem() -> &'static (String, String) {
    static PEM: OnceLock<(String, String)> = OnceLock::new();
    PEM.get_or_init(|| {
        let key = Authority::generate_key().unwrap();
        let (begin, end) = ("2025-01-01T00:00:00Z".parse(), "2036-01-01T00:00:00Z".parse());
        let authority = Authority::self_signed("test", &key, begin.unwrap(), end.unwrap()).unwrap();
        (key, authority.certificate_pem())
    })
}

pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) members: HashMap<String, Sim>,
    clock: Clock,
    server: Server,
    controllers: Option<Shutdown>,
    metrics: Metrics,
    /// Which controllers run, as `--controllers` has it.
    pub(crate) list: Vec<&'static str>,
    /// What happens right before the controllers first write the status of a Deployment.
    pub(crate) meddling: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
}

/// The controllers under test; scheduler and detector are played by the tests.
const CONTROLLERS: [&str; 4] = ["binding", "bindingStatus", "execution", "workStatus"];

impl Plane {
    /// A plane with Ready members and the controllers running.
    pub(crate) async fn start(members: &[&str]) -> Self {
        let mut plane = Self::without_controllers(members).await;
        plane.start_controllers();
        plane
    }

    pub(crate) async fn without_controllers(members: &[&str]) -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let (key, certificate) = authority_pem();
        let authority = Authority::from_pem(certificate, key).unwrap();
        let signing = SigningKey::from_pem(key.as_bytes()).unwrap();
        let tokens = Arc::new(TokenIssuer::new(token::DEFAULT_ISSUER, signing, Vec::new()));
        let trust = Trust {
            client_certs: None,
            front_proxy: None,
            tokens,
            allow_anonymous: false,
            client_ca_pem: authority.certificate_pem(),
            front_proxy_ca_pem: authority.certificate_pem(),
        };
        let own = clock.clone();
        let time: karmada_apiserver::auth::Clock = Arc::new(move || own.now());
        let config = Config { role: Role::Plane, ..Config::default() };
        let hooks = Hooks { gates: Gates::default(), ids: AtomicU64::new(1) };
        let builder = Server::builder(config, Arc::new(Memory::new()), trust).clock(time);
        let server = builder.admission(Arc::new(hooks)).start().await.unwrap();
        let admin = Identity::new("admin", ["system:masters", "system:authenticated"]);
        let client = Client::beside(server.handle().acting_as(admin));
        let mut plane = Self {
            client,
            members: HashMap::new(),
            clock,
            server,
            controllers: None,
            metrics: Metrics::default(),
            list: CONTROLLERS.to_vec(),
            meddling: Arc::default(),
        };
        plane.install().await;
        for member in members {
            plane.join(member).await;
        }
        plane
    }

    async fn install(&self) {
        let definitions = self.api("customresourcedefinitions.v1.apiextensions.k8s.io");
        for crd in crd::crds() {
            definitions.create(&crd.object).await.unwrap();
        }
        // The plane serves Cluster natively; any definition of it does here.
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        definitions
            .create(&json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "clusters.cluster.karmada.io"},
                "spec": {
                    "group": "cluster.karmada.io", "scope": "Cluster",
                    "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"},
                    "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": open}, "subresources": {"status": {}}}],
                },
            }))
            .await
            .unwrap();
        for resource in ["works.v1alpha1.work.karmada.io", CLUSTERS, BINDINGS] {
            let served = async || self.api(resource).list(&ListOptions::default()).await.is_ok();
            eventually(resource, served).await;
        }
    }

    pub(crate) async fn join(&mut self, name: &str) {
        let nodes = Nodes { count: 1, ..Nodes::default() };
        let config = SimConfig { nodes, clock: self.clock.clone(), ..SimConfig::named(name) };
        let sim = Sim::start(config).await.unwrap();
        sim.client()
            .api(&Gvr::new("", "v1", "namespaces"))
            .create(&json!({"metadata": {"name": "ns"}}))
            .await
            .unwrap();
        self.members.insert(name.to_owned(), sim);
        self.create("namespaces", "", json!({"metadata": {"name": format!("karmada-es-{name}")}}))
            .await;
        self.create(
            CLUSTERS,
            "",
            json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name},
                "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{name}.invalid")},
            }),
        )
        .await;
        self.set_ready(name, true).await;
    }

    pub(crate) async fn set_ready(&self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let patch = karmada_client::Patch::Merge(json!({"status": {"conditions": [condition]}}));
        let api = self.api(CLUSTERS);
        api.patch_subresource(name, "status", &patch, &Default::default()).await.unwrap();
    }

    pub(crate) fn start_controllers(&mut self) {
        let shutdown = Shutdown::new();
        let identity = Identity::new("system:karmada-controller-manager", ["system:masters"]);
        self.metrics = Metrics::default();
        let (server, meddling) = (self.server.handle().acting_as(identity), self.meddling.clone());
        let client = Client::in_process(tower::service_fn(
            move |request: http::Request<kube::client::Body>| {
                let path = request.uri().path();
                let concerns = path.contains("/deployments/") && path.ends_with("/status");
                let meddling = if concerns { meddling.lock().unwrap().take() } else { None };
                let mut server = server.clone();
                async move {
                    if let Some(meddling) = meddling {
                        meddling.await;
                    }
                    server.call(request).await
                }
            },
        ));
        let manager =
            Manager::new(client, self.clock.clone(), self.metrics.clone(), shutdown.clone());
        let networks = self.members.iter().map(|(name, sim)| (name.clone(), sim.network()));
        let dial = InProcess { members: networks.collect() };
        let context = Context::start(manager, Arc::new(dial), Gates::default(), Options::default());
        let list: Vec<String> = self.list.iter().map(|name| (*name).to_owned()).collect();
        registry::start(&context, &list);
        self.controllers = Some(shutdown);
    }

    /// What the controllers tell of themselves at present.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.encode()
    }

    /// Ends the controllers as a crash would: whatever they knew is gone.
    pub(crate) async fn stop_controllers(&mut self) {
        if let Some(shutdown) = self.controllers.take() {
            shutdown.finish(Duration::from_secs(5)).await;
        }
    }

    /// Requests about a resource: `configmaps`, `deployments.v1.apps`.
    pub(crate) fn api(&self, resource: &str) -> Api {
        self.client.api(&gvr(resource))
    }

    pub(crate) fn member(&self, name: &str, resource: &str) -> Api {
        self.members[name].client().api(&gvr(resource)).namespaced("ns")
    }

    pub(crate) async fn create(&self, resource: &str, namespace: &str, object: Value) -> Value {
        let created = self.api(resource).namespaced(namespace).create(&object).await;
        created.unwrap_or_else(|error| panic!("create {object}: {error}"))
    }

    /// The binding of a template, scheduled to these clusters.
    pub(crate) async fn bind(&self, template: &Value, clusters: Value, spec: Value) -> Value {
        self.bind_in("ns", template, clusters, spec).await
    }

    pub(crate) async fn bind_in(
        &self,
        namespace: &str,
        template: &Value,
        clusters: Value,
        spec: Value,
    ) -> Value {
        let kind = template.kind();
        let name = format!("{}-{}", template.name(), kind.to_lowercase());
        let mut binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": namespace, "finalizers": ["karmada.io/binding-controller"]},
            "spec": {"clusters": clusters, "resource": {
                "apiVersion": template.api_version(), "kind": kind, "namespace": namespace,
                "name": template.name(), "uid": template.uid()}},
        });
        for (key, value) in spec.as_object().unwrap() {
            binding["spec"][key] = value.clone();
        }
        let made = self.create(BINDINGS, namespace, binding).await;
        let status = json!({"status": {"lastScheduledTime": "2026-01-01T00:00:00Z"}});
        let patch = karmada_client::Patch::Merge(status);
        let api = self.api(BINDINGS).namespaced(namespace);
        api.patch_subresource(&name, "status", &patch, &Default::default()).await.unwrap();
        made
    }

    /// Deletes a binding, as the garbage collector does when its template is gone.
    pub(crate) async fn unbind(&self, name: &str) {
        let api = self.api(BINDINGS).namespaced("ns");
        api.delete(name, &karmada_client::DeleteOptions::default()).await.unwrap();
    }

    pub(crate) async fn eventually_no_work(&self, cluster: &str) {
        let what = format!("{cluster} has no work");
        eventually(&what, async || self.works(cluster).await.is_empty()).await;
    }

    /// How often a Work was written between two states of it.
    pub(crate) async fn writes_between(&self, before: &Value, after: &Value) -> usize {
        let options = karmada_client::WatchOptions {
            resource_version: before.resource_version().to_owned(),
            ..Default::default()
        };
        let api = self.api("works.v1alpha1.work.karmada.io").namespaced(before.namespace());
        let mut watch = api.watch(&options).await.unwrap();
        let mut writes = 0;
        while let Some(Ok(event)) = watch.next().await {
            if let karmada_client::WatchEvent::Modified(work) = event {
                writes += 1;
                if work.resource_version() == after.resource_version() {
                    break;
                }
            }
        }
        writes
    }

    pub(crate) async fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.api(resource).namespaced(namespace).find(name).await.unwrap()
    }

    pub(crate) async fn works(&self, cluster: &str) -> Vec<Value> {
        let api = self.api("works.v1alpha1.work.karmada.io");
        let list = api.namespaced(&format!("karmada-es-{cluster}"));
        let list = list.list_all(&ListOptions::default()).await.unwrap();
        list.items.iter().map(|work| work.value()).collect()
    }

    /// Waits until the only Work of a cluster is as the function wants it.
    pub(crate) async fn eventually_work(
        &self,
        cluster: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let what = format!("the work of {cluster} is as expected");
        let check = async || matches!(self.works(cluster).await.as_slice(), [work] if is_so(work));
        if tokio::time::timeout(Duration::from_secs(60), eventually(&what, check)).await.is_err() {
            panic!("{what}, but it is {:#?}", self.works(cluster).await);
        }
        self.works(cluster).await.remove(0)
    }

    pub(crate) async fn eventually_member(
        &self,
        member: &str,
        resource: &str,
        name: &str,
        is_so: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let what = format!("{resource} {name} in {member} is as expected");
        let check =
            async || is_so(self.member(member, resource).find(name).await.unwrap().as_ref());
        eventually(&what, check).await;
        self.member(member, resource).find(name).await.unwrap()
    }

    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }

    /// The resource versions of everything the controllers write, on the plane and in the members.
    pub(crate) async fn versions(&self) -> Vec<String> {
        let mut versions = Vec::new();
        let kinds = [
            "works.v1alpha1.work.karmada.io",
            BINDINGS,
            "configmaps",
            "deployments.v1.apps",
            "events",
        ];
        let mut clients = vec![("plane".to_owned(), self.client.clone())];
        clients.extend(self.members.iter().map(|(name, sim)| (name.clone(), sim.client())));
        for (place, client) in clients {
            for kind in kinds {
                let Ok(list) = client.api(&gvr(kind)).list_all(&ListOptions::default()).await
                else {
                    continue;
                };
                for item in list.items {
                    versions.push(format!(
                        "{place} {kind} {}/{} {}",
                        item.namespace(),
                        item.name(),
                        item.resource_version()
                    ));
                }
            }
        }
        versions.sort();
        versions
    }

    pub(crate) async fn stop(mut self) {
        self.stop_controllers().await;
        for (_, sim) in self.members {
            sim.stop().await;
        }
        self.server.stop();
    }
}

pub(crate) const BINDINGS: &str = "resourcebindings.v1alpha2.work.karmada.io";
pub(crate) const CLUSTERS: &str = "clusters.v1alpha1.cluster.karmada.io";

fn gvr(resource: &str) -> Gvr {
    let mut parts = resource.splitn(3, '.');
    let name = parts.next().unwrap();
    let version = parts.next().unwrap_or("v1");
    Gvr::new(parts.next().unwrap_or(""), version, name)
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

pub(crate) fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": data})
}

pub(crate) fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}},
    })
}

/// The status of a condition of a Work or binding.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition["type"] == kind)
}

pub(crate) fn is(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == status)
}

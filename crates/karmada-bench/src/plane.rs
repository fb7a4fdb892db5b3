//! A whole control plane with members in this process, to be measured: API server on the durable
//! store, admission, controllers and scheduler as `karmada up` has them; members are bare.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use karmada_admission::{self as admission, Environment};
use karmada_api::cluster::Cluster;
use karmada_api::config::ResourceInterpreterCustomization;
use karmada_api::crd;
use karmada_api::features::Gates;
use karmada_api::policy::FederatedResourceQuota;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::status::Status;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::admission::{Admission, Attributes, Operation, Warning};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::{self, SigningKey, TokenIssuer};
use karmada_apiserver::pki::certificate::Authority;
use karmada_apiserver::{Config, Role, Server, Trust};
use karmada_client::{Api, Client, ListOptions, Patch, PatchOptions};
use karmada_controllers::context::{Context, Options};
use karmada_controllers::members::{Dial, DialError, Limits};
use karmada_controllers::registry;
use karmada_member_sim::{Config as SimConfig, Nodes, Sim};
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_store::Embedded;

const CLUSTERS: &str = "clusters.v1alpha1.cluster.karmada.io";

struct Hooks {
    gates: Gates,
    ids: AtomicU64,
}

impl Environment for Hooks {
    fn gates(&self) -> &Gates {
        &self.gates
    }
    fn allows_no_execute_taints(&self) -> bool {
        false
    }
    fn new_id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.ids.fetch_add(1, Ordering::Relaxed))
    }
    fn customizations(&self) -> Vec<ResourceInterpreterCustomization> {
        Vec::new()
    }
    fn quotas(&self, _: &str) -> Vec<FederatedResourceQuota> {
        Vec::new()
    }
}

impl Hooks {
    fn request(attributes: &Attributes, object: &Value, old: Option<&Value>) -> admission::Request {
        let gvk = attributes.gvk.clone();
        admission::Request {
            resource: Gvr::new(&*gvk.group, &*gvk.version, &*attributes.resource),
            kind: gvk,
            subresource: attributes.subresource.clone(),
            name: attributes.name.clone(),
            namespace: attributes.namespace.clone(),
            operation: match attributes.operation {
                Operation::Create => admission::Operation::Create,
                Operation::Update => admission::Operation::Update,
                Operation::Delete => admission::Operation::Delete,
                Operation::Connect => admission::Operation::Connect,
            },
            object: object.clone(),
            old_object: old.cloned().unwrap_or(Value::Null),
            dry_run: attributes.dry_run,
        }
    }

    fn concerns(attributes: &Attributes) -> bool {
        attributes.subresource.is_empty()
            && attributes.gvk.group.ends_with("karmada.io")
            && attributes.gvk.kind != "Cluster"
            && attributes.operation != Operation::Delete
    }
}

impl Admission for Hooks {
    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        if Self::concerns(attributes) {
            *object = admission::mutate(&Self::request(attributes, object, old), self)?.object;
        }
        Ok(Vec::new())
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Vec<Warning>, Status> {
        if Self::concerns(attributes) {
            admission::validate(&Self::request(attributes, object, old), self)?;
        }
        Ok(Vec::new())
    }
}

struct InProcess(BTreeMap<String, karmada_member_sim::Network>);

impl Dial for InProcess {
    fn dial(&self, cluster: &Cluster, _: Option<&Value>) -> Result<Client, DialError> {
        let name = &cluster.metadata.name;
        let network = self.0.get(name).ok_or_else(|| DialError::NoEndpoint(name.clone()))?;
        let identity = Identity::new("karmada", ["system:masters"]);
        Ok(Client::in_process(network.clone().acting_as(identity)))
    }
}

pub(crate) struct Plane {
    pub(crate) client: Client,
    pub(crate) members: BTreeMap<String, Sim>,
    server: Server,
    controllers: Option<Shutdown>,
}

impl Plane {
    pub(crate) async fn start(dir: &std::path::Path, members: &[&str]) -> anyhow::Result<Self> {
        let key = Authority::generate_key()?;
        let (begin, end) = ("2025-01-01T00:00:00Z".parse()?, "2036-01-01T00:00:00Z".parse()?);
        let authority = Authority::self_signed("bench", &key, begin, end)?;
        let signing = SigningKey::from_pem(key.as_bytes())?;
        let trust = Trust {
            client_certs: None,
            front_proxy: None,
            tokens: Arc::new(TokenIssuer::new(token::DEFAULT_ISSUER, signing, Vec::new())),
            allow_anonymous: false,
            client_ca_pem: authority.certificate_pem(),
            front_proxy_ca_pem: authority.certificate_pem(),
        };
        let store = Arc::new(Embedded::open(dir)?);
        let hooks = Hooks { gates: Gates::default(), ids: AtomicU64::new(1) };
        let config = Config { role: Role::Plane, ..Config::default() };
        let builder = Server::builder(config, store, trust).admission(Arc::new(hooks));
        let server = builder.start().await?;
        let admin = Identity::new("admin", ["system:masters", "system:authenticated"]);
        let client = Client::in_process(server.handle().acting_as(admin));
        let mut plane = Self { client, members: BTreeMap::new(), server, controllers: None };
        plane.install().await?;
        for member in members {
            plane.join(member).await?;
        }
        Ok(plane)
    }

    pub(crate) fn api(&self, resource: &str) -> Api {
        self.client.api(&gvr(resource))
    }

    async fn install(&self) -> anyhow::Result<()> {
        let definitions = self.api("customresourcedefinitions.v1.apiextensions.k8s.io");
        for crd in crd::crds() {
            definitions.create(&crd.object).await.with_context(|| crd.name.clone())?;
        }
        // `karmada up` serves Cluster natively; its rules do not matter here.
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1alpha1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": open}, "subresources": {"status": {}}});
        let names = json!({"plural": "clusters", "singular": "cluster", "kind": "Cluster",
            "listKind": "ClusterList"});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "clusters.cluster.karmada.io"},
            "spec": {"group": "cluster.karmada.io", "scope": "Cluster", "names": names,
                "versions": [version]},
        });
        definitions.create(&definition).await?;
        while self.api(CLUSTERS).list(&ListOptions::default()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn join(&mut self, name: &str) -> anyhow::Result<()> {
        let config =
            SimConfig { nodes: Nodes { count: 0, ..Nodes::default() }, ..SimConfig::named(name) };
        let sim = Sim::start(config).await?;
        let namespace = json!({"metadata": {"name": "bench"}});
        sim.client().api(&gvr("namespaces")).create(&namespace).await?;
        self.members.insert(name.to_owned(), sim);
        let namespace = json!({"metadata": {"name": format!("karmada-es-{name}")}});
        self.api("namespaces").create(&namespace).await?;
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {"syncMode": "Push", "apiEndpoint": format!("https://{name}.invalid"),
                "secretRef": {"namespace": "default", "name": name}},
        });
        self.api(CLUSTERS).create(&cluster).await?;
        let secret =
            json!({"metadata": {"name": name}, "stringData": {"token": "t", "caBundle": "c"}});
        self.api("secrets").namespaced("default").create(&secret).await?;
        let apis = json!([
            {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
            {"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]},
        ]);
        let now = "2026-01-01T00:00:00Z";
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": "Bench", "message": "",
                "lastTransitionTime": now})
        };
        let conditions = [condition("Ready"), condition("CompleteAPIEnablements")];
        let status = json!({"status": {"conditions": conditions, "apiEnablements": apis}});
        let (patch, options) = (Patch::Merge(status), PatchOptions::default());
        self.api(CLUSTERS).patch_subresource(name, "status", &patch, &options).await?;
        Ok(())
    }

    /// Starts what `karmada up` starts, but for the watch over the clusters themselves.
    pub(crate) fn start_controllers(&mut self) {
        let shutdown = Shutdown::new();
        let gates = Gates::default();
        let client = |name: &str| {
            let identity = Identity::new(format!("system:{name}"), ["system:masters"]);
            Client::in_process(self.server.handle().acting_as(identity)).with_user_agent(name)
        };
        let manager = Manager::new(
            client("karmada-controller-manager"),
            Clock::real(),
            Metrics::default(),
            shutdown.clone(),
        );
        let mut scheduling = manager.clone();
        scheduling.client = client("karmada-scheduler");
        karmada_scheduler::start(&scheduling, karmada_scheduler::Options::default(), &gates);
        let networks = self.members.iter().map(|(name, sim)| (name.clone(), sim.network()));
        let dial = InProcess(networks.collect());
        let member_limits = Limits { qps: 1e6, burst: 1e6, ..Limits::default() };
        let options = Options { member_limits, ..Options::default() };
        let context = Context::start(manager, Arc::new(dial), gates, options);
        let list = ["*", "-cluster", "-clusterStatus", "-unifiedAuth", "-namespace"];
        registry::start(&context, &list.map(str::to_owned));
        self.controllers = Some(shutdown);
    }

    pub(crate) async fn stop_controllers(&mut self) {
        if let Some(shutdown) = self.controllers.take() {
            shutdown.finish(Duration::from_secs(10)).await;
        }
    }

    /// Writes answered by the API server so far, leases left out: all, and those of events.
    pub(crate) async fn writes(&self) -> anyhow::Result<(u64, u64)> {
        let request = http::Request::get("/metrics").body(karmada_client::Body::empty())?;
        let text = self.client.request_bytes(request).await?;
        let (mut all, mut events) = (0, 0);
        for line in String::from_utf8_lossy(&text).lines() {
            let verbs = ["CREATE", "UPDATE", "PATCH", "DELETE"];
            let is_write = line.starts_with("apiserver_request_total{")
                && verbs.iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")));
            let count: u64 = line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            if is_write && !line.contains("resource=\"leases\"") {
                all += count;
                events += if line.contains("resource=\"events\"") { count } else { 0 };
            }
        }
        Ok((all, events))
    }

    pub(crate) async fn stop(mut self) {
        self.stop_controllers().await;
        for (_, sim) in self.members {
            sim.stop().await;
        }
        self.server.stop();
    }
}

pub(crate) fn gvr(resource: &str) -> Gvr {
    let mut parts = resource.splitn(3, '.');
    let name = parts.next().unwrap_or_default();
    let version = parts.next().unwrap_or("v1");
    Gvr::new(parts.next().unwrap_or(""), version, name)
}

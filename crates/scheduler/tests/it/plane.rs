//! A control plane in memory with nothing but its kinds and a scheduler.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use karmada_api::crd;
use karmada_api::features::Gates;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::auth::token::{self, SigningKey, TokenIssuer};
use karmada_apiserver::pki::certificate::Authority;
use karmada_apiserver::{Config, Role, Server, Trust};
use karmada_client::{Api, Client, Patch, PatchOptions};
use karmada_runtime::{Clock, Manager, Metrics, Shutdown};
use karmada_scheduler::{Options, SchedulerHandle, start};
use karmada_store::Memory;

pub(crate) struct Plane {
    pub(crate) client: Client,
    clock: Clock,
    server: Server,
    running: Option<(Shutdown, SchedulerHandle)>,
    metrics: Metrics,
}

fn trust() -> Trust {
    let key = Authority::generate_key().unwrap();
    let (begin, end) = ("2025-01-01T00:00:00Z".parse(), "2036-01-01T00:00:00Z".parse());
    let authority = Authority::self_signed("test", &key, begin.unwrap(), end.unwrap()).unwrap();
    let signing = SigningKey::from_pem(key.as_bytes()).unwrap();
    Trust {
        client_certs: None,
        front_proxy: None,
        tokens: Arc::new(TokenIssuer::new(token::DEFAULT_ISSUER, signing, Vec::new())),
        allow_anonymous: false,
        client_ca_pem: authority.certificate_pem(),
        front_proxy_ca_pem: authority.certificate_pem(),
    }
}

/// `Cluster` is served by rules of its own elsewhere; here a definition will do.
fn cluster_definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.cluster.karmada.io"},
        "spec": {
            "group": "cluster.karmada.io", "scope": "Cluster",
            "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}

impl Plane {
    /// An empty plane without a scheduler.
    pub(crate) async fn empty() -> Self {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let own = clock.clone();
        let time: karmada_apiserver::auth::Clock = Arc::new(move || -> Timestamp { own.now() });
        let config = Config { role: Role::Plane, ..Config::default() };
        let store = Arc::new(Memory::new());
        let server = Server::builder(config, store, trust()).clock(time).start().await.unwrap();
        let admin = Identity::new("admin", ["system:masters", "system:authenticated"]);
        let client = Client::beside(server.handle().acting_as(admin));
        let plane = Self { client, clock, server, running: None, metrics: Metrics::default() };
        let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        let definitions = plane.client.api(&definitions);
        let bindings = crd::crds().iter().filter(|crd| crd.name.contains("resourcebindings"));
        for definition in bindings.map(|crd| crd.object.clone()).chain([cluster_definition()]) {
            let mut definition = definition;
            // Conversion belongs to the webhook.
            definition["spec"]["conversion"] = json!({"strategy": "None"});
            definitions.create(&definition).await.unwrap();
            let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
            eventually(&format!("{name} is served"), async || {
                let stored = definitions.get(&name).await.unwrap();
                let conditions = stored["status"]["conditions"].as_array().cloned();
                conditions.unwrap_or_default().iter().any(|condition| {
                    condition["type"] == "Established" && condition["status"] == "True"
                })
            })
            .await;
        }
        plane.create("namespaces", "", json!({"metadata": {"name": "x"}})).await;
        plane
    }

    /// A plane with these clusters and a scheduler.
    pub(crate) async fn with_clusters(names: &[&str]) -> Self {
        let mut plane = Self::empty().await;
        for name in names {
            plane.cluster(name, json!({})).await;
        }
        plane.schedule().await;
        plane
    }

    pub(crate) async fn schedule(&mut self) {
        self.schedule_with(Options::default(), &Gates::default()).await;
    }

    pub(crate) async fn schedule_with(&mut self, options: Options, gates: &Gates) {
        let shutdown = Shutdown::new();
        let (client, clock) = (self.client.clone(), self.clock.clone());
        self.metrics = Metrics::default();
        let manager = Manager::new(client, clock, self.metrics.clone(), shutdown.clone());
        let handle = start(&manager, options, gates);
        self.running = Some((shutdown, handle));
        self.settle().await;
    }

    /// What the scheduler tells of itself at present.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.encode()
    }

    pub(crate) fn scheduler(&self) -> &SchedulerHandle {
        &self.running.as_ref().expect("a scheduler runs").1
    }

    /// Ends the scheduler; everything else goes on.
    pub(crate) async fn halt(&mut self) {
        if let Some((shutdown, _)) = self.running.take() {
            shutdown.finish(Duration::from_secs(5)).await;
        }
    }

    pub(crate) fn api(&self, resource: &str) -> Api {
        self.client.api(&match resource {
            "clusters" => Gvr::new("cluster.karmada.io", "v1alpha1", "clusters"),
            "resourcebindings" | "clusterresourcebindings" => {
                Gvr::new("work.karmada.io", "v1alpha2", resource)
            }
            core => Gvr::new("", "v1", core),
        })
    }

    pub(crate) async fn create(&self, resource: &str, namespace: &str, object: Value) -> Value {
        let created = self.api(resource).namespaced(namespace).create(&object).await;
        created.unwrap_or_else(|error| panic!("create {object}: {error}"))
    }

    /// From now on the server takes no binding for which this is not true.
    pub(crate) async fn demand(&self, expression: &str) {
        let api =
            |resource| self.client.api(&Gvr::new("admissionregistration.k8s.io", "v1", resource));
        let rule = json!({
            "apiGroups": ["work.karmada.io"], "apiVersions": ["v1alpha2"],
            "resources": ["resourcebindings"], "operations": ["UPDATE"],
        });
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "demand"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression, "message": "not here"}],
            },
        });
        api("validatingadmissionpolicies").create(&policy).await.unwrap();
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "demand"},
            "spec": {"policyName": "demand", "validationActions": ["Deny"]},
        });
        api("validatingadmissionpolicybindings").create(&binding).await.unwrap();
        self.settle().await;
    }

    pub(crate) async fn patch(&self, resource: &str, name: &str, patch: Value) {
        let namespace = if resource == "resourcebindings" { "x" } else { "" };
        self.api(resource).namespaced(namespace).merge_patch(name, patch).await.unwrap();
    }

    pub(crate) async fn patch_status(&self, resource: &str, name: &str, status: Value) {
        let namespace = if resource == "resourcebindings" { "x" } else { "" };
        let patch = Patch::Merge(json!({"status": status}));
        let api = self.api(resource).namespaced(namespace);
        api.patch_subresource(name, "status", &patch, &PatchOptions::default()).await.unwrap();
    }

    /// A ready cluster with room for ten pods of one CPU.
    pub(crate) async fn cluster(&self, name: &str, labels: Value) {
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": name, "labels": labels}, "spec": {"syncMode": "Push"},
        });
        self.create("clusters", "", cluster).await;
        let apps = json!({"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]});
        let core = json!({"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]});
        self.patch_status(
            "clusters",
            name,
            json!({"apiEnablements": [apps, core], "resourceSummary": room(10)}),
        )
        .await;
    }

    pub(crate) async fn binding(&self, name: &str) -> Value {
        self.api("resourcebindings").namespaced("x").get(name).await.unwrap()
    }

    /// What the scheduler has in mind for now is done after this.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    /// The clusters of a binding as events show them, and the reason of its condition.
    pub(crate) async fn outcome(&self, name: &str) -> (String, String) {
        self.settle().await;
        outcome(&self.binding(name).await)
    }

    /// Messages of the scheduler's events about bindings and templates of this name.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let events = self.api("events").list(&Default::default()).await.unwrap();
        let events = events.items.iter().map(|event| event.value());
        let own = events.filter(|event| event["involvedObject"]["name"] == name);
        let mut told: Vec<String> = own
            .map(|event| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                format!("{} {}", text(&event["reason"]), text(&event["message"]))
            })
            .collect();
        told.sort();
        told
    }

    pub(crate) async fn stop(mut self) {
        self.halt().await;
        self.server.stop();
    }
}

pub(crate) fn room(cpus: i64) -> Value {
    json!({"allocatable": {"cpu": cpus.to_string(), "memory": "100Gi", "pods": "100"}})
}

/// A binding of a ConfigMap that a policy stands behind.
pub(crate) fn plain(name: &str, placement: Value) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": name, "namespace": "x",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id"},
        },
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "x", "name": name},
            "placement": placement, "schedulerName": "default-scheduler",
        },
    })
}

/// A binding of a Deployment, divided by free capacity.
pub(crate) fn divided(name: &str, replicas: i64) -> Value {
    let mut binding = plain(
        name,
        json!({"replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }}),
    );
    binding["spec"]["resource"]["apiVersion"] = "apps/v1".into();
    binding["spec"]["resource"]["kind"] = "Deployment".into();
    binding["spec"]["replicas"] = replicas.into();
    binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
    binding
}

pub(crate) fn outcome(binding: &Value) -> (String, String) {
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let shown: Vec<String> = clusters
        .iter()
        .map(|target| match target["replicas"].as_i64() {
            None | Some(0) => target["name"].as_str().unwrap().to_owned(),
            Some(replicas) => format!("{}:{replicas}", target["name"].as_str().unwrap()),
        })
        .collect();
    let conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let scheduled = conditions.iter().find(|condition| condition["type"] == "Scheduled");
    let reason = scheduled.and_then(|condition| condition["reason"].as_str()).unwrap_or("");
    (shown.join(" "), reason.to_owned())
}

pub(crate) async fn eventually(what: &str, check: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if check().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a minute later it is still not so that {what}");
}

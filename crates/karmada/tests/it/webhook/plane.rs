//! What the webhook reads from its API server and writes there; the server is `karmada apiserver`.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client};
use tempfile::TempDir;

use super::server::{Certificates, Process, Webhook, eventually};

struct Plane {
    directory: TempDir,
    client: Client,
    _process: Process,
}

impl Plane {
    /// An API server that knows Karmada's kinds and has the namespace `ns`.
    async fn start() -> Self {
        // Fails only if a provider is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let directory = TempDir::new().unwrap();
        let data = format!("--data-dir={}", directory.path().display());
        let arguments = ["apiserver", &data, "--store=memory", "--secure-port=0"];
        let process = Process::start(&arguments, "serving");
        let kubeconfig = directory.path().join("admin.config");
        let client = Client::from_kubeconfig(&kubeconfig, None).await.unwrap();
        let plane = Self { directory, client, _process: process };
        plane.install().await;
        plane
    }

    async fn install(&self) {
        install_definitions(
            &self.client,
            karmada_api::crd::crds().iter().map(|c| c.object.clone()),
        )
        .await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
        self.client.api(&Gvr::new("", "v1", "namespaces")).create(&namespace).await.unwrap();
    }

    fn webhook(&self, flags: &[&str]) -> Webhook {
        Webhook::start(Certificates::new(), &self.directory.path().join("admin.config"), flags)
    }
}

/// Installs definitions and waits until their kinds are served.
pub(crate) async fn install_definitions(client: &Client, crds: impl Iterator<Item = Value>) {
    let definitions =
        client.api(&Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"));
    for crd in crds {
        definitions.apply(&crd, "test").await.unwrap();
        let name = crd["metadata"]["name"].as_str().unwrap();
        eventually("a definition is established", async || {
            let stored = definitions.get(name).await.unwrap();
            let conditions = stored["status"]["conditions"].as_array()?;
            conditions.iter().find(|c| c["type"] == "Established" && c["status"] == "True").cloned()
        })
        .await;
    }
}

pub(super) fn quotas(client: &Client, namespace: &str) -> Api {
    let gvr = Gvr::new("policy.karmada.io", "v1alpha1", "federatedresourcequotas");
    client.api(&gvr).namespaced(namespace)
}

pub(super) fn quota(cpu: &str) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
        "metadata": {"name": "q"}, "spec": {"overall": {"cpu": cpu}},
    })
}

/// A binding of `replicas` replicas, each of which wants one CPU.
pub(super) fn binding(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "ns"},
            "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
            "clusters": [{"name": "m1", "replicas": replicas}],
        },
    })
}

pub(super) fn customization(name: &str) -> Value {
    json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": "Deployment"},
            "customizations": {"healthInterpretation": {
                "luaScript": "function InterpretHealth(observed) return true end",
            }},
        },
    })
}

pub(super) const CONFLICT: &str = "conflicting with InterpreterOperation(InterpretHealth) of \
    existing ResourceInterpreterCustomization(first)";

fn review(object: &Value, dry_run: bool) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "namespace": "ns", "dryRun": dry_run, "object": object,
        },
    })
}

#[tokio::test]
async fn customizations_of_others_are_known() {
    let plane = Plane::start().await;
    let gvr = Gvr::new("config.karmada.io", "v1alpha1", "resourceinterpretercustomizations");
    plane.client.api(&gvr).create(&customization("first")).await.unwrap();
    let webhook = plane.webhook(&[]);
    let path = "/validate-resourceinterpretercustomization";
    let answer = webhook.post(path, &review(&customization("second"), false)).await;
    assert_eq!(answer["response"]["status"]["message"], CONFLICT);
    let answer = webhook.post(path, &review(&customization("first"), false)).await;
    assert_eq!(answer["response"]["allowed"], true);
}

#[tokio::test]
async fn customizations_are_refused_while_nobody_can_be_asked() {
    let webhook = Webhook::alone(&[]);
    let path = "/validate-resourceinterpretercustomization";
    let answer = webhook.post(path, &review(&customization("a"), false)).await;
    let response = &answer["response"];
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(500)));
    assert_eq!(response["uid"], "u");
}

#[tokio::test]
async fn the_use_of_quotas_is_written_unless_nothing_is_to_change() {
    let plane = Plane::start().await;
    let quotas = quotas(&plane.client, "ns");
    quotas.create(&quota("5")).await.unwrap();
    let webhook = plane.webhook(&["--feature-gates=FederatedQuotaEnforcement=true"]);
    let path = "/validate-resourcebinding";
    let used = async || quotas.get("q").await.unwrap()["status"]["overallUsed"]["cpu"].clone();

    let answer = webhook.post(path, &review(&binding("a", 2), true)).await;
    assert_eq!((&answer["response"]["allowed"], used().await), (&json!(true), json!(null)));
    // Two at once: one of them writes to a quota that has changed meanwhile.
    let (one, other) = (review(&binding("a", 2), false), review(&binding("b", 2), false));
    let answers = tokio::join!(webhook.post(path, &one), webhook.post(path, &other));
    for answer in [answers.0, answers.1] {
        assert_eq!(answer["response"]["allowed"], true, "{answer}");
    }
    assert_eq!(used().await, "4");
    let answer = webhook.post(path, &review(&binding("c", 2), false)).await;
    let status = &answer["response"]["status"];
    assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("QuotaExceeded")));
    assert_eq!(
        status["message"],
        "FederatedResourceQuota(ns/q) exceeded for resource cpu: requested sum 6, limit 5."
    );
    assert_eq!(used().await, "4");
}

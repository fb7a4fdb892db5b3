//! The webhook behind a real API server: definitions and hooks are registered as a person would register
//! them, then objects are created through the server. Needs `KARMADA_TEST_KUBECONFIGS`.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::{Value, json};
use karmada_client::{Api, Client, DeleteOptions, Error};

use super::components::{Components, place_bindings_on_clusters_served_beside, withdraw};
use super::plane::{CONFLICT, binding, customization, install_definitions, quota, quotas};
use super::server::{BINARY, Certificates, Webhook, documents, eventually, output};
use super::{config_maps, policy};
use crate::member::Member;
use crate::scenarios::{self, Part};

const NAMESPACE: &str = "ns";

struct Real {
    client: Client,
    webhook: Webhook,
}

impl Real {
    async fn start(kubeconfig: &Path, flags: &[&str]) -> Self {
        // Fails only if a provider is installed already, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = Client::from_kubeconfig(kubeconfig, None).await.unwrap();
        let webhook = Webhook::start(Certificates::new(), kubeconfig, flags);
        Self { client, webhook }
    }

    fn api(&self, group: &str, version: &str, resource: &str) -> Api {
        self.client.api(&Gvr::new(group, version, resource))
    }

    fn inside(&self, group: &str, version: &str, resource: &str) -> Api {
        self.api(group, version, resource).namespaced(NAMESPACE)
    }

    /// What the program prints when it is told where the webhook is.
    fn printed(&self, command: &[&str], url_flag: &str) -> Vec<Value> {
        let (url, authority) = (self.webhook.url(), self.webhook.certificates.authority_file());
        let reach = [url_flag, &url, "--ca-file", authority.to_str().unwrap()];
        documents(&output(Path::new(BINARY), &[command, &reach].concat()).unwrap())
    }

    fn configurations(&self, object: &Value) -> Api {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        self.api("admissionregistration.k8s.io", "v1", &format!("{kind}s"))
    }

    async fn install(&self) {
        let crds = self.printed(&["crds"], "--conversion-url");
        install_definitions(&self.client, crds.into_iter()).await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.api("", "v1", "namespaces").apply(&namespace, "test").await.unwrap();
        for object in self.printed(&["webhook", "--print-configuration"], "--url") {
            self.configurations(&object).apply(&object, "test").await.unwrap();
        }
        // The server notices new hooks a little later.
        let policies = self.inside("policy.karmada.io", "v1alpha1", "propagationpolicies");
        eventually("the hooks are called", async || {
            let made = policies
                .create(&policy(json!({"resourceSelectors": config_maps()})))
                .await
                .unwrap();
            delete(&policies, "a").await;
            made["metadata"]["finalizers"].as_array().map(drop)
        })
        .await;
    }

    /// Leaves the server as it was: hooks nobody serves would refuse everything.
    async fn clean_up(&self) {
        for object in self.printed(&["webhook", "--print-configuration"], "--url") {
            let name = object["metadata"]["name"].as_str().unwrap();
            self.configurations(&object).delete(name, &DeleteOptions::default()).await.ok();
        }
        // Nobody is there any more who would let go of what a test has left.
        let works = self.api("work.karmada.io", "v1alpha1", "works");
        let left = works.list_all(&Default::default()).await.map(|list| list.items);
        for work in left.unwrap_or_default() {
            let loose = json!({"metadata": {"finalizers": null}});
            let own = works.clone().namespaced(work.namespace());
            own.merge_patch(work.name(), loose).await.ok();
        }
        let definitions = self.api("apiextensions.k8s.io", "v1", "customresourcedefinitions");
        for crd in karmada_api::crd::crds() {
            remove(&definitions, &crd.name).await;
        }
        remove(&self.api("", "v1", "namespaces"), NAMESPACE).await;
    }
}

/// Deletes an object and waits until it is gone.
async fn remove(api: &Api, name: &str) {
    api.delete(name, &DeleteOptions::default()).await.ok();
    eventually("it is gone", async || api.find(name).await.unwrap().is_none().then_some(())).await;
}

/// Deletes an object whatever finalizers it has.
async fn delete(api: &Api, name: &str) {
    api.delete(name, &DeleteOptions::default()).await.unwrap();
    match api.merge_patch(name, json!({"metadata": {"finalizers": null}})).await {
        Err(error) if !error.is_not_found() => panic!("{error}"),
        _ => {}
    }
    eventually("it is gone", async || api.find(name).await.unwrap().is_none().then_some(())).await;
}

fn refusal(result: Result<Value, Error>) -> (u16, String, String) {
    let error = result.unwrap_err();
    let error = error.api().unwrap_or_else(|| panic!("{error}"));
    (error.code, error.reason.clone(), error.message.clone())
}

fn forbidden(hook: &str, message: &str) -> (u16, String, String) {
    let message = format!("admission webhook \"{hook}\" denied the request: {message}");
    (403, "Forbidden".to_owned(), message)
}

fn kubeconfig() -> Option<PathBuf> {
    let first = named_by("KARMADA_TEST_KUBECONFIGS");
    if first.is_none() {
        eprintln!("skipped: set KARMADA_TEST_KUBECONFIGS");
    }
    first
}

fn named_by(variable: &str) -> Option<PathBuf> {
    let paths = std::env::var_os(variable)?;
    std::env::split_paths(&paths).next().filter(|path| !path.as_os_str().is_empty())
}

#[tokio::test]
async fn real_webhook_guards_a_real_api_server() {
    let Some(kubeconfig) = kubeconfig() else { return };
    let flags = ["--feature-gates=FederatedQuotaEnforcement=true"];
    let real = Real::start(&kubeconfig, &flags).await;
    let checks = async {
        real.install().await;
        policies_are_defaulted(&real).await;
        policies_are_refused(&real).await;
        bindings_are_converted_and_counted(&real).await;
        customizations_and_deletions_are_guarded(&real).await;
        place_bindings_on_clusters_served_beside(&real.client, &kubeconfig).await;
    };
    let outcome = AssertUnwindSafe(checks).catch_unwind().await;
    real.clean_up().await;
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// The same code in separate components in front of a real API server does what was recorded, as
/// it does in one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_components_lead_to_the_recorded_states() {
    let plane = named_by("KARMADA_TEST_PLANE_KUBECONFIG").map(|plane| (plane, Part::Whole));
    let Some((kubeconfig, part)) = plane.or_else(|| Some((kubeconfig()?, Part::Core))) else {
        return;
    };
    let real = Real::start(&kubeconfig, &[]).await;
    let members: Vec<(String, Member)> = scenarios::members()
        .into_iter()
        .map(|name| (name.clone(), Member::named(&name, &[])))
        .collect();
    let config = |name: &str| {
        let member = members.iter().find(|(known, _)| known == name);
        member.expect("it was just started").1.kubeconfig()
    };
    let checks = async {
        real.install().await;
        let components = Components::start(&real.client, &kubeconfig).await;
        let replayed = AssertUnwindSafe(scenarios::replay_at(&kubeconfig, config, part));
        let outcome = replayed.catch_unwind().await;
        drop(components);
        withdraw(&real.client).await;
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    };
    let outcome = AssertUnwindSafe(checks).catch_unwind().await;
    real.clean_up().await;
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

async fn policies_are_defaulted(real: &Real) {
    let policies = real.inside("policy.karmada.io", "v1alpha1", "propagationpolicies");
    let mut object = policy(json!({
        "resourceSelectors": config_maps(),
        "placement": {"clusterAffinity": {"clusterNames": ["m1"]}},
    }));
    object["metadata"]["labels"] = json!({});
    let made = policies.create(&object).await.unwrap();
    let id = made["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"].as_str();
    assert_eq!(id.unwrap().len(), 36);
    assert_eq!(made["metadata"]["finalizers"], json!(["karmada.io/propagation-policy-controller"]));
    assert_eq!(
        made["spec"],
        json!({
            "conflictResolution": "Abort",
            "preemption": "Never",
            "priority": 0,
            "schedulerName": "default-scheduler",
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": NAMESPACE}],
            "placement": {
                "clusterAffinity": {"clusterNames": ["m1"]},
            },
        })
    );
    let change =
        json!({"metadata": {"labels": {"propagationpolicy.karmada.io/permanent-id": "b"}}});
    assert_eq!(
        refusal(policies.merge_patch("a", change).await),
        forbidden(
            "propagationpolicy.karmada.io",
            "label propagationpolicy.karmada.io/permanent-id is immutable, it can only be set by the system during creation"
        )
    );
    delete(&policies, "a").await;
}

async fn policies_are_refused(real: &Real) {
    let policies = real.inside("policy.karmada.io", "v1alpha1", "propagationpolicies");
    let cases = [
        (
            json!({
                "clusterAffinity": {"clusterNames": ["a"]},
                "clusterAffinities": [{"affinityName": "one", "clusterNames": ["member1"]}],
            }),
            r#"spec.placement: Invalid value: {"clusterAffinity":{"clusterNames":["a"]},"clusterAffinities":[{"affinityName":"one","clusterNames":["member1"]}]}: clusterAffinities cannot co-exist with clusterAffinity"#,
        ),
        (
            json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [
                {"key": "city", "operator": "In", "values": ["x"]},
            ]}}}),
            r#"spec.placement.clusterAffinity.fieldSelector: Invalid value: {"matchExpressions":[{"key":"city","operator":"In","values":["x"]}]}: unsupported key "city", must be provider, region, or zone"#,
        ),
    ];
    for (placement, message) in cases {
        let object = policy(json!({"resourceSelectors": config_maps(), "placement": placement}));
        let refused = refusal(policies.create(&object).await);
        assert_eq!(refused, forbidden("propagationpolicy.karmada.io", message));
    }
}

async fn bindings_are_converted_and_counted(real: &Real) {
    let bindings = real.inside("work.karmada.io", "v1alpha2", "resourcebindings");
    let quotas = quotas(&real.client, NAMESPACE);
    quotas.create(&quota("3")).await.unwrap();
    bindings.create(&binding("one", 2)).await.unwrap();
    assert_eq!(quotas.get("q").await.unwrap()["status"]["overallUsed"]["cpu"], "2");
    let (code, reason, message) = refusal(bindings.create(&binding("two", 2)).await);
    assert_eq!((code, &*reason), (403, "QuotaExceeded"));
    assert_eq!(
        message,
        "admission webhook \"resourcebinding.karmada.io\" denied the request: FederatedResourceQuota(ns/q) exceeded for resource cpu: requested sum 4, limit 3."
    );
    let old =
        real.inside("work.karmada.io", "v1alpha1", "resourcebindings").get("one").await.unwrap();
    assert_eq!(old["apiVersion"], "work.karmada.io/v1alpha1");
    assert_eq!(old["spec"]["resource"]["resourcePerReplicas"], json!({"cpu": "1"}));
    let mut written = old.clone();
    written["metadata"] = json!({"name": "three", "namespace": NAMESPACE});
    let (code, _, message) = refusal(
        real.inside("work.karmada.io", "v1alpha1", "resourcebindings").create(&written).await,
    );
    assert_eq!(code, 400);
    assert!(message.contains("into *v1alpha2.ResourceBinding"), "{message}");
}

async fn customizations_and_deletions_are_guarded(real: &Real) {
    let customizations =
        real.api("config.karmada.io", "v1alpha1", "resourceinterpretercustomizations");
    customizations.create(&customization("first")).await.unwrap();
    // The cache of the webhook may not hold the first one yet.
    let refused = eventually("the conflict is seen", async || {
        match customizations.create(&customization("second")).await {
            Ok(_) => {
                delete(&customizations, "second").await;
                None
            }
            refused => Some(refusal(refused)),
        }
    })
    .await;
    assert_eq!(refused, forbidden("resourceinterpretercustomization.karmada.io", CONFLICT));

    let maps = real.inside("", "v1", "configmaps");
    let label = "resourcetemplate.karmada.io/deletion-protected";
    let protected = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kept", "labels": {label: "Always"}},
    });
    maps.create(&protected).await.unwrap();
    let refused = refusal(maps.delete("kept", &DeleteOptions::default()).await);
    assert_eq!(
        refused,
        forbidden(
            "resourcedeletionprotection.karmada.io",
            "This resource is protected, please make sure to remove the label: resourcetemplate.karmada.io/deletion-protected"
        )
    );
    maps.merge_patch("kept", json!({"metadata": {"labels": {label: null}}})).await.unwrap();
    delete(&maps, "kept").await;
}

//! The other components beside the webhook, in front of the same real API server: clusters are served through
//! it, bindings are placed, one replica leads.

use std::path::Path;

use base64::Engine as _;
use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, Patch, PatchOptions};
use tempfile::TempDir;

use super::server::{Process, eventually};

const SYSTEM: &str = "karmada-system";
const AGGREGATED: &str = "karmada-aggregated-apiserver";
const API_SERVICE: &str = "v1alpha1.cluster.karmada.io";

/// Everything but the webhook; it ends with the value.
pub(super) struct Components {
    _aggregated: Process,
    scheduler: Process,
    manager: Process,
    _data: TempDir,
}

impl Components {
    /// Starts the components and waits until the API server serves clusters through them.
    pub(super) async fn start(client: &Client, kubeconfig: &Path) -> Self {
        let namespaces = client.api(&Gvr::new("", "v1", "namespaces"));
        let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
        namespaces.apply(&system, "test").await.unwrap();
        let (kubeconfig, data) = (kubeconfig.to_str().unwrap(), TempDir::new().unwrap());
        let arguments = [
            "aggregated-apiserver",
            "--kubeconfig",
            kubeconfig,
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--data-dir",
            data.path().to_str().unwrap(),
        ];
        let aggregated = Process::start(&arguments, "serving clusters");
        let port = aggregated.address("serving clusters").port();
        announce(client, port, &data.path().join("pki/ca.crt")).await;
        let quiet = ["--health-probe-bind-address=0", "--metrics-bind-address=0", "--kubeconfig"];
        let scheduler = component("scheduler", &quiet, kubeconfig);
        let manager = component("controller-manager", &quiet, kubeconfig);
        Self { _aggregated: aggregated, scheduler, manager, _data: data }
    }
}

pub(super) async fn place_bindings_on_clusters_served_beside(client: &Client, kubeconfig: &Path) {
    let mut components = Components::start(client, kubeconfig).await;
    let Components { scheduler, manager, .. } = &mut components;
    place(client).await;

    // A component that ends lets others lead at once.
    let leases = client.api(&Gvr::new("coordination.k8s.io", "v1", "leases")).namespaced(SYSTEM);
    for (name, process) in
        [("karmada-scheduler", scheduler), ("karmada-controller-manager", manager)]
    {
        let held = leases.get(name).await.unwrap();
        assert!(held["spec"]["holderIdentity"].as_str().is_some_and(|id| id.contains('_')));
        assert!(process.terminate().success(), "{name}");
        let left = leases.get(name).await.unwrap();
        assert_eq!(left["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{name}");
    }
    clean_up(client).await;
}

fn component(name: &str, quiet: &[&str], kubeconfig: &str) -> Process {
    Process::start(&[&[name], quiet, &[kubeconfig]].concat(), "leading")
}

/// Tells the API server where clusters are served, and waits until it has found the way.
async fn announce(client: &Client, port: u16, authority: &Path) {
    let authority = std::fs::read(authority).unwrap();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": AGGREGATED, "namespace": SYSTEM},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let services = client.api(&Gvr::new("", "v1", "services")).namespaced(SYSTEM);
    services.apply(&service, "test").await.unwrap();
    let announcement = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API_SERVICE},
        "spec": {
            "group": "cluster.karmada.io", "version": "v1alpha1",
            "groupPriorityMinimum": 2000, "versionPriority": 10,
            "service": {"name": AGGREGATED, "namespace": SYSTEM, "port": port},
            "caBundle": base64::engine::general_purpose::STANDARD.encode(authority),
        },
    });
    let api = api_services(client);
    api.apply(&announcement, "test").await.unwrap();
    eventually("clusters are served", async || {
        let found = api.get(API_SERVICE).await.unwrap();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let available = |condition: &&Value| condition["type"] == "Available";
        let condition = conditions.iter().find(available)?;
        (condition["status"] == "True").then_some(())
    })
    .await;
}

fn api_services(client: &Client) -> karmada_client::Api {
    client.api(&Gvr::new("apiregistration.k8s.io", "v1", "apiservices"))
}

async fn place(client: &Client) {
    let clusters = client.api(&Gvr::new("cluster.karmada.io", "v1alpha1", "clusters"));
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "beside", "labels": {"tier": "one"}}, "spec": {"syncMode": "Pull"},
    });
    eventually("a cluster is taken", async || clusters.create(&cluster).await.ok()).await;
    let maps =
        json!({"groupVersion": "v1", "resources": [{"name": "configmaps", "kind": "ConfigMap"}]});
    let status = Patch::Merge(json!({"status": {"apiEnablements": [maps]}}));
    let options = PatchOptions::default();
    clusters.patch_subresource("beside", "status", &status, &options).await.unwrap();
    // The controllers make room for what the cluster is to get.
    let namespaces = client.api(&Gvr::new("", "v1", "namespaces"));
    eventually("the cluster has its namespace", async || {
        namespaces.find("karmada-es-beside").await.unwrap()
    })
    .await;
    let bindings = bindings(client);
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": "placed", "namespace": "ns",
                     "labels": {"propagationpolicy.karmada.io/permanent-id": "id"}},
        "spec": {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "placed"},
            "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "one"}}},
                          "clusterTolerations": [{"operator": "Exists"}]},
        },
    });
    bindings.create(&binding).await.unwrap();
    eventually("the binding is placed", async || {
        let binding = bindings.get("placed").await.unwrap();
        let scheduled =
            binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"];
        (scheduled && binding["spec"]["clusters"] == json!([{"name": "beside"}])).then_some(())
    })
    .await;
}

fn bindings(client: &Client) -> karmada_client::Api {
    client.api(&Gvr::new("work.karmada.io", "v1alpha2", "resourcebindings")).namespaced("ns")
}

/// Leaves nothing behind that only ended components would have removed.
async fn clean_up(client: &Client) {
    let loose = json!({"metadata": {"finalizers": null}});
    let clusters = client.api(&Gvr::new("cluster.karmada.io", "v1alpha1", "clusters"));
    for (api, name) in [(bindings(client), "placed"), (clusters, "beside")] {
        api.delete(name, &DeleteOptions::default()).await.ok();
        api.merge_patch(name, loose.clone()).await.ok();
    }
    let works = client.api(&Gvr::new("work.karmada.io", "v1alpha1", "works"));
    for work in works.list_all(&Default::default()).await.unwrap().items {
        works
            .clone()
            .namespaced(work.namespace())
            .merge_patch(work.name(), loose.clone())
            .await
            .ok();
    }
    withdraw(client).await;
}

/// Tells the API server that clusters are served no longer.
pub(super) async fn withdraw(client: &Client) {
    api_services(client).delete(API_SERVICE, &DeleteOptions::default()).await.unwrap();
}

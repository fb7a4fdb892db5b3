//! `--cluster-api-kubeconfig`: clusters that a Cluster API has provisioned join by themselves, over HTTPS and by
//! the kubeconfigs its management cluster keeps.

use std::path::Path;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, DeleteOptions, ListOptions};

use crate::member::Member;
use crate::server::{Server, eventually_awaited as eventually};

async fn client(kubeconfig: &Path) -> Client {
    Client::from_kubeconfig(kubeconfig, None).await.unwrap()
}

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.cluster.x-k8s.io"},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
        },
    })
}

#[tokio::test]
async fn a_provisioned_cluster_joins_by_the_kubeconfig_its_management_cluster_keeps() {
    let (management, web) = (Member::named("management", &[]), Member::named("web", &[]));
    let inside = client(&management.kubeconfig()).await;
    let crds = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    inside.api(&crds).create(&definition()).await.unwrap();
    let objects = inside.api(&Gvr::new("cluster.x-k8s.io", "v1beta1", "clusters"));
    let objects = objects.namespaced("default");
    eventually("the kind is served", async || {
        objects.list(&ListOptions::default()).await.is_ok().then_some(())
    })
    .await;
    let kubeconfig = std::fs::read_to_string(web.kubeconfig()).unwrap();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-kubeconfig"},
        "stringData": {"value": kubeconfig}});
    inside.api(&Gvr::new("", "v1", "secrets")).namespaced("default").create(&secret).await.unwrap();
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": {"name": "web"}});
    objects.create(&object).await.unwrap();
    let provisioned = json!({"status": {"phase": "Provisioned"}});
    objects.merge_patch_status("web", provisioned).await.unwrap();

    let flag = format!("--cluster-api-kubeconfig={}", management.kubeconfig().display());
    let server = Server::up_with(&[&flag, "--cluster-api-context=management"]);
    let plane = client(&server.kubeconfig()).await;
    let clusters = plane.api(&Gvr::new("cluster.karmada.io", "v1alpha1", "clusters"));
    eventually("the cluster is ready", async || {
        let cluster = clusters.find("web").await.ok()??;
        let mut conditions = cluster.list_at(&["status", "conditions"]).iter();
        conditions.any(|c| c["type"] == "Ready" && c["status"] == "True").then_some(())
    })
    .await;
    assert!(!Path::new("/etc/web.kubeconfig").exists(), "kubeconfigs stay in memory");
    objects.delete("web", &DeleteOptions::default()).await.unwrap();
    eventually("the cluster is let go", async || {
        matches!(clusters.find("web").await, Ok(None)).then_some(())
    })
    .await;
}

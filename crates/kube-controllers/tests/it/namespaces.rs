//! The end of a namespace.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_client::Propagation;

use crate::cluster::Cluster;

fn condition<'a>(namespace: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = namespace.list_at(&["status", "conditions"]);
    conditions.iter().find(|condition| condition["type"] == kind)
}

// Shows: NS-2
#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_goes_with_everything_in_it() {
    let cluster = Cluster::plane().await;
    cluster.namespace("a").await;
    cluster.config_map("a", "one", &[]).await;
    cluster.create("secrets", "a", json!({"metadata": {"name": "two"}})).await;
    cluster.delete("namespaces", "", "a", Propagation::Background).await;
    cluster.eventually_gone("namespaces", "", "a").await;
    cluster.namespace("a").await;
    assert_eq!(cluster.find("configmaps", "a", "one").await, None);
    assert_eq!(cluster.find("secrets", "a", "two").await, None);
    cluster.stop().await;
}

// Shows: NS-2
#[tokio::test(start_paused = true)]
async fn a_namespace_says_what_holds_it() {
    let cluster = Cluster::plane().await;
    cluster.namespace("a").await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["x.io/hold"]}});
    cluster.create("configmaps", "a", held).await;
    cluster.delete("namespaces", "", "a", Propagation::Background).await;
    let namespace = cluster
        .eventually("namespaces", "", "a", |namespace| {
            condition(namespace, "NamespaceFinalizersRemaining")
                .is_some_and(|condition| condition["status"] == "True")
        })
        .await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    assert_eq!(namespace.list_at(&["status", "conditions"]).len(), 5);
    assert_eq!(
        condition(&namespace, "NamespaceContentRemaining").unwrap()["message"],
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(
        condition(&namespace, "NamespaceFinalizersRemaining").unwrap()["message"],
        "Some content in the namespace has finalizers remaining: x.io/hold in 1 resource instances"
    );
    let released = json!({"metadata": {"finalizers": null}});
    cluster.api("configmaps").namespaced("a").merge_patch("held", released).await.unwrap();
    cluster.eventually_gone("namespaces", "", "a").await;
    cluster.stop().await;
}

// Shows: NS-2
#[tokio::test(start_paused = true)]
async fn pods_go_before_what_they_may_need() {
    let cluster = Cluster::plane().await;
    cluster.namespace("a").await;
    cluster.config_map("a", "needed", &[]).await;
    let pod = json!({"metadata": {"name": "pod", "finalizers": ["x.io/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.create("pods", "a", pod).await;
    cluster.delete("namespaces", "", "a", Propagation::Background).await;
    cluster.eventually("pods", "a", "pod", ObjectExt::is_being_deleted).await;
    cluster.settle().await;
    let needed = cluster.find("configmaps", "a", "needed").await.unwrap();
    assert!(!needed.is_being_deleted());
    let released = json!({"metadata": {"finalizers": null}});
    cluster.api("pods").namespaced("a").merge_patch("pod", released).await.unwrap();
    cluster.eventually_gone("namespaces", "", "a").await;
    cluster.stop().await;
}

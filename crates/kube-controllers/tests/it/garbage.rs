//! Owners and dependents.

use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt;
use karmada_client::Propagation::{Background, Foreground, Orphan};

use crate::cluster::{Cluster, eventually, owned_by};

async fn cluster() -> Cluster {
    let cluster = Cluster::plane().await;
    cluster.namespace("a").await;
    cluster
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn dependents_go_with_their_last_owner() {
    let cluster = cluster().await;
    let first = cluster.config_map("a", "first", &[]).await;
    let second = cluster.config_map("a", "second", &[]).await;
    let both = [owned_by(&first, false), owned_by(&second, false)];
    let child = cluster.config_map("a", "child", &both).await;
    cluster.config_map("a", "grandchild", &[owned_by(&child, false)]).await;
    cluster.delete("configmaps", "a", "first", Background).await;
    let child = cluster
        .eventually("configmaps", "a", "child", |child| {
            child.list_at(&["metadata", "ownerReferences"]).len() == 1
        })
        .await;
    assert_eq!(child["metadata"]["ownerReferences"][0]["name"], "second");
    cluster.delete("configmaps", "a", "second", Background).await;
    cluster.eventually_gone("configmaps", "a", "child").await;
    cluster.eventually_gone("configmaps", "a", "grandchild").await;
    cluster.stop().await;
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn an_owner_deleted_in_the_foreground_goes_last() {
    let cluster = cluster().await;
    let owner = cluster.config_map("a", "owner", &[]).await;
    let child = json!({"metadata": {"name": "child", "finalizers": ["x.io/hold"],
        "ownerReferences": [owned_by(&owner, true)]}});
    cluster.create("configmaps", "a", child).await;
    cluster.config_map("a", "loose", &[owned_by(&owner, false)]).await;
    cluster.delete("configmaps", "a", "owner", Foreground).await;
    cluster.eventually("configmaps", "a", "child", ObjectExt::is_being_deleted).await;
    cluster.eventually_gone("configmaps", "a", "loose").await;
    cluster.settle().await;
    let owner = cluster.find("configmaps", "a", "owner").await.unwrap();
    assert!(owner.is_being_deleted() && owner.has_finalizer("foregroundDeletion"));
    let released = json!({"metadata": {"finalizers": null}});
    cluster.api("configmaps").namespaced("a").merge_patch("child", released).await.unwrap();
    cluster.eventually_gone("configmaps", "a", "owner").await;
    cluster.stop().await;
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn orphans_stay_without_their_owner() {
    let cluster = cluster().await;
    let owner = cluster.config_map("a", "owner", &[]).await;
    cluster.config_map("a", "child", &[owned_by(&owner, true)]).await;
    cluster.settle().await;
    cluster.delete("configmaps", "a", "owner", Orphan).await;
    cluster.eventually_gone("configmaps", "a", "owner").await;
    cluster.settle().await;
    let child = cluster.find("configmaps", "a", "child").await.unwrap();
    assert!(child.list_at(&["metadata", "ownerReferences"]).is_empty());
    cluster.stop().await;
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn a_circle_of_owners_can_be_deleted() {
    let cluster = cluster().await;
    let first = cluster.config_map("a", "first", &[]).await;
    let second = cluster.config_map("a", "second", &[owned_by(&first, true)]).await;
    let third = cluster.config_map("a", "third", &[owned_by(&second, true)]).await;
    let closed = json!({"metadata": {"ownerReferences": [owned_by(&third, true)]}});
    cluster.api("configmaps").namespaced("a").merge_patch("first", closed).await.unwrap();
    cluster.settle().await;
    cluster.delete("configmaps", "a", "first", Foreground).await;
    for name in ["first", "second", "third"] {
        cluster.eventually_gone("configmaps", "a", name).await;
    }
    cluster.stop().await;
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_counts_as_absent() {
    let cluster = cluster().await;
    cluster.namespace("b").await;
    let owner = cluster.config_map("b", "owner", &[]).await;
    cluster.settle().await;
    cluster.config_map("a", "child", &[owned_by(&owner, false)]).await;
    cluster.eventually_gone("configmaps", "a", "child").await;
    eventually("an event tells why", async || {
        let events = cluster.api("events").namespaced("a").list(&Default::default()).await.unwrap();
        events.items.iter().any(|event| event.value()["reason"] == "OwnerRefInvalidNamespace")
    })
    .await;
    assert!(cluster.find("configmaps", "b", "owner").await.is_some());
    cluster.stop().await;
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn an_owner_of_the_whole_cluster_serves_every_namespace() {
    let cluster = cluster().await;
    let role = json!({"metadata": {"name": "owner"}, "rules": []});
    let role = cluster.create("clusterroles.rbac.authorization.k8s.io", "", role).await;
    cluster.config_map("a", "child", &[owned_by(&role, false)]).await;
    cluster.settle().await;
    assert!(cluster.find("configmaps", "a", "child").await.is_some());
    cluster.delete("clusterroles.rbac.authorization.k8s.io", "", "owner", Background).await;
    cluster.eventually_gone("configmaps", "a", "child").await;
    cluster.stop().await;
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn an_owner_that_never_existed_is_no_owner() {
    let cluster = cluster().await;
    let mut ghost = cluster.config_map("a", "ghost", &[]).await;
    ghost["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    cluster.config_map("a", "child", &[owned_by(&ghost, false)]).await;
    cluster.eventually_gone("configmaps", "a", "child").await;
    let mut unknown = owned_by(&ghost, false);
    unknown["kind"] = "NoSuchKind".into();
    cluster.config_map("a", "odd", &[unknown]).await;
    cluster.settle().await;
    let odd = cluster.find("configmaps", "a", "odd").await;
    assert!(odd.is_some(), "nothing is deleted because a kind is not known");
    cluster.stop().await;
}

// Shows: GC-1
#[tokio::test(start_paused = true)]
async fn custom_resources_that_come_later_are_followed() {
    let cluster = cluster().await;
    cluster.settle().await;
    let definition = json!({
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    cluster.create("customresourcedefinitions.apiextensions.k8s.io", "", definition).await;
    cluster
        .eventually(
            "customresourcedefinitions.apiextensions.k8s.io",
            "",
            "things.x.io",
            |definition| {
                let conditions = definition.list_at(&["status", "conditions"]).iter();
                conditions.clone().any(|c| c["type"] == "Established" && c["status"] == "True")
            },
        )
        .await;
    let thing = json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "owner"}});
    let owner = cluster.create("things.x.io", "a", thing).await;
    let child = cluster.config_map("a", "child", &[owned_by(&owner, true)]).await;
    let thing = json!({"apiVersion": "x.io/v1", "kind": "Thing",
        "metadata": {"name": "grandchild", "ownerReferences": [owned_by(&child, true)]}});
    cluster.create("things.x.io", "a", thing).await;
    cluster.settle().await;
    cluster.delete("things.x.io", "a", "owner", Foreground).await;
    cluster.eventually_gone("things.x.io", "a", "owner").await;
    cluster.eventually_gone("configmaps", "a", "child").await;
    cluster.eventually_gone("things.x.io", "a", "grandchild").await;
    cluster.stop().await;
}

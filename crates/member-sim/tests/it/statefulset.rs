//! StatefulSets on a running member.

use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};

use crate::member::{api, eventually_is, start};

fn set(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "one"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}})
}

#[tokio::test(start_paused = true)]
async fn pods_come_in_order_with_claims_and_roll_to_a_new_template() {
    let member = start(2).await;
    let sets = api(&member, "statefulsets.apps");
    sets.create(&set("web", 3)).await.unwrap();
    let ready = |set: &Value| set.i64_at(&["status", "readyReplicas"]) == Some(3);
    let first = eventually_is(&member, "statefulsets.apps", "web", ready).await;
    let pods = api(&member, "pods");
    let mut created = Vec::new();
    for name in ["web-0", "web-1", "web-2"] {
        created.push(pods.get(name).await.unwrap()["metadata"]["resourceVersion"].clone());
    }
    let claim = eventually_is(&member, "persistentvolumeclaims", "data-web-2", |claim| {
        claim["status"]["phase"] == "Bound"
    })
    .await;
    assert_eq!(claim["spec"]["storageClassName"], "standard");
    let image = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "two"}]}}}});
    sets.merge_patch("web", image).await.unwrap();
    let before = first["status"]["currentRevision"].clone();
    let rolled = eventually_is(&member, "statefulsets.apps", "web", |set| {
        set["status"]["currentRevision"] != before
            && set["status"]["updatedReplicas"] == 3
            && set["status"]["readyReplicas"] == 3
    })
    .await;
    assert_eq!(rolled["status"]["currentRevision"], rolled["status"]["updateRevision"]);
    assert_eq!(pods.get("web-0").await.unwrap()["spec"]["containers"][0]["image"], "two");
    sets.merge_patch("web", json!({"spec": {"replicas": 1}})).await.unwrap();
    eventually_is(&member, "statefulsets.apps", "web", |set| set["status"]["replicas"] == 1).await;
    assert!(pods.find("web-1").await.unwrap().is_none());
    assert!(api(&member, "persistentvolumeclaims").find("data-web-1").await.unwrap().is_some());
    member.stop().await;
}

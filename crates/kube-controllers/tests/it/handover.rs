//! A client that hands objects over as they are gets what a client gets that sends text.

use futures::StreamExt as _;
use karmada_apimachinery::object::ObjectMutExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, Patch, PatchOptions, WatchEvent, WatchOptions};

use crate::cluster::Cluster;

/// What tells two objects of the same content apart.
fn plain(mut object: Value) -> Value {
    for field in ["uid", "resourceVersion", "name", "creationTimestamp"] {
        object.remove_at(&["metadata", field]);
    }
    object
}

fn pod_template(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": "x"}, "unknown": 1},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "paused": false,
            "template": {"metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "0.5"}}}]}}},
    })
}

async fn story(client: &Client, name: &str) -> Vec<Value> {
    let gvr = karmada_apimachinery::gvk::Gvr::new("apps", "v1", "deployments");
    let api = client.api(&gvr).namespaced("default");
    let created = api.create(&pod_template(name)).await.unwrap();
    let mut wanted = created.clone();
    wanted.set(&["spec", "replicas"], 3);
    let updated = api.update(&wanted).await.unwrap();
    let stale = api.update(&wanted).await.unwrap_err().api().unwrap().code;
    let merged = api.merge_patch(name, json!({"spec": {"paused": true}})).await.unwrap();
    let operations = json!([{"op": "add", "path": "/metadata/labels/b", "value": "c"}]);
    let options = PatchOptions::default();
    let patched = api.patch(name, &Patch::Json(operations), &options).await.unwrap();
    let bad = json!([{"op": "test", "path": "/spec/replicas", "value": 7}]);
    let refused = api.patch(name, &Patch::Json(bad), &options).await.unwrap_err();
    let refused = refused.api().unwrap().message.clone();
    let found = api.get(name).await.unwrap();
    let mut invalid = pod_template("Not a name");
    invalid.set(&["spec", "replicas"], "many");
    let unreadable = api.create(&invalid).await.unwrap_err().api().unwrap().message.clone();
    let objects = [created, updated, merged, patched, found].map(plain);
    let told = [json!(stale), json!(refused), json!(unreadable)];
    objects.into_iter().chain(told).collect()
}

#[tokio::test(start_paused = true)]
async fn objects_handed_over_are_those_sent_as_text() {
    let cluster = Cluster::plane().await;
    let text = cluster.over_text();
    let (beside, sent) = (story(&cluster.client, "a").await, story(&text, "b").await);
    assert_eq!(beside, sent);
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_both_the_same() {
    let cluster = Cluster::plane().await;
    let gvr = karmada_apimachinery::gvk::Gvr::new("", "v1", "configmaps");
    let options = WatchOptions {
        initial_events: true,
        label_selector: "seen=yes".into(),
        ..WatchOptions::default()
    };
    let mut tellers = Vec::new();
    for client in [cluster.client.clone(), cluster.over_text()] {
        tellers.push(client.api(&gvr).namespaced("default").watch(&options).await.unwrap());
    }
    let api = cluster.client.api(&gvr).namespaced("default");
    let labelled =
        json!({"metadata": {"name": "a", "labels": {"seen": "yes"}}, "data": {"k": "v"}});
    api.create(&labelled).await.unwrap();
    api.merge_patch("a", json!({"data": {"k": "w"}})).await.unwrap();
    api.merge_patch("a", json!({"metadata": {"labels": {"seen": "no"}}})).await.unwrap();
    let mut told = Vec::new();
    for mut events in tellers {
        let mut seen = Vec::new();
        while seen.len() < 4 {
            seen.push(match events.next().await.unwrap().unwrap() {
                WatchEvent::Added(object) => ("added", object.value(), object.read().unwrap()),
                WatchEvent::Modified(object) => {
                    ("modified", object.value(), object.read().unwrap())
                }
                WatchEvent::Deleted(object) => ("deleted", object.value(), object.read().unwrap()),
                WatchEvent::Bookmark { initial_events_end, .. } => {
                    ("bookmark", json!(initial_events_end), Value::Null)
                }
            });
        }
        told.push(seen);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(
        told[0].iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(),
        ["bookmark", "added", "modified", "deleted"]
    );
}

//! Who owns what they wrote, where storage keeps nothing of it.

use http::Method;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::Config;

use crate::server::{admin, post, send, server};

// Shows: META-8
#[tokio::test]
async fn whoever_writes_an_empty_list_owns_it() {
    let server = server(Config::default()).await;
    let path = "/api/v1/namespaces/default/limitranges";
    let range = |name: &str, spec| json!({"metadata": {"name": name}, "spec": spec}).to_string();
    let (code, written) = post(&server, admin(), path, &range("a", json!({"limits": []}))).await;
    assert_eq!((code, &written["spec"]), (201, &json!({"limits": null})), "{written}");
    let owned = &written["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned, &json!({"f:spec": {"f:limits": {}}}));
    let (_, absent) = post(&server, admin(), path, &range("b", json!({}))).await;
    assert_eq!(absent["spec"], json!({"limits": null}));
    assert_eq!(absent["metadata"].get("managedFields"), None, "nothing was said, nothing is owned");
}

/// What the owner of a name, for a part of the object, owns.
fn owned<'a>(object: &'a Value, manager: &str, part: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let is_it = |entry: &&Value| {
        entry["manager"] == manager && entry["subresource"].as_str().unwrap_or_default() == part
    };
    &entries.iter().find(is_it).unwrap_or_else(|| panic!("{manager}: {entries:?}"))["fieldsV1"]
}

// Shows: SSA-3
#[tokio::test]
async fn nobody_owns_what_the_server_decides() {
    let server = server(Config::default()).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    let mut body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "default", "labels": {"app": "web"},
            "generation": 7, "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x",
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "i"}]},
            },
        },
        "status": {"replicas": 1},
    });
    let apply = async |part: &str, body: &Value| {
        let path = format!("{path}{part}?fieldManager=applier&force=true");
        let (code, made) = send(&server, admin(), (Method::PATCH, &path), &body.to_string()).await;
        assert!(code < 300, "{made}");
        made
    };
    let made = apply("", &body).await;
    assert_eq!(made["metadata"]["generation"], 1);
    let container = json!({"k:{\"name\":\"app\"}": {".": {}, "f:image": {}, "f:name": {}}});
    let main = json!({
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": container},
            },
        },
    });
    assert_eq!(owned(&made, "applier", ""), &main, "identity, times and status are the server's");
    body["spec"]["replicas"] = 9.into();
    let made = apply("/status", &body).await;
    assert_eq!(made["spec"]["replicas"], 3, "through its status nothing else changes");
    assert_eq!(owned(&made, "applier", "status"), &json!({"f:status": {"f:replicas": {}}}));
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "web"}, "spec": {"replicas": 5},
    });
    apply("/scale", &scale).await;
    let (_, made) = send(&server, admin(), (Method::GET, path), "").await;
    assert_eq!(owned(&made, "applier", "scale"), &json!({"f:spec": {"f:replicas": {}}}));
}

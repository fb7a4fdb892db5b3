//! Custom objects that were stored before their definition chose another version to store: they keep the
//! defaults of the version they are in until somebody writes them.

use http::Method;
use http_body_util::BodyExt as _;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};

use crate::server::{admin, get, post, send, server};

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(stored: &str) -> Value {
    let text = |default: Option<&str>| match default {
        Some(default) => json!({"type": "string", "default": default}),
        None => json!({"type": "string"}),
    };
    let version = |name: &str, fields: Value| {
        json!({"name": name, "served": true, "storage": name == stored, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
        }})
    };
    // What is new since the objects were stored is what defaults can be told apart by.
    let late = |default: &'static str| (stored == "v2").then_some(default);
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                version("v1", json!({
                    "a": text(Some("a1")), "only1": text(Some("x1")), "late": text(late("l1")),
                })),
                version("v2", json!({"a": text(None), "b": text(Some("b2")), "late": text(late("l2"))})),
            ],
        },
    })
}

fn place(version: &str, name: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets{name}")
}

async fn read(server: &Server, path: &str) -> Value {
    let response = get(server, admin(), path).await;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

/// The object in a version, asked for in every way.
async fn spec(server: &Server, version: &str) -> Value {
    let object = read(server, &place(version, "/a")).await;
    assert_eq!(object.api_version(), format!("example.com/{version}"));
    let list = read(server, &place(version, "")).await;
    assert_eq!(list.list_at(&["items"])[0].get("spec"), object.get("spec"));
    object.get("spec").cloned().unwrap_or_default()
}

async fn until_served(server: &Server, version: &str) {
    while read(server, &place(version, "")).await.get("items").is_none() {
        tokio::task::yield_now().await;
    }
}

/// Every expectation is what a server of Kubernetes 1.36 answers.
// Shows: CRD-3, CRD-7
#[tokio::test(start_paused = true)]
async fn objects_keep_the_defaults_of_the_version_they_are_stored_in() {
    let server = server(Config::default()).await;
    let (code, answer) = post(&server, admin(), COLLECTION, &definition("v1").to_string()).await;
    assert_eq!(code, 201, "{answer}");
    until_served(&server, "v2").await;
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {},
    });
    let (code, answer) = post(&server, admin(), &place("v1", ""), &widget.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(spec(&server, "v1").await, json!({"a": "a1", "only1": "x1"}));
    assert_eq!(
        spec(&server, "v2").await,
        json!({"a": "a1"}),
        "defaults of v2 are for what is sent in v2"
    );

    let path = format!("{COLLECTION}/widgets.example.com");
    let change = json!({"spec": definition("v2").get("spec")}).to_string();
    let (code, answer) = send(&server, admin(), (Method::PATCH, &path), &change).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer.at(&["status", "storedVersions"]), Some(&json!(["v1", "v2"])));
    while spec(&server, "v1").await.get("late").is_none() {
        tokio::task::yield_now().await;
    }
    let old = json!({"a": "a1", "only1": "x1", "late": "l1"});
    assert_eq!(spec(&server, "v1").await, old);
    assert_eq!(spec(&server, "v2").await, json!({"a": "a1", "late": "l1"}));

    // A write in v2 brings the defaults of v2, and what v2 does not know is gone.
    let patch = json!({"metadata": {"labels": {"x": "y"}}}).to_string();
    let (code, answer) = send(&server, admin(), (Method::PATCH, &place("v2", "/a")), &patch).await;
    assert_eq!(code, 200, "{answer}");
    let new = json!({"a": "a1", "b": "b2", "late": "l1"});
    assert_eq!(answer.get("spec"), Some(&new));
    assert_eq!(answer.i64_at(&["metadata", "generation"]), Some(2));
    assert_eq!(spec(&server, "v2").await, new);
    assert_eq!(spec(&server, "v1").await, json!({"a": "a1", "late": "l1"}));

    // Once the definition says that nothing old is stored, nothing changes for what is new.
    let status = json!({"status": {"storedVersions": ["v2"]}}).to_string();
    let (code, answer) =
        send(&server, admin(), (Method::PATCH, &format!("{path}/status")), &status).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(spec(&server, "v2").await, new);
}

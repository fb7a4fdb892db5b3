//! The client against a server of a few lines, over the in-process transport.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use karmada_apimachinery::gvk::{Gvk, Gvr};
use karmada_apimachinery::{Value, json};
use karmada_client::{
    Body, Client, DeleteOptions, Discovery, ListOptions, Patch, PatchOptions, Propagation,
    WatchEvent, WatchOptions,
};

type Answer = (u16, String);

/// A server that answers as the function says: method, path with query, body.
fn client(answer: impl Fn(&Method, &str, &Value) -> Answer + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    Client::in_process(tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let path = parts.uri.path_and_query().unwrap().as_str();
            let (code, text) = answer(&parts.method, path, &body);
            let response = Response::builder().status(StatusCode::from_u16(code).unwrap());
            Ok::<_, Infallible>(response.body(Full::new(text.into_bytes().into())).unwrap())
        }
    }))
}

fn configmaps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

#[tokio::test]
async fn requests_say_what_the_api_expects() {
    let client =
        client(|method, path, body| (200, json!([method.as_str(), path, body]).to_string()));
    let api = client.api(&configmaps()).namespaced("a");
    let object = json!({"metadata": {"name": "b"}});
    let deletion = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        uid: Some("u".into()),
        ..DeleteOptions::default()
    };
    let apply = PatchOptions {
        field_manager: "me".into(),
        force: true,
        dry_run: true,
        ..PatchOptions::default()
    };
    let cases = [
        (api.get("b").await, json!(["GET", "/api/v1/namespaces/a/configmaps/b", null])),
        (api.create(&object).await, json!(["POST", "/api/v1/namespaces/a/configmaps", object])),
        (api.update(&object).await, json!(["PUT", "/api/v1/namespaces/a/configmaps/b", object])),
        (
            api.update_subresource(&object, "status").await,
            json!(["PUT", "/api/v1/namespaces/a/configmaps/b/status", object]),
        ),
        (
            api.patch("b", &Patch::Apply(object.clone()), &apply).await,
            json!([
                "PATCH",
                "/api/v1/namespaces/a/configmaps/b?fieldManager=me&force=true&dryRun=All",
                object
            ]),
        ),
        (
            api.delete("b", &deletion).await,
            json!(["DELETE", "/api/v1/namespaces/a/configmaps/b", {
                "apiVersion": "v1", "kind": "DeleteOptions",
                "propagationPolicy": "Foreground", "preconditions": {"uid": "u"},
            }]),
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found.unwrap(), expected);
    }
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let status = |code: u16, reason: &str| {
        (
            code,
            json!({"kind": "Status", "code": code, "reason": reason, "message": reason})
                .to_string(),
        )
    };
    let client = client(move |_, path, _| match path.rsplit('/').next().unwrap() {
        "missing" => status(404, "NotFound"),
        "taken" => status(409, "AlreadyExists"),
        "changed" => status(409, "Conflict"),
        "old" => status(410, "Expired"),
        "proxied" => (502, "bad gateway\n".into()),
        _ => (200, "no json".into()),
    });
    let api = client.api(&configmaps());
    assert!(api.get("missing").await.unwrap_err().is_not_found());
    assert_eq!(api.find("missing").await.unwrap(), None);
    assert!(api.get("taken").await.unwrap_err().is_already_exists());
    let changed = api.get("changed").await.unwrap_err();
    assert!(changed.is_conflict() && !changed.is_already_exists());
    assert!(api.get("old").await.unwrap_err().is_expired());
    assert_eq!(api.get("proxied").await.unwrap_err().to_string(), "bad gateway");
    let broken = api.get("broken").await.unwrap_err();
    assert_eq!(broken.to_string(), "understand the answer to GET /api/v1/configmaps/broken");
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let client = client(|_, path, _| {
        let (name, next) = if path.contains("continue=more") { ("b", "") } else { ("a", "more") };
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList",
            "metadata": {"resourceVersion": "7", "continue": next},
            "items": [{"metadata": {"name": name}}]});
        (200, list.to_string())
    });
    let list = client.api(&configmaps()).list_all(&ListOptions::default()).await.unwrap();
    let names: Vec<_> = list.items.iter().map(|object| object.name()).collect();
    assert_eq!((names.as_slice(), list.resource_version.as_str()), (["a", "b"].as_slice(), "7"));
    assert_eq!(list.items[0].gvk(), &Gvk::new("", "v1", "ConfigMap"));
}

#[tokio::test]
async fn a_watch_ends_after_its_first_error() {
    let client = client(|_, path, _| {
        assert!(
            path.contains("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"),
            "{path}"
        );
        let lines = [
            json!({"type": "ADDED", "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}}),
            json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}),
            json!({"type": "ADDED", "object": {"metadata": {"name": "never"}}}),
        ];
        (200, lines.iter().map(|line| format!("{line}\n")).collect())
    });
    let options = WatchOptions { initial_events: true, ..WatchOptions::default() };
    let events = client.api(&configmaps()).watch(&options).await.unwrap();
    let events: Vec<_> = events.collect().await;
    assert_eq!(events.len(), 2);
    assert!(matches!(&events[0], Ok(WatchEvent::Added(object)) if object.name() == "a"));
    assert!(events[1].as_ref().unwrap_err().is_expired());
}

fn aggregated(path: &str) -> Answer {
    let groups = if path == "/api" {
        json!([{"metadata": {}, "versions": [{"version": "v1", "resources": [
            {"resource": "pods", "scope": "Namespaced", "responseKind": {"kind": "Pod"},
             "verbs": ["get"], "subresources": [{"subresource": "log"}]}]}]}])
    } else {
        json!([{"metadata": {"name": "x.io"}, "versions": [
            {"version": "v2", "resources": [{"resource": "things", "scope": "Cluster",
             "responseKind": {"kind": "Thing"}, "verbs": ["get", "delete"]}]},
            {"version": "v1", "freshness": "Stale", "resources": [{"resource": "things",
             "scope": "Cluster", "responseKind": {"kind": "Thing"}, "verbs": ["get"]}]}]}])
    };
    (200, json!({"kind": "APIGroupDiscoveryList", "items": groups}).to_string())
}

fn legacy(path: &str) -> Answer {
    let resources = |list: Value| json!({"kind": "APIResourceList", "resources": list});
    let things = json!([{"name": "things", "kind": "Thing", "namespaced": false, "verbs": ["get", "delete"]}]);
    let answer = match path {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "groups": [{"name": "x.io",
            "versions": [{"groupVersion": "x.io/v1"}, {"groupVersion": "x.io/v2"}],
            "preferredVersion": {"groupVersion": "x.io/v2"}}]}),
        "/api/v1" => resources(json!([
            {"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get"]},
            {"name": "pods/log", "kind": "Pod", "namespaced": true, "verbs": ["get"]}])),
        "/apis/x.io/v2" => resources(things),
        _ => return (503, "down".into()),
    };
    (200, answer.to_string())
}

#[tokio::test]
async fn discovery_reads_both_forms_alike() {
    for form in [aggregated as fn(&str) -> Answer, legacy] {
        let discovery = Discovery::new(client(move |_, path, _| form(path)));
        let (resources, failed) = discovery.preferred().await.unwrap();
        let names: Vec<_> = resources.iter().map(|resource| resource.gvr.to_string()).collect();
        assert_eq!(names, ["v1, Resource=pods", "x.io/v2, Resource=things"]);
        assert_eq!(resources[0].subresources, ["log"]);
        assert!(resources[0].namespaced && !resources[1].namespaced);
        assert!(resources[1].supports("delete"));
        assert_eq!(failed.len(), 1, "the stale version is named");
        let thing = Gvk::new("x.io", "v2", "Thing");
        assert_eq!(discovery.resource_of(&thing).await.unwrap().unwrap().gvr.resource, "things");
        let unknown = Gvk::new("x.io", "v2", "Unknown");
        assert_eq!(discovery.resource_of(&unknown).await.unwrap(), None);
    }
}

#[tokio::test]
async fn what_another_reader_met_first_is_still_news() {
    let grown = Arc::new(AtomicBool::new(false));
    let grows = grown.clone();
    let discovery = Discovery::new(client(move |_, path, _| {
        let more = path == "/apis" && grows.load(Ordering::Relaxed);
        if more { (200, aggregated(path).1.replace("x.io", "y.io")) } else { aggregated(path) }
    }));
    let seen = discovery.refresh().await.unwrap();
    assert!(discovery.refresh().await.unwrap() == seen);
    grown.store(true, Ordering::Relaxed);
    let thing = Gvk::new("y.io", "v2", "Thing");
    assert!(discovery.clone().resource_of(&thing).await.unwrap().is_some());
    assert!(discovery.refresh().await.unwrap() != seen);
}

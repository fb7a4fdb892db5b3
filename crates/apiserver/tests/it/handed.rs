//! Requests of the same process are answered as those that come over a connection are.

use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use karmada_apimachinery::{Value, json};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::{Config, Server};
use karmada_handover::{Asked, Content, Query, Server as _, path};

use crate::server::{admin, get, server};

pub(crate) const MAPS: (&str, &str, &str) = ("", "v1", "configmaps");
const DEPLOYMENTS: (&str, &str, &str) = ("apps", "v1", "deployments");
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A request in the namespace `default`.
pub(crate) fn asked(
    method: Method,
    (group, version, resource): (&str, &str, &str),
    below: &str,
    content: Option<(&'static str, Content)>,
) -> Asked {
    let (name, subresource) = below.split_once('/').unwrap_or((below, ""));
    Asked {
        method,
        group: group.into(),
        version: version.into(),
        resource: resource.into(),
        namespace: "default".into(),
        name: name.into(),
        subresource: subresource.into(),
        query: Vec::new(),
        accept: JSON,
        content,
        agent: Some(HeaderValue::from_static("tester/1.0")),
    }
}

fn with(mut asked: Asked, query: &[(&'static str, &str)]) -> Asked {
    asked.query = query.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    asked
}

/// Asks by a call.
pub(crate) async fn call(server: &Server, user: &Identity, asked: Asked) -> (u16, Value) {
    let reply = server.handle().acting_as(user.clone()).ask(asked).await.unwrap();
    let content = match reply.content {
        Content::Tree(value) => value,
        Content::Text(text) => read(&text),
    };
    (reply.code.as_u16(), content)
}

/// Asks the same in words.
pub(crate) async fn say(server: &Server, user: &Identity, asked: Asked) -> (u16, Value) {
    let Asked { group, version, resource, namespace, name, subresource, .. } = &asked;
    let namespace = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let path = path((group, version, resource), namespace, name, subresource);
    let pairs = asked.query.iter().map(|(key, value)| (*key, value.as_str()));
    let mut request = Request::builder()
        .method(asked.method)
        .uri(Query::of(pairs).append_to(path))
        .header("accept", asked.accept)
        .header("user-agent", asked.agent.unwrap());
    let mut body = bytes::Bytes::new();
    if let Some((media_type, content)) = asked.content {
        request = request.header("content-type", media_type);
        body = match content {
            Content::Tree(value) => value.to_string().into(),
            Content::Text(text) => text,
        };
    }
    let mut service = server.handle().acting_as(user.clone());
    let answer = tower::Service::call(&mut service, request.body(Full::new(body)).unwrap()).await;
    let answer = answer.unwrap();
    let code = answer.status().as_u16();
    (code, read(&answer.into_body().collect().await.unwrap().to_bytes()))
}

fn read(text: &[u8]) -> Value {
    let as_it_is = || String::from_utf8_lossy(text).into_owned().into();
    serde_json::from_slice(text).unwrap_or_else(|_| as_it_is())
}

/// Leaves out what no two servers have in common.
pub(crate) fn without_chance(mut value: Value) -> Value {
    const OWN: [&str; 7] = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "time",
        "auditID",
        "requestReceivedTimestamp",
        "stageTimestamp",
    ];
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|key, _| !OWN.contains(&key.as_str()));
            let keys: Vec<String> = fields.keys().map(|key| key.to_string()).collect();
            for key in keys {
                let field = std::mem::take(&mut value[key.as_str()]);
                value[key.as_str()] = without_chance(field);
            }
        }
        Value::Array(items) => {
            return std::mem::take(items).iter().cloned().map(without_chance).collect();
        }
        _ => {}
    }
    value
}

fn map(data: &str) -> Value {
    json!({"metadata": {"name": "m"}, "data": {"a": data}})
}

fn deployment() -> Value {
    let labels = json!({"app": "d"});
    json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn cases() -> Vec<(u16, Asked)> {
    let tree = |media_type, value| Some((media_type, Content::Tree(value)));
    let patch = |kind, value| asked(Method::PATCH, MAPS, "m", tree(kind, value));
    let apply = |value| patch("application/apply-patch+yaml", value);
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": {"b": "2"}});
    let spelled_wrong = json!({"metadata": {"name": "n"}, "dta": {}});
    let post = |value| asked(Method::POST, MAPS, "", tree(JSON, value));
    let status = json!({"status": {"observedGeneration": 1}});
    let text = |text: &'static str| Some((JSON, Content::Text(text.into())));
    vec![
        (201, post(map("1"))),
        (409, post(map("1"))),
        (400, with(post(spelled_wrong.clone()), &[("fieldValidation", "Strict")])),
        (201, with(post(spelled_wrong), &[("dryRun", "All")])),
        (422, with(post(json!({"metadata": {"name": "n"}})), &[("dryRun", "Some")])),
        (422, post(json!({"metadata": {"name": "Not A Name"}}))),
        (200, asked(Method::GET, MAPS, "m", None)),
        (200, Asked { accept: METADATA, ..asked(Method::GET, MAPS, "m", None) }),
        (406, Asked { accept: "text/html", ..asked(Method::GET, MAPS, "m", None) }),
        (404, asked(Method::GET, MAPS, "missing", None)),
        (400, asked(Method::GET, MAPS, "50%", None)),
        (200, with(asked(Method::GET, MAPS, "", None), &[("labelSelector", "a in (b, c)")])),
        (200, with(asked(Method::GET, MAPS, "", None), &[("fieldSelector", "metadata.name=m")])),
        (200, patch(MERGE, json!({"data": {"a": "2"}}))),
        (200, patch("application/strategic-merge-patch+json", json!({"data": {"c": "3"}}))),
        (
            200,
            patch(
                "application/json-patch+json",
                json!([{"op": "add", "path": "/data/d", "value": "4"}]),
            ),
        ),
        (
            422,
            patch("application/json-patch+json", json!([{"op": "remove", "path": "/data/none"}])),
        ),
        (415, patch(JSON, json!({}))),
        (422, apply(wanted.clone())),
        (200, with(apply(wanted), &[("fieldManager", "me"), ("force", "true")])),
        (200, with(patch(MERGE, json!({"data": {"e": "5"}})), &[("dryRun", "All")])),
        (409, patch(MERGE, json!({"metadata": {"resourceVersion": "1"}}))),
        (200, asked(Method::PUT, MAPS, "m", tree(JSON, map("9")))),
        (400, asked(Method::PUT, MAPS, "other", tree(JSON, map("9")))),
        (400, asked(Method::POST, MAPS, "", text("{\"metadata\":"))),
        (201, asked(Method::POST, MAPS, "", text("{\"metadata\":{\"name\":\"t\"}}"))),
        (201, asked(Method::POST, DEPLOYMENTS, "", tree(JSON, deployment()))),
        (200, asked(Method::PATCH, DEPLOYMENTS, "d/status", tree(MERGE, status))),
        (200, asked(Method::GET, DEPLOYMENTS, "d/scale", None)),
        (404, asked(Method::GET, DEPLOYMENTS, "d/nothing", None)),
        (405, asked(Method::PUT, MAPS, "", tree(JSON, map("9")))),
        (404, asked(Method::GET, ("", "v1", "gadgets"), "a", None)),
        (404, asked(Method::GET, ("example.io", "v1", "gadgets"), "a", None)),
        (200, asked(Method::DELETE, MAPS, "m", tree(JSON, json!({"kind": "DeleteOptions"})))),
        (404, asked(Method::DELETE, MAPS, "m", None)),
        (200, asked(Method::DELETE, MAPS, "", None)),
    ]
}

async fn counts(server: &Server) -> Vec<String> {
    let answer = get(server, admin(), "/metrics").await;
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    let ours = |line: &&str| {
        ["\"configmaps\"", "\"deployments\"", "\"gadgets\""].iter().any(|kind| line.contains(kind))
    };
    text.lines().filter(ours).map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_answered_as_a_request_in_words() {
    let (called, spoken) = (server(Config::default()).await, server(Config::default()).await);
    let before = (counts(&called).await, counts(&spoken).await);
    assert_eq!(before.0, before.1);
    for (code, asked) in cases() {
        let said = say(&spoken, &admin(), asked.clone()).await;
        let told = call(&called, &admin(), asked.clone()).await;
        assert_eq!(told.0, code, "{asked:?}: {}", told.1);
        assert_eq!((told.0, without_chance(told.1)), (said.0, without_chance(said.1)), "{asked:?}");
    }
    let nobody = Identity::new("bob", ["system:authenticated"]);
    for (_, asked) in cases() {
        let said = say(&spoken, &nobody, asked.clone()).await;
        let told = call(&called, &nobody, asked.clone()).await;
        assert_eq!((told.0, &told), (403, &said), "{asked:?}");
    }
    let after = counts(&called).await;
    assert_eq!(after, counts(&spoken).await);
    assert_ne!(after, before.0);
}

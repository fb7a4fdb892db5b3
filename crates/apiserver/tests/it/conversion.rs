//! Custom kinds whose versions another program converts.

use std::sync::Arc;

use http::Method;
use http_body_util::BodyExt;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};
use parking_lot::Mutex;

use crate::https::Program;
use crate::server::{admin, get, post, send, server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A program that knows `hostPort` of v1 as `host` and `port` of v2, and what it was asked.
struct Converter {
    program: Program,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Converter {
    async fn start() -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let program = Program::start(move |path, review| {
            log.lock().push(review.clone());
            answer(path, &review)
        })
        .await;
        Self { program, asked }
    }

    fn calls(&self) -> usize {
        self.asked.lock().len()
    }
}

fn answer(path: &str, review: &Value) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let objects = request["objects"].as_array().unwrap();
    let mut response = json!({
        "uid": request["uid"],
        "result": {"status": "Success"},
        "convertedObjects": objects.iter().map(|one| converted(one, wanted)).collect::<Value>(),
    });
    match path {
        "/refuse" => response["result"] = json!({"status": "Failure", "message": "not today"}),
        "/silent" => response["result"] = json!({"status": "Failure"}),
        "/confused" => response["uid"] = "another".into(),
        "/lose" => response["convertedObjects"] = json!([]),
        "/rename" => response["convertedObjects"][0]["metadata"]["name"] = "other".into(),
        "/lazy" => response["convertedObjects"] = json!(objects),
        _ => {}
    }
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response})
}

fn converted(object: &Value, wanted: &str) -> Value {
    let mut object = object.clone();
    let spec = object["spec"].clone();
    object["apiVersion"] = wanted.into();
    object["spec"] = if wanted.ends_with("/v1") {
        let (host, port) = (spec["host"].as_str().unwrap(), spec["port"].as_str().unwrap());
        json!({"hostPort": format!("{host}:{port}")})
    } else {
        let (host, port) = spec["hostPort"].as_str().unwrap().split_once(':').unwrap();
        json!({"host": host, "port": port})
    };
    // The server keeps all metadata but these.
    object["metadata"]["annotations"] = json!({"converted-to": wanted});
    object["metadata"]["finalizers"] = json!(["example.com/invented"]);
    object
}

fn definition(stored: &str, client: Value) -> Value {
    let text = json!({"type": "string"});
    let version = |name: &str, properties: Value| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": properties},
            }}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "endpoints.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "endpoints", "kind": "Endpoint"},
            "versions": [
                version("v1", json!({"hostPort": text})),
                version("v2", json!({"host": text, "port": text})),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v9", "v1", "v1beta1"], "clientConfig": client,
            }},
        },
    })
}

fn path(version: &str, name: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/endpoints{name}")
}

fn object(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Endpoint",
        "metadata": {"name": name}, "spec": {"hostPort": "db:5432"},
    })
}

async fn define(server: &Server, definition: &Value) {
    let (code, answer) = post(server, admin(), DEFINITIONS, &definition.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    while get(server, admin(), &path("v1", "")).await.status() != 200 {
        tokio::task::yield_now().await;
    }
}

async fn read(server: &Server, path: &str) -> Value {
    let response = get(server, admin(), path).await;
    assert_eq!(response.status(), 200, "{path}");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

// Shows: CRD-10
#[tokio::test]
async fn objects_are_written_read_listed_and_watched_in_both_versions() {
    let converter = Converter::start().await;
    let server = server(Config::default()).await;
    define(&server, &definition("v2", converter.program.client("/"))).await;
    for name in ["a", "b"] {
        let (code, made) = post(&server, admin(), &path("v1", ""), &object(name).to_string()).await;
        assert_eq!(code, 201, "{made}");
        assert_eq!(made["spec"], json!({"hostPort": "db:5432"}));
        assert_eq!(made["metadata"].get("finalizers"), None, "metadata stay the server's");
    }
    // Stored in v2: that version is read without asking anybody.
    let before = converter.calls();
    let newer = read(&server, &path("v2", "/a")).await;
    assert_eq!(newer["spec"], json!({"host": "db", "port": "5432"}));
    assert_eq!(newer["apiVersion"], "example.com/v2");
    assert_eq!(newer["metadata"]["annotations"]["converted-to"], "example.com/v2");
    assert_eq!(converter.calls(), before);

    // A list is one call.
    let list = read(&server, &path("v1", "")).await;
    assert_eq!(list["items"][1]["spec"], json!({"hostPort": "db:5432"}));
    assert_eq!(converter.calls(), before + 1);
    let review = converter.asked.lock().last().cloned().unwrap();
    assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(review["request"]["desiredAPIVersion"], "example.com/v1");
    assert_eq!(review["request"]["objects"].as_array().map(|it| it.len()), Some(2));

    let patch = r#"{"spec":{"hostPort":"db:1"}}"#;
    let patched = send(&server, admin(), (Method::PATCH, &path("v1", "/a")), patch).await;
    assert_eq!((patched.0, &patched.1["spec"]["hostPort"]), (200, &json!("db:1")));
    assert_eq!(read(&server, &path("v2", "/a")).await["spec"]["port"], "1");

    let since = list["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("{}?watch=true&resourceVersion={since}", path("v1", ""));
    let mut watch = get(&server, admin(), &watch).await;
    let event: Value = loop {
        let frame = watch.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        if !frame.is_empty() {
            break serde_json::from_slice(&frame).unwrap();
        }
    };
    assert_eq!(
        (&event["type"], &event["object"]["apiVersion"]),
        (&json!("MODIFIED"), &json!("example.com/v1"))
    );
    assert_eq!(event["object"]["spec"]["hostPort"], "db:1");
    let gone = send(&server, admin(), (Method::DELETE, &path("v1", "/a")), "").await;
    assert_eq!(gone.0, 200, "{}", gone.1);
}

// Shows: CRD-10
#[tokio::test]
async fn objects_stored_in_a_former_version_are_converted_when_they_are_read() {
    let converter = Converter::start().await;
    let server = server(Config::default()).await;
    define(&server, &definition("v1", converter.program.client("/"))).await;
    assert_eq!(post(&server, admin(), &path("v1", ""), &object("a").to_string()).await.0, 201);
    assert_eq!(converter.calls(), 0);
    let name = format!("{DEFINITIONS}/endpoints.example.com");
    let change = json!({"spec": {"versions": definition("v2", Value::Null)["spec"]["versions"]}});
    let changed = send(&server, admin(), (Method::PATCH, &name), &change.to_string()).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    for (version, spec) in
        [("v2", json!({"host": "db", "port": "5432"})), ("v1", json!({"hostPort": "db:5432"}))]
    {
        // The server notices the change of the definition a moment later; both answers are the same.
        assert_eq!(read(&server, &path(version, "/a")).await["spec"], spec);
        assert_eq!(read(&server, &path(version, "")).await["items"][0]["spec"], spec);
    }
}

/// Manager, version and fields of every entry but those of metadata.
fn owners(object: &Value) -> Vec<(String, String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let shown = |entry: &Value| {
        let version = text(&entry["apiVersion"]).replace("example.com/", "");
        (text(&entry["manager"]), version, entry["fieldsV1"]["f:spec"].clone())
    };
    entries.iter().map(shown).collect()
}

// Shows: CRD-10, SSA-2
#[tokio::test]
async fn owners_keep_what_they_wrote_in_another_version_until_it_changes() {
    let converter = Converter::start().await;
    let server = server(Config::default()).await;
    define(&server, &definition("v2", converter.program.client("/"))).await;
    let made = format!("{}?fieldManager=first", path("v1", ""));
    assert_eq!(post(&server, admin(), &made, &object("a").to_string()).await.0, 201);
    let patch = async |version: &str, manager: &str, patch: Value| {
        let path = format!("{}?fieldManager={manager}", path(version, "/a"));
        send(&server, admin(), (Method::PATCH, &path), &patch.to_string()).await
    };
    let owner =
        |name: &str, version: &str, fields: Value| (name.to_owned(), version.to_owned(), fields);
    let first = owner("first", "v1", json!({".": {}, "f:hostPort": {}}));

    // Written in the other version, and about something else.
    let (code, labelled) = patch("v2", "second", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, 200, "{labelled}");
    assert_eq!(owners(&labelled)[0], first);

    // What the first wrote is owned by nobody else unless that one insists.
    let wish = json!({
        "apiVersion": "example.com/v2", "kind": "Endpoint",
        "metadata": {"name": "a"}, "spec": {"host": "other"},
    });
    let (code, refused) = patch("v2", "applier", wish.clone()).await;
    let why = "conflict with \"first\" using example.com/v1: .spec.hostPort";
    assert!(code == 409 && refused["message"].as_str().unwrap().contains(why), "{refused}");
    let (code, forced) = patch("v2", "applier&force=true", wish).await;
    assert_eq!((code, &forced["spec"]["host"]), (200, &json!("other")), "{forced}");
    let left = owners(&forced);
    assert!(left.contains(&owner("applier", "v2", json!({"f:host": {}}))), "{left:?}");
    assert!(!left.contains(&first), "{left:?}");
    assert_eq!(read(&server, &path("v1", "/a")).await["spec"]["hostPort"], "other:5432");
}

// Shows: CRD-10
#[tokio::test]
async fn a_service_can_stand_for_the_program() {
    let converter = Converter::start().await;
    let server = server(Config::default()).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let services = "/api/v1/namespaces/default/services";
    assert_eq!(post(&server, admin(), services, &service.to_string()).await.0, 201);
    let Program { port, bundle } = &converter.program;
    let reference =
        json!({"namespace": "default", "name": "hooks", "port": port, "path": "/convert"});
    let client = json!({"service": reference, "caBundle": bundle});
    define(&server, &definition("v2", client)).await;
    let (code, made) = post(&server, admin(), &path("v1", ""), &object("a").to_string()).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(read(&server, &path("v2", "/a")).await["spec"]["host"], "db");
}

// Shows: CRD-10
#[tokio::test]
async fn what_goes_wrong_is_told_and_nothing_is_stored() {
    let converter = Converter::start().await;
    let kind = "example.com/v1, Kind=Endpoint";
    for (hook, why) in [
        ("/refuse", "failed: not today"),
        ("/silent", "failed: response.result.status was 'Failure', not 'Success'"),
        ("/confused", "failed: expected response.uid="),
        ("/lose", "returned 0 objects, expected 1"),
        (
            "/rename",
            "returned invalid converted object at index 0: must have the same name: a != other",
        ),
        (
            "/lazy",
            "returned invalid converted object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)",
        ),
    ] {
        let server = server(Config::default()).await;
        define(&server, &definition("v2", converter.program.client(hook))).await;
        let (code, status) =
            post(&server, admin(), &path("v1", ""), &object("a").to_string()).await;
        let message = status["message"].as_str().unwrap();
        let expected = format!("conversion webhook for {kind} {why}");
        assert!(code == 500 && message.starts_with(&expected), "{code} {message}");
        let list = read(&server, &path("v2", "")).await;
        assert_eq!(list["items"], json!([]), "{hook}");
    }
}

// Shows: CRD-10
#[tokio::test]
async fn a_program_that_cannot_be_reached_or_trusted_fails_the_request() {
    let converter = Converter::start().await;
    let mut client = converter.program.client("/");
    client["caBundle"] = Converter::start().await.program.bundle.into();
    let server = server(Config::default()).await;
    define(&server, &definition("v2", client)).await;
    let (code, status) = post(&server, admin(), &path("v1", ""), &object("a").to_string()).await;
    let message = status["message"].as_str().unwrap();
    assert_eq!(code, 500);
    assert!(
        message.starts_with(
            "conversion webhook for example.com/v1, Kind=Endpoint failed: Post \"https://localhost:"
        ),
        "{message}"
    );
    assert!(message.contains("tls: failed to verify certificate"), "{message}");
    assert_eq!(converter.calls(), 0);
}

/// A hook that knows one version is shown that version, whichever the client speaks, and what it changes
/// arrives in the version of the client.
// Shows: CRD-10, WH-2
#[tokio::test]
async fn hooks_see_the_version_they_know() {
    let server = server(Config::default()).await;
    let converter = Converter::start().await;
    define(&server, &definition("v1", converter.program.client("/convert"))).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let hooks = Program::start(move |path, review| {
        let request = &review["request"];
        log.lock().push(json!([path, request["kind"]["version"], request["object"]["spec"]]));
        let mut response = json!({"uid": request["uid"], "allowed": true});
        if path == "/mutate" {
            let patch = r#"[{"op": "replace", "path": "/spec/port", "value": "6543"}]"#;
            response["patchType"] = "JSONPatch".into();
            response["patch"] =
                base64::Engine::encode(&base64::engine::general_purpose::STANDARD, patch).into();
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    })
    .await;
    for (kind, path) in [("Mutating", "/mutate"), ("Validating", "/validate")] {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": "knows-v2"},
            "webhooks": [{
                "name": "v2.example.com", "clientConfig": hooks.client(path), "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent",
                "rules": [{
                    "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["endpoints"],
                    "operations": ["CREATE"],
                }],
            }],
        });
        let all = format!(
            "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations",
            kind.to_lowercase()
        );
        assert_eq!(post(&server, admin(), &all, &configuration.to_string()).await.0, 201);
    }
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "knows-v2"},
        "spec": {
            "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [{
                "apiGroups": ["example.com"], "apiVersions": ["v2"], "resources": ["endpoints"],
                "operations": ["CREATE"],
            }]},
            "validations": [{"expression": "object.spec.host != 'forbidden'", "message": "not there"}],
        },
    });
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    assert_eq!(post(&server, admin(), policies, &policy.to_string()).await.0, 201);
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "knows-v2"},
        "spec": {"policyName": "knows-v2", "validationActions": ["Deny"]},
    });
    let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
    assert_eq!(post(&server, admin(), bindings, &binding.to_string()).await.0, 201);
    // A list of now: whatever was written is in force behind it.
    assert_eq!(get(&server, admin(), bindings).await.status(), 200);

    let (code, stored) = post(&server, admin(), &path("v1", ""), &object("a").to_string()).await;
    assert_eq!((code, &stored["spec"]), (201, &json!({"hostPort": "db:6543"})), "{stored}");
    assert_eq!(
        *seen.lock(),
        [
            json!(["/mutate", "v2", {"host": "db", "port": "5432"}]),
            json!(["/validate", "v2", {"host": "db", "port": "6543"}]),
        ]
    );
    let mut forbidden = object("b");
    forbidden["spec"]["hostPort"] = "forbidden:1".into();
    let (code, refusal) = post(&server, admin(), &path("v1", ""), &forbidden.to_string()).await;
    assert_eq!(code, 422, "{refusal}");
    assert!(
        refusal["message"].as_str().unwrap().ends_with("denied request: not there"),
        "{refusal}"
    );
}

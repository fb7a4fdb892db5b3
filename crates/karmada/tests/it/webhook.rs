//! `karmada webhook` as API servers see it, and the commands that register it.

mod components;
mod plane;
mod real;
mod server;

use std::path::Path;

use base64::Engine as _;
use karmada_apimachinery::{Value, json};
use rustls::version::TLS12;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub(crate) use plane::install_definitions;
pub(crate) use server::{BINARY, documents, output};
use server::{Certificates, Webhook, get};

const GROUP: &str = "policy.karmada.io";

/// The review of a policy that is about to be created.
fn review(object: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u-1", "operation": "CREATE", "namespace": "ns", "name": "a",
            "kind": {"group": GROUP, "version": "v1alpha1", "kind": "PropagationPolicy"},
            "resource": {"group": GROUP, "version": "v1alpha1", "resource": "propagationpolicies"},
            "object": object,
        },
    })
}

fn policy(spec: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "a", "namespace": "ns", "labels": {
            "propagationpolicy.karmada.io/permanent-id": "given",
        }},
        "spec": spec,
    })
}

fn config_maps() -> Value {
    json!([{"apiVersion": "v1", "kind": "ConfigMap"}])
}

#[tokio::test]
async fn reviews_are_admitted_defaulted_and_refused() {
    let webhook = Webhook::alone(&[]);
    let good = policy(json!({"resourceSelectors": config_maps()}));
    let mut complete = good.clone();
    complete["spec"]["resourceSelectors"][0]["namespace"] = "ns".into();
    let admitted = webhook.post("/validate-propagationpolicy", &review(&complete)).await;
    assert_eq!(
        admitted,
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": "u-1", "allowed": true, "status": {"metadata": {}, "code": 200}},
        })
    );

    let defaulted = webhook.post("/mutate-propagationpolicy", &review(&good)).await;
    let response = &defaulted["response"];
    assert_eq!((&response["allowed"], &response["patchType"]), (&json!(true), &json!("JSONPatch")));
    let patch = base64::engine::general_purpose::STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let object = karmada_apimachinery::patch::json::apply(&good, &patch).unwrap();
    assert_eq!(object["spec"]["resourceSelectors"][0]["namespace"], "ns");
    let finalizers = &object["metadata"]["finalizers"];
    assert_eq!(finalizers, &json!(["karmada.io/propagation-policy-controller"]));

    let placement = json!({"spreadConstraints": [
        {"spreadByField": "cluster", "spreadByLabel": "zone", "minGroups": 1},
    ]});
    complete["spec"]["placement"] = placement;
    let refused = webhook.post("/validate-propagationpolicy", &review(&complete)).await;
    let response = &refused["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(false)));
    assert_eq!(response["status"]["code"], 403);
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.placement.spreadConstraints[0]: Invalid value: "),
        "{message}"
    );
}

#[tokio::test]
async fn new_policies_get_an_id_of_their_own() {
    let webhook = Webhook::alone(&[]);
    let unnamed = policy(json!({"resourceSelectors": config_maps()}));
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = webhook.post("/mutate-propagationpolicy", &review(&unnamed)).await;
        ids.push(answer["response"]["patch"].as_str().unwrap().to_owned());
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn bindings_are_converted() {
    let webhook = Webhook::alone(&[]);
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "a"},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Pod", "name": "p"}, "replicas": 2},
    });
    let ask = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "work.karmada.io/v1alpha1", "objects": [binding]},
    });
    let answer = webhook.post("/convert", &ask).await;
    assert_eq!(answer["response"]["uid"], "u");
    assert_eq!(answer["response"]["result"]["status"], "Success");
    let converted = &answer["response"]["convertedObjects"][0];
    assert_eq!(converted["apiVersion"], "work.karmada.io/v1alpha1");
    assert_eq!(converted["spec"]["resource"]["replicas"], 2);
}

#[tokio::test]
async fn bodies_that_cannot_be_read_get_clear_errors() {
    let webhook = Webhook::alone(&[]);
    let json = Some("application/json");
    let cases: [(Option<&str>, &[u8], &str); 7] = [
        (json, b"", "request body is empty"),
        (Some("text/plain"), b"{}", "contentType=text/plain, expected application/json"),
        (None, b"{}", "contentType=, expected application/json"),
        (
            json,
            b"{\"a\":",
            "the request body is no JSON: EOF while parsing a value at line 1 column 5",
        ),
        (json, b"[]", "the request body names no kind, expected "),
        (json, b"{\"kind\":\"Pod\"}", "the request body is of kind Pod, expected "),
        (
            Some("application/json; charset=utf-8"),
            &[b' '; (7 << 20) + 1],
            "request entity is too large; limit is 7340032 bytes",
        ),
    ];
    for (kind, body, expected) in cases {
        let answer = webhook.send("/validate-propagationpolicy", kind, body.to_vec()).await;
        let status = &answer.json()["response"]["status"];
        let message = status["message"].as_str().unwrap();
        assert_eq!(
            (answer.code, &status["code"]),
            (200, &karmada_apimachinery::json!(400)),
            "{message}"
        );
        assert!(message.starts_with(expected), "{message}");
        let answer = webhook.send("/convert", kind, body.to_vec()).await;
        assert!(answer.code == 400 && answer.text.starts_with(expected), "{}", answer.text);
    }
    let nowhere = webhook.send("/validate-nothing", json, Vec::new()).await;
    assert_eq!((nowhere.code, &*nowhere.text), (404, "404 page not found\n"));
}

#[tokio::test]
async fn plain_http_is_refused() {
    let webhook = Webhook::alone(&[]);
    let mut stream = tokio::net::TcpStream::connect(webhook.address()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: hooks\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The connection may be reset after the alert.
    stream.read_to_end(&mut answer).await.ok();
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/"), "{answer:?}");
}

#[tokio::test]
async fn older_tls_is_spoken_only_when_allowed() {
    for (flags, spoken) in [(&[][..], false), (&["--tls-min-version=1.2"][..], true)] {
        let webhook = Webhook::alone(flags);
        let answer = webhook.send_over(&[&TLS12], "/readyz", None, Vec::new()).await;
        assert_eq!(answer.is_ok(), spoken, "{flags:?}");
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_the_next_client() {
    let webhook = Webhook::alone(&[]);
    let before = webhook.send("/readyz/", None, Vec::new()).await;
    let renewed = webhook.certificates.issue();
    let after = webhook.send("/readyz/", None, Vec::new()).await;
    assert_eq!((before.code, &*before.text), (200, "ok"));
    assert!(before.certificate != renewed && after.certificate == renewed);
    // Files that make no sense change nothing.
    std::fs::write(webhook.certificates.directory.path().join("tls.key"), "nonsense").unwrap();
    assert!(webhook.send("/readyz/", None, Vec::new()).await.certificate == renewed);
}

#[tokio::test]
async fn health_and_metrics_tell_what_happens() {
    let webhook = Webhook::alone(&["--feature-gates=Failover=true"]);
    let good = policy(json!({"resourceSelectors": config_maps()}));
    webhook.post("/validate-propagationpolicy", &review(&good)).await;
    let (code, text) = get(webhook.metrics_address(), "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "kubernetes_feature_enabled{name=\"Failover\",stage=\"BETA\"} 1",
        "kubernetes_feature_enabled{name=\"WorkloadAffinity\",stage=\"ALPHA\"} 0",
        "controller_runtime_webhook_requests_total{webhook=\"/validate-propagationpolicy\",code=\"200\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert_eq!(get(webhook.metrics_address(), "/healthz").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn every_registered_path_is_served() {
    let webhook = Webhook::alone(&[]);
    let authority = webhook.certificates.authority_file();
    let (url, authority) = (webhook.url(), authority.to_str().unwrap());
    let arguments = ["webhook", "--print-configuration", "--url", &url, "--ca-file", authority];
    let configurations = documents(&output(Path::new(BINARY), &arguments).unwrap());
    let kinds: Vec<_> = configurations.iter().map(|object| object["kind"].clone()).collect();
    assert_eq!(kinds, ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]);
    let hooks: Vec<&Value> = configurations
        .iter()
        .flat_map(|configuration| configuration["webhooks"].as_array().unwrap())
        .collect();
    assert_eq!(hooks.len(), 22);
    for hook in hooks {
        let config = &hook["clientConfig"];
        assert!(
            config["caBundle"].as_str().is_some_and(|bundle| bundle.starts_with("LS0tLS1CRUdJTi"))
        );
        let path = config["url"].as_str().unwrap().strip_prefix(&url).unwrap();
        let answer = webhook.post(path, &json!({"kind": "AdmissionReview"})).await;
        assert_eq!(
            answer["response"]["status"]["message"], "the review holds no request",
            "{path}"
        );
    }
}

#[test]
fn definitions_name_the_conversion_only_where_it_is_served() {
    let plain = documents(&output(Path::new(BINARY), &["crds"]).unwrap());
    assert_eq!(plain.len(), 19);
    assert!(plain.iter().all(|crd| crd["spec"].get("conversion").is_none()));
    let certificates = Certificates::new();
    let authority = certificates.authority_file();
    let authority = authority.to_str().unwrap();
    let arguments = ["crds", "--conversion-url", "https://hooks:8443", "--ca-file", authority];
    let converted = documents(&output(Path::new(BINARY), &arguments).unwrap());
    let urls: Vec<_> = converted
        .iter()
        .filter_map(|crd| crd["spec"]["conversion"]["webhook"]["clientConfig"]["url"].as_str())
        .collect();
    assert_eq!(urls, ["https://hooks:8443/convert"; 2]);
}

#[test]
fn the_version_names_kubernetes_and_every_feature() {
    let program = Path::new(BINARY);
    let yaml =
        output(program, &["version", "-o", "yaml", "--feature-gates=AllBeta=false"]).unwrap();
    let json =
        output(program, &["version", "-o", "json", "--feature-gates=AllBeta=false"]).unwrap();
    let version: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(documents(&yaml), std::slice::from_ref(&version));
    assert_eq!(version["kubernetesVersion"], "v1.36");
    let features = version["featureGates"].as_array().unwrap();
    assert_eq!(features.len(), 18);
    assert!(features.iter().all(|feature| feature["enabled"] == false));
    let short = output(program, &["version", "-o", "short"]).unwrap();
    assert_eq!(short.trim_end(), version["version"]);
    let unknown = output(program, &["version", "--feature-gates=Failovr=true"]).unwrap_err();
    assert!(
        unknown.contains("unrecognized feature gate: Failovr (did you mean Failover?)"),
        "{unknown}"
    );
}

#[test]
fn a_link_with_the_name_of_a_program_is_that_program() {
    let directory = tempfile::TempDir::new().unwrap();
    let link = directory.path().join("karmada-webhook");
    std::os::unix::fs::symlink(BINARY, &link).unwrap();
    let printed = output(&link, &["--print-configuration", "--url=https://hooks"]).unwrap();
    assert_eq!(documents(&printed).len(), 2);
    let other = directory.path().join("karmada-unheard-of");
    std::os::unix::fs::symlink(BINARY, &other).unwrap();
    assert!(output(&other, &["version", "-o", "short"]).unwrap().starts_with('v'));
    let nearest = output(&other, &["webhok"]).unwrap_err();
    assert!(nearest.contains("'webhook'"), "{nearest}");
}

#[test]
fn what_is_missing_at_the_start_is_named() {
    let program = Path::new(BINARY);
    let empty = tempfile::TempDir::new().unwrap();
    let without = format!("--cert-dir={}", empty.path().display());
    let error = output(program, &["webhook", &without]).unwrap_err();
    assert!(error.contains("read the serving certificate") && error.contains("tls.crt"), "{error}");

    let certificates = Certificates::new();
    let directory = format!("--cert-dir={}", certificates.directory.path().display());
    let error = output(program, &["webhook", &directory, "--kubeconfig=/nowhere"]).unwrap_err();
    assert!(error.contains("/nowhere"), "{error}");

    let nonsense = certificates.directory.path().join("tls.key");
    let arguments = ["crds", "--conversion-url=https://a", "--ca-file", nonsense.to_str().unwrap()];
    let error = output(program, &arguments).unwrap_err();
    assert!(error.contains("tls.key holds no certificate in PEM"), "{error}");
}

#[test]
fn it_ends_in_peace_when_asked_to() {
    let mut webhook = Webhook::alone(&[]);
    assert!(webhook.terminate().success());
}

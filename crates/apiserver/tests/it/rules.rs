//! Rules of custom resources and policies on changes: what was wrong before, and what is scaled.

use http::Method;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};

use crate::server::{admin, get, post, send, server};

async fn create(server: &Server, path: &str, body: Value) {
    let (code, answer) = post(server, admin(), path, &body.to_string()).await;
    assert_eq!(code, 201, "{answer}");
}

fn definition(rules: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "b": {"type": "string", "x-kubernetes-validations": rules},
                }}},
            }],
        },
    })
}

// Shows: CRD-11
#[tokio::test(start_paused = true)]
async fn a_broken_rule_is_forgiven_where_nothing_changed() {
    let server = server(Config::default()).await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(&server, definitions, definition(json!([]))).await;
    let things = "/apis/example.com/v1/things";
    while get(&server, admin(), things).await.status() != 200 {
        tokio::task::yield_now().await;
    }
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "b": "x"});
    create(&server, things, thing).await;
    let patch =
        json!({"spec": definition(json!([{"rule": "self != 'x'", "message": "not x"}]))["spec"]});
    let path = format!("{definitions}/things.example.com");
    let (code, answer) = send(&server, admin(), (Method::PATCH, &path), &patch.to_string()).await;
    assert_eq!(code, 200, "{answer}");
    let path = format!("{things}/t");
    let again = r#"{"b":"xx"}"#;
    while send(&server, admin(), (Method::PATCH, &format!("{things}/t?dryRun=All")), again).await.0
        != 200
    {
        tokio::task::yield_now().await;
    }
    let labelled = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    assert_eq!(send(&server, admin(), (Method::PATCH, &path), labelled).await.0, 200);
}

// Shows: VAP-1
#[tokio::test(start_paused = true)]
async fn a_policy_for_deployments_has_no_say_in_their_scale() {
    let server = server(Config::default()).await;
    let root = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["deployments"],
        }]},
        "validations": [{"expression": "object.spec.replicas <= 5", "message": "at most five"}],
    }});
    create(&server, &format!("{root}/validatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    create(&server, &format!("{root}/validatingadmissionpolicybindings"), binding).await;
    let deployment = |replicas: i64| {
        json!({"metadata": {"name": "d"}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }})
    };
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let refused = post(&server, admin(), deployments, &deployment(9).to_string()).await;
    assert_eq!(refused.0, 422);
    create(&server, deployments, deployment(1)).await;
    let scale = format!("{deployments}/d/scale");
    let more = r#"{"spec":{"replicas":9}}"#;
    assert_eq!(send(&server, admin(), (Method::PATCH, &scale), more).await.0, 200);
}

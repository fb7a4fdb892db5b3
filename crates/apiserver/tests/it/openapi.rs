//! What the published documents say beyond types.

use http_body_util::BodyExt as _;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::Config;

use crate::server::{admin, get, server};

// Shows: OAPI-2
#[tokio::test]
async fn documents_tell_how_lists_merge_and_what_operations_do() {
    let server = server(Config::default()).await;
    let read = async |path: &str| -> Value {
        let answer = get(&server, admin(), path).await;
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap()
    };
    let document = read("/openapi/v3/apis/apps/v1").await;
    let patch =
        &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let parameters = patch["parameters"].as_array().unwrap();
    for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
        assert!(parameters.iter().any(|parameter| parameter["name"] == name), "{name}");
    }
    let content = patch["requestBody"]["content"].as_object().unwrap();
    for kind in [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ] {
        assert!(content.contains_key(kind), "{kind}");
    }
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([kind]));
    let pod = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
    let containers = &pod["containers"];
    for (extension, expected) in [
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-map-keys", json!(["name"])),
        ("x-kubernetes-patch-strategy", json!("merge")),
        ("x-kubernetes-patch-merge-key", json!("name")),
    ] {
        assert_eq!(containers[extension], expected, "{extension}");
    }
    let selector = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"];
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    let ports = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"];
    assert_eq!(ports["protocol"]["default"], "TCP");
}

//! Groups of custom resources are announced as APIServices.

use http::Method;
use karmada_apimachinery::json;
use karmada_apiserver::Config;

use crate::server::{admin, get, post, send, server};

// Shows: AGG-1, DISC-4
#[tokio::test(start_paused = true)]
async fn a_group_of_custom_resources_has_an_api_service_while_it_is_served() {
    let server = server(Config::default()).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com";
    let (code, answer) = post(&server, admin(), collection, &definition.to_string()).await;
    assert_eq!(code, 201, "{answer}");
    while get(&server, admin(), service).await.status() != 200 {
        tokio::task::yield_now().await;
    }
    let path = format!("{collection}/things.example.com");
    assert_eq!(send(&server, admin(), (Method::DELETE, &path), "").await.0, 200);
    while get(&server, admin(), service).await.status() != 404 {
        tokio::task::yield_now().await;
    }
}

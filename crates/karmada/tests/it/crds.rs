//! What `karmada crds` prints, on an API server that has nothing of Karmada: every definition is served, those
//! for the cluster that hosts a control plane too.

use std::path::Path;

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::Client;

use crate::server::Server;
use crate::webhook::{BINARY, documents, install_definitions, output};

/// A control plane as an operator is told to keep it.
fn wish() -> Value {
    json!({
        "apiVersion": "operator.karmada.io/v1alpha1", "kind": "Karmada",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {
            "components": {
                "etcd": {"local": {"imageRepository": "registry.k8s.io/etcd", "imageTag": "3.5.9-0"}},
                "karmadaAPIServer": {"serviceType": "NodePort", "replicas": 2},
            },
            "featureGates": {"Failover": true},
        },
    })
}

#[tokio::test]
async fn printed_definitions_are_served_by_any_api_server() {
    let server = Server::plane(&[]);
    let client = Client::from_kubeconfig(&server.kubeconfig(), None).await.unwrap();
    let printed = |arguments: &[&str]| documents(&output(Path::new(BINARY), arguments).unwrap());
    let (own, host) = (printed(&["crds"]), printed(&["crds", "--host"]));
    assert_eq!((own.len(), host.len()), (19, 1));
    install_definitions(&client, own.iter().chain(&host).cloned()).await;
    for definition in own.iter().chain(&host) {
        for version in definition.list_at(&["spec", "versions"]) {
            let group = definition.str_at(&["spec", "group"]).unwrap();
            let plural = definition.str_at(&["spec", "names", "plural"]).unwrap();
            let gvr = Gvr::new(group, version.str_at(&["name"]).unwrap(), plural);
            client.api(&gvr).list(&Default::default()).await.unwrap();
        }
    }

    let karmadas =
        client.api(&Gvr::new("operator.karmada.io", "v1alpha1", "karmadas")).namespaced("default");
    let made = karmadas.create(&wish()).await.unwrap();
    assert_eq!(karmadas.get("demo").await.unwrap()["spec"], made["spec"]);
    for (path, expected) in [
        ("/spec/components/karmadaAPIServer/replicas", json!(2)),
        ("/spec/components/etcd/local/imageTag", json!("3.5.9-0")),
        ("/spec/featureGates/Failover", json!(true)),
    ] {
        assert_eq!(made.pointer(path), Some(&expected), "{path}: {made}");
    }
    let typed: karmada_api::operator::Karmada = karmada_apimachinery::from_value(made).unwrap();
    assert_eq!(typed.spec.feature_gates.get("Failover"), Some(&true));

    let mut wrong = wish();
    wrong["spec"]["components"]["karmadaAPIServer"]["replicas"] = "two".into();
    wrong["metadata"]["name"] = "wrong".into();
    let refused = karmadas.create(&wrong).await.unwrap_err().to_string();
    assert!(refused.contains("spec.components.karmadaAPIServer.replicas"), "{refused}");
}

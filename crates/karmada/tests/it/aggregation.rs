//! A second API server behind the first: two processes, one certificate between them, and kubectl in
//! front of both.

use std::process::{Command, Output};

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Value, json};
use karmada_client::{Client, ListOptions};

use crate::environment::confine;
use crate::server::{Server, eventually_awaited as eventually, text};

const GROUP: &str = "wardle.example.com";

async fn client(server: &Server) -> Client {
    Client::from_kubeconfig(&server.kubeconfig(), None).await.expect("make a client")
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("flunders.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "flunders", "kind": "Flunder", "shortNames": ["fl"]},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "description": "How large it is."},
                    }},
                }}},
            }],
        },
    })
}

/// Lets requests for the group go to the other process.
async fn register(front: &Client, port: u16) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "wardle"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let services = front.api(&Gvr::new("", "v1", "services")).namespaced("default");
    services.create(&service).await.expect("create a Service");
    let api_service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1alpha1.{GROUP}")},
        "spec": {
            "group": GROUP, "version": "v1alpha1",
            "groupPriorityMinimum": 1500, "versionPriority": 15, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "wardle", "port": port},
        },
    });
    let api_services = front.api(&Gvr::new("apiregistration.k8s.io", "v1", "apiservices"));
    api_services.create(&api_service).await.expect("create an APIService");
    eventually("the other process is found", || async {
        let found = api_services.get(api_service.name()).await.ok()?;
        let conditions = found.list_at(&["status", "conditions"]);
        conditions.iter().any(|c| c.str_at(&["status"]) == Some("True")).then_some(())
    })
    .await;
}

fn kubectl(program: &str, server: &Server, args: &str) -> Output {
    confine(&mut Command::new(program), &server.scratch().join("home"))
        .args(args.split_whitespace())
        .env("KUBECONFIG", server.kubeconfig())
        .output()
        .expect("run kubectl")
}

// Shows: AGG-2, AGG-3, AGG-4
#[tokio::test]
async fn a_second_process_serves_a_group_behind_the_first() {
    let front = Server::plane(&[]);
    let authority = front.data().join("pki/front-proxy-ca.crt");
    let authority = authority.to_str().expect("a path");
    let back = Server::plane(&[
        "--requestheader-client-ca-file",
        authority,
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]);
    let (near, far) = (client(&front).await, client(&back).await);
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    far.api(&definitions).create(&definition()).await.expect("define a kind");
    let port = back.address().rsplit(':').next().and_then(|port| port.parse().ok());
    register(&near, port.expect("a port")).await;

    let gvr = Gvr::new(GROUP, "v1alpha1", "flunders");
    let object = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Flunder",
        "metadata": {"name": "a"}, "spec": {"size": 1},
    });
    let flunders = near.api(&gvr).namespaced("default");
    // What the condition says holds for requests a moment later.
    eventually("requests are passed on", || async {
        flunders.list(&ListOptions::default()).await.ok().map(drop)
    })
    .await;
    flunders.create(&object).await.expect("create through the first");
    let kept = far.api(&gvr).namespaced("default").get("a").await.expect("the second keeps it");
    assert_eq!(kept["spec"]["size"], 1);
    assert!(
        near.api(&definitions).list(&ListOptions::default()).await.expect("list").items.is_empty()
    );

    let kubectls = std::env::var("KARMADA_TEST_KUBECTLS").unwrap_or_default();
    for program in kubectls.split(':').filter(|program| !program.is_empty()) {
        for (args, expected) in [
            ("get fl", "a"),
            ("get --raw /apis/wardle.example.com/v1alpha1", "flunders"),
            ("explain flunders.spec", "How large it is."),
            ("get apiservice v1alpha1.wardle.example.com", "default/wardle"),
            ("annotate flunder a k=v --overwrite", "annotated"),
            ("api-resources --api-group=wardle.example.com", "flunders"),
        ] {
            let output = kubectl(program, &front, args);
            assert!(text(&output).contains(expected), "{program} {args}: {}", text(&output));
        }
    }
    // Who comes without the proxy's certificate is nobody, whatever the headers say.
    let spoofed = Command::new("curl")
        .args(["-sk", "-H", "X-Remote-User: root", "-H", "X-Remote-Group: system:masters"])
        .arg(format!("https://{}/apis/{GROUP}/v1alpha1/flunders", back.address()))
        .output();
    if let Ok(spoofed) = spoofed {
        assert!(text(&spoofed).contains("system:anonymous"), "{}", text(&spoofed));
    }
}

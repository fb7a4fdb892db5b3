//! Webhooks are asked while everything else goes on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karmada_apimachinery::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::plane::{Plane, deployment, eventually, is};

const DEPLOYMENTS: &str = "deployments.v1.apps";
const WEBHOOKS: &str = "resourceinterpreterwebhookconfigurations.v1alpha1.config.karmada.io";

/// Which operations a webhook was asked about.
type Asked = Arc<Mutex<BTreeSet<String>>>;

/// A webhook that answers at once; returns where it listens.
async fn webhook(asked: Asked) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, asked.clone()));
        }
    });
    format!("http://{address}/interpret")
}

async fn serve(connection: TcpStream, asked: Asked) {
    let mut connection = BufReader::new(connection);
    while let Some(question) = read(&mut connection).await {
        let request = &question["request"];
        asked.lock().unwrap().insert(request["operation"].as_str().unwrap().to_owned());
        let body = json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
            "response": answer(request),
        });
        let body = body.to_string();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        connection.write_all((head + &body).as_bytes()).await.unwrap();
    }
}

/// The body of the next request; nothing when there is none any more.
async fn read(connection: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await.unwrap_or_default() == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(number) = line.to_lowercase().strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.unwrap();
    Some(serde_json::from_slice(&body).unwrap())
}

fn answer(request: &Value) -> Value {
    let mut answer = json!({"uid": request["uid"], "successful": true});
    let patch = match request["operation"].as_str().unwrap() {
        "InterpretStatus" => {
            answer["rawStatus"] = json!({"said": "by the webhook"});
            return answer;
        }
        "InterpretHealth" => {
            answer["healthy"] = true.into();
            return answer;
        }
        "ReviseReplica" => {
            let replicas = &request["replicas"];
            json!([{"op": "replace", "path": "/spec/replicas", "value": replicas}])
        }
        "AggregateStatus" => json!([{"op": "add", "path": "/status", "value": {"replicas": 9}}]),
        _ => return answer,
    };
    answer["patchType"] = "JSONPatch".into();
    answer["patch"] = STANDARD.encode(patch.to_string()).into();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_answers_is_heard_whatever_it_is_asked() {
    let asked = Asked::default();
    let url = webhook(asked.clone()).await;
    let mut plane = Plane::without_controllers(&["m1"]).await;
    plane.create("namespaces", "", json!({"metadata": {"name": "ns"}})).await;
    plane.create(WEBHOOKS, "", json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
        "metadata": {"name": "own"},
        "webhooks": [{
            "name": "own.example.com", "clientConfig": {"url": url}, "timeoutSeconds": 30,
            "interpreterContextVersions": ["v1alpha1"],
            "rules": [{"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "kinds": ["Deployment"]}],
        }],
    })).await;
    plane.start_controllers();
    let story = async {
        let template = plane.create(DEPLOYMENTS, "ns", deployment("web", 2)).await;
        plane.bind(&template, json!([{"name": "m1", "replicas": 3}]), json!({"replicas": 3})).await;
        let is_reported = |work: &Value| {
            let state = &work["status"]["manifestStatuses"][0];
            is(work, "Applied", "True")
                && state["health"] == "Healthy"
                && state["status"]["said"] == "by the webhook"
        };
        plane.eventually_work("m1", is_reported).await;
        let copy = plane.member("m1", DEPLOYMENTS);
        assert_eq!(copy.get("web").await.unwrap()["spec"]["replicas"], 3);
        copy.merge_patch("web", json!({"spec": {"replicas": 1}})).await.unwrap();
        let is_back = |object: Option<&Value>| object.unwrap()["spec"]["replicas"] == 3;
        plane.eventually_member("m1", DEPLOYMENTS, "web", is_back).await;
        let template = plane.api(DEPLOYMENTS).namespaced("ns");
        let is_told = async || template.get("web").await.unwrap()["status"]["replicas"] == 9;
        eventually("the template has the status that the webhook made", is_told).await;
    };
    let done = tokio::time::timeout(Duration::from_secs(30), story).await;
    let asked = asked.lock().unwrap().clone();
    assert!(done.is_ok(), "not in time; asked: {asked:?}");
    let all = ["AggregateStatus", "InterpretHealth", "InterpretStatus", "Retain", "ReviseReplica"];
    assert!(all.iter().all(|operation| asked.contains(*operation)), "{asked:?}");
    plane.stop().await;
}

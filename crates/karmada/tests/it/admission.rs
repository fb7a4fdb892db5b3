//! The recorded answers of the original to writes of Karmada's kinds, against the built binary. The same
//! cases are replayed against the functions alone in `crates/admission/tests`; here the whole server answers,
//! tables and conversion included.

use std::io::Read as _;

use flate2::read::GzDecoder;
use futures::StreamExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Map, Value, json};
use kube::Client;

use crate::server::{PATIENCE, Server};

#[path = "../../../admission/tests/it/normalise.rs"]
mod normalise;

/// Topics that are replayed at the same time; cases of one topic share names.
const LANES: usize = 3;

/// Every case of a profile, by topic.
fn topics(profile: Option<&str>) -> Vec<Vec<Value>> {
    let packed: &[u8] = include_bytes!("../../../admission/tests/golden/admission.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let mut topics: Vec<Vec<Value>> = Vec::new();
    for line in text.lines() {
        // What looks at a joined member is replayed where members are.
        if line.contains("clusters/member1") || line.contains("%3Dmember1") {
            continue;
        }
        let case: Value = serde_json::from_str(line).unwrap();
        if case.str_at(&["profile"]) != profile {
            continue;
        }
        match topics.iter_mut().find(|topic| topic[0]["topic"] == case["topic"]) {
            Some(topic) => topic.push(case),
            None => topics.push(vec![case]),
        }
    }
    topics
}

struct Replay {
    client: Client,
    /// Answers by section and number of the step, for requests that refer to them.
    answers: Value,
}

impl Replay {
    /// Plays a case and returns the first difference.
    async fn play(&mut self, case: &Value) -> Option<String> {
        self.answers = json!({"setup": [], "steps": []});
        for step in case.list_at(&["setup"]) {
            self.prepare(step).await;
        }
        let mut difference = None;
        let mut normaliser = normalise::Normaliser::default();
        for step in case.list_at(&["steps"]) {
            let (code, body) = self.send(step, "steps").await;
            let mut body = ages(body);
            normaliser.apply(&mut body);
            let observed = selected(plain(body), step.list_at(&["select"]));
            let expected = plain(step["response"]["body"].clone());
            let expected_code = step["response"]["code"].as_u64().unwrap_or_default();
            if difference.is_none() && (u64::from(code) != expected_code || observed != expected) {
                difference = Some(format!(
                    "expected {expected_code} {expected}\n  observed {code} {observed}"
                ));
            }
        }
        for step in case.list_at(&["teardown"]) {
            self.prepare(step).await;
        }
        difference
    }

    /// Sends a step that is not compared, until it answers what it must.
    async fn prepare(&mut self, step: &Value) {
        if step.get("request").is_none() {
            return;
        }
        let began = std::time::Instant::now();
        loop {
            let (code, _) = self.send(step, "setup").await;
            match step.i64_at(&["until"]) {
                Some(until) if i64::from(code) != until && began.elapsed() < PATIENCE => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                _ => return,
            }
        }
    }

    async fn send(&mut self, step: &Value, section: &str) -> (u16, Value) {
        let asked = self.resolve(&step["request"]);
        let body = match &asked["body"] {
            Value::Null => Vec::new(),
            Value::String(text) => text.as_bytes().to_vec(),
            body => body.to_string().into_bytes(),
        };
        let mut request = Request::builder()
            .method(asked.str_at(&["method"]).unwrap())
            .uri(asked.str_at(&["path"]).unwrap());
        let mut headers = json!({"Accept": "application/json", "Content-Type": "application/json"});
        headers
            .as_object_mut()
            .unwrap()
            .extend(asked["headers"].as_object().cloned().unwrap_or_default());
        for (name, value) in headers.as_object().unwrap() {
            request = request.header(name.as_str(), value.as_str().unwrap_or_default());
        }
        let response = self.client.send(request.body(body.into()).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        self.answers[section].as_array_mut().unwrap().push(json!({"code": code, "body": body}));
        (code, body)
    }

    /// Puts values of earlier answers where `${steps.0.body.metadata.uid}` stands.
    fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                match text.strip_prefix("${").and_then(|text| text.strip_suffix('}')) {
                    Some(path) => {
                        let pointer = format!("/{}", path.replace('.', "/"));
                        self.answers.pointer(&pointer).cloned().unwrap_or_default()
                    }
                    None => value.clone(),
                }
            }
            Value::Array(items) => items.iter().map(|item| self.resolve(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| (key.clone(), self.resolve(value)))
                .collect::<Map>()
                .into(),
            other => other.clone(),
        }
    }
}

fn selected(body: Value, select: &[Value]) -> Value {
    if select.is_empty() {
        return body;
    }
    let kept = select.iter().filter_map(Value::as_str);
    kept.filter_map(|field| Some((field.to_owned(), body.get(field)?.clone())))
        .collect::<Map>()
        .into()
}

/// Cells of the columns that show an age.
fn ages(mut body: Value) -> Value {
    if body.kind() != "Table" {
        return body;
    }
    let names: Vec<String> = body
        .list_at(&["columnDefinitions"])
        .iter()
        .map(|column| column.str_at(&["name"]).unwrap_or_default().to_lowercase())
        .collect();
    for row in body["rows"].as_array_mut().into_iter().flatten() {
        for (cell, name) in row["cells"].as_array_mut().into_iter().flatten().zip(&names) {
            if (name == "age" || name == "created at") && cell.is_string() {
                *cell = "<age>".into();
            }
        }
    }
    body
}

/// Addresses of servers differ from run to run.
fn plain(body: Value) -> Value {
    let pattern = regex::Regex::new(r"https://127\.0\.0\.1:\d+").unwrap();
    let text = body.to_string();
    serde_json::from_str(&pattern.replace_all(&text, "<server>")).unwrap()
}

pub(crate) async fn client(server: &Server) -> Client {
    let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
    let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Replays all cases of a profile; returns how many there were and what differed.
async fn replay(server: &Server, profile: Option<&str>) -> (usize, Vec<String>) {
    let client = client(server).await;
    let namespace = json!({"request": {"method": "POST", "path": "/api/v1/namespaces",
        "body": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "golden-admission"}}}});
    Replay { client: client.clone(), answers: json!({"setup": []}) }
        .send(&namespace, "setup")
        .await;
    let lanes = futures::stream::iter(topics(profile)).map(|topic| {
        let mut replay = Replay { client: client.clone(), answers: Value::Null };
        async move {
            let (count, mut differences) = (topic.len(), Vec::new());
            for case in topic {
                if let Some(difference) = replay.play(&case).await {
                    differences.push(format!("{}: {difference}", case["id"]));
                }
            }
            (count, differences)
        }
    });
    let results: Vec<(usize, Vec<String>)> = lanes.buffer_unordered(LANES).collect().await;
    let count = results.iter().map(|(count, _)| count).sum();
    (count, results.into_iter().flat_map(|(_, differences)| differences).collect())
}

/// What is recorded is what admission answers: nobody is to write states and finalizers meanwhile.
const ADMISSION_ALONE: &str = "--controllers=-multiclusterservice,-endpointSlice,-serviceImport,\
    -federatedHorizontalPodAutoscaler,-cronFederatedHorizontalPodAutoscaler,*";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_admission_is_answered_alike() {
    let server = Server::up_with(&[ADMISSION_ALONE]);
    let (count, differences) = replay(&server, None).await;
    assert!(count > 550, "only {count} cases were replayed");
    assert_eq!(differences, Vec::<String>::new(), "of {count}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_admission_with_every_gate_is_answered_alike() {
    let gates = "--feature-gates=AllAlpha=true,AllBeta=true";
    let flags = [ADMISSION_ALONE, gates, "--allow-no-execute-taint-policy"];
    let server = Server::up_with(&flags);
    let (count, differences) = replay(&server, Some("gates")).await;
    assert!(count >= 7, "only {count} cases were replayed");
    assert_eq!(differences, Vec::<String>::new(), "of {count}");
}

//! Definitions that others wrote: every file of the folder `KARMADA_TEST_CRDS` is sent as it is, and objects of each kind
//! are made up from its schema, right ones and wrong ones. Where `KARMADA_TEST_KUBECONFIGS` names a real cluster made for
//! tests, both must answer the same; else definitions must be taken.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use http::Method;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_apimachinery::{Map, Value, decode, json};
use karmada_client::Client;

use crate::server::{PATIENCE, Server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How many differences are shown.
const SHOWN: usize = 40;

/// What a server says: the object without what is its own, or its refusal.
type Answer = Result<Value, String>;

async fn ask(client: &Client, method: Method, path: &str, content: (&str, &str)) -> Answer {
    let began = Instant::now();
    loop {
        let request = http::Request::builder()
            .method(method.clone())
            .uri(path)
            .header("content-type", content.0)
            .header("accept", "application/json")
            .body(karmada_client::Body::from(content.1.to_owned().into_bytes()))
            .expect("make a request");
        match client.request_json(request).await {
            Ok(answer) => return Ok(comparable(answer)),
            // It is served a moment after it was established.
            Err(error)
                if error.api().is_some_and(|own| [404, 429].contains(&own.code))
                    && method == Method::POST
                    && began.elapsed() < PATIENCE =>
            {
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
            Err(error) => return Err(refusal(&error)),
        }
    }
}

/// A refusal, whatever the order of its causes.
fn refusal(error: &karmada_client::Error) -> String {
    let Some(own) = error.api() else { return error.to_string() };
    let causes = own.details.list_at(&["causes"]);
    if causes.is_empty() {
        return format!("{} {}", own.code, own.message);
    }
    let mut causes: Vec<String> = causes.iter().map(Value::to_string).collect();
    causes.sort();
    format!("{} {}: {}", own.code, own.reason, causes.join(", "))
}

fn comparable(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| ["name", "labels", "annotations"].contains(&key.as_str()));
    }
    object
}

/// The definitions of a folder, as text.
fn definitions(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("read the folder")
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(definitions(&path));
            continue;
        }
        let is_yaml = path.extension().is_some_and(|own| own == "yaml" || own == "yml");
        let Some(text) = is_yaml.then(|| std::fs::read_to_string(&path).ok()).flatten() else {
            continue;
        };
        let documents = text.split("\n---").map(|text| text.trim_start_matches("---").to_owned());
        let is_definition = |text: &String| {
            text.contains("kind: CustomResourceDefinition")
                && text.contains("apiextensions.k8s.io/v1\n")
        };
        found.extend(documents.filter(is_definition).map(|text| (path.clone(), text)));
    }
    found
}

/// A value a schema takes, with only what it requires, or with everything it knows.
fn fitting(schema: &Value, everything: bool, depth: usize) -> Value {
    if let Some(value) = schema.get("default").or_else(|| schema.list_at(&["enum"]).first()) {
        return value.clone();
    }
    let least = |key: &str| schema.i64_at(&[key]).unwrap_or_default().max(1);
    match schema.str_at(&["type"]).unwrap_or_default() {
        "string" => match schema.str_at(&["format"]) {
            Some("date-time") => "2026-01-01T00:00:00Z".into(),
            Some("duration") => "1s".into(),
            _ => "a".repeat(usize::try_from(least("minLength")).unwrap_or(1).min(64)).into(),
        },
        "integer" | "number" => least("minimum").into(),
        "boolean" => true.into(),
        "array" => {
            let count = schema.i64_at(&["minItems"]).unwrap_or_default().max(i64::from(everything));
            let item = schema.get("items").cloned().unwrap_or_default();
            let count = if depth > 8 { 0 } else { count };
            (0..count.min(4)).map(|_| fitting(&item, everything, depth + 1)).collect()
        }
        _ => {
            let required: BTreeSet<&str> =
                schema.list_at(&["required"]).iter().filter_map(Value::as_str).collect();
            let known = schema.map_at(&["properties"]).into_iter().flatten();
            let wanted = known
                .filter(|(key, _)| required.contains(key.as_str()) || (everything && depth < 6));
            let fields =
                wanted.map(|(key, own)| (key.clone(), fitting(own, everything, depth + 1)));
            Value::Object(fields.collect())
        }
    }
}

/// The same shape with the wrong types.
fn wrong(schema: &Value, depth: usize) -> Value {
    match (schema.str_at(&["type"]).unwrap_or_default(), schema.map_at(&["properties"])) {
        ("object", Some(known)) if depth < 2 => known
            .iter()
            .map(|(key, own)| (key.clone(), wrong(own, depth + 1)))
            .collect::<Map>()
            .into(),
        ("string", _) => 5.into(),
        _ => "wrong".into(),
    }
}

/// Objects of a version of a definition: what is asked, and the object.
fn objects(version: &Value) -> Vec<(&'static str, Value)> {
    let schema = version.at(&["schema", "openAPIV3Schema"]).cloned().unwrap_or_default();
    let of = |value: &dyn Fn(&Value) -> Value| -> Value {
        let known = schema.map_at(&["properties"]).into_iter().flatten();
        let own = known.filter(|(key, _)| {
            !["apiVersion", "kind", "metadata", "status"].contains(&key.as_str())
        });
        own.map(|(key, schema)| (key.clone(), value(schema))).collect::<Map>().into()
    };
    vec![
        ("nothing", json!({})),
        ("an empty spec", json!({"spec": {}})),
        ("what is required", of(&|schema| fitting(schema, false, 0))),
        ("everything", of(&|schema| fitting(schema, true, 0))),
        ("wrong types", of(&|schema| wrong(schema, 0))),
        ("an unknown field", json!({"spec": {"noSuchFieldAtAll": 1}})),
    ]
}

struct Tally {
    definitions: usize,
    taken: usize,
    objects: usize,
    fit: usize,
    differences: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: &str, ours: &Answer, theirs: &Answer) {
        if ours != theirs {
            self.differences.push(format!("{what}\n  ours: {ours:?}\n  real: {theirs:?}"));
        }
    }
}

#[tokio::test]
async fn real_definitions_of_others_are_taken_as_kubernetes_takes_them() {
    let Some(folder) = std::env::var_os("KARMADA_TEST_CRDS").map(PathBuf::from) else {
        eprintln!("SKIPPED definitions of others: KARMADA_TEST_CRDS names no folder");
        return;
    };
    let server = Server::plane(&[]);
    let ours = Client::from_kubeconfig(&server.kubeconfig(), None).await.unwrap();
    let named = std::env::var("KARMADA_TEST_KUBECONFIGS").unwrap_or_default();
    let real = match named.split(':').find(|path| !path.is_empty()) {
        Some(path) => Some(Client::from_kubeconfig(Path::new(path), None).await.unwrap()),
        None => None,
    };
    let mut tally = Tally { definitions: 0, taken: 0, objects: 0, fit: 0, differences: Vec::new() };
    for (path, text) in definitions(&folder) {
        tally.definitions += 1;
        let place = path.display().to_string();
        let taken = ask(&ours, Method::POST, DEFINITIONS, ("application/yaml", &text)).await;
        let definition = match (&taken, &real) {
            (Ok(definition), _) => definition.clone(),
            (Err(_), None) => {
                tally.compare(&place, &taken, &Ok(Value::Null));
                continue;
            }
            (Err(_), Some(_)) => {
                decode::yaml_untyped(text.as_bytes()).map(|own| own.value).unwrap_or_default()
            }
        };
        let own = format!("{DEFINITIONS}/{}", definition.name());
        tally.taken += usize::from(taken.is_ok());
        let both: Vec<&Client> = std::iter::once(&ours).chain(&real).collect();
        let mut everywhere = taken.is_ok();
        if let Some(real) = &real {
            let theirs = ask(real, Method::POST, DEFINITIONS, ("application/yaml", &text)).await;
            let outcome =
                |answer: &Answer| answer.as_ref().map(|_| Value::Null).map_err(Clone::clone);
            tally.compare(&place, &outcome(&taken), &outcome(&theirs));
            everywhere &= theirs.is_ok();
        }
        if everywhere {
            for client in &both {
                established(client, &own).await;
            }
            try_objects(&mut tally, &definition, &ours, real.as_ref()).await;
        }
        for client in &both {
            gone(client, &own).await;
        }
    }
    let Tally { definitions, taken, objects, fit, differences } = tally;
    eprintln!(
        "{taken} of {definitions} definitions taken, {fit} of {objects} objects; {} differences",
        differences.len()
    );
    assert!(definitions > 0, "there are no definitions in {}", folder.display());
    let shown: Vec<&String> = differences.iter().take(SHOWN).collect();
    assert!(differences.is_empty(), "{} differences:\n{shown:#?}", differences.len());
}

async fn try_objects(tally: &mut Tally, definition: &Value, ours: &Client, real: Option<&Client>) {
    let text = |path: &[&str]| definition.str_at(path).unwrap_or_default().to_owned();
    let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
    let by_webhook = text(&["spec", "conversion", "strategy"]) == "Webhook";
    let place = if text(&["spec", "scope"]) == "Namespaced" { "namespaces/default/" } else { "" };
    for version in definition.list_at(&["spec", "versions"]) {
        let is = |key: &str| version.bool_at(&[key]) == Some(true);
        // Nobody converts here.
        if !is("served") || (by_webhook && !is("storage")) {
            continue;
        }
        let name = version.str_at(&["name"]).unwrap_or_default();
        let path = format!("/apis/{group}/{name}/{place}{}", text(&["spec", "names", "plural"]));
        for (what, mut object) in objects(version) {
            for (key, value) in [("apiVersion", format!("{group}/{name}")), ("kind", kind.clone())]
            {
                object[key] = value.into();
            }
            object["metadata"] = json!({"name": "sample"});
            let strictness = if what == "an unknown field" { "Strict" } else { "Ignore" };
            let path = format!("{path}?dryRun=All&fieldValidation={strictness}");
            let body = object.to_string();
            let answer = ask(ours, Method::POST, &path, ("application/json", &body)).await;
            tally.objects += 1;
            tally.fit += usize::from(answer.is_ok());
            if let Some(real) = real {
                let theirs = ask(real, Method::POST, &path, ("application/json", &body)).await;
                tally.compare(&format!("{kind}.{name}.{group}, {what}"), &answer, &theirs);
            }
        }
    }
}

async fn established(client: &Client, path: &str) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let found = client.get_path(path, "application/json").await.unwrap_or_default();
        let is_so = |own: &Value| own["type"] == "Established" && own["status"] == "True";
        if found.list_at(&["status", "conditions"]).iter().any(is_so) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{path} is not served");
}

async fn gone(client: &Client, path: &str) {
    // It may never have been there.
    let _ = ask(client, Method::DELETE, path, ("application/json", "")).await;
    let began = Instant::now();
    while client.get_path(path, "application/json").await.is_ok() {
        assert!(began.elapsed() < PATIENCE, "{path} does not go");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

//! Many definitions: hundreds of generated ones, and those of real operators where a folder of them is named.

use std::time::Instant;

use http_body_util::BodyExt;
use karmada_apimachinery::object::ObjectExt;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::{Config, Server};

use crate::server::{admin, get, post, server};

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How many are made; more by `KARMADA_DEFINITIONS`.
const COUNT: usize = 60;

async fn read(server: &Server, path: &str) -> (u16, Value) {
    let response = get(server, admin(), path).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// A definition with a schema of the size operators have.
fn definition(number: usize) -> Value {
    let field = |name: String| {
        let inner = json!({"type": "object", "properties": {
            "enabled": {"type": "boolean", "description": "Whether this part is wanted."},
            "size": {"type": "integer", "minimum": 0, "default": 1},
            "items": {"type": "array", "items": {"type": "string", "maxLength": 63}},
        }});
        (name, inner)
    };
    let fields: karmada_apimachinery::Map =
        (0..40).map(|part| field(format!("part{part}"))).collect();
    let group = format!("g{}.example.com", number % 50);
    json!({
        "metadata": {"name": format!("things{number}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": format!("things{number}"), "kind": format!("Thing{number}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields},
                }}},
            }],
        },
    })
}

async fn until_served(server: &Server, path: &str) {
    let began = Instant::now();
    while get(server, admin(), path).await.status() != 200 {
        assert!(began.elapsed().as_secs() < 300, "{path} is not served");
        tokio::task::yield_now().await;
    }
}

fn resident_mib() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096 / (1 << 20)
}

// Shows: CRD-2, OAPI-3
#[tokio::test(start_paused = true)]
async fn hundreds_of_definitions_are_served_and_described() {
    let count = std::env::var("KARMADA_DEFINITIONS").ok().and_then(|text| text.parse().ok());
    let count: usize = count.unwrap_or(COUNT);
    let server = server(Config::default()).await;
    let (before, mut began) = (resident_mib(), Instant::now());
    for number in 0..count {
        let (code, answer) =
            post(&server, admin(), COLLECTION, &definition(number).to_string()).await;
        assert_eq!(code, 201, "{answer}");
        let group = format!("g{}.example.com", number % 50);
        until_served(&server, &format!("/apis/{group}/v1/things{number}")).await;
        if (number + 1) % 100 == 0 {
            eprintln!("{} definitions: the last 100 took {:?}", number + 1, began.elapsed());
            began = Instant::now();
        }
    }
    began = Instant::now();
    let (_, index) = read(&server, "/openapi/v3").await;
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.keys().filter(|path| path.contains(".example.com/v1")).count(), count.min(50));
    let url = index["paths"]["apis/g7.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let (code, document) = read(&server, url).await;
    assert_eq!(code, 200);
    assert!(document["components"]["schemas"]["com.example.g7.v1.Thing7"].is_object());
    let (_, groups) = read(&server, "/apis").await;
    let own = groups.list_at(&["groups"]).iter();
    assert_eq!(
        own.filter(|g| g["name"].as_str().unwrap().contains(".example.com")).count(),
        count.min(50)
    );
    eprintln!(
        "{count} definitions: {} MiB more, described in {:?}",
        resident_mib().saturating_sub(before),
        began.elapsed()
    );
}

/// `KARMADA_TEST_CRDS` names a folder of definitions as YAML, of any depth.
#[tokio::test(start_paused = true)]
async fn definitions_of_real_operators_are_accepted() {
    let Ok(folder) = std::env::var("KARMADA_TEST_CRDS") else { return };
    let server = server(Config::default()).await;
    let mut folders = vec![std::path::PathBuf::from(folder)];
    let (mut installed, mut refused) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            for part in
                text.split("\n---").filter(|part| part.contains("kind: CustomResourceDefinition"))
            {
                let request =
                    http::Request::post(COLLECTION).header("content-type", "application/yaml");
                let body = http_body_util::Full::new(bytes::Bytes::from(part.to_owned()));
                let request = request.body(body).unwrap();
                let mut acting = server.handle().acting_as(admin());
                let response = tower::Service::call(&mut acting, request).await.unwrap();
                let code = response.status().as_u16();
                let bytes = response.into_body().collect().await.unwrap().to_bytes();
                match code {
                    201 | 409 => installed += 1,
                    _ => refused.push(format!(
                        "{}: {}",
                        path.display(),
                        String::from_utf8_lossy(&bytes)
                    )),
                }
            }
        }
    }
    eprintln!(
        "{installed} definitions accepted, {} refused, {} MiB",
        refused.len(),
        resident_mib()
    );
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    let (_, all) = read(&server, COLLECTION).await;
    for definition in all.list_at(&["items"]) {
        let group = definition["spec"]["group"].as_str().unwrap();
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
        let served = definition.list_at(&["spec", "versions"]).iter().find(|v| v["served"] == true);
        let Some(version) = served.and_then(|version| version["name"].as_str()) else { continue };
        until_served(&server, &format!("/apis/{group}/{version}/{plural}")).await;
    }
    for path in ["/openapi/v2", "/openapi/v3", "/apis"] {
        assert_eq!(get(&server, admin(), path).await.status(), 200);
    }
}

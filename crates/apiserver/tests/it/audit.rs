//! The audit log of a running server.

use std::path::Path;
use std::sync::Arc;

use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use jiff::SignedDuration;
use karmada_apimachinery::{Value, json};
use karmada_apiserver::audit::{Audit, Log, LogSettings, Policy};
use karmada_apiserver::auth::Identity;
use karmada_apiserver::{Config, Server};
use karmada_handover::Content;
use karmada_store::Memory;

use crate::handed::{self, asked, without_chance};
use crate::server::{admin, builder, get, post, send};

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- {level: None, users: [quiet]}
- level: Metadata
  resources: [{group: '', resources: [secrets]}]
- level: RequestResponse
  resources: [{group: '', resources: [configmaps]}]
";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn audited(dir: &Path) -> Server {
    let settings = LogSettings {
        path: dir.join("audit.log"),
        max_bytes: 0,
        max_backups: 0,
        max_age: SignedDuration::ZERO,
    };
    let audit = Audit::new(Policy::parse(POLICY).unwrap(), Log::open(settings).unwrap());
    let server =
        builder(Config::default(), Arc::new(Memory::new())).audit(audit).start().await.unwrap();
    // The server's own first writes are logged as well, and not what these tests are about.
    std::fs::write(dir.join("audit.log"), "").unwrap();
    server
}

fn logged(dir: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(dir.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stages(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["stage"].as_str().unwrap()).collect()
}

// Shows: LOG-1
#[tokio::test(start_paused = true)]
async fn requests_are_logged_as_far_as_the_policy_wants() {
    let dir = tempfile::tempdir().unwrap();
    let server = audited(dir.path()).await;
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "b"}}).to_string();
    let (code, made) = post(&server, admin(), MAPS, &map).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(post(&server, Identity::new("quiet", ["system:masters"]), MAPS, &map).await.0, 409);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": "hidden"}}).to_string();
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(post(&server, admin(), secrets, &secret).await.0, 201);
    assert_eq!(get(&server, admin(), "/version").await.status(), 200);

    let events = logged(dir.path());
    assert_eq!(
        stages(&events),
        ["RequestReceived", "ResponseComplete", "RequestReceived", "ResponseComplete"]
    );
    let whole = &events[1];
    assert_eq!(whole["kind"], "Event");
    assert_eq!(whole["apiVersion"], "audit.k8s.io/v1");
    assert_eq!(whole["level"], "RequestResponse");
    assert_eq!(whole["requestURI"], MAPS);
    assert_eq!(whole["verb"], "create");
    assert_eq!(
        whole["user"],
        json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]})
    );
    assert_eq!(
        whole["objectRef"],
        json!({"resource": "configmaps", "namespace": "default", "name": "m", "apiVersion": "v1"})
    );
    assert_eq!(whole["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(whole["requestObject"]["data"], json!({"a": "b"}));
    assert_eq!(whole["responseObject"]["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(whole["responseObject"]["metadata"].get("managedFields").is_none());
    assert_eq!(whole["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(whole["auditID"], events[0]["auditID"]);

    let text = std::fs::read_to_string(dir.path().join("audit.log")).unwrap();
    assert!(!text.contains("hidden"), "what is in a secret is not logged at level Metadata");
    assert_eq!(events[3]["objectRef"]["name"], "s");
}

#[tokio::test(start_paused = true)]
async fn refusals_and_impersonation_are_logged_with_their_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = audited(dir.path()).await;
    let nobody = Identity::new("bob", ["system:authenticated"]);
    assert_eq!(get(&server, nobody, &format!("{MAPS}/m")).await.status(), 403);
    let mut request =
        Request::get(format!("{MAPS}/m")).body(Full::new(bytes::Bytes::new())).unwrap();
    request.headers_mut().insert("impersonate-user", "carol".parse().unwrap());
    let mut service = server.handle().acting_as(admin());
    let answer = tower::Service::call(&mut service, request).await.unwrap();
    assert_eq!(answer.status(), 403);
    let unknown = Request::get(format!("{MAPS}/m"))
        .header("authorization", "Bearer nonsense")
        .body(karmada_apiserver::http::body::empty())
        .unwrap();
    assert_eq!(server.handle().answer(unknown).await.status(), 401);

    let events = logged(dir.path());
    let refused = &events[1];
    assert_eq!(refused["responseStatus"]["reason"], "Forbidden");
    assert_eq!(refused["responseStatus"]["code"], 403);
    assert_eq!(refused["annotations"]["authorization.k8s.io/decision"], "forbid");
    let other = &events[3];
    assert_eq!(other["user"]["username"], "admin");
    assert_eq!(other["impersonatedUser"]["username"], "carol");
    let stranger = &events[4];
    assert_eq!(stranger["stage"], "ResponseStarted");
    assert_eq!(stranger["responseStatus"]["code"], 401);
    assert_eq!(events.len(), 5, "{events:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_complete_when_its_reader_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let server = audited(dir.path()).await;
    let mut watch = get(&server, admin(), &format!("{MAPS}?watch=1")).await.into_body();
    let map = json!({"metadata": {"name": "m"}}).to_string();
    assert_eq!(send(&server, admin(), (Method::POST, MAPS), &map).await.0, 201);
    watch.frame().await.unwrap().unwrap();
    let about = |events: &[Value]| -> Vec<String> {
        let watches = events.iter().filter(|event| event["verb"] == "watch");
        watches.map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(about(&logged(dir.path())), ["RequestReceived", "ResponseStarted"]);
    drop(watch);
    assert_eq!(
        about(&logged(dir.path())),
        ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    );
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_same_process_are_logged_like_others() {
    let (called, spoken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let servers = (audited(called.path()).await, audited(spoken.path()).await);
    let map = json!({"metadata": {"name": "m:1"}, "data": {"a": "b"}});
    let content = Some(("application/json", Content::Tree(map)));
    let mut create = asked(Method::POST, handed::MAPS, "", content);
    create.query = vec![("fieldManager", "some one".to_owned())];
    let mut list = asked(Method::GET, handed::MAPS, "", None);
    list.query = vec![("fieldSelector", "metadata.name=x".to_owned())];
    for asked in [create, list, asked(Method::GET, handed::MAPS, "a:b", None)] {
        let told = handed::call(&servers.0, &admin(), asked.clone()).await;
        let said = handed::say(&servers.1, &admin(), asked).await;
        assert_eq!(without_chance(told.1), without_chance(said.1));
    }
    let events = |dir: &Path| logged(dir).into_iter().map(without_chance).collect::<Vec<_>>();
    assert_eq!(events(called.path()), events(spoken.path()));
    let ids: Vec<Value> = logged(called.path()).iter().map(|e| e["auditID"].clone()).collect();
    assert_eq!((ids.len(), ids[0] == ids[1], ids[0] == ids[2]), (6, true, false));
}

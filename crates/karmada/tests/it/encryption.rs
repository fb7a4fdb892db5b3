//! Secrets at rest: what the API takes and gives is nowhere to be found on the disk.

use karmada_apimachinery::gvk::Gvr;
use karmada_apimachinery::json;
use karmada_apimachinery::object::ObjectExt as _;
use karmada_client::{Api, Client, ListOptions};

use crate::kms_plugin::KmsPlugin;
use crate::server::Server;

const WORD: &str = "c3dvcmRmaXNo";

async fn secrets(server: &Server) -> Api {
    let client = Client::from_kubeconfig(&server.kubeconfig(), None).await.expect("make a client");
    client.api(&Gvr::new("", "v1", "secrets")).namespaced("default")
}

fn is_on_disk(server: &Server) -> bool {
    let store = server.data().join("store");
    std::fs::read_dir(store).expect("list the store").any(|entry| {
        let bytes = std::fs::read(entry.expect("an entry").path()).unwrap_or_default();
        bytes.windows(WORD.len()).any(|window| window == WORD.as_bytes())
    })
}

#[tokio::test]
async fn secrets_are_not_on_the_disk_and_are_read_after_a_restart() {
    let dir = tempfile::tempdir().expect("make a directory");
    let file = dir.path().join("encryption.yaml");
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{
            "resources": ["secrets"],
            "providers": [
                {"aesgcm": {"keys": [{"name": "key1", "secret": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}},
                {"identity": {}},
            ],
        }],
    });
    std::fs::write(&file, configuration.to_string()).expect("write the configuration");
    let path = file.to_str().expect("a path");
    let mut server = Server::plane(&["--encryption-provider-config", path]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"word": WORD},
    });
    secrets(&server).await.create(&secret).await.expect("create");
    assert!(!is_on_disk(&server));
    server.kill();
    server.start_again();
    let api = secrets(&server).await;
    let listed = api.list(&ListOptions::default()).await.expect("list");
    assert!(listed.items.iter().any(|item| item.name() == "a"));
    let read = api.get("a").await.expect("get");
    assert_eq!(read.str_at(&["data", "word"]), Some(WORD));
    assert!(!is_on_disk(&server));
    // A change of mind shows that the disk was looked at in the right place.
    server.kill();
    let mut opened = configuration.clone();
    let cipher = configuration["resources"][0]["providers"][0].clone();
    opened["resources"][0]["providers"] = json!([{"identity": {}}, cipher]);
    std::fs::write(&file, opened.to_string()).expect("write the configuration");
    server.start_again();
    assert_eq!(
        secrets(&server).await.get("a").await.expect("get").str_at(&["data", "word"]),
        Some(WORD)
    );
    assert!(is_on_disk(&server));
}

/// The plugin answers beside the test, which waits for the server.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_guarded_by_a_plugin_and_the_server_says_how_it_is() {
    let dir = tempfile::tempdir().expect("make a directory");
    let plugin = KmsPlugin::start(dir.path().join("kms.sock"));
    let file = dir.path().join("encryption.yaml");
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{
            "resources": ["secrets"],
            "providers": [
                {"kms": {"apiVersion": "v2", "name": "guard", "endpoint": plugin.endpoint.clone()}},
                {"identity": {}},
            ],
        }],
    });
    std::fs::write(&file, configuration.to_string()).expect("write the configuration");
    let path = file.to_str().expect("a path");
    let mut server = Server::plane(&["--encryption-provider-config", path]);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"word": WORD},
    });
    secrets(&server).await.create(&secret).await.expect("create");
    assert!(!is_on_disk(&server));
    server.kill();
    plugin.mood().key_id = "key-2".to_owned();
    server.start_again();
    let read = secrets(&server).await.get("a").await.expect("get");
    assert_eq!(read.str_at(&["data", "word"]), Some(WORD));
    assert!(!is_on_disk(&server));
    let client = Client::from_kubeconfig(&server.kubeconfig(), None).await.expect("make a client");
    for (path, said) in
        [("/readyz?verbose", true), ("/healthz?verbose", true), ("/livez?verbose", false)]
    {
        let checks = client.get_text(path, "text/plain").await.expect("ask for the health");
        let checks = String::from_utf8_lossy(&checks).into_owned();
        assert_eq!(checks.contains("[+]kms-providers ok"), said, "{path}: {checks}");
    }
    assert_eq!(plugin.mood().encrypted, 2, "one seed per start");
}

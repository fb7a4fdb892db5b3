//! Who owns what they wrote, where storage keeps nothing of it.

use karmada_apimachinery::json;
use karmada_apiserver::Config;

use crate::server::{admin, post, server};

// Shows: META-8
#[tokio::test]
async fn whoever_writes_an_empty_list_owns_it() {
    let server = server(Config::default()).await;
    let path = "/api/v1/namespaces/default/limitranges";
    let range = |name: &str, spec| json!({"metadata": {"name": name}, "spec": spec}).to_string();
    let (code, written) = post(&server, admin(), path, &range("a", json!({"limits": []}))).await;
    assert_eq!((code, &written["spec"]), (201, &json!({"limits": null})), "{written}");
    let owned = &written["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned, &json!({"f:spec": {"f:limits": {}}}));
    let (_, absent) = post(&server, admin(), path, &range("b", json!({}))).await;
    assert_eq!(absent["spec"], json!({"limits": null}));
    assert_eq!(absent["metadata"].get("managedFields"), None, "nothing was said, nothing is owned");
}
